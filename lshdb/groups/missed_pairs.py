"""Documents to keep -> their near-duplicate pairs that large buckets hide.

The members of a large bucket are joined through leaders, the oldest first, so some pairs are not
stored; where another document is preferred, nearly all of them. So leaders are chosen once more, in
the order of preference: the most preferred member of a large bucket is compared with all other
documents to keep, and documents verified to be similar to it leave the comparison; then the next
member is the leader. A family of m costs m comparisons in this way, whatever is preferred.

In a round, each bucket has ``_MORE`` times as many leaders as in the round before. The documents to
keep are chosen again after each round, until all of them are compared. In buckets that boilerplate
makes, thousands of unlike documents remain, and the cost would be quadratic. So ``MOST_PAIRS``
pairs are compared in all, which takes some seconds, besides those of the first leader of each
bucket. The number of pairs that the rest hides is estimated (``loss.py``).

Documents are compared by units, the groups of documents that every pair treats alike
(``agreed_units.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.groups.agreed_units import Units
from lshdb.search.agreement import Agreement
from lshdb.search.candidates import contains
from lshdb.search.exact_levels import ExactLevels, check_exactly, levels_between
from lshdb.search.loss import DocumentCounts, PairCount, PairFrame, estimate_pairs, survey
from lshdb.search.verification import estimate
from lshdb.signatures.banding import bucket_keys, compare_rows
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import Edges, EdgeState
from lshdb.storage.transactions.index_state import IndexState

__all__ = ["MOST_PAIRS", "LeaderBuckets", "MissedPairs"]

MOST_PAIRS = 32_000_000
"""Pairs to compare by signature: 0.15 to 0.4 us each."""
_MORE = 4
"""The factor by which leaders of a bucket grow with each round; the first round has one."""
_BLOCK_PAIRS = 65_536
_READ = 1_000_000
"""Postings to read at a time."""
_MEMORY = 64 * 2**20

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LeaderBuckets:
    """The large buckets, whose members were joined through leaders.

    Attributes
    ----------
    keys, sizes : ndarray of int64, shape (n,)
        In order of key.
    members : ndarray of int64, shape (m,)
        The signatures in them, sorted, each once.
    """

    keys: Ids
    sizes: Ids
    members: Ids

    @classmethod
    def of(cls, snapshot: IndexState, family: Family, state: EdgeState) -> LeaderBuckets:
        """Find them in one pass over the postings; read nothing if the state has none."""
        keys, sizes = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        is_member = np.zeros(snapshot.n_signatures, dtype=bool)
        if state.max_bucket is not None and state.hot_buckets:
            for buckets in survey(snapshot, bands=family.params.bands, above=state.max_bucket):
                keys.append(buckets.keys)
                sizes.append(buckets.sizes)
                is_member[buckets.members] = True
        is_member[state.n_signatures :] = False
        all_keys = np.concatenate(keys)
        order = np.argsort(all_keys)
        return cls(all_keys[order], np.concatenate(sizes)[order], np.flatnonzero(is_member))


@dataclass(slots=True)
class _Compared:
    """The leaders of one bucket so far.

    Attributes
    ----------
    leaders : ndarray of int64
        Units that were compared with all units to keep in their round.
    rounds : ndarray of int64
        The round of each.
    last : int
        The last round that looked into the bucket.
    """

    leaders: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rounds: Ids = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    last: int = 0


class MissedPairs:
    """Finds near-duplicates among documents that are to be kept.

    Parameters
    ----------
    snapshot : IndexState
        The state to read.
    family : Family
        Its hash functions.
    state : EdgeState
        State of the stored pairs.
    large : LeaderBuckets
        The large buckets.
    units : Units
        Units, with all members of the large buckets.
    order, counts : ndarray of int64
        The units, the preferred ones first; by unit, how many of its documents are kept if it is.
    threshold : float
        The lowest level of a pair; not below that of the state.
    agreement : Agreement, optional
        Count only pairs that it allows.
    is_old : ndarray of bool, optional
        Whether a unit has a document that may not be dropped. Then only pairs of an old unit and
        another one count.
    """

    def __init__(
        self,
        snapshot: IndexState,
        family: Family,
        state: EdgeState,
        large: LeaderBuckets,
        units: Units,
        order: Ids,
        counts: Ids,
        *,
        threshold: float,
        agreement: Agreement | None = None,
        is_old: Mask | None = None,
    ) -> None:
        self._snapshot, self._family, self._state = snapshot, family, state
        self._large, self._threshold, self._is_old = large, threshold, is_old
        self._members = _BucketUnits(snapshot, large, units, counts, agreement)
        n = len(units.signature_ids)
        self._rank = np.full(n, n, dtype=np.int64)
        self._rank[order] = np.arange(len(order))
        takes_part = self._rank < n
        takes_part &= units.signature_ids < state.n_signatures
        # A pair has a unit that may be dropped, and one that it may be dropped for.
        self._may_go = takes_part if is_old is None else takes_part & ~is_old
        self._may_lead = takes_part if is_old is None else takes_part & is_old
        # The last round in which a unit was similar to a leader or not to be kept; and the last one
        # in which it was not to be kept, and so not compared.
        self._away = np.zeros(n, dtype=np.int64)
        self._gone = np.zeros(n, dtype=np.int64)
        self._is_open = np.full(len(large.keys), snapshot.has_signatures)
        self._sizes = large.sizes.copy()
        self._compared: dict[int, _Compared] = {}
        self._round, self._spent = 0, 0

    def among(self, gone: Ids) -> Edges:
        """Return pairs at the threshold of units to keep, of one round or more.

        An empty result means that no more pairs can be found.

        Parameters
        ----------
        gone : ndarray of int64
            The units that are not to be kept.
        """
        is_gone = np.zeros(len(self._rank), dtype=bool)
        is_gone[gone] = True
        revived = np.flatnonzero((self._gone == self._round) & ~is_gone & (self._round > 0))
        if self._snapshot.has_signatures and len(revived):
            # Look again into the buckets of units that are to be kept after all.
            ids = distinct(self._members.signature_ids[revived])
            keys = bucket_keys(self._snapshot.signatures[ids], **self._family.params.cut)
            self._is_open |= np.isin(self._large.keys, keys)
        while self._is_open.any():
            self._round += 1
            self._away[gone] = self._gone[gone] = self._round
            spent = self._spent
            edges = _joined(list(self._of_round(is_gone)))
            if len(edges):
                return edges
            if self._spent == spent and self._round > 1:
                break
        return _NONE

    def unchecked(self, gone: Ids) -> PairCount | None:
        """Estimate the near-duplicate pairs of units to keep in buckets that were not compared."""
        is_left = np.ones(len(self._rank), dtype=bool)
        is_left[gone] = False
        is_hidden = self._is_open if self._snapshot.has_signatures else self._sizes > 0
        places = np.flatnonzero(is_hidden)
        if not len(places):
            return None
        frame = PairFrame(self._members.counts(self._may_lead & is_left, self._may_go & is_left,
                                               is_same=self._is_old is None))  # fmt: skip
        for chunk in self._chunks(places):
            frame.add(self._snapshot.postings.grouped_of(np.sort(self._large.keys[chunk])))
        hidden = estimate_pairs(
            self._snapshot, self._family, frame,
            threshold=self._threshold, method=self._state.method, found_by="another bucket",
        )  # fmt: skip
        if hidden is None:  # there is nothing to compare: no pair, or all of them
            hidden = PairCount(0.0, 0.0, float(frame.columns()[2].sum()), False, 0)
        return hidden if hidden.high > 0 else None

    @functools.cached_property
    def _levels(self) -> ExactLevels:
        return levels_between(self._snapshot, self._family, most_bytes=_MEMORY)

    def _of_round(self, is_gone: Mask) -> Iterator[Edges]:
        """Compare the next leaders of each open bucket, buckets with preferred members first.

        In another order, a leader would be compared with many documents before it is dropped
        itself. If not all buckets can have so many leaders, the smallest ones have them.
        """
        most = _MORE ** min(self._round - 1, 15)
        best = np.full(len(self._sizes), len(self._rank))
        self._sizes[self._is_open] = 0
        for place, units in self._units_of(np.flatnonzero(self._is_open), is_gone):
            self._sizes[place] = len(units)
            best[place] = self._rank[units].min(initial=len(self._rank))
        self._is_open &= self._sizes > 1
        places = np.flatnonzero(self._is_open)
        places = places[np.argsort(self._sizes[places], kind="stable")]
        if self._round > 1:
            costs = np.minimum(most, self._sizes[places]) * self._sizes[places]
            places = places[: max(1, np.searchsorted(np.cumsum(costs), MOST_PAIRS - self._spent))]
        for place, units in self._units_of(places[np.argsort(best[places])], is_gone):
            units = units[np.argsort(self._rank[units])]
            compared = self._compared.setdefault(place, _Compared())
            parts = [
                self._of_group(group, compared, most)
                for group in self._members.groups(units, self._is_old)
            ]
            compared.last = self._round
            self._is_open[place] = any(is_open for _, is_open in parts)
            yield from (edges for edges, _ in parts)

    def _units_of(self, places: Ids, is_gone: Mask) -> Iterator[tuple[int, Ids]]:
        """Yield large buckets by place, in the order given, each with its units to keep."""
        for chunk in self._chunks(places):
            keys = self._large.keys[chunk]
            buckets = self._snapshot.postings.grouped_of(np.sort(keys))
            ends = np.cumsum(buckets.sizes)
            numbers = np.searchsorted(buckets.keys, keys)
            for place, number in zip(chunk.tolist(), numbers.tolist(), strict=True):
                members = buckets.members[ends[number] - buckets.sizes[number] : ends[number]]
                units = self._members.units(members)
                yield place, units[~is_gone[units] & (self._rank[units] < len(self._rank))]

    def _of_group(self, units: Ids, compared: _Compared, most: int) -> tuple[Edges, bool]:
        """Compare the next leaders of a group of units; also return whether there are more.

        Parameters
        ----------
        units : ndarray of int64
            Units of one bucket, in order of preference.
        compared : _Compared
            The leaders of the bucket so far.
        most : int
            Most leaders to compare.
        """
        current = np.flatnonzero(self._gone[compared.leaders] < compared.rounds)
        has_led = np.isin(units, compared.leaders[current])
        edges = [_NONE]
        # Units that were away when others led are compared with those leaders first.
        late = units[self._may_go[units] & ~has_led & (self._away[units] >= compared.last)]
        late = late[self._away[late] < self._round]
        former = units[has_led]
        if compared.last and len(late) and len(former):
            step = max(1, _BLOCK_PAIRS // len(late))
            for start in range(0, len(former), step):
                late = late[self._away[late] < self._round]
                if not self._may_spend(len(late) * len(former[start : start + step])):
                    self._away[late] = self._round
                    return _joined(edges), True
                edges.append(self._similar(former[start : start + step], late))
        is_first, at_once = not compared.last, 1
        fresh = units[~has_led & self._may_lead[units]]
        rest = units[~has_led & self._may_go[units]]
        while True:
            if self._is_old is None:
                fresh = fresh[self._away[fresh] < self._round]
                rest = fresh
            else:
                rest = rest[self._away[rest] < self._round]
            if not len(fresh) or not len(rest) or (self._is_old is None and len(rest) < 2):
                break
            leaders = fresh[: min(most, at_once)]
            n_pairs = len(leaders) * len(rest)
            if not (is_first or self._may_spend(n_pairs)) or not len(leaders):
                return _joined(edges), True
            similar = self._similar(leaders, rest)
            edges.append(similar)
            compared.leaders = np.concatenate([compared.leaders, leaders])
            compared.rounds = np.append(compared.rounds, np.full(len(leaders), self._round))
            fresh, most, is_first = fresh[len(leaders) :], most - len(leaders), False
            is_rewarding = len(similar) * _MORE > len(rest)
            at_once = 1 if is_rewarding else min(2 * at_once, 1 + _BLOCK_PAIRS // len(rest))
        away = units[self._away[units] == self._round]
        return _joined(edges), bool(len(away))

    def _may_spend(self, n_pairs: int) -> bool:
        """Return whether so many more pairs may be compared; if so, count them."""
        if self._spent + n_pairs > MOST_PAIRS:
            return False
        self._spent += n_pairs
        return True

    def _similar(self, leaders: Ids, rest: Ids) -> Edges:
        """Compare leaders with the rest and with each other; mark the similar units as away."""
        edges = [_NONE]
        step = max(1, _BLOCK_PAIRS // len(leaders))
        for start in range(0, len(rest), step):
            block = rest[start : start + step]
            left = np.repeat(leaders, len(block))
            right = np.tile(block, len(leaders))
            # A leader is compared only with units after it.
            keep = self._rank[left] < self._rank[right] if self._is_old is None else left != right
            if not keep.all():
                left, right = left[keep], right[keep]
            edges.append(self._verified(left, right))
        pairs = _joined(edges)
        less = np.where(self._rank[pairs.left] > self._rank[pairs.right], pairs.left, pairs.right)
        self._away[less] = self._round
        return pairs

    def _verified(self, left: Ids, right: Ids) -> Edges:
        """Return the pairs that are allowed, similar enough, and in a common bucket."""
        params = self._family.params
        keep = self._members.allowed(left, right)
        left, right = left[keep], right[keep]
        if not len(left):
            return _NONE
        ids1, ids2 = self._members.signature_ids[left], self._members.signature_ids[right]
        rows, places = self._snapshot.signatures.among(np.concatenate([ids1, ids2]))
        agreement = compare_rows(rows, places[: len(ids1)], rows, places[len(ids1) :], **params.cut)
        levels, suffices = estimate(
            agreement, params, method=self._state.method, threshold=self._threshold
        )
        keep = suffices & (agreement.matched > 0)
        left, right, levels = left[keep], right[keep], levels[keep]
        if self._state.method == "exact" and len(left):
            ids1, ids2 = ids1[keep], ids2[keep]
            names, place = np.unique(
                np.minimum(ids1, ids2) << 32 | np.maximum(ids1, ids2), return_inverse=True
            )
            pairs = Edges(names >> 32, names & (2**32 - 1), np.zeros(len(names)))
            exact = np.full(len(names), -np.inf)
            for edges in check_exactly(self._levels, pairs, self._threshold):
                exact[np.searchsorted(names, edges.left << 32 | edges.right)] = edges.similarities
            levels = exact[place.reshape(-1)]
            keep = levels >= self._threshold
            left, right, levels = left[keep], right[keep], levels[keep]
        return Edges(np.minimum(left, right), np.maximum(left, right), levels)

    def _chunks(self, places: Ids) -> Iterator[Ids]:
        """Cut buckets, by place, into chunks of a million postings, in the order given."""
        parts = np.cumsum(self._large.sizes[places]) // _READ
        for part in distinct(parts).tolist():
            yield places[parts == part]


class _BucketUnits:
    """The units in large buckets, and which of their pairs count.

    Attributes
    ----------
    signature_ids : ndarray of int64
        The signature of each unit.
    """

    def __init__(
        self,
        snapshot: IndexState,
        large: LeaderBuckets,
        units: Units,
        counts: Ids,
        agreement: Agreement | None,
    ) -> None:
        self.signature_ids = units.signature_ids
        self._n_signatures = snapshot.n_signatures
        self._counts, self._agreement = counts, agreement
        self._codes: list[Ids] = []
        if agreement is None or not len(large.keys):
            return
        for column in zip(*units.profiles, strict=True):
            codes = {"": 0}
            for value in column:
                codes.setdefault(value, len(codes))
            self._codes.append(np.array([codes[value] for value in column], dtype=np.int64))
        self._order = np.argsort(self.signature_ids, kind="stable")
        ordered = self.signature_ids[self._order]
        self._starts = np.searchsorted(ordered, np.arange(self._n_signatures + 1))

    def units(self, signature_ids: Ids) -> Ids:
        """Return the units of signatures."""
        if self._agreement is None:
            ids = signature_ids[contains(self.signature_ids, signature_ids)]
            return np.searchsorted(self.signature_ids, ids)
        _, places = self._spread(signature_ids)
        return self._order[places]

    def _spread(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return the units of signatures: the place of each one's signature, and its own place."""
        starts = self._starts[signature_ids]
        counts = self._starts[signature_ids + 1] - starts
        whose = np.repeat(np.arange(len(counts)), counts)
        return whose, np.arange(len(whose)) + (starts - np.cumsum(counts) + counts)[whose]

    def allowed(self, left: Ids, right: Ids) -> Mask:
        """Return whether the fields of each pair agree, and its signatures differ."""
        agreement = self._agreement
        if agreement is None:
            return np.ones(len(left), dtype=bool)
        allowed: Mask = self.signature_ids[left] != self.signature_ids[right]
        return allowed & self._agree(left, right)

    def _agree(self, left: Ids, right: Ids) -> Mask:
        n_agree = len(self._agreement.agree) if self._agreement is not None else 0
        agree, differ = np.ones(len(left), dtype=bool), np.zeros(len(left), dtype=bool)
        for number, codes in enumerate(self._codes):
            codes1, codes2 = codes[left], codes[right]
            differs = (codes1 != codes2) & (codes1 > 0) & (codes2 > 0)
            if number < n_agree:
                agree &= ~differs
            else:
                differ |= differs
        return agree & differ if len(self._codes) > n_agree else agree

    def groups(self, units: Ids, is_old: Mask | None) -> Iterator[Ids]:
        """Cut the units of a bucket into groups, so that no pair of two groups counts.

        Units that are in no pair that counts are left out.
        """
        if len(units) < 2:
            return
        if self._agreement is None:
            yield units
            return
        n_agree = len(self._agreement.agree)
        if len(self._codes) > n_agree:  # keep units that differ from another one with the field
            differs = np.zeros(len(units), dtype=bool)
            for codes in self._codes[n_agree:]:
                own = codes[units]
                present = own[own > 0]
                if len(present) and (present != present[0]).any():
                    differs |= own > 0
            units = units[differs]
        group = np.zeros(len(units), dtype=np.int64)
        for codes in self._codes[:n_agree]:
            own = codes[units]
            if len(own) and own.all():
                _, group = np.unique(group * (own.max() + 1) + own, return_inverse=True)
        order = np.argsort(group, kind="stable")
        for part in np.split(units[order], np.flatnonzero(np.diff(group[order])) + 1):
            if len(part) > 1 and (is_old is None or 0 < is_old[part].sum() < len(part)):
                yield part

    def counts(self, may_lead: Mask, may_go: Mask, *, is_same: bool) -> DocumentCounts:
        """Count the documents to keep of each signature."""
        leads, goes = self._counts * may_lead, self._counts * may_go
        all_counts, new_counts = (
            np.bincount(self.signature_ids, weights=weights, minlength=self._n_signatures)
            .astype(np.int64)
            for weights in (leads, goes)
        )  # fmt: skip
        if is_same:
            new_counts = all_counts
        if self._agreement is None:
            return DocumentCounts(all_counts, new_counts)
        return _AgreedCounts(all_counts, new_counts, self, leads, goes)


