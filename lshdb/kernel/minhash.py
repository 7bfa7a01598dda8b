"""The two schemes of min-hash for sets, as references that the kernel equals bit for bit.

Scheme ``fss``: Fast Similarity Sketching (Dahlgaard, Knudsen, Thorup, FOCS 2017). Throw every
element into one of K slots; a slot keeps the smallest value that fell into it. While a slot is
empty, throw all elements again with new hashes; a slot that an earlier round filled keeps its
value. After K rounds the rest is deterministic: round K + j puts every element into slot j.
Two sets agree in a slot with probability J, their Jaccard similarity, and always fill all slots, so
the rows can be cut into bands. For short sets the slots are negatively correlated, so the estimate
is better than that of K independent permutations. Expected work for n elements: O(n + K log K);
K permutations need n K.

Exactly: round i (0 <= i < 2K) has the key k_i, number i of the stream of the seed, and hashes an
element x to u = mix64(x xor k_i). If i < K its slot is floor(high32(u) * K / 2^32), else i - K; its
value is low32(u). The first round that reaches a slot decides it, and within the round the smallest
value. The lower 16 bits of the value are stored.

Scheme ``universal``: K hash functions (Mining of Massive Datasets, section 3.3.5). Slot j is the
minimum over the elements x of ((a_j x + b_j) mod p) mod 2^32, with p = 2^61 - 1, exact: x is a full
64-bit number, the product has up to 125 bits, and no step overflows. a_j (1 <= a < p) and b_j
(0 <= b < p) are drawn from the key stream of the seed, in the order a_0, b_0, a_1, b_1, ...: each
is the upper 61 bits of a key; keys out of range are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.kernel.random_numbers import PRIME, mix64

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["fss_sketch", "universal_sketch"]

_EMPTY = 0xFFFFFFFFFFFFFFFF
_LOW32 = 0xFFFFFFFF


def fss_sketch(
    hashes: NDArray[np.uint64], lengths: NDArray[np.int64], keys: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    """Sketch many sets at once.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (sum(lengths),)
        The elements of all sets, one set after the other.
    lengths : ndarray of int64, shape (n,)
        Elements of each set, at least 1.
    keys : ndarray of uint64, shape (2 num_perm,)

    Returns
    -------
    ndarray of uint16, shape (n, num_perm)

    Notes
    -----
    Reference implementation, all sets round by round: about 30 ns per element and round. Needs
    8 K + 40 bytes of working memory per element or slot, so callers pass blocks of sets.
    """
    n, num_perm = len(lengths), len(keys) // 2
    slots = np.full((n, num_perm), np.uint64(_EMPTY), dtype=np.uint64)
    flat = slots.reshape(-1)
    owners = np.repeat(np.arange(n, dtype=np.int64), lengths)
    open_sets = np.ones(n, dtype=bool)
    for number in range(2 * num_perm):
        mixed = mix64(hashes ^ keys[number])
        if number < num_perm:
            slot = mixed >> np.uint64(32)
            slot = (slot * np.uint64(num_perm) >> np.uint64(32)).astype(np.int64)
        else:
            slot = np.full(len(mixed), number - num_perm, dtype=np.int64)
        ranked = (mixed & np.uint64(_LOW32)) | np.uint64(number << 32)
        np.minimum.at(flat, owners * num_perm + slot, ranked)
        open_sets[open_sets] = (slots[open_sets] == np.uint64(_EMPTY)).any(axis=1)
        if not open_sets.any():
            break
        still = open_sets[owners]
        if not still.all():
            hashes, owners = hashes[still], owners[still]
    return slots.astype(np.uint16)


_LOW29 = 2**29 - 1
_CHUNK = 2048


def _fold(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Reduce values mod p, up to one p too many: 2^61 is 1 mod p, so add the upper bits below."""
    return (values & np.uint64(PRIME)) + (values >> np.uint64(61))


def _evaluate(
    a: NDArray[np.uint64], b: NDArray[np.uint64], x: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Compute (a x + b) mod p for a column of x (reduced mod p) and rows of a and b.

    In 64-bit steps, with a = a1 2^32 + a0 (a1 < 2^29) and x = x1 2^32 + x0:
    a x = a1 x1 2^64 + (a1 x0 + a0 x1) 2^32 + a0 x0, where 2^64 = 8 mod p; the middle sum m is below
    2^62, and m 2^32 = (m >> 29) + (m mod 2^29) 2^32 mod p.
    """
    a1, a0 = a >> np.uint64(32), a & np.uint64(_LOW32)
    x1, x0 = x >> np.uint64(32), x & np.uint64(_LOW32)
    middle = a1 * x0 + a0 * x1
    total = (a1 * x1) * np.uint64(8)  # below 2^61
    total += middle >> np.uint64(29)
    total += (middle & np.uint64(_LOW29)) << np.uint64(32)
    total = _fold(total)
    total += _fold(a0 * x0)
    total += b
    total = _fold(total)
    return np.where(total >= np.uint64(PRIME), total - np.uint64(PRIME), total)


def universal_sketch(
    hashes: NDArray[np.uint64], lengths: NDArray[np.int64], keys: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    """Sketch many sets at once; parameters and result as for :func:`fss_sketch`.

    Notes
    -----
    Reference implementation: about 25 ns per element and slot, and 40 bytes of working memory for
    each slot of 2048 elements.
    """
    num_perm = len(keys) // 2
    a, b = keys[:num_perm], keys[num_perm:]
    reduced = _fold(hashes)
    reduced = np.where(reduced >= np.uint64(PRIME), reduced - np.uint64(PRIME), reduced)
    least = np.full((len(lengths), num_perm), _LOW32, dtype=np.uint32)
    owners = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    for start in range(0, len(reduced), _CHUNK):
        block = reduced[start : start + _CHUNK, None]
        values = (_evaluate(a[None, :], b[None, :], block) & np.uint64(_LOW32)).astype(np.uint32)
        owner = owners[start : start + _CHUNK]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1))
        smallest = np.minimum.reduceat(values, firsts, axis=0)
        least[owner[firsts]] = np.minimum(least[owner[firsts]], smallest)
    return least.astype(np.uint16)
