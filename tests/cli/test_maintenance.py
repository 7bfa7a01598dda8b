"""``lshdb compact`` and ``lshdb reband``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lshdb import Index
from tests.cli.conftest import Run, jsonl
from tests.conftest import family_corpus

CORPUS = family_corpus(2, families=60)


@pytest.fixture
def path(run: Run, tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text(jsonl(CORPUS))
    run("add", tmp_path / "a.lshdb", tmp_path / "a.jsonl")
    return tmp_path / "a.lshdb"


def stats(run: Run, path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(run("stats", path, "--format", "jsonl").stdout)
    return found


@pytest.mark.sqlite("a schema of this size takes the least that its tables can have")
def test_stats_say_when_it_pays_and_compact_says_what_it_gave(run: Run, path: Path) -> None:
    assert "lshdb compact" not in run("stats", path, "--format", "table").stdout
    assert stats(run, path)["reclaimable_bytes"] == 0
    run("remove", path, *(key for key, _ in CORPUS[4:]))
    assert "; lshdb compact frees it" in run("stats", path, "--format", "table").stdout
    unused = stats(run, path)["unused_signatures"]
    said = run("compact", path).stderr
    assert f"{unused} unused signatures dropped, {stats(run, path)['signatures']} kept" in said
    found = re.match(r"([\d,]+) bytes before \(.*\), ([\d,]+) after", said)
    assert found
    before, after = (int(number.replace(",", "")) for number in found.groups())
    assert before > after > 0
    assert "lshdb compact" not in run("stats", path, "--format", "table").stdout
    assert "0 unused signatures dropped" in run("compact", path).stderr
    assert "no findings" in run("check", path).stderr


def test_reband_says_what_is_promised_now(run: Run, path: Path) -> None:
    said = run("reband", path, "--threshold", "0.5").stderr
    with Index.open(path) as index:
        params = index.params
    assert (params.threshold, params.recall) == (0.5, 0.99)
    assert said.startswith(f"{params.bands} bands of {params.rows} rows: a pair at threshold 0.5 ")
    assert run("check", path).stdout == ""
    assert "no parameter for the bands" in run("reband", path, code=2).stderr
    assert "go together" in run("reband", path, "--bands", "4", code=2).stderr
    assert "num_perm" in run("reband", path, "--bands", "100", "--rows", "3", code=2).stderr
    assert "no index" in run("reband", path.parent / "none", "--recall", "0.9", code=1).stderr
