"""The share of equal slots estimates the Jaccard similarity: without bias, and closely enough.

The sets of a test stay the same over its trials, and every trial has a seed of its own, so that
what is measured is the family of hash functions and not a lucky draw. With T trials of K slots an
estimate has standard deviation at most sigma = sqrt(J (1 - J) / K), its mean over the trials at
most sigma / sqrt(T), and its measured variance exceeds sigma^2 by a share of standard error
sqrt(2 / (T - 1)). The tolerance is 4.5 standard errors throughout (chance 3 in a million where the
distribution is normal), and all seeds are fixed, so a test that passes goes on passing.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb.signatures import SCHEMES, sign

TOLERANCE = 4.5
K = 128

# Elements of each of two sets -> trials; the large ones cost the time.
TRIALS = {1: 150, 2: 300, 5: 300, 20: 300, 100: 300, 1000: 150, 10_000: 25, 100_000: 5}
SIMILARITIES = (0.1, 0.5, 0.8, 0.95)


def overlapping(
    rng: np.random.Generator, size: int, other_size: int, similarities: tuple[float, ...]
) -> tuple[list[NDArray[np.uint64]], list[float]]:
    """One set, then for each similarity another that comes as near to it as sizes allow."""
    elements = rng.integers(0, 2**64, size, dtype=np.uint64)
    sets, exact = [elements], []
    for similarity in similarities:
        shared = round(similarity / (1 + similarity) * (size + other_size))
        shared = min(shared, size, other_size)
        fresh = rng.integers(0, 2**64, other_size - shared, dtype=np.uint64)
        sets.append(np.concatenate([elements[:shared], fresh]))
        exact.append(shared / (size + other_size - shared))
    return sets, exact


def estimates(
    sets: list[NDArray[np.uint64]], scheme: str, trials: int, num_perm: int = K, first_seed: int = 0
) -> NDArray[np.float64]:
    """Estimated similarity of every other set to the first (shape (trials, len(sets) - 1))."""
    rows = [
        sign(sets, scheme=scheme, num_perm=num_perm, seed=first_seed + trial)
        for trial in range(trials)
    ]
    return np.array([(row[1:] == row[0]).mean(axis=1) for row in rows])


def assert_sound(measured: NDArray[np.float64], similarity: float, num_perm: int = K) -> None:
    trials = len(measured)
    if similarity == 1.0:
        assert (measured == 1.0).all()
        return
    if similarity == 0.0:  # a slot agrees by accident once in 2^16
        by_chance = measured.size * num_perm / 2**16
        assert measured.sum() * num_perm <= by_chance + TOLERANCE * math.sqrt(by_chance) + 1
        return
    sigma = math.sqrt(similarity * (1 - similarity) / num_perm)
    assert abs(measured.mean() - similarity) <= TOLERANCE * sigma / math.sqrt(trials)
    excess = 1 + TOLERANCE * math.sqrt(2 / (trials - 1))
    assert measured.std(ddof=1) <= sigma * math.sqrt(excess)


@pytest.mark.parametrize("size", TRIALS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_bias_and_as_close_as_promised(scheme: str, size: int) -> None:
    wanted = SIMILARITIES if size < 100_000 else (0.5, 0.8)
    sets, exact = overlapping(np.random.default_rng(size), size, size, wanted)
    measured = estimates(sets, scheme, TRIALS[size])
    for column, similarity in enumerate(exact):
        assert_sound(measured[:, column], similarity)


@pytest.mark.parametrize(("size", "other_size"), [(1, 2), (1, 10), (3, 20), (40, 100), (50, 2000)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sets_of_unlike_size(scheme: str, size: int, other_size: int) -> None:
    """The one is part of the other."""
    sets, exact = overlapping(np.random.default_rng(size), size, other_size, (1.0,))
    assert exact == [size / other_size]
    measured = estimates(sets, scheme, 200)
    assert_sound(measured[:, 0], exact[0])


@pytest.mark.parametrize("num_perm", [1, 2, 3, 37, 400])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_signatures_of_other_lengths(scheme: str, num_perm: int) -> None:
    sets, exact = overlapping(np.random.default_rng(num_perm), 12, 12, SIMILARITIES)
    measured = estimates(sets, scheme, 200, num_perm)
    for column, similarity in enumerate(exact):
        assert_sound(measured[:, column], similarity, num_perm)


@pytest.mark.parametrize("stride", [1, 2, 2**32, 2**56])
def test_elements_that_are_no_hashes_do_not_mislead_fss(stride: int) -> None:
    """Shingle hashes look random; these are in arithmetic progression."""
    base = np.arange(100, dtype=np.uint64) * np.uint64(stride)
    sets = [base[:75], base[25:], base[:25], base[20:75]]
    measured = estimates(sets, "fss", 200)
    for column, similarity in enumerate([50 / 100, 25 / 75, 55 / 75]):
        assert_sound(measured[:, column], similarity)


@pytest.mark.parametrize("size", [2, 5, 20])
def test_fss_is_closer_than_independent_functions_for_short_sets(size: int) -> None:
    """Below 0.8 of their standard deviation; with 300 trials its standard error is 4 %."""
    sets, exact = overlapping(np.random.default_rng(size), size, size, (0.5,))
    measured = estimates(sets, "fss", 300, first_seed=10_000)
    sigma = math.sqrt(exact[0] * (1 - exact[0]) / K)
    assert measured[:, 0].std(ddof=1) < 0.8 * sigma


# Values of the slots


def distance_from_uniform(values: NDArray[np.float64]) -> float:
    """Kolmogorov's statistic times the root of the number of values; above 2.2 once in 8,000."""
    ordered = np.sort(values)
    steps = np.arange(1, len(ordered) + 1) / len(ordered)
    gap = max(np.max(steps - ordered), np.max(ordered - steps + 1 / len(ordered)))
    return float(gap * math.sqrt(len(ordered)))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_values_of_single_elements_are_uniform(scheme: str) -> None:
    """Over seeds and elements, over each slot, and in each bit."""
    num_perm = 32
    rng = np.random.default_rng(1)
    rows = np.concatenate(
        [
            sign(
                [rng.integers(0, 2**64, 1, dtype=np.uint64) for _ in range(20)],
                scheme=scheme,
                num_perm=num_perm,
                seed=seed,
            )
            for seed in range(100)
        ]
    )
    assert distance_from_uniform((rows.reshape(-1) + 0.5) / 2**16) < 2.2
    for slot in range(num_perm):
        assert distance_from_uniform((rows[:, slot] + 0.5) / 2**16) < 2.2
    bits = (rows.reshape(-1, 1) >> np.arange(16, dtype=np.uint16)) & np.uint16(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < TOLERANCE * 0.5 / math.sqrt(rows.size)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [50, 3000])
