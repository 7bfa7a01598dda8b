"""A query -> the most similar documents: look up its buckets, check the candidates, rank them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.banding import bucket_keys, matching_bands
from lshdb.params import IndexParams
from lshdb.search.verification import ShingleCache, band_similarity, exact_similarity, prefilter
from lshdb.shingling import Shingler
from lshdb.storage.snapshot import Snapshot

__all__ = ["Hit", "Searcher"]

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found for a query.

    Attributes
    ----------
    key : str
    similarity : float
    method : {"none", "signature", "exact"}
        What gave the similarity.
    """

    key: str
    similarity: float
    method: str


class Searcher:
    """Answers queries from one snapshot.

    Parameters
    ----------
    snapshot : Snapshot
    params : IndexParams
    shingler : Shingler
        Of the same parameters.
    threshold : float
        Lowest similarity of an answer; does not apply to method ``none``.
    top : int or None
        Most answers a query.
    method : {"none", "signature", "exact"}
    """

    def __init__(
        self,
        snapshot: Snapshot,
        params: IndexParams,
        shingler: Shingler,
        *,
        threshold: float,
        top: int | None,
        method: str,
    ) -> None:
        self._snapshot = snapshot
        self._params = params
        self._threshold = threshold
        self._top = top
        self._method = method
        self._cache = ShingleCache(snapshot, params, shingler)

    def search(
        self,
        signature: NDArray[np.uint32],
        shingles: NDArray[np.uint64] | None,
        *,
        leave_out: int | None = None,
    ) -> list[Hit]:
        """The most similar documents, best first; equal similarities in order of key.

        Parameters
        ----------
        signature : ndarray of uint32, shape (num_perm,)
        shingles : ndarray of uint64 or None
            Sorted shingle hashes of the query; needed for method ``exact``.
        leave_out : int, optional
            doc_id of the document that asks, where it is one of the index.
        """
        params = self._params
        keys = bucket_keys(signature[None, :], bands=params.bands, rows=params.rows)[0]
        _, postings = self._snapshot.postings(keys)
        candidates = distinct(postings)
        hits: list[Hit] = []
        for start in range(0, len(candidates), _CHUNK):
            part, estimates = self._estimate(signature, candidates[start : start + _CHUNK])
            documents = self._snapshot.documents_of_signatures(part.tolist())
            for one, estimate in zip(part.tolist(), estimates.tolist(), strict=True):
                if one not in documents:
                    continue
                similarity = self._check(one, estimate, shingles)
                if similarity is not None:
                    hits += [
                        Hit(key, similarity, self._method)
                        for doc_id, key, _ in documents[one]
                        if doc_id != leave_out
                    ]
        hits.sort(key=lambda hit: (-hit.similarity, hit.key))
        return hits if self._top is None else hits[: self._top]

    def _estimate(
        self, signature: NDArray[np.uint32], candidates: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Candidates that are worth a further look, with what bands or slots say of them."""
        params = self._params
        rows, query = self._snapshot.signatures[candidates], signature[None, :]
        agree = matching_bands(rows, query, bands=params.bands, rows=params.rows)
        # Sharing a bucket by the chance of its hash alone is no agreement.
        keep = agree.any(axis=1)
        if self._method == "none":
            estimates = band_similarity(agree.sum(axis=1), params)
        else:
            estimates = (rows == query).mean(axis=1)
            exact = self._method == "exact"
            lowest = prefilter(self._threshold, params.num_perm) if exact else self._threshold
            keep &= estimates >= lowest
        return candidates[keep], estimates[keep]

    def _check(
        self, candidate: int, estimate: float, shingles: NDArray[np.uint64] | None
    ) -> float | None:
        """The similarity by the method asked for; None where it does not suffice."""
        if self._method != "exact" or shingles is None:
            return estimate
        similarity = exact_similarity(shingles, self._cache.get([candidate])[candidate])
        return similarity if similarity >= self._threshold else None

    def search_stored(self, signature_id: int, *, leave_out: int) -> list[Hit]:
        """The documents most similar to one of the index, itself left out."""
        shingles = (
            self._cache.get([signature_id])[signature_id] if self._method == "exact" else None
        )
        return self.search(self._snapshot.signatures[signature_id], shingles, leave_out=leave_out)
