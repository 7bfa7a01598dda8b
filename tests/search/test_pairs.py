"""Verified pairs of signatures: each once, each text once, whatever the memory and the file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lshdb import DamageError, Index, ParameterError
from lshdb.search import candidates
from lshdb.search.verification import MEMORY
from lshdb.storage.bands.postings import Buckets
from lshdb.storage.transactions.snapshot import Snapshot
from tests.brute import brute_pairs
from tests.conftest import edited, family_corpus, make_text, pair_set
from tests.without_kernel import use_reference

Make = Callable[..., Index]


def test_rows_are_read_some_at_a_time_where_all_would_take_too_much(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index(threshold=0.5)
    index.add(family_corpus(41))
    expected = pair_set(index)
    assert len(expected) > 50
    monkeypatch.setattr("lshdb.storage.rowfiles.row_file.MOST_HELD_BYTES", 0)
    monkeypatch.setattr("lshdb.search.candidates._COMPARED", 2)
    monkeypatch.setattr("lshdb.storage.rowfiles.row_file.RowFile.take_between", None)
    assert pair_set(index) == expected


def test_a_file_that_ends_too_early_is_damage(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index(threshold=0.5)
    index.add(family_corpus(42))
    monkeypatch.setattr("lshdb.storage.rowfiles.row_file.MOST_HELD_BYTES", 0)
    assert list(index.pairs())
    file = index.path / "signatures.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamageError, match="bytes long; 150 rows need"):
        list(index.pairs())
    file.write_bytes(whole)


def test_pairs_that_share_many_buckets_come_once(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    rng = random.Random(5)
    base = make_text(rng, 60)
    corpus = [(f"d{number}", edited(rng, base, 2)) for number in range(90)]
    index = make_index(threshold=0.5, bands=64, rows=2)
    index.add(corpus)
    expected = {(*sorted(pair[:2]), pair[2]) for pair in brute_pairs(corpus, 0.5)}
    assert len(expected) > 3 * 1024
    assert pair_set(index) == expected
    use_reference(monkeypatch)
    assert pair_set(index) == expected


def test_each_text_is_shingled_once(make_index: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from lshdb.signatures import sets

    index = make_index(threshold=0.3)
    index.add(family_corpus(43))
    plain = sets.shingle_contents
    shingled: list[object] = []

    def counted(contents, **how):  # type: ignore[no-untyped-def]
        shingled.extend(contents)
        return plain(contents, **how)

    monkeypatch.setattr(sets, "shingle_contents", counted)
    keys = {key for pair in pair_set(index) for key in pair[:2]}
    assert len(keys) < 2 * len(shingled)
    assert len(shingled) == len(set(map(str, shingled)))


def test_a_bucket_as_large_as_the_cap_is_not_left_out(make_index: Make) -> None:
    index = make_index(threshold=0.5)
    index.add(family_corpus(44))
    largest = index.stats().largest_bucket
    assert largest > 2
    found = index.pairs(max_bucket=largest)
    assert len(list(found)) == len(list(index.pairs()))
    assert (found.left_out.buckets, found.left_out.pairs, found.recall_lost) == (0, 0, 0.0)
    capped = index.pairs(max_bucket=largest - 1)
    list(capped)
    assert capped.left_out.buckets == index.stats(max_bucket=largest - 1).buckets_left_out
    assert capped.left_out.pairs == index.stats(max_bucket=largest - 1).pairs_left_out > 0


def test_twins_are_of_the_same_state_or_none(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "one two three")])
    with index._store.reading() as snapshot:
        with snapshot.twins(2) as twins:
            assert [twin.n_signatures for twin in twins] == [1, 1]
        index.add([("b", "four five six")])
        with snapshot.twins(2) as twins:
            assert twins == []
        index.remove(["b"])
        with snapshot.twins(1) as twins:
            assert twins == []
        assert list(index.pairs()) == []


@pytest.mark.parametrize(("since", "size"), [(None, 20), ("last", 4)])
def test_orders_are_read_by_all_threads_and_sql_by_all_but_one(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, since: str | None, size: int
) -> None:
    monkeypatch.setattr("lshdb.search.candidates._PROBE_SIGNATURES", size)
    monkeypatch.setattr("lshdb.search.candidates.PART_SIGNATURES", size)
    opened = []
    twins = Snapshot.twins

    def counted(self: Snapshot, n: int) -> Any:
        opened.append(n)
        return twins(self, n)

    monkeypatch.setattr(Snapshot, "twins", counted)
    index = make_index(threshold=0.5)
    corpus = family_corpus(45)
    index.add(corpus[::2])
    index.add(corpus[1::2])
    expected = pair_set(index, since=since, workers=1)
    assert len(expected) > 50
    assert pair_set(index, since=since, workers=3) == expected
    monkeypatch.setattr("lshdb.storage.transactions.snapshot.Snapshot._cover", lambda *_: None)
    assert pair_set(index, since=since, workers=3) == expected
    assert opened == [0, 3, 2]


@pytest.mark.parametrize("since", [None, 2])
@pytest.mark.parametrize("memory", [MEMORY, 2**20])
def test_a_pair_is_found_by_any_bucket_that_is_not_left_out(
    make_index: Make, since: int | None, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by its first band alone: that one's bucket may be too large, and a later one's not."""
    monkeypatch.setattr("lshdb.search.candidates._PROBE_SIGNATURES", 7)
    monkeypatch.setattr("lshdb.search.candidates.BLOCK_PAIRS", 64)
    index = make_index(threshold=0.5)
    corpus = family_corpus(3, families=30, size=8)
    index.add(corpus[:150])
    index.add(corpus[150:])
    index.remove([key for key, _ in corpus[::11]])
    rows = index.sql(
        "SELECT band, bucket, min(key), batch_id FROM document_bucket "
        "GROUP BY 1, 2, signature_id, 4"
    )
    buckets: dict[object, set[tuple[object, object]]] = {}
    for band, bucket, key, batch in rows.rows:
        buckets.setdefault((band, bucket), set()).add((key, batch))
    small = {
        tuple(sorted((one[0], two[0])))
        for members in buckets.values()
        if len(members) <= 3
        for one, two in itertools.combinations(sorted(members), 2)
        if since is None or max(one[1], two[1]) >= since
    }
    everything = pair_set(index, since=since)
    expected = {pair for pair in everything if pair[:2] in small}
    found = pair_set(index, since=since, max_bucket=3, memory=memory)
    spoken_for = {key for members in buckets.values() for key, _ in members}
    assert {pair for pair in found if spoken_for.issuperset(pair[:2])} == expected
    assert len(everything) > len(expected) > 20


