"""The reference of the kernel's functions on signature rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import count_bits, pairs_within
from lshdb.kernel.band_hashes import band_words, keys_of_bands

Rows = NDArray[np.uint16]
Ids = NDArray[np.int64]

SLOT, SLOT_BITS = np.uint16, 16
"""What a word of a row is."""
MAX_SLOTS = 2**16 - 1
"""A count has 16 bits."""
_AT_ONCE = 4096
"""Rows that are compared at a time; bounds the memory."""


def bucket_keys(rows: Any, words: int, slot_bits: int, bands: int, height: int, keys: Any) -> None:
    """Compute the bucket keys of rows."""
    signed = np.frombuffer(rows, SLOT).reshape(-1, words)
    packed = band_words(signed, bands=bands, rows=height, slot_bits=slot_bits)
    numbers = np.tile(np.arange(bands), len(signed))
    np.frombuffer(keys, np.int64)[:] = keys_of_bands(
        packed.reshape(len(numbers), packed.shape[2]), numbers
    )


def _rows_of(source: Any, offset: int, n_rows: int, words: int, ids: Ids) -> Rows:
    """Return rows by number: of a buffer, or read one by one from the file of a descriptor."""
    if len(ids) and not 0 <= ids.min() <= ids.max() < n_rows:
        raise IndexError("a bucket is outside its members, or a row outside the rows")
    if not isinstance(source, int):
        return np.frombuffer(source, SLOT).reshape(n_rows, words)[ids]
    numbers, places = np.unique(ids, return_inverse=True)
    size = words * np.dtype(SLOT).itemsize
    read = [os.pread(source, size, offset + number * size) for number in numbers.tolist()]
    if any(len(row) < size for row in read):
        raise ValueError("the file ends before a row does")
    return np.frombuffer(b"".join(read), SLOT).reshape(-1, words)[places]


def _agreement(
    left: Rows, right: Rows, bands: int, height: int, *, is_bits: bool
) -> tuple[Ids, Ids, Ids]:
    """Return equal slots, agreeing bands, and the first of them or -1, of rows side by side."""
    results = [np.empty(len(left), dtype=np.int64) for _ in range(3)]
    for begin in range(0, len(left), _AT_ONCE):
        chunk = slice(begin, begin + _AT_ONCE)
        same = left[chunk] == right[chunk]
        if is_bits:
            differing = (left[chunk] ^ right[chunk]).view(np.uint8)
            same = np.unpackbits(differing, axis=1, bitorder="little") == 0
        agree = same[:, : bands * height].reshape(-1, bands, height).all(axis=2)
        first = np.where(agree.any(axis=1), agree.argmax(axis=1), -1)
        results[0][chunk], results[1][chunk] = same.sum(axis=1), agree.sum(axis=1)
        results[2][chunk] = first
    return results[0], results[1], results[2]


def _compare(
    left_rows: Any, left: Any, right_rows: Any, right: Any, words: int, bands: int, height: int,
    into: tuple[Any, ...], *, is_bits: bool,
) -> None:  # fmt: skip
    sides = []
    for rows, ids in ((left_rows, left), (right_rows, right)):
        words_of_rows = np.frombuffer(rows, SLOT)
        n_rows = len(words_of_rows) // words
        numbers = np.frombuffer(ids, np.int64)
        sides.append(_rows_of(words_of_rows, 0, n_rows, words, numbers))
    agreement = _agreement(sides[0], sides[1], bands, height, is_bits=is_bits)
    for result, values in zip(into, agreement, strict=True):
        np.frombuffer(result, np.int32)[:] = values


def compare_rows(
    left_rows: Any, left: Any, right_rows: Any, right: Any, num_perm: int, bands: int, height: int,
    equal: Any, matched: Any, first: Any,
) -> None:  # fmt: skip
    """Compare row left[i] of some rows with row right[i] of others."""
    into = equal, matched, first
    _compare(left_rows, left, right_rows, right, num_perm, bands, height, into, is_bits=False)


def compare_bits(
    left_rows: Any, left: Any, right_rows: Any, right: Any, words: int, bands: int, height: int,
    equal: Any, matched: Any, first: Any,
) -> None:  # fmt: skip
    """Do the same for rows whose slots are single bits."""
    into = equal, matched, first
    _compare(left_rows, left, right_rows, right, words, bands, height, into, is_bits=True)


def compare_found(
    row: Any, ids: Any, least: int, source: Any, offset: int, n_rows: int, words: int, bands: int,
    height: int, is_bits: bool,
) -> list[tuple[int, int, int]]:  # fmt: skip
    """Compare a row with some others: those that agree in a band and have ``least`` equal slots."""
    numbers = np.unique(np.frombuffer(ids, np.int64))
    compared = _rows_of(source, offset, n_rows, words, numbers)
    own = np.broadcast_to(np.frombuffer(row, SLOT), compared.shape)
    equal, matched, _ = _agreement(own, compared, bands, height, is_bits=is_bits)
    keep = (matched > 0) & (equal >= least)
    columns = (column[keep].tolist() for column in (numbers, equal, matched))
    return list(zip(*columns, strict=True))


def agreeing_pairs(
    bands: Any, sizes: Any, members: Any, marks: Any, source: Any, offset: int, n_rows: int,
    words: int, n_bands: int, height: int, is_bits: bool, hot: Any, suffices: Any,
) -> bytearray:  # fmt: skip
    """Compare each two members of each bucket, as long as one of the two is marked."""
    numbers, counts = np.frombuffer(bands, np.int64), np.frombuffer(sizes, np.int64)
    ids, is_marked = np.frombuffer(members, np.int64), np.frombuffer(marks, np.bool_)
    if (numbers < -1).any() or (counts < 0).any() or counts.sum() > len(ids):
        raise IndexError("a bucket is outside its members, or a row outside the rows")
    place1, place2 = pairs_within(counts, is_marked)
    band = np.repeat(numbers, counts)[place1]
    left, right = ids[place1], ids[place2]
    rows = _rows_of(source, offset, n_rows, words, np.concatenate([left, right]))
    one, other = rows[: len(left)], rows[len(left) :]
    equal, matched, first = _agreement(one, other, n_bands, height, is_bits=is_bits)
    keep = (first == band) | (band < 0)
    later = np.flatnonzero((first >= 0) & (first < band) & (band < n_bands))
    if hot is not None and len(later):
        keep[later] = _agree_later(
            one[later], other[later], band[later], np.frombuffer(hot, np.int64), n_bands, height,
            is_bits=is_bits,
        )  # fmt: skip
    keep &= np.frombuffer(suffices, np.bool_)[equal]
    columns = (left, right, equal, matched)
    return bytearray(np.stack([column[keep] for column in columns], axis=1).tobytes())


def _agree_later(
    left: Rows, right: Rows, band: Ids, hot: Ids, bands: int, height: int, *, is_bits: bool
) -> NDArray[np.bool_]:
    """Return which rows agree in a band, and before it only where they share a hot bucket."""
    cut: Any = {"bands": bands, "rows": height, "slot_bits": 1 if is_bits else SLOT_BITS}
    agree = (band_words(left ^ right, **cut) == 0).all(axis=2)
    packed = band_words(left, **cut)
    numbers = np.tile(np.arange(bands), len(left))
    keys = keys_of_bands(packed.reshape(len(numbers), packed.shape[2]), numbers)
    is_before = agree & (np.arange(bands) < band[:, None])
    is_first = ~(is_before & ~np.isin(keys.reshape(agree.shape), hot)).any(axis=1)
    result: NDArray[np.bool_] = is_first & agree[np.arange(len(band)), band]
    return result


def count_in_rows(
    queries: Any, rows: Any, words: int, slot_bits: int, width: int, first: int, counts: Any
) -> None:
    """Count the equal slots of each query with each of some rows."""
    asking = np.frombuffer(queries, SLOT).reshape(-1, words)
    stored = np.frombuffer(rows, SLOT).reshape(-1, words)
    lines = np.frombuffer(counts, np.uint16).reshape(len(asking), width)
    n_slots = words * SLOT_BITS if slot_bits == 1 else words
    if n_slots > MAX_SLOTS or not 0 <= first <= width - len(stored):
        raise ValueError("the rows are outside the counts, or have too many slots")
    for start in range(0, len(stored), _AT_ONCE):
        chunk = stored[start : start + _AT_ONCE]
        into = slice(first + start, first + start + len(chunk))
        for line, query in zip(lines, asking, strict=True):
            if slot_bits == 1:
                line[into] = n_slots - count_bits(chunk ^ query)
            else:
                line[into] = (chunk == query).sum(axis=1)


def rank_counts(counts: Any, least: int, best: Any) -> int:
    """Put the places of the highest counts into ``best``; return how many are high enough."""
    values, ranked = np.frombuffer(counts, np.uint16), np.frombuffer(best, np.int64)
    places = np.flatnonzero(values >= least)
    order = np.argsort(-values[places].astype(np.int64), kind="stable")
    ranked[: len(places)] = places[order[: len(ranked)]]
    return len(places)
