"""Hashes in NumPy: of a band, which is its bucket, and of entries of an order, which are sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.kernel.random_numbers import mix64
from lshdb.params.bucket_layout import buckets_of, keys_from

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SUMMED", "keys_of_bands", "order_sums"]

SUMMED = 64
"""Entries of a content band's order with one sum."""
_FACTOR = 0x9E3779B97F4A7C15


def keys_of_bands(words: NDArray[np.uint32], bands: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bucket keys of single bands.

    Parameters
    ----------
    words : ndarray of uint32, shape (n, words)
        The slots of each band, or the words that hold its bits (:func:`band_words`).
    bands : ndarray of int64, shape (n,)
        The number of each band.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    hashed = mix64(bands.astype(np.uint64) + np.uint64(1))
    for word in words.T.astype(np.uint64):
        hashed = mix64(hashed ^ word)
    return keys_from(bands, buckets_of(hashed.view(np.int64)))


def order_sums(entries: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the sums of an order's entries (shape (2, n)): uint32, shape (n / 64,) or more."""
    n = entries.shape[1]
    sums = np.zeros(-(-n // SUMMED), dtype="<u4")
    with np.errstate(over="ignore"):
        for first, size in ((0, SUMMED), (n - n % SUMMED, n % SUMMED)):
            blocks = entries[:, first : n - n % SUMMED if size == SUMMED else n]
            powers = np.full(size + 1, _FACTOR, dtype=np.uint64)
            powers[:1] = 1
            powers = np.cumprod(powers, dtype=np.uint64)[::-1]
            if size and blocks.size:
                of_planes = blocks.reshape(2, -1, size).astype(np.uint64) * powers[1:]
                bucket, place = of_planes.sum(axis=2, dtype=np.uint64) + powers[0]
                factor = np.uint64(_FACTOR)
                total = (bucket * factor + place) * factor
                sums[first // SUMMED : first // SUMMED + len(total)] = total >> np.uint64(32)
    return sums
