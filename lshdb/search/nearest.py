"""A query -> its nearest documents: bucket by bucket, until one as near would have been found.

The query's own buckets are looked into first, then those next to them, the likeliest first
(``probing.py``). Candidates are compared in order of equal slots and, where originals are stored,
exactly. What is known then is the level of the worst answer that is still wanted; the search goes
on until the probability that a document of that level would have been met by now reaches the recall
asked for. The truly nearest are at least as similar as that, so each of them is found with that
probability, over the random choice of the hash functions: of the neighbourhood of the query nothing
has to be known beforehand.

The probe rule of the c-approximate r-range query (Indyk, Motwani, STOC 1998; Datar and others,
SoCG 2004) is the other way to end: after so many candidates were compared, far ones included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.banding import compare_rows
from lshdb.search.candidates import contains
from lshdb.search.points import points_of
from lshdb.search.probing import Probes
from lshdb.search.query import Hit
from lshdb.search.verification import least_share
from lshdb.signatures.family import Family, Point
from lshdb.storage.snapshot import Snapshot

__all__ = ["Answer", "NearestSearch"]

_FIRST_CHECKED, _MOST_CHECKED = 64, 1024
"""Candidates whose originals are read together: few at first, which tell what is near."""
_MORE = 2.0
"""By so much the number of buckets grows before what was found is looked at again."""

Ids = NDArray[np.int64]


class Answer(list[Hit]):
    """The hits of a query, best first, and how they were found.

    Attributes
    ----------
    buckets : int
        Buckets that were looked into.
    checked : int
        Candidates that were compared by their signatures.
    left : int
        Candidates that were met and not compared, because of the probe limit.
    recall : float or None
        Probability with which a document exactly as similar as the last hit was to be found; one
        that is more similar is found more likely; where there are fewer hits than were asked for,
        one at the threshold. None where there are fewer and no threshold, and where the probe limit
        left candidates out, which may be as similar.
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        *,
        buckets: int = 0,
        checked: int = 0,
        left: int = 0,
        recall: float | None = None,
    ) -> None:
        super().__init__(hits)
        self.buckets, self.checked, self.left = buckets, checked, left
        self.recall = recall


@dataclass(slots=True)
class _Found:
    """What one query has found so far."""

    hits: list[Hit]
    leave_out: int | None
    checked: int = 0
    left: int = 0


