"""Postings: which signatures lie in which buckets, in one state of an index.

They are read from frozen orders (``storage/orders/``); rows that no order covers are sorted first.
Where the rows are not here, or orders fail, the table ``band`` answers, by ``GROUP BY`` a band
(``band_table.py``), and so it does for look-ups in a table with indexes. The answers are the same,
line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lshdb.arrays import distinct, np
from lshdb.errors import DamageError
from lshdb.storage.bands.band_table import BandTable
from lshdb.storage.orders.frozen import Cover

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Buckets", "Postings", "check_ids", "grouped"]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Some buckets and their members.

    Attributes
    ----------
    keys, sizes : ndarray of int64, shape (n,)
        Bucket key of each, and its number of postings.
    members : ndarray of int64, shape (sum(sizes),)
        Signature ids, one bucket after the other.
    """

    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]
    members: NDArray[np.int64]

    def chosen(self, places: NDArray[np.int64]) -> Buckets:
        """Return some of them, by their places, in order."""
        is_chosen = np.zeros(len(self.keys), dtype=bool)
        is_chosen[places] = True
        members = self.members[np.repeat(is_chosen, self.sizes)]
        return Buckets(self.keys[is_chosen], self.sizes[is_chosen], members)


def grouped(postings: NDArray[np.int64]) -> Buckets:
    """Return the buckets of (bucket key, signature id) pairs that are in order."""
    keys, members = np.ascontiguousarray(postings.T)
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    return Buckets(keys[starts], np.diff(starts, append=len(keys)), members)


_POSTINGS = 65_536
_GATHERED = 2**20
"""Candidates of several queries that are gathered at once."""
_Result = TypeVar("_Result")


