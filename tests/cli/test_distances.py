"""Distances on the command line: what is said of a threshold is what a user would give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lshdb import Index
from tests.chosen import choose_params
from tests.cli.conftest import Run

RNG = np.random.default_rng(3)
POINTS = np.repeat(RNG.normal(size=(20, 8)) * 5, 6, axis=0) + RNG.normal(size=(120, 8)) * 0.02


@pytest.fixture
def index_path(tmp_path: Path) -> Path:
    path = tmp_path / "points.lshdb"
    with Index.create(path, metric="l2", threshold=0.5, dim=8) as index:
        index.add((f"k{number:03}", row) for number, row in enumerate(POINTS))
    return path


def test_the_threshold_of_edges_is_a_distance(run: Run, index_path: Path) -> None:
    run("clusters", index_path, "--threshold", 0.75)
    stats = json.loads(run("stats", index_path, "--format", "jsonl").stdout)
    assert stats["edges_threshold"] == 0.75


def test_linked_buckets_are_a_matter_of_nearer_thresholds(run: Run, index_path: Path) -> None:
    """Those of a smaller distance than the buckets were joined at."""
    same = run("clusters", index_path, "--max-bucket", 2)
    assert "joined through leaders" in same.stderr and "were joined at" not in same.stderr
    assert "were joined at" not in run("clusters", index_path, "--threshold", 0.5).stderr
    nearer = run("clusters", index_path, "--threshold", 0.25).stderr
    assert "documents of those buckets were joined at 0.5; at 0.25 they may" in nearer


def test_repeat_of_contract_says_that_these_are_no_tokens(
    run: Run, index_path: Path, tmp_path: Path
) -> None:
    links = tmp_path / "links.tsv"
    links.write_text("k000\tk001\n")
    said = run("contract", index_path, links, "--repeat", code=2).stderr
    assert "this index compares bodies by l2" in said and "shingles" not in said


@pytest.mark.parametrize("threshold", [0.05, -0.5, -0.95])
def test_init_says_what_is_found_at_any_cosine(threshold: float, run: Run, tmp_path: Path) -> None:
    options = ("--metric", "cosine", "--dim", 8, "--recall", 0.8)
    said = run("init", tmp_path / "a.lshdb", *options, "--threshold", threshold).stderr
    assert f"at similarity {threshold:g}  (the threshold)" in said
    assert f"at similarity {threshold + 0.1:g}\n" in said


@pytest.mark.parametrize(
    "options",
    [
        ("--threshold", 0.5),
        ("--threshold", 0.3),
        ("--metric", "cosine", "--dim", 8, "--threshold", -0.2, "--recall", 0.5),
        ("--metric", "hamming", "--dim", 64, "--threshold", 32, "--recall", 0.5),
        ("--metric", "l1", "--scheme", "unary", "--width", 4, "--dim", 8, "--threshold", 20),
    ],
)
def test_tune_knows_what_is_far_from_any_threshold(options: tuple[str, ...], run: Run) -> None:
    """Twice as far from these thresholds no slot is ever equal."""
    found = json.loads(run("tune", *options, "--format", "jsonl").stdout)
    assert 0 < found["p2"] < found["p1"]


def test_what_is_far_is_twice_as_far_where_that_can_be(run: Run) -> None:
    for options, far in (
        (("--threshold", 0.75), 0.5),
        (("--metric", "hamming", "--dim", 64, "--threshold", 8), 16),
        (("--metric", "l2", "--dim", 8, "--threshold", 3), 6),
        (("--metric", "cosine", "--dim", 8, "--threshold", 0.8), 2 * 0.8**2 - 1),
    ):
        found = json.loads(run("tune", *options, "--format", "jsonl").stdout)
        assert found["far"] == pytest.approx(far)


def test_another_kind_of_slots_brings_its_own_width(run: Run, tmp_path: Path) -> None:
    whole = np.round(np.abs(POINTS)).astype("u1")
    with Index.create(tmp_path / "a", metric="l1", threshold=3, dim=8, dtype="uint8") as index:
        index.add((f"k{number}", row) for number, row in enumerate(whole))
    said = run("reindex", tmp_path / "a", tmp_path / "b", "--scheme", "unary", code=2).stderr
    assert "the largest number" in said
    run("reindex", tmp_path / "a", tmp_path / "b", "--scheme", "unary", "--width", 30)
    run("reindex", tmp_path / "b", tmp_path / "c", "--scheme", "cauchy")
    expected = choose_params(metric="l1", threshold=3, dim=8, dtype="uint8")
    with Index.open(tmp_path / "c") as index:
        assert index.params == expected


def test_of_candidates_left_out_no_recall_is_told(index_path: Path) -> None:
    with Index.open(index_path) as index:
        for options in ({"recall": 0.9, "top": 3}, {"top": None}):
            cut = index.query(POINTS[0], probe_limit=2, **options)
            whole = index.query(POINTS[0], probe_limit=1000, **options)
            assert cut.left > 0 and cut.checked == 2 and cut.recall is None
            assert whole.left == 0 and whole.recall is not None


def test_a_bad_vector_does_not_stop_the_other_queries(
    run: Run, index_path: Path, tmp_path: Path
) -> None:
    bad = POINTS[:4].copy()
    bad[1, 2] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    for options in ((), ("--recall", 0.9), ("--workers", 2)):
        done = run("query", index_path, tmp_path / "bad.npy", "--top", 1, *options, code=5)
        assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["0", "2", "3"]
        assert "number 3 is NaN" in done.stderr and "1 rejected; the other" in done.stderr
    (tmp_path / "w.jsonl").write_text('{"id": 1, "text": {"x": -1}}\n{"id": 2, "text": {"x": 1}}\n')
    weights = ("--metric", "weighted-jaccard", "--unit", "token", "--k", 1)
    run("add", tmp_path / "w", tmp_path / "w.jsonl", *weights, code=5)
    assert run("query", tmp_path / "w", tmp_path / "w.jsonl", code=5).stdout.startswith("2\t2\t1")


def test_without_a_bit_nothing_is_similar(run: Run, tmp_path: Path) -> None:
    with Index.create(tmp_path / "a", metric="jaccard-bits", dim=16) as index:
        index.add([("a", "0" * 16), ("b", "1" * 16)])
    for option in ("--vector", "--text"):
        done = run("query", tmp_path / "a", option, "0" * 16)
        assert done.stdout == "" and "has no bit that is set to compare" in done.stderr
    said = run("explain", tmp_path / "a", "a", "b", "--format", "table").stdout
    assert "a document without a bit that is set is not similar to anything" in said


def test_a_dropped_copy_is_at_distance_0(make_index: Callable[..., Index]) -> None:
    index = make_index("l2", metric="l2", dim=3, threshold=1.0)
    index.add([("a", [1.0, 2.0, 3.0]), ("b", [1.0, 2.0, 3.0]), ("c", [1.0, 2.0, 3.5])])
    found = {one.key: (one.similarity, one.distance) for one in index.dedup(only="drop")}
    assert found == {"b": (0.0, 0.0), "c": (-0.5, 0.5)}
