"""Signature rows from stored texts, where the signature file lies on another host.

A row is what its text and the parameters make it. Where this interpreter knows another version of
Unicode than the one that signed, a text with characters that one of the two does not assign may get
another row; ``document.n_unassigned`` counts those.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.params import IndexParams
from lshdb.search.verification import ShingleCache
from lshdb.shingling import Shingler
from lshdb.signatures import sign
from lshdb.storage.snapshot import Snapshot

__all__ = ["signed_anew"]

_TEXTS = 64
"""So many are shingled at a time, which bounds the memory."""


def signed_anew(
    snapshot: Snapshot, params: IndexParams, shingler: Shingler, signature_ids: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The rows of some signatures, from the texts of documents that have them.

    Parameters
    ----------
    snapshot : Snapshot
    params : IndexParams
        With stored texts.
    shingler : Shingler
        Of the same parameters.
    signature_ids : ndarray of int64, shape (n,)
        Each of a document that is there.

    Returns
    -------
    ndarray of uint32, shape (n, num_perm)
        Reading, shingling and signing each text: some 0.1 ms a KB.

    Raises
    ------
    DamageError
        A text is missing or cannot be decoded.
    """
    rows = [np.empty((0, params.num_perm), dtype=np.uint32)]
    cache = ShingleCache(snapshot, params, shingler, most_bytes=0)
    for start in range(0, len(signature_ids), _TEXTS):
        some = signature_ids[start : start + _TEXTS].tolist()
        shingles = cache.get(some)
        rows.append(
            sign(
                [shingles[one] for one in some],
                scheme=params.scheme, num_perm=params.num_perm, seed=params.seed,
            )
        )  # fmt: skip
    return np.concatenate(rows)
