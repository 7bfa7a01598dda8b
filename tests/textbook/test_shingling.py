"""Sections 3.1 and 3.2: similarity of sets and bags, shingles of documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from lshdb.shingling import shingle_counts, shingle_hashes, shingle_texts
from lshdb.signatures import compare_contents
from lshdb.signatures.sets import exact_similarity, shingle_content

pytestmark = pytest.mark.fast


def _jaccard(one: Iterable[str], other: Iterable[str]) -> float:
    """Return the Jaccard similarity by Python's own sets."""
    return len(set(one) & set(other)) / len(set(one) | set(other))


def _similarity(one: list[str], other: list[str], *, bag: bool) -> float:
    common, left, right = compare_contents(one, other, unit="token", k=1, bag=bag)
    return common / (left + right - common)


def test_section_3_1_1_three_of_eight_elements() -> None:
    """Two sets with three elements in common and eight in all: 3/8."""
    one, other = list("abcde"), list("cdefgh")
    assert _jaccard(one, other) == 3 / 8
    assert _similarity(one, other, bag=False) == 3 / 8


def test_section_3_1_3_customers_are_similar_by_the_products_they_bought() -> None:
    """A customer is the set of products, a product the set of customers."""
    bought = {
        "ann": ["bread", "milk", "tea"],
        "ben": ["bread", "milk", "tea", "wine"],
        "cleo": ["wine", "cheese"],
    }
    buyers = {
        product: [customer for customer in bought if product in bought[customer]]
        for product in ("bread", "milk", "wine", "cheese")
    }
    assert _similarity(bought["ann"], bought["ben"], bag=False) == 3 / 4
    assert _similarity(bought["ben"], bought["cleo"], bag=False) == 1 / 5
    assert _similarity(bought["ann"], bought["cleo"], bag=False) == 0
    assert _similarity(buyers["bread"], buyers["milk"], bag=False) == 1
    assert _similarity(buyers["wine"], buyers["cheese"], bag=False) == 1 / 2
    assert _similarity(buyers["milk"], buyers["cheese"], bag=False) == 0


def test_section_3_1_3_bags_count_repeats() -> None:
    """{a,a,a,b} and {a,a,b,b,c} share three copies.

    The book divides by the sizes of both bags, 9, so that equal bags have similarity 1/2. lshdb
    divides by the union that takes the larger count of each element, 6. With s for the second, the
    first is s / (1 + s).
    """
    one, other = list("aaab"), list("aabbc")
    shared, union = Counter(one) & Counter(other), Counter(one) | Counter(other)
    assert (shared.total(), union.total()) == (3, 6)
    found = _similarity(one, other, bag=True)
    assert found == 3 / 6
    assert found / (1 + found) == pytest.approx(3 / 9)
    assert _similarity(one, one, bag=True) == 1
    assert _similarity(one, other, bag=False) == 2 / 3


@pytest.mark.parametrize(
    ("text", "shingles"),
    [("abcdabd", ["ab", "bc", "cd", "da", "bd"]), ("abcab", ["ab", "bc", "ca"])],
)
def test_section_3_2_1_shingles_of_two_characters(text: str, shingles: list[str]) -> None:
    assert shingle_texts(text, unit="char", k=2, bag=False) == shingles
    assert {text[at : at + 2] for at in range(len(text) - 1)} == set(shingles)
    hashes = shingle_hashes(text, unit="char", k=2, bag=False)
    assert len(hashes) == len(shingles)
    assert hashes.tolist() == shingle_content(text, unit="char", k=2, bag=False).tolist()


def test_section_3_2_1_shingles_as_a_bag() -> None:
    """``abcab`` holds ``ab`` twice, and so does ``abcdabd``."""
    assert shingle_texts("abcab", unit="char", k=2, bag=True) == ["ab", "ab", "bc", "ca"]
    assert len(shingle_hashes("abcab", unit="char", k=2, bag=True)) == 4
    _, counts = shingle_counts("abcdabd", unit="char", k=2)
    assert sorted(counts.tolist()) == [1, 1, 1, 1, 2]


def test_section_3_2_1_the_two_documents_are_similar_to_two_sixths() -> None:
    """{ab, bc, ca} and {ab, bc, cd, da, bd} have ab and bc in common, and six shingles in all."""
    hashes = [shingle_hashes(text, unit="char", k=2, bag=False) for text in ("abcab", "abcdabd")]
    assert exact_similarity(*hashes) == 2 / 6
    assert compare_contents("abcab", "abcdabd", unit="char", k=2, bag=False) == (2, 3, 5)


def test_section_3_2_3_a_shingle_is_hashed_to_a_number_of_fixed_size() -> None:
    hashes = shingle_hashes("a plane was ready for touch down", unit="char", k=9, bag=False)
    assert hashes.dtype == np.uint64
    assert len(hashes) == len("a plane was ready for touch down") - 8


def test_section_3_2_4_shingles_of_words() -> None:
    """The section's news item, in shingles of three words."""
    news = "a spokesperson for the sudzo corporation revealed today that studies have shown"
    shingles = shingle_texts(news, unit="word", k=3, bag=False)
    assert shingles[:3] == ["a spokesperson for", "spokesperson for the", "for the sudzo"]
    assert len(shingles) == len(news.split()) - 2