class Postings:
    """The postings of one state of an index; an order that fails is not asked again.

    Parameters
    ----------
    table : BandTable or None
        Answers where orders do not; None for an index without SQL, whose orders answer or fail.
    n_signatures : int
        Postings may name signatures below this number.
    cover : callable, optional
        Returns the frozen orders of the state, or None; ``sorts`` is whether to sort the rows that
        none covers.
    on_failure : callable, optional
        Told of orders that failed, and why.
    """

    def __init__(
        self,
        table: BandTable | None,
        n_signatures: int,
        *,
        cover: Callable[[bool], Cover | None] = lambda sorts: None,
        on_failure: Callable[[Cover, Exception], None] | None = None,
    ) -> None:
        self._sql = table
        self._n_signatures = n_signatures
        self._find_cover = cover
        self._covers: dict[bool, Cover | None] = {}
        self._on_failure = on_failure

    def cover(self, *, sorts: bool = True) -> Cover | None:
        """Return the frozen orders, as :meth:`OrderFolder.cover` does; one may still fail."""
        if sorts not in self._covers:
            self._covers[sorts] = self._find_cover(sorts)
        return self._covers[sorts]

    @property
    def _table(self) -> BandTable:
        if self._sql is None:
            raise DamageError(
                "a temporary file is not what was written", hint="ask again, with another TMPDIR"
            )
        return self._sql

    def _by_orders(self, ask: Callable[[Cover], _Result], *, sorts: bool = True) -> _Result | None:
        """Ask the frozen orders; None where there are none, or they failed."""
        cover = self.cover(sorts=sorts)
        if cover is None:
            return None
        try:
            return ask(cover)
        except (OSError, ValueError) as error:
            self._covers = {True: None, False: None}
            if self._on_failure is not None:
                self._on_failure(cover, error)
            return None

    @property
    def _sorts_for_look_ups(self) -> bool:
        return self._sql is None or not self._sql.has_indexes

    def of_contents(self, keys: NDArray[np.int64], *, below: int) -> NDArray[np.int64] | None:
        """Return signatures that may have one of some contents, in no order.

        All that a document has, and others: also every signature that is in no file of orders. None
        without orders: SQL knows contents by their documents
        (:meth:`Snapshot.signatures_of_contents`).

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys of contents.
        below : int
            Signatures from this number on may be left out.
        """
        cover = self.cover(sorts=False)
        hits = self._by_orders(lambda cover: cover.of_contents(keys), sorts=False)
        if cover is None or hits is None:
            return None
        return np.append(hits, np.arange(cover.n_covered, below))

    def members(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the signatures of some buckets (int64), in no order, repeated if in several.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys of bands.

        Raises
        ------
        DamageError
            A posting names a signature that does not exist.
        """
        hits = self._by_orders(lambda cover: cover.find(keys), sorts=self._sorts_for_look_ups)
        if hits is not None:
            return hits[1]
        return self._checked(self._table.of(keys))[:, 1]

    def members_of(self, keys: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Return for each query the signatures in its buckets, unordered, once per bucket.

        Parameters
        ----------
        keys : ndarray of int64, shape (n, bands)
            The bucket keys of one query in each row. Queries share their look-ups.

        Raises
        ------
        DamageError
            A posting names a signature that does not exist.
        """
        if len(keys) == 1:  # one key per band, so all are distinct
            yield self.members(keys[0])
            return
        buckets = self.grouped_of(distinct(keys.reshape(-1)))
        ends = np.append(0, np.cumsum(buckets.sizes))
        firsts = ends[np.searchsorted(buckets.keys, keys, side="left")]
        sizes = ends[np.searchsorted(buckets.keys, keys, side="right")] - firsts
        step = len(keys) if sizes.sum() <= _GATHERED else 1
        for number in range(0, len(keys), step):
            part = sizes[number : number + step]
            flat = part.reshape(-1)
            before = firsts[number : number + step].reshape(-1) - np.cumsum(flat) + flat
            members = buckets.members[np.repeat(before, flat) + np.arange(flat.sum())]
            yield from np.split(members, np.cumsum(part.sum(axis=1))[:-1])

    def shared(self, first: int, last: int, *, above: int = 1) -> Buckets:
        """Return every bucket in a range of keys (inclusive) with more than ``above`` postings.

        One pass over that part of the orders; or one SQL ``GROUP BY`` a band.
        """
        buckets = self._by_orders(partial(_grouped, first=first, last=last, above=above))
        if buckets is not None:
            return buckets
        return grouped(self._checked(self._table.shared(first, last, above=above)))

    def shared_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Return which of some distinct buckets of bands have several postings."""
        return self._of(keys, above=1)

    def grouped_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Return which of some distinct buckets of bands exist, in order of key."""
        return self._of(keys, above=0)

    def _of(self, keys: NDArray[np.int64], *, above: int) -> Buckets:
        find = partial(_found, keys=keys, above=above)
        buckets = self._by_orders(find, sorts=self._sorts_for_look_ups)
        if buckets is not None:
            return buckets
        buckets = grouped(self._checked(self._table.of(keys)))
        return buckets.chosen(np.flatnonzero(buckets.sizes > above))

    def in_order(self) -> Iterator[Buckets]:
        """Yield every bucket of the bands, in order of key, in blocks, each bucket whole and once.

        Unlike :meth:`shared` it includes buckets with one posting. Memory is that of a block, or of
        the largest bucket.
        """
        after: int | None = None
        cover = self.cover()
        for first, last in () if cover is None else cover.ranges(_POSTINGS):
            buckets = self._by_orders(partial(_grouped, first=first, last=last, above=0))
            if buckets is None:
                break
            after = last
            if len(buckets.keys):
                yield buckets
        else:
            if cover is not None:
                return
        yield from self._streamed(after)

    def _streamed(self, after: int | None) -> Iterator[Buckets]:
        """Yield every bucket, or those with a key above one, from SQL."""
        open_blocks: list[NDArray[np.int64]] = []
        for postings in self._table.in_order(after=after):
            open_blocks.append(self._checked(postings))
            if postings[-1, 0] == open_blocks[0][0, 0]:  # one bucket, and it may go on
                continue
            joined = np.concatenate(open_blocks)
            end = int(np.searchsorted(joined[:, 0], joined[-1, 0]))
            open_blocks = [joined[end:]]
            yield grouped(joined[:end])
        if open_blocks:
            yield grouped(np.concatenate(open_blocks))

    def _checked(self, postings: NDArray[np.int64]) -> NDArray[np.int64]:
        check_ids(postings[:, 1], self._n_signatures)
        return postings


def _grouped(cover: Cover, *, first: int, last: int, above: int) -> Buckets:
    return Buckets(*cover.grouped(first, last, above=above))


def _found(cover: Cover, *, keys: NDArray[np.int64], above: int) -> Buckets:
    """Return which of some buckets have more than ``above`` postings, in order of key."""
    keys = np.sort(keys)
    sizes, members = cover.find(keys)
    keep = sizes > above
    return Buckets(keys[keep], sizes[keep], members[np.repeat(keep, sizes)])


def check_ids(signature_ids: NDArray[np.int64], n_signatures: int) -> None:
    """Raise DamageError if a posting names a signature that does not exist."""
    # As unsigned numbers, negative ones are the largest: one pass finds both errors.
    signature_ids = np.ascontiguousarray(signature_ids)
    if len(signature_ids) and signature_ids.view(np.uint64).max() >= n_signatures:
        raise DamageError(
            f"a posting names signature {signature_ids.max()}; the index has {n_signatures}",
            hint="run lshdb check",
        )
