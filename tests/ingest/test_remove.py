"""Removed documents are in no answer, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable

from lshdb import Index
from tests.conftest import family_corpus, pair_set

Make = Callable[..., Index]


def test_removed_documents_are_in_no_answer(make_index: Make) -> None:
    corpus = dict(family_corpus(31))
    gone = [key for number, key in enumerate(corpus) if number % 3 == 0]
    index, other = make_index("one.lshdb"), make_index("other.lshdb")
    index.add(corpus.items())
    other.add((key, text) for key, text in corpus.items() if key not in gone)
    result = index.remove([*gone, "none", gone[0], "\ud800"])
    assert (result.removed, result.missing) == (len(gone), ["none", "\ud800"])
    assert pair_set(index) == pair_set(other)
    assert {one.keys for one in index.clusters()} == {one.keys for one in other.clusters()}
    for key, text in corpus.items():
        assert index.query(text, verify="signature") == other.query(text, verify="signature"), key
    assert index.stats().documents == other.stats().documents
    for table in ("document", "content"):
        assert next(iter(index.sql(f"SELECT count(*) FROM {table}").rows))[0] == len(corpus) - len(
            gone
        )


def test_a_removal_is_a_batch_and_no_add(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "one two three four five"), ("b", "one two three four five six")])
    index.remove(["a"])
    assert index.remove(["a"]).batches == []
    batches = index.batches()
    assert [(one.n_added, one.n_removed) for one in batches] == [(2, 0), (0, 1)]
    rows = [tuple(row) for row in index.sql("SELECT key FROM new_document").rows]
    assert rows == [("b",)]
    assert pair_set(index, since="last") == set()
    # What was removed can come again, and is new then.
    assert index.add([("a", "one two three four five")]).added == 1
    assert index.show("a").document.doc_id == 3


def test_replaced_signatures_are_not_compared(make_index: Make, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A key replaced again and again leaves signatures that no document has."""
    from lshdb.search import pairs as links

    index = make_index(k=1)
    words = [f"w{number}" for number in range(100)]
    for number in range(30):
        index.add([("key", " ".join([*words, str(number)]))])
    index.add([("twin", " ".join(words))])
    compared = 0
    plain = links.first_agreements

    def counted(buckets, *args, **more):  # type: ignore[no-untyped-def]
        nonlocal compared
        compared += int((buckets[1] * (buckets[1] - 1) // 2).sum())
        return plain(buckets, *args, **more)

    monkeypatch.setattr(links, "first_agreements", counted)
    assert [pair[:2] for pair in pair_set(index)] == [("key", "twin")]
    assert 0 < compared <= index.params.bands


def test_what_has_not_come_in_for_long_expires(make_index: Make, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from datetime import UTC, datetime, timedelta, timezone

    from lshdb.ingest import pipeline as committing
    from lshdb.ingest import remove as removing

    monkeypatch.setattr(removing, "_DOCUMENTS_A_BATCH", 2)
    days = iter(f"2026-01-0{day} 00:00:00.000000" for day in (1, 2, 3))
    monkeypatch.setattr(committing, "unused_timestamp", lambda *_: next(days))
    index = make_index()
    index.add((f"old{number}", f"some words of text {number}") for number in range(5))
    index.add([("old1", "some words of text 1"), ("new", "something else"), ("none", "")])
    index.add([("old2", "changed words of text 2")])
    since = datetime(2026, 1, 2)
    assert index.expire(since, dry_run=True).removed == 3
    assert index.stats().documents == 7
    result = index.expire(since.replace(tzinfo=UTC))
    assert (result.removed, len(result.batches)) == (3, 2)
    assert index.expire(since) == removing.RemoveResult()
    keys = [key for (key,) in index.sql("SELECT key FROM document ORDER BY key").rows]
    assert keys == ["new", "none", "old1", "old2"]
    west = timezone(timedelta(hours=-5))
    assert index.expire(datetime(2026, 1, 1, 18, tzinfo=west), dry_run=True).removed == 0
    assert index.expire(datetime(2026, 1, 1, 20, tzinfo=west)).removed == 3
    assert index.stats().documents == 1
