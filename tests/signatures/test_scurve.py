"""Candidates come as the S-curve says: with probability 1 - (1 - s^r)^b.

Pairs of fixed similarity are signed, few for each seed and many seeds, and the share of them that
agree in a band is compared with the formula: 4.5 standard errors of that share, and three pairs
more for where the formula is near 0 or 1 and the share is no longer normal.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb.params.index_params import candidate_probability, choose_bands
from lshdb.signatures import SCHEMES, sign
from lshdb.signatures.banding import matching_bands

K = 128
SEEDS = 150
PAIRS_A_SEED = 4
PAIRS = SEEDS * PAIRS_A_SEED

# The slots of fss are drawn without putting back, so only of sets much larger than K are they as
# good as independent; those of universal always are, and cost more.
LARGE = {"fss": 4500, "universal": 270}

BANDINGS = [(128, 1), (40, 3), (25, 5), (16, 8), (9, 13), (1, 20), (20, 5)]


@lru_cache(maxsize=16)
def signed_pairs(
    scheme: str, size: int, shared: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Signatures of pairs of sets of one size, left and right."""
    rng = np.random.default_rng(size)
    left, right = [], []
    for seed in range(SEEDS):
        elements = rng.integers(0, 2**64, (PAIRS_A_SEED, 2 * size - shared), dtype=np.uint64)
        sets = [row[:size] for row in elements] + [row[size - shared :] for row in elements]
        rows = sign(sets, scheme=scheme, num_perm=K, seed=seed)
        left.append(rows[:PAIRS_A_SEED])
        right.append(rows[PAIRS_A_SEED:])
    return np.concatenate(left), np.concatenate(right)


def rate(scheme: str, size: int, shared: int, bands: int, rows: int) -> float:
    left, right = signed_pairs(scheme, size, shared)
    return float(matching_bands(left, right, bands=bands, rows=rows).any(axis=1).mean())


def tolerance(probability: float) -> float:
    return (4.5 * math.sqrt(probability * (1 - probability) * PAIRS) + 3) / PAIRS


@pytest.mark.parametrize(("bands", "rows"), BANDINGS)
@pytest.mark.parametrize(("shares", "of"), [(1, 3), (2, 3), (7, 9), (8, 9)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_large_sets_follow_the_curve(
    scheme: str, shares: int, of: int, bands: int, rows: int
) -> None:
    """Similarities 1/5, 1/2, 7/11 and 4/5."""
    size = LARGE[scheme]
    shared = size * shares // of
    expected = candidate_probability(shared / (2 * size - shared), bands, rows)
    assert abs(rate(scheme, size, shared, bands, rows) - expected) <= tolerance(expected)


@pytest.mark.parametrize(
    ("size", "shared"), [(9, 8), (27, 24), (45, 40), (3, 2), (30, 20), (14, 12)]
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_short_sets_are_not_missed_at_the_threshold(scheme: str, size: int, shared: int) -> None:
    """The promised recall holds for pairs at the threshold, however short they are.

    The slots of fss are negatively correlated for sets smaller than a signature, which makes the
    curve steeper: more is found at the threshold, so this is tested from below only.
    """
    similarity = shared / (2 * size - shared)
    for recall in (0.5, 0.9, 0.99):
        bands, rows = choose_bands(similarity, recall, K)
        expected = candidate_probability(similarity, bands, rows)
        measured = rate(scheme, size, shared, bands, rows)
        assert measured >= expected - tolerance(expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_ends_of_the_curve(scheme: str) -> None:
    assert rate(scheme, 40, 40, 1, K) == 1.0
    assert rate(scheme, 40, 0, K // 3, 3) == 0.0
    by_chance = K / 2**16  # of 16 bits each, one slot of K is equal
    assert rate(scheme, 40, 0, K, 1) <= by_chance + tolerance(by_chance)
