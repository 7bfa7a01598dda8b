"""Tasks of Spark that fail, are done twice, or lose their executor: the answers stay the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lshdb.dataset.commits import Dataset
from tests.conftest import family_corpus

pytest.importorskip("pyspark")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

DOCUMENTS = sorted(
    (key, body) for key, body in family_corpus(3, families=6) if isinstance(body, str)
)
CHAINED = {"_hashed_batches"}
SECONDS = 1800


def modules() -> list[ModuleType]:
    """Those that hand functions to tasks."""
    from lshdb.spark import comparison, dataset_add, dataset_index, grouping, pairing, signing

    return [comparison, dataset_add, dataset_index, grouping, pairing, signing]


def failing_once(folder: Path) -> Callable[..., Any]:
    """What takes the place of ``mapped``: the first attempt of every task fails after a batch.

    Or the second one, where a function works in the task of another.
    """

    def mapped(function: Callable[..., Any], *given: Any) -> Callable[..., Any]:
        name = function.__name__

        def run(batches: Iterable[Any]) -> Iterator[Any]:
            import uuid

            from pyspark import TaskContext

            context = TaskContext.get()
            fails = context is not None and context.attemptNumber() == (name in CHAINED)
            for batch in function(*given, batches):
                yield batch
                if fails:
                    break
            if fails:
                (folder / f"{name}.{uuid.uuid4()}").touch()
                raise OSError("the disk of this executor failed")

        return run

    return mapped


def orphans(path: str) -> set[str]:
    """Files of a dataset's tables that no log names."""
    dataset = Dataset.open(path)
    named = {
        f"{table}/{one.file.path}"
        for table in dataset.commit.counts
        for one in dataset.files(table)
    }
    there = {
        file.relative_to(path).as_posix()
        for file in Path(path).rglob("*.parquet")
        if "_delta_log" not in file.parts
    }
    return {name for name in there - named if name.partition("/")[0] in dataset.commit.counts}


def test_every_first_attempt_fails(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every stage of ours, after it has given out what it has."""
    from lshdb import spark as questions
    from lshdb.spark.dataset_index import Index

    df = spark.createDataFrame(DOCUMENTS, "id string, text string").repartition(2)

    def life(name: str) -> list[Any]:
        questions.release(spark)
        index = Index.create(str(tmp_path / name), threshold=0.5, documents=1)
        done = index.add(df)
        assert orphans(index.path) == set()
        assert not (tmp_path / name / "_staging").exists()
        frames = [
            index.pairs(),
            questions.dedup(df, threshold=0.5, max_bucket=3),
        ]
        return [done.added, done.copies, *(sorted(map(tuple, one.collect())) for one in frames)]

    expected = life("sound")
    assert len(expected[2]) > 20
    marks = tmp_path / "marks"
    marks.mkdir()
    for module in modules():
        monkeypatch.setattr(module, "mapped", failing_once(marks))
    assert life("failing") == expected
    failed = {mark.name.partition(".")[0] for mark in marks.iterdir()}
    assert failed >= {
        "_signed_batches", "_hashed_batches", "_ranged_batches", "_paired_batches",
        "_led_batches", "_compared_batches", "_connected_batches", "_chosen_batches",
    }  # fmt: skip


def test_executors_are_killed(tmp_path: Path, is_long: bool) -> None:
    """One of two in every stage, with speculation on; in a session of its own."""
    if not is_long:
        pytest.skip("takes minutes: --faults=long")
    answers = []
    for kills in ("0", "1"):
        folder = tmp_path / kills
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.fault.spark_cluster", str(folder), kills],
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        answers.append(json.loads(done.stdout.splitlines()[-1]))
        assert orphans(str(folder / "d")) == set()
    sound, killed = answers
    assert killed["answers"] == sound["answers"]
    assert sound["killed"] == 0 and killed["killed"] >= 20
