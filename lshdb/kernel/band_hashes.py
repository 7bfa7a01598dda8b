"""The hash of a band, which is its bucket, in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.kernel.random_numbers import mix64
from lshdb.params.bucket_layout import buckets_of, keys_from

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["keys_of_bands"]


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
