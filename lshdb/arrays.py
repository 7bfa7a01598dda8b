"""The one array step that several rooms share."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct"]

_Integer = TypeVar("_Integer", np.uint64, np.int64)


def distinct(values: NDArray[_Integer]) -> NDArray[_Integer]:
    """Sort, each value once: ``np.unique`` without its import of ``numpy.ma``, 20 ms."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    first = np.empty(len(ordered), dtype=bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
