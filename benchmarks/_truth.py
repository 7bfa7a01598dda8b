"""Precision and recall of found pairs against the exact ones."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Truth"]

_Pair = tuple[str, str]


@dataclass(frozen=True)
class Truth:
    """All pairs of a corpus from a threshold on.

    Made from a file with every pair at or above some similarity no higher than the threshold: key,
    key, similarity, TAB between them. A pair of a key with itself is none, and order in a pair says
    nothing.
    """

    pairs: frozenset[_Pair]

    @classmethod
    def read(cls, path: Path, threshold: float, below: float = math.inf) -> Truth:
        """Pairs from the threshold on, and below another one."""
        return cls(
            frozenset(pair for pair, rest in _lines(path) if threshold <= float(rest[0]) < below)
        )

    def touching(self, keys: set[str]) -> Truth:
        """Only the pairs in which one of the keys is."""
        return Truth(frozenset(pair for pair in self.pairs if not keys.isdisjoint(pair)))

    def score(self, found: Path) -> tuple[float, float]:
        """Precision and recall of a file of pairs; 1 where there is nothing to be found."""
        theirs = {pair for pair, _ in _lines(found)}
        both = len(theirs & self.pairs)
        return (
            both / len(theirs) if theirs else 1.0,
            both / len(self.pairs) if self.pairs else 1.0,
        )


def _lines(path: Path) -> Iterator[tuple[_Pair, list[str]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            one, other, *rest = line.rstrip("\n").split("\t")
            if one != other:
                yield ((one, other) if one < other else (other, one)), rest
