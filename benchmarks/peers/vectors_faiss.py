"""faiss: ``IndexLSH``, which compares a query's bits with those of every vector, in memory.

Vectors are made unit vectors first. Its answers are the nearest by bits; effort ``re-ranked`` takes
a hundred of those and compares the vectors (``IndexRefineFlat``), which it has to hold as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers._searching import TOP, Found
from benchmarks.peers.vectors_numpy import unit_vectors

_REFINED = 10.0
"""Times as many as are wanted are compared again."""


class Searching:
    """By as many bits as named."""

    efforts = ("bits alone", "re-ranked")

    def __init__(self, variant: str) -> None:
        self._n_bits = int(variant)

    def build(self, vectors: Path, folder: Path) -> None:
        self._units = unit_vectors(vectors)
        self._bits = faiss.IndexLSH(self._units.shape[1], self._n_bits)
        self._refined = faiss.IndexRefineFlat(self._bits)
        self._refined.k_factor = _REFINED
        self._refined.add(self._units)

    def one(self, number: int, effort: str) -> Found:
        return Found(self._search(self._units[number : number + 1], effort, [number])[0])

    def many(self, numbers: Sequence[int], effort: str) -> list[Sequence[int]]:
        return self._search(self._units[numbers], effort, numbers)

    def _search(
        self, queries: NDArray[np.float32], effort: str, numbers: Sequence[int]
    ) -> list[Sequence[int]]:
        index = self._refined if effort == self.efforts[1] else self._bits
        _, found = index.search(queries, TOP + 1)
        return [
            row[row != number][:TOP].tolist() for row, number in zip(found, numbers, strict=True)
        ]


searcher = Searching
