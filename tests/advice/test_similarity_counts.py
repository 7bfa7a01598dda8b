"""Pairs of a sample against brute force, and intervals against the truth of all documents."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

import lshdb
from lshdb import Advice, Index, InputError, ParameterError
from lshdb.advice.sampled_documents import sample_of_index

SLICES = 21


def corpus(n: int, seed: int = 1) -> list[tuple[str, str]]:
    """Families of texts in which some words are changed, copies, and texts of their own."""
    rng = random.Random(seed)
    documents: list[tuple[str, str]] = []
    while len(documents) < n:
        words = [f"w{rng.randrange(50_000)}" for _ in range(40)]
        for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
            some = list(words)
            for _ in range(rng.choice([0, 0, 1, 2, 5, 12])):
                some[rng.randrange(40)] = f"w{rng.randrange(50_000)}"
            documents.append((f"d{len(documents)}", " ".join(some)))
    return documents[:n]


def shingles(text: str, k: int = 5) -> frozenset[tuple[str, ...]]:
    words = text.split()
    return frozenset(tuple(words[at : at + k]) for at in range(len(words) - k + 1))


def slice_of(one: frozenset[object], other: frozenset[object]) -> int:
    return len(one & other) * 20 // len(one | other)


def truth(documents: list[tuple[str, str]]) -> list[int]:
    sets = [shingles(text) for _, text in documents]
    found = Counter(itertools.starmap(slice_of, itertools.combinations(sets, 2)))
    return [found[place] for place in range(SLICES)]


def seen(advice: Advice) -> list[int]:
    return [one.seen for one in advice.histogram.slices]


@pytest.mark.fast
def test_all_pairs_are_counted_exactly() -> None:
    documents = corpus(150)
    advice = lshdb.advise(documents)
    assert seen(advice) == truth(documents)
    assert sum(seen(advice)) == 150 * 149 // 2
    assert advice.histogram.is_exact and advice.documents == advice.sampled == 150
    for one in advice.histogram.slices:
        assert one.pairs == one.lower == one.upper == one.seen


def test_documents_without_shingles_are_like_no_other() -> None:
    advice = lshdb.advise([("a", ""), ("b", ""), ("c", "one text"), ("d", "one text")])
    assert seen(advice)[-1] == 1 and seen(advice)[0] == 5


def test_intervals_hold_the_truth_for_nearly_all_seeds(is_long: bool) -> None:
    n_seeds = 30 if is_long else 12
    documents = corpus(1200)
    known = [one.pairs for one in lshdb.advise(documents).histogram.slices]
    inside, cases, sums = 0, 0, [0.0] * SLICES
    for seed in range(n_seeds):
        advice = lshdb.advise(documents, sample=400, seed=seed, aim="near-copies", k=5)
        assert advice.histogram.compared == 400 and not advice.histogram.is_exact
        for place, one in enumerate(advice.histogram.slices):
            inside += one.lower <= known[place] <= one.upper
            sums[place] += one.pairs / n_seeds
            cases += 1
    assert inside >= 0.98 * cases
    near = slice(10, SLICES)  # an estimate that scales by another number is far from this
    assert sum(sums[near]) == pytest.approx(sum(known[near]), rel=0.15)


def test_large_families_widen_intervals(is_long: bool) -> None:
    """Sixty copies are 1,770 pairs that a sample has or has not together."""
    documents = corpus(900) + [(f"copy{i}", "the same text again " * 5) for i in range(60)]
    known = lshdb.advise(documents).histogram.slices[-1].pairs
    inside = 0
    n_seeds = 30 if is_long else 12
    for seed in range(n_seeds):
        one = lshdb.advise(documents, sample=200, seed=seed, aim="near-copies", k=5)
        copies = one.histogram.slices[-1]
        inside += copies.lower <= known <= copies.upper
    assert inside >= 0.93 * n_seeds


def test_a_sample_does_not_depend_on_the_order_of_documents() -> None:
    documents = corpus(300)
    forth = lshdb.advise(documents, sample=100)
    back = lshdb.advise(reversed(documents), sample=100)
    assert seen(forth) == seen(back)
    assert seen(forth) != seen(lshdb.advise(documents, sample=100, seed=2))


def test_workers_and_small_memory_change_no_count() -> None:
    documents = corpus(300)
    assert seen(lshdb.advise(documents, workers=1)) == seen(lshdb.advise(documents, workers=3))


def test_texts_that_memory_does_not_hold_are_not_drawn() -> None:
    documents = [(str(number), "x" * 40_000 + f" {number}") for number in range(200)]
    advice = lshdb.advise(iter(documents), memory=2**22)
    assert 2 <= advice.sampled < 200 and advice.documents == 200


def test_long_texts_of_an_index_are_read_few_at_a_time(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add((str(number), f"{number} and more words " * 50_000) for number in range(40))
        with index._store.reading() as snapshot:
            tracemalloc.start()
            drawn = sample_of_index(snapshot, most=40, memory=2**22, seed=1, named=())
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    assert 2 <= len(drawn.keys) < 6
    assert peak < 20_000_000  # of 42


def test_examples_lie_at_round_numbers_and_show_other_documents() -> None:
    documents = corpus(600)
    texts = dict(documents)
    advice = lshdb.advise(documents)
    near = Counter(one.near for one in advice.examples)
    assert set(near) == {0.5, 0.6, 0.7, 0.8, 0.9} and max(near.values()) == 5
    for one in advice.examples:
        assert abs(one.similarity - one.near) <= 0.025
        sets = shingles(texts[one.key1]), shingles(texts[one.key2])
        assert one.similarity == len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        assert (one.text1, one.text2) == (texts[one.key1], texts[one.key2])
    at_8 = [one for one in advice.examples if one.near == 0.8]
    assert len({key for one in at_8 for key in (one.key1, one.key2)}) == 2 * len(at_8)


def test_a_key_that_comes_twice_counts_once_with_its_last_text() -> None:
    advice = lshdb.advise(
        [("a", "some text"), ("b", "a text of its own"), ("a", "a text of its own")]
    )
    assert advice.documents == 2 and seen(advice)[-1] == 1


def test_an_index_gives_the_same_advice_as_its_texts(tmp_path: object) -> None:
    documents = corpus(200)
    with lshdb.Index.create(f"{tmp_path}/a.lshdb") as index:
        index.add(documents)
        for sample in (1000, 80):
            stored, given = index.advise(sample=sample), lshdb.advise(documents, sample=sample)
            assert stored.histogram == given.histogram
            assert stored.examples == given.examples


def test_mistakes_are_named() -> None:
    two = [("a", "x"), ("b", "y")]
    with pytest.raises(ParameterError, match="aim is 'everything'; expected one of exact-copies"):
        lshdb.advise(two, aim="everything")
    with pytest.raises(ParameterError, match="sample is 1"):
        lshdb.advise(two, sample=1)
    with pytest.raises(ParameterError, match="advice is for texts"):
        lshdb.advise(two, metric="cosine", dim=3)
    with pytest.raises(ParameterError, match="passages would cut them"):
        lshdb.advise(two, passages=(20, 10))
    with pytest.raises(InputError, match="there is one document"):
        lshdb.advise(two[:1])
    with pytest.raises(ParameterError, match="documents"):
        lshdb.advise("text")  # type: ignore[arg-type]


def test_where_texts_share_much_fewer_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lshdb.advice.advise._MEETINGS", 20_000)
    documents = [(str(number), f"a b c d e {number}") for number in range(200)]
    advice = lshdb.advise(documents, k=1, aim="exact-copies")
    compared = advice.histogram.compared
    assert 2 <= compared < 100 and not advice.histogram.is_exact
    said = "\n".join(advice.remarks)
    assert f"{compared} of 200 documents" in said and "200 were to be compared" in said
    one = advice.histogram.slices[14]  # all pairs have 5 of 7
    assert one.seen == compared * (compared - 1) // 2
    assert one.pairs == pytest.approx(200 * 199 / 2) and one.lower <= one.pairs <= one.upper
