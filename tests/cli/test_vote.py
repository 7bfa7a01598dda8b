"""``lshdb query --vote``: what the nearest documents say of a kept field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lshdb import Document, Index
from tests.cli.conftest import Run, jsonl

pytestmark = pytest.mark.fast

TEXT = " ".join(f"w{number}" for number in range(20))
OTHER = " ".join(f"w{number}" for number in range(2, 22))


@pytest.fixture
def index_path(tmp_path: Path) -> Path:
    """One document equal to ``TEXT``, and two whose similarity to it is 18/22."""
    with Index.create(tmp_path / "news.lshdb", threshold=0.5, k=1) as index:
        index.add(
            [
                Document("same", TEXT, fields={"topic": "sport", "year": 2020}),
                Document("near", OTHER, fields={"topic": "politics", "year": 2021}),
                Document("copy", OTHER, fields={"topic": "politics"}),
                Document("apart", "quite another text", fields={"other": 1}),
            ]
        )
    return tmp_path / "news.lshdb"


def test_shares_of_the_values(run: Run, index_path: Path) -> None:
    found = run("query", index_path, "--text", TEXT, "--vote", "topic").stdout
    assert found == "text\tpolitics\t0.620690\t2\texact\ntext\tsport\t0.379310\t1\texact\n"
    lines = run("query", index_path, "--key", "same", "--vote", "year", "--json").stdout
    assert json.loads(lines) == {
        "query_key": "same", "value": 2021, "share": 1.0, "documents": 1, "method": "exact",
    }  # fmt: skip


def test_many_queries_vote_one_by_one(run: Run, index_path: Path) -> None:
    queries = jsonl([("q1", TEXT), ("q2", OTHER)])
    lines = run("query", index_path, "--vote", "topic", "--top", "1", stdin=queries).stdout
    assert lines == "q1\tsport\t1.000000\t1\texact\nq2\tpolitics\t1.000000\t1\texact\n"


def test_who_has_no_vote_is_said(run: Run, index_path: Path) -> None:
    alone = run("query", index_path, "--key", "near", "--vote", "other")
    assert (alone.stdout, "have no field 'other'" in alone.stderr) == ("", True)
    none = run("query", index_path, "--text", "x y z", "--vote", "topic").stderr
    assert "no document is that similar" in none and "no field" not in none


def test_what_is_refused(run: Run, index_path: Path) -> None:
    wrong = run("query", index_path, "--text", "a", "--vote", "theme", code=2).stderr
    assert "no document has the kept field 'theme'; the kept fields are other, topic, year" in wrong
    refused = run("query", index_path, "--text", "a", "--vote", "topic", "--with-text", code=2)
    assert "--vote lists no documents" in refused.stderr
