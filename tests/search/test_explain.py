"""``Index.explain``: says of a pair what ``pairs``, ``query`` and the postings say."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mmh3
import numpy as np
import pytest

from lshdb import (
    DamageError,
    Explanation,
    Index,
    InputError,
    KeyNotFoundError,
    ParameterError,
    Tokenizer,
)
from lshdb.search import explain as explanation
from lshdb.search.query import query_points
from lshdb.shingling import UNITS, Shingler, shingle_hashes, shingle_texts
from lshdb.signatures import shingle_content
from tests.conftest import family_corpus, pair_set
from tests.raw import change

Make = Callable[..., Index]

COMMAS = Tokenizer(lambda text: text.split(","), name="commas", version="1")
BODIES: list[Any] = [
    "Déjà vu, déjà vu, déjà vu\n"
    "\u4e2d\u6587 rose is a rose is a rose\n\nrose is\ta rose \U0001f600",
    "http://a.example/one/two/two.htm?x=y\nb.example/one/two/three\nhttp://c.example/\x1b[31m",
    "x",
    "",
    " \n ",
    "?!",
    ["ready", "tokens", "ready", "tokens", "a b", "", "\u00e9"],
    [],
]


def hashed(texts: tuple[str, ...] | list[str], *, bag: bool) -> list[int]:
    """Hashes of shingles by mmh3 alone, the i-th repetition with seed i."""
    seen: dict[str, int] = {}
    for_seed: set[int] = set()
    for text in texts:
        seed = seen.get(text, 0)
        seen[text] = seed + 1
        raw = text.encode("utf-8", "surrogateescape")
        for_seed.add(mmh3.hash64(raw, seed if bag else 0, signed=False)[0])
    assert bag or max(seen.values(), default=1) == 1, "a shingle of a set came twice"
    return sorted(for_seed)


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("unit", list(UNITS))
def test_shingles_as_text_have_the_hashes_of_the_index(unit: str, k: int, bag: bool) -> None:
    split = COMMAS.split if unit == "tokenizer" else None
    shingler = Shingler(unit, k, bag, UNITS[unit].normalisation, frozenset(["htm"]), split)  # type: ignore[arg-type]
    for body in BODIES:
        content = shingler.canonical(body)
        texts = shingle_texts(content, unit=unit, k=k, bag=bag)
        expected = shingle_hashes(content, unit=unit, k=k, bag=bag)
        assert hashed(texts, bag=bag) == expected.tolist()
        assert np.array_equal(shingle_content(content, unit=unit, k=k, bag=bag), expected)


def test_they_are_in_the_order_of_the_document() -> None:
    text = "b a b a c"
    assert shingle_texts(text, unit="word", k=1, bag=False) == ["b", "a", "c"]
    assert shingle_texts(text, unit="word", k=1, bag=True) == ["b", "b", "a", "a", "c"]
    assert shingle_texts("\u00e9a", unit="byte", k=2, bag=False) == ["\u00e9", "\udca9a"]


def buckets_by_sql(index: Index) -> dict[str, set[tuple[int, int]]]:
    """(band, bucket) of every bucket a document is in, by key, from the postings."""
    buckets: dict[str, set[tuple[int, int]]] = {}
    for key, band, bucket in index.sql("SELECT key, band, bucket FROM document_bucket").rows:
        buckets.setdefault(key, set()).add((band, bucket))
    return buckets


def test_it_says_what_pairs_and_postings_say(make_index: Make) -> None:
    documents = [*family_corpus(3, families=8, size=4), ("empty", "?!")]
    index = make_index(threshold=0.7, bands=3, rows=4)
    index.add(documents)
    found = {(key1, key2): similarity for key1, key2, similarity in pair_set(index)}
    buckets = buckets_by_sql(index)
    missed = candidates = 0
    texts = dict(documents)
    for key1, key2 in itertools.combinations(sorted(texts), 2):
        said = index.explain(key1, key2)
        assert said.exact == index.similarity(texts[key1], texts[key2])
        assert said.is_found == ((key1, key2) in found)
        both = buckets.get(key1, set()) & buckets.get(key2, set())
        assert said.matched_bands == tuple(sorted(band for band, _ in both))
        assert said.is_candidate == bool(said.matched_bands)
        assert said.is_near_duplicate == (said.exact >= 0.7)
        if said.is_found:
            assert round(said.similarity, 9) == found[key1, key2]
        missed += said.is_near_duplicate and not said.is_found
        candidates += said.is_candidate and not said.is_found
        if said.estimate is not None:
            assert said.estimate == said.equal_slots / 128
            assert abs(said.estimate - said.exact) < 0.25
        assert said.recall == pytest.approx(index.params.recall_at(said.exact))
    assert len(found) > 10 and missed and candidates


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("unit", list(UNITS))
def test_every_unit(make_index: Make, unit: str, bag: bool) -> None:
    options = {"tokenizer": COMMAS} if unit == "tokenizer" else {}
    index = make_index(unit=unit, bag=bag, k=1, threshold=0.1, bands=64, rows=1, **options)
    bodies = {str(number): body for number, body in enumerate(BODIES)}
    index.add(bodies.items())
    for key1, key2 in itertools.product(bodies, bodies):
        said = index.explain(key1, key2)
        assert said.shared is not None and said.only1 is not None and said.only2 is not None
        for own, key in ((said.only1, key1), (said.only2, key2)):
            own_hashes = query_points(index._family, [bodies[key]])[0].tolist()
            assert hashed([*said.shared, *own], bag=bag) == own_hashes
        if not bag:
            assert not set(said.only1) & set(said.only2)
        assert said.exact == pytest.approx(index.similarity(bodies[key1], bodies[key2]))
        assert said.are_copies == (
            index.show(key1).document.signature_id == index.show(key2).document.signature_id
            and index.show(key1).document.n_shingles > 0
        )
        other = index.explain(key2, key1)
        assert (other.only1, other.only2) == (said.only2, said.only1)
        assert sorted(other.shared or ()) == sorted(said.shared)
        by_body = index.explain(key1, body=bodies[key2])
        assert by_body.key2 is None
        names = set(Explanation.__dataclass_fields__) - {"key2", "is_found"}
        assert all(getattr(by_body, name) == getattr(said, name) for name in names)


def test_without_texts_there_is_an_estimate(make_index: Make) -> None:
    one, other = "a b c d e f g h i j", "a b c d e f g h i x"
    index = make_index(store_text=False, threshold=0.5, k=1)
    index.add([("one", one), ("other", other), ("copy", one.upper()), ("empty", "")])
    said = index.explain("one", "other")
    assert (said.exact, said.shared, said.only1, said.only2) == (None, None, None, None)
    assert said.similarity == said.estimate and said.method == "signature"
    assert said.is_near_duplicate and said.is_found and not said.are_copies
    assert index.explain("one", body=other).estimate == said.estimate
    copies = index.explain("one", "copy")
    assert copies.are_copies and copies.exact == 1.0 and copies.method == "exact"
    assert index.explain("one", body=one.title()).are_copies
    assert index.explain("one", "empty").exact == 0.0


def test_empty_documents_are_similar_to_nothing(make_index: Make) -> None:
    index = make_index()
    index.add([("empty", ""), ("too", ""), ("full", "a b c")])
    for said in (
        index.explain("empty", "too"),
        index.explain("empty", "empty"),
        index.explain("empty", body=""),
        index.explain("full", body="\u200b"),
    ):
        assert (said.exact, said.estimate, said.matched_bands) == (0.0, None, ())
        assert str(said.recall) == "0.0"
        assert not (said.are_copies or said.is_near_duplicate or said.is_found)


def test_a_document_with_itself_is_no_pair(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "one two three")])
    said = index.explain("a", "a")
    assert said.are_copies and said.is_near_duplicate and said.is_candidate and not said.is_found
    assert (said.exact, said.estimate, said.recall) == (1.0, 1.0, 1.0)
    assert said.matched_bands == tuple(range(index.params.bands))
    assert index.explain("a", body="ONE  two three").is_found


def test_a_replaced_text_counts_no_longer(make_index: Make) -> None:
    index = make_index(k=1)
    index.add([("a", "one two"), ("b", "three four")])
    index.add([("b", "one two")])
    said = index.explain("a", "b")
    assert said.are_copies and said.shared == ("one", "two")


def test_a_pair_below_the_prefilter_is_not_found(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explanation, "least_share", lambda params, method, threshold: 0.9)
    index = make_index(threshold=0.3, k=1)
    index.add([("a", "a b c d"), ("b", "a b c x")])
    said = index.explain("a", "b")
    assert said.is_near_duplicate and said.is_candidate and not said.is_found


def test_refusals(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "text")])
    for key2, body in ((None, None), ("a", "text")):
        with pytest.raises(ParameterError, match="either a second key or a body"):
            index.explain("a", key2, body=body)
    for keys in (("no", "a"), ("a", "no")):
        with pytest.raises(KeyNotFoundError, match="'no'"):
            index.explain(*keys)
    with pytest.raises(InputError, match="lone surrogate"):
        index.explain("a", body="\ud800")
    with pytest.raises(InputError, match="of type int"):
        index.explain("a", body=5)  # type: ignore[arg-type]


def test_a_lost_text_is_damage(tmp_path: Any) -> None:
    with Index.create(tmp_path / "i.lshdb") as index:
        index.add([("a", "text"), ("b", "other")])
        change(index.path, "DELETE FROM content")
        change(index.path, "UPDATE document SET signature_id = 7 WHERE key = 'b'")
        with pytest.raises(DamageError, match="text of the document 'a' is missing"):
            index.explain("a", "b")
        with pytest.raises(DamageError, match=r"row 2 of .* is not as it was written: \(2, 'b', 7"):
            index.explain("b", "a")
