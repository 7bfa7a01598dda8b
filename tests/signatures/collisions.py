"""Words chosen so that the hashes of their shingles meet: what only somebody hostile writes."""

from __future__ import annotations

from functools import lru_cache

import mmh3
import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_MASK = 2**64 - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


@lru_cache(maxsize=16)
def words_that_meet(n: int, *, places: int, within: int) -> list[str]:
    """Words whose hashes begin in the first of so many places of a table; 1 in `within` fits."""
    found: list[str] = []
    number = 0
    while len(found) < n:
        word = f"w{number}"
        if mmh3.hash64(word, 0, signed=False)[0] % places < places // within:
            found.append(word)
        number += 1
    return found


@lru_cache(maxsize=16)
def words_of_hash(value: int, n: int, *, seed: int = 0) -> list[str]:
    """Words of 16 ASCII characters, without blanks and line feeds, that all have this hash.

    MurmurHash3 of one block of 16 bytes can be undone. Of the 128 bits a shingle's hash is the sum
    of the two halves, each as it is finally mixed; so one half is free, and 1 word in 2^16 is
    ASCII.
    """
    rng = np.random.default_rng(value % 2**32)
    found: list[str] = []
    while len(found) < n:
        found += _words(rng, np.uint64(value), seed)
    assert all(mmh3.hash64(word, seed, signed=False)[0] == value for word in found)
    return found[:n]


@lru_cache(maxsize=16)
def words_that_begin_alike(n: int) -> list[str]:
    """Words like those of :func:`words_of_hash` whose hashes share their first 12 bits."""
    rng = np.random.default_rng(n)
    found: list[str] = []
    while len(found) < n:
        hashes = rng.integers(0, 2**52, 1 << 18, dtype=np.uint64)
        found += _words(rng, hashes | np.uint64(0xABC << 52), 0)
    assert all(mmh3.hash64(word, 0, signed=False)[0] >> 52 == 0xABC for word in found)
    return found[:n]


def _words(rng: np.random.Generator, hashes: Words | np.uint64, seed: int) -> list[str]:
    half = rng.integers(0, 2**64, 1 << 18, dtype=np.uint64)
    blocks = np.stack(_undo(hashes - half, half, seed), axis=1)
    ascii_only = (blocks & np.uint64(0x8080808080808080) == 0).all(axis=1)
    return [
        word.tobytes().decode()
        for word in blocks[ascii_only].astype("<u8").view(np.uint8)
        if not np.isin(word, (10, 32)).any()
    ]


def _undo(first: Words, second: Words, seed: int) -> tuple[Words, Words]:
    """The two words of the block of 16 bytes whose mixed halves are these."""
    first, second = _unmix(first), _unmix(second)
    two = second - first
    one = (first - two) ^ np.uint64(16)
    two ^= np.uint64(16)
    fifth = np.uint64(pow(5, -1, 2**64))
    two = (two - np.uint64(0x38495AB5)) * fifth - one
    one = (one - np.uint64(0x52DCE729)) * fifth - np.uint64(seed)
    two, one = _rotate(two, 33) ^ np.uint64(seed), _rotate(one, 37) ^ np.uint64(seed)
    one = _rotate(one * _inverse(_C2), 33) * _inverse(_C1)
    two = _rotate(two * _inverse(_C1), 31) * _inverse(_C2)
    return one, two


def _unmix(z: Words) -> Words:
    z = z ^ (z >> np.uint64(33))
    z = z * _inverse(0xC4CEB9FE1A85EC53)
    z ^= z >> np.uint64(33)
    z = z * _inverse(0xFF51AFD7ED558CCD)
    return z ^ (z >> np.uint64(33))


def _inverse(odd: int) -> np.uint64:
    return np.uint64(pow(odd, -1, 2**64) & _MASK)


def _rotate(x: Words, by: int) -> Words:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))
