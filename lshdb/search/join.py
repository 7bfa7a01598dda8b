"""Postings of two indexes -> near-duplicate pairs across them, streamed.

Both are read in order of bucket key, in blocks, and merged: if both have a bucket, each of its
signatures here makes a candidate pair with each of its signatures there. As in ``pairs.py``, a pair
that shares several buckets is taken in the first band in which its rows agree. So each comes once
and nothing has to be remembered, and texts are read only for pairs that pass the signatures.

If one index is much smaller than the other, its buckets are looked up there instead: the cost then
grows with the smaller one only.

Decided: the content band is left out. Documents with one content have one signature in both
indexes, so they meet in band 0 like any other pair.

Memory: a block of postings for each index, 128 MiB of shingles for both, and the signature ids of
the largest bucket.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import TextNotStoredError
from lshdb.handle import Handle, current_store
from lshdb.params.bucket_layout import bands_of
from lshdb.params.index_params import check_equal
from lshdb.phases.phase import counting
from lshdb.search.candidates import contains
from lshdb.search.exact_levels import LevelsAcross
from lshdb.search.pair_columns import PairColumns, PairListing, columns_of
from lshdb.search.verification import (
    Points,
    asked_level,
    choose_method,
    estimate,
    level_of,
    points_of,
)
from lshdb.signatures.banding import compare_rows
from lshdb.signatures.family import Family
from lshdb.signatures.sets import SetFamily
from lshdb.storage.bands.postings import Buckets
from lshdb.storage.transactions.index_state import while_open
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers

__all__ = ["JoinedPairs"]

_MAY_DIFFER = frozenset({"threshold", "recall", "store_text"})
_BLOCK_PAIRS = 16_384
_EXACT_PAIRS = 256
_CACHE_BYTES = 64 * 2**20
_TAKEN_BITS = 20
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: spreads consecutive numbers (Knuth, TAOCP 3, section 6.4)."""
_LOOKUP_COST = 4
"""Time to look a key up in one run, relative to reading one posting in order.

Measured as 1.3 with 100,000 documents and everything in memory; more where pages must be read.
"""
_LOOKUP_KEYS = 8192

Ids = NDArray[np.int64]


class JoinedPairs(PairListing):
    """Near-duplicate pairs across two indexes, as they are found."""

    def __init__(
        self,
        store: Store,
        family: Family,
        handle: Handle,
        other: Handle,
        *,
        threshold: float | None,
        verify: str | None,
    ) -> None:
        other_store = other.ask(current_store)
        super().__init__(handle, other=str(other_store.path), threshold=threshold, verify=verify)
        level = asked_level(store, threshold, verify)
        join_stores(store, other_store, family, threshold=level, verify=verify)
        self._other, self._threshold, self._verify = other, threshold, verify

    def _columns(self, store: Store, family: Family) -> Generator[PairColumns]:
        """Yield the pairs of one state of each index."""
        other_store = self._other.ask(current_store)
        level = level_of(store.params, self._threshold)
        blocks = join_stores(store, other_store, family, threshold=level, verify=self._verify)
        yield from while_open(store, while_open(other_store, blocks))


def join_stores(
    here: Store, beside: Store, family: Family, *, threshold: float, verify: str | None
) -> Iterator[PairColumns]:
    """Yield all pairs of a document here and one there, at or above the threshold, each once.

    Parameters
    ----------
    here, beside : Store
        With equal parameters, except threshold, recall and whether texts are stored; may be one
        index.
    family : Family
        Of those parameters.
    threshold : float
        Does not apply to method ``none``.
    verify : {"none", "signature", "exact"}, optional
        By default exact if both store texts, else signature.

    Returns
    -------
    iterator of PairColumns
        The first keys are here, the second there. Sees both as of the request for the first pair.

    Raises
    ------
    ParameterMismatchError
        A parameter that must be equal differs; the error names both values.
    ParameterError, TextNotStoredError
        There is no such method, or it needs texts that one of the two does not store.
    """
    check_equal(
        (here.directory.path, here.params),
        (beside.directory.path, beside.params),
        may_differ=_MAY_DIFFER,
        hint="only indexes that were made with the same parameters can be joined; "
        "threshold, recall and stored texts may differ if bands and rows are equal",
    )
    method = _method(verify, here, beside)
    for store in (here, beside):
        store.require_signatures()
    return _join(here, beside, family, threshold=threshold, method=method)


