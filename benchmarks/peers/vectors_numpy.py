"""NumPy: the cosines of a query with all vectors, float32, by one product of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers._searching import TOP, Found

_TOGETHER = 64
"""Queries a product."""


def unit_vectors(vectors: Path) -> NDArray[np.float32]:
    """The rows of a ``.npy`` with length 1."""
    rows = np.load(vectors).astype(np.float32)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows


class Searching:
    """By looking at all."""

    efforts = ("",)

    def __init__(self, variant: str) -> None:
        return

    def build(self, vectors: Path, folder: Path) -> None:
        self._units = unit_vectors(vectors)

    def one(self, number: int, effort: str) -> Found:
        return Found(self.many([number], effort)[0], candidates=len(self._units))

    def many(self, numbers: Sequence[int], effort: str) -> list[Sequence[int]]:
        found: list[Sequence[int]] = []
        for start in range(0, len(numbers), _TOGETHER):
            part = np.asarray(numbers[start : start + _TOGETHER])
            cosines = self._units[part] @ self._units.T
            cosines[np.arange(len(part)), part] = -np.inf
            nearest = np.argpartition(-cosines, TOP, axis=1)[:, :TOP]
            order = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1)
            found += np.take_along_axis(nearest, order, axis=1).tolist()
        return found


searcher = Searching
