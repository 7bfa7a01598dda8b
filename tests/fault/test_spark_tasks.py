"""Tasks of Spark that fail, are done twice, or lose their executor: the answers stay the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import family_corpus
from tests.fault import spark_cluster

pytest.importorskip("pyspark")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

DOCUMENTS = sorted(
    (key, body) for key, body in family_corpus(3, families=6) if isinstance(body, str)
)
STAGES = {
    "_signed_batches", "_ranged_batches", "_paired_batches", "_led_batches", "_compared_batches",
    "_connected_batches", "_chosen_batches", "_merged_batches",
}  # fmt: skip
"""Functions of a data frame's questions."""
SECONDS = 1200


@pytest.mark.long
def test_every_first_attempt_fails(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every stage of ours, after it has given out a batch."""
    from lshdb import spark as questions
    from lshdb.spark.dataset_index import Index

    df = spark.createDataFrame(DOCUMENTS, "id string, text string").repartition(2)

    def life(name: str) -> list[Any]:
        questions.release(spark)
        index = Index.create(str(tmp_path / name), threshold=0.5)
        done = index.add(df)
        assert spark_cluster.orphans(index.path) == set()
        assert not (tmp_path / name / "_staging").exists()
        frames = [index.pairs(), questions.dedup(df, threshold=0.5, max_bucket=3)]
        return [done.added, done.copies, *(sorted(map(tuple, one.collect())) for one in frames)]

    expected = life("sound")
    assert len(expected[2]) > 20
    marks = tmp_path / "marks"
    marks.mkdir()
    disturbed = spark_cluster.disturbed(spark_cluster.fail_once(marks))
    for module in spark_cluster.modules():
        monkeypatch.setattr(module, "mapped", disturbed)
    assert life("failing") == expected
    failed = {mark.name.partition(".")[0] for mark in marks.iterdir()}
    assert failed >= STAGES | {"_hashed_batches"}


@pytest.mark.long
def test_executors_are_killed(tmp_path: Path) -> None:
    """One of two in every stage of ours, with speculation on; in sessions of their own."""
    sound, killed = (_lived(tmp_path / how, how) for how in ("sound", "killed"))
    assert killed["answers"] == sound["answers"]
    add, pairs, change, clusters, dedup, in_rounds = map(set, killed["killed"])
    assert {"_signed_batches", "_hashed_batches"} <= add
    assert {"_ranged_batches", "_paired_batches", "_compared_batches"} <= pairs
    assert {"_posting_batches"} <= change
    assert {"_signed_batches", "_compared_batches", "_connected_batches"} <= clusters
    assert {"_led_batches", "_chosen_batches"} <= dedup
    assert {"_forest_batches", "_lost_batches"} <= in_rounds


@pytest.mark.long
def test_idle_executors_are_removed(tmp_path: Path) -> None:
    """All of them after each stage, under dynamic allocation and without a checkpoint folder."""
    sound, idle = (_lived(tmp_path / how, how) for how in ("sound", "idle"))
    assert idle["answers"] == sound["answers"][: len(idle["answers"])]
    assert sound["removed"] == [0] * len(sound["answers"])
    _, pairs, _, clusters = idle["removed"]
    assert pairs >= 1 and clusters >= 2


def _lived(folder: Path, how: str) -> dict[str, Any]:
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fault.spark_cluster", str(folder), how],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