def test_lower_halves_of_minima_are_uniform(scheme: str, size: int) -> None:
    """So two different slots are equal once in 65,536, as long as a minimum is far above that."""
    elements = np.random.default_rng(2).integers(0, 2**64, size, dtype=np.uint64)
    rows = [sign([elements], scheme=scheme, num_perm=64, seed=seed) for seed in range(60)]
    values = np.concatenate(rows).reshape(-1)
    assert distance_from_uniform((values + 0.5) / 2**16) < 2.2


@pytest.mark.parametrize(
    ("scheme", "num_perm", "size"), [("universal", 16, 10**6), ("fss", 4, 4 * 10**6)]
)
def test_values_of_sets_are_minima_of_uniform_ones(scheme: str, num_perm: int, size: int) -> None:
    """With n elements a slot of ``universal`` has the least of n values, 1 - (1 - v)^n is uniform.

    Of ``fss`` it has the least of those that fall into the slot, which is the least of n where a
    value counts with probability 1 / K: 1 - (1 - v / K)^n, as long as no slot stays empty. Of so
    many elements the upper half of the least value is 0, and a slot has all of it.
    """
    share = 1 / num_perm if scheme == "fss" else 1
    elements = np.random.default_rng(2).integers(0, 2**64, size, dtype=np.uint64)
    rows = [sign([elements], scheme=scheme, num_perm=num_perm, seed=seed) for seed in range(25)]
    least = (np.concatenate(rows).reshape(-1) + 0.5) / 2**32 * share
    assert distance_from_uniform(-np.expm1(size * np.log1p(-least))) < 2.2


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [1, 40])
def test_slots_are_not_alike(scheme: str, size: int) -> None:
    """Slots of unrelated sets, and of one signature, are alike as often as 16 random bits are."""
    rng = np.random.default_rng(3)
    sets = [rng.integers(0, 2**64, size, dtype=np.uint64) for _ in range(100)]
    rows = sign(sets, scheme=scheme, num_perm=128, seed=1)
    load = rows.size / 2**16
    expected, left = 2**16 * -math.expm1(-load), math.exp(-load)
    deviation = math.sqrt(2**16 * left * (1.0 - (1.0 + load) * left))
    assert abs(len(np.unique(rows)) - expected) < TOLERANCE * deviation
