"""Documents that would be kept -> near-duplicate pairs of them that large buckets hide.

The documents of large buckets are joined through leaders, so the stored pairs may lack some. Most
documents of such a bucket are dropped for another one, so comparing the rest is cheap: each pair of
them that shares a large bucket is compared by signature, and verified as the stored ones were.

Boilerplate makes buckets in which thousands of unlike documents remain; comparing those would be
quadratic. So buckets are taken from the smallest on until ``MOST_PAIRS`` pairs are compared, which
takes some seconds. How many pairs the others hide is estimated (``loss.py``) if the caller asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.search.candidates import pairs_of_buckets
from lshdb.search.exact_levels import check_exactly, levels_between
from lshdb.search.loss import (
    DocumentCounts,
    PairCount,
    PairFrame,
    estimate_pairs,
    survey,
    with_members,
)
from lshdb.search.verification import estimate
from lshdb.signatures.banding import bucket_keys, compare_rows
from lshdb.signatures.family import Family
from lshdb.storage.runs.posting_runs import Buckets
from lshdb.storage.tables.edges import Edges, EdgeState
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["MOST_PAIRS", "MissedPairs"]

MOST_PAIRS = 32_000_000
"""Compared by signature: 0.15 to 0.4 us each."""
_BLOCK_PAIRS = 65_536
_BUCKETS = 2_000
_MEMORY = 64 * 2**20

Ids = NDArray[np.int64]


@dataclass(slots=True)
class _Plan:
    """Which large buckets to compare, and which have too many pairs."""

    compared: Ids
    sampled: Ids


class MissedPairs:
    """Finds near-duplicates among documents that are to be kept.

    Parameters
    ----------
    snapshot : Snapshot
    family : Family
    state : EdgeState
        State of the stored pairs.
    threshold : float
        At least that of the state.
    since : int, optional
        Only pairs of a signature whose documents are all of this batch or later, and one that an
        older document has.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        family: Family,
        state: EdgeState,
        *,
        threshold: float,
        since: int | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._family = family
        self._state = state
        self._threshold = threshold
        counts = DocumentCounts.of(snapshot, since=since)
        self._counts = counts
        there = counts.held > 0
        there[state.n_signatures :] = False
        # A pair has one signature to be kept that is asked about, and one of the others.
        self._asked = there if since is None else there & (counts.held == counts.new)
        self._other = there if since is None else there & (counts.held > counts.new)
        self._is_same = since is None
        self._checked = np.zeros(len(there), dtype=bool)
        self._plan: _Plan | None = None

    def among(self, gone: Ids) -> Edges:
        """Return pairs at the threshold among all signatures except some, each once.

        Signatures that were compared with each other before are not compared again.
        """
        asked, other = self._left(gone)
        fresh = asked & ~self._checked
        most = self._state.max_bucket
        if most is None or not self._state.hot_buckets or not fresh.any():
            return _NONE
        if self._plan is None:
            self._plan = self._planned(most, asked, other)
        self._checked |= asked
        if not self._snapshot.has_signatures:
            return _NONE
        names = [np.empty(0, dtype=np.int64)]
        similarities = [np.empty(0)]
        for left, right in self._pairs(
            self._keys_of(self._plan.compared, fresh), asked, other, fresh
        ):
            found = self._suffice(left, right)
            names.append(found.left << 32 | found.right)
            similarities.append(found.similarities)
        distinct_names, first = np.unique(np.concatenate(names), return_index=True)
        found = Edges(
            distinct_names >> 32,
            distinct_names & (2**32 - 1),
            np.concatenate(similarities)[first],
        )
        if self._state.method != "exact" or not len(found):
            return found
        levels = levels_between(self._snapshot, self._family, most_bytes=_MEMORY)
        held = [*check_exactly(levels, found, self._threshold), _NONE]
        return Edges(
            np.concatenate([each.left for each in held]),
            np.concatenate([each.right for each in held]),
            np.concatenate([each.similarities for each in held]),
        )

    def unchecked(self, gone: Ids) -> PairCount | None:
        """Estimate near-duplicate pairs of the rest in the buckets that were not compared."""
        if self._plan is None or not len(self._plan.sampled):
            return None
        asked, other = (each.astype(np.int64) for each in self._left(gone))
        if self._is_same:
            counts = DocumentCounts(asked, asked)  # one of several copies is kept
        else:
            held, new = self._counts.held, self._counts.new
            counts = DocumentCounts(other * (held - new), asked * new)
        frame = PairFrame(counts)
        for start in range(0, len(self._plan.sampled), _BUCKETS):
            keys = self._plan.sampled[start : start + _BUCKETS]
            frame.add(self._snapshot.postings.grouped_of(keys))
        found = estimate_pairs(
            self._snapshot, self._family, frame,
            threshold=self._threshold, method=self._state.method, found_by="another bucket",
        )  # fmt: skip
        if found is None:  # there is nothing to compare: no pair, or all of them
            return PairCount(0.0, 0.0, float(frame.columns()[2].sum()), False, 0)
        return found

    def _keys_of(self, compared: Ids, fresh: NDArray[np.bool_]) -> Ids:
        """Return the large buckets to compare; for few signatures, only their own buckets."""
        ids = np.flatnonzero(fresh)
        if len(ids) > _BUCKETS:
            return compared
        keys = bucket_keys(self._snapshot.signatures[ids], **self._family.params.cut)
        return np.intersect1d(compared, keys)

    def _left(self, gone: Ids) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        asked, other = self._asked.copy(), self._other.copy()
        asked[gone] = False
        if self._is_same:
            other = asked
        return asked, other

    def _planned(self, most: int, asked: NDArray[np.bool_], other: NDArray[np.bool_]) -> _Plan:
        """Sort large buckets by the pairs that are left in them, the smallest first."""
        keys, pairs = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        bands = self._family.params.bands
        for buckets in survey(self._snapshot, bands=bands, above=most):
            if len(buckets.keys):
                starts = np.cumsum(buckets.sizes) - buckets.sizes
                n_asked = np.add.reduceat(asked[buckets.members].astype(np.int64), starts)
                n_other = np.add.reduceat(other[buckets.members].astype(np.int64), starts)
                keys.append(buckets.keys)
                pairs.append(n_asked * (n_asked - 1) // 2 if self._is_same else n_asked * n_other)
        all_keys, all_pairs = np.concatenate(keys), np.concatenate(pairs)
        order = np.argsort(all_pairs, kind="stable")
        # Without rows nothing is compared here; texts serve for a sample.
        budget = MOST_PAIRS if self._snapshot.has_signatures else 0
        n = int(np.searchsorted(np.cumsum(all_pairs[order]), budget, side="right"))
        return _Plan(all_keys[order[:n]], all_keys[order[n:]])

    def _pairs(
        self,
        keys: Ids,
        asked: NDArray[np.bool_],
        other: NDArray[np.bool_],
        fresh: NDArray[np.bool_],
    ) -> Iterator[tuple[Ids, Ids]]:
        """Yield pairs in some buckets with a signature not compared before, once per bucket."""
        held: list[tuple[Ids, Ids]] = []
        size = 0
        for start in range(0, len(keys), _BUCKETS):
            buckets = self._snapshot.postings.grouped_of(keys[start : start + _BUCKETS])
            buckets = with_members(buckets, asked | other)
            is_first = self._is_same and bool((fresh == asked).all())
            for piece in (
                pairs_of_buckets(buckets, None)
                if is_first
                else self._pairs_of_fresh(buckets, other, fresh)
            ):
                piece = piece[:2]
                held.append(piece)
                size += len(piece[0])
                if size >= _BLOCK_PAIRS:
                    yield _joined(held)
                    held, size = [], 0
        if held:
            yield _joined(held)

    def _pairs_of_fresh(
        self, buckets: Buckets, other: NDArray[np.bool_], fresh: NDArray[np.bool_]
    ) -> Iterator[tuple[Ids, Ids]]:
        """Yield the pairs of those not compared before, one signature at a time."""
        ends = np.cumsum(buckets.sizes)
        for begin, end in zip((ends - buckets.sizes).tolist(), ends.tolist(), strict=True):
            inside = buckets.members[begin:end]
            for one in inside[fresh[inside]].tolist():
                if self._is_same:
                    rest = inside[(inside > one) | (~fresh[inside] & (inside != one))]
                else:
                    rest = inside[other[inside]]
                ones = np.full(len(rest), one)
                yield np.minimum(ones, rest), np.maximum(ones, rest)

    def _suffice(self, left: Ids, right: Ids) -> Edges:
        """Keep the pairs whose signatures are similar enough and that do share a bucket."""
        params = self._family.params
        rows, places = self._snapshot.signatures.among(np.concatenate([left, right]))
        agreement = compare_rows(rows, places[: len(left)], rows, places[len(left) :], **params.cut)
        estimates, suffices = estimate(
            agreement, params, method=self._state.method, threshold=self._threshold
        )
        keep = suffices & (agreement.matched > 0)
        return Edges(left[keep], right[keep], estimates[keep])


_NONE = Edges(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


def _joined(held: list[tuple[Ids, Ids]]) -> tuple[Ids, Ids]:
    left, right = zip(*held, strict=True)
    return np.concatenate(left), np.concatenate(right)
