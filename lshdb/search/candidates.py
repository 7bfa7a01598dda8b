"""Postings -> candidate pairs of signatures, a block at a time.

Buckets with several postings come from SQL, grouped and in order of bucket key. If only some
signatures are asked about and their rows are at hand, their buckets are looked up by key instead,
at a cost that grows with the question and not with the index. Signatures that no document has any
more are left out.

A bucket of m signatures makes m (m - 1) / 2 pairs. One with more than ``most`` signatures is

left out
    for ``pairs``: none of its pairs is a candidate through it, and all of them are counted;
joined through leaders
    for clusters, which need only enough pairs to connect similar documents. Its members are
    compared with a leader and paired with it if they are similar; the others choose a leader among
    themselves, and so on, at most ``LEADERS`` times. That is linear in m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct, pairs_within
from lshdb.params.bucket_layout import bands_of, key_ranges
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import Phase, counting
from lshdb.signatures.banding import bucket_keys, compare_rows
from lshdb.storage.bands.postings import Buckets
from lshdb.storage.transactions.index_state import IndexState
from lshdb.threads import Lent, work_ahead

__all__ = [
    "PART_SIGNATURES",
    "Candidates",
    "HotBuckets",
    "LeftOut",
    "RowSource",
    "candidates",
    "contains",
    "leader_links",
    "living",
    "pairs_of_buckets",
]

BLOCK_PAIRS = 16_384
LEADERS = 32
_COMPARED = 16_384
"""Members that are compared with their leader at a time, which bounds the memory for rows."""
_PROBE_SIGNATURES = 4_000
"""Whose buckets are looked up together, unless their rows take more bytes."""
_PROBE_BYTES = 2 * 2**20
PART_SIGNATURES = 65_536
"""Postings of a band that are grouped at a time, on average: some 50 ms and 4 MB."""
_POSITIVE_BANDS = 128
"""Keys of so many bands are positive and follow each other; others lie among the content keys."""
_NEVER = np.iinfo(np.int64).max

Ids = NDArray[np.int64]
RowSource = Callable[[IndexState, Ids], NDArray[np.uint16]]
_Part = TypeVar("_Part")


class LargeBuckets(Protocol):
    """Collects buckets that are too large (``loss.py``)."""

    def add(self, buckets: Buckets) -> None:
        """Add some buckets."""


class SomeRows(Protocol):
    """Signature rows by number."""

    def __getitem__(self, numbers: Ids) -> NDArray[np.uint16]:
        """Return the rows of some signatures."""

    def among(self, numbers: Ids) -> tuple[NDArray[np.uint16], Ids]:
        """Return rows, and the place of each signature's row among them."""


