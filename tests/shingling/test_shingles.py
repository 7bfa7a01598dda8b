"""Shingles: how many, of what bytes, hashed how; sets and bags; what cannot be encoded."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import mmh3
import numpy as np
import pytest

from lshdb.shingling import canonical_content, shingle_hashes, split_words
from lshdb.shingling.shingles import char_shingles, hash_shingles, word_shingles
from tests.golden import plain

pytestmark = pytest.mark.fast

WORDS = ["\u00e9t\u00e9", "rose", "is", "a", "\u4e2d", "x" * 40, ""]


def _hashes(body: str | list[str], unit: str = "word", k: int = 5, bag: bool = False) -> list[int]:
    return shingle_hashes(canonical_content(body), unit=unit, k=k, bag=bag).tolist()


# Counts and bytes


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9, 255])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 6, 9, 10, 40, 300])
def test_counts(k: int, length: int) -> None:
    expected = 0 if length == 0 else max(1, length - k + 1)
    assert len(word_shingles([f"w{number}" for number in range(length)], k)) == expected
    for alphabet in ("abcdefg", "ab\u00e9\u4e2d\U0001f600"):
        text = "".join(itertools.islice(itertools.cycle(alphabet), length))
        assert len(char_shingles(text, k)) == expected
    different = " ".join(f"w{number}" for number in range(length))
    assert len(_hashes(different, k=k)) == expected


@pytest.mark.parametrize("k", [1, 2, 5, 7])
def test_word_shingles_are_slices_joined_by_a_blank(k: int) -> None:
    rng = random.Random(k)
    for length in range(k + 1, 30):
        tokens = rng.choices(WORDS, k=length)
        expected = [" ".join(tokens[i : i + k]).encode() for i in range(length - k + 1)]
        assert word_shingles(tokens, k) == expected


@pytest.mark.parametrize("k", [1, 2, 5, 9])
@pytest.mark.parametrize("alphabet", ["abc d", "a\u00e9 \u4e2d\U0001f600"])
def test_char_shingles_are_slices(k: int, alphabet: str) -> None:
    rng = random.Random(k)
    for length in range(k + 1, 30):
        text = "".join(rng.choices(alphabet, k=length))
        expected = [text[i : i + k].encode() for i in range(length - k + 1)]
        assert char_shingles(text, k) == expected


@pytest.mark.parametrize("k", [4, 5, 200])
def test_fewer_than_k_is_one_shingle_of_all(k: int) -> None:
    tokens = ["to", "be", "or", "not"]
    assert word_shingles(tokens, k) == [b"to be or not"]
    assert char_shingles("not\u00e9", k) == ["not\u00e9".encode()]
    assert char_shingles("nota", k) == [b"nota"]
    assert _hashes("To be, or not!", k=k) == [mmh3.hash64("to be or not", signed=False)[0]]


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("body", ["", " \n", []])
def test_nothing_gives_nothing(body: str | list[str], unit: str, bag: bool) -> None:
    hashes = shingle_hashes(canonical_content(body), unit=unit, k=5, bag=bag)
    assert hashes.shape == (0,)
    assert hashes.dtype == np.uint64


def test_a_text_without_words_is_one_shingle() -> None:
    assert _hashes("...  !?", k=2) == [mmh3.hash64("... !?", signed=False)[0]]
    assert _hashes("\U0001f389" * 3, k=1, bag=True) == _hashes(" \U0001f389\U0001f389\U0001f389")
    assert _hashes("\xad \u200b\n\ufeff") == []
    assert len(_hashes("... !?", unit="char", k=5)) == 2


# Hashes


def test_mmh3_alone_reproduces_a_hash() -> None:
    hashes = _hashes("To be or NOT to be")
    expected = [
        mmh3.hash64("to be or not to", signed=False)[0],
        mmh3.hash64("be or not to be", signed=False)[0],
    ]
    assert hashes == sorted(expected)


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("k", [1, 3])
def test_hashes_are_sorted_and_distinct(unit: str, k: int, bag: bool) -> None:
    text = " ".join(random.Random(1).choices(WORDS, k=500))
    hashes = shingle_hashes(canonical_content(text), unit=unit, k=k, bag=bag)
    assert hashes.dtype == np.uint64
    assert hashes.ndim == 1
    assert (hashes[1:] > hashes[:-1]).all()
    assert (hashes > np.uint64(2**63)).any(), "the upper half of the numbers is used too"


def test_order_of_documents_words_matters_and_order_of_shingles_does_not() -> None:
    assert _hashes("a b c d e f") != _hashes("f e d c b a")
    shingles = [b"one", b"two", b"three", b"two"]
    for bag in (False, True):
        expected = hash_shingles(shingles, bag=bag).tolist()
        for permuted in itertools.permutations(shingles):
            assert hash_shingles(permuted, bag=bag).tolist() == expected


# Ready tokens


def test_ready_tokens_are_used_as_they_are() -> None:
    tokens = ["New  York", "UPPER", "", "caf\u00e9", "cafe\u0301"]
    assert _hashes(tokens, k=1) == sorted(
        mmh3.hash64(token.encode(), signed=False)[0] for token in tokens
    )
    assert _hashes(tokens, k=5) == [mmh3.hash64(" ".join(tokens).encode(), signed=False)[0]]


@pytest.mark.parametrize("bag", [False, True])
def test_ready_tokens_are_words_in_an_index_of_characters_too(bag: bool) -> None:
    tokens = ["alpha", "beta"] * 5
    assert _hashes(tokens, unit="char", k=3, bag=bag) == _hashes(tokens, unit="word", k=3, bag=bag)
    content = tuple(tokens)
    assert shingle_hashes(content, unit="char", k=3, bag=bag).tolist() == _hashes(
        tokens, k=3, bag=bag
    )


def test_a_texts_words_given_ready_are_the_same_document() -> None:
    text = "A rose is a rose, is \u00c9t\u00e9 \u4e2d\u6587"
    ready = split_words(str(canonical_content(text)))
    for bag in (False, True):
        assert _hashes(ready, k=2, bag=bag) == _hashes(text, k=2, bag=bag)


# Bags


def _counts(body: str, unit: str, k: int) -> Counter[bytes]:
    return Counter(plain.shingles(body, unit=unit, k=k))


@pytest.mark.parametrize(("unit", "k"), [("word", 1), ("word", 2), ("char", 1), ("char", 4)])
def test_jaccard_of_bags_is_smaller_counts_over_larger(unit: str, k: int) -> None:
    rng = random.Random(k)
    for _ in range(100):
        left, right = (
            " ".join(rng.choices(["a", "bb", "c\u00e9", "a b"], k=rng.randint(1, 30)))
            for _ in range(2)
        )
        one, other = _counts(left, unit, k), _counts(right, unit, k)
        bags = [set(_hashes(text, unit, k, bag=True)) for text in (left, right)]
        assert len(bags[0] & bags[1]) == (one & other).total()
        assert len(bags[0] | bags[1]) == (one | other).total()
        sets = [set(_hashes(text, unit, k, bag=False)) for text in (left, right)]
        assert len(sets[0] & sets[1]) == len(one.keys() & other.keys())
        assert len(sets[0] | sets[1]) == len(one.keys() | other.keys())


def test_repetitions_are_hashed_with_their_number() -> None:
    assert _hashes("ha ha ha", k=1, bag=True) == sorted(
        mmh3.hash64("ha", seed, signed=False)[0] for seed in range(3)
    )
    assert _hashes("ha ha ha", k=1) == [mmh3.hash64("ha", signed=False)[0]]


def test_bag_and_set_agree_where_nothing_repeats() -> None:
    text = " ".join(f"w{number}" for number in range(200))
    assert _hashes(text, bag=True) == _hashes(text, bag=False)


# What is no text


@pytest.mark.parametrize("surrogate", ["\ud800", "\udbff", "\udc00", "\udfff", "\udc00\ud800"])
@pytest.mark.parametrize("length", [0, 3, 30])
@pytest.mark.parametrize("bag", [False, True])
def test_lone_surrogates_get_no_hash(surrogate: str, length: int, bag: bool) -> None:
    """Where they would be hashed; among words they part them, as no character of a word does."""
    text = "a" * length + surrogate + "b" * length
    tokens = [*["word"] * length, f"x{surrogate}"]
    for unit in ("word", "char"):
        with pytest.raises(UnicodeEncodeError):
            shingle_hashes(tokens, unit=unit, k=5, bag=bag)
    with pytest.raises(UnicodeEncodeError):
        shingle_hashes(text, unit="char", k=5, bag=bag)
    with pytest.raises(UnicodeEncodeError):
        shingle_hashes(canonical_content(text), unit="char", k=5, bag=bag)
