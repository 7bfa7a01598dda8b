"""The hash of a band, which is its bucket, in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.kernel.random_numbers import mix64
from lshdb.params.bucket_layout import buckets_of, keys_from

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["band_words", "keys_of_bands"]


def band_words(
    signatures: NDArray[np.uint16], *, bands: int, rows: int, slot_bits: int = 16
) -> NDArray[np.uint64]:
    """Pack the slots of each band into words of its own.

    Parameters
    ----------
    signatures : ndarray of uint16, shape (n, row_words)
    bands, rows : int
        b and r.
    slot_bits : {16, 1}

    Returns
    -------
    ndarray of uint64, shape (n, bands, ceil(rows * slot_bits / 64))
        O(n b r).

    Raises
    ------
    ValueError
        The bands have more slots than a row.
    """
    row_words, size = signatures.shape[1], rows * slot_bits
    if bands * size > 16 * row_words:
        raise ValueError("num_perm, bands or rows is out of range")
    offsets = np.arange(0, size, 64)
    first, shift = np.divmod(np.arange(bands)[:, None] * size + offsets, 16)
    packed = signatures[:, first].astype(np.uint64)
    packed >>= shift.astype(np.uint64)
    # A word's bits lie in up to five words of the row; bits past the last word do not count.
    for number in range(1, 5):
        part = signatures[:, np.minimum(first + number, row_words - 1)].astype(np.uint64)
        part <<= np.uint64(1)  # in two steps: by 64 there is no shift
        part <<= (16 * number - 1 - shift).astype(np.uint64)
        packed |= part
    lengths = np.minimum(size - offsets, 64).astype(np.uint64)
    packed &= np.uint64(2**64 - 1) >> (np.uint64(64) - lengths)
    return packed


def keys_of_bands(words: NDArray[np.uint64], bands: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bucket keys of single bands.

    Parameters
    ----------
    words : ndarray of uint64, shape (n, words)
        The words of each band (:func:`band_words`).
    bands : ndarray of int64, shape (n,)
        The number of each band.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    hashed = mix64(bands.astype(np.uint64) + np.uint64(1))
    for word in words.T:
        hashed = mix64(hashed ^ word)
    return keys_from(bands, buckets_of(hashed.view(np.int64)))
