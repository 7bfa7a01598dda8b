"""The questions in SQL of docs/guides/sql.md: right rows, and each run read at most once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lshdb import Index
from tests.conftest import family_corpus
from tests.docs.blocks import block
from tests.sizes import set_sizes


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index of several runs, the last add in two batches."""
    monkeypatch.setattr("lshdb.storage.runs.posting_runs.RUN_ROWS", 1)
    monkeypatch.setattr("lshdb.storage.transactions.writer.FAN_IN", 100)
    corpus = family_corpus(7)
    index = Index.create(tmp_path / "x.lshdb", threshold=0.5)
    index.add([("mon-1", corpus[0][1] + " and more"), *corpus[:60]])
    index.add(corpus[60:100])
    index.add(corpus[60:100])
    set_sizes(monkeypatch, batch_documents=40, commit_postings=0)
    index.add([*corpus[100:], ("new", corpus[3][1])])
    yield index
    index.close()


def postings(index: Index) -> dict[int, set[str]]:
    """Keys by bucket, the slow way."""
    rows = index.sql("SELECT bucket_key, key FROM document_bucket").rows
    buckets: dict[int, set[str]] = {}
    for bucket_key, key in rows:
        buckets.setdefault(bucket_key, set()).add(key)
    return buckets


def ask(index: Index, name: str) -> tuple[list[tuple[object, ...]], list[str]]:
    """Rows by the standard library's own module, and the plan."""
    database = sqlite3.connect(index.path / "index.db")
    statement = block("sql", name).text
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}")]
    rows = database.execute(statement).fetchall()
    database.close()
    assert index.stats().runs >= 4
    return rows, plan


def assert_reads_once(plan: list[str]) -> None:
    """Every run is read from end to end at most once, and no other table is, nor indexed ad hoc."""
    scans = [step.split()[1] for step in plan if step.startswith("SCAN ")]
    runs = [table for table in scans if table.startswith("posting_run_")]
    assert len(runs) == len(set(runs)), plan
    assert "document" not in scans
    assert not any("AUTOMATIC" in step and re.search("posting|document", step) for step in plan)


@pytest.mark.sqlite("opens its file")
def test_sql_largest_buckets(index: Index) -> None:
    rows, plan = ask(index, "largest")
    assert_reads_once(plan)
    buckets = postings(index)
    assert len(rows) == 10
    by_signature = sorted(
        (row[0] for row in index.sql("SELECT size FROM bucket").rows), reverse=True
    )
    assert [row[2] for row in rows] == by_signature[:10]
    for band, bucket, _, keys in rows:
        assert set(str(keys).split()) == buckets[int(band) << 32 | int(bucket)]  # type: ignore[call-overload]


@pytest.mark.sqlite("opens its file")
def test_sql_sharing_a_bucket(index: Index) -> None:
    rows, plan = ask(index, "sharing")
    assert_reads_once(plan)
    expected = {
        key for members in postings(index).values() if "mon-1" in members for key in members
    }
    assert len(expected) > 2
    assert sorted(key for (key,) in rows) == sorted(expected)


@pytest.mark.sqlite("opens its file")
def test_sql_sizes_by_band(index: Index) -> None:
    rows, plan = ask(index, "sizes")
    assert_reads_once(plan)
    assert sum(int(count) for _, _, count in rows) == len(postings(index))  # type: ignore[call-overload]
    assert {band for band, _, _ in rows} == set(range(index.params.bands))
    n_signatures = index.stats().signatures
    for band in range(index.params.bands):
        assert sum(size * count for b, size, count in rows if b == band) == n_signatures  # type: ignore[operator]


@pytest.mark.sqlite("opens its file")
def test_sql_new_beside_old(index: Index) -> None:
    rows, plan = ask(index, "new")
    assert_reads_once(plan)
    (first,) = index.sql("SELECT min(batch_id) FROM new_document").rows
    batch = dict(index.sql("SELECT key, batch_id FROM document").rows)
    expected = {
        (new, old)
        for members in postings(index).values()
        for new in members
        for old in members
        if batch[new] >= first[0] > batch[old]
    }
    assert ("new", corpus_key := family_corpus(7)[3][0]) in expected, corpus_key
    assert set(rows) == expected
    assert len(rows) == len(expected)
