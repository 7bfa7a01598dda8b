"""Rows that no file of orders covers, sorted by who reads them.

A writer was killed, or has not come to it, or files are lost or wrong. Sorting 180,000 rows of 16
bands takes .14 s of processor time: as much as SQL takes for the buckets of one query, and a
thirtieth of what it takes for all buckets.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from lshdb.arrays import np
from lshdb.files.descriptors import write_at
from lshdb.storage.orders.order_file import Banding, Place
from lshdb.storage.rowfiles.row_file import RowFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Contents", "UncoveredRows", "keys_between", "keys_of_rows", "rows_at_once"]

_SORTED_BYTES = 32 * 2**20
"""Memory for keys and planes of rows that are sorted at once."""
_READ_BYTES = 4 * 2**20
"""Rows that are read at once."""

Ids: TypeAlias = "NDArray[np.int64]"
Contents = Callable[[int, int], dict[int, bytes]]
"""First and last signature (left out) -> content hashes by signature, of those with a document."""


class UncoveredRows:
    """The orders of a range of rows, without contents: in memory, or in a temporary file.

    Parameters
    ----------
    first, last : int
        Signatures; the last is left out.

    Attributes
    ----------
    places : list
        As :meth:`Banding.find` takes them, one for each :func:`rows_at_once`.

    Raises
    ------
    DamageError
        The rows cannot be read.
    OSError
        There is no room for a temporary file; it takes about 9 bytes a row and band.
    """

    def __init__(self, banding: Banding, rows: RowFile, first: int, last: int) -> None:
        self.places: list[Place] = []
        self._map: mmap.mmap | None = None
        step = rows_at_once(banding)
        if last - first <= step:
            packed = self._packed(banding, rows, first, last)
            self.places.append((packed, last - first, banding.n_orders, first, 0))
            return
        from tempfile import TemporaryFile

        parts: list[tuple[int, int, slice]] = []
        with TemporaryFile(prefix="lshdb-", buffering=0) as file:
            size = 0
            for begin in range(first, last, step):
                end = min(begin + step, last)
                packed = self._packed(banding, rows, begin, end)
                write_at(file.fileno(), packed.data, size)
                parts.append((begin, end, slice(size, size + len(packed))))
                size += -(-len(packed) // 8) * 8
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        words = memoryview(self._map)
        for begin, end, part in parts:
            self.places.append((words[part], end - begin, banding.n_orders, begin, 0))

    @staticmethod
    def _packed(banding: Banding, rows: RowFile, begin: int, end: int) -> NDArray[np.uint8]:
        keys = keys_between(banding, rows, begin, end, lambda first, last: {})
        return banding.pack(banding.sort(keys))

    def rest(self) -> None:
        """Give back the memory of pages that were read; the system's cache keeps them."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


def rows_at_once(banding: Banding) -> int:
    """Return how many rows are sorted at once."""
    return max(1, _SORTED_BYTES // (20 * banding.n_orders))


def keys_between(banding: Banding, rows: RowFile, begin: int, end: int, contents: Contents) -> Ids:
    """Return the keys of some rows, which are read in blocks."""
    keys = np.empty((end - begin, banding.n_orders), dtype=np.int64)
    for start, block, _ in keys_of_rows(banding, rows, begin, end, contents):
        keys[start - begin : start - begin + len(block)] = block
    return keys


def keys_of_rows(
    banding: Banding, rows: RowFile, begin: int, end: int, contents: Contents
) -> Iterator[tuple[int, Ids, list[int]]]:
    """Yield the keys of some rows at a time: the first one, keys, and which of them have a content.

    Raises
    ------
    DamageError
        The rows cannot be read.
    """
    step = max(1, _READ_BYTES // rows.row_bytes)
    for start in range(begin, end, step):
        stop = min(start + step, end)
        hashes = {
            signature_id - start: content_hash
            for signature_id, content_hash in contents(start, stop).items()
        }
        yield start, banding.keys(rows.take_between(start, stop), hashes), list(hashes)
