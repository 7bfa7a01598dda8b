"""``lshdb plot`` and ``tune --plot``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lshdb import Index
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    "what", ["s-curve", "similarity", "buckets", "clusters", "batches", "recall"]
)
def test_every_picture(run: Run, tmp_path: Path, index_path: Path, what: str) -> None:
    path = tmp_path / "picture.svg"
    run("plot", what, index_path, "-o", path)
    assert "<svg" in path.read_text()
    said = run("plot", what, index_path, "-o", path, code=1).stderr
    assert "exists" in said
    run("plot", what, index_path, "-o", path, "--overwrite")


def test_mistakes(run: Run, tmp_path: Path, index_path: Path) -> None:
    said = run("plot", "s-curve", index_path, "-o", tmp_path / "a.gif", code=2).stderr
    assert "ends in .svg, .png or .pdf" in said
    said = run("plot", "s-curve", index_path, "-o", "a.svg", "--threshold", "0.5", code=2).stderr
    assert "--threshold makes no difference to s-curve" in said
    said = run("plot", "recall", index_path, code=2).stderr
    assert "missing option -o/--output FILE" in said
    assert not list(tmp_path.glob("a.*"))


def test_a_missing_matplotlib_is_named_before_any_work(
    run: Run, tmp_path: Path, index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_given: object, **_options: object) -> Index:
        raise AssertionError("the index was opened")

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(Index, "open", opened)
    for given in (("plot", "recall", index_path, "-o"), ("tune", index_path, "--plot")):
        said = run(*given, tmp_path / "a.svg", code=1).stderr
        assert "pictures need matplotlib" in said and "[plot]" in said
    assert not list(tmp_path.glob("*a.svg*"))


def test_tune_draws_what_it_says(run: Run, tmp_path: Path, index_path: Path) -> None:
    path = tmp_path / "picture.svg"
    run("tune", index_path, "--plot", path)
    assert "Pairs by similarity of shingles" in path.read_text()
    run("tune", "--threshold", "0.7", "--plot", path)
    assert "probability that it is found" in path.read_text()
    said = run("tune", index_path, "--plot", "a.gif", code=2).stderr
    assert "ends in .svg, .png or .pdf" in said