@pytest.mark.fast
@pytest.mark.parametrize("most", [4, 64, 16_384])
@pytest.mark.parametrize("n_new", [None, 0, 1, 20, 60])
def test_each_two_of_a_bucket_are_a_candidate_once_if_one_is_new(
    monkeypatch: pytest.MonkeyPatch, n_new: int | None, most: int
) -> None:
    """Be the bucket small, or so large that it is cut."""
    monkeypatch.setattr(candidates, "BLOCK_PAIRS", most)
    rng = np.random.default_rng(8)
    new = None if n_new is None else np.sort(rng.choice(60, n_new, replace=False))
    sizes = np.array([1, 2, 2, 5, 9, 30, 2])
    buckets = [rng.choice(60, size, replace=False) for size in sizes.tolist()]
    keys = np.arange(len(sizes)) << 32
    pieces = list(candidates._pieces_of(Buckets(keys, sizes, np.concatenate(buckets)), new))
    found = [pair for piece in pieces for pair in zip(*map(list, piece.pairs()), strict=True)]
    expected = [
        (left, right, band)
        for band, members in enumerate(buckets)
        for left, right in itertools.combinations(sorted(members), 2)
        if new is None or left in new or right in new
    ]
    assert sorted(found) == sorted(expected)
    assert sum(piece.n_compared for piece in pieces) == len(expected)