@dataclass(slots=True)
class LeftOut:
    """What was not compared because its bucket was too large; complete when the search is.

    Attributes
    ----------
    max_bucket : int or None
        The largest bucket whose pairs are all candidates.
    buckets : int
        Number of larger buckets.
    pairs : int
        Pairs of signatures in them that were not compared there. A pair that shares several such
        buckets counts in each, and another bucket may still have brought it.
    copy_groups, copy_pairs : int
        Groups of more than ``max_bucket`` exact copies, and the pairs within them; only ``pairs``
        leaves them out.
    """

    max_bucket: int | None = None
    buckets: int = 0
    pairs: int = 0
    copy_groups: int = 0
    copy_pairs: int = 0
    large: LargeBuckets | None = field(default=None, compare=False, repr=False)
    """Collects the larger buckets if somebody wants to know them."""

    def count(self, buckets: Buckets, n_new: Ids, n_compared: int = 0) -> None:
        """Count buckets that are too large.

        Parameters
        ----------
        buckets : Buckets
        n_new : ndarray of int64, shape (n,)
            Number of signatures in each of which a pair must have one.
        n_compared : int
            Pairs in them that were still compared.
        """
        old = buckets.sizes - n_new
        pairs = buckets.sizes * (buckets.sizes - 1) // 2 - old * (old - 1) // 2
        self.buckets += len(buckets.keys)
        self.pairs += max(0, int(pairs.sum()) - n_compared)
        if self.large is not None:
            self.large.add(buckets)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Buckets of any sizes: two members of a bucket are a candidate pair if one of them is marked.

    Attributes
    ----------
    bands, sizes : ndarray of int64, shape (n,)
        A band is -1 if the pair counts whatever its first band, because it was joined by a leader.
    members : ndarray of int64, shape (sum(sizes),)
        Signature ids, one bucket after the other, each sorted.
    marks : ndarray of bool, shape (sum(sizes),)
    """

    bands: Ids
    sizes: Ids
    members: Ids
    marks: NDArray[np.bool_]

    @property
    def n_compared(self) -> int:
        """How many pairs there are."""
        if not len(self.sizes):
            return 0
        starts = np.cumsum(self.sizes) - self.sizes
        unmarked = np.add.reduceat((~self.marks).astype(np.int64), starts)
        return int((self.sizes * (self.sizes - 1) - unmarked * (unmarked - 1)).sum()) // 2

    def pairs(self) -> tuple[Ids, Ids, Ids]:
        """Return the pairs as columns: left ids, right ids, bands."""
        first, second = pairs_within(self.sizes, self.marks)
        bands = np.repeat(self.bands, self.sizes)[first]
        return self.members[first], self.members[second], bands


class HotBuckets:
    """The buckets with too many signatures, as a search meets them, band by band."""

    def __init__(self) -> None:
        self._keys = np.empty(0, dtype=np.int64)

    def add(self, keys: Ids) -> None:
        """Add the keys of some buckets."""
        self._keys = distinct(np.concatenate([self._keys, keys]))

    @property
    def keys(self) -> Ids:
        """Their keys so far, sorted.

        Every large bucket before the band of a pair that the pair shares has been added: a search
        takes the bands in order, or all bands of some signatures at once. From any thread.
        """
        return self._keys


def candidates(
    snapshot: IndexState,
    params: IndexParams,
    *,
    new: Ids | None = None,
    most: int | None = None,
    like: float | None = None,
    left_out: LeftOut,
    hot: HotBuckets | None = None,
    row_source: RowSource | None,
    workers: int = 1,
) -> Iterator[Candidates]:
    """Yield candidate pairs, in blocks; a pair comes once for each bucket that it shares.

    Parameters
    ----------
    snapshot : IndexState
        Open for as long as the iteration lasts.
    params : IndexParams
    new : ndarray of int64, optional
        Sorted signature ids; only pairs with one of them.
    most : int, optional
        The largest bucket of which all pairs are candidates; larger ones are left out.
    like : float, optional
        Join larger buckets through leaders instead, by pairs with this share of equal slots.
    left_out : LeftOut
        Filled on the way.
    hot : HotBuckets, optional
        Filled on the way, ahead of the pairs of later bands.
    row_source : callable, optional
        Gives the rows of some new signatures, by a snapshot of their state. Without it all buckets
        are read.
    workers : int
        Threads that read buckets ahead.
    """
    left_out.max_bucket = most
    dead = snapshot.edges.dead()
    if new is None:
        blocks = _all_buckets(snapshot, params, workers)
    elif row_source is None:
        blocks = (_holding(buckets, new) for buckets in _all_buckets(snapshot, params, workers))
    else:
        blocks = _buckets_of(snapshot, params, new, row_source, workers)
    gathered = _Gathered()
    for buckets in blocks:
        if not len(buckets.keys):
            continue
        buckets = living(buckets, dead)
        if most is not None:
            large = buckets.chosen(np.flatnonzero(buckets.sizes > most))
            if len(large.keys):
                if hot is not None:
                    hot.add(large.keys)
                if like is None:
                    left_out.count(large, _count_new(large, new))
                else:
                    yield from _linked(snapshot, params, large, new, like, left_out)
            buckets = buckets.chosen(np.flatnonzero(buckets.sizes <= most))
        for piece in _pieces_of(buckets, new):
            if gathered.add(piece):
                yield gathered.take()
    if gathered.size:
        yield gathered.take()


class _Gathered:
    """Small pieces, joined into blocks that are worth a step of verification."""

    def __init__(self) -> None:
        self._pieces: list[Candidates] = []
        self.size = 0

    def add(self, piece: Candidates) -> bool:
        """Add a piece; return whether there is a block now."""
        self._pieces.append(piece)
        self.size += piece.n_compared
        return self.size >= BLOCK_PAIRS

    def take(self) -> Candidates:
        """Return the pieces in one."""
        pieces, self._pieces, self.size = self._pieces, [], 0
        return Candidates(
            np.concatenate([piece.bands for piece in pieces]),
            np.concatenate([piece.sizes for piece in pieces]),
            np.concatenate([piece.members for piece in pieces]),
            np.concatenate([piece.marks for piece in pieces]),
        )


def _all_buckets(snapshot: IndexState, params: IndexParams, workers: int) -> Iterator[Buckets]:
    """Yield all shared buckets, a range of keys at a time."""
    parts = 1 + snapshot.n_signatures // PART_SIGNATURES
    ranges = list(key_ranges(bands=params.bands, parts=parts))
    n_postings = snapshot.n_signatures * params.bands
    if n_postings <= PART_SIGNATURES and params.bands <= _POSITIVE_BANDS:
        with Phase("postings", n_postings):
            yield snapshot.postings.shared(ranges[0][0], ranges[-1][1])
        return
    blocks = _read_ahead(
        snapshot, lambda reader, part: reader.postings.shared(*part), ranges, workers
    )
    share = n_postings // len(ranges)
    yield from counting(blocks, "postings", n_postings, lambda _: share)


def _holding(buckets: Buckets, new: Ids) -> Buckets:
    """Return the buckets that hold one of some signatures."""
    if not len(buckets.keys):
        return buckets
    starts = np.cumsum(buckets.sizes) - buckets.sizes
    holds = np.logical_or.reduceat(contains(new, buckets.members), starts)
    return buckets.chosen(np.flatnonzero(holds))


def _buckets_of(
    snapshot: IndexState, params: IndexParams, new: Ids, row_source: RowSource, workers: int
) -> Iterator[Buckets]:
    """Yield the shared buckets that hold one of some signatures, looked up some at a time.

    A bucket with signatures of several look-ups is given only at the first of them.
    """
    step = min(_PROBE_SIGNATURES, max(1, _PROBE_BYTES // params.row_bytes))

    def read(reader: IndexState, start: int) -> Buckets:
        rows = row_source(reader, new[start : start + step])
        keys = bucket_keys(rows, **params.cut)
        buckets = reader.postings.shared_of(distinct(keys.reshape(-1)))
        if not len(buckets.keys):
            return buckets
        starts = np.cumsum(buckets.sizes) - buckets.sizes
        own = np.where(contains(new, buckets.members), buckets.members, _NEVER)
        return buckets.chosen(np.flatnonzero(np.minimum.reduceat(own, starts) >= new[start]))

    parts = range(0, len(new), step)  # a thread more has to open the index
    blocks = _read_ahead(snapshot, read, parts, min(workers, max(1, len(parts))))
    yield from counting(blocks, "signatures", len(new), lambda _: step)


def _read_ahead(
    snapshot: IndexState,
    read: Callable[[IndexState, _Part], Buckets],
    parts: Iterable[_Part],
    workers: int,
) -> Iterator[Buckets]:
    """Read buckets part by part; several workers are threads, each with its own snapshot.

    Where SQL answers, SQLite's threads obstruct each other at its allocator, so one worker stays
    behind to verify what is read.
    """
    are_all_readers = workers > 1 and snapshot.postings.cover() is not None
    with snapshot.twins(workers if are_all_readers else workers - 1) as twins:
        readers = Lent(twins or [snapshot])

        def work(part: _Part) -> Buckets:
            with readers.one() as reader:
                return read(reader, part)

        yield from work_ahead(work, parts, workers=workers if twins else 1)


def contains(values: Ids, ids: Ids) -> NDArray[np.bool_]:
    """Return which ids are among ``values``, which are sorted."""
    if not len(values):
        return np.zeros(len(ids), dtype=bool)
    places = np.minimum(np.searchsorted(values, ids), len(values) - 1)
    contained: NDArray[np.bool_] = values[places] == ids
    return contained


def living(buckets: Buckets, dead: Ids) -> Buckets:
    """Return the same buckets without the signatures that no document has."""
    if not len(dead):
        return buckets
    alive = ~contains(dead, buckets.members)
    if alive.all():
        return buckets
    starts = np.cumsum(buckets.sizes) - buckets.sizes
    sizes = np.add.reduceat(alive.astype(np.int64), starts)
    return Buckets(buckets.keys, sizes, buckets.members[alive])


def pairs_of_buckets(buckets: Buckets) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Yield all pairs of the buckets' members: (left ids, right ids, band), some at a time."""
    return (piece.pairs() for piece in _pieces_of(buckets, None))


