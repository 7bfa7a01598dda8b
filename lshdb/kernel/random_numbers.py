"""Reproducible random numbers from a seed: uniform, signs, Gaussian and Cauchy.

Families of hash functions draw their numbers here. A signature written today must be comparable in
ten years, so these numbers never change.

``mix64`` is the 64-bit mixer from which every derived hash is made: the output function of
SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with
the constants of Stafford's variant 13), a bijection of 64-bit numbers in which each input bit flips
each output bit with probability near one half. A seed becomes a stream of keys as SplitMix64 does
it: key number i is ``mix64(seed + (i + 1) * 0x9E3779B97F4A7C15)``.

Each kind of draw (a *purpose*) has its own range of that stream: number i of purpose p comes from
key p 2^56 + i. So no key serves two purposes, and any part of a sequence can be computed without
the parts before it.

    uniform   ((key >> 12) + 1/2) / 2^52: a double in (0, 1), never 0 and never 1
    sign      +1 if the topmost bit of the key is 0, else -1
    Cauchy    tan(pi (u - 1/2)) of a uniform u
    Gaussian  Box and Muller (1958): of the uniforms u, number 2 i of the purpose, and v, 2 i + 1,
              sqrt(-2 ln u) cos(2 pi v) is number 2 i, and sqrt(-2 ln u) sin(2 pi v) 2 i + 1

Uniform numbers and signs are exact on every machine. The others use ``log``, ``cos``, ``sin`` and
``tan``, and libraries may round their last bit differently.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from lshdb.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "GOLDEN",
    "PRIME",
    "Purpose",
    "cauchy",
    "gaussian",
    "key_list",
    "key_stream",
    "keys",
    "mix64",
    "places",
    "prime_coefficients",
    "signs",
    "to_uniform",
    "uniform",
]


GOLDEN = 0x9E3779B97F4A7C15

_A = 0xBF58476D1CE4E5B9
_B = 0x94D049BB133111EB
_MASK = 2**64 - 1


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix each 64-bit number of an array of any shape; return a new array."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(_A)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_B)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def key_list(seed: int, first: int, count: int) -> list[int]:
    """Return the same as :func:`key_stream`, without NumPy: 0.5 us a key."""
    keys = []
    for number in range(first + 1, first + count + 1):
        key = (seed + number * GOLDEN) & _MASK
        key = (key ^ key >> 30) * _A & _MASK
        key = (key ^ key >> 27) * _B & _MASK
        keys.append(key ^ key >> 31)
    return keys


def key_stream(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return keys ``first`` to ``first + count - 1`` of a seed's stream (uint64, (count,))."""
    numbers = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    return mix64(np.uint64(seed) + numbers * np.uint64(GOLDEN))


PRIME = 2**61 - 1


@lru_cache(maxsize=8)
def prime_coefficients(num_perm: int, seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Draw numbers a from 1 to p - 1, and b from 0, for p = 2^61 - 1: a, b, a, b and so on.

    Each is the upper 61 bits of a key; those out of range are skipped. Returns two arrays (uint64,
    shape (num_perm,) each), shared and so read-only.
    """
    drawn: list[int] = []
    position = 0
    while len(drawn) < 2 * num_perm:
        for key in (key_stream(seed, position, 2 * num_perm) >> np.uint64(3)).tolist():
            is_a = len(drawn) % 2 == 0
            if len(drawn) < 2 * num_perm and key < PRIME and not (is_a and key == 0):
                drawn.append(key)
        position += 2 * num_perm
    a, b = np.array(drawn[0::2], dtype=np.uint64), np.array(drawn[1::2], dtype=np.uint64)
    a.flags.writeable = b.flags.writeable = False
    return a, b


Floats: TypeAlias = "NDArray[np.float64]"


class Purpose(IntEnum):
    """The uses of random numbers; a part of the on-disk format."""

    PROJECTIONS = 1
    OFFSETS = 2
    FLIPS = 3
    COMPONENTS = 4
    CUTS = 5
    WEIGHTS = 6


def keys(seed: int, purpose: Purpose, first: int, count: int) -> NDArray[np.uint64]:
    """Return keys ``first`` to ``first + count - 1`` of a purpose (uint64, shape (count,)).

    Parameters
    ----------
    seed : int
        0 to 2^64 - 1.
    purpose : Purpose
    first, count : int
        At least 0; together at most 2^56.
    """
    return key_stream(seed, (int(purpose) << 56) + first, count)


def to_uniform(words: NDArray[np.uint64]) -> Floats:
    """Turn 64-bit numbers into doubles in (0, 1): their upper 52 bits and a half; any shape."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def uniform(seed: int, purpose: Purpose, first: int, count: int) -> Floats:
    """Draw numbers uniform in (0, 1); parameters as for :func:`keys`."""
    return to_uniform(keys(seed, purpose, first, count))


def signs(seed: int, purpose: Purpose, first: int, count: int) -> Floats:
    """Draw +1.0 and -1.0 with probability one half each; parameters as for :func:`keys`."""
    return 1.0 - 2.0 * (keys(seed, purpose, first, count) >> np.uint64(63)).astype(np.float64)


def cauchy(seed: int, purpose: Purpose, first: int, count: int) -> Floats:
    """Draw standard Cauchy numbers, up to 2^53 / pi in size; parameters as for :func:`keys`."""
    drawn = uniform(seed, purpose, first, count)
    drawn -= 0.5
    drawn *= np.pi
    return np.tan(drawn)


def gaussian(seed: int, purpose: Purpose, first: int, count: int) -> Floats:
    """Draw standard normal numbers, up to 8.6 in size; parameters as for :func:`keys`."""
    begin = first - first % 2
    drawn = uniform(seed, purpose, begin, first + count - begin + (first + count) % 2)
    radius = np.sqrt(-2.0 * np.log(drawn[0::2]))
    angle = 2.0 * np.pi * drawn[1::2]
    drawn[0::2] = radius * np.cos(angle)
    drawn[1::2] = radius * np.sin(angle)
    return drawn[first - begin :][:count]


def places(seed: int, purpose: Purpose, count: int, size: int) -> NDArray[np.int64]:
    """Draw places 0 to size - 1 uniformly: floor(u size) of uniforms (int64, shape (count,)).

    Parameters
    ----------
    seed, purpose
        As for :func:`keys`.
    count : int
    size : int
        1 to 2^20, so that no product rounds up to the size.
    """
    return (uniform(seed, purpose, 0, count) * size).astype(np.int64)
