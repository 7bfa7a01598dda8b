"""The upper tail of the normal distribution, for arrays: NumPy has none of its own."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["upper_tail"]

Floats = NDArray[np.float64]

_STEPS = 1024
"""Places of the table between two whole numbers."""
_END = 10
"""From here on the tail is taken to be 7.6e-24, what it is here."""


@cache
def _table() -> tuple[Floats, Floats]:
    places = np.arange(_END * _STEPS + 1) / _STEPS
    tails = np.array([math.erfc(x / math.sqrt(2.0)) / 2.0 for x in places.tolist()])
    return tails, np.exp(-places * places / 2.0) / math.sqrt(2.0 * math.pi)


def upper_tail(x: Floats) -> Floats:
    """Probability that a standard normal number is larger than each x >= 0.

    By the first three terms of the Taylor series about the nearest of 1024 places a unit, where
    ``math.erfc`` gives the value. The rest is below x^2 / (6 2048^3) of it: measured, the error is
    at most 8e-12, and 3e-9 of the value up to x = 5, 2e-8 up to 10.
    """
    tails, densities = _table()
    near = np.minimum(x, float(_END))
    place = (near * _STEPS + 0.5).astype(np.int64)
    middle = place / _STEPS
    near -= middle
    middle *= near
    middle *= 0.5
    middle -= 1.0
    middle *= near
    middle *= densities[place]
    middle += tails[place]
    return middle
