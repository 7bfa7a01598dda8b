"""What an index finds of the pairs that there are: measured against all of its texts or vectors.

Some documents are drawn, and each is compared exactly with all others (``all_texts.py``,
``all_rows.py``): these pairs are the truth. Then the index is asked for the same pairs, by its
postings, as ``pairs`` asks it. So everything counts that can lose a pair: chance, a cap on buckets,
and damage. For each missed pair the signature rows say which of these it was.

A pair of documents counts once, also if both were drawn; copies are pairs at the best similarity.
Pairs are not independent: documents that are alike are found together or missed together, and so
are the pairs of one document. Documents that are joined by measured pairs are therefore taken as
one cluster, and the variance of the recall is that between clusters. Its ratio to the variance of
as many independent pairs, the design effect (Kish, *Survey Sampling*, 1965), divides the number of
pairs. Where nothing was missed, or all, pairs of a cluster count as wholly dependent. The interval
is Wilson's (JASA 22, 1927) for that number of pairs, at 99 %. It is about the probability that such
pairs are found, of which this index with its seed is one draw; where all documents were compared,
the recall itself is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_whole
from lshdb.params.bands import candidate_probability
from lshdb.params.index_params import IndexParams
from lshdb.search.all_rows import all_bodies, require_bodies
from lshdb.search.all_texts import Shared
from lshdb.search.candidates import LeftOut, contains
from lshdb.search.components import connect
from lshdb.search.loss import DocumentCounts
from lshdb.search.pairs import find_candidates
from lshdb.search.verification import MEMORY, check_limits, least_share, level_of, rows_among
from lshdb.signatures.banding import compare_rows
from lshdb.signatures.family import Family
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers

__all__ = ["MeasuredRecall", "RecallSlice", "measure_recall", "recall_of", "wilson"]

SAMPLE = 1000
"""Documents that are compared with all others, if nobody says how many."""

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_Z = 2.5758293035489004  # deviations within which 99 % of the normal distribution lie
_WIDTH = 0.05
_FEWEST_SLICES, _REACH = 10, 0.3
_PAIRS = 1_000_000
"""Pairs whose candidates are looked up together, at most; a document's are not cut."""
_KEPT = 1e-6
"""How far a stored promise may be from its bands: it was rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSlice:
    """Measured recall of the pairs within a range of similarities.

    Attributes
    ----------
    low, high : float
        Similarities from ``low`` on and below ``high``; or distances up to ``high`` and above
        ``low``. The best, 1 or distance 0, is a slice of its own, with both the same; the slice of
        all that was judged includes it.
    pairs, found : int
        Pairs of documents, and those of them that the index finds.
    no_band, too_few_slots, left_out, lost : int
        The pairs missed because no band agrees, which is chance; because their signatures have
        too few equal slots to read their texts; through a cap on buckets; and although a band
        agrees and nothing was left out, which is damage.
    recall, lower, upper : float or None
        Share found and its 99 % interval; None without a pair.
    effective : float
        The number of independent pairs that say as much as these do.
    expected : float or None
        The mean of 1 - (1 - p^r)^b over these pairs; 1 for copies.
    promise : float or None
        The recall promised; None beyond the threshold.
    """

    low: float
    high: float
    pairs: int
    found: int
    no_band: int
    too_few_slots: int
    left_out: int
    lost: int
    recall: float | None
    lower: float | None
    upper: float | None
    effective: float
    expected: float | None
    promise: float | None

    @property
    def is_kept(self) -> bool | None:
        """Whether the promise may be kept: False if the interval lies below it."""
        if self.promise is None or self.upper is None:
            return None
        return self.upper >= self.promise - _KEPT


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRecall:
    """The result of :meth:`lshdb.Index.recall`.

    Attributes
    ----------
    params : IndexParams
    threshold, promise : float
        Pairs at the threshold, or nearer, are promised to be found with this probability.
    at_threshold : float
        1 - (1 - p^r)^b there.
    documents, sampled : int
        Documents that can be compared, and those that were compared with all.
    seed : int
    max_bucket : int or None
    slices : tuple of RecallSlice
        From the most similar on.
    total : RecallSlice
        All pairs at the threshold or nearer.
    """

    params: IndexParams
    threshold: float
    promise: float
    at_threshold: float
    documents: int
    sampled: int
    seed: int
    max_bucket: int | None
    slices: tuple[RecallSlice, ...]
    total: RecallSlice

    @property
    def is_exact(self) -> bool:
        """Whether all documents were compared."""
        return self.sampled == self.documents

    @property
    def lost(self) -> int:
        """Pairs that were not found although they should be: the index is damaged."""
        return sum(part.lost for part in self.slices)

    @property
    def is_kept(self) -> bool | None:
        """Whether the promise is kept, by this rule.

        False if the curve of the index's bands is below the promise at the threshold, or if the
        99 % interval of all pairs within the threshold, or of one slice of them, lies below the
        promise. None if there was no such pair. Else True: nothing speaks against it.
        """
        if self.at_threshold < self.promise - _KEPT:
            return False
        promises = [part.is_kept for part in (self.total, *self.slices)]
        return None if self.total.recall is None else False not in promises

    def rows(self) -> list[dict[str, Any]]:
        """Return the slices as dicts, for ``pandas.DataFrame`` and its like."""
        return [
            {field.name: getattr(part, field.name) for field in fields(part)}
            for part in self.slices
        ]


def wilson(share: float, n: float, z: float = _Z) -> tuple[float, float]:
    """Return Wilson's interval for a share of n independent trials (JASA 22, 1927, pp. 209-212).

    Parameters
    ----------
    share : float
        0 to 1.
    n : float
        Above 0; it need not be whole.
    z : float
        Deviations; 99 % by default.
    """
    middle = share + z * z / (2.0 * n)
    reach = z * math.sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    scale = 1.0 + z * z / n
    low, high = (middle - reach) / scale, (middle + reach) / scale
    return (0.0 if share == 0.0 else low), (1.0 if share == 1.0 else high)


def measure_recall(
    store: Store,
    family: Family,
    *,
    sample: int | None,
    threshold: float | None,
    furthest: float | None,
    max_bucket: int | str | None,
    seed: int,
    memory: int,
    workers: int | None,
) -> MeasuredRecall:
    """Measure recall; see :meth:`lshdb.Index.recall`."""
    params = store.params
    if sample is not None:
        check_whole("sample", sample, 1)
    check_whole("seed", seed, 0)
    check_limits(max_bucket, memory)
    require_bodies(params, "recall")
    level = level_of(params, threshold)
    lowest = _lowest(params, level) if furthest is None else level_of(params, furthest)
    edges = slice_edges(params, min(lowest, level), level)
    with store.reading() as snapshot:
        return recall_of(
            snapshot, family, sample=sample, level=level, edges=edges,
            most=max_bucket if isinstance(max_bucket, int) else None, seed=seed, memory=memory,
            workers=choose_workers(workers),
        )  # fmt: skip


def recall_of(
    snapshot: Snapshot,
    family: Family,
    *,
    sample: int | None,
    level: float | None = None,
    edges: Floats | None = None,
    most: int | None = None,
    seed: int = 0,
    memory: int = MEMORY,
    workers: int = 1,
) -> MeasuredRecall:
    """Measure the recall of one state, by default at the index's own threshold."""
    params = family.params
    level = params.level if level is None else level
    if edges is None:
        edges = slice_edges(params, min(_lowest(params, level), level), level)
    counts = DocumentCounts.of(snapshot)
    drawn = _drawn(counts.held, sample, seed)
    measuring = _Measuring(
        snapshot, family, DocumentCounts(counts.held, drawn), level=level, edges=edges,
        most=most, memory=memory, workers=workers,
    )  # fmt: skip
    measuring.measure()
    slices = measuring.slices()
    return MeasuredRecall(
        params=params,
        threshold=params.curve.value(level),
        promise=measuring.promise,
        at_threshold=params.recall_at(params.curve.value(level)),
        documents=int(counts.held.sum()),
        sampled=int(drawn.sum()),
        seed=seed,
        max_bucket=measuring.most,
        slices=tuple(slices[::-1]),
        total=measuring.total(),
    )


