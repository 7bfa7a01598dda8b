"""The reference of the kernel's functions on frozen orders (``params/order_layout.py``)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.params.bucket_layout import BUCKET_BITS, CONTENT_BAND, bands_of, buckets_of, keys_from
from lshdb.params.order_layout import CELL, HEADER_BYTES, OrderLayout

Ids = NDArray[np.int64]
Place = tuple[Any, int, int, int, int]
_WORD = np.dtype("<u4")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_DAMAGED = "an order ends too early, or is damaged"


def sort_orders(keys: Any, n_orders: int, planes: Any) -> None:
    """Sort each column of bucket keys."""
    columns = buckets_of(np.frombuffer(keys, np.int64)).reshape(-1, n_orders).T
    sorted_planes = np.frombuffer(planes, _WORD).reshape(2, n_orders, -1 if columns.size else 0)
    for number, column in enumerate(columns):
        order = np.argsort(column, kind="stable")
        sorted_planes[0, number] = column[order]
        sorted_planes[1, number] = order


def pack_cells(
    buckets: Any,
    rows: Any,
    bits: int,
    first: int,
    end: int,
    place: int,
    seed: int,
    order: int,
    directory: Any,
    postings: Any,
) -> None:
    """Lay out the sorted postings of some cells of an order, and their entries of the directory."""
    shift = BUCKET_BITS - bits
    sorted_buckets = np.frombuffer(buckets, _WORD).astype(np.int64)
    starts = np.searchsorted(sorted_buckets >> shift, np.arange(first, end + 1))
    if starts[0] or starts[-1] != len(sorted_buckets):
        raise ValueError("a bucket is not of these cells, or they are not sorted")
    packed = np.frombuffer(postings, OrderLayout.posting_type(shift))
    packed["row"] = np.frombuffer(rows, _WORD)
    packed["rest"] = sorted_buckets & ((1 << shift) - 1)
    cells = np.frombuffer(directory, CELL)
    cells["place"] = place + starts[:-1]
    cells["sum"] = _sums(packed, starts, np.arange(first, end), cells["place"], (seed, order))


def _sums(
    postings: NDArray[np.void],
    starts: Ids,
    cells: Ids,
    begins: NDArray[np.uint32],
    seed_and_order: tuple[int, int],
) -> NDArray[np.uint64]:
    """Return the sum of each cell, whose postings go from one start to the next."""
    sizes = np.diff(starts)
    powers = np.cumprod(np.full(sizes.max(initial=0), _FACTOR), dtype=np.uint64)
    inside = np.arange(len(postings)) - np.repeat(starts[:-1], sizes)
    terms = (postings["rest"].astype(np.uint64) << np.uint64(32) | postings["row"]) * powers[inside]
    ends = np.append(np.uint64(0), np.cumsum(terms, dtype=np.uint64))[starts]
    seed, order = seed_and_order
    total = np.full(len(cells), seed ^ order << 55, dtype=np.uint64)
    for column in (cells, begins, sizes):
        total *= _FACTOR
        total += column.astype(np.uint64)
    total += ends[1:] - ends[:-1]
    return total * _FACTOR >> np.uint64(32)


class _Orders:
    """Packed orders, in memory or in a file."""

    def __init__(self, place: Place) -> None:
        self._source, self.n, self.n_orders, self.first, self._seed = place
        self.layout = OrderLayout(self.n, self.n_orders)

    def _read(self, begin: int, end: int, dtype: Any) -> NDArray[Any]:
        if isinstance(self._source, int):
            data: Any = os.pread(self._source, end - begin, HEADER_BYTES + begin)
        else:
            data = memoryview(self._source)[begin:end]
        if len(data) < end - begin:
            raise ValueError(_DAMAGED)
        return np.frombuffer(data, dtype)

    def postings(self, order: int, cells: Ids) -> tuple[Ids, Ids]:
        """Return the buckets and rows of distinct cells, in order; raise ValueError for damage."""
        layout = self.layout
        directory = self._read(layout.cell_offset(order), layout.cell_offset(order + 1), CELL)
        starts = np.append(directory["place"], self.n).astype(np.int64)
        begins, sizes = starts[cells], starts[cells + 1] - starts[cells]
        if (sizes < 0).any() or (begins + sizes > self.n).any():
            raise ValueError(_DAMAGED)
        ends = np.append(0, np.cumsum(sizes))
        at = np.repeat(begins - ends[:-1], sizes) + np.arange(ends[-1])
        bounds = layout.posting_offset(order), layout.posting_offset(order + 1)
        postings = self._read(*bounds, layout.posting)[at]
        sums = _sums(postings, ends, cells, begins.astype(_WORD), (self._seed, order))
        rows = postings["row"].astype(np.int64)
        if (sums != directory["sum"][cells]).any() or (rows >= self.n).any():
            raise ValueError(_DAMAGED)
        return np.repeat(cells << layout.rest_bits, sizes) | postings["rest"], rows


def find_keys(orders: list[Place], keys: Any, limit: int, counts: Any) -> bytes:
    """Return the signatures below a limit in some buckets, one bucket after the other."""
    bucket_keys = np.frombuffer(keys, np.int64)
    bands = bands_of(bucket_keys)
    numbers, ids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for packed in map(_Orders, orders):
        for order in range(packed.n_orders if packed.n else 0):
            band = CONTENT_BAND if order == packed.n_orders - 1 else order
            of_band = np.flatnonzero(bands == band)
            if not len(of_band):
                continue
            buckets_of_band = buckets_of(bucket_keys[of_band])
            cells = np.unique(buckets_of_band >> packed.layout.rest_bits)
            buckets, rows = packed.postings(order, cells)
            starts = np.searchsorted(buckets, buckets_of_band, "left")
            sizes = np.searchsorted(buckets, buckets_of_band, "right") - starts
            at = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            signatures = packed.first + rows[at]
            numbers.append(np.repeat(of_band, sizes)[signatures < limit])
            ids.append(signatures[signatures < limit])
    number = np.concatenate(numbers)
    by_number = np.argsort(number, kind="stable")
    np.frombuffer(counts, np.int64)[:] = np.bincount(number, minlength=len(bucket_keys))
    return np.concatenate(ids)[by_number].tobytes()


def group_keys(
    orders: list[Place], first: int, last: int, limit: int, above: int
) -> tuple[bytes, bytes, bytes]:
    """Return the keys, sizes and signatures of a band's buckets with more than ``above``."""
    band, low, high = bands_of(first), buckets_of(first), buckets_of(last)
    keys_of, members = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for packed in map(_Orders, orders):
        if band >= packed.n_orders - 1 or not packed.n:
            continue
        shift = packed.layout.rest_bits
        buckets, rows = packed.postings(band, np.arange(low >> shift, (high >> shift) + 1))
        inside = (buckets >= low) & (buckets <= high) & (packed.first + rows < limit)
        keys_of.append(keys_from(band, buckets[inside]))
        members.append(packed.first + rows[inside])
    keys, ids = np.concatenate(keys_of), np.concatenate(members)
    order = np.argsort(keys, kind="stable")
    keys, ids = keys[order], ids[order]
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    sizes = np.diff(starts, append=len(keys))
    keep = sizes > above
    columns = keys[starts[keep]], sizes[keep], ids[np.repeat(keep, sizes)]
    return columns[0].tobytes(), columns[1].tobytes(), columns[2].tobytes()
