"""Comparing frozen orders with the rows that they are of, in one pass over both.

An order is that of its rows if it is sorted and has their entries. Those of two sides are taken for
the same if the sums of their hashes are. The hash is drawn anew each time: an entry has the hash of
another with a chance of 1 in 2^32 at most, and by accident of 1 in 2^64. (Clarke et al.,
Incremental multiset hash functions, ASIACRYPT 2003, compare sets so.)
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.params.bucket_layout import buckets_of
from lshdb.storage.orders.order_file import Banding, OrderFile
from lshdb.storage.orders.uncovered import Contents, keys_of_rows
from lshdb.storage.rowfiles.generations import Generation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["wrong_order"]

_READ_BYTES = 4 * 2**20
"""Entries that are read at once."""
_ENTRY_BYTES = 8


def wrong_order(
    file: OrderFile, banding: Banding, generation: Generation, last: int, contents: Contents
) -> int | None:
    """Return the number of an order of a file that is not that of its rows; None if all are.

    Takes a byte a row, besides what is read at once.

    Parameters
    ----------
    last : int
        The rows from here on are not committed, or not seen.
    contents : callable
        A signature without a document may have any content.

    Raises
    ------
    OSError, ValueError
        The file cannot be read, or ends too early.
    DamageError
        The rows cannot be read.
    """
    first, n = file.name.first, last - file.name.first
    mark = _Hash()
    is_there = np.zeros(n, dtype=bool)
    expected = np.zeros(banding.n_orders, dtype=np.uint64)
    blocks = keys_of_rows(banding, generation.signatures, first, last, contents)
    for start, keys, with_content in blocks:
        begin, end = start - first, start - first + len(keys)
        is_there[begin:end][with_content] = True
        marks = mark.of(buckets_of(keys), np.arange(begin, end)[:, np.newaxis])
        marks[~is_there[begin:end], -1] = 0
        expected += marks.sum(axis=0, dtype=np.uint64)
    for order in range(banding.n_orders):
        are_wanted = is_there if order == banding.n_orders - 1 else None
        total = _sum_of(file, order, n, are_wanted, mark)
        if total != expected[order]:
            return order
    return None


def _sum_of(
    file: OrderFile, order: int, n: int, are_wanted: NDArray[np.bool_] | None, mark: _Hash
) -> int | None:
    """Return the sum of the hashes of the entries of the first n rows; None if not in order.

    Only entries of rows that are wanted count; by default all.
    """
    total = 0
    before: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # the last entry, if any
    step = _READ_BYTES // _ENTRY_BYTES
    for start in range(0, file.n, step):
        end = min(start + step, file.n)
        buckets, ids = file.part(order, start, end)
        places = ids - file.name.first
        chosen = places < n
        if are_wanted is not None:
            chosen[chosen] = are_wanted[places[chosen]]
        buckets, places = buckets[chosen], places[chosen]
        if not len(places):
            continue
        total += int(mark.of(buckets, places).sum(dtype=np.uint64))
        buckets, places = (
            np.concatenate(columns) for columns in zip(*before, (buckets, places), strict=True)
        )
        follows = buckets[1:] > buckets[:-1]
        follows |= (buckets[1:] == buckets[:-1]) & (places[1:] > places[:-1])
        if not follows.all():
            return None
        before = [(buckets[-1:], places[-1:])]
    return total % 2**64


class _Hash:
    """A hash of entries: two random factors, and the end of MurmurHash3's 128 bits on x64."""

    def __init__(self) -> None:
        self._of_bucket, self._of_place = (np.uint64(secrets.randbits(64) | 1) for _ in range(2))

    def of(self, buckets: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the hash of each bucket with its place."""
        mixed = buckets.astype(np.uint64) * self._of_bucket
        mixed += places.astype(np.uint64) * self._of_place
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            mixed ^= mixed >> np.uint64(33)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(33)
        return mixed