def _method(verify: str | None, here: Store, beside: Store) -> str:
    """Return the method asked for, or the best that both have."""
    without = next((store for store in (here, beside) if not store.params.store_text), None)
    if without is None:
        return choose_method(verify, here.params)
    if verify == "exact":
        raise TextNotStoredError(
            f"exact verification needs the texts, and {without.directory.path} was made with "
            "--no-text",
            hint="use --verify signature",
        )
    return choose_method(verify, without.params)


def _join(
    here: Store, beside: Store, family: Family, *, threshold: float, method: str
) -> Iterator[PairColumns]:
    with here.reading() as snapshot1, beside.reading() as snapshot2:
        verifier = _Verifier(snapshot1, snapshot2, family, threshold=threshold, method=method)
        is_distance = family.params.kind.is_distance
        for mine, theirs in _common_buckets(snapshot1, snapshot2):
            for left, right, bands in _candidates(mine, theirs):
                verified = verifier.verify(left, right, bands)
                yield from columns_of(
                    snapshot1, verified, method, beside=snapshot2, is_distance=is_distance
                )


def _common_buckets(here: Snapshot, beside: Snapshot) -> Iterator[tuple[Buckets, Buckets]]:
    """Yield buckets with a key in both, block by block: by merging, or by look-ups."""
    if _is_small_beside(here, beside):
        yield from _looked_up(here, beside)
    elif _is_small_beside(beside, here):
        for theirs, mine in _looked_up(beside, here):
            yield mine, theirs
    else:
        yield from _common(_in_order(here), beside.postings.in_order())


def _in_order(snapshot: Snapshot) -> Iterator[Buckets]:
    """Yield all buckets, and count them."""
    n_postings = snapshot.n_signatures * snapshot.bands.n
    return counting(
        snapshot.postings.in_order(), "postings", n_postings, lambda block: len(block.members)
    )


def _is_small_beside(small: Snapshot, large: Snapshot) -> bool:
    """Return whether looking up all buckets of one is faster than reading the other."""
    is_cheaper = small.n_signatures * _LOOKUP_COST < large.n_signatures
    return is_cheaper and large.postings.cover() is not None


def _looked_up(small: Snapshot, large: Snapshot) -> Iterator[tuple[Buckets, Buckets]]:
    for block in _in_order(small):
        starts = range(0, len(block.keys), _LOOKUP_KEYS)
        looked_up = (
            large.postings.grouped_of(block.keys[start : start + _LOOKUP_KEYS]) for start in starts
        )
        yield from _common(iter([block]), (buckets for buckets in looked_up if len(buckets.keys)))


def _common(
    here: Iterator[Buckets], beside: Iterator[Buckets]
) -> Iterator[tuple[Buckets, Buckets]]:
    """Yield buckets with a key in both, block by block, from two streams in order."""
    left, right = next(here, None), next(beside, None)
    while left is not None and right is not None:
        _, mine, theirs = np.intersect1d(
            left.keys, right.keys, assume_unique=True, return_indices=True
        )
        if len(mine):
            yield left.chosen(mine), right.chosen(theirs)
        # Up to the end of the block that ends first, everything has been met.
        last, its_last = left.keys[-1], right.keys[-1]
        if last <= its_last:
            left = next(here, None)
        if its_last <= last:
            right = next(beside, None)


