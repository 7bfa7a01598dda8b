"""What a cap on buckets costs: counted, estimated, and said where it is in force."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lshdb import Index, PairCount, UncheckedWarning
from lshdb.groups.missed_pairs import MissedPairs
from lshdb.search import loss as losses
from lshdb.search.loss import DocumentCounts, PairFrame, estimate_pairs, survey
from lshdb.storage.rows.edges import Edges
from tests.brute import brute_pairs
from tests.conftest import edited, make_text, pair_set

Make = Callable[..., Index]
Corpus = list[tuple[str, str]]


def crowded(seed: int, *, families: int = 12, boilerplate: int = 60) -> Corpus:
    """Families of near-duplicates of all sizes, copies among them, and boilerplate that is none."""
    rng = random.Random(seed)
    common = make_text(rng, 30)
    corpus = [(f"b{number:03d}", f"{common} {make_text(rng, 28)}") for number in range(boilerplate)]
    for family in range(families):
        original = make_text(rng, rng.randrange(40, 90))
        for member in range(2 + family * 2):
            text = edited(rng, original, rng.randrange(1, 5)) if member else original
            corpus.append((f"f{family:02d}-{member:02d}", text))
            if member % 5 == 0:
                corpus.append((f"f{family:02d}-{member:02d}-copy", text.upper()))
    rng.shuffle(corpus)
    return corpus


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index(threshold=0.5, k=2)
    corpus = crowded(3)
    index.add(corpus[:200])
    index.add(corpus[200:])
    index.remove([key for key, _ in corpus[::17]])
    return index


@pytest.fixture
def no_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """What leaders find is found by luck: large buckets of many unlike documents hide the rest."""
    monkeypatch.setattr("lshdb.search.candidates.LEADERS", 0)


def share_lost(index: Index, cap: int, **how: Any) -> float:
    """The plain way: find all pairs without the cap, and with it."""
    everything, found = pair_set(index, **how), pair_set(index, max_bucket=cap, **how)
    assert found < everything
    return 1 - len(found) / len(everything)


@pytest.mark.parametrize("how", [{}, {"since": 2}, {"threshold": 0.7}, {"verify": "signature"},
                                 {"verify": "none"}])  # fmt: skip
@pytest.mark.parametrize("cap", [3, 8])
def test_what_is_lost_is_counted(
    index: Index, cap: int, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "VERIFIED", 10_000)
    search = index.pairs(max_bucket=cap, **how)
    assert search.loss is None  # before the last pair
    list(search)
    assert search.loss is not None and search.loss.is_exact
    true = share_lost(index, cap, **how)
    assert true > 0.1
    assert search.recall_lost == search.loss.low == search.loss.high == pytest.approx(true)


@pytest.mark.parametrize("most_read", [10**6, 600])  # all large buckets are read, or some of them
@pytest.mark.parametrize("since", [None, 2])
def test_the_interval_holds_what_is_lost(
    index: Index, monkeypatch: pytest.MonkeyPatch, most_read: int, since: int | None
) -> None:
    true = share_lost(index, 4, since=since)
    monkeypatch.setattr(losses, "COUNTED", 0)
    monkeypatch.setattr(losses, "VERIFIED", 400)
    monkeypatch.setattr(losses, "_READ", most_read)
    n_found = len(pair_set(index, max_bucket=4, since=since))
    held, widths, said = 0, [], []
    with index._store.reading() as snapshot:
        frame = PairFrame(DocumentCounts.of(snapshot, since=since))
        for _ in survey(snapshot, bands=index.params.bands, above=4, large=frame):
            pass
        for seed in range(40):
            lost = estimate_pairs(
                snapshot, index._family, frame,
                threshold=0.5, method="exact", found_by="another bucket", seed=seed,
            )  # fmt: skip
            assert lost is not None and not lost.is_exact
            found = losses.loss_of(lost, PairCount(n_found, n_found, n_found, True, 0))
            held += found.low <= true <= found.high
            widths.append(found.high - found.low)
            said.append(found.share)
    assert held >= 38
    assert sum(said) / len(said) == pytest.approx(true, rel=0.1)
    assert sum(widths) / len(widths) < 0.35


def test_the_interval_holds_for_every_index(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another seed of the index, and few pairs that are verified of the many that pass."""
    monkeypatch.setattr(losses, "VERIFIED", 150)
    held = 0
    for seed in range(10):
        index = make_index(f"{seed}.lshdb", threshold=0.5, k=2, seed=seed)
        index.add(crowded(seed, families=11, boilerplate=40))
        search = index.pairs(max_bucket=5)
        list(search)
        assert search.loss is not None and search.loss.n_sampled == 150
        held += search.loss.low <= share_lost(index, 5) <= search.loss.high
    assert held >= 9


