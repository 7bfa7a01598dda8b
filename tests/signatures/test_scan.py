"""Equal slots of queries with all rows, the best of them, and how many a near one has."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np
import pytest

from lshdb.kernel import compiled
from lshdb.signatures.scan import (
    count_in_rows,
    least_equal,
    probability_of,
    rank_counts,
)
from tests.signatures.test_kernels import levels
from tests.without_kernel import reference_counts, reference_ranks, use_reference

kernel = compiled

SHAPES = [(1, 3, 40), (2, 1, 1), (7, 2, 300), (8, 5, 129), (9, 1, 0), (31, 0, 9), (128, 3, 700)]
"""Words, queries and rows."""


def like(rng: np.random.Generator, n: int, words: int) -> np.ndarray:
    """Rows of which many slots are equal, by words and by bits."""
    shared = rng.integers(0, 2**16, words, dtype=np.uint16)
    changed = rng.random((n, words)) < 0.4
    return np.where(changed, rng.integers(0, 2**16, (n, words), dtype=np.uint16), shared)


@pytest.mark.fast
@pytest.mark.parametrize("slot_bits", [1, 16])
@pytest.mark.parametrize("level", levels() if kernel else [])
def test_all_rows_are_counted_as_the_reference_does(level: str, slot_bits: int) -> None:
    rng = np.random.default_rng(6)
    for words, n_queries, n_rows in SHAPES:
        queries, rows = like(rng, n_queries, words), like(rng, n_rows, words)
        expected = np.full((n_queries, n_rows + 5), 7, dtype=np.uint16)
        found = expected.copy()
        reference_counts(queries, rows, slot_bits=slot_bits, counts=expected, first=3)
        kernel.use_level(level)
        try:
            count_in_rows(queries, rows, slot_bits=slot_bits, counts=found, first=3)
        finally:
            kernel.use_level()
        assert np.array_equal(found, expected)
        assert (found[:, [0, 1, 2, -1, -2]] == 7).all()


@pytest.mark.fast
def test_rows_of_the_most_bits_and_of_none_in_common_are_counted() -> None:
    """Sums of bytes are emptied before they are full, and 65,520 slots still have a count."""
    for words in (31 * 16, 31 * 16 + 17, 4095):
        row = np.zeros((1, words), dtype=np.uint16)
        counts = np.zeros((1, 2), dtype=np.uint16)
        count_in_rows(row, np.concatenate([row, ~row]), slot_bits=1, counts=counts)
        assert counts.tolist() == [[16 * words, 0]]


@pytest.mark.fast
@pytest.mark.parametrize("below", [1, 3, 300, 2**16])
def test_the_best_are_ranked_as_the_reference_does(below: int) -> None:
    rng = np.random.default_rng(7)
    for n in (0, 1, 50, 5000):
        counts = rng.integers(0, below, n).astype(np.uint16)
        for least in (0, 1, below // 2, below - 1, 2**16 - 1):
            for most in (0, 1, 40, n, n + 9):
                places, found = rank_counts(counts, least, most)
                expected, number = reference_ranks(counts, least, most)
                assert places.tolist() == expected.tolist()
                assert found == number == int((counts >= least).sum())
                assert len(places) == min(most, found)


@pytest.mark.fast
def test_ties_are_in_order_of_id_also_where_the_room_ends() -> None:
    counts = np.array([5, 9, 5, 9, 5, 1], dtype=np.uint16)
    assert rank_counts(counts, 2, 4)[0].tolist() == [1, 3, 0, 2]
    assert rank_counts(counts, 2, 9)[0].tolist() == [1, 3, 0, 2, 4]


@pytest.mark.fast
def test_the_reference_refuses_what_the_kernel_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    row, counts = np.zeros((1, 4), dtype=np.uint16), np.zeros((1, 2), dtype=np.uint16)
    wide = np.zeros((1, 4096), dtype=np.uint16)
    for _ in range(2):
        for first in (-1, 2, 9):
            with pytest.raises(ValueError, match="outside"):
                count_in_rows(row, row, slot_bits=16, counts=counts, first=first)
        with pytest.raises(ValueError, match=r"out of range|too many"):
            count_in_rows(wide, wide, slot_bits=1, counts=counts)
        use_reference(monkeypatch)


def test_counts_that_change_while_they_are_ranked_lead_nowhere() -> None:
    """Another thread writes them between the two passes: every place is still inside the room."""
    rng = np.random.default_rng(8)
    counts = rng.integers(0, 50, 300_000).astype(np.uint16)
    other = rng.integers(0, 50, 300_000).astype(np.uint16)
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            counts[:], other[:] = other, counts.copy()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(150):
            memory = np.full(1000 + 16, -1, dtype=np.int64)
            kernel.rank_counts(counts, 10, memory[8:-8])
            assert (memory[:8] == -1).all()
            assert (memory[-8:] == -1).all()
            assert memory.max() < len(counts)
    finally:
        stop.set()
        thread.join()


def tail(least: int, equal: float, n: int) -> Fraction:
    """The exact probability of at least so many, by whole numbers over one denominator."""
    p = Fraction(equal)
    no, whole = p.denominator - p.numerator, p.denominator
    terms = (math.comb(n, k) * p.numerator**k * no ** (n - k) for k in range(least, n + 1))
    return Fraction(sum(terms), whole**n)


@pytest.mark.fast
@pytest.mark.parametrize("n", [1, 31, 128, 320])
def test_the_number_of_slots_is_the_one_of_the_binomial_distribution(n: int) -> None:
    for equal in (0.013, 0.5, 0.72, 0.999):
        for recall in (0.01, 0.51, 0.95, 0.9999):
            least = least_equal(equal, n, recall)
            reached = tail(least, equal, n)
            assert reached >= recall
            assert least == n or tail(least + 1, equal, n) < recall
            assert probability_of(least, equal, n) == pytest.approx(float(reached), rel=1e-9)
    assert probability_of(n + 1, 0.5, n) == 0.0


@pytest.mark.fast
def test_slots_that_are_always_or_never_equal() -> None:
    assert (least_equal(1.0, 64, 0.9), probability_of(64, 1.0, 64)) == (64, 1.0)
    assert (least_equal(0.0, 64, 0.9), probability_of(1, 0.0, 64)) == (0, 0.0)
    assert least_equal(0.7, 1, 0.9) == 0
