"""Texts as the kernel takes them to align their words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]
"""Starts and ends of words, and their k-grams."""


def word_text(ids: NDArray[Any], k: int) -> Words:
    """Words of three characters and a blank, one for each number."""
    starts = 4 * np.arange(len(ids), dtype=np.int64)
    grams = np.zeros(max(len(ids) - k + 1, 0), dtype=np.uint64)
    for place in range(k):
        grams *= np.uint64(0x9E3779B97F4A7C15)
        grams += ids.astype(np.uint64)[place : place + len(grams)]
    return starts, starts + 3, grams


def random_text(rng: np.random.Generator, k: int, like: Words | None = None) -> Words:
    """A short text of few or many different words, or one that shares pieces with another."""
    n, most = int(rng.choice([0, 1, k, 40, 300])), int(rng.choice([1, 2, 5, 40, 10**6]))
    ids = rng.integers(0, most, n)
    if rng.integers(3) == 0 and n:
        ids = np.resize(ids[: int(rng.integers(1, 30))], n)
    starts, ends, grams = word_text(ids, k)
    if like is not None and len(like[2]) and len(grams):
        for _ in range(int(rng.integers(0, 5))):
            size = int(rng.integers(1, 1 + min(len(like[2]), len(grams))))
            first1, first2 = (
                int(rng.integers(0, 1 + len(side) - size)) for side in (like[2], grams)
            )
            grams[first2 : first2 + size] = like[2][first1 : first1 + size]
    return starts, ends, grams
