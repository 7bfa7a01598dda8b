"""The reference of the kernel's functions on frozen orders (``signatures/band_orders.py``)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.kernel.band_hashes import SUMMED, order_sums
from lshdb.params.bucket_layout import CONTENT_BAND, bands_of, buckets_of

Planes = NDArray[np.uint32]
Place = tuple[Any, int, int, int]
_WORD = np.dtype("<u4")


def sort_orders(keys: Any, n_orders: int, planes: Any) -> None:
    """Sort each column of bucket keys."""
    columns = buckets_of(np.frombuffer(keys, np.int64)).reshape(-1, n_orders).T
    sorted_planes = np.frombuffer(planes, _WORD).reshape(2, n_orders, -1 if columns.size else 0)
    for number, column in enumerate(columns):
        order = np.argsort(column, kind="stable")
        sorted_planes[0, number] = column[order]
        sorted_planes[1, number] = order


def find_keys(orders: list[Place], keys: Any, limit: int, counts: Any) -> bytes:
    """Return the signatures below a limit in some buckets, one bucket after the other."""
    bucket_keys = np.frombuffer(keys, np.int64)
    numbers, members = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for source, n, n_orders, first in orders:
        planes, sums = _parts(source, n_orders, n)
        bands = bands_of(bucket_keys)
        bands = np.where(bands == CONTENT_BAND, n_orders - 1, bands)
        bands[(bands_of(bucket_keys) != CONTENT_BAND) & (bands >= n_orders - 1)] = -1
        for band in range(n_orders):
            of_band = np.flatnonzero(bands == band)
            buckets = buckets_of(bucket_keys[of_band]).astype(_WORD)
            starts = np.searchsorted(planes[0, band], buckets, "left")
            sizes = np.searchsorted(planes[0, band], buckets, "right") - starts
            if band == n_orders - 1 and len(sums):
                _check_entries(planes[:, band], sums, starts, starts + sizes)
            at = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            rows = planes[1, band, at].astype(np.int64)
            if len(rows) and rows.max() >= n:
                raise ValueError("an order ends too early, or names a row it does not have")
            numbers.append(np.repeat(of_band, sizes)[first + rows < limit])
            members.append(first + rows[first + rows < limit])
    number = np.concatenate(numbers)
    order = np.argsort(number, kind="stable")
    np.frombuffer(counts, np.int64)[:] = np.bincount(number, minlength=len(bucket_keys))
    return np.concatenate(members)[order].tobytes()


def group_keys(
    orders: list[Place], first: int, last: int, limit: int, above: int
) -> tuple[bytes, bytes, bytes]:
    """Return the keys, sizes and signatures of a band's buckets with more than ``above``."""
    band, low, high = bands_of(first), buckets_of(first), buckets_of(last)
    keys_of, members = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for source, n, n_orders, start in orders:
        if band >= n_orders - 1:
            continue
        planes, _ = _parts(source, n_orders, n)
        buckets, rows = planes[:, band].astype(np.int64)
        inside = (buckets >= low) & (buckets <= high)
        if len(rows[inside]) and rows[inside].max() >= n:
            raise ValueError("an order ends too early, or names a row it does not have")
        inside &= start + rows < limit
        keys_of.append(buckets[inside])
        members.append(start + rows[inside])
    keys, ids = np.concatenate(keys_of), np.concatenate(members)
    order = np.argsort(keys, kind="stable")
    keys, ids = keys[order] + (first - low), ids[order]
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    sizes = np.diff(starts, append=len(keys))
    keep = sizes > above
    columns = keys[starts[keep]], sizes[keep], ids[np.repeat(keep, sizes)]
    return columns[0].tobytes(), columns[1].tobytes(), columns[2].tobytes()


def _parts(source: Any, n_orders: int, n: int) -> tuple[Planes, Planes]:
    """Return the planes of an order in memory or in a file, and its sums, if it has some."""
    size = 2 * n_orders * n
    if isinstance(source, int):
        n_bytes = _WORD.itemsize * (size - (-n // SUMMED))
        source = os.pread(source, n_bytes, 0)
        if len(source) < n_bytes:
            raise ValueError("an order ends too early, or names a row it does not have")
    words = np.frombuffer(source, dtype=_WORD)
    return words[:size].reshape(2, n_orders, n), words[size:]


def _check_entries(
    entries: NDArray[np.uint32],
    sums: NDArray[np.uint32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> None:
    """Compare entries, from before each start to each end, with their sums."""
    n = entries.shape[1]
    firsts, lasts = np.maximum(starts - 1, 0) // SUMMED, np.minimum(ends, n - 1) // SUMMED
    for block in np.unique(np.concatenate([firsts, lasts])).tolist():
        at = slice(block * SUMMED, (block + 1) * SUMMED)
        if order_sums(entries[:, at])[0] != sums[block]:
            raise ValueError("an order ends too early, or is damaged")
