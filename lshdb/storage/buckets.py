"""Buckets as they are read: their keys, their sizes, and the signatures in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Buckets", "grouped"]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Some buckets and what is in them.

    Attributes
    ----------
    keys, sizes : ndarray of int64, shape (n,)
        Bucket key and number of postings of each.
    members : ndarray of int64, shape (sum(sizes),)
        Signature ids, one bucket after the other.
    """

    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]
    members: NDArray[np.int64]

    def chosen(self, places: NDArray[np.int64]) -> Buckets:
        """Some of them, by their places, in order."""
        wanted = np.zeros(len(self.keys), dtype=bool)
        wanted[places] = True
        members = self.members[np.repeat(wanted, self.sizes)]
        return Buckets(self.keys[wanted], self.sizes[wanted], members)


def grouped(postings: NDArray[np.int64]) -> Buckets:
    """Buckets of (bucket key, signature id) in order."""
    keys, members = np.ascontiguousarray(postings.T)
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    return Buckets(keys[starts], np.diff(starts, append=len(keys)), members)
