"""What a peer's module for pairs gives: ``pairer(variant, threads, folder)``.

The folder holds what is to outlive the process. Peers know documents by running numbers; what
number is which key is theirs to keep.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks._corpora import CHUNK
from benchmarks.peers._contract import Source

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Pairer:
    """Documents to near-duplicate pairs.

    Attributes
    ----------
    fill : callable
        Take all documents of a file into the empty folder and persist whatever can be; how many.
    add : callable
        (older, newer): in a process that has not filled, add the documents of ``newer`` to those of
        ``older``, and persist all again. Those that cannot be saved read ``older`` once more;
        nobody else looks at it.
    pairs : callable
        After either, write the pairs with a document that it brought: key, key, similarity if it
        is known.
    close : callable
        Leave the folder to the next process.
    """

    fill: Callable[[Source], int]
    add: Callable[[Source, Source], None]
    pairs: Callable[[Path], None]
    close: Callable[[], object] = lambda: None


def records(source: Source) -> Iterator[tuple[list[str], list[str]]]:
    """Keys and texts, a bounded number at a time."""
    with source.path.open("rb") as lines:
        while block := list(itertools.islice(lines, CHUNK)):
            objects = list(map(orjson.loads, block))
            yield (
                [each[source.key_field] for each in objects],
                [each[source.text_field] for each in objects],
            )


def write_pairs(output: Path, pairs: Iterable[tuple[str, str] | tuple[str, str, float]]) -> None:
    """One pair a line."""
    with output.open("w", encoding="utf-8") as lines:
        lines.writelines("\t".join(map(str, pair)) + "\n" for pair in pairs)


def save(path: Path, thing: Any) -> None:
    """Pickle to disk, in the place of what was there, synced."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        pickle.dump(thing, file, protocol=pickle.HIGHEST_PROTOCOL)
        os.fsync(file.fileno())
    beside.replace(path)


def restore(path: Path) -> Any:
    """Give back what :func:`save` took."""
    with path.open("rb") as file:
        return pickle.load(file)


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
