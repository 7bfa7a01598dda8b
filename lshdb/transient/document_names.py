"""Keys and sources of documents in a file, and which document has a key."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lshdb.files.descriptors import write_at
from lshdb.transient.spilled import SpilledBytes

__all__ = ["DocumentNames"]

Ids: TypeAlias = NDArray[np.int64]
_Entries: TypeAlias = NDArray[np.uint64]
_ROW = np.uint64(2**32 - 1)
_PART = 2**20
"""Entries that are sorted in memory, and then go to a file."""


def hash_keys(keys: Iterable[str]) -> _Entries:
    """Return an entry of row 0 for each key: 32 bits of its hash, which holds in this process."""
    hashes = np.fromiter(map(hash, keys), dtype=np.int64).view(np.uint64)
    return hashes << np.uint64(32)


class DocumentNames:
    """The key and the source of each document, by row; memory does not grow with them.

    An entry is 32 bits of a key's hash and a row. Entries are kept in sorted parts. Those in memory
    are merged when they are of like size; a million of them go to a file, which is mapped.

    Parameters
    ----------
    directory : Path
        Where the files are made.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = SpilledBytes(directory)
        self._parts: list[_Entries] = []
        self._files: list[tuple[mmap.mmap, _Entries]] = []

    def close(self) -> None:
        """Remove the files."""
        self._names.close()
        self._files = []

    def append(self, keys: Sequence[str], sources: Sequence[str]) -> None:
        """Take the next documents; no other one has any of the keys.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        if not keys:
            return
        first = len(self._names)
        part = np.sort(hash_keys(keys) | np.arange(first, first + len(keys), dtype=np.uint64))
        while self._parts and len(self._parts[-1]) < 2 * len(part):
            part = np.sort(np.concatenate([self._parts.pop(), part]))
        self._parts.append(part)
        if sum(map(len, self._parts)) >= _PART:
            self._spill(np.sort(np.concatenate(self._parts)))
        both = zip(keys, sources, strict=True)
        self._names.append([f"{key}\0{source}".encode() for key, source in both])

    def _spill(self, entries: _Entries) -> None:
        with TemporaryFile(dir=self._directory, buffering=0) as file:
            write_at(file.fileno(), entries.view(np.uint8).data, 0)
            mapped = mmap.mmap(file.fileno(), entries.nbytes, access=mmap.ACCESS_READ)
        self._files.append((mapped, np.frombuffer(mapped, dtype=np.uint64)))
        self._parts = []

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
        wanted = hash_keys(keys)
        for mapped, entries in self._files:
            self._look_up(keys, wanted, entries, rows_of)
            if hasattr(mmap, "MADV_DONTNEED"):  # else each look-up leaves a page in memory
                mapped.madvise(mmap.MADV_DONTNEED)
        for entries in self._parts:
            self._look_up(keys, wanted, entries, rows_of)
        return rows_of

    def _look_up(
        self, keys: Sequence[str], wanted: _Entries, entries: _Entries, rows_of: Ids
    ) -> None:
        """Fill in the rows of the keys that are in a part."""
        left = np.flatnonzero(rows_of < 0)
        places = np.searchsorted(entries, wanted[left])
        while len(left):  # several keys may have one hash
            near = entries[np.minimum(places, len(entries) - 1)]
            may_be = ((near & ~_ROW) == wanted[left]) & (places < len(entries))
            left, places, near = left[may_be], places[may_be], near[may_be]
            rows = (near & _ROW).astype(np.int64)
            present = self.keys_of(rows)
            is_it = np.fromiter(
                (key == keys[at] for key, at in zip(present, left.tolist(), strict=True)),
                dtype=bool,
            )
            rows_of[left[is_it]] = rows[is_it]
            left, places = left[~is_it], places[~is_it] + 1
