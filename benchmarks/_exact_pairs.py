"""All pairs within a threshold by comparing every document with every other, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pairs", "exact_pairs"]

_CELLS = 1 << 21
"""Pairs that are compared at a time."""

Floats = NDArray[np.float64]
Pairs = dict[tuple[int, int], float]
"""Similarity or distance by row numbers, the lower first."""


def exact_pairs(metric: str, bodies: Any, loosest: float) -> Pairs:
    """All pairs whose similarity is at least, or whose distance is at most, ``loosest``.

    Parameters
    ----------
    metric : str
    bodies : ndarray or sequence of mapping
        Vectors, shape (n, dim); bits as an array of booleans; weights by token.
    loosest : float
    """
    wide = _prepared(metric, bodies)
    measure, is_distance = _MEASURES[metric]
    n = len(wide)
    step = max(1, _CELLS // (n * (wide.shape[1] if metric in _CELLWISE else 1)))
    found: Pairs = {}
    for start, values in _blocks(wide, measure, step):
        good = values <= loosest if is_distance else values >= loosest
        left, right = np.nonzero(good)
        keep = right > left + start
        left, right = left[keep], right[keep]
        pairs = zip((left + start).tolist(), right.tolist(), strict=True)
        found.update(zip(pairs, values[left, right].tolist(), strict=True))
    return found


def _prepared(metric: str, bodies: Any) -> Floats:
    if metric == "weighted-jaccard":
        return _matrix(bodies)
    wide = np.asarray(bodies).astype(np.float64)
    if metric == "cosine":
        wide /= np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return wide


def _matrix(weights: Sequence[Mapping[str, float]]) -> Floats:
    """Weights of tokens as rows, a column for each token."""
    columns = {token: place for place, token in enumerate(sorted(set().union(*weights)))}
    rows = np.zeros((len(weights), len(columns)))
    for row, each in zip(rows, weights, strict=True):
        row[[columns[token] for token in each]] = list(each.values())
    return rows


def _blocks(
    wide: Floats, measure: Callable[[Floats, Floats], Floats], step: int
) -> Iterator[tuple[int, Floats]]:
    for start in range(0, len(wide), step):
        yield start, measure(wide[start : start + step], wide)


def _cosine(left: Floats, right: Floats) -> Floats:
    return left @ right.T


def _taxicab(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.abs(left[:, None] - right).sum(axis=2))


def _euclidean(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.sqrt(((left[:, None] - right) ** 2).sum(axis=2)))


def _jaccard(left: Floats, right: Floats) -> Floats:
    """Of weights; bits are the weights 0 and 1. Whole numbers are summed exactly."""
    smaller = np.minimum(left[:, None], right).sum(axis=2)
    either = left.sum(axis=1)[:, None] + right.sum(axis=1) - smaller
    return np.divide(smaller, either, out=np.zeros_like(either), where=either > 0)


_MEASURES: dict[str, tuple[Callable[[Floats, Floats], Floats], bool]] = {
    "cosine": (_cosine, False),
    "hamming": (_taxicab, True),
    "l1": (_taxicab, True),
    "l2": (_euclidean, True),
    "weighted-jaccard": (_jaccard, False),
    "jaccard-bits": (_jaccard, False),
}
"""What compares every row of the one array with every row of the other, and whether by distance."""
_CELLWISE = frozenset(_MEASURES) - {"cosine"}
"""Metrics that look at each component of each pair by itself."""
