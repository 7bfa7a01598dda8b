"""The reference of the kernel's functions on sets of hashes and on vectors of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.kernel.minhash import fss_sketch, universal_sketch
from lshdb.kernel.random_numbers import GOLDEN, mix64, to_uniform
from lshdb.kernel.reference_rows import SLOT

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_BY_NUMBER = (fss_sketch, universal_sketch)
_BLOCK_SETS, _BLOCK_ELEMENTS = 1024, 1 << 18
"""What is sketched at a time, which bounds the memory."""


def sketch(
    hashes: Any, lengths: Any, scheme: int, num_perm: int, constants: Any, rows: Any
) -> None:
    """Sketch concatenated sets, some at a time."""
    elements, sizes = np.frombuffer(hashes, np.uint64), np.frombuffer(lengths, np.int64)
    if (sizes < 1).any() or sizes.sum() != len(elements):
        raise ValueError("a length is below 1 or reaches past the hashes")
    signed = np.frombuffer(rows, SLOT).reshape(len(sizes), num_perm)
    keys = np.frombuffer(constants, np.uint64)
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        start = int(ends[begin] - sizes[begin])
        end = int(np.searchsorted(ends, start + _BLOCK_ELEMENTS))
        end = min(max(end, begin + 1), begin + _BLOCK_SETS, len(sizes))
        chunk = elements[start : int(ends[end - 1])]
        signed[begin:end] = _BY_NUMBER[scheme](chunk, sizes[begin:end], keys)
        begin = end


def count_common(left: Any, right: Any) -> int:
    """Count the values that two sorted arrays share: O(n log m) for n <= m."""
    smaller, larger = sorted(
        (np.frombuffer(elements, np.uint64) for elements in (left, right)), key=len
    )
    if not len(smaller):
        return 0
    places = np.minimum(np.searchsorted(larger, smaller), len(larger) - 1)
    return int(np.count_nonzero(larger[places] == smaller))


def compare_sets(parts: list[Any], sets: Any, left: Any, right: Any, common: Any) -> None:
    """Count the values that set left[i] and set right[i] share."""
    values = [
        np.frombuffer(parts[part], np.uint64)[begin : begin + size]
        for part, begin, size in np.frombuffer(sets, np.int64).reshape(-1, 3).tolist()
    ]
    pairs = zip(
        *(np.frombuffer(places, np.int64).tolist() for places in (left, right)), strict=True
    )
    counts = [count_common(values[first], values[second]) for first, second in pairs]
    np.frombuffer(common, np.int64)[:] = counts


def table_sets(hashes: Any, counts: Any, bits: int, starts: Any, values: Any, owners: Any) -> None:
    """Sort the values of sets by their highest bits, each with the number of its set."""
    elements, sizes = np.frombuffer(hashes, np.uint64), np.frombuffer(counts, np.int64)
    if (sizes < 0).any() or sizes.sum() != len(elements):
        raise ValueError("the counts do not fit the hashes")
    buckets = (elements >> np.uint64(64 - bits)).astype(np.int64)
    order = np.argsort(buckets, kind="stable")
    ends = np.cumsum(np.bincount(buckets, minlength=2**bits))
    np.frombuffer(starts, np.uint32)[:] = np.concatenate([[0], ends])
    np.frombuffer(values, np.uint64)[:] = elements[order]
    np.frombuffer(owners, np.uint32)[:] = np.repeat(np.arange(len(sizes)), sizes)[order]


def find_sharing(
    bits: int,
    starts: Any,
    values: Any,
    owners: Any,
    sizes: Any,
    hashes: Any,
    counts: Any,
    is_part: bool,
    most: int,
    least: float,
    below: float,
) -> bytearray:
    """Return (probe, set, shared values), in order of probe and, in it, of set.

    The compiled code gives the same triples, those of a probe in any order.
    """
    firsts, members = np.frombuffer(starts, np.uint32), np.frombuffer(owners, np.uint32)
    table, n_each = np.frombuffer(values, np.uint64), np.frombuffer(sizes, np.int64)
    elements, n_own = np.frombuffer(hashes, np.uint64), np.frombuffer(counts, np.int64)
    triples = [np.empty((0, 3), dtype=np.int64)]
    for probe, (end, size) in enumerate(zip(np.cumsum(n_own), n_own.tolist(), strict=True)):
        own = elements[end - size : end]
        buckets = (own >> np.uint64(64 - bits)).astype(np.int64)
        met = [np.empty(0, dtype=np.int64)]
        for bucket, value in zip(buckets.tolist(), own.tolist(), strict=True):
            places = slice(int(firsts[bucket]), int(firsts[bucket + 1]))
            met.append(members[places][table[places] == value].astype(np.int64))
        sets, common = np.unique(np.concatenate(met), return_counts=True)
        either = np.full(len(sets), size) if is_part else size + n_each[sets] - common
        levels = common / either
        near = levels < below
        sets, common, levels = sets[near], common[near], levels[near]
        lowest = least
        if most < len(sets):
            lowest = max(least, float(np.partition(levels, len(sets) - most)[len(sets) - most]))
        keep = levels >= lowest
        triples.append(
            np.stack([np.full(int(keep.sum()), probe), sets[keep], common[keep]], axis=1)
        )
    return bytearray(np.concatenate(triples).tobytes())


def walsh_hadamard(rows: Any, size: int) -> None:
    """Apply the Walsh-Hadamard transform to each row, in place and not normalised."""
    values = np.frombuffer(rows, np.float64).reshape(-1, size)
    columns = np.ascontiguousarray(values.T)
    spare = np.empty_like(columns)
    half = 1
    while half < size:
        shape = size // (2 * half), 2, half, len(values)
        halves, sums = columns.reshape(shape), spare.reshape(shape)
        np.add(halves[:, 0], halves[:, 1], out=sums[:, 0])
        np.subtract(halves[:, 0], halves[:, 1], out=sums[:, 1])
        columns, spare = spare, columns
        half *= 2
    values[:] = columns.T


_CELLS = 1 << 16
"""Elements times slots per step: half a MiB per array."""
_SLACK = 1.0 + 1e-9
"""Slack on the bounds, for rounding."""
_LOW32, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


def sample_weights(
    hashes: Any, weights: Any, logs: Any, lengths: Any, num_perm: int, keys: Any, rows: Any
) -> None:
    """Sample concatenated weighted sets (``signatures/weighted.py``): 40 ns an element and slot."""
    elements, sizes = np.frombuffer(hashes, np.uint64), np.frombuffer(lengths, np.int64)
    heavy, logarithms = (np.frombuffer(numbers, np.float64) for numbers in (weights, logs))
    slot_keys = np.frombuffer(keys, np.uint64).reshape(num_perm, 3).T
    signed = np.frombuffer(rows, SLOT).reshape(len(sizes), num_perm)
    owners = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    best = np.full((len(sizes), num_perm), np.inf)
    step = max(1, _CELLS // num_perm)
    for begin in range(0, len(elements), step):
        block = slice(begin, begin + step)
        owner = owners[block]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1))
        sets = owner[firsts]
        smallest, values = _sample(
            elements[block], heavy[block], logarithms[block], firsts, slot_keys
        )
        closer = smallest < best[sets]
        best[sets] = np.where(closer, smallest, best[sets])
        signed[sets] = np.where(closer, values, signed[sets])


def _sample(
    hashes: Words, weights: Floats, logs: Floats, firsts: Ids, slot_keys: Words
) -> tuple[Floats, NDArray[np.uint16]]:
    """Return the smallest ln a of each set and slot, and the stored value of its element and level.

    Parameters
    ----------
    hashes, weights, logs : ndarray, shape (n,)
    firsts : ndarray of int64, shape (m,)
        The first element of each set.
    slot_keys : ndarray of uint64, shape (3, num_perm)
    """
    num_perm = slot_keys.shape[1]
    groups = np.zeros(len(hashes), dtype=np.int64)
    groups[firsts] = 1
    groups = np.cumsum(groups) - 1
    c = -np.log(_product(mix64(hashes[:, None] ^ slot_keys[0])))
    q = _product(mix64(hashes[:, None] ^ slot_keys[1]))
    upper = c / weights[:, None]
    limit = np.minimum.reduceat(upper, firsts, axis=0) * _SLACK
    upper *= q  # the lower bounds
    element, slot = np.nonzero(upper <= limit[groups])

    x = hashes[element]
    r = -np.log(q[element, slot])
    b = to_uniform(mix64(x ^ slot_keys[2, slot]))
    t = np.floor(logs[element] / r + b)
    log_a = np.log(c[element, slot]) - r * (t - b + 1.0)
    place = groups[element] * num_perm + slot
    best = np.full(len(firsts) * num_perm, np.inf)
    np.minimum.at(best, place, log_a)
    chosen = np.flatnonzero(log_a == best[place])[::-1]  # the first of equals is written last
    values = np.zeros(len(best), dtype=SLOT)
    values[place[chosen]] = _stored(x[chosen], t[chosen])
    return best.reshape(-1, num_perm), values.reshape(-1, num_perm)


def _product(words: Words) -> Floats:
    """Multiply the two halves of each word as numbers in (0, 1)."""
    product = (words >> _32).astype(np.float64)
    product += 0.5
    low = (words & _LOW32).astype(np.float64)
    low += 0.5
    product *= low
    product *= 2.0**-64
    return product


def _stored(x: Words, t: Floats) -> NDArray[np.uint16]:
    """Return the slot values for sampled elements x at levels t."""
    return mix64(x + t.astype(np.int64).astype(np.uint64) * np.uint64(GOLDEN)).astype(SLOT)