def _lowest(params: IndexParams, level: float) -> float:
    """Return the lowest level that is measured by default."""
    if params.kind.is_distance:
        return 2.0 * level or -1.0
    return max(round(level - _REACH, 12), params.kind.lowest or _WIDTH)


def slice_edges(params: IndexParams, lowest: float, level: float) -> Floats:
    """Return the levels at which slices begin, rising; the last one is the best level alone.

    Multiples of 0.05, or for a distance of a round number; besides them the lowest level and that
    of the threshold.
    """
    width = _WIDTH
    if params.kind.is_distance:
        reach = -lowest / _FEWEST_SLICES
        scale = 10.0 ** math.floor(math.log10(reach)) if reach > 0 else 1.0
        width = next(step * scale for step in (10, 5, 2, 1) if step * scale <= reach * (1 + 1e-9))
        if params.kind.is_whole:
            width = max(1.0, width)
    best = params.curve.best
    first, last = math.ceil(lowest / width - 1e-9), math.floor(best / width + 1e-9)
    between = (round(number * width, 12) for number in range(first, last))
    edges = {lowest, level, *(edge for edge in between if edge > lowest + 1e-9 * width), best}
    near = {edge for edge in edges if 0 < abs(edge - level) < 1e-9 * width}
    return np.array(sorted(edges - near))


