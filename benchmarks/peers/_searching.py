"""What a searcher of vectors gives, and which there are; importing this imports no peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.peers import Contestant

__all__ = ["SEARCHERS", "TOP", "Found", "SearchContestant", "Searcher"]

TOP = 10


@dataclass(frozen=True)
class Found:
    """The answer to one query.

    Attributes
    ----------
    numbers : sequence of int
        Rows of the nearest vectors, best first, without the one that asks.
    candidates, buckets : int or None
        How many were compared, and looked into; None where there is no such thing.
    """

    numbers: Sequence[int]
    candidates: int | None = None
    buckets: int | None = None


class Searcher(Protocol):
    """One way to find the nearest vectors.

    Attributes
    ----------
    efforts : sequence of str
        How hard it may try, each a line of the table.
    """

    efforts: Sequence[str]

    def build(self, vectors: Path, folder: Path) -> None:
        """Take the rows of a ``.npy``; what is kept on disk goes into the folder. Timed."""

    def one(self, number: int, effort: str) -> Found:
        """The nearest to a row, which is left out. Timed."""

    def many(self, numbers: Sequence[int], effort: str) -> list[Sequence[int]]:
        """The nearest to each row, all asked for together. Timed."""


@dataclass(frozen=True)
class SearchContestant(Contestant):
    """A line, or some, of the table of vectors."""

    threads: str = "one"


def _index(bands: int, rows: int) -> SearchContestant:
    return SearchContestant(f"lshdb {bands} x {rows}", "lshdb", "vectors_lshdb", f"{bands} {rows}")


SEARCHERS = [
    _index(24, 16),
    _index(64, 16),
    _index(64, 20),
    *(
        SearchContestant(f"faiss LSH {n_bits}", "faiss-cpu", "vectors_faiss", f"{n_bits}")
        for n_bits in (256, 1024, 4096)
    ),
    SearchContestant("NumPy, all vectors", "numpy", "vectors_numpy", ""),
]
