"""Any text through the stages is what the plain path makes of it, and what the stages promise."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lshdb.params.index_params import candidate_probability, choose_bands
from lshdb.shingling import canonical_content, normalise, shingle_hashes, split_words
from lshdb.signatures import SCHEMES, sign
from lshdb.signatures.banding import bucket_keys, content_keys, matching_bands
from tests.golden import plain

# Characters at which something happens: white space, marks that compose or are reordered, letters
# that fold to several, scripts without spaces and their punctuation, joiners, the higher planes.
TELLING = (
    "aAbB zZ09_-.'\t\n\x00\x1c\x85\u00a0\u2003\u3000\u200b\u200d\ufeff"
    "\u00e9\u00c9e\u0301\u0323\u0345\u0308\u00a8\u00df\u1e9e\u0130\u0131i\u0307\u03a3\u03c3\u03c2\u1fb3\u1f88"
    "\ufb01\ufb03\u0133\u00bd\u00b2\u2167\uff21\uff41\uff11\uff76\uff9e\u30ab\u3099\u304c\u30fb\u30fc"
    "\u4e2d\u6587\u3002\u3005\u2f00\u2e81\uf900\u0e17\u0e35\u0e48\u0e3f\u0e99\u0ecd\u1781\u17d2\u17d4"
    "\u1019\u103c\u104b\uaa77\u0939\u093f\u05e9\u05b8\ub300\u1112\u1161\u11ab\u0663"
    "\U0001f600\U00020000\U0001d407\U00010400\U000e0001\U0010ffff"
)
TEXTS = st.one_of(
    st.text(alphabet=st.sampled_from(TELLING), max_size=60),
    st.text(max_size=60),
    st.lists(st.sampled_from(["a", "rose", "is", "\u00e9t\u00e9", "\u4e2d"]), max_size=30).map(
        " ".join
    ),
)
TOKENS = st.lists(st.text(max_size=8), max_size=15)
SHINGLINGS = st.tuples(st.sampled_from(["word", "char"]), st.integers(1, 12), st.booleans())
SEEDS = st.one_of(
    st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63 - 1, 2**64 - 1, 2**64 - plain.GOLDEN])
)
ELEMENTS = st.lists(
    st.one_of(
        st.integers(0, 2**64 - 1),
        st.sampled_from([0, 1, 2**32, 2**61 - 2, 2**61 - 1, 2**61, 2**63, 2**64 - 1]),
    ),
    min_size=1,
    max_size=20,
)

unhurried = settings(max_examples=300, deadline=None, derandomize=True)
fewer = settings(max_examples=100, deadline=None, derandomize=True)


@pytest.mark.fast
@unhurried
@given(body=st.one_of(TEXTS, TOKENS), shingling=SHINGLINGS, num_perm=st.integers(1, 12), seed=SEEDS)
@example(body="\u0345\u0301", shingling=("char", 1, False), num_perm=4, seed=1)
@example(body="\u1112\u1161\u11ab", shingling=("word", 1, True), num_perm=4, seed=1)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_whole_path_is_the_plain_one(
    scheme: str, body: str | list[str], shingling: tuple[str, int, bool], num_perm: int, seed: int
) -> None:
    unit, k, bag = shingling
    content = canonical_content(body)
    if isinstance(body, str):
        assert content == plain.normalise(body)
    hashes = shingle_hashes(content, unit=unit, k=k, bag=bag)
    expected = plain.shingle_hashes(body, unit=unit, k=k, bag=bag)
    assert hashes.tolist() == expected
    if not expected:
        return
    rows = sign([hashes], scheme=scheme, num_perm=num_perm, seed=seed)
    signature = plain.SCHEMES[scheme](expected, num_perm=num_perm, seed=seed)
    assert rows[0].tolist() == signature
    for height in {1, 2, num_perm} & set(range(1, num_perm + 1)):
        bands = num_perm // height
        keys = bucket_keys(rows, bands=bands, rows=height)
        assert keys[0].tolist() == plain.bucket_keys(signature, bands=bands, rows=height)


@unhurried
@given(TEXTS)
def test_normalising_twice_is_once(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@unhurried
@given(
    st.lists(TEXTS, max_size=4), st.lists(st.sampled_from(" \t\n\u00a0\u3000\u2028"), min_size=5)
)
def test_white_space_between_texts_is_all_alike(texts: list[str], spaces: list[str]) -> None:
    mixed = "".join(space + text for space, text in zip(spaces, texts, strict=False))
    assert normalise(mixed) == normalise(" ".join(texts))


@unhurried
@given(TEXTS)
def test_words_come_from_the_text_in_order_and_split_no_further(text: str) -> None:
    content = normalise(text)
    position = 0
    for word in split_words(content):
        assert word
        assert split_words(word) == [word]
        position = content.index(word, position) + len(word)


@unhurried
@given(TEXTS, TEXTS, SHINGLINGS)
def test_jaccard_of_elements_is_jaccard_of_shingles(
    left: str, right: str, shingling: tuple[str, int, bool]
) -> None:
    unit, k, bag = shingling
    one, other = (Counter(plain.shingles(text, unit=unit, k=k)) for text in (left, right))
    if not bag:
        one, other = Counter(set(one)), Counter(set(other))
    elements = [
        set(shingle_hashes(normalise(text), unit=unit, k=k, bag=bag).tolist())
        for text in (left, right)
    ]
    assert len(elements[0] & elements[1]) == (one & other).total()
    assert len(elements[0] | elements[1]) == (one | other).total()


@pytest.mark.fast
@fewer
@given(st.lists(ELEMENTS, min_size=1, max_size=6), st.integers(1, 40), SEEDS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_of_any_sets_are_the_plain_ones(
    scheme: str, sets: list[list[int]], num_perm: int, seed: int
) -> None:
    arrays = [np.array(elements, dtype=np.uint64) for elements in sets]
    rows = sign(arrays, scheme=scheme, num_perm=num_perm, seed=seed)
    sketch = plain.SCHEMES[scheme]
    assert rows.tolist() == [sketch(elements, num_perm=num_perm, seed=seed) for elements in sets]


@pytest.mark.fast
@fewer
@given(
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(0, 3),
    st.lists(st.lists(st.integers(0, 2**16 - 1), min_size=2, max_size=2), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_keys_are_equal_where_bands_match(
    bands: int, rows: int, spare: int, values: list[list[int]], rng: random.Random
) -> None:
    left, right = (
        np.array(
            [[rng.choice(pair) for _ in range(bands * rows + spare)] for pair in values],
            dtype=np.uint16,
        )
        for _ in range(2)
    )
    keys = [bucket_keys(side, bands=bands, rows=rows) for side in (left, right)]
    matching = matching_bands(left, right, bands=bands, rows=rows)
    assert ((keys[0] == keys[1]) == matching).all()
    assert keys[0].tolist() == [
        plain.bucket_keys(signature, bands=bands, rows=rows) for signature in left.tolist()
    ]


@fewer
@given(st.lists(st.binary(min_size=16, max_size=16), max_size=10))
def test_content_keys_are_the_plain_ones(hashes: list[bytes]) -> None:
    assert content_keys(hashes).tolist() == [plain.content_key(each) for each in hashes]


@fewer
@given(st.floats(0.3, 1.0), st.floats(0.01, 0.99), st.integers(64, 300))
def test_a_choice_of_bands_keeps_its_promise(
    threshold: float, recall: float, num_perm: int
) -> None:
    """64 slots one by one find a pair at 0.3 nearly always, so that there is a choice."""
    bands, rows = choose_bands(threshold, recall, num_perm)
    assert candidate_probability(threshold, bands, rows) >= recall
    assert bands * rows <= num_perm
    assert 1 <= bands <= 255
