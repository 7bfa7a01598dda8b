"""Scheme ``icws``: consistent weighted sampling (Ioffe, ICDM 2010) of elements with real weights.

Each slot samples an element x and a level t of it. Two weighted sets sample the same with
probability J = sum of min(S, T) over sum of max(S, T), over the elements and their weights S and T.
Slots are independent.

Exactly: slot j has keys number 3 j, 3 j + 1 and 3 j + 2 of the purpose WEIGHTS. An element x of
weight S > 0 has with each key the word mix64(x xor key). The two halves h of the first word, each
as the number (h + 1/2) / 2^32, have the product p; those of the second the product q; the third
word is the uniform number b (``random_numbers.py``). Then c = -ln p and r = -ln q are distributed
Gamma(2, 1), and with

    t = floor(ln S / r + b)        ln a = ln c - r (t - b + 1)

the slot takes the element with the smallest a, of several the one with the smallest x. What is
stored are the low 32 bits of mix64(x + t G mod 2^64), where G is ``mixing.GOLDEN``: two samples
that are not the same are equal by accident once in 2^32.

It is enough to work out few of the a: since ln S < r (t - b + 1) <= ln S + r, each is between
c q / S and c / S, and an element is out whose lower bound is above another's upper one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.kernels import compiled
from lshdb.signatures.mixing import GOLDEN, mix64
from lshdb.signatures.random_numbers import Purpose, keys, to_uniform

__all__ = ["sketch", "sketch_reference"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

_CELLS = 1 << 16
"""Elements times slots that are worked on at once: half a MiB an array."""
_SLACK = 1.0 + 1e-9
"""On bounds, for rounding."""
_LOW32, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)


def sketch(
    hashes: Words, weights: Floats, lengths: NDArray[np.int64], *, num_perm: int, seed: int
) -> NDArray[np.uint32]:
    """Sketch many weighted sets at once.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (sum(lengths),)
        The elements of all sets, one set after the other; in each ascending and distinct.
    weights : ndarray of float64, shape (sum(lengths),)
        From 1e-150 to 1e150.
    lengths : ndarray of int64, shape (n,)
        Elements of each set, at least 1.
    num_perm : int
        Slots K.
    seed : int
        0 to 2^63 - 1.

    Returns
    -------
    ndarray of uint32, shape (n, num_perm)
        A row does not depend on the other sets.

    Notes
    -----
    By the kernel without the interpreter's lock, or else by NumPy. The two differ only where two
    a, or a level and its bound, are the same to 1e-15, as libraries round logarithms differently.
    """
    kernel = compiled()
    if kernel is None:
        return sketch_reference(hashes, weights, lengths, num_perm=num_perm, seed=seed)
    slot_keys = keys(seed, Purpose.WEIGHTS, 0, 3 * num_perm)
    rows = np.empty((len(lengths), num_perm), dtype=np.uint32)
    kernel.sample_weights(hashes, weights, np.log(weights), lengths, num_perm, slot_keys, rows)
    return rows


def sketch_reference(
    hashes: Words, weights: Floats, lengths: NDArray[np.int64], *, num_perm: int, seed: int
) -> NDArray[np.uint32]:
    """As :func:`sketch`, by NumPy: about 40 ns an element and slot."""
    slot_keys = keys(seed, Purpose.WEIGHTS, 0, 3 * num_perm).reshape(num_perm, 3).T
    rows = np.zeros((len(lengths), num_perm), dtype=np.uint32)
    owners = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    best = np.full((len(lengths), num_perm), np.inf)
    step = max(1, _CELLS // num_perm)
    for begin in range(0, len(hashes), step):
        block = slice(begin, begin + step)
        owner = owners[block]
        firsts = np.flatnonzero(np.diff(owner, prepend=-1))
        sets = owner[firsts]
        found, values = _sample(hashes[block], weights[block], firsts, slot_keys)
        closer = found < best[sets]
        best[sets] = np.where(closer, found, best[sets])
        rows[sets] = np.where(closer, values, rows[sets])
    return rows


def _sample(
    hashes: Words, weights: Floats, firsts: NDArray[np.int64], slot_keys: Words
) -> tuple[Floats, NDArray[np.uint32]]:
    """The smallest ln a of each set and slot, and what is stored of its element and level.

    Parameters
    ----------
    hashes, weights : ndarray, shape (n,)
    firsts : ndarray of int64, shape (m,)
        Where each set begins.
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
    t = np.floor(np.log(weights)[element] / r + b)
    log_a = np.log(c[element, slot]) - r * (t - b + 1.0)
    place = groups[element] * num_perm + slot
    best = np.full(len(firsts) * num_perm, np.inf)
    np.minimum.at(best, place, log_a)
    chosen = np.flatnonzero(log_a == best[place])[::-1]  # of equal ones the first is written last
    values = np.zeros(len(best), dtype=np.uint32)
    values[place[chosen]] = _stored(x[chosen], t[chosen])
    return best.reshape(-1, num_perm), values.reshape(-1, num_perm)


def _product(words: Words) -> Floats:
    """Product of the two halves of each word as numbers in (0, 1)."""
    product = (words >> _32).astype(np.float64)
    product += 0.5
    low = (words & _LOW32).astype(np.float64)
    low += 0.5
    product *= low
    product *= 2.0**-64
    return product


def _stored(x: Words, t: Floats) -> NDArray[np.uint32]:
    """What a slot holds that has sampled elements x at levels t."""
    return mix64(x + t.astype(np.int64).astype(np.uint64) * np.uint64(GOLDEN)).astype(np.uint32)