def _candidates(mine: Buckets, theirs: Buckets) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Yield each member of a bucket here with each there, in parts: (left ids, right ids, band).

    Bucket i of ``mine`` and bucket i of ``theirs`` have one key. Pairs are numbered throughout, so
    a very large bucket is cut like any other number of pairs.
    """
    bands = bands_of(mine.keys)
    counts = mine.sizes * theirs.sizes
    ends = np.cumsum(counts)
    left_starts = np.cumsum(mine.sizes) - mine.sizes
    right_starts = np.cumsum(theirs.sizes) - theirs.sizes
    for start in range(0, int(ends[-1]), _BLOCK_PAIRS):
        numbers = np.arange(start, min(start + _BLOCK_PAIRS, int(ends[-1])))
        bucket = np.searchsorted(ends, numbers, side="right")
        within = numbers - (ends - counts)[bucket]
        row, column = np.divmod(within, theirs.sizes[bucket])
        left = mine.members[left_starts[bucket] + row]
        right = theirs.members[right_starts[bucket] + column]
        yield left, right, bands[bucket]


@dataclass(frozen=True, slots=True)
class _Pairs:
    left: Ids
    right: Ids
    similarities: NDArray[np.float64]


class _Verifier:
    """Turns candidate pairs of signatures of two indexes into verified pairs."""

    def __init__(
        self,
        first: Snapshot,
        second: Snapshot,
        family: Family,
        *,
        threshold: float,
        method: str,
    ) -> None:
        self._family = family
        self._threshold = threshold
        self._method = method
        self._snapshots = (first, second)
        self._rows = (first.signatures, second.signatures)
        self._is_small = max(first.n_signatures, second.n_signatures) < 2**32
        self._taken = np.zeros(2**_TAKEN_BITS, dtype=np.uint64)
        self._dead = [snapshot.edges.dead() for snapshot in self._snapshots]
        self._across: LevelsAcross | None = None
        self._points: list[Points] = []
        if method == "exact" and isinstance(family, SetFamily):
            self._across = LevelsAcross(
                first, second, family, most_bytes=2 * _CACHE_BYTES, workers=choose_workers(None)
            )
        elif method == "exact":
            self._points = [
                points_of(snapshot, family, most_bytes=_CACHE_BYTES) for snapshot in self._snapshots
            ]

    def verify(self, left: Ids, right: Ids, bands: Ids) -> _Pairs:
        """Keep the pairs whose first agreeing band this is and whose similarity suffices."""
        params = self._family.params
        # A pair that was taken in an earlier band is met again in the others. Those taken last are
        # remembered, each in the one place that its hash gives it, and not compared again.
        names = (left.astype(np.uint64) << np.uint64(32)) + right.astype(np.uint64) + np.uint64(1)
        places = names * _SPREAD >> np.uint64(64 - _TAKEN_BITS)
        fresh = self._taken[places] != names
        left, right, bands = left[fresh], right[fresh], bands[fresh]
        (mine, left_places), (theirs, right_places) = (
            rows.among(ids) for rows, ids in zip(self._rows, (left, right), strict=True)
        )
        agreement = compare_rows(mine, left_places, theirs, right_places, **params.cut)
        estimates, suffices = estimate(
            agreement, params, method=self._method, threshold=self._threshold
        )
        is_first = agreement.first == bands
        if self._is_small:
            self._taken[places[fresh][is_first]] = names[fresh][is_first]
        keep = is_first & suffices
        pairs = _Pairs(left[keep], right[keep], estimates[keep])
        if self._across is not None:
            return self._check_texts(pairs, self._across)
        return self._check_exactly(pairs) if self._method == "exact" else pairs

    def _check_texts(self, pairs: _Pairs, across: LevelsAcross) -> _Pairs:
        """Keep the pairs that suffice by their texts; signatures without documents have none."""
        left, right = pairs.left, pairs.right
        is_held = ~(contains(self._dead[0], left) | contains(self._dead[1], right))
        left, right = left[is_held], right[is_held]
        levels = across.of(left, right)
        keep = levels >= self._threshold
        return _Pairs(left[keep], right[keep], levels[keep])

    def _check_exactly(self, pairs: _Pairs) -> _Pairs:
        levels = np.full(len(pairs.left), -np.inf)
        # In order of the left text, a few at a time: the caches then hold what the next ones need.
        order = np.lexsort((pairs.right, pairs.left))
        for start in range(0, len(order), _EXACT_PAIRS):
            places = order[start : start + _EXACT_PAIRS]
            left, right = pairs.left[places].tolist(), pairs.right[places].tolist()
            # Fewer points than signatures if documents were all replaced.
            mine, theirs = (
                points.get(list(snapshot.documents_of_signatures(ids)))
                for points, snapshot, ids in zip(
                    self._points, self._snapshots, (set(left), set(right)), strict=True
                )
            )
            bodies = [
                (place, mine[left_id], theirs[right_id])
                for place, left_id, right_id in zip(places.tolist(), left, right, strict=True)
                if left_id in mine and right_id in theirs
            ]
            if bodies:
                checked, ones, twos = zip(*bodies, strict=True)
                levels[list(checked)] = self._family.levels(ones, twos)
        keep = levels >= self._threshold
        return _Pairs(pairs.left[keep], pairs.right[keep], levels[keep])
