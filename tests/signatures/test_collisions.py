"""Words chosen to collide: no slower than others, and counted as the reference counts them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
import pytest

from lshdb.kernel import compiled
from lshdb.shingling import shingle_hashes
from lshdb.signatures import compare_contents, sign_contents
from lshdb.signatures.sets import shingle_content
from tests.golden import plain
from tests.signatures.collisions import words_of_hash, words_that_meet

kernel = compiled


def seconds(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


@pytest.mark.parametrize("what", ["set", "bag", "comparison", "comparison with others"])
def test_words_whose_hashes_meet_take_no_longer_than_others(what: str) -> None:
    """Looked up one after the other, 40,000 of them take half a second to three seconds."""
    n = 40_000
    chosen = " ".join(words_that_meet(n, places=2**17, within=8))
    ordinary = " ".join(f"w{number}" for number in range(n))

    def work(text: str) -> object:
        if what == "comparison":
            return kernel.compare_texts(text, text, 0, 1, False)
        if what == "comparison with others":
            return kernel.compare_texts(ordinary, text, 0, 1, False)
        return kernel.shingle_text(text, 0, 1, what == "bag")

    assert seconds(lambda: work(chosen)) < 12 * seconds(lambda: work(ordinary)) + 0.03


@pytest.mark.parametrize("n", [60, 700, 3000])
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("places", [2**8, 2**12, 2**13])
def test_sets_and_bags_of_words_whose_hashes_meet(n: int, bag: bool, places: int) -> None:
    rng = random.Random(n)
    words = words_that_meet(3000, places=places, within=64)[:n]
    words = [*words, *rng.choices(words, k=n // 2), *(f"x{number % 50}" for number in range(n))]
    rng.shuffle(words)
    for k in (1, 2):
        for text in (" ".join(words), " ".join(sorted(words))):
            expected = shingle_hashes(text, unit="word", k=k, bag=bag)
            found = shingle_content(text, unit="word", k=k, bag=bag)
            assert np.array_equal(found, expected)
    halves = [" ".join(words[:n]), " ".join(words[n // 2 :])]
    left, right = (set(shingle_hashes(half, unit="word", k=1, bag=bag).tolist()) for half in halves)
    expected_sizes = (len(left & right), len(left), len(right))
    assert compare_contents(*halves, unit="word", k=1, bag=bag) == expected_sizes
    lists = [half.split(" ") for half in halves]
    assert compare_contents(*lists, unit="word", k=1, bag=bag) == expected_sizes


@pytest.mark.parametrize("value", [0, 1, 2**64 - 1, 0x0123456789ABCDEF])
def test_repetitions_are_those_of_a_shingle_and_not_of_its_hash(value: int) -> None:
    """Of two shingles with one hash, each that comes again is hashed with its own number."""
    rng = random.Random(value)
    same = words_of_hash(value, 12)
    for tokens in (
        [same[0], same[1], same[1]],
        [same[0], same[0], same[1], same[0], same[1]],
        same + same[:7] + same[3:] + ["a", "b", "a"],
        rng.choices([*same, "to", "be", "or", "not"], k=600),
    ):
        for unit, content in (
            ("word", tokens),
            ("token", " ".join(tokens)),
            ("line", "\n".join(tokens)),
        ):
            expected = shingle_hashes(content, unit=unit, k=1, bag=True)
            shingles = [token.encode() for token in tokens]
            assert expected.tolist() == sorted(plain.hash_shingles(shingles, bag=True))
            rows, counts = sign_contents(
                [content], unit=unit, k=1, bag=True, scheme="fss", num_perm=16, seed=5
            )
            assert counts.tolist() == [len(expected)]
            assert rows[0].tolist() == plain.fss(expected.tolist(), num_perm=16, seed=5)
            if isinstance(content, str):
                found = shingle_content(content, unit=unit, k=1, bag=True)
                assert np.array_equal(found, expected)
