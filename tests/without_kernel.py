"""The reference in place of the compiled kernel, in every module that took it, and its sketches."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lshdb.kernel
from lshdb.arrays import count_bits
from lshdb.kernel import reference
from lshdb.kernel.lookup_tables import SCHEMES, constants
from lshdb.signatures.banding import Overlap, matching_bands


def use_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do everything by the reference, to the end of the test."""
    chosen = lshdb.kernel.kernel
    for name, module in list(sys.modules.items()):
        if name.startswith("lshdb.") and getattr(module, "kernel", None) is chosen:
            monkeypatch.setattr(module, "kernel", reference)


def reference_sketch(
    scheme: str, hashes: NDArray[np.uint64], lengths: NDArray[np.int64], num_perm: int, seed: int
) -> NDArray[np.uint16]:
    """Sketch concatenated sets by the reference."""
    rows = np.empty((len(lengths), num_perm), dtype=np.uint16)
    numbers = constants(scheme, num_perm, seed)
    reference.sketch(hashes, lengths, SCHEMES[scheme], num_perm, numbers, rows)
    return rows


def reference_agreement(
    left: NDArray[np.uint16],
    right: NDArray[np.uint16],
    *,
    bands: int,
    rows: int,
    slot_bits: int = 16,
) -> Overlap:
    """Compare rows side by side."""
    agree = matching_bands(left, right, bands=bands, rows=rows, slot_bits=slot_bits)
    first = np.where(agree.any(axis=1), agree.argmax(axis=1), -1)
    if slot_bits == 1:
        equal = 16 * left.shape[1] - count_bits(left ^ right)
    else:
        equal = (left == right).sum(axis=1)
    counts = (equal, agree.sum(axis=1), first)
    return Overlap(*(column.astype(np.int32) for column in counts))


def reference_counts(
    queries: NDArray[np.uint16], rows: NDArray[np.uint16], slot_bits: int, counts: Any, first: int
) -> None:
    """Count the equal slots of queries and rows."""
    words, width = queries.shape[1], counts.shape[1]
    reference.count_in_rows(queries, rows, words, slot_bits, width, first, counts)


def reference_ranks(counts: Any, least: int, most: int) -> tuple[NDArray[np.int64], int]:
    """Return the places of the highest counts, and how many are high enough."""
    best = np.empty(min(most, len(counts)), dtype=np.int64)
    found = reference.rank_counts(counts, least, best)
    return best[:found], found


def reference_keys(
    rows: NDArray[np.uint16], bands: int, height: int, slot_bits: int = 16
) -> NDArray[np.int64]:
    """Return the bucket keys of rows."""
    keys = np.empty((len(rows), bands), dtype=np.int64)
    reference.bucket_keys(rows, rows.shape[1], slot_bits, bands, height, keys)
    return keys


def reference_sort(keys: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Sort each column of bucket keys."""
    planes = np.empty((2, keys.shape[1], len(keys)), dtype="<u4")
    reference.sort_orders(np.ascontiguousarray(keys), keys.shape[1], planes)
    return planes


def reference_find(places: Any, keys: NDArray[np.int64], limit: int) -> tuple[Any, Any]:
    """Return how many signatures each bucket has, and those."""
    counts = np.empty(len(keys), dtype=np.int64)
    found = reference.find_keys(list(places), np.ascontiguousarray(keys), limit, counts)
    return counts, np.frombuffer(found, dtype=np.int64)


def reference_group(places: Any, first: int, last: int, limit: int, *, above: int) -> Any:
    """Return buckets, their sizes and their members."""
    columns = reference.group_keys(list(places), first, last, limit, above)
    return tuple(np.frombuffer(column, dtype=np.int64) for column in columns)
