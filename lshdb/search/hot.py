"""Which buckets are too large: asked for single ones, by their keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.banding import bucket_keys, matching_bands
from lshdb.params import IndexParams
from lshdb.storage.snapshot import Snapshot

__all__ = ["HotBuckets"]

_REMEMBERED = 500_000

Ids = NDArray[np.int64]


class HotBuckets:
    """The buckets with more than ``most`` signatures that a document has.

    Parameters
    ----------
    snapshot : Snapshot
    params : IndexParams
    most : int
    """

    def __init__(self, snapshot: Snapshot, params: IndexParams, most: int) -> None:
        self._snapshot = snapshot
        self._params = params
        self._most = most
        self._dead = snapshot.edges.dead()
        self._known: dict[int, bool] = {}

    def are_all_before(
        self, left: NDArray[np.uint32], right: NDArray[np.uint32], bands: Ids
    ) -> NDArray[np.bool_]:
        """Which pairs agree in a band, and in no band before it whose bucket is not too large.

        Parameters
        ----------
        left, right : ndarray of uint32, shape (n, row_words)
            Their signatures.
        bands : ndarray of int64, shape (n,)
            The band of each.

        Returns
        -------
        ndarray of bool, shape (n,)
            One look-up for each bucket that is met for the first time.
        """
        agree = matching_bands(left, right, **self._params.cut)
        before = agree & (np.arange(self._params.bands) < bands[:, None])
        keys = bucket_keys(left, **self._params.cut)
        is_hot = np.zeros_like(before)
        is_hot[before] = self._are(keys[before])
        result: NDArray[np.bool_] = (is_hot == before).all(axis=1)
        result &= agree[np.arange(len(bands)), bands]
        return result

    def _are(self, keys: Ids) -> NDArray[np.bool_]:
        asked = [key for key in distinct(keys).tolist() if key not in self._known]
        if asked:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
                asked = distinct(keys).tolist()
            self._look_up(np.array(asked, dtype=np.int64))
        return np.array([self._known[key] for key in keys.tolist()], dtype=bool)

    def _look_up(self, keys: Ids) -> None:
        found, members = self._snapshot.postings.of(keys)
        found = found[~np.isin(members, self._dead)]
        there, sizes = np.unique(found, return_counts=True)
        self._known.update(dict.fromkeys(keys.tolist(), False))
        self._known.update(zip(there.tolist(), (sizes > self._most).tolist(), strict=True))
