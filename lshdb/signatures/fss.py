"""Scheme ``fss``: Fast Similarity Sketching (Dahlgaard, Knudsen, Thorup, FOCS 2017).

Throw every element into one of K slots; a slot keeps the smallest value that fell into it. While a
slot is empty, throw all elements again with new hashes; a slot that an earlier round filled keeps
its value. After K rounds the rest is deterministic: round K + j puts every element into slot j.
Two sets agree in a slot with probability J, their Jaccard similarity, and always fill all slots, so
the rows can be cut into bands. For short sets the slots are negatively correlated, so the estimate
is better than that of K independent permutations. Expected work for n elements: O(n + K log K);
K permutations need n K.

Exactly: round i (0 <= i < 2K) has the key k_i, number i of the stream of the seed, and hashes an
element x to u = mix64(x xor k_i). If i < K its slot is floor(high32(u) * K / 2^32), else i - K; its
value is low32(u). The first round that reaches a slot decides it, and within the round the smallest
value. The value is stored, 32 bits.

A file of its own, as every scheme has one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.random_numbers import key_stream, mix64

__all__ = ["sketch"]

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def sketch(
    hashes: NDArray[np.uint64], lengths: NDArray[np.int64], *, num_perm: int, seed: int
) -> NDArray[np.uint32]:
    """Sketch many sets at once.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (sum(lengths),)
        The elements of all sets, one set after the other.
    lengths : ndarray of int64, shape (n,)
        Elements of each set, at least 1.
    num_perm : int
        Slots K.
    seed : int
        0 to 2^64 - 1.

    Returns
    -------
    ndarray of uint32, shape (n, num_perm)

    Notes
    -----
    Reference implementation, all sets round by round: about 30 ns per element and round. Needs
    8 K + 40 bytes of working memory per element or slot, so callers pass blocks of sets.
    """
    n = len(lengths)
    keys = key_stream(seed, 0, 2 * num_perm)
    slots = np.full((n, num_perm), _EMPTY, dtype=np.uint64)
    flat = slots.reshape(-1)
    owners = np.repeat(np.arange(n, dtype=np.int64), lengths)
    open_sets = np.ones(n, dtype=bool)
    for number in range(2 * num_perm):
        mixed = mix64(hashes ^ keys[number])
        if number < num_perm:
            slot = ((mixed >> _32) * np.uint64(num_perm) >> _32).astype(np.int64)
        else:
            slot = np.full(len(mixed), number - num_perm, dtype=np.int64)
        ranked = (mixed & _LOW32) | np.uint64(number << 32)
        np.minimum.at(flat, owners * num_perm + slot, ranked)
        open_sets[open_sets] = (slots[open_sets] == _EMPTY).any(axis=1)
        if not open_sets.any():
            break
        still = open_sets[owners]
        if not still.all():
            hashes, owners = hashes[still], owners[still]
    return (slots & _LOW32).astype(np.uint32)
