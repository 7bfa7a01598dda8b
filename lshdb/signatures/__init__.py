"""Shingle hashes -> signature rows: one file per family. Pure: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures import fss, universal

__all__ = ["SCHEMES", "sign"]

SCHEMES = {"fss": fss.sketch, "universal": universal.sketch}
"""Min-hash schemes by name; the first is the default."""

_BLOCK_ELEMENTS = 1 << 18
_BLOCK_SETS = 1024


def sign(
    sets: Sequence[NDArray[np.uint64]], *, scheme: str, num_perm: int, seed: int
) -> NDArray[np.uint32]:
    """Sign sets of shingle hashes.

    Parameters
    ----------
    sets : sequence of ndarray of uint64
        One array a document, none empty. Order and repeats within one make no difference.
    scheme : {"fss", "universal"}
    num_perm : int
        Slots of a signature.
    seed : int
        0 to 2^64 - 1.

    Returns
    -------
    ndarray of uint32, shape (len(sets), num_perm)
        Row i is the signature of sets[i]; it does not depend on the other sets.
    """
    sketch = SCHEMES[scheme]
    rows = np.empty((len(sets), num_perm), dtype=np.uint32)
    start = 0
    while start < len(sets):
        end, elements = start, 0
        while end < len(sets) and end - start < _BLOCK_SETS and elements < _BLOCK_ELEMENTS:
            elements += len(sets[end])
            end += 1
        block = sets[start:end]
        lengths = np.array([len(hashes) for hashes in block], dtype=np.int64)
        rows[start:end] = sketch(np.concatenate(block), lengths, num_perm=num_perm, seed=seed)
        start = end
    return rows
