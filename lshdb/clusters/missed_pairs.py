"""Documents that would be kept -> near-duplicate pairs of them that large buckets hide.

The documents of large buckets are joined through leaders that come first by age, so the stored
pairs may lack some, and nearly all where another document is preferred. So leaders are chosen once
more, by the order in which documents are kept: the most preferred member of a large bucket is
compared with all others that would be kept, and what is verified to be similar takes no further
part; then the next one is. A family of m costs m comparisons in this way, whatever is preferred.

In a round, each bucket has ``_MORE`` times as many leaders as in the round before. The documents to
keep are chosen again after each round, until all that are kept are compared. Boilerplate makes
buckets in which thousands of unlike documents remain, which would make that quadratic. So
``MOST_PAIRS`` pairs are compared in all, which takes some seconds, beside those of the first leader
of each bucket. How many pairs the rest hides is estimated (``loss.py``).

A unit is what a signature is in the other modules: the documents that are alike in every pair
(``agreed_units.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.clusters.agreed_units import Units
from lshdb.search.agreement import Agreement
from lshdb.search.exact_levels import ExactLevels, check_exactly, levels_between
from lshdb.search.loss import DocumentCounts, PairCount, PairFrame, estimate_pairs, survey
from lshdb.search.verification import estimate
from lshdb.signatures.banding import bucket_keys, compare_rows
from lshdb.signatures.family import Family
from lshdb.storage.tables.edges import Edges, EdgeState
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["MOST_PAIRS", "LargeBuckets", "MissedPairs"]

MOST_PAIRS = 32_000_000
"""Compared by signature: 0.15 to 0.4 us each."""
_MORE = 4
"""How many times as many leaders a bucket has with each round; the first round has one."""
_BLOCK_PAIRS = 65_536
_READ = 1_000_000
"""Postings that are read at a time."""
_MEMORY = 64 * 2**20

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LargeBuckets:
    """The buckets that were joined through leaders.

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
    def of(cls, snapshot: Snapshot, family: Family, state: EdgeState) -> LargeBuckets:
        """Find them in one pass over the postings; nothing is read if there were none."""
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
    """What was compared in one bucket.

    Attributes
    ----------
    leaders : ndarray of int64
        Units that were compared with all others that were to be kept at the time.
    rounds : ndarray of int64
        When.
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
    snapshot : Snapshot
    family : Family
    state : EdgeState
        State of the stored pairs.
    large : LargeBuckets
    units : Units
        With all members of the large buckets.
    order, counts : ndarray of int64
        The units, the preferred ones first; by unit, how many of its documents are kept if it is.
    threshold : float
        At least that of the state.
    agreement : Agreement, optional
        Only pairs that it allows.
    is_old : ndarray of bool, optional
        Which units have a document from before those that may be dropped: only pairs of an old unit
        and another one.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        family: Family,
        state: EdgeState,
        large: LargeBuckets,
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
        self._members = _Members(snapshot, large, units, counts, agreement)
        n = len(units.signature_ids)
        self._rank = np.full(n, n, dtype=np.int64)
        self._rank[order] = np.arange(len(order))
        takes_part = self._rank < n
        takes_part &= units.signature_ids < state.n_signatures
        # A pair has a unit that may be dropped, and one that it may be dropped for.
        self._may_go = takes_part if is_old is None else takes_part & ~is_old
        self._may_lead = takes_part if is_old is None else takes_part & is_old
        # When a unit was last found to be similar to a leader or not to be kept, and when the
        # latter, so that it was not compared.
        self._away = np.zeros(n, dtype=np.int64)
        self._gone = np.zeros(n, dtype=np.int64)
        self._is_open = np.full(len(large.keys), snapshot.has_signatures)
        self._sizes = large.sizes.copy()
        self._compared: dict[int, _Compared] = {}
        self._round, self._spent = 0, 0

    def among(self, gone: Ids) -> Edges:
        """Return pairs of units at the threshold among all but some, of one round or more.

        None are left that could be found if there is none.
        """
        is_gone = np.zeros(len(self._rank), dtype=bool)
        is_gone[gone] = True
        if self._snapshot.has_signatures:
            revived = np.flatnonzero((self._gone == self._round) & ~is_gone & (self._round > 0))
            self._reopen(revived)
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
        """Estimate near-duplicate pairs of the rest in the buckets that were not compared."""
        is_left = np.ones(len(self._rank), dtype=bool)
        is_left[gone] = False
        is_hidden = self._is_open if self._snapshot.has_signatures else self._sizes > 0
        places = np.flatnonzero(is_hidden)
        if not len(places):
            return None
        frame = PairFrame(self._members.counts(self._may_lead & is_left, self._may_go & is_left,
                                               is_same=self._is_old is None))  # fmt: skip
        for some in self._chunks(places):
            frame.add(self._snapshot.postings.grouped_of(np.sort(self._large.keys[some])))
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

    def _reopen(self, units: Ids) -> None:
        """Look again into the buckets of units that are to be kept after all."""
        if len(units):
            ids = distinct(self._members.signature_ids[units])
            keys = bucket_keys(self._snapshot.signatures[ids], **self._family.params.cut)
            self._is_open |= np.isin(self._large.keys, keys)

    def _of_round(self, is_gone: Mask) -> Iterator[Edges]:
        """Compare the next leaders of each bucket that is not done with, the preferred ones first.

        Otherwise a leader would be compared with many documents before it is dropped itself. Where
        not all buckets can have as many leaders, the smallest have.
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
        """Yield some large buckets, in the order given, with their units that are to be kept."""
        for some in self._chunks(places):
            keys = self._large.keys[some]
            buckets = self._snapshot.postings.grouped_of(np.sort(keys))
            ends = np.cumsum(buckets.sizes)
            numbers = np.searchsorted(buckets.keys, keys)
            for place, number in zip(some.tolist(), numbers.tolist(), strict=True):
                members = buckets.members[ends[number] - buckets.sizes[number] : ends[number]]
                units = self._members.units(members)
                yield place, units[~is_gone[units] & (self._rank[units] < len(self._rank))]

    def _of_group(self, units: Ids, compared: _Compared, most: int) -> tuple[Edges, bool]:
        """Compare the next leaders of some units of a bucket; return also whether there are more.

        Parameters
        ----------
        units : ndarray of int64
            In order of preference.
        compared : _Compared
        most : int
            Leaders.
        """
        current = np.flatnonzero(self._gone[compared.leaders] < compared.rounds)
        done = compared.leaders[current]
        is_done = np.isin(units, done)
        edges = [_NONE]
        # What was away when others led is compared with them first.
        late = units[self._may_go[units] & ~is_done & (self._away[units] >= compared.last)]
        late = late[self._away[late] < self._round]
        done = units[is_done]
        if compared.last and len(late) and len(done):
            step = max(1, _BLOCK_PAIRS // len(late))
            for start in range(0, len(done), step):
                late = late[self._away[late] < self._round]
                if not self._may_spend(len(late) * len(done[start : start + step])):
                    self._away[late] = self._round
                    return _joined(edges), True
                edges.append(self._similar(done[start : start + step], late))
        is_first, at_once = not compared.last, 1
        fresh = units[~is_done & self._may_lead[units]]
        rest = units[~is_done & self._may_go[units]]
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
            found = self._similar(leaders, rest)
            edges.append(found)
            compared.leaders = np.concatenate([compared.leaders, leaders])
            compared.rounds = np.append(compared.rounds, np.full(len(leaders), self._round))
            fresh, most, is_first = fresh[len(leaders) :], most - len(leaders), False
            is_rewarding = len(found) * _MORE > len(rest)
            at_once = 1 if is_rewarding else min(2 * at_once, 1 + _BLOCK_PAIRS // len(rest))
        away = units[self._away[units] == self._round]
        return _joined(edges), bool(len(away))

    def _may_spend(self, n_pairs: int) -> bool:
        """Return whether so many pairs may be compared; then they are counted."""
        if self._spent + n_pairs > MOST_PAIRS:
            return False
        self._spent += n_pairs
        return True

    def _similar(self, leaders: Ids, rest: Ids) -> Edges:
        """Compare leaders with the rest, and each other; those found similar are away."""
        edges = [_NONE]
        step = max(1, _BLOCK_PAIRS // len(leaders))
        for start in range(0, len(rest), step):
            others = rest[start : start + step]
            left = np.repeat(leaders, len(others))
            right = np.tile(others, len(leaders))
            # A leader is compared with those after it alone.
            keep = self._rank[left] < self._rank[right] if self._is_old is None else left != right
            if not keep.all():
                left, right = left[keep], right[keep]
            edges.append(self._verified(left, right))
        found = _joined(edges)
        less = np.where(self._rank[found.left] > self._rank[found.right], found.left, found.right)
        self._away[less] = self._round
        return found

    def _verified(self, left: Ids, right: Ids) -> Edges:
        """Return the pairs that count: allowed, similar enough, and in a common bucket."""
        params = self._family.params
        keep = self._members.allowed(left, right)
        left, right = left[keep], right[keep]
        if not len(left):
            return _NONE
        one, other = self._members.signature_ids[left], self._members.signature_ids[right]
        rows, places = self._snapshot.signatures.among(np.concatenate([one, other]))
        agreement = compare_rows(rows, places[: len(one)], rows, places[len(one) :], **params.cut)
        levels, suffices = estimate(
            agreement, params, method=self._state.method, threshold=self._threshold
        )
        keep = suffices & (agreement.matched > 0)
        left, right, levels = left[keep], right[keep], levels[keep]
        if self._state.method == "exact" and len(left):
            one, other = one[keep], other[keep]
            names, place = np.unique(
                np.minimum(one, other) << 32 | np.maximum(one, other), return_inverse=True
            )
            asked = Edges(names >> 32, names & (2**32 - 1), np.zeros(len(names)))
            exact = np.full(len(names), -np.inf)
            for each in check_exactly(self._levels, asked, self._threshold):
                exact[np.searchsorted(names, each.left << 32 | each.right)] = each.similarities
            levels = exact[place.reshape(-1)]
            keep = levels >= self._threshold
            left, right, levels = left[keep], right[keep], levels[keep]
        return Edges(np.minimum(left, right), np.maximum(left, right), levels)

    def _chunks(self, places: Ids) -> Iterator[Ids]:
        """Yield some buckets at a time, in the order given."""
        parts = np.cumsum(self._large.sizes[places]) // _READ
        for part in distinct(parts).tolist():
            yield places[parts == part]


class _Members:
    """Units of the members of large buckets, and which of their pairs count.

    Attributes
    ----------
    signature_ids : ndarray of int64
        Of each unit.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        large: LargeBuckets,
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
        """Return the units of some signatures."""
        if self._agreement is None:
            return signature_ids
        _, places = self._spread(signature_ids)
        return self._order[places]

    def _spread(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return for each unit of some signatures whose it is, and its place in their order."""
        starts = self._starts[signature_ids]
        counts = self._starts[signature_ids + 1] - starts
        whose = np.repeat(np.arange(len(counts)), counts)
        return whose, np.arange(len(whose)) + (starts - np.cumsum(counts) + counts)[whose]

    def allowed(self, left: Ids, right: Ids) -> Mask:
        """Return which pairs are of two signatures, and of fields that agree."""
        agreement = self._agreement
        if agreement is None:
            return np.ones(len(left), dtype=bool)
        allowed: Mask = self.signature_ids[left] != self.signature_ids[right]
        return allowed & self._agree(left, right)

    def _agree(self, left: Ids, right: Ids) -> Mask:
        n_agree = len(self._agreement.agree) if self._agreement is not None else 0
        agree, differ = np.ones(len(left), dtype=bool), np.zeros(len(left), dtype=bool)
        for number, codes in enumerate(self._codes):
            one, other = codes[left], codes[right]
            differs = (one != other) & (one > 0) & (other > 0)
            if number < n_agree:
                agree &= ~differs
            else:
                differ |= differs
        return agree & differ if len(self._codes) > n_agree else agree

    def groups(self, units: Ids, is_old: Mask | None) -> Iterator[Ids]:
        """Yield units of a bucket, cut so that no pair of two groups counts.

        Units that are in no such pair are left out.
        """
        if len(units) < 2:
            return
        if self._agreement is None:
            yield units
            return
        n_agree = len(self._agreement.agree)
        if len(self._codes) > n_agree:  # one differs from another that has the field, too
            differs = np.zeros(len(units), dtype=bool)
            for codes in self._codes[n_agree:]:
                own = codes[units]
                there = own[own > 0]
                if len(there) and (there != there[0]).any():
                    differs |= own > 0
            units = units[differs]
        group = np.zeros(len(units), dtype=np.int64)
        for codes in self._codes[:n_agree]:
            own = codes[units]
            if len(own) and own.all():
                _, group = np.unique(group * (own.max() + 1) + own, return_inverse=True)
        order = np.argsort(group, kind="stable")
        for some in np.split(units[order], np.flatnonzero(np.diff(group[order])) + 1):
            if len(some) > 1 and (is_old is None or 0 < is_old[some].sum() < len(some)):
                yield some

    def counts(self, may_lead: Mask, may_go: Mask, *, is_same: bool) -> DocumentCounts:
        """Count the documents that are to be kept, of each signature."""
        leads, goes = self._counts * may_lead, self._counts * may_go
        held, new = (
            np.bincount(self.signature_ids, weights=each, minlength=self._n_signatures)
            .astype(np.int64)
            for each in (leads, goes)
        )  # fmt: skip
        if is_same:
            new = held
        if self._agreement is None:
            return DocumentCounts(held, new)
        return _AgreedCounts(held, new, self, leads, goes)


@dataclass(frozen=True, slots=True)
class _AgreedCounts(DocumentCounts):
    """The same where fields decide which pairs count."""

    members: _Members
    leads: Ids
    goes: Ids

    def pairs(self, left: Ids, right: Ids) -> Ids:
        """Return how many pairs of documents that agree each pair of signatures stands for."""
        members = self.members
        n_pairs = np.zeros(len(left), dtype=np.int64)
        whose, places = members._spread(left)
        starts = members._starts
        size = int((starts[right + 1] - starts[right]).max(initial=0))
        step = max(1, 2**20 // max(1, size))
        for first in range(0, len(whose), step):
            some = whose[first : first + step]
            number, theirs = members._spread(right[some])
            mine = members._order[places[first : first + step]][number]
            other = members._order[theirs]
            weights = self.leads[mine] * self.goes[other]
            if self.new is not self.held:
                weights += self.goes[mine] * self.leads[other]
            weights *= members._agree(mine, other)
            np.add.at(n_pairs, some[number], weights)
        return n_pairs


_NONE = Edges(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


def _joined(parts: list[Edges]) -> Edges:
    parts = [_NONE, *parts]
    return Edges(
        np.concatenate([each.left for each in parts]),
        np.concatenate([each.right for each in parts]),
        np.concatenate([each.similarities for each in parts]),
    )
