"""Bucket keys of signature rows: b bands of r slots, each hashed to one signed 64-bit integer.

A bucket is a hash of the band's number and its r slots; its key has the number above it
(``params/bucket_layout.py``), so one sorted integer column keeps the postings of a band together:

    h = mix64(band + 1);  for each word of the band, in order:  h = mix64(h xor word)
    bucket = low 32 bits of h;  bucket key = band * 2^32 + bucket

A row is words of 16 bits. A slot is one of them, or a single bit: slot j is then bit j mod 16 of
word j / 16, counted from the least significant bit. The words of a band are its slots, packed in
the same way into words of 64 bits: four slots, or 64 bits, to a word, the first one lowest, and
zeros after the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.kernel import kernel
from lshdb.kernel.band_hashes import band_words
from lshdb.params.bucket_layout import CONTENT_BAND, keys_from

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Overlap",
    "bucket_keys",
    "compare_rows",
    "content_keys",
    "first_agreements",
    "matching_bands",
]


def bucket_keys(
    signatures: NDArray[np.uint16], *, bands: int, rows: int, slot_bits: int = 16
) -> NDArray[np.int64]:
    """Return the bucket keys of signature rows.

    Parameters
    ----------
    signatures : ndarray of uint16, shape (n, row_words)
        At least bands * rows slots; further slots are ignored.
    bands, rows : int
        b and r.
    slot_bits : {16, 1}

    Returns
    -------
    ndarray of int64, shape (n, bands)
        Column j is the key of band j. O(n b r).
    """
    keys = np.empty((len(signatures), bands), dtype=np.int64)
    signatures = np.ascontiguousarray(signatures, dtype=np.uint16)
    kernel.bucket_keys(signatures, signatures.shape[1], slot_bits, bands, rows, keys)
    return keys


def content_keys(content_hashes: list[bytes]) -> NDArray[np.int64]:
    """Return the content band's bucket keys for content hashes of 16 bytes (int64, shape (n,))."""
    buckets = np.frombuffer(b"".join(content_hashes), dtype=">u4")[0::4]
    return keys_from(CONTENT_BAND, buckets.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far pairs of signature rows agree.

    Attributes
    ----------
    equal : ndarray of int32, shape (n,)
        Number of equal slots.
    matched : ndarray of int32, shape (n,)
        Number of bands that agree in all slots.
    first : ndarray of int32, shape (n,)
        The first such band, or -1.
    """

    equal: NDArray[np.int32]
    matched: NDArray[np.int32]
    first: NDArray[np.int32]


def matching_bands(
    left: NDArray[np.uint16],
    right: NDArray[np.uint16],
    *,
    bands: int,
    rows: int,
    slot_bits: int = 16,
) -> NDArray[np.bool_]:
    """Return which bands agree in all slots for pairs of rows (bool, shape (n, bands))."""
    differing = band_words(left ^ right, bands=bands, rows=rows, slot_bits=slot_bits)
    matching: NDArray[np.bool_] = (differing == 0).all(axis=2)
    return matching


def compare_rows(
    left_rows: NDArray[np.uint16],
    left: NDArray[np.int64],
    right_rows: NDArray[np.uint16],
    right: NDArray[np.int64],
    *,
    bands: int,
    rows: int,
    slot_bits: int = 16,
) -> Overlap:
    """Compare row left[i] of some signatures with row right[i] of others.

    Parameters
    ----------
    left_rows, right_rows : ndarray of uint16, shape (any, row_words)
        In C order; read in place.
    left, right : ndarray of int64, shape (n,)
    bands, rows : int
    slot_bits : {16, 1}

    Returns
    -------
    Overlap
        O(n row_words).

    Raises
    ------
    IndexError
        A row number is out of range.
    """
    overlap = Overlap(*(np.empty(len(left), dtype=np.int32) for _ in range(3)))
    compare = kernel.compare_bits if slot_bits == 1 else kernel.compare_rows
    compare(
        left_rows, np.ascontiguousarray(left, dtype=np.int64),
        right_rows, np.ascontiguousarray(right, dtype=np.int64),
        left_rows.shape[1], bands, rows, overlap.equal, overlap.matched, overlap.first,
    )  # fmt: skip
    return overlap


def first_agreements(
    buckets: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]],
    source: tuple[NDArray[np.uint16] | int, int, int],
    row_words: int,
    suffices: NDArray[np.bool_],
    *,
    hot: NDArray[np.int64] | None = None,
    bands: int,
    rows: int,
    slot_bits: int = 16,
) -> NDArray[np.int64]:
    """Find the pairs of members of buckets that agree first in the band of their bucket.

    Parameters
    ----------
    buckets : tuple of ndarray
        Bands and sizes (int64, shape (n,)), members (int64, shape (sum(sizes),)), one bucket after
        the other, and which of them are marked (bool): of each two, one is. In a bucket of band -1
        it does not matter where they agree.
    source : (rows or descriptor, offset, n_rows)
        All rows in C order, or the file in which they lie from an offset on.
    row_words : int
    suffices : ndarray of bool, shape (slots + 1,)
        Which numbers of equal slots are enough.
    hot : ndarray of int64, optional
        Sorted keys of buckets that do not count: a pair may agree before the band of its bucket
        where it shares one of these.
    bands, rows : int
    slot_bits : {16, 1}

    Returns
    -------
    ndarray of int64, shape (m, 4)
        Left and right member, equal slots and agreeing bands of each, in the order of the buckets
        and of their members.

    Raises
    ------
    IndexError
        A member or a size is out of range.
    OSError, ValueError
        The file cannot be read, or is too short.
    """
    columns = kernel.agreeing_pairs(
        *buckets, *source, row_words, bands, rows, slot_bits == 1, hot, suffices
    )
    return np.frombuffer(columns, dtype=np.int64).reshape(-1, 4)
