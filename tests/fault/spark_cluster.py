"""Faults in tasks of Spark, and a life of a dataset on two executors that are killed.

    python -m tests.fault.spark_cluster FOLDER {sound,killed,idle}

``killed``: the first task of each function of ours, in each question, kills its own executor once
it has given out a batch. ``idle``: under dynamic allocation, and after each stage of ours nothing
runs until Spark has removed all executors, with all that they kept; without the last two
questions, whose stages would take most of an hour so. Prints the answers, which
functions have killed, and how many executors were removed in each question, as a line of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lshdb.dataset.commits import Dataset
from tests import spark_session
from tests.conftest import family_corpus

__all__ = ["disturbed", "fail_once", "orphans"]

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.task.maxFailures": "50",
    "spark.stage.maxConsecutiveAttempts": "50",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.shuffle.io.retryWait": "200ms",
}
IDLE = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "4s",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
}
CHAINED = {"_hashed_batches"}
"""Functions that work in a task of another one."""


def disturbed(disturb: Callable[[str], None]) -> Callable[..., Any]:
    """Return what takes the place of ``mapped``: each task is disturbed after its first batch.

    Parameters
    ----------
    disturb : callable
        Given the name of the function; travels to the tasks with what it holds.
    """

    def mapped(function: Callable[..., Any], *given: Any) -> Callable[..., Any]:
        name = function.__name__

        def run(batches: Iterable[Any]) -> Iterator[Any]:
            is_first = True
            for batch in function(*given, batches):
                yield batch
                if is_first:
                    disturb(name)
                is_first = False
            if is_first:
                disturb(name)

        return run

    return mapped


def modules(having: str = "mapped") -> list[Any]:
    """Those that hand functions to tasks, or use another function."""
    import lshdb.spark

    names = [one.name for one in pkgutil.iter_modules(lshdb.spark.__path__)]
    found = [importlib.import_module(f"lshdb.spark.{name}") for name in names]
    return [one for one in found if hasattr(one, having)]


def fail_once(folder: Path) -> Callable[[str], None]:
    """Let the first attempt of every task fail, or the second where two functions share one."""
    chained = CHAINED  # so that it travels along

    def disturb(name: str) -> None:
        import uuid

        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == (name in chained):
            (folder / f"{name}.{uuid.uuid4()}").touch()
            raise OSError("the disk of this executor failed")

    return disturb


def kill_once(folder: Path) -> Callable[[str], None]:
    """Let the first task of each function kill the executor that it belongs to."""

    def disturb(name: str) -> None:
        import os
        import signal

        try:
            (folder / name).touch(exist_ok=False)
        except FileExistsError:
            return
        daemon = os.getppid()  # of Spark, which forks its workers
        status = Path(f"/proc/{daemon}/stat").read_text()
        executor = int(status.rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)

    return disturb


class IdleExecutors:
    """Waits after each named job until Spark has removed all executors.

    Parameters
    ----------
    session : SparkSession
        With the settings ``IDLE``.

    Attributes
    ----------
    n_removed : int
        How many there were.
    """

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext._jsc.sc()
        self._named_job = importlib.import_module("lshdb.spark.named_jobs").named_job
        self.n_removed = 0

    @contextlib.contextmanager
    def named_job(self, session: Any, words: str) -> Iterator[dict[str, int]]:
        """Take the place of the function."""
        with self._named_job(session, words) as counts:
            yield counts
        n = self._n_alive()
        for _ in range(200):
            if not self._n_alive():
                break
            time.sleep(0.1)
        self.n_removed += n - self._n_alive()

    def _n_alive(self) -> int:
        return int(self._context.getExecutorMemoryStatus().size()) - 1  # without the driver


def orphans(path: str) -> set[str]:
    """Files of a dataset's tables that no log names."""
    dataset = Dataset.open(path)
    tables = dataset.commit.counts
    named = {f"{table}/{one.file.path}" for table in tables for one in dataset.files(table)}
    there = {
        file.relative_to(path).as_posix() for table in tables
        for file in Path(path, table).rglob("*.parquet") if "_delta_log" not in file.parts
    }  # fmt: skip
    return there - named


def main() -> None:
    folder, how = Path(sys.argv[1]), sys.argv[2]
    # Workers begin in folders of their own, and import lshdb.
    os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    settings = IDLE if how == "idle" else {"spark.checkpoint.dir": str(folder / "checkpoints")}
    spark = spark_session.start(
        folder / "spark", master="local-cluster[2,1,1024]", **SETTINGS, **settings
    )
    idle = IdleExecutors(spark)
    if how == "idle":
        for module in modules("named_job"):
            module.named_job = idle.named_job
    answers, killed, removed = [], [], []
    life = _life(spark, folder)
    for number, question in enumerate(life[:4] if how == "idle" else life):
        marks = folder / f"marks{number}"
        marks.mkdir()
        if how == "killed":
            for module in modules():
                module.mapped = disturbed(kill_once(marks))
        n_before = idle.n_removed
        answers.append(question())
        killed.append(sorted(mark.name for mark in marks.iterdir()))
        removed.append(idle.n_removed - n_before)
    print(json.dumps({"killed": killed, "removed": removed, "answers": answers}))
    spark_session.stop(spark, folder / "spark")


def _life(spark: Any, folder: Path) -> list[Callable[[], Any]]:
    """Return the questions of a life, to be asked one after the other."""
    from lshdb import spark as frames
    from lshdb.spark import grouping
    from lshdb.spark.dataset_index import Index

    documents = [
        (key, body) for key, body in family_corpus(3, families=20) if isinstance(body, str)
    ]
    df = spark.createDataFrame(documents, "id string, text string").repartition(4)
    index = Index.create(str(folder / "d"), threshold=0.5)

    def add() -> list[Any]:
        done = index.add(df)
        return [done.added, done.copies, sorted(orphans(index.path))]

    def rows(ask: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: sorted(map(list, ask().collect()), key=repr)

    def dedup_in_rounds() -> Any:
        grouping.MOST_AT_ONCE = 4
        return frames.dedup(df, threshold=0.5, keep="last", max_bucket="none")

    return [
        add,
        rows(index.pairs),
        lambda: [index.remove([documents[0][0]]).removed, index.check()],
        rows(lambda: frames.clusters(df, threshold=0.5)),
        rows(lambda: frames.dedup(df, threshold=0.5, max_bucket=3)),
        rows(dedup_in_rounds),
    ]


if __name__ == "__main__":
    main()
