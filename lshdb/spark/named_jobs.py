"""Say what runs: descriptions of Spark's jobs, and a line of the log for each stage.

Spark shows a description beside a job, in its pages and its log of events. By itself it names the
line of Python that asked, which is the same for all stages of ours.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession

__all__ = ["counted_rows", "named_job", "running"]

_LOG = logging.getLogger("lshdb.spark")
_DESCRIPTION = "spark.job.description"
_running: list[str] = []


def running() -> str:
    """Return what Spark does now for this process, in a few words; empty if nothing."""
    return _running[-1] if _running else ""


@contextlib.contextmanager
def named_job(session: SparkSession, words: str) -> Iterator[dict[str, int]]:
    """Name the jobs that start meanwhile, and log the time and the counts of the stage.

    Parameters
    ----------
    session : SparkSession
        Runs the jobs. Those of a client of Connect have no description.
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
    before = None if context is None else context.getLocalProperty(_DESCRIPTION)
    if context is not None:
        context.setJobDescription(f"lshdb: {words}")
    _running.append(words)
    try:
        yield counts
    finally:
        _running.pop()
        if context is not None:
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
    told = "".join(f", {name} {n:,}" for name, n in counts.items())
    _LOG.info("%s: %.1f s%s", words, time.perf_counter() - start, told)


def counted_rows(rows: DataFrame, words: str, name: str) -> int:
    """Count rows in a named job, and log their number by a name."""
    with named_job(rows.sparkSession, words) as counts:
        counts[name] = rows.count()
    return counts[name]
