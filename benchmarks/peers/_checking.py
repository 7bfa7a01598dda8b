"""Candidate pairs checked on signatures, in NumPy: for contestants that do not do so themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks._corpora import CHUNK

Numbers = NDArray[np.int64]


class Signatures:
    """Signatures of all documents in one file, the new ones after the old ones."""

    def __init__(self, path: Path, slots: int) -> None:
        self._path = path
        self._slots = slots
        self._new: list[NDArray[np.uint32]] = []
        self._rows = np.empty((0, slots), np.uint32)

    def add(self, rows: NDArray[np.uint32]) -> None:
        self._new.append(rows.astype(np.uint32, copy=False))

    def save(self) -> None:
        """Write what was added, synced."""
        with self._path.open("ab") as file:
            for rows in self._new:
                rows.tofile(file)
            os.fsync(file.fileno())
        self._new.clear()
        self._rows = np.memmap(self._path, np.uint32, "r").reshape(-1, self._slots)

    def check(
        self, left: Numbers, right: Numbers, threshold: float
    ) -> Iterator[tuple[int, int, float]]:
        """Those of the pairs whose estimated similarity reaches the threshold, with it."""
        yield from check(self._rows, left, right, threshold)


def check(
    rows: NDArray[np.uint32], left: Numbers, right: Numbers, threshold: float
) -> Iterator[tuple[int, int, float]]:
    """Pairs of rows that agree in so many slots, with the share of those, some thousand a time."""
    for at in range(0, len(left), CHUNK):
        one, other = left[at : at + CHUNK], right[at : at + CHUNK]
        share = (rows[one] == rows[other]).mean(axis=1)
        kept = share >= threshold
        yield from zip(one[kept].tolist(), other[kept].tolist(), share[kept].tolist(), strict=True)


def distinct(left: Any, right: Any) -> tuple[Numbers, Numbers]:
    """Each pair of numbers once, the smaller one first."""
    one, other = np.asarray(left, np.int64), np.asarray(right, np.int64)
    both = np.unique(np.minimum(one, other) << 32 | np.maximum(one, other))
    return cast(Numbers, both >> 32), cast(Numbers, both & 0xFFFFFFFF)
