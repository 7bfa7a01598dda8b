"""Texts as the kernel takes them to align their words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
"""Starts, ends and k-grams of words, shape (3, n); the last k - 1 grams mean nothing."""


def word_text(ids: NDArray[Any], k: int) -> Words:
    """Words of three characters and a blank, one for each number."""
    words = np.full((3, len(ids)), -1, dtype=np.int64)
    words[0] = 4 * np.arange(len(ids))
    words[1] = words[0] + 3
    grams = np.zeros(max(len(ids) - k + 1, 0), dtype=np.uint64)
    for place in range(k):
        grams *= np.uint64(0x9E3779B97F4A7C15)
        grams += ids.astype(np.uint64)[place : place + len(grams)]
    words[2, : len(grams)] = grams.view(np.int64)
    return words


def random_text(rng: np.random.Generator, k: int, like: Words | None = None) -> Words:
    """A short text of few or many different words, or one that shares pieces with another."""
    n, most = int(rng.choice([0, 1, k, 40, 300])), int(rng.choice([1, 2, 5, 40, 10**6]))
    ids = rng.integers(0, most, n)
    if rng.integers(3) == 0 and n:
        ids = np.resize(ids[: int(rng.integers(1, 30))], n)
    words = word_text(ids, k)
    sizes = [max(text.shape[1] - k + 1, 0) for text in (words, like) if text is not None]
    if like is not None and min(sizes):
        for _ in range(int(rng.integers(0, 5))):
            size = int(rng.integers(1, 1 + min(sizes)))
            first2, first1 = (int(rng.integers(0, 1 + n - size)) for n in sizes)
            words[2, first2 : first2 + size] = like[2, first1 : first1 + size]
    return words
