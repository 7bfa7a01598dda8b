"""Signature rows -> bucket keys: b bands of r slots, each hashed to one signed 64-bit integer.

A bucket key holds the band's number in its top 8 bits and 56 bits of a hash of the band's number
and its r slots below, so one integer column, sorted, keeps the postings of a band together:

    h = mix64(band + 1);  for each of the r slots, in order:  h = mix64(h xor slot)
    bucket = low 56 bits of h;  bucket key = band * 2^56 + bucket, as two's complement

Band 255 is not a band of slots: its buckets are the first 56 bits of content hashes, by which exact
copies are found (see ``docs/format.md``). That leaves 255 bands, 0 to 254.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.kernels import compiled
from lshdb.signatures.mixing import mix64

__all__ = [
    "BUCKET_BITS",
    "CONTENT_BAND",
    "MAX_BANDS",
    "bucket_keys",
    "content_keys",
    "matching_bands",
]

BUCKET_BITS = 56
CONTENT_BAND = 255
MAX_BANDS = CONTENT_BAND

_BUCKET_MASK = np.uint64(2**BUCKET_BITS - 1)
_BAND_SHIFT = np.uint64(BUCKET_BITS)


def bucket_keys(signatures: NDArray[np.uint32], *, bands: int, rows: int) -> NDArray[np.int64]:
    """Bucket keys of signature rows.

    Parameters
    ----------
    signatures : ndarray of uint32, shape (n, num_perm)
        num_perm at least bands * rows; slots past that are not used.
    bands, rows : int
        b and r.

    Returns
    -------
    ndarray of int64, shape (n, bands)
        Column j is the key of band j. O(n b r).
    """
    kernel = compiled()
    if kernel is None:
        return reference_keys(signatures, bands=bands, rows=rows)
    keys = np.empty((len(signatures), bands), dtype=np.int64)
    signatures = np.ascontiguousarray(signatures, dtype=np.uint32)
    kernel.bucket_keys(signatures, signatures.shape[1], bands, rows, keys)
    return keys


def reference_keys(signatures: NDArray[np.uint32], *, bands: int, rows: int) -> NDArray[np.int64]:
    """Bucket keys by NumPy alone; what :func:`bucket_keys` must equal."""
    n = len(signatures)
    slots = signatures[:, : bands * rows].reshape(n, bands, rows).astype(np.uint64)
    numbers = np.arange(bands, dtype=np.uint64)
    hashed = np.broadcast_to(mix64(numbers + np.uint64(1)), (n, bands))
    for row in range(rows):
        hashed = mix64(hashed ^ slots[:, :, row])
    return ((hashed & _BUCKET_MASK) | (numbers << _BAND_SHIFT)).view(np.int64)


def content_keys(content_hashes: list[bytes]) -> NDArray[np.int64]:
    """Bucket keys, in the content band, of content hashes of 16 bytes each (int64, shape (n,))."""
    first = np.frombuffer(b"".join(content_hashes), dtype=">u8")[0::2].astype(np.uint64)
    key = (first >> np.uint64(64 - BUCKET_BITS)) | (np.uint64(CONTENT_BAND) << _BAND_SHIFT)
    return key.view(np.int64)


def matching_bands(
    left: NDArray[np.uint32], right: NDArray[np.uint32], *, bands: int, rows: int
) -> NDArray[np.bool_]:
    """Which bands agree in all slots, for pairs of signature rows (bool, shape (n, bands))."""
    used = bands * rows
    equal = left[:, :used] == right[:, :used]
    matching: NDArray[np.bool_] = equal.reshape(len(left), bands, rows).all(axis=2)
    return matching
