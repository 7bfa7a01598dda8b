"""A query -> its nearest documents: by all signatures, or bucket by bucket.

Candidates are compared in order of equal slots and, if originals are stored, exactly. That gives
the level of the worst answer still wanted. The search goes on until a document of that level would
have been met with the wanted recall. The truly nearest are at least as similar, so each of them is
found with that probability, over the random choice of the hash functions: nothing need be known
about the query's neighbourhood beforehand.

There are two ways on, and both keep that promise.

Bucket by bucket (``probes.py``): the query's own buckets first, then those next to them, the
likeliest first. The probability that these buckets hold a document is known.

By all signatures (``row_counts.py``, ``signatures/scan.py``): the rows with the most equal slots
first, down to the number that a document at the level of the worst answer has with the wanted
probability. That number only rises as better answers come, and never beyond the one of the truly
worst wanted, so the promise needs no further argument. Where only signatures are compared, nothing
is lost at all.

The choice depends on nothing but the index and what was found, so a question has one answer:

* The own buckets do for an index that was made for what is asked: if they hold a document at its
  threshold with the wanted recall, they come first. Otherwise, if the rows may be held in memory
  (64 MiB), all signatures are compared at once.
* If the buckets looked into are not enough, all signatures are compared as soon as that takes less
  time than the buckets that are still needed. Both times are estimated: of the signatures from
  their bytes, of the buckets from the candidates that a bucket has had.

The search can also end by the probe rule of the c-approximate r-range query (Indyk, Motwani, STOC
1998; Datar and others, SoCG 2004): after a number of compared candidates, far ones included. Then
only buckets are looked into.

Texts are costly to compare, and signatures say little of texts that share little. So only the 1,024
texts with the most equal slots are compared because of their slots. Where that cannot give the
recall, or fewer answers are found than asked for, all texts are compared (``all_texts.py``): a
query to which nothing is similar takes as long as with the recall 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.params.bands import candidate_probability
from lshdb.search.all_texts import AllTextsSearch, has_texts
from lshdb.search.candidates import contains
from lshdb.search.probes import Probes
from lshdb.search.row_counts import RowCounts
from lshdb.search.verification import Hit, Hits, NearestHits, least_share, points_of
from lshdb.signatures.banding import compare_rows
from lshdb.signatures.family import Family, Point
from lshdb.signatures.scan import least_equal, probability_of, rank_counts
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.index_state import IndexState

__all__ = ["NearestSearch"]

Ids = NDArray[np.int64]

_FIRST_CHECKED, _MOST_CHECKED = 64, 1024
"""Candidates whose originals are read together: at first few, which show what is near."""
_MORE = 2.0
"""Factor by which the number of buckets grows before the answers are checked again."""
_BUCKET_SECONDS, _CANDIDATE_SECONDS = 20e-6, 1.5e-6
"""Looking into a bucket, and comparing a candidate of it; on one core, files in the cache."""
_FIRST_RANKED, _MORE_RANKED = 4096, 16
"""Rows that are ranked at first, and the factor by which more are."""
_MOST_TEXTS = 1024
"""Texts that are compared because of their signatures alone."""


@dataclass(slots=True)
class _Best:
    """The best hits of one query so far."""

    hits: list[Hit]
    leave_out: int | None
    checked: int = 0
    left: int = 0


@dataclass(slots=True)
class _Search:
    """One query on its way.

    Attributes
    ----------
    met : ndarray of int64
        Signatures that buckets held, sorted.
    buckets : int
        Buckets that were looked into.
    needs_all : bool
        Whether all signatures are to be compared.
    reached : float
        Probability of having met a document at the worst level that is wanted, or a lower bound; 0
        if nothing is known.
    """

    row: NDArray[np.uint16]
    point: Point | None
    best: _Best
    met: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    buckets: int = 0
    needs_all: bool = False
    reached: float = 0.0


class NearestSearch:
    """Finds nearest documents in one snapshot.

    Parameters
    ----------
    snapshot : IndexState
        With its signature file.
    family : Family
    top : int or None
        Most answers; None to let the threshold decide.
    threshold : float or None
        Lowest level of an answer; None for any.
    below : float or None
        Level that answers stay below; None for any.
    recall : float or None
        Go on until a document as similar as the worst wanted answer is found with this
        probability; None to use only the query's own buckets.
    limit : int or None
        Most candidates to compare.
    method : {"signature", "exact"}
    workers : int
        Threads that compare all signatures.
    """

    def __init__(
        self,
        snapshot: IndexState,
        family: Family,
        *,
        top: int | None,
        threshold: float | None,
        below: float | None,
        recall: float | None,
        limit: int | None,
        method: str,
        workers: int = 1,
    ) -> None:
        self._snapshot = snapshot
        self._family = family
        self._params = family.params
        self._top = top
        self._asked_threshold, self._asked_below = threshold, below
        self._threshold = -math.inf if threshold is None else threshold
        self._below = math.inf if below is None else below
        self._recall = recall
        self._limit = limit
        self._method = method
        self._points = points_of(snapshot, family)
        self._dead = snapshot.edges.dead()
        self._counts = RowCounts(snapshot, family.params, workers=workers)
        self._scans_first = self._is_scan_first()
        self._n_slots = family.params.num_perm
        # Sets with no equal slot have nothing to do with each other.
        is_set = not self._params.kind.is_dense
        self._least_slots = 1 if is_set else 0
        is_exact_text = method == "exact" and not self._params.keeps_vectors
        self._most_exact = _MOST_TEXTS if is_exact_text else None
        self._knows_all_levels = not is_exact_text
        """Whether signatures alone show whatever is similar at all."""
        self._workers = workers
        compares_texts = is_exact_text and limit is None and has_texts(self._params)
        self._least_recall = recall if compares_texts and recall is not None else 0.0
        """Where less is reached, all texts are compared."""
        self._all_texts: AllTextsSearch | None = None

    def search(
        self, signatures: NDArray[np.uint16], points: Sequence[Point | None]
    ) -> Sequence[Hits]:
        """Return the nearest documents of each query.

        Parameters
        ----------
        signatures : ndarray of uint16, shape (n, row_words)
        points : sequence, length n
        """
        rows = (signatures[number : number + 1] for number in range(len(points)))
        return self._finish(
            [self._begin(row, point, None) for row, point in zip(rows, points, strict=True)]
        )

    def _is_scan_first(self) -> bool:
        """Return whether to compare all signatures before any bucket is looked into."""
        if self._recall is None or self._limit is not None or not self._counts.is_small:
            return False
        params = self._params
        equal = params.curve.probability(max(params.level, self._threshold))
        return candidate_probability(equal, params.bands, params.rows) < self._recall

    def near(
        self, row: NDArray[np.uint16], point: Point | None, *, leave_out: int | None = None
    ) -> NearestHits:
        """Return the nearest documents of one query.

        Parameters
        ----------
        row : ndarray of uint16, shape (1, row_words)
        point : Point or None
            The query itself; without it nothing is known about the buckets next to its own.
        leave_out : int, optional
            doc_id of the document that asks, if it is in the index.
        """
        return self._finish([self._begin(row, point, leave_out)])[0]

    def _begin(
        self, row: NDArray[np.uint16], point: Point | None, leave_out: int | None
    ) -> _Search:
        """Look into buckets, unless comparing all signatures comes first, until it is better."""
        best = _Best([], leave_out)
        search = _Search(row, point, best)
        if self._scans_first:
            search.needs_all = True
            return search
        probes = Probes(self._family, row, point, max(self._params.level, self._threshold))
        n_next = self._params.bands
        while search.buckets < n_next and not best.left and not search.needs_all:
            keys = probes.keys(search.buckets, n_next)
            candidates = distinct(self._snapshot.postings.members(np.sort(keys)))
            # A signature whose documents were all replaced has postings but no document.
            is_known = contains(search.met, candidates) | contains(self._dead, candidates)
            fresh = candidates[~is_known]
            search.met = distinct(np.concatenate([search.met, fresh]))
            self._check(best, row, point, fresh)
            n_buckets, n_next = n_next, self._next(probes, n_next, best)
            search.buckets = n_buckets
            search.needs_all = self._is_scan_better(probes, n_buckets, n_next, best)
        worst = self._worst(best)
        if worst > -math.inf:
            search.reached = probes.recall(worst, [search.buckets])[0]
        return search

    def _finish(self, searches: list[_Search]) -> list[NearestHits]:
        """Compare all signatures with the queries that need it, and make the answers."""
        open_ones = [search for search in searches if search.needs_all]
        for start in range(0, len(open_ones), self._counts.most_queries):
            part = open_ones[start : start + self._counts.most_queries]
            counts = self._counts.of(np.concatenate([search.row for search in part]))
            for search, line in zip(part, counts, strict=True):
                search.reached = max(search.reached, self._take_best(search, line))
        answers = [self._answer(search) for search in searches]
        unproved = [n for n, search in enumerate(searches) if search.reached < self._least_recall]
        compared = self._among_all_texts([searches[n] for n in unproved]) if unproved else []
        for n, answer in zip(unproved, compared, strict=True):
            answers[n] = answer
        return answers

    def _answer(self, search: _Search) -> NearestHits:
        """Make the answer of a search."""
        best = search.best
        is_known = search.reached > 0.0 and not best.left
        return NearestHits(
            best.hits,
            buckets=search.buckets,
            checked=best.checked,
            left=best.left,
            recall=search.reached if is_known else None,
        )

    def _among_all_texts(self, searches: Sequence[_Search]) -> list[NearestHits]:
        """Compare all texts for queries whose answers by signatures are too few."""
        if self._all_texts is None:
            self._all_texts = AllTextsSearch(
                self._snapshot, self._family, top=self._top, threshold=self._asked_threshold,
                below=self._asked_below, workers=self._workers,
            )  # fmt: skip
        return self._all_texts.search_points(
            [(search.point, search.best.leave_out) for search in searches]
        )

    def _is_scan_better(self, probes: Probes, n_buckets: int, n_next: int, best: _Best) -> bool:
        """Return whether more is needed, and comparing all signatures gives it sooner.

        Parameters
        ----------
        n_buckets, n_next : int
            Buckets that were looked into, and as many as would be next.
        """
        if self._recall is None or self._limit is not None:
            return False
        worst = self._worst(best)
        if n_next == n_buckets:  # it is reached, or there are no more buckets
            return worst == -math.inf or probes.recall(worst, [n_buckets])[0] < self._recall
        counts = [n_next]
        while counts[-1] < probes.n:
            counts.append(min(probes.n, math.ceil(counts[-1] * _MORE)))
        needed = counts[-1]
        if worst > -math.inf:
            recalls = probes.recall(worst, counts)
            reached = (
                n for n, recall in zip(counts, recalls, strict=True) if recall >= self._recall
            )
            needed = next(reached, needed)
        seconds_a_bucket = _BUCKET_SECONDS + best.checked / n_buckets * _CANDIDATE_SECONDS
        return self._counts.seconds < (needed - n_buckets) * seconds_a_bucket

    def nothing(self) -> NearestHits:
        """Return the answer to a query without elements, to which nothing is similar."""
        return NearestHits(recall=1.0)

    def search_document(self, document: StoredDocument) -> NearestHits:
        """Return the nearest documents of a document in the index, without itself."""
        number = document.signature_id
        if number is None:
            return self.nothing()
        row = self._snapshot.signatures[number : number + 1]
        is_stored = self._params.store_text
        point = self._points.get([number])[number] if is_stored else None
        return self.near(row, point, leave_out=document.doc_id)

    def search_signatures(self, numbers: Ids) -> list[NearestHits]:
        """Return the nearest documents of some signatures, their own documents included.

        Parameters
        ----------
        numbers : ndarray of int64
        """
        points = self._points.get(numbers.tolist()) if self._params.store_text else {}
        rows = self._snapshot.signatures
        return self._finish(
            [
                self._begin(rows[number : number + 1], points.get(number), None)
                for number in numbers.tolist()
            ]
        )

    def _next(self, probes: Probes, n_buckets: int, best: _Best) -> int:
        """Return how many buckets to look into before the answers are checked again."""
        if self._recall is None or n_buckets >= probes.n:
            return n_buckets
        worst, most = self._worst(best), min(probes.n, math.ceil(n_buckets * _MORE))
        if worst == -math.inf:
            return most
        counts = [*range(n_buckets, most, max(1, (most - n_buckets) // 8)), most]
        recalls = probes.recall(worst, counts)
        reached = [n for n, recall in zip(counts, recalls, strict=True) if recall >= self._recall]
        return reached[0] if reached else most

    def _worst(self, best: _Best) -> float:
        """Return the level from which on an answer is still wanted."""
        if self._top is None or len(best.hits) < self._top:
            return self._threshold
        return best.hits[-1].similarity

    def _check(
        self,
        best: _Best,
        row: NDArray[np.uint16],
        point: Point | None,
        candidates: Ids,
    ) -> None:
        """Compare candidates, the most promising first, and take those that are answers."""
        if self._limit is not None and best.checked + len(candidates) > self._limit:
            best.left = best.checked + len(candidates) - self._limit
            candidates = candidates[: self._limit - best.checked]
        best.checked += len(candidates)
        if not len(candidates):
            return
        rows, places = self._snapshot.signatures.among(candidates)
        agreement = compare_rows(
            row, np.zeros(len(places), dtype=np.int64), rows, places, **self._params.cut
        )
        order = np.argsort(-agreement.equal, kind="stable")
        shares = agreement.equal[order] / self._params.num_perm
        self._compare(best, point, candidates[order], shares, self._least_share)

    def _least_share(self, worst: float) -> float:
        """Return the share of equal slots that a candidate needs; hardly any answer has fewer."""
        return least_share(self._params, self._method, worst)

    def _compare(
        self,
        best: _Best,
        point: Point | None,
        candidates: Ids,
        shares: NDArray[np.float64],
        least_of: Callable[[float], float],
    ) -> None:
        """Compare candidates, whose shares of equal slots descend, while those suffice."""
        start, size = 0, _FIRST_CHECKED
        while start < len(candidates):
            worst = self._worst(best)
            if worst > -math.inf:
                candidates = candidates[: np.searchsorted(-shares, -least_of(worst), side="right")]
            part = slice(start, start + size)
            self._take(best, point, candidates[part], shares[part][: len(candidates[part])])
            start, size = part.stop, min(4 * size, _MOST_CHECKED)

    def _take_best(self, search: _Search, counts: NDArray[np.uint16]) -> float:
        """Compare the candidates with the most equal slots, as far down as the recall needs.

        Parameters
        ----------
        counts : ndarray of uint16, shape (n_signatures,)
            Equal slots of the query with each signature.

        Returns
        -------
        float
            Probability that a document at the worst level was among them.
        """
        best = search.best
        met = distinct(np.concatenate([self._dead, search.met]))
        best.checked = len(counts) - len(self._dead)
        n_ranked, room, total = 0, _FIRST_RANKED, 1
        while n_ranked < total and n_ranked != self._most_exact:
            least = self._slots_needed(self._worst(best))
            if self._most_exact is not None:
                room = min(room, self._most_exact)
            ids, total = rank_counts(counts, least, room)
            fresh = ids[n_ranked:]
            fresh = fresh[~contains(met, fresh)]
            shares = counts[fresh] / self._n_slots
            self._compare(best, search.point, fresh, shares, self._share_needed)
            n_ranked, room = max(n_ranked, len(ids)), room * _MORE_RANKED
            if n_ranked and counts[ids[-1]] < self._slots_needed(self._worst(best)):
                break
        worst = self._worst(best)
        if self._method != "exact":
            return 1.0
        if worst == -math.inf:  # fewer answers than wanted: which others share a little?
            return 1.0 if self._knows_all_levels else 0.0
        equal = self._params.curve.probability(worst)
        lowest = self._slots_needed(worst)
        if n_ranked < total:
            lowest = max(lowest, int(counts[ids[-1]]) + 1)
        return probability_of(lowest, equal, self._n_slots)

    def _slots_needed(self, worst: float) -> int:
        """Return how many equal slots a candidate needs while answers of a level are wanted."""
        if worst == -math.inf:
            return self._least_slots
        equal = self._params.curve.probability(worst)
        if self._method == "exact" and self._recall is not None:
            least = least_equal(equal, self._n_slots, self._recall)
        else:
            least = math.ceil(least_share(self._params, self._method, worst) * self._n_slots)
        return max(self._least_slots, least)

    def _share_needed(self, worst: float) -> float:
        """Return the same as a share, a little less."""
        return self._slots_needed(worst) / self._n_slots - 1e-9

    def _take(
        self, best: _Best, point: Point | None, candidates: Ids, shares: NDArray[np.float64]
    ) -> None:
        """Take the candidates that are now among the nearest."""
        if not len(candidates):
            return
        if self._method == "exact":
            levels = self._points.levels(self._family, point, candidates)
        else:
            levels = self._params.curve.levels(shares)
        good = np.flatnonzero((levels >= self._worst(best)) & (levels < self._below))
        ids = candidates[good].tolist()
        documents = self._snapshot.documents_of_signatures(ids)
        is_distance = self._params.kind.is_distance
        hits = best.hits + [
            Hit(key, level, self._method, 0.0 - level if is_distance else None)
            for signature_id, level in zip(ids, levels[good].tolist(), strict=True)
            for doc_id, key, _ in documents[signature_id]
            if doc_id != best.leave_out
        ]
        hits.sort(key=lambda hit: (-hit.similarity, hit.key))
        best.hits = hits[: self._top]
