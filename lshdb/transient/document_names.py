"""Keys and sources of documents in a file, and which document has a key."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lshdb.transient.spilled import SpilledBytes

__all__ = ["DocumentNames"]

Ids: TypeAlias = NDArray[np.int64]


def hash_keys(keys: Iterable[str]) -> Ids:
    """Return a number for each key; two keys may have one, and it holds in this process alone."""
    return np.fromiter(map(hash, keys), dtype=np.int64)


class DocumentNames:
    """The key and the source of each document, by row; memory is 24 bytes each.

    Hashes of keys are kept in sorted parts. Parts of like size are merged, so there are about
    log2(n) of them, and a hash is sorted as often.

    Parameters
    ----------
    directory : Path
        Where the file is made.
    """

    def __init__(self, directory: Path) -> None:
        self._names = SpilledBytes(directory)
        self._parts: list[tuple[Ids, Ids]] = []

    def close(self) -> None:
        """Remove the file."""
        self._names.close()

    def append(self, keys: Sequence[str], sources: Sequence[str]) -> None:
        """Take the next documents; no other one has any of the keys."""
        if not keys:
            return
        hashes = hash_keys(keys)
        order = np.argsort(hashes, kind="stable")
        part = hashes[order], len(self._names) + order
        while self._parts and len(self._parts[-1][0]) < 2 * len(part[0]):
            hashes, rows = map(np.concatenate, zip(self._parts.pop(), part, strict=True))
            order = np.argsort(hashes, kind="stable")
            part = hashes[order], rows[order]
        self._parts.append(part)
        both = zip(keys, sources, strict=True)
        self._names.append([f"{key}\0{source}".encode() for key, source in both])

    def take(self, rows: Ids) -> list[tuple[str, str]]:
        """Return the key and the source of some documents, in any order."""
        order = np.argsort(rows, kind="stable")
        names = [("", "")] * len(rows)
        values = self._names.take(rows[order])
        for place, value in zip(order.tolist(), values, strict=True):
            key, _, source = value.decode().partition("\0")
            names[place] = key, source
        return names

    def keys_of(self, rows: Ids) -> list[str]:
        """Return the keys of some documents."""
        return [key for key, _ in self.take(rows)]

    def keys(self) -> Iterator[str]:
        """Yield all keys in order."""
        for name in itertools.chain.from_iterable(self._names.blocks()):
            yield name[: name.index(0)].decode()

    def rows_of(self, keys: Sequence[str]) -> Ids:
        """Return the row of the document of each key, -1 for none."""
        rows_of = np.full(len(keys), -1, dtype=np.int64)
        key_hashes = hash_keys(keys)
        for hashes, rows in self._parts:
            left = np.flatnonzero(rows_of < 0)
            places = np.searchsorted(hashes, key_hashes[left])
            while len(left):  # two keys may have one hash
                may_be = hashes[np.minimum(places, len(hashes) - 1)] == key_hashes[left]
                may_be &= places < len(hashes)
                left, places = left[may_be], places[may_be]
                present = self.keys_of(rows[places])
                is_it = np.fromiter(
                    (key == keys[at] for key, at in zip(present, left.tolist(), strict=True)),
                    dtype=bool,
                )
                rows_of[left[is_it]] = rows[places[is_it]]
                left, places = left[~is_it], places[~is_it] + 1
        return rows_of
