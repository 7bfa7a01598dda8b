"""The layout of a bucket key: ``band << 32 | bucket``, a signed 64-bit integer, never negative.

This is the one place in Python that knows it; ``bucket_layout.h`` is the one in C. Keys sort by
band, then by bucket. Band 255 is not a band of slots: its buckets are the first 32 bits of content
hashes, which find exact copies (``docs/format.md``). So an index has at most 255 bands, 0 to 254.

32 bits collide: of a million contents, some 116 pairs share a bucket. Whoever looks a content up
compares its whole hash.

Functions take integers and arrays of int64 alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.arrays import np

__all__ = [
    "BUCKET_BITS",
    "CONTENT_BAND",
    "FIRST_CONTENT_KEY",
    "KEY_BITS",
    "LAST_KEY",
    "N_BUCKETS",
    "bands_of",
    "buckets_of",
    "key_ranges",
    "keys_from",
    "range_of_band",
    "sql_buckets",
]

BUCKET_BITS = 32
KEY_BITS = BUCKET_BITS + 8
"""A key is below 2^40."""
N_BUCKETS = 2**BUCKET_BITS
"""Buckets of a band."""
CONTENT_BAND = 255
"""The band of content hashes, the last one."""
FIRST_CONTENT_KEY = CONTENT_BAND << BUCKET_BITS
"""The keys of all other bands are below this one."""
LAST_KEY = FIRST_CONTENT_KEY + N_BUCKETS - 1

Numbers = TypeVar("Numbers", int, "NDArray[np.int64]")


def keys_from(bands: int | NDArray[np.int64], buckets: Numbers) -> Numbers:
    """Return the bucket keys of buckets in bands."""
    return bands << BUCKET_BITS | buckets  # type: ignore[return-value]


def bands_of(keys: Numbers) -> Numbers:
    """Return the band of each bucket key; a number that is no key gives one outside 0 to 255."""
    return keys >> BUCKET_BITS


def buckets_of(keys: Numbers) -> Numbers:
    """Return the bucket of each key, 0 to 2^32 - 1, within its band."""
    buckets: Numbers = keys & (N_BUCKETS - 1)
    return buckets


def range_of_band(band: int) -> tuple[int, int]:
    """Return the first and the last bucket key of a band."""
    first = keys_from(band, 0)
    return first, first + N_BUCKETS - 1


def key_ranges(*, bands: int, parts: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last bucket key of each of ``parts`` equal parts of bands 0 and up."""
    step = -(-N_BUCKETS // parts)
    for band in range(bands):
        first, last = range_of_band(band)
        for start in range(first, last + 1, step):
            yield start, min(start + step - 1, last)


def sql_buckets(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the buckets of keys as SQL has them: from -2^31 to 2^31 - 1."""
    return buckets_of(keys).astype("uint32").view("int32").astype("int64")
