"""How many pairs a cap on buckets loses: counted if that is quick, else estimated.

A pair is lost if it is at the threshold, shares a bucket, and shares none that was compared. The
number of such pairs does not follow from independent bands: near-duplicates meet in the large
buckets of every band at once. So pairs of the large buckets are compared:

* all of them, each once, if there are at most ``COUNTED``;
* otherwise a sample. A pair of documents is drawn from a bucket, and a bucket in proportion to the
  pairs of documents in it. A pair that lies in h large buckets is drawn h times as often, and is
  counted as 1 / h (Hansen and Hurwitz, 1943). Buckets are sampled by classes of size, so that a few
  very large ones do not hide the many others.

A pair must first pass by its signatures; then it is verified exactly if the search does so. So up
to ``DRAWN`` pairs are drawn, and the texts of about ``VERIFIED`` are read. Draws follow from the
seed: the same question about the same index has the same answer.

Pairs of documents are counted, copies included. The interval is that of Fay and Feuer (Statistics
in Medicine 16, 1997) for weighted counts, for 99 %: it has an upper end even if no sampled pair was
lost. If large buckets hold too many postings to read, some of them are drawn, and the unit that is
counted is a bucket instead of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import UncheckedWarning, warn_caller
from lshdb.params.bucket_layout import key_ranges
from lshdb.search.candidates import PART_SIGNATURES, LeftOut, contains, living, pairs_of_buckets
from lshdb.search.exact_levels import check_exactly, levels_between
from lshdb.search.verification import estimate, level_of, rows_among
from lshdb.signatures.banding import bucket_keys, compare_rows, matching_bands
from lshdb.signatures.family import Family
from lshdb.storage.bands.postings import Buckets
from lshdb.storage.rows.edges import Edges, EdgeState
from lshdb.storage.transactions.index_state import EdgeReader, IndexState, OpenIndex

__all__ = [
    "DocumentCounts",
    "Loss",
    "PairCount",
    "PairFrame",
    "estimate_pairs",
    "interval",
    "loss_of",
    "loss_of_stored",
    "lost_by",
    "remember_loss",
    "stored_loss",
    "survey",
    "warn_unchecked",
    "with_members",
]

COUNTED = 400_000
DRAWN = 240_000
VERIFIED = 2_000
_CHARACTERS = 64 * 2**20
"""Texts that are read for a sample, about."""
_READ = 1_000_000
"""Postings of large buckets that are read for a sample, about."""
_FEWEST_BUCKETS = 50
_KEYS = 5_000
_FIRST_DRAWS, _MOST_DRAWS = 1_024, 16_384
_Z = 2.5758293035489004  # deviations within which 99 % of the normal distribution lie
_MEMORY = 64 * 2**20

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PairCount:
    """A number of pairs of documents.

    Attributes
    ----------
    value, low, high : float
        The number, or an estimate with the ends of its interval of 99 %.
    is_exact : bool
        Whether it was counted.
    n_sampled : int
        Pairs that were drawn for it; 0 if it was counted.
    """

    value: float
    low: float
    high: float
    is_exact: bool
    n_sampled: int

    def __add__(self, counted: int) -> PairCount:
        """Return the sum with some more that were counted."""
        ends = (self.value + counted, self.low + counted, self.high + counted)
        return PairCount(*ends, self.is_exact, self.n_sampled)


@dataclass(frozen=True, slots=True)
class Loss:
    """Pairs of documents that are not found because of a cap on buckets.

    Attributes
    ----------
    pairs : float
        Near-duplicate pairs of documents that are not found, and would be without the cap.
    share, low, high : float
        The same as a share of all that would be found without the cap, and the ends of its 99 %
        interval. ``low`` and ``high`` equal ``share`` if it was counted.
    is_exact : bool
        Whether all pairs of the large buckets were compared, rather than a sample.
    n_sampled : int
        Pairs that were drawn; 0 if all were counted.
    """

    pairs: float
    share: float
    low: float
    high: float
    is_exact: bool
    n_sampled: int


def warn_unchecked(unchecked: PairCount | None) -> None:
    """Warn the caller of pairs of kept documents that were not compared, if there are any."""
    if unchecked is not None:
        warn_caller(
            UncheckedWarning(
                "not all pairs of kept documents in large buckets were compared: an estimated "
                f"{unchecked.value:,.0f} of them are near-duplicates (99 % interval "
                f"{unchecked.low:,.0f} to {unchecked.high:,.0f}); a cap on buckets of 'none' "
                "compares them all"
            )
        )


def loss_of(lost: PairCount, verified: PairCount) -> Loss:
    """Return the loss for a number of lost pairs and one of found pairs."""

    def share(part: float, rest: float) -> float:
        return part / (part + rest) if part else 0.0

    return Loss(
        lost.value,
        share(lost.value, verified.value),
        share(lost.low, verified.high),
        share(lost.high, verified.low),
        lost.is_exact and verified.is_exact,
        lost.n_sampled + verified.n_sampled,
    )


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """How many documents have each signature.

    Attributes
    ----------
    held : ndarray of int64, shape (n_signatures,)
        All documents.
    new : ndarray of int64, shape (n_signatures,)
        Documents of which a pair must have one; ``held`` itself if any will do. Those that are not
        among ``held`` make pairs with those that are.
    """

    held: Ids
    new: Ids

    @classmethod
    def of(cls, snapshot: IndexState, *, since: int | None = None) -> DocumentCounts:
        """Count the documents of an index; with ``since``, those from that batch on are new."""
        with_document = np.ones(snapshot.n_signatures, dtype=np.int64)
        with_document[snapshot.edges.dead()] = 0
        ids, counts = snapshot.copy_counts()
        with_document[ids] = counts
        if since is None:
            return cls(with_document, with_document)
        new = np.zeros(snapshot.n_signatures, dtype=np.int64)
        ids, counts = snapshot.new_counts(since)
        new[ids] = counts
        return cls(with_document, new)

    def pairs(self, left: Ids, right: Ids) -> Ids:
        """Return how many pairs of documents each pair of signatures stands for."""
        all_pairs: Ids = self.held[left] * self.held[right]
        if self.new is self.held:
            return all_pairs
        old = self.held - self.new
        return all_pairs - old[left] * old[right]

    def pairs_of_copies(self, *, most: int | None = None) -> int:
        """Count pairs of documents with one signature, in groups of no more than ``most``."""
        groups = self.held if most is None else self.held[self.held <= most]
        return int((groups * (groups - 1) // 2).sum())


class PairFrame:
    """Buckets to draw pairs from: their keys, sizes, and the number of pairs in each.

    Parameters
    ----------
    counts : DocumentCounts
        A signature without a document in it takes no part.
    """

    def __init__(self, counts: DocumentCounts) -> None:
        self.counts = counts
        self._columns: list[tuple[Ids, Ids, NDArray[np.float64]]] = []

    def add(self, buckets: Buckets) -> None:
        """Add buckets; a bucket without a pair only counts as added."""
        buckets = buckets.chosen(np.flatnonzero(buckets.sizes > 0))
        if not len(buckets.keys):
            return
        starts = np.cumsum(buckets.sizes) - buckets.sizes
        documents, new = self.counts.held[buckets.members], self.counts.new[buckets.members]
        sizes = np.add.reduceat(((documents > 0) | (new > 0)).astype(np.int64), starts)
        masses = np.add.reduceat(documents, starts).astype(np.float64)
        masses *= np.add.reduceat(new, starts)
        masses[sizes < 2] = 0.0
        self._columns.append((buckets.keys, sizes, masses))

    def columns(self) -> tuple[Ids, Ids, NDArray[np.float64]]:
        """Return (keys, sizes, masses), in order of key."""
        if not self._columns:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        keys, sizes, masses = (np.concatenate(parts) for parts in zip(*self._columns, strict=True))
        order = np.argsort(keys)
        return keys[order], sizes[order], masses[order]


def survey(
    snapshot: IndexState, *, bands: int, above: int = 1, large: PairFrame | None = None
) -> Iterator[Buckets]:
    """Yield all buckets of more than ``above`` living signatures, in one pass over the postings.

    Parameters
    ----------
    snapshot : IndexState
    bands : int
    above : int
    large : PairFrame, optional
        Takes these buckets on the way.
    """
    dead = snapshot.edges.dead()
    parts = 1 + snapshot.n_signatures // PART_SIGNATURES
    for first, last in key_ranges(bands=bands, parts=parts):
        buckets = living(snapshot.postings.shared(first, last, above=above), dead)
        buckets = buckets.chosen(np.flatnonzero(buckets.sizes > above))
        if large is not None:
            large.add(buckets)
        yield buckets


def lost_by(
    snapshot: IndexState,
    family: Family,
    left_out: LeftOut,
    large: PairFrame,
    *,
    threshold: float,
    method: str,
    seed: int = 0,
) -> PairCount | None:
    """Estimate the pairs of documents that a search left out, exact copies included."""
    lost = estimate_pairs(
        snapshot, family, large,
        threshold=threshold, method=method, found_by="another bucket", seed=seed,
    )  # fmt: skip
    return None if lost is None else lost + left_out.copy_pairs


_KNOWN: WeakKeyDictionary[OpenIndex, tuple[EdgeState, float, Loss]] = WeakKeyDictionary()
"""The loss last computed for an open index, with its state and level."""


def remember_loss(store: OpenIndex, state: EdgeState, loss: Loss) -> None:
    """Keep the loss of stored pairs that are about to be committed, for the next question."""
    _KNOWN[store] = (replace(state, recall_lost=loss.share), state.threshold, loss)


def loss_of_stored(store: OpenIndex, family: Family, threshold: float | None) -> Loss | None:
    """Estimate the stored pairs that large buckets hide; see :meth:`lshdb.Index.loss`."""
    lowest = level_of(store.params, threshold)
    with store.reading() as snapshot:
        state = snapshot.edges.state()
        if state is None:
            return None
        if not state.hot_buckets:
            return Loss(0.0, 0.0, 0.0, 0.0, True, 0)
        lowest = max(lowest, state.threshold)
        remembered = _KNOWN.get(store)
        if remembered is None or remembered[:2] != (state, lowest):
            loss = stored_loss(snapshot, family, state, threshold=lowest)
            if loss is None:
                return None
            remembered = _KNOWN[store] = (state, lowest, loss)
        return remembered[2]


def stored_loss(
    snapshot: IndexState,
    family: Family,
    state: EdgeState,
    *,
    threshold: float,
    tables: EdgeReader | None = None,
    seed: int = 0,
) -> Loss | None:
    """Estimate the pairs that are missing because large buckets were joined through leaders.

    Parameters
    ----------
    snapshot : IndexState
    family : Family
    state : EdgeState
        State of those pairs; later documents are ignored.
    threshold : float
        At least that of the state.
    tables : EdgeReader, optional
        Tables of the pairs, if they are not committed yet.
    seed : int

    Returns
    -------
    Loss or None
        None if there are neither rows nor texts to compare. One pass over the postings and over the
        stored pairs.
    """
    if state.max_bucket is None:
        return Loss(0.0, 0.0, 0.0, 0.0, True, 0)
    tables = snapshot.edges if tables is None else tables
    counts = DocumentCounts.of(snapshot)
    counts.held[state.n_signatures :] = 0
    large = PairFrame(counts)
    for _ in survey(snapshot, bands=family.params.bands, above=state.max_bucket, large=large):
        pass
    lost = estimate_pairs(
        snapshot, family, large,
        threshold=threshold, method=state.method, found_by=tables, seed=seed,
    )  # fmt: skip
    if lost is None:
        return None
    n_verified = counts.pairs_of_copies()
    for edges in tables.edges(threshold):
        n_verified += int((counts.held[edges.left] * counts.held[edges.right]).sum())
    return loss_of(lost, PairCount(n_verified, n_verified, n_verified, True, 0))


def estimate_pairs(
    snapshot: IndexState,
    family: Family,
    frame: PairFrame,
    *,
    threshold: float,
    method: str,
    found_by: EdgeReader | str,
    seed: int = 0,
) -> PairCount | None:
    """Estimate the pairs of documents at the threshold in some buckets that are not found.

    Parameters
    ----------
    snapshot : IndexState
    family : Family
    frame : PairFrame
        The buckets.
    threshold : float
    method : {"none", "signature", "exact"}
    found_by : EdgeReader or {"another bucket", "nothing"}
        A pair is found if it is stored, or shares a bucket that is not in the frame, or never.
    seed : int
        Another seed draws other pairs.

    Returns
    -------
    PairCount or None
        None if there are neither rows nor texts to compare.
    """
    if not snapshot.has_signatures and not family.params.keeps_texts:
        return None
    return _LostPairs(snapshot, family, frame, threshold, method, found_by, seed).amount()


class _LostPairs:
    """One estimate."""

    def __init__(
        self,
        snapshot: IndexState,
        family: Family,
        frame: PairFrame,
        threshold: float,
        method: str,
        found_by: EdgeReader | str,
        seed: int,
    ) -> None:
        self._snapshot = snapshot
        self._family = family
        self._params = family.params
        self._counts = frame.counts
        self._keys, self._sizes, self._masses = frame.columns()
        self._threshold = threshold
        self._method = method
        self._found_by = found_by
        # Pairs whose texts are not read cost only their signatures.
        self._most_kept = VERIFIED if method == "exact" else 10 * VERIFIED
        self._random = np.random.default_rng([seed, family.params.seed])

    def amount(self) -> PairCount:
        buckets = np.flatnonzero(self._masses > 0)
        if not len(buckets):
            return PairCount(0.0, 0.0, 0.0, True, 0)
        most = COUNTED if self._snapshot.has_signatures else COUNTED // 100
        if int((self._sizes[buckets] * (self._sizes[buckets] - 1) // 2).sum()) <= most:
            return self._counted(buckets)
        return self._sampled(buckets)

    # All pairs

    def _counted(self, chosen: Ids) -> PairCount:
        """Compare all pairs by signature; draw a sample of the pairs whose texts must be read."""
        names = [np.empty(0, dtype=np.uint64)]
        for start in range(0, len(chosen), _KEYS):
            buckets = self._read(self._keys[chosen[start : start + _KEYS]])
            for left, right, _ in pairs_of_buckets(buckets):
                names.append(_named(left, right))
        left, right = _ends(distinct(np.concatenate(names)))
        is_pair = self._counts.pairs(left, right) > 0
        left, right = left[is_pair], right[is_pair]
        keep, _ = self._screened(left, right)
        left, right = left[keep], right[keep]
        weights = self._counts.pairs(left, right).astype(np.float64)
        if len(left) <= self._most_verified(left, right):
            value = float(weights[self._are_pairs(left, right)].sum())
            return PairCount(value, value, value, True, 0)
        # In proportion to the pairs of documents, so that each draw stands for the same number.
        n = self._most_verified(left, right)
        places = np.searchsorted(np.cumsum(weights), self._random.random(n) * weights.sum())
        n_hits = int(self._are_pairs(left[places], right[places]).sum())
        weight = weights.sum() / n
        value, low, high = interval(np.full(n_hits, weight), weight)
        return PairCount(value, low, min(high, float(weights.sum())), False, n)

    # A sample

    def _sampled(self, buckets: Ids) -> PairCount:
        classes = np.log2(self._sizes[buckets]).astype(np.int64) // 2
        strata = [buckets[classes == stratum] for stratum in distinct(classes).tolist()]
        hits, largest, n_sampled = [], 0.0, 0
        for places in strata:
            weights, most, n = self._stratum(places, len(strata))
            hits.append(weights)
            largest = max(largest, most)
            n_sampled += n
        value, low, high = interval(np.concatenate(hits), largest)
        return PairCount(
            value, low, min(high, float(self._masses[buckets].sum())), False, n_sampled
        )

    def _stratum(self, places: Ids, n_strata: int) -> tuple[NDArray[np.float64], float, int]:
        """Return weights of the hits, the largest possible weight, and the number of draws."""
        draws = _Draws(self, places, _READ // n_strata)
        n_wanted = max(self._most_kept // n_strata, 200)
        n_most = DRAWN // n_strata if self._snapshot.has_signatures else n_wanted
        columns: list[tuple[Ids, Ids, NDArray[np.float64], Ids]] = []
        n, n_found = 0, 0
        while n < n_most and n_found < n_wanted:
            left, right, units = draws.take(n)
            n += len(left)
            differ = np.flatnonzero(left != right)
            left, right, units = left[differ], right[differ], units[differ]
            keep, shared = self._screened(left, right)
            left, right, units = left[keep], right[keep], units[keep]
            documents, new = self._counts.held, self._counts.new
            often = new[left] * documents[right] + new[right] * documents[left]
            values = self._counts.pairs(left, right) / (often * shared)
            columns.append((left, right, values, units))
            n_found += len(left)
        left, right, values, units = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        n_read = 2 * n_wanted
        if self._method == "exact":
            n_read = 1 + self._most_verified(left, right) // n_strata
        thinned = 1.0
        if n_read < len(left):
            chosen = np.sort(np.argsort(self._random.random(len(left)))[:n_read])
            left, right, units = left[chosen], right[chosen], units[chosen]
            values, thinned = values[chosen], n_found / n_read
        hit = self._are_pairs(left, right)
        weight = draws.mass / n * thinned
        _, unit = np.unique(units[hit], return_inverse=True)
        totals = np.bincount(unit.reshape(-1), weights=values[hit] * weight).astype(np.float64)
        # A pair is drawn either way round, and then counts half; with new documents it may not.
        of_draw = 0.5 if self._counts.new is self._counts.held else 1.0
        return totals, weight * of_draw * draws.n_of_unit(n), n

    def draw(self, n: int) -> NDArray[np.float64]:
        """Return random numbers from 0 up to 1."""
        return self._random.random(n)

    # Pairs

    def _screened(self, left: Ids, right: Ids) -> tuple[NDArray[np.bool_], Ids]:
        """Return which pairs their signatures let pass, and in how many buckets each is."""
        keep = np.zeros(len(left), dtype=bool)
        shared = [np.empty(0, dtype=np.int64)]
        for start in range(0, len(left), _MOST_DRAWS):
            part = slice(start, start + _MOST_DRAWS)
            keep[part], n_shared = self._screened_some(left[part], right[part])
            shared.append(n_shared)
        return keep, np.concatenate(shared)

    def _screened_some(self, left: Ids, right: Ids) -> tuple[NDArray[np.bool_], Ids]:
        rows, places = rows_among(self._snapshot, self._family, np.concatenate([left, right]))
        left_rows, right_rows = places[: len(left)], places[len(left) :]
        agreement = compare_rows(rows, left_rows, rows, right_rows, **self._params.cut)
        _, suffices = estimate(
            agreement, self._params, method=self._method, threshold=self._threshold
        )
        keep = np.flatnonzero(suffices & (agreement.matched > 0))
        agree = matching_bands(rows[left_rows[keep]], rows[right_rows[keep]], **self._params.cut)
        keys = bucket_keys(rows[left_rows[keep]], **self._params.cut)
        is_inside = np.zeros_like(agree)
        is_inside[agree] = contains(self._keys, keys[agree])
        shared = is_inside.sum(axis=1)
        lost = shared > 0
        if self._found_by == "another bucket":
            lost &= (is_inside == agree).all(axis=1)
        elif not isinstance(self._found_by, str):
            lost &= ~self._found_by.contain(left[keep], right[keep], self._threshold)
        mask = np.zeros(len(left), dtype=bool)
        mask[keep[lost]] = True
        return mask, shared[lost]

    def _are_pairs(self, left: Ids, right: Ids) -> NDArray[np.bool_]:
        """Return which pairs that passed their signatures are at the threshold."""
        if self._method != "exact" or not len(left):
            return np.ones(len(left), dtype=bool)
        drawn = _named(left, right)
        names = distinct(drawn)
        edges = Edges(*_ends(names), np.zeros(len(names)))
        levels = levels_between(self._snapshot, self._family, most_bytes=_MEMORY)
        hashes = [np.empty(0, dtype=np.uint64)]
        for verified in check_exactly(levels, edges, self._threshold):
            hashes.append(_named(verified.left, verified.right))
        result: NDArray[np.bool_] = np.isin(drawn, np.concatenate(hashes))
        return result

    def _most_verified(self, left: Ids, right: Ids) -> int:
        """Return how many of some pairs may be verified, by the cost of their texts."""
        if self._method != "exact":
            return len(left)
        if self._params.keeps_vectors or not len(left):
            return VERIFIED
        step = 1 + 2 * len(left) // 1000
        length = self._snapshot.mean_length(distinct(np.concatenate([left, right])[::step]))
        return int(min(VERIFIED, max(100, _CHARACTERS / (2 * length + 1))))

    def _read(self, keys: Ids) -> Buckets:
        """Return some buckets, with the signatures that take part."""
        has_document = (self._counts.held > 0) | (self._counts.new > 0)
        return with_members(self._snapshot.postings.grouped_of(keys), has_document)


class _Draws:
    """Pairs of documents drawn from some buckets.

    If the buckets are small together, all of them are read, and a draw is a pair. Otherwise some
    buckets are drawn, and pairs are taken from each of them in turn: a draw is a bucket.
    """

    def __init__(self, search: Any, places: Ids, most_read: int) -> None:
        self._search = search
        keys, sizes, masses = search._keys[places], search._sizes[places], search._masses[places]
        self.mass = float(masses.sum())
        self._picked: Ids | None = None
        if sizes.sum() > most_read:
            n = max(_FEWEST_BUCKETS, int(most_read / ((masses * sizes).sum() / self.mass)))
            picked = np.searchsorted(np.cumsum(masses), search.draw(n) * self.mass)
            picked = np.minimum(picked, len(keys) - 1)
            distinct_buckets, self._picked = np.unique(picked, return_inverse=True)
            self._picked = self._picked.reshape(-1)
            keys, masses = keys[distinct_buckets], masses[distinct_buckets]
        parts = [search._read(keys[at : at + _KEYS]) for at in range(0, len(keys), _KEYS)]
        self._members = np.concatenate([part.members for part in parts])
        self._ends = np.cumsum(np.concatenate([part.sizes for part in parts]))
        self._masses = np.cumsum(masses)
        self._new = np.cumsum(search._counts.new[self._members])
        self._held = np.cumsum(search._counts.held[self._members])

    def n_of_unit(self, n: int) -> int:
        """Return the pairs taken from each unit after this many draws."""
        return 1 if self._picked is None else n // len(self._picked)

    def take(self, n_before: int) -> tuple[Ids, Ids, Ids]:
        """Return (left, right, unit) of the next draws; left and right may be one signature."""
        if self._picked is None:
            n = min(_MOST_DRAWS, max(_FIRST_DRAWS, n_before))
            units = n_before + np.arange(n)
            buckets = np.searchsorted(self._masses, self._search.draw(n) * self._masses[-1])
            buckets = np.minimum(buckets, len(self._masses) - 1)
        else:
            units, buckets = np.arange(len(self._picked)), self._picked
        first = self._members[self._places(self._new, buckets)]
        second = self._members[self._places(self._held, buckets)]
        return np.minimum(first, second), np.maximum(first, second), units

    def _places(self, sums: Ids, buckets: Ids) -> Ids:
        """Draw a document of each bucket; return the place of its signature."""
        last = sums[self._ends[buckets] - 1]
        starts = self._ends[buckets - 1]
        before = np.where(buckets > 0, sums[starts - 1], 0)
        numbers = before + (self._search.draw(len(buckets)) * (last - before)).astype(np.int64)
        places: Ids = np.searchsorted(sums, numbers, side="right")
        return places


def with_members(buckets: Buckets, is_member: NDArray[np.bool_]) -> Buckets:
    """Return the buckets with only the wanted signatures (bool, shape (n_signatures,))."""
    if not len(buckets.keys):
        return buckets
    stays = is_member[buckets.members]
    starts = np.cumsum(buckets.sizes) - buckets.sizes
    sizes = np.add.reduceat(stays.astype(np.int64), starts)
    return Buckets(buckets.keys, sizes, buckets.members[stays])


def _named(left: Ids, right: Ids) -> NDArray[np.uint64]:
    """Return a number for each pair."""
    return left.astype(np.uint64) << np.uint64(32) | right.astype(np.uint64)


def _ends(names: NDArray[np.uint64]) -> tuple[Ids, Ids]:
    left, right = names >> np.uint64(32), names & np.uint64(2**32 - 1)
    return left.astype(np.int64), right.astype(np.int64)


def interval(weights: NDArray[np.float64], largest: float) -> tuple[float, float, float]:
    """Return a sum of weighted counts with the ends of its interval.

    Quantiles of chi squared are those of Wilson and Hilferty (1931): within one percent at the
    upper end; too low, hence safe, at the lower.
    """
    value, variance = float(weights.sum()), float((weights**2).sum())
    low = 0.0
    if value > 0:
        low = variance / (2 * value) * _chi_squared(2 * value**2 / variance, -_Z)
    more, spread = value + largest, variance + largest**2
    if more == 0:
        return 0.0, 0.0, 0.0
    return value, low, float(spread / (2 * more) * _chi_squared(2 * more**2 / spread, _Z))


def _chi_squared(freedom: float, deviations: float) -> float:
    part = 2 / (9 * freedom)
    return freedom * max(0.0, 1 - part + deviations * math.sqrt(part)) ** 3
