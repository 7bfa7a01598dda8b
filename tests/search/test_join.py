"""``Index.join``: the pairs across two indexes, by brute force and by one index of both."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb import (
    Index,
    LshdbError,
    ParameterError,
    ParameterMismatchError,
    TextNotStoredError,
    Tokenizer,
)
from lshdb.shingling import NORMALISATION
from lshdb.storage.bands import band_table
from lshdb.storage.bands import postings as posting_reader
from tests.brute import jaccard, shingle_set
from tests.conftest import family_corpus
from tests.without_kernel import use_reference

Make = Callable[..., Index]
Corpus = list[tuple[str, str]]
Found = set[tuple[str, str, float]]

SURE = {"bands": 64, "rows": 1, "threshold": 0.5}


def joined(one: Index, other: Index, **question: Any) -> Found:
    pairs = [
        (pair.key1, pair.key2, round(pair.similarity, 9)) for pair in one.join(other, **question)
    ]
    assert len(pairs) == len(set(pairs)), "a pair came twice"
    return set(pairs)


def brute(one: Corpus, other: Corpus, threshold: float, k: int = 5) -> Found:
    left, right = ({key: shingle_set(text, k) for key, text in each} for each in (one, other))
    found = set()
    for (key1, set1), (key2, set2) in itertools.product(left.items(), right.items()):
        similarity = jaccard(set1, set2)
        if similarity >= threshold:
            found.add((key1, key2, round(similarity, 9)))
    return found


@pytest.fixture
def halves(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """A corpus of families dealt out to two; exact copies, empty texts and one key in both."""
    shuffled = list(corpus)
    random.Random(1).shuffle(shuffled)
    common = [("both", shuffled[0][1]), ("empty", "\n"), ("signs", "?!")]
    return [*shuffled[:90], *common], [*shuffled[90:], *common, ("twin", shuffled[0][1].upper())]


def test_it_is_brute_force(make_index: Make, halves: tuple[Corpus, Corpus]) -> None:
    one, other = (make_index(name, **SURE) for name in ("one", "other"))
    one.add(halves[0])
    for start in range(0, len(halves[1]), 13):
        other.add(halves[1][start : start + 13])
    expected = brute(*halves, 0.5)
    assert len(expected) > 60 and ("both", "both", 1.0) in expected
    assert joined(one, other) == expected
    assert joined(other, one) == {(key2, key1, score) for key1, key2, score in expected}
    assert joined(one, other, threshold=0.9) == brute(*halves, 0.9)
    assert {pair.method for pair in one.join(other)} == {"exact"}


@pytest.mark.parametrize("verify", ["none", "signature", "exact"])
@pytest.mark.parametrize("bands", [5, 20])
def test_it_is_pairs_across_when_both_are_in_one_index(
    make_index: Make, halves: tuple[Corpus, Corpus], verify: str, bands: int
) -> None:
    """Also where bands miss pairs: the same ones are missed."""
    parameters = {"bands": bands, "rows": 4, "threshold": 0.6}
    one, other, union = (make_index(name, **parameters) for name in ("one", "other", "union"))
    sides = [[(f"{side} {key}", text) for key, text in halves[side]] for side in (0, 1)]
    one.add(sides[0])
    other.add(sides[1])
    union.add([*sides[0], *sides[1]])
    across = {
        (*sorted((pair.key1, pair.key2)), round(pair.similarity, 9), pair.method)
        for pair in union.pairs(verify=verify)
        if pair.key1[0] != pair.key2[0]
    }
    found = [
        (pair.key1, pair.key2, round(pair.similarity, 9), pair.method)
        for pair in one.join(other, verify=verify)
    ]
    assert len(found) == len(set(found)) > 20
    assert set(found) == across


@pytest.mark.parametrize("cost", [0, 1e9])
@pytest.mark.parametrize("keys", [1, 8192])
def test_looking_up_gives_what_merging_gives(
    make_index: Make,
    halves: tuple[Corpus, Corpus],
    cost: float,
    keys: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lshdb.search.join._LOOKUP_COST", cost)
    monkeypatch.setattr("lshdb.search.join._LOOKUP_KEYS", keys)
    parameters = {"bands": 16, "rows": 1, "threshold": 0.5}
    one, other, none = (make_index(name, **parameters) for name in ("one", "other", "none"))
    one.add(halves[0])
    other.add(halves[1][:20])
    expected = brute(halves[0], halves[1][:20], 0.5)
    assert len(expected) > 5
    assert joined(one, other) == expected
    assert joined(other, one) == {(key2, key1, score) for key1, key2, score in expected}
    assert joined(one, none) == joined(none, one) == set()


@pytest.mark.parametrize("postings", [1, 2, 7, 64])
def test_blocks_of_any_size(
    make_index: Make,
    halves: tuple[Corpus, Corpus],
    postings: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posting_reader, "_POSTINGS", postings)
    monkeypatch.setattr("lshdb.search.join._BLOCK_PAIRS", 3)
    monkeypatch.setattr("lshdb.search.join._EXACT_PAIRS", 2)
    parameters = {"bands": 8, "rows": 1, "threshold": 0.5}
    one, other = (make_index(name, **parameters) for name in ("one", "other"))
    one.add(halves[0][:40])
    other.add(halves[1][:50])
    found = joined(one, other, threshold=0.05)
    assert found <= brute(halves[0][:40], halves[1][:50], 0.05) and len(found) > 10
    monkeypatch.undo()
    assert joined(one, other, threshold=0.05) == found


def test_buckets_come_whole_once_and_in_order(
    make_index: Make, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index(bands=130, rows=1, num_perm=130)
    assert _buckets(index) == {}
    for start in range(0, len(corpus), 8):
        index.add(corpus[start : start + 8])
    expected: dict[int, list[int]] = {}
    for band, bucket, one in index.sql("SELECT * FROM posting").rows:
        key = int(band) << 32 | int(bucket) & (2**32 - 1)  # type: ignore[call-overload]
        expected.setdefault(key, []).append(int(one))  # type: ignore[call-overload]
    for without_orders in (False, True):
        for postings in (1, 3, 100, 65_536):
            monkeypatch.setattr(posting_reader, "_POSTINGS", postings)
            monkeypatch.setattr(band_table, "_BLOCK_ROWS", postings)
            assert _buckets(index) == {key: sorted(ids) for key, ids in expected.items()}
        if not without_orders:
            monkeypatch.setattr(
                "lshdb.storage.orders.frozen.OrderFolder.cover", lambda *_, **__: None
            )


def _buckets(index: Index) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    last = None
    with index._store.reading() as snapshot:
        for block in snapshot.postings.in_order():
            members = np.split(block.members, np.cumsum(block.sizes)[:-1])
            for key, ids in zip(block.keys.tolist(), members, strict=True):
                assert last is None or last < key
                last = key
                found[key] = ids.tolist()
    return found


@pytest.mark.parametrize("kernel", [True, False])
def test_units_bags_and_a_tokenizer(
    make_index: Make, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel:
        use_reference(monkeypatch)
    commas = Tokenizer(lambda text: text.split(","), name="commas", version="1")
    for number, options in enumerate(
        ({"unit": "char"}, {"unit": "url"}, {"tokenizer": commas, "k": 1}, {"bag": True, "k": 1})
    ):
        one, other = (make_index(f"{name}{number}", **SURE, **options) for name in ("one", "other"))
        one.add([("a", "http://a.b/c/d,e,f,e,f"), ("empty", "")])
        with Index.open(other.path) as elsewhere:  # its tokenizer is not known there
            other.add(
                [("b", "http://x.y/c/d,e,f,e,f" if number == 1 else "HTTP://a.b/c/d,e,f,e,f")]
            )
            pairs = joined(one, elsewhere, threshold=0.1)
            assert {pair[:2] for pair in pairs} == {("a", "b")}
            text1, text2 = (one.show("a").body, other.show("b").body)
            assert pairs.pop()[2] == round(one.similarity(text1, text2), 9)  # type: ignore[arg-type]


def test_an_index_with_itself(make_index: Make, corpus: Corpus) -> None:
    index = make_index(**SURE)
    index.add(corpus[:60])
    expected = brute(corpus[:60], corpus[:60], 0.5)
    assert len(expected) > 100
    with Index.open(index.path) as again:
        assert joined(index, index) == joined(index, again) == expected


def test_what_was_replaced_is_in_no_pair(make_index: Make) -> None:
    one, other = (make_index(name, k=1) for name in ("one", "other"))
    for index in (one, other):
        index.add([("a", "one two three"), ("b", "four five six")])
        index.add([("a", "seven eight nine")])
    assert joined(one, other) == {("a", "a", 1.0), ("b", "b", 1.0)}
    for verify in ("none", "signature"):
        assert joined(one, other, verify=verify) == {("a", "a", 1.0), ("b", "b", 1.0)}


def test_an_empty_index_joins_with_nothing(make_index: Make) -> None:
    one, other = (make_index(name) for name in ("one", "other"))
    assert joined(one, other) == set()
    one.add([("a", "one two three")])
    assert joined(one, other) == joined(other, one) == set()


def test_threshold_recall_and_texts_may_differ(make_index: Make) -> None:
    one = make_index("one", threshold=0.9, bands=16, rows=6)
    other = make_index("other", threshold=0.3, bands=16, rows=6, store_text=False)
    text = "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    for index in (one, other):
        index.add([("a", text), ("b", text + " 1 2 3")])
    assert {pair[:2] for pair in joined(one, other)} == {("a", "a"), ("b", "b")}
    assert {pair[:2] for pair in joined(other, one)} == set(itertools.product("ab", repeat=2))
    assert {pair.method for pair in one.join(other)} == {"signature"}
    for left, right in ((one, other), (other, one)):
        with pytest.raises(TextNotStoredError, match=r"/other was made with --no-text"):
            left.join(right, verify="exact")


@pytest.mark.parametrize(
    ("name", "stored", "given_", "options"),
    [
        ("scheme", "fss", "universal", {"scheme": "universal"}),
        ("num_perm", 128, 120, {"num_perm": 120}),
        ("seed", 1, 2, {"seed": 2}),
        ("bands", 16, 18, {"bands": 18, "rows": 6}),
        ("rows", 6, 5, {"bands": 16, "rows": 5}),
        ("unit", "word", "token", {"unit": "token"}),
        ("k", 5, 4, {"k": 4}),
        ("bag", False, True, {"bag": True}),
        ("normalisation", NORMALISATION, "ignorable-nfkc-space", {"lowercase": False}),
    ],
)
def test_other_parameters_are_refused(
    make_index: Make, name: str, stored: object, given_: object, options: dict[str, Any]
) -> None:
    one = make_index("one", **{"bands": 16, "rows": 6})
    other = make_index("other", **{"bands": 16, "rows": 6, **options})
    with pytest.raises(ParameterMismatchError, match=f"^{name} is") as caught:
        one.join(other)
    assert (caught.value.name, caught.value.stored, caught.value.given) == (name, stored, given_)
    assert f"{stored!r} in {one.path} and {given_!r} in {other.path}" in caught.value.message


def test_other_stop_tokens_and_tokenizers_are_refused(make_index: Make) -> None:
    hosts = [make_index(f"h{n}", unit="url", stop_tokens=[word]) for n, word in enumerate("ab")]
    with pytest.raises(ParameterMismatchError, match=r"^stop_tokens is 'a' in"):
        hosts[0].join(hosts[1])
    own = [
        make_index(f"t{version}", tokenizer=Tokenizer(str.split, name="own", version=version))
        for version in "12"
    ]
    with pytest.raises(ParameterMismatchError, match=r"^tokenizer is 'own 1' in"):
        own[0].join(own[1])


def test_refusals_come_at_once(make_index: Make) -> None:
    one, other = (make_index(name) for name in ("one", "other"))
    with pytest.raises(ParameterError, match="threshold is 0"):
        one.join(other, threshold=0)
    with pytest.raises(ParameterError, match="verify is 'maybe'"):
        one.join(other, verify="maybe")
    other.close()
    with pytest.raises(LshdbError, match="is closed"):
        list(one.join(other))


WORDS = st.lists(st.sampled_from("abcd"), max_size=6).map(" ".join)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    texts=st.lists(st.tuples(st.booleans(), WORDS), max_size=14),
    threshold=st.sampled_from([0.2, 0.5, 1.0]),
    split=st.integers(0, 14),
)
def test_any_small_corpora(texts: list[tuple[bool, str]], threshold: float, split: int) -> None:
    """One row a band and 128 bands: what brute force finds is found."""
    documents = [(f"d{number}", text, side) for number, (side, text) in enumerate(texts)]
    sides = [[(key, text) for key, text, side in documents if side == which] for which in (0, 1)]
    parameters: dict[str, Any] = {"k": 2, "bands": 128, "rows": 1, "threshold": threshold}
    with tempfile.TemporaryDirectory() as folder:
        made = [Index.create(Path(folder) / name, **parameters) for name in ("one", "other")]
        for index, side in zip(made, sides, strict=True):
            index.add(side[:split])
            index.add(side[split:])
        assert joined(*made) == brute(*sides, threshold, k=2)
        for index in made:
            index.close()


def test_random_families_by_signature_too(make_index: Make) -> None:
    sides = [family_corpus(seed, families=8) for seed in (5, 5)]
    one, other = (make_index(name, **SURE) for name in ("one", "other"))
    one.add(sides[0])
    other.add(reversed(sides[1]))
    for key1, key2, estimate in joined(one, other, verify="signature"):
        exact = one.explain(key1, key2).exact or 0.0
        assert abs(estimate - exact) < 0.25


def test_pairs_come_once_however_few_are_remembered(
    make_index: Make, halves: tuple[Corpus, Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (make_index(f"{n}.lshdb", **SURE) for n in "ab")
    for index, corpus in zip((one, other), halves, strict=True):
        index.add(corpus)
    expected = brute(*halves, 0.5)
    monkeypatch.setattr("lshdb.search.exact_levels._BLOCK_PAIRS", 3)
    monkeypatch.setattr("lshdb.search.exact_levels.ExactLevels.block_pairs", 3)
    assert joined(one, other) == expected
    monkeypatch.setattr("lshdb.search.join._SPREAD", np.uint64(0))  # one place for all
    assert joined(one, other) == expected
    columns = [pair for block in one.join(other).columns() for pair in block.pairs()]
    assert columns == list(one.join(other))