def _drawn(counts: Ids, sample: int | None, seed: int) -> Ids:
    """Draw documents that have a signature; return how many were drawn of each."""
    n = int(counts.sum())
    if sample is None or sample >= n:
        return counts.copy()
    places = np.random.default_rng(seed).choice(n, size=sample, replace=False)
    owners = np.searchsorted(np.cumsum(counts), places, side="right")
    return np.bincount(owners, minlength=len(counts)).astype(np.int64)


class _Measuring:
    """One measurement: sums for each slice, and for each document that was drawn and slice."""

    def __init__(
        self,
        snapshot: Snapshot,
        family: Family,
        counts: DocumentCounts,
        *,
        level: float,
        edges: Floats,
        most: int | None,
        memory: int,
        workers: int,
    ) -> None:
        self._snapshot, self._family, self._params = snapshot, family, family.params
        self._counts, self._level, self._edges = counts, level, edges
        self.most, self._memory, self._workers = most, memory, workers
        self._asking = np.flatnonzero(counts.new)
        self._ids = np.flatnonzero(counts.held)
        n = len(edges)
        self._pairs, self._found = np.zeros((2, len(self._asking), n), dtype=np.int64)
        self._missed = np.zeros((4, n), dtype=np.int64)
        self._expected = np.zeros(n)
        self._joined = np.empty((2, 0), dtype=np.int64)
        is_within = level >= self._params.level
        value = self._params.curve.value(level)
        self.promise = self._params.recall if is_within else self._params.recall_at(value)

    def measure(self) -> None:
        """Compare the drawn documents with all, a block at a time."""
        self._count_copies()
        bodies = all_bodies(
            self._snapshot, self._family, self._ids, workers=self._workers, memory=self._memory // 2
        )
        is_all = len(self._asking) == len(self._ids)
        asking_ids = None if is_all else self._asking
        results: list[Shared] = []
        n_held = 0
        least = float(self._edges[0])
        for shared in bodies.sharing_with(asking_ids, unit="documents", least=least):
            results.append(shared)
            n_held += len(shared.ids)
            if n_held > _PAIRS:
                self._compare(results)
                results, n_held = [], 0
        if results:
            self._compare(results)

    def _count_copies(self) -> None:
        """Count pairs of one signature: they are found, but for groups over the cap."""
        documents, drawn = (
            counts[self._asking] for counts in (self._counts.held, self._counts.new)
        )
        rest = documents - drawn
        pairs = documents * (documents - 1) // 2 - rest * (rest - 1) // 2
        self._pairs[:, -1] += pairs
        is_found = np.ones(len(documents), bool) if self.most is None else documents <= self.most
        self._found[:, -1] += pairs * is_found
        self._missed[_LEFT_OUT, -1] += int(pairs[~is_found].sum())
        self._expected[-1] += float(pairs.sum())

    def _compare(self, parts: list[Shared]) -> None:
        """Look for the true pairs in the index, and count those that it finds."""
        asking = np.concatenate([shared.asking for shared in parts])
        ones = np.concatenate([shared.asking[shared.places] for shared in parts])
        twos = np.concatenate([shared.ids for shared in parts])
        levels = np.concatenate([shared.levels for shared in parts])
        # Of two that both ask, each finds the other.
        once = (ones < twos) | ((ones > twos) & (self._counts.new[twos] == 0))
        ones, twos, levels = ones[once], twos[once], levels[once]
        left, right = np.minimum(ones, twos), np.maximum(ones, twos)
        order = np.lexsort((right, left))
        ones, left, right, levels = (column[order] for column in (ones, left, right, levels))
        is_found = self._are_found(np.sort(asking), left, right, levels)
        self._add(np.searchsorted(self._asking, ones), left, right, levels, is_found)
        self._explain(left[~is_found], right[~is_found], levels[~is_found])
        nodes, roots = connect(*np.concatenate([self._joined, [left, right]], axis=1))
        self._joined = np.stack([nodes, roots])

    def _are_found(self, asking: Ids, left: Ids, right: Ids, levels: Floats) -> NDArray[np.bool_]:
        """Return which pairs, in order, the postings bring to their verification."""
        n = self._snapshot.n_signatures
        names = left * n + right
        is_found = np.zeros(len(names), dtype=bool)
        if not len(names):
            return is_found
        lowest = float(self._edges[0])
        is_all = len(asking) == len(self._ids)
        share = max(0.0, least_share(self._params, "exact", self._level))
        (least,) = self._params.curve.at_shares([share])
        links = find_candidates(
            self._snapshot, self._family, threshold=lowest, method="exact",
            new=None if is_all else asking, most=self.most, left_out=LeftOut(self.most),
            memory=self._memory // 2, workers=self._workers,
        )  # fmt: skip
        for block in links:
            ids = block.left * n + block.right
            places = np.minimum(np.searchsorted(names, ids), len(names) - 1)
            is_true = names[places] == ids
            places, estimates = places[is_true], block.similarities[is_true]
            if self._snapshot.has_signatures:  # else nothing is dropped before its text is read
                places = places[(levels[places] < self._level) | (estimates >= least - 1e-12)]
            is_found[places] = True
        return is_found

    def _add(
        self, asking_ids: Ids, left: Ids, right: Ids, levels: Floats, is_found: NDArray[np.bool_]
    ) -> None:
        slices = self._slices_of(levels)
        pairs = self._counts.pairs(left, right)
        np.add.at(self._pairs, (asking_ids, slices), pairs)
        np.add.at(self._found, (asking_ids, slices), pairs * is_found)
        values, places = np.unique(levels, return_inverse=True)
        curve, bands, rows = self._params.curve, self._params.bands, self._params.rows
        agreements = map(curve.probability, values.tolist())
        chances = np.array([candidate_probability(p, bands, rows) for p in agreements])
        if len(values):
            np.add.at(self._expected, slices, pairs * chances[places])

    def _slices_of(self, levels: Floats) -> Ids:
        return np.searchsorted(self._edges, levels, side="right") - 1

    def _explain(self, left: Ids, right: Ids, levels: Floats) -> None:
        """Count why pairs were missed."""
        params = self._params
        for start in range(0, len(left), _EXPLAINED):
            part = slice(start, start + _EXPLAINED)
            rows, ids = rows_among(
                self._snapshot, self._family, np.concatenate([left[part], right[part]])
            )
            n = len(left[part])
            overlap = compare_rows(rows, ids[:n], rows, ids[n:], **params.cut)
            levels_asked = np.where(levels[part] >= self._level, self._level, self._edges[0])
            shares = {
                level: least_share(params, "exact", level) for level in set(levels_asked.tolist())
            }
            least = np.array([shares[level] for level in levels_asked.tolist()])
            is_few = (overlap.equal / params.num_perm < least) & self._snapshot.has_signatures
            why = np.full(n, _LOST if self.most is None else _LEFT_OUT)
            why[is_few] = _TOO_FEW
            why[overlap.matched == 0] = _NO_BAND
            pairs = self._counts.pairs(left[part], right[part])
            np.add.at(self._missed, (why, self._slices_of(levels[part])), pairs)

    # Results

    def slices(self) -> list[RecallSlice]:
        """Return the slices, rising."""
        return [self._slice(slice(place, place + 1)) for place in range(len(self._edges))]

    def total(self) -> RecallSlice:
        """Return all pairs at the threshold or nearer as one slice."""
        first = int(np.searchsorted(self._edges, self._level))
        return self._slice(slice(first, len(self._edges)))

    def _slice(self, places: slice) -> RecallSlice:
        ends = [*self._edges.tolist(), float(self._edges[-1])]
        value = self._params.curve.value
        low, high = sorted((value(ends[places.start]), value(ends[places.stop])))
        sums = self._pairs[:, places].sum(axis=1), self._found[:, places].sum(axis=1)
        pairs, n_found = (int(column.sum()) for column in sums)
        recall, lower, upper, effective = None, None, None, 0.0
        if pairs:
            recall = n_found / pairs
            effective = self._effective(*sums)
            lower, upper = wilson(recall, effective)
        missed = self._missed[:, places].sum(axis=1).tolist()
        is_promised = ends[places.start] >= self._level
        return RecallSlice(
            low=low,
            high=high,
            pairs=pairs,
            found=n_found,
            no_band=missed[_NO_BAND],
            too_few_slots=missed[_TOO_FEW],
            left_out=missed[_LEFT_OUT],
            lost=missed[_LOST],
            recall=recall,
            lower=lower,
            upper=upper,
            effective=effective,
            expected=float(self._expected[places].sum()) / pairs if pairs else None,
            promise=self.promise if is_promised else None,
        )

    def _effective(self, pairs: Ids, n_found: Ids) -> float:
        """Return the number of independent pairs that say as much; see the head of the module."""
        nodes, roots = self._joined
        clusters = self._asking.copy()
        is_joined = contains(nodes, self._asking)
        clusters[is_joined] = roots[np.searchsorted(nodes, self._asking[is_joined])]
        names, places = np.unique(clusters, return_inverse=True)
        n = np.bincount(places, pairs, minlength=len(names))
        hits = np.bincount(places, n_found, minlength=len(names))
        n, hits = n[n > 0], hits[n > 0]
        total = float(n.sum())
        share = float(hits.sum()) / total
        dependent = total**2 / float((n**2).sum())
        if share in (0.0, 1.0) or len(n) == 1:
            return dependent
        between = float(((hits - share * n) ** 2).sum()) / total**2 * len(n) / (len(n) - 1)
        return min(total, share * (1.0 - share) / between) if between > 0 else total


_NO_BAND, _TOO_FEW, _LEFT_OUT, _LOST = range(4)
_EXPLAINED = 65_536
