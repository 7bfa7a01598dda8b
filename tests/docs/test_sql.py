"""The questions in SQL of docs/guides/sql.md: right rows, and no table read more than it must."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lshdb import Index
from tests.conftest import family_corpus
from tests.docs.blocks import ROOT, block, blocks
from tests.sizes import set_sizes


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index of several adds, the last in two batches."""
    corpus = family_corpus(7)
    index = Index.create(tmp_path / "x.lshdb", threshold=0.5)
    index.add([("mon-1", corpus[0][1] + " and more"), *corpus[:60]])
    index.add(corpus[60:100])
    index.add(corpus[60:100])
    set_sizes(monkeypatch, batch_documents=40, commit_postings=0)
    index.add([*corpus[100:], ("new", corpus[3][1])])
    yield index
    index.close()


def postings(index: Index) -> dict[tuple[object, object], set[str]]:
    """Keys by bucket, the slow way."""
    rows = index.sql("SELECT band, bucket, key FROM document_bucket").rows
    buckets: dict[tuple[object, object], set[str]] = {}
    for band, bucket, key in rows:
        buckets.setdefault((band, bucket), set()).add(key)
    return buckets


def ask(index: Index, name: str) -> tuple[list[tuple[object, ...]], list[str]]:
    """Rows by the standard library's own module, and the plan."""
    database = sqlite3.connect(index.path / "index.db")
    statement = block("sql", name).text
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}")]
    rows = database.execute(statement).fetchall()
    database.close()
    return rows, plan


def assert_reads(plan: list[str], most: int) -> None:
    """The bands are read from end to end so often at most, and documents never."""
    scans = [step.split()[1] for step in plan if step.startswith("SCAN ")]
    assert scans.count("band") <= most, plan
    assert "document" not in scans
    assert not any(
        "AUTOMATIC" in step and re.match("SEARCH (band|document) ", step) for step in plan
    )


@pytest.mark.sqlite("opens its file")
def test_sql_largest_buckets(index: Index) -> None:
    rows, plan = ask(index, "largest")
    assert_reads(plan, 2 * index.params.bands)
    buckets = postings(index)
    assert len(rows) == 10
    by_signature = sorted(
        (row[0] for row in index.sql("SELECT size FROM bucket").rows), reverse=True
    )
    assert [row[2] for row in rows] == by_signature[:10]
    for band, bucket, _, keys in rows:
        assert set(str(keys).split()) == buckets[band, bucket]


@pytest.mark.sqlite("opens its file")
def test_sql_sharing_a_bucket(index: Index) -> None:
    rows, plan = ask(index, "sharing")
    assert_reads(plan, index.params.bands)
    expected = {
        key for members in postings(index).values() if "mon-1" in members for key in members
    }
    assert len(expected) > 2
    assert sorted(key for (key,) in rows) == sorted(expected)


@pytest.mark.sqlite("opens its file")
def test_sql_sizes_by_band(index: Index) -> None:
    rows, plan = ask(index, "sizes")
    assert_reads(plan, index.params.bands)
    assert sum(int(count) for _, _, count in rows) == len(postings(index))  # type: ignore[call-overload]
    assert {band for band, _, _ in rows} == set(range(index.params.bands))
    n_signatures = index.stats().signatures
    for band in range(index.params.bands):
        assert sum(size * count for b, size, count in rows if b == band) == n_signatures  # type: ignore[operator]


@pytest.mark.sqlite("opens its file")
def test_sql_times(index: Index) -> None:
    rows, _ = ask(index, "times")
    documents = [index.show(key).document for key in index]
    documents.sort(key=lambda document: (document.last_seen_at, document.doc_id))
    assert rows == [(document.key, document.last_seen_at) for document in documents[:10]]


@pytest.mark.sqlite("opens its file")
def test_sql_new_beside_old(index: Index) -> None:
    rows, plan = ask(index, "new")
    assert_reads(plan, index.params.bands)
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


@pytest.mark.sqlite("opens its file")
def test_sql_pairs_of_a_band(index: Index) -> None:
    rows, _ = ask(index, "pairs")
    expected = set()
    for size, members in index.sql(
        "SELECT count(*), group_concat(signature_id) FROM posting WHERE band = 3 GROUP BY bucket"
    ).rows:
        ids = sorted(map(int, str(members).split(",")))
        assert len(ids) == size
        expected |= {(one, other) for n, one in enumerate(ids) for other in ids[n + 1 :]}
    assert len(expected) > 10 and set(rows) == expected


@pytest.mark.sqlite("opens its file")
def test_sql_a_sorted_copy(index: Index, tmp_path: Path) -> None:
    database = sqlite3.connect(index.path / "index.db")
    (script,) = (
        one.text for one in blocks(ROOT / "docs/guides/sql.md") if "mine.posting" in one.text
    )
    database.executescript(script.replace("postings.db", str(tmp_path / "p.db")))
    copied = database.execute("SELECT * FROM mine.posting").fetchall()
    database.close()
    assert copied == list(index.sql("SELECT * FROM posting ORDER BY 1, 2, 3").rows)
    assert index.check() == []
