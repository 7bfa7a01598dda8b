"""``lshdb join``: pairs across two indexes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lshdb import Index
from tests.cli.conftest import BASE, FAR, NEAR, NEAR_SIMILARITY, Run


@pytest.fixture
def other_path(tmp_path: Path) -> Path:
    path = tmp_path / "other.lshdb"
    with Index.create(path) as index:
        index.add([("again", BASE.title()), ("longer", NEAR + " than that"), ("far", FAR)])
    return path


def test_pairs_across(run: Run, index_path: Path, other_path: Path) -> None:
    result = run("join", index_path, other_path)
    assert result.stderr == ""
    assert sorted(result.stdout.splitlines()) == [
        "base\tagain\t1.000000\texact",
        f"base\tlonger\t{56 / 60:.6f}\texact",
        "copy\tagain\t1.000000\texact",
        f"copy\tlonger\t{56 / 60:.6f}\texact",
        f"near\tagain\t{NEAR_SIMILARITY:.6f}\texact",
        f"near\tlonger\t{58 / 60:.6f}\texact",
    ]
    back = run("join", other_path, index_path, "--format", "jsonl").stdout.splitlines()
    assert json.loads(min(back)) == {
        "key1": "again", "key2": "base", "similarity": 1.0, "method": "exact",
    }  # fmt: skip
    assert len(back) == 6


def test_threshold_method_and_form(run: Run, index_path: Path, other_path: Path) -> None:
    both = (index_path, other_path)
    assert run("join", *both, "--threshold", "0.97").stdout.count("\n") == 2
    for method in ("none", "signature"):
        out = run("join", *both, "--verify", method).stdout
        assert {line.split("\t")[3] for line in out.splitlines()} == {method}
    table = run("join", *both, "--format", "table")
    assert table.stdout.splitlines()[0].split() == ["key1", "key2", "similarity", "method"]
    assert table.stderr == "6 pairs\n"
    low = run("join", *both, "--threshold", "0.3").stderr
    assert "below this index's threshold of 0.8, is found with probability" in low


def test_refusals(run: Run, index_path: Path, other_path: Path, tmp_path: Path) -> None:
    run("init", tmp_path / "chars.lshdb", "--unit", "char")
    refused = run("join", index_path, tmp_path / "chars.lshdb", code=1)
    assert f"error: unit is 'word' in {index_path} and 'char' in {tmp_path}" in refused.stderr
    assert "hint: only indexes that were made with the same parameters" in refused.stderr
    assert "threshold is 2" in run(
        "join", index_path, other_path, "--threshold", "2", code=2
    ).stderr  # fmt: skip
    assert "there is no index" in run("join", index_path, tmp_path / "absent", code=1).stderr
    assert "missing argument INDEX_B".lower() in run("join", index_path, code=2).stderr.lower()