@pytest.mark.fast
@pytest.mark.parametrize("n_new", [None, 3, 400])
def test_a_large_bucket_comes_in_blocks_that_are_worth_a_step(n_new: int | None) -> None:
    """Not a block for each member; and a few new members are not looked for among all pairs."""
    size = 1000
    new = None if n_new is None else np.arange(0, size, size // n_new)
    buckets = Buckets(np.zeros(1, np.int64), np.array([size]), np.arange(size))
    pieces = list(candidates._pieces_of(buckets, new))
    assert len(pieces) <= 1 + (size if new is None else len(new)) // 10
    assert all(piece.n_compared <= candidates.BLOCK_PAIRS for piece in pieces)


def test_clusters_hang_together_by_any_bucket_that_is_not_linked(make_index: Make) -> None:
    index, other = make_index("a", threshold=0.5), make_index("b", threshold=0.5)
    for each in (index, other):
        each.add(family_corpus(3, families=40, size=8))
    index.update_clusters(max_bucket=3)
    other.update_clusters()
    found = [sorted(cluster.keys) for cluster in index.clusters()]
    assert sorted(found) == sorted(sorted(cluster.keys) for cluster in other.clusters())


SAME_TEXT = " ".join(map(str, range(50)))


@pytest.mark.fast
def test_pairs_between_two_prefixes(make_index: Make) -> None:
    index = make_index(threshold=0.5)
    text = SAME_TEXT
    given = ["old/a", "old/b", "new/a", "new:b", "older/a", "old"]
    index.add([(key, text) for key in given])
    between = {(pair.key1, pair.key2) for pair in index.pairs(cross=("old", "new"))}
    assert between == {("old/a", "new/a"), ("old/b", "new/a")}
    assert {(pair.key1, pair.key2) for pair in index.pairs(cross=("new", "old"))} == {
        (two, one) for one, two in between
    }
    apart = index.pairs(cross=("old", "new"), ignore_same_path=True)
    assert [(pair.key1, pair.key2) for pair in apart] == [("old/b", "new/a")]
    assert [pair.key1 for pair in index.pairs(cross=("new:", "old/"))] == ["new:b", "new:b"]
    within = [(pair.key1, pair.key2) for pair in index.pairs(cross=("old", "old"))]
    assert within == [("old/a", "old/b")]


@pytest.mark.fast
def test_a_limit_ends_the_answer(make_index: Make) -> None:
    index = make_index(threshold=0.5)
    index.add([(str(number), SAME_TEXT) for number in range(6)])
    everything = list(index.pairs())
    assert list(index.pairs(limit=4)) == everything[:4] and len(everything) == 15
    found = index.pairs(limit=15)
    assert list(found) == everything == list(found)
    limited = index.pairs(limit=2)
    assert len(list(limited)) == 2 and limited.newest_batch is None
    for wrong in (0, 1.5, "2"):
        with pytest.raises(ParameterError, match="limit"):
            index.pairs(limit=wrong)
    for wrong in ("old", ("a",), ("a", ""), ("a", 1)):
        with pytest.raises(ParameterError, match="two prefixes"):
            index.pairs(cross=wrong)
    with pytest.raises(ParameterError, match="cross is not given"):
        index.pairs(ignore_same_path=True)


@pytest.mark.parametrize("lines", [1, 3, 4096])
def test_columns_are_the_pairs_one_by_one(
    lines: int, make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies make several pairs of documents from one of signatures, which blocks cut."""
    monkeypatch.setattr("lshdb.search.pair_columns.LINES", lines)
    monkeypatch.setattr("lshdb.search.pairs.LINES", lines)
    corpus = family_corpus(46)
    index = make_index(threshold=0.5)
    index.add(corpus)
    index.add([(f"{copy}/{key}", text) for copy in "abc" for key, text in corpus[:20]])
    order = {key: place for place, key in enumerate(index)}
    for asked in ({}, {"since": "last"}, {"max_bucket": 4}, {"limit": 7}):
        found = index.pairs(**asked)
        blocks = list(found.columns())
        pairs = [pair for block in blocks for pair in block.pairs()]
        assert pairs == list(found)
        assert len(set(pairs)) == len(pairs) > 0
        assert all(0 < len(block) <= lines for block in blocks)
        assert all(order[pair.key1] < order[pair.key2] for pair in pairs)
    texts = dict(corpus) | {f"{copy}/{key}": text for copy in "abc" for key, text in corpus[:20]}
    expected = {(*sorted(pair[:2]), pair[2]) for pair in brute_pairs(list(texts.items()), 0.5)}
    assert pair_set(index) == expected
