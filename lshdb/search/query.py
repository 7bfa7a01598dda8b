"""A query -> the most similar documents: look up its buckets, check the candidates, rank them.

If the signature file is on another host, the search counts the buckets that a candidate shares
instead of the bands that agree; the two differ by chance collisions of 56-bit hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import SignaturesElsewhereError
from lshdb.search.verification import (
    band_levels,
    estimate,
    points_of,
    signed_anew,
)
from lshdb.signatures.banding import bucket_keys, compare_rows
from lshdb.signatures.family import Family, Point
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.snapshot import QuerySnapshot

__all__ = ["Hit", "Searcher"]

_CANDIDATES = 16_384
"""Candidates of a query compared at a time; bounds the memory for their rows."""
_CHECKED = 64
"""Texts of candidates held at a time, whatever memory they take."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found for a query.

    Attributes
    ----------
    key : str
    similarity : float
        For a distance metric, minus the distance.
    method : {"none", "signature", "exact"}
        How the similarity was found.
    distance : float or None
        The distance if the metric is one (``hamming``, ``l1``, ``l2``); else None.
    """

    key: str
    similarity: float
    method: str
    distance: float | None = field(default=None, compare=False)


class Searcher:
    """Answers queries from one snapshot.

    Parameters
    ----------
    snapshot : QuerySnapshot
    family : Family
    threshold : float
        Lowest level of an answer; does not apply to method ``none``.
    top : int or None
        Maximum number of answers per query.
    method : {"none", "signature", "exact"}

    Attributes
    ----------
    snapshot : QuerySnapshot
    """

    def __init__(
        self,
        snapshot: QuerySnapshot,
        family: Family,
        *,
        threshold: float,
        top: int | None,
        method: str,
    ) -> None:
        self.snapshot = snapshot
        self._params = family.params
        self._family = family
        self._threshold = threshold
        self._top = top
        self._method = method
        self._points = points_of(snapshot, family)

    def search(
        self,
        signatures: NDArray[np.uint32],
        points: Sequence[Point | None],
        *,
        keys: NDArray[np.int64] | None = None,
        leave_out: int | None = None,
    ) -> list[list[Hit]]:
        """Return the documents most similar to each query, best first; ties in order of key.

        Queries given together share their look-ups; the answers do not depend on it.

        Parameters
        ----------
        signatures : ndarray of uint32, shape (n, row_words)
            One row per query.
        points : sequence, length n
            The points of the queries; needed for method ``exact``.
        keys : ndarray of int64, shape (n, bands), optional
            Their bucket keys, if already computed.
        leave_out : int, optional
            doc_id of the document that asks, if it is in the index.
        """
        if keys is None:
            keys = bucket_keys(signatures, **self._params.cut)
        found = list(self._estimated(signatures, keys))
        documents = self.snapshot.documents_of_signatures(_all_candidates(found))
        if self._method == "exact":
            self._points.prepare(list(documents))
        answers = []
        is_distance = self._params.kind.is_distance
        for (candidates, estimates), query in zip(found, points, strict=True):
            estimated = zip(candidates.tolist(), estimates.tolist(), strict=True)
            # A signature whose documents were all replaced has postings but no document.
            there = [(one, level) for one, level in estimated if one in documents]
            hits = [
                Hit(key, level, self._method, 0.0 - level if is_distance else None)
                for one, level in self._checked(there, query)
                for doc_id, key, _ in documents[one]
                if doc_id != leave_out
            ]
            hits.sort(key=lambda hit: (-hit.similarity, hit.key))
            answers.append(hits if self._top is None else hits[: self._top])
        return answers

    def _estimated(
        self, signatures: NDArray[np.uint32], keys: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield for each query its promising candidates, with their levels by bands or slots."""
        for number, members in enumerate(self.snapshot.members_of(keys)):
            if not self.snapshot.has_signatures:
                candidates, shared = np.unique(members, return_counts=True)
                yield candidates, band_levels(shared, self._params)
                continue
            candidates = distinct(members)
            parts = [
                self._worth_it(signatures, number, candidates[start : start + _CANDIDATES])
                for start in range(0, len(candidates), _CANDIDATES)
            ] or [(candidates, np.empty(0))]
            yield np.concatenate([ids for ids, _ in parts]), np.concatenate([s for _, s in parts])

    def _worth_it(
        self, signatures: NDArray[np.uint32], number: int, candidates: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the promising ones of some candidates, with their levels by bands or slots."""
        params = self._params
        rows, places = self.snapshot.signatures.among(candidates)
        agreement = compare_rows(
            signatures,
            np.full(len(candidates), number),
            rows,
            places,
            **params.cut,
        )
        # A bucket shared only by a hash collision is not an agreement.
        keep = agreement.matched > 0
        estimates, suffices = estimate(
            agreement, params, method=self._method, threshold=self._threshold
        )
        keep &= suffices
        return candidates[keep], estimates[keep]

    def _checked(
        self, candidates: list[tuple[int, float]], query: Point | None
    ) -> Iterator[tuple[int, float]]:
        """Yield (signature, level by the wanted method) of the candidates that suffice."""
        if self._method != "exact" or query is None:
            yield from candidates
            return
        for start in range(0, len(candidates), _CHECKED):
            ids = [one for one, _ in candidates[start : start + _CHECKED]]
            found = self._points.get(ids)
            levels = self._family.levels([query] * len(ids), [found[one] for one in ids])
            for one, level in zip(ids, levels.tolist(), strict=True):
                if level >= self._threshold:
                    yield one, level

    def nothing(self) -> list[Hit]:
        """Return the answer to a query without elements."""
        return []

    def search_document(self, document: StoredDocument) -> list[Hit]:
        """Return the documents most similar to one in the index, without itself.

        Raises
        ------
        SignaturesElsewhereError
            Its signature is on another host, and there is no text to sign again.
        """
        number = document.signature_id
        if number is None:
            return []
        point = self._points.get([number])[number] if self._method == "exact" else None
        return self.search(self._row(number), [point], leave_out=document.doc_id)[0]

    def _row(self, signature_id: int) -> NDArray[np.uint32]:
        if self.snapshot.has_signatures:
            return self.snapshot.signatures[signature_id : signature_id + 1]
        if not self._params.keeps_texts:
            raise SignaturesElsewhereError(
                "a query by key needs the document's signature, which lies on the host that "
                "writes the index, or its text, and this index has none",
                hint="query by the text or vector itself, or run it on that host",
            )
        wanted = np.array([signature_id])
        return signed_anew(self.snapshot, self._family, wanted)


def _all_candidates(found: list[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> list[int]:
    """Return the candidates of all queries, sorted, each once."""
    every = [np.empty(0, dtype=np.int64), *(candidates for candidates, _ in found)]
    together: list[int] = distinct(np.concatenate(every)).tolist()
    return together