class NearestSearch:
    """Nearest documents from one snapshot.

    Parameters
    ----------
    snapshot : Snapshot
        With its signature file.
    family : Family
    top : int or None
        Most answers; with None the threshold decides.
    threshold : float or None
        Lowest level of an answer; None for any.
    recall : float or None
        Go on until a document as similar as the worst wanted answer is found so likely; None for
        the query's own buckets alone.
    limit : int or None
        Most candidates that are compared.
    method : {"signature", "exact"}
    """

    def __init__(
        self,
        snapshot: Snapshot,
        family: Family,
        *,
        top: int | None,
        threshold: float | None,
        recall: float | None,
        limit: int | None,
        method: str,
    ) -> None:
        self._snapshot = snapshot
        self._family = family
        self._params = family.params
        self._top = top
        self._threshold = -math.inf if threshold is None else threshold
        self._recall = recall
        self._limit = limit
        self._method = method
        self._points = points_of(snapshot, family)
        self._dead = snapshot.edges.dead()

    def search(self, signatures: NDArray[np.uint32], points: Sequence[Point]) -> list[list[Hit]]:
        """The nearest documents of each query.

        Parameters
        ----------
        signatures : ndarray of uint32, shape (n, row_words)
        points : sequence, length n
        """
        rows = (signatures[number : number + 1] for number in range(len(points)))
        return [self.near(row, point) for row, point in zip(rows, points, strict=True)]

    def near(
        self, row: NDArray[np.uint32], point: Point | None, *, leave_out: int | None = None
    ) -> Answer:
        """The nearest documents of one query.

        Parameters
        ----------
        row : ndarray of uint32, shape (1, row_words)
        point : Point or None
            The query itself; without it nothing is known of the buckets next to its own.
        leave_out : int, optional
            doc_id of the document that asks, where it is one of the index.
        """
        probes = Probes(self._family, row, point, max(self._params.level, self._threshold))
        found = _Found([], leave_out)
        met = np.empty(0, dtype=np.int64)
        done, wanted = 0, self._params.bands
        while done < wanted and not found.left:
            keys = probes.keys(done, wanted)
            candidates = distinct(self._snapshot.postings.members(np.sort(keys)))
            # A signature whose documents were all replaced has postings but no document.
            known = contains(met, candidates) | contains(self._dead, candidates)
            fresh = candidates[~known]
            met = distinct(np.concatenate([met, fresh]))
            self._check(found, row, point, fresh)
            done, wanted = wanted, self._next(probes, wanted, found)
        worst = self._worst(found)
        is_known = worst > -math.inf and not found.left
        recall = probes.recall(worst, [done])[0] if is_known else None
        return Answer(
            found.hits, buckets=done, checked=found.checked, left=found.left, recall=recall
        )

    def search_key(self, key: str) -> Answer:
        """The nearest documents of one of the index, which is left out itself.

        Raises
        ------
        KeyNotFoundError
        """
        document = self._snapshot.document(key)
        number = document.signature_id
        if number is None:
            return Answer()
        row = self._snapshot.signatures[number : number + 1]
        is_stored = self._params.store_text
        point = self._points.get([number])[number] if is_stored else None
        return self.near(row, point, leave_out=document.doc_id)

    def _next(self, probes: Probes, done: int, found: _Found) -> int:
        """How many buckets are to be looked into before what is found is looked at again."""
        if self._recall is None or done >= probes.n:
            return done
        worst, most = self._worst(found), min(probes.n, math.ceil(done * _MORE))
        if worst == -math.inf:
            return most
        counts = [*range(done, most, max(1, (most - done) // 8)), most]
        recalls = probes.recall(worst, counts)
        reached = [n for n, recall in zip(counts, recalls, strict=True) if recall >= self._recall]
        return reached[0] if reached else most

    def _worst(self, found: _Found) -> float:
        """The level that an answer has to have to be wanted still."""
        if self._top is None or len(found.hits) < self._top:
            return self._threshold
        return found.hits[-1].similarity

    def _check(
        self,
        found: _Found,
        row: NDArray[np.uint32],
        point: Point | None,
        candidates: Ids,
    ) -> None:
        """Compare candidates, the most promising first, and take those that belong to it."""
        if self._limit is not None and found.checked + len(candidates) > self._limit:
            found.left = found.checked + len(candidates) - self._limit
            candidates = candidates[: self._limit - found.checked]
        found.checked += len(candidates)
        if not len(candidates):
            return
        rows, places = self._snapshot.signatures.among(candidates)
        agreement = compare_rows(
            row, np.zeros(len(places), dtype=np.int64), rows, places, **self._params.cut
        )
        order = np.argsort(-agreement.equal, kind="stable")
        shares = agreement.equal[order] / self._params.num_perm
        candidates = candidates[order]
        start, size = 0, _FIRST_CHECKED
        while start < len(candidates):
            worst = self._worst(found)
            if worst > -math.inf:
                least = least_share(self._params, self._method, worst)
                candidates = candidates[: np.searchsorted(-shares, -least, side="right")]
            part = slice(start, start + size)
            self._take(found, point, candidates[part], shares[part][: len(candidates[part])])
            start, size = part.stop, min(2 * size, _MOST_CHECKED)

    def _take(
        self, found: _Found, point: Point | None, candidates: Ids, shares: NDArray[np.float64]
    ) -> None:
        """Take those of some candidates that are among the nearest now."""
        ids = candidates.tolist()
        if not ids:
            return
        if self._method == "exact":
            points = self._points.get(ids)
            levels = self._family.levels([point] * len(ids), [points[one] for one in ids])
        else:
            levels = self._params.curve.levels(shares)
        good = np.flatnonzero(levels >= self._worst(found))
        documents = self._snapshot.documents_of_signatures(candidates[good].tolist())
        hits = found.hits + [
            Hit(key, float(levels[place]), self._method)
            for place in good.tolist()
            for doc_id, key, _ in documents[ids[place]]
            if doc_id != found.leave_out
        ]
        hits.sort(key=lambda hit: (-hit.similarity, hit.key))
        found.hits = hits[: self._top]