def _of_one_size(buckets: Buckets) -> Iterator[tuple[Ids, Ids]]:
    """Yield some buckets of one size at a time: sorted members, a row for each, and bands."""
    bands = bands_of(buckets.keys)
    starts = np.cumsum(buckets.sizes) - buckets.sizes
    for size in distinct(buckets.sizes).tolist():
        if size < 2:
            continue
        of_size = np.flatnonzero(buckets.sizes == size)
        step = max(1, BLOCK_PAIRS // size**2)
        for places in (of_size[first : first + step] for first in range(0, len(of_size), step)):
            members = np.sort(buckets.members[starts[places, None] + np.arange(size)], axis=1)
            yield members, bands[places]


def _pieces_of(buckets: Buckets, new: Ids | None) -> Iterator[Candidates]:
    """Yield the candidates of buckets; a large one is cut: some marked members with all others."""
    for members, bands in _of_one_size(buckets):
        n, size = members.shape
        flat = members.reshape(-1)
        marks = np.ones(len(flat), dtype=bool) if new is None else contains(new, flat)
        if size * size <= BLOCK_PAIRS:
            yield Candidates(bands, np.full(n, size), flat, marks)
            continue
        marked = np.flatnonzero(marks)  # n is 1
        step = max(1, BLOCK_PAIRS // size)
        for some in (marked[first : first + step] for first in range(0, len(marked), step)):
            is_own = np.zeros(size, dtype=bool)
            is_own[some] = True
            is_left = ~marks  # pairs of two marked members are due with the first
            is_left[some[0] :] |= marks[some[0] :]
            yield Candidates(bands, np.array([is_left.sum()]), flat[is_left], is_own[is_left])


def _count_new(buckets: Buckets, new: Ids | None) -> Ids:
    """Return how many signatures of each bucket are new."""
    if new is None:
        return buckets.sizes
    starts = np.cumsum(buckets.sizes) - buckets.sizes
    counts: Ids = np.add.reduceat(contains(new, buckets.members).astype(np.int64), starts)
    return counts


def _linked(
    snapshot: IndexState,
    params: IndexParams,
    large: Buckets,
    new: Ids | None,
    like: float,
    left_out: LeftOut,
) -> Iterator[Candidates]:
    """Join the buckets that are too large through leaders, and count them."""
    n_new = _count_new(large, new)
    ends = np.cumsum(large.sizes)
    for place, end in enumerate(ends.tolist()):
        members = np.sort(large.members[end - large.sizes[place] : end])
        compared = 0
        for left, right in leader_links(snapshot.signatures, params, members, like):
            if new is not None:
                has_new = contains(new, left) | contains(new, right)
                left, right = left[has_new], right[has_new]
            n, ends_of_links = len(left), np.stack([left, right], axis=1).reshape(-1)
            compared += n
            yield Candidates(
                np.full(n, -1), np.full(n, 2), ends_of_links, np.ones(2 * n, dtype=bool)
            )
        bucket = Buckets(large.keys[place : place + 1], large.sizes[place : place + 1], members)
        left_out.count(bucket, n_new[place : place + 1], compared)


def leader_links(
    signatures: SomeRows,
    params: IndexParams,
    members: Ids,
    like: float,
    *,
    most: int | None = None,
    again: bool = False,
) -> Iterator[tuple[Ids, Ids]]:
    """Yield pairs (leader, member) of the members whose signatures are like their leader's.

    Parameters
    ----------
    signatures : SomeRows
    params : IndexParams
    members : ndarray of int64, shape (n,)
        Sorted.
    like : float
        The least share of equal slots.
    most : int, optional
        Leaders; ``LEADERS`` by default.
    again : bool
        Also compare members that are like an earlier leader with later ones.
    """
    for _ in range(LEADERS if most is None else most):
        if len(members) < 2:
            return
        right = members[1:]
        left = np.full(len(right), members[0])
        leader = signatures[members[:1]]
        equal = []
        for start in range(0, len(right), _COMPARED):
            rows, places = signatures.among(right[start : start + _COMPARED])
            agreement = compare_rows(
                leader,
                np.zeros(len(places), dtype=np.int64),
                rows,
                places,
                **params.cut,
            )
            equal.append(agreement.equal)
        alike = np.concatenate(equal) >= like * params.num_perm
        if alike.any():
            yield left[alike], right[alike]
        members = right if again else right[~alike]
