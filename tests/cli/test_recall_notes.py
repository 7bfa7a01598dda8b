"""What Python is warned of, the command line says as one note, and in no other form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.cli.conftest import Run

TEXT = "one two three four five six"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.8) as index:
        index.add([("a", TEXT), ("b", f"{TEXT} seven")])
    (tmp_path / "links.tsv").write_text("a\tx\nb\tx\n")
    (tmp_path / "some.jsonl").write_text(f'{{"id": "a", "text": "{TEXT}"}}\n')
    return path


@pytest.mark.parametrize(
    "question",
    [
        ["pairs", "x.lshdb"], ["query", "x.lshdb", "--key", "a"],
        ["query", "x.lshdb", "some.jsonl"], ["clusters", "x.lshdb"],
        ["dedup", "x.lshdb"], ["neighbors", "x.lshdb"],
        ["join", "x.lshdb", "y.lshdb"], ["contract", "x.lshdb", "links.tsv"],
        ["dedup", "x.lshdb", "--filter", "some.jsonl"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_below_the_threshold(
    question: list[str], run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with Index.open(path) as index:
        recall = index.params.recall_at(0.3)
        if "y.lshdb" in question:
            index.copy("y.lshdb")
    said = run(*question, "--threshold", "0.3").stderr
    assert said.count(f"is found with probability {recall:.4f}; an index made, or rebanded") == 1
    assert said.startswith("a pair at similarity 0.3, below this index's threshold of 0.8")
    assert "Warning" not in said
    for surer in ([], ["--threshold", "0.9"]):
        assert "probability" not in run(*question, *surer).stderr


def test_in_a_process_of_its_own(process: Any, path: Path) -> None:
    done = process("pairs", path, "--threshold", "0.3")
    assert done.returncode == 0 and done.stderr.count(b"\n") == 2
    assert done.stderr.startswith(b"a pair at similarity 0.3") and b"Warning" not in done.stderr


def test_candidates_alone_are_not_warned_of(run: Run, path: Path) -> None:
    said = run("pairs", path, "--threshold", "0.3", "--verify", "none").stderr
    assert (
        said
        == "--threshold does not apply with --verify none, which gives every candidate\n1 pair\n"
    )
