"""``--agree`` and ``--differ`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

TEXT = "The council voted on Monday to close the old bridge over the river for repairs until {}."
RECORDS = [
    {"id": "a", "text": TEXT.format("spring"), "year": 2001, "source": "press"},
    {"id": "b", "text": TEXT.format("spring"), "year": "2001", "source": "radio"},
    {"id": "c", "text": TEXT.format("autumn"), "year": 2002},
]
LINES = [json.dumps(record) for record in RECORDS]


@pytest.fixture
def made(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "x.jsonl").write_text("\n".join(LINES))
    fields = ("--keep-fields", "year,source")
    run("add", tmp_path / "x.lshdb", tmp_path / "x.jsonl", "--threshold", "0.5", *fields)
    return tmp_path / "x.lshdb"


def test_pairs_clusters_and_dedup(run: Run, made: Path) -> None:
    def keys(*command: object) -> list[str]:
        return [line.partition("\t0.")[0] for line in run(*command).stdout.splitlines()]

    assert len(keys("pairs", made)) == 3
    assert keys("pairs", made, "--agree", "year") == ["a\tb\t1.000000\texact"]
    assert sorted(keys("pairs", made, "--differ", "year")) == ["a\tc", "b\tc"]
    assert keys("pairs", made, "--differ", "source") == ["a\tb\t1.000000\texact"]
    assert keys("pairs", made, "--agree", "year, source") == []
    assert keys("clusters", made, "--agree", "year") == ["a\t2\ta", "a\t2\tb"]
    assert keys("clusters", made, "--agree", "year", "--agree", "source") == []
    assert keys("dedup", made, "--agree", "year", "--only", "drop") == [
        "b\tdrop\ta\t1.000000\texact"
    ]
    assert keys("dedup", made, "--differ", "source", "--only", "keep") == [
        "a\tkeep\t\t\t",
        "c\tkeep\t\t\t",
    ]
    kept = run("dedup", made, "--filter", made.parent / "x.jsonl", "--agree", "year").stdout
    assert kept.splitlines() == [LINES[0], LINES[2]]


@pytest.mark.parametrize("command", ["pairs", "clusters", "dedup"])
@pytest.mark.parametrize("option", ["--agree", "--differ"])
def test_wrong_fields(run: Run, made: Path, command: str, option: str) -> None:
    refused = run(command, made, option, "yaer", code=2).stderr
    assert "no document has the kept field 'yaer'; the kept fields are source, year" in refused
    assert "--keep-fields" in refused
    for nothing in ("", " , "):
        assert "names no field" in run(command, made, option, nothing, code=2).stderr


def test_it_needs_an_index_with_fields(run: Run, made: Path) -> None:
    file, target = made.parent / "x.jsonl", made.parent / "y.jsonl"
    refused = run("dedup", file, "--output", target, "--agree", "year", code=2).stderr
    assert "--agree is for an index with documents" in refused
    refused = run("dedup", made, file, "--output", target, "--mark", "--agree", "year", code=2)
    assert "marks name the clusters of all pairs" in refused.stderr
    assert not target.exists()