def test_nothing_found_in_a_sample_is_no_proof(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boilerplate with three pairs in it, which the sample does not meet."""
    index = make_index(threshold=0.9, bands=1, rows=1, k=1)
    corpus = crowded(5, families=0, boilerplate=150)
    index.add(corpus)
    (key,) = (
        index.sql(
            "SELECT min(key) FROM document_bucket WHERE bucket = "
            "(SELECT bucket FROM bucket ORDER BY size DESC LIMIT 1)"
        )
        .rows.__iter__()
        .__next__()
    )
    text = dict(corpus)[key]
    index.add([("twin", f"{text} more"), ("third", f"{text} still")])
    assert len(pair_set(index)) == 3
    monkeypatch.setattr(losses, "COUNTED", 0)
    monkeypatch.setattr(losses, "DRAWN", 50)
    monkeypatch.setattr(losses, "_FIRST_DRAWS", 50)
    search = index.pairs(max_bucket=2)
    assert list(search) == []
    assert search.loss is not None
    assert (search.loss.share, search.loss.low, search.loss.high) == (0.0, 0.0, 1.0)


def test_the_same_question_has_the_same_answer(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "COUNTED", 0)
    searches = [index.pairs(max_bucket=4) for _ in range(2)]
    for search in searches:
        list(search)
    assert searches[0].loss == searches[1].loss is not None
    assert index.stats(max_bucket=4) == index.stats(max_bucket=4)


@pytest.mark.parametrize("threshold", [0.5, 0.75])
def test_what_stored_pairs_lack_is_counted(index: Index, threshold: float) -> None:
    everything = {pair[:2] for pair in pair_set(index, threshold=threshold)}
    state = index.update_clusters(max_bucket=4)
    copies = {pair[:2] for pair in everything if pair[0].startswith(pair[1].removesuffix("-copy"))}
    assert copies
    neighbors = {
        tuple(sorted((one.key, one.neighbor)))
        for one in index.neighbors(threshold=threshold, top=10**6)
    }
    assert neighbors < everything
    loss = index.loss(threshold=threshold)
    assert loss is not None and loss.is_exact
    assert loss.share == pytest.approx(1 - len(neighbors) / len(everything))
    assert loss.share > 0.05
    if threshold == 0.5:
        assert state.recall_lost == loss.share
    assert index.update_clusters(max_bucket="none").recall_lost == 0.0
    loss = index.loss()
    assert loss is not None and loss.is_exact and loss.share == 0.0


def test_the_cap_in_force_is_in_every_answer(index: Index) -> None:
    answer = index.clusters()
    assert answer.state.max_bucket == 1000, "known when it is asked for"
    list(answer)
    assert answer.state.max_bucket == 1000
    index.update_clusters(max_bucket=4)
    for later in (index.clusters(), index.dedup(), index.neighbors()):
        list(later)  # type: ignore[call-overload]
        assert later.state.max_bucket == 4
    assert index.stats().edges_max_bucket == 4
    index.update_clusters(max_bucket="none")
    assert index.edge_state().max_bucket is None  # type: ignore[union-attr]
    assert index.stats().edges_max_bucket is None
    assert index.update_clusters().max_bucket is None  # it holds as any other does
    everything = {pair[:2] for pair in pair_set(index)}
    found = {tuple(sorted((one.key, one.neighbor))) for one in index.neighbors(top=10**6)}
    assert found == everything


@pytest.mark.parametrize("keep", ["first", "last", "longest"])
@pytest.mark.parametrize("cap", [2, 4, 12])
def test_no_two_that_are_kept_are_a_pair_under_a_cap(
    index: Index, cap: int, keep: str, no_leaders: None
) -> None:
    everything = {pair[:2] for pair in pair_set(index)}
    index.update_clusters(max_bucket=cap)
    decisions = {one.key: one for one in index.dedup(keep=keep)}
    kept = {key for key, one in decisions.items() if one.keep}
    assert [pair for pair in everything if kept.issuperset(pair)] == []
    for one in decisions.values():
        if not one.keep:
            assert one.kept_key in kept
            assert tuple(sorted((one.key, str(one.kept_key)))) in everything


def test_nothing_that_repeats_an_older_one_is_kept_under_a_cap(
    make_index: Make, no_leaders: None
) -> None:
    index = make_index(threshold=0.5, k=2)
    corpus = crowded(3)
    index.add(corpus[:200])
    old = {key for key, _ in corpus[:200]}
    index.add(corpus[200:])
    index.update_clusters(max_bucket=2)
    kept = {one.key for one in index.dedup(against=True, only="keep")}
    astray = [
        pair[:2]
        for pair in pair_set(index)
        if kept.issuperset(pair[:2]) and len(old.intersection(pair[:2])) == 1
    ]
    assert astray == []
    assert old <= kept


def test_kept_documents_are_no_pairs_by_brute_force(make_index: Make, no_leaders: None) -> None:
    corpus = crowded(9, families=8)
    index = make_index(threshold=0.5, k=2, bands=128, rows=1)  # finds all
    index.add(corpus)
    index.update_clusters(max_bucket=3)
    kept = {one.key for one in index.dedup(only="keep")}
    true = brute_pairs(corpus, 0.5, k=2)
    assert len(true) > 100
    assert [pair for pair in true if kept.issuperset(pair[:2])] == []


def test_what_could_not_be_compared_is_said(
    index: Index, monkeypatch: pytest.MonkeyPatch, no_leaders: None
) -> None:
    everything = {pair[:2] for pair in pair_set(index)}
    index.update_clusters(max_bucket=2)
    checked = index.dedup()
    assert len(list(checked)) > 100 and checked.unchecked is None
    none = Edges(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    monkeypatch.setattr(MissedPairs, "_of_group", lambda *_: (none, True))
    for how in ({}, {"against": True}):
        answer = index.dedup(**how)  # type: ignore[arg-type]
        with pytest.warns(UncheckedWarning):
            kept = {one.key for one in answer if one.keep}
        astray = [pair for pair in everything if kept.issuperset(pair)]
        if how:
            new = {key for (key,) in index.sql("SELECT key FROM document WHERE batch_id = 2").rows}
            astray = [pair for pair in astray if len(new.intersection(pair)) == 1]
        assert answer.unchecked is not None and answer.unchecked.is_exact
        assert answer.unchecked.value == len(astray) > 0


def test_buckets_are_counted(make_index: Make) -> None:
    index = make_index(threshold=0.5, k=2)
    corpus = crowded(3)
    index.add(corpus[:150])
    index.add([(f"{key} again", f"{text} again") for key, text in corpus[:150]])
    index.add(corpus[150:])
    index.remove([key for key, _ in corpus[::17]])
    sizes = [size for (size,) in index.sql("SELECT size FROM bucket WHERE size > 1").rows]
    true = (len(sizes), max(sizes), sum(size * (size - 1) // 2 for size in sizes))
    stats, counts = index.stats(), index.buckets(most=7)
    assert (stats.shared_buckets, stats.largest_bucket, stats.bucket_pairs) == true
    by_size = "SELECT size, sum(n_buckets) FROM bucket_size GROUP BY size ORDER BY size"
    assert list(counts.sizes) == list(index.sql(by_size).rows)
    assert [size for *_, size in counts.largest] == sorted(sizes, reverse=True)[:7]
    for band, bucket, size in counts.largest:
        members = "SELECT count(*) FROM posting WHERE band = ? AND bucket = ?"
        assert list(index.sql(members, (band, bucket)).rows) == [(size,)]


@pytest.mark.parametrize("cap", [2, 5])
def test_stats_say_what_pairs_leave_out(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, cap: int
) -> None:
    """With copies, and with documents that are gone."""
    monkeypatch.setattr(losses, "VERIFIED", 10_000)
    index = make_index(threshold=0.5, k=2)
    corpus = crowded(3)
    index.add(corpus[:150])
    index.add(corpus[150:])
    index.remove([key for key, _ in corpus[::17]])
    index.remove([key for key, _ in corpus if key.startswith("f05")])  # buckets of none but them
    search = index.pairs(max_bucket=cap)
    list(search)
    stats = index.stats(max_bucket=cap)
    assert stats.buckets_left_out == search.left_out.buckets > 0
    assert stats.pairs_left_out == search.left_out.pairs > 0
    assert stats.recall_lost == stats.recall_lost_low == stats.recall_lost_high
    assert stats.recall_lost == pytest.approx(share_lost(index, cap))
    monkeypatch.setattr(losses, "COUNTED", 0)
    sampled = index.stats(max_bucket=cap)
    assert sampled.recall_lost_low < stats.recall_lost < sampled.recall_lost_high  # type: ignore[operator]
