"""Say what runs: descriptions and groups of Spark's jobs, and a line of the log for each stage.

Spark shows a description beside a job, in its pages and its log of events. By itself it names the
line of Python that asked, which is the same for all stages of ours. Jobs of a stage are a group of
the same name, by which one can cancel them; but a group that the caller has set stays.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession

__all__ = ["counted_rows", "named_job", "running"]

_LOG = logging.getLogger("lshdb.spark")
_DESCRIPTION = "spark.job.description"
_GROUP = "spark.jobGroup.id"
_running: list[tuple[str, SparkContext | None]] = []


def running() -> str:
    """Return what Spark does now for this process, in a few words; empty if nothing.

    With the number of tasks, such as ``comparing pairs, 37 of 200 tasks``.
    """
    if not _running:
        return ""
    words, context = _running[-1]
    n_done, n_tasks = (0, 0) if context is None else _tasks(context)
    return f"{words}, {n_done:,} of {n_tasks:,} tasks" if n_tasks else words


def _tasks(context: SparkContext) -> tuple[int, int]:
    """Return how many tasks of the stages that run have ended, and how many there are."""
    tracker = context.statusTracker()
    try:
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    except (Py4JError, OSError):
        return 0, 0  # the session ends meanwhile
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


@contextlib.contextmanager
def named_job(session: SparkSession, words: str) -> Iterator[dict[str, int]]:
    """Name the jobs that start meanwhile, and log the time and the counts of the stage.

    Parameters
    ----------
    session : SparkSession
        Runs the jobs. Those of a client of Connect have no description and no group.
    words : str
        What is done, such as ``comparing pairs``.

    Yields
    ------
    dict of str to int
        Counts for the log, to be filled in.
    """
    counts: dict[str, int] = {}
    start = time.perf_counter()
    try:
        context = session.sparkContext
    except PySparkAttributeError:
        context = None
    name = f"lshdb: {words}"
    before: dict[str, str | None] = {}
    if context is not None:
        before = {key: context.getLocalProperty(key) for key in (_DESCRIPTION, _GROUP)}
        context.setJobDescription(name)
        if (before[_GROUP] or name).startswith("lshdb: "):
            context.setLocalProperty(_GROUP, name)
    _running.append((words, context))
    try:
        yield counts
    finally:
        _running.pop()
        for key, value in before.items():
            context.setLocalProperty(key, value)  # type: ignore[union-attr, arg-type]
    told = "".join(f", {name} {n:,}" for name, n in counts.items())
    _LOG.info("%s: %.1f s%s", words, time.perf_counter() - start, told)


def counted_rows(rows: DataFrame, words: str, name: str) -> int:
    """Count rows in a named job, and log their number by a name."""
    with named_job(rows.sparkSession, words) as counts:
        counts[name] = rows.count()
    return counts[name]