@dataclass(frozen=True, slots=True)
class _AgreedCounts(DocumentCounts):
    """Counts of documents where fields decide which pairs count."""

    members: _BucketUnits
    leads: Ids
    goes: Ids

    def pairs(self, left: Ids, right: Ids) -> Ids:
        """Return, for each pair of signatures, the number of pairs of documents that agree."""
        members = self.members
        n_pairs = np.zeros(len(left), dtype=np.int64)
        whose, places = members._spread(left)
        starts = members._starts
        size = int((starts[right + 1] - starts[right]).max(initial=0))
        step = max(1, 2**20 // max(1, size))
        for first in range(0, len(whose), step):
            block = whose[first : first + step]
            number, places2 = members._spread(right[block])
            units1 = members._order[places[first : first + step]][number]
            units2 = members._order[places2]
            weights = self.leads[units1] * self.goes[units2]
            if self.new is not self.held:
                weights += self.goes[units1] * self.leads[units2]
            weights *= members._agree(units1, units2)
            np.add.at(n_pairs, block[number], weights)
        return n_pairs


_NONE = Edges(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


def _joined(parts: list[Edges]) -> Edges:
    parts = [_NONE, *parts]
    return Edges(
        np.concatenate([edges.left for edges in parts]),
        np.concatenate([edges.right for edges in parts]),
        np.concatenate([edges.similarities for edges in parts]),
    )
