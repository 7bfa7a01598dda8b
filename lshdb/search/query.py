"""A query -> the most similar documents: look up its buckets, check the candidates, rank them.

Without the signature file, which may lie on another host, the buckets that a candidate lies in are
counted in place of the bands that agree; the two differ by chance collisions of 56-bit hashes.

Many queries by their bodies: signed in threads, looked up together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.documents import Document
from lshdb.errors import InputError, LshdbError, SignaturesElsewhereError
from lshdb.search.points import points_of
from lshdb.search.verification import band_levels, estimate, signed_anew
from lshdb.signatures.banding import bucket_keys, compare_rows
from lshdb.signatures.family import Family, Point
from lshdb.storage.transactions.diagnosis import callers_items
from lshdb.storage.transactions.query_answer import QuerySnapshot
from lshdb.threads import in_chunks, work_ahead
from lshdb.tokenizers import UnsplitTextError

if TYPE_CHECKING:
    from lshdb.search.nearest import NearestSearch

__all__ = ["Hit", "QueryMaker", "Searcher", "search_documents"]


_CANDIDATES = 16_384
"""So many candidates of a query are compared at a time, which bounds the memory for their rows."""
_CHECKED = 64
"""So many texts of candidates are held at a time, whatever memory they take."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found for a query.

    Attributes
    ----------
    key : str
    similarity : float
        Minus the distance where the metric is one.
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
    snapshot : QuerySnapshot
    family : Family
    threshold : float
        Lowest level of an answer; does not apply to method ``none``.
    top : int or None
        Most answers a query.
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
        """The documents most similar to each query, best first; ties in order of key.

        Queries given together share their look-ups; the answers do not depend on it.

        Parameters
        ----------
        signatures : ndarray of uint32, shape (n, row_words)
            One row a query.
        points : sequence, length n
            What is compared of each query; needed for method ``exact``.
        keys : ndarray of int64, shape (n, bands), optional
            Their bucket keys, where they have been worked out.
        leave_out : int, optional
            doc_id of the document that asks, where it is one of the index.
        """
        if keys is None:
            keys = bucket_keys(signatures, **self._params.cut)
        found = list(self._estimated(signatures, keys))
        documents = self.snapshot.documents_of_signatures(_all_candidates(found))
        if self._method == "exact":
            self._points.prepare(list(documents))
        answers = []
        for (candidates, estimates), query in zip(found, points, strict=True):
            estimated = zip(candidates.tolist(), estimates.tolist(), strict=True)
            # A signature whose documents were all replaced has postings but no document.
            there = [(one, level) for one, level in estimated if one in documents]
            hits = [
                Hit(key, level, self._method)
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
        """For each query the candidates worth a further look, with what bands or slots say."""
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
        """Of some candidates those worth a further look, with what bands or slots say."""
        params = self._params
        rows, places = self.snapshot.signatures.among(candidates)
        agreement = compare_rows(
            signatures,
            np.full(len(candidates), number),
            rows,
            places,
            **params.cut,
        )
        # Sharing a bucket by the chance of its hash alone is no agreement.
        keep = agreement.matched > 0
        estimates, suffices = estimate(
            agreement, params, method=self._method, threshold=self._threshold
        )
        keep &= suffices
        return candidates[keep], estimates[keep]

    def _checked(
        self, candidates: list[tuple[int, float]], query: Point | None
    ) -> Iterator[tuple[int, float]]:
        """(signature, level by the method asked for) of the candidates that suffice."""
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

    def search_stored(self, signature_id: int, *, leave_out: int) -> list[Hit]:
        """The documents most similar to one of the index, itself left out.

        Raises
        ------
        SignaturesElsewhereError
            Its signature lies on another host, and there is no text to sign anew.
        """
        point = self._points.get([signature_id])[signature_id] if self._method == "exact" else None
        return self.search(self._row(signature_id), [point], leave_out=leave_out)[0]

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
    """The candidates of all queries, sorted, each once."""
    every = [np.empty(0, dtype=np.int64), *(candidates for candidates, _ in found)]
    together: list[int] = distinct(np.concatenate(every)).tolist()
    return together


_QUERIES_A_CHUNK = 64


class QueryMaker:
    """Bodies -> what a searcher asks with; knows nothing of storage, and may run in threads."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def points(self, bodies: Sequence[Any]) -> list[Point]:
        """What is compared of each body.

        Raises
        ------
        InputError
            A body could be no document's.
        """
        return self._family.points(self._contents(bodies))

    def points_or_errors(self, bodies: Sequence[Any]) -> list[Point | LshdbError]:
        """The same, with the error of a body in the place of its point."""
        try:
            return list(self.points(bodies))
        except LshdbError as error:
            if len(bodies) == 1:
                return [error]
            return [found for body in bodies for found in self.points_or_errors([body])]

    def size(self, point: Point) -> int:
        """Elements of a point; of 0 nothing is similar."""
        return self._family.size(point)

    def similarity(self, left: Any, right: Any) -> float:
        """Exact level of two bodies; for sets 0 where neither has an element."""
        return self._family.compare(*self._contents([left, right]))

    def signatures(self, points: Sequence[Point]) -> NDArray[np.uint32]:
        """One row for each point, none of them empty."""
        return self._family.sign(points)

    def _contents(self, bodies: Sequence[Any]) -> list[Any]:
        for body in bodies:
            reason = self._family.refusal(body)
            if reason is not None:
                raise InputError(f"the query cannot be used: {reason}")
        return self._family.contents(bodies)


def search_documents(
    searcher: Searcher | NearestSearch,
    maker: QueryMaker,
    documents: Iterable[Document],
    *,
    workers: int,
) -> Iterator[tuple[str, list[Hit]]]:
    """(query key, answer) for each document, in order.

    With one worker each document is answered before the next one is taken, as a pipe wants it;
    with more, documents are taken and signed ahead, some at a time. The answers are the same, and
    an error, which names the query, comes after those before it.
    """

    def work(chunk: list[Document]) -> tuple[list[str], list[Point | LshdbError]]:
        keys = [document.key for document in chunk]
        return keys, maker.points_or_errors([document.body for document in chunk])

    chunks = in_chunks(callers_items(documents), 1 if workers == 1 else _QUERIES_A_CHUNK)
    for keys, points in work_ahead(work, chunks, workers=workers):
        filled = [one for one in points if not isinstance(one, LshdbError) and maker.size(one)]
        found = iter(searcher.search(maker.signatures(filled), filled) if filled else [])
        for key, each in zip(keys, points, strict=True):
            if isinstance(each, LshdbError):
                if key and isinstance(each, InputError | UnsplitTextError):
                    each.message = f"query {key!r}: {each.message}"
                    each.args = (each.message,)
                raise each
            yield key, next(found) if maker.size(each) else []
