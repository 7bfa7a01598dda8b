"""A query -> its nearest documents: bucket by bucket, until one as near would have been found.

The query's own buckets come first, then those next to them, the likeliest first. Candidates are
compared in order of equal slots and, if originals are stored, exactly. That gives the level of the
worst answer still wanted. The search goes on until the probability that a document of that level
would have been met reaches the wanted recall. The truly nearest are at least as similar, so each of
them is found with that probability, over the random choice of the hash functions: nothing need be
known about the query's neighbourhood beforehand.

The search can also end by the probe rule of the c-approximate r-range query (Indyk, Motwani, STOC
1998; Datar and others, SoCG 2004): after a number of compared candidates, far ones included.

The order of the buckets (:class:`Probes`): a point that is similar to the query and not in one of
its buckets mostly misses it by a slot or two: a bit whose projection was near 0, a projection near
the border of its piece. Given the query, the probability of every value of a slot in a point at
some level is known exactly (``Family.alternatives``). Slots are independent, and so are bands; the
buckets of one band exclude each other. So the probability that some buckets hold the point is

    1 - product over bands of (1 - sum over the band's buckets of the bucket's probability)

Buckets are taken in order of their probability at one level. So a perturbed bucket of a band whose
slots lie near a border comes before one of a band whose slots do not (Lv, Josephson, Wang,
Charikar, Li, "Multi-probe LSH", VLDB 2007, with the conditional probability instead of their
score).

Limits: in each band single changes of a slot, the 48 likeliest, pairs of the 16 likeliest, triples
of the 10 and fours of the 7 likeliest: some 300 buckets a band.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.search.candidates import contains
from lshdb.search.verification import Hit, Hits, least_share, points_of
from lshdb.signatures.banding import band_words, bucket_keys, compare_rows, keys_of_bands
from lshdb.signatures.family import Alternatives, Family, Point
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["Answer", "NearestSearch", "Probes"]


_LIKELIEST = (48, 16, 10, 7)
"""From this many of the likeliest changes, sets of one, two, three and four are made."""
_LEAST = 1e-300
"""Stands for a probability of 0, which has no logarithm."""

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


class Probes:
    """The buckets that a query may look into, the likeliest first.

    Parameters
    ----------
    family : Family
    row : ndarray of uint32, shape (1, row_words)
        Signature of the query.
    point : Point or None
        The query, if it is known.
    level : float
        Level of the points that are looked for.

    Attributes
    ----------
    n : int
        Number of buckets: only the query's own if the family knows none next to them.
    """

    def __init__(
        self, family: Family, row: NDArray[np.uint32], point: Point | None, level: float
    ) -> None:
        self._family, self._row, self._point = family, row, point
        params = family.params
        self._bands, self._rows = params.bands, params.rows
        alternatives = self._at(level)
        own = np.arange(self._bands)
        self._of_band, self._sets = own, np.zeros(self._bands, dtype=np.int64)
        self._alternatives: Alternatives
        if alternatives is not None:
            self._alternatives = alternatives
            self._choose()
        self.n = len(self._of_band)

    def _at(self, level: float) -> Alternatives | None:
        return None if self._point is None else self._family.alternatives(self._point, level)

    def _choose(self) -> None:
        """Put all sets of changes of all bands in order."""
        ratios = self._ratios(self._alternatives)
        n_changes = min(_LIKELIEST[0], ratios.shape[1])
        self._changes = np.argsort(-ratios, axis=1, kind="stable")[:, :n_changes]
        self._sets_of_changes = _sets(n_changes)
        logs = self._log_probabilities(self._alternatives)
        # The query's own buckets first, all of them.
        logs[:, 0] = np.inf
        order = np.argsort(-logs, axis=None, kind="stable")
        order = order[logs.reshape(-1)[order] > -np.inf]
        self._of_band, self._sets = np.divmod(order, len(self._sets_of_changes))

    def _ratios(self, alternatives: Alternatives) -> Floats:
        """Return the probability of each change of a band over that of no change."""
        used = self._bands * self._rows
        same = np.maximum(alternatives.same[:used], _LEAST)
        ratios: Floats = (alternatives.others[:used] / same[:, None]).reshape(self._bands, -1)
        return ratios

    def _log_probabilities(self, alternatives: Alternatives) -> Floats:
        """Return the log probability of each set of changes of each band (bands, sets)."""
        used = self._bands * self._rows
        same = np.log(np.maximum(alternatives.same[:used], _LEAST)).reshape(self._bands, -1)
        chosen = np.take_along_axis(self._ratios(alternatives), self._changes, axis=1)
        # The place past the last change stands for no change, and costs nothing.
        chosen = np.pad(np.log(np.maximum(chosen, _LEAST)), ((0, 0), (0, 1)))
        logs: Floats = same.sum(axis=1)[:, None] + np.zeros(len(self._sets_of_changes))
        for places in self._sets_of_changes.T:
            logs += chosen[:, places]
        m = alternatives.others.shape[1]
        if m > 1:
            logs[self._clashing(m)] = -np.inf
        return logs

    def _clashing(self, m: int) -> NDArray[np.bool_]:
        """Return which sets change one slot twice (bands, sets)."""
        n_changes = self._changes.shape[1]
        slots = np.pad(self._changes // m, ((0, 0), (0, 1)))
        clashes = np.zeros((self._bands, len(self._sets_of_changes)), dtype=bool)
        for one, other in itertools.combinations(self._sets_of_changes.T, 2):
            clashes |= (slots[:, one] == slots[:, other]) & (other < n_changes)
        return clashes

    def keys(self, first: int, last: int) -> Ids:
        """Return the bucket keys from one place in their order up to another (int64)."""
        params = self._family.params
        if last <= self._bands:
            own: Ids = bucket_keys(self._row, **params.cut)[0, self._of_band[first:last]]
            return own
        bands, sets = self._of_band[first:last], self._sets[first:last]
        if params.slot_bits == 1:
            words = band_words(self._row, bands=self._bands, rows=self._rows)
        else:
            words = self._row[:, : self._bands * self._rows]
        words = words.reshape(self._bands, -1)[bands].copy()
        for places in self._sets_of_changes[sets].T:
            changed = np.flatnonzero(places < self._changes.shape[1])
            change = self._changes[bands[changed], places[changed]]
            slot, which = np.divmod(change, self._alternatives.others.shape[1])
            if params.slot_bits == 1:
                words[changed, slot // 32] ^= np.uint32(1) << (slot % 32).astype(np.uint32)
            else:
                values = self._alternatives.values[bands[changed] * self._rows + slot, which]
                words[changed, slot] = values
        return keys_of_bands(words, bands)

    def recall(self, level: float, counts: list[int]) -> list[float]:
        """Return the probability that the first buckets hold a point at a level, per count.

        Parameters
        ----------
        level : float
        counts : list of int
            Ascending, each at least the number of bands.

        Returns
        -------
        list of float
        """
        params = self._family.params
        alternatives = self._at(level)
        if alternatives is None:
            return [params.recall_at(params.curve.value(level))] * len(counts)
        bands, sets = self._of_band[: counts[-1]], self._sets[: counts[-1]]
        each = np.exp(self._log_probabilities(alternatives)[bands, sets])
        # Between two counts: which band has how much more.
        parts = np.searchsorted(counts, np.arange(len(bands)), side="right")
        cells = len(counts) * self._bands
        sums = np.bincount(parts * self._bands + bands, each, minlength=cells)[:cells]
        held = np.minimum(np.cumsum(sums.reshape(-1, self._bands), axis=0), 1.0)
        found: list[float] = (1.0 - np.prod(1.0 - held, axis=1)).tolist()
        return found


@functools.cache
def _sets(n_changes: int) -> Ids:
    """Return sets of none, one, two, ... changes (int64, (sets, 4)).

    Each change is its place among the likeliest; the rest of a row is ``n_changes``.
    """
    sets = [()] + [
        chosen
        for size, likeliest in enumerate(_LIKELIEST, start=1)
        for chosen in itertools.combinations(range(min(likeliest, n_changes)), size)
    ]
    places = np.full((len(sets), len(_LIKELIEST)), n_changes, dtype=np.int64)
    for number, chosen in enumerate(sets):
        places[number, : len(chosen)] = chosen
    places.flags.writeable = False
    return places


_FIRST_CHECKED, _MOST_CHECKED = 64, 1024
"""Candidates whose originals are read together: at first few, which show what is near."""
_MORE = 2.0
"""Factor by which the number of buckets grows before the answers are checked again."""


class Answer(Hits):
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
        Probability of finding a document exactly as similar as the last hit, or, if there are fewer
        hits than wanted, one at the threshold; more similar ones are found more likely. None if
        there are fewer and no threshold, or if the probe limit left out candidates, which may be as
        similar.
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
    """Finds nearest documents in one snapshot.

    Parameters
    ----------
    snapshot : Snapshot
        With its signature file.
    family : Family
    top : int or None
        Most answers; None to let the threshold decide.
    threshold : float or None
        Lowest level of an answer; None for any.
    recall : float or None
        Go on until a document as similar as the worst wanted answer is found with this
        probability; None to use only the query's own buckets.
    limit : int or None
        Most candidates to compare.
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

    def search(
        self, signatures: NDArray[np.uint32], points: Sequence[Point | None]
    ) -> Sequence[Hits]:
        """Return the nearest documents of each query.

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
        """Return the nearest documents of one query.

        Parameters
        ----------
        row : ndarray of uint32, shape (1, row_words)
        point : Point or None
            The query itself; without it nothing is known about the buckets next to its own.
        leave_out : int, optional
            doc_id of the document that asks, if it is in the index.
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

    def nothing(self) -> Answer:
        """Return the answer to a query without elements."""
        return Answer()

    def search_document(self, document: StoredDocument) -> Answer:
        """Return the nearest documents of a document in the index, without itself."""
        number = document.signature_id
        if number is None:
            return Answer()
        row = self._snapshot.signatures[number : number + 1]
        is_stored = self._params.store_text
        point = self._points.get([number])[number] if is_stored else None
        return self.near(row, point, leave_out=document.doc_id)

    def _next(self, probes: Probes, done: int, found: _Found) -> int:
        """Return how many buckets to look into before the answers are checked again."""
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
        """Return the level from which on an answer is still wanted."""
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
        """Compare candidates, the most promising first, and take those that are answers."""
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
        """Take those of some candidates that are now among the nearest."""
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
        is_distance = self._params.kind.is_distance
        hits = found.hits + [
            Hit(key, level, self._method, 0.0 - level if is_distance else None)
            for place, level in zip(good.tolist(), levels[good].tolist(), strict=True)
            for doc_id, key, _ in documents[ids[place]]
            if doc_id != found.leave_out
        ]
        hits.sort(key=lambda hit: (-hit.similarity, hit.key))
        found.hits = hits[: self._top]
