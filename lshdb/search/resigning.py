"""Signature rows from stored texts, where the signature file lies on another host.

A row is what its text and the parameters make it. Where this interpreter knows another version of
Unicode than the one that signed, a text with characters that one of the two does not assign may get
another row; ``document.n_unassigned`` counts those.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.search.points import points_of
from lshdb.signatures.family import Family
from lshdb.storage.snapshot import Snapshot

__all__ = ["signed_anew"]

_TEXTS = 64
"""So many are shingled at a time, which bounds the memory."""


def signed_anew(
    snapshot: Snapshot, family: Family, signature_ids: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The rows of some signatures, from the texts of documents that have them.

    Parameters
    ----------
    snapshot : Snapshot
    family : Family
        Of an index with stored texts.
    signature_ids : ndarray of int64, shape (n,)
        Each of a document that is there.

    Returns
    -------
    ndarray of uint32, shape (n, row_words)
        Reading, shingling and signing each text: some 0.1 ms a KB.

    Raises
    ------
    DamageError
        A text is missing or cannot be decoded.
    """
    rows = [np.empty((0, family.params.row_words), dtype=np.uint32)]
    points = points_of(snapshot, family, most_bytes=0)
    for start in range(0, len(signature_ids), _TEXTS):
        some = signature_ids[start : start + _TEXTS].tolist()
        found = points.get(some)
        rows.append(family.sign([found[one] for one in some]))
    return np.concatenate(rows)
