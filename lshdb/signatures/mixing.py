"""The one 64-bit mixer from which every derived hash is made, and the stream of keys from a seed.

``mix64`` is the output function of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014, with the constants of Stafford's variant 13): a bijection of 64-bit
numbers in which each input bit flips each output bit with probability near one half.

A seed becomes a stream of keys as SplitMix64 does it: key number i is
``mix64(seed + (i + 1) * 0x9E3779B97F4A7C15)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["GOLDEN", "key_stream", "mix64"]

GOLDEN = 0x9E3779B97F4A7C15

_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix each 64-bit number; element-wise, any shape, a new array."""
    mixed = values ^ (values >> _30)
    mixed *= _A
    mixed ^= mixed >> _27
    mixed *= _B
    mixed ^= mixed >> _31
    return mixed


def key_stream(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """Keys ``first`` to ``first + count - 1`` of the stream of a seed (uint64, (count,))."""
    numbers = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    return mix64(np.uint64(seed) + numbers * np.uint64(GOLDEN))
