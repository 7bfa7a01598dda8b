"""The truly nearest vectors of some, and what share of them was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers._searching import TOP

__all__ = ["Nearest"]

_ROWS = 8192
"""Vectors that are compared with all queries at a time."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Nearest:
    """The cosine of the tenth nearest vector of each query, itself left out.

    Attributes
    ----------
    queries : list of int
        Row numbers.
    least : list of float
        What as similar as this is among the ten nearest.
    """

    queries: list[int]
    least: list[float]

    @classmethod
    def of(cls, rows: NDArray[Any], n_queries: int, seed: int = 1) -> Nearest:
        """By comparing queries, drawn from the rows, with all of them, in float64."""
        drawn = np.random.default_rng(seed).permutation(len(rows))[:n_queries]
        asked = _units(rows[drawn])
        best = np.full((len(drawn), TOP), -np.inf)
        for start in range(0, len(rows), _ROWS):
            cosines = asked @ _units(rows[start : start + _ROWS]).T
            for place in np.flatnonzero((drawn >= start) & (drawn < start + _ROWS)):
                cosines[place, drawn[place] - start] = -np.inf
            best = -np.sort(-np.concatenate([best, cosines], axis=1), axis=1)[:, :TOP]
        return cls(drawn.tolist(), best[:, -1].tolist())

    def recall(self, rows: NDArray[Any], found: Sequence[Sequence[int]]) -> float:
        """Share of the ten nearest among what was found; of equally near ones any will do."""
        hits = 0
        for query, least, numbers in zip(self.queries, self.least, found, strict=True):
            chosen = sorted({int(number) for number in numbers} - {query, -1})
            if chosen:
                cosines = _units(rows[chosen]) @ _units(rows[[query]])[0]
                hits += min(TOP, int((cosines >= least - _ROUNDING).sum()))
        return hits / (TOP * len(self.queries))

    def write(self, path: Path) -> None:
        np.savez(path, queries=self.queries, least=self.least)

    @classmethod
    def read(cls, path: Path) -> Nearest:
        with np.load(path) as arrays:
            return cls(arrays["queries"].tolist(), arrays["least"].tolist())


def _units(rows: NDArray[Any]) -> NDArray[np.float64]:
    wide = rows.astype(np.float64)
    wide /= np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return wide
