"""All vectors, bits or weights of an index against some: exact levels, with no bucket asked.

What ``all_texts.py`` does for shingles. Rows are screened first, many at a time: vectors by
products of matrices, bits by counting those that differ, weights by a table of all elements.
Screening may round in another way than the comparison of two bodies, so it lets a little too much
pass. What passes is compared by the family itself, as every search does, so levels agree to the
last bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import TextNotStoredError
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import Phase
from lshdb.search.all_texts import AllTexts, Shared, blocks_within, has_texts
from lshdb.search.verification import MEMORY, grouped_bodies, missing_text
from lshdb.signatures.dense import SLACK
from lshdb.signatures.family import Family
from lshdb.storage.transactions.index_state import IndexState
from lshdb.threads import work_ahead

__all__ = ["AllBodies", "all_bodies", "require_bodies"]

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
_Result = TypeVar("_Result")

_ROWS_ASK = 256
_BLOCK_BYTES = 16 * 2**20
"""Working memory for the levels of a block of rows, and for its numbers in float64."""
_PAIRS = 65_536
_ELEMENT_BYTES = 40
"""Memory of a weighted element: in a block, sorted, and while it is asked for."""


class AllBodies(Protocol):
    """Compares all stored bodies of an index with some."""

    def sharing_with(self, ids: Ids | None = None, *, unit: str, least: float) -> Iterator[Shared]:
        """Yield the signatures at a level or above for each asking one, by default all, in order.

        A signature is found for itself, too. The unit is what those that ask are counted as.

        Raises
        ------
        DamageError
            A text or a vector is missing, or is not what was written.
        """


def require_bodies(params: IndexParams, what: str) -> None:
    """Raise TextNotStoredError if an index has no stored bodies to compare.

    Parameters
    ----------
    params : IndexParams
    what : str
        What the caller wants, as the beginning of the message.
    """
    if not params.store_text:
        bodies, option = ("vectors", "vectors") if params.kind.is_dense else ("texts", "text")
        raise TextNotStoredError(
            f"{what} compares the {bodies} of an index, and this one was made with --no-{option}",
            hint="make an index that stores them, of a sample of the documents",
        )


def all_bodies(
    snapshot: IndexState, family: Family, ids: Ids, *, workers: int, memory: int = MEMORY
) -> AllBodies:
    """Return how all bodies of an index are compared with some.

    Parameters
    ----------
    snapshot : IndexState
        Its texts, or vectors, are stored.
    family : Family
        Of the same parameters.
    ids : ndarray of int64
        The signatures that a document has, sorted.
    workers : int
    memory : int
        Bytes for shingles, weights or rows.
    """
    if has_texts(family.params):
        return AllTexts(snapshot, family, workers=workers, memory=memory)
    if family.params.kind.is_dense:
        return _AllRows(snapshot, family, ids, workers=workers, memory=memory)
    return _AllWeights(snapshot, family, ids, workers=workers, memory=memory)


# Vectors and bits


class _AllRows:
    """Rows of the vector file, read in order a block at a time."""

    def __init__(
        self, snapshot: IndexState, family: Family, ids: Ids, *, workers: int, memory: int
    ) -> None:
        self._rows, self._family, self._ids, self._workers = snapshot.vectors, family, ids, workers
        params = family.params
        a_row = max(8 * params.vector_columns, 8 * _ROWS_ASK)
        block_bytes = min(_BLOCK_BYTES, memory // (4 * workers))
        self._step = max(1, block_bytes // a_row)

    def sharing_with(self, ids: Ids | None = None, *, unit: str, least: float) -> Iterator[Shared]:
        asking = self._ids if ids is None else ids
        with Phase(unit, len(asking), steps=len(asking) * len(self._ids)) as work:
            for first in range(0, len(asking), _ROWS_ASK):
                yield self._found(asking[first : first + _ROWS_ASK], least, work)

    def _found(self, asking: Ids, least: float, work: Phase) -> Shared:
        own = self._rows[asking]
        screen = self._family.screen(own, least)

        def compare(ids: Ids) -> tuple[Ids, Ids, Floats]:
            rows = self._rows[ids]
            places, numbers = screen(rows)
            levels = np.empty(len(places))
            for start in range(0, len(places), _PAIRS):
                part = slice(start, start + _PAIRS)
                # Rows of one array are a sequence of points, without an object for each.
                ones: Any = own[places[part]]
                twos: Any = rows[numbers[part]]
                levels[part] = self._family.levels(ones, twos)
            keep = levels >= least
            return places[keep], ids[numbers[keep]], levels[keep]

        blocks = [self._ids[at : at + self._step] for at in range(0, len(self._ids), self._step)]
        steps = [len(asking) * len(block) for block in blocks]
        with closing(work_ahead(compare, blocks, workers=self._workers)) as results:
            return _in_order(asking, _counted(results, steps, work))


# Weights


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weighted elements of some bodies, and the points that the family compares."""

    ids: Ids
    points: list[Any]

    def columns(self) -> tuple[NDArray[np.uint64], Ids, Floats]:
        """Return (hashes, owners, weights), sorted by hash."""
        hashes = np.concatenate([np.empty(0, np.uint64), *(column for column, _ in self.points)])
        weights = np.concatenate([np.empty(0), *(column for _, column in self.points)])
        owners = np.repeat(np.arange(len(self.points)), [len(column) for column, _ in self.points])
        order = np.argsort(hashes, kind="stable")
        return hashes[order], owners[order], weights[order]


class _AllWeights:
    """Weights by element, in blocks of as many as memory holds."""

    def __init__(
        self, snapshot: IndexState, family: Family, ids: Ids, *, workers: int, memory: int
    ) -> None:
        self._snapshot, self._family, self._workers = snapshot, family, workers
        self._ids, sizes = snapshot.set_sizes()
        self._blocks = blocks_within(sizes, max(1, memory // _ELEMENT_BYTES))
        self._only: tuple[_Weights, Any] | None = None

    def sharing_with(self, ids: Ids | None = None, *, unit: str, least: float) -> Iterator[Shared]:
        asking = self._ids if ids is None else ids
        # Reading a body takes about as long as comparing it with all of those that ask together.
        n_readings = min(len(asking), _ROWS_ASK) if len(self._blocks) == 1 else len(asking)
        steps = (len(asking) + n_readings) * len(self._ids)
        with Phase(unit, len(asking), steps=steps) as work:
            for first in range(0, len(asking), _ROWS_ASK):
                own = self._read(asking[first : first + _ROWS_ASK])
                numbers = range(len(self._blocks))
                results = (self._near(own, number, least, work) for number in numbers)
                yield _in_order(own.ids, results)

    def _block(self, number: int, n_asking: int, work: Phase) -> tuple[_Weights, Any]:
        """Return the bodies of a block and their elements; a block that is the only one is kept."""
        if self._only is not None:
            return self._only
        bodies = self._read(self._ids[self._blocks[number]], n_asking, work)
        block = bodies, bodies.columns()
        if len(self._blocks) == 1:
            self._only = block
        return block

    def _near(
        self, own: _Weights, number: int, least: float, work: Phase
    ) -> tuple[Ids, Ids, Floats]:
        stored, (hashes, owners, weights) = self._block(number, len(own.ids), work)
        totals = np.bincount(owners, weights, minlength=len(stored.ids))

        def compare(place: int) -> tuple[Ids, Ids, Floats]:
            point = own.points[place]
            starts = np.searchsorted(hashes, point[0])
            counts = np.searchsorted(hashes, point[0], side="right") - starts
            ends = np.cumsum(counts)
            among = np.repeat(starts - (ends - counts), counts) + np.arange(counts.sum())
            least_weights = np.minimum(np.repeat(point[1], counts), weights[among])
            common = np.bincount(owners[among], least_weights, minlength=len(stored.ids))
            either = totals + point[1].sum() - common
            numbers = np.flatnonzero((common > 0) & (common >= (least - SLACK) * either))
            stored_points = [stored.points[number] for number in numbers.tolist()]
            levels = self._family.levels([point] * len(stored_points), stored_points)
            keep = levels >= least
            numbers = numbers[keep]
            return np.full(len(numbers), place), stored.ids[numbers], levels[keep]

        with closing(work_ahead(compare, range(len(own.ids)), workers=self._workers)) as results:
            steps = itertools.repeat(len(stored.ids), len(own.ids))
            return _columns(_counted(results, steps, work))

    def _read(self, ids: Ids, steps: int = 0, work: Phase | None = None) -> _Weights:
        """Read some bodies, each of so many steps of the work."""
        points_of: dict[int, Any] = {}
        for group in grouped_bodies(self._snapshot.bodies_of_signatures(ids.tolist())):
            points = self._family.points(self._family.contents([body for _, body in group]))
            points_of.update(zip((signature_id for signature_id, _ in group), points, strict=True))
            if work is not None:
                work.add(steps * len(group))
        missing = [signature_id for signature_id in ids.tolist() if signature_id not in points_of]
        if missing:
            raise missing_text(missing[0])
        return _Weights(ids, [points_of[signature_id] for signature_id in ids.tolist()])


def _counted(results: Iterable[_Result], steps: Iterable[int], work: Phase) -> Iterator[_Result]:
    """Yield the same results, and count the steps of each as done."""
    for result, count in zip(results, steps, strict=True):
        work.add(count)
        yield result


def _columns(parts: Iterable[tuple[Ids, Ids, Floats]]) -> tuple[Ids, Ids, Floats]:
    empty = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    places, ids, levels = zip(empty, *parts, strict=True)
    return np.concatenate(places), np.concatenate(ids), np.concatenate(levels)


def _in_order(asking: Ids, parts: Iterable[tuple[Ids, Ids, Floats]]) -> Shared:
    """Merge the results of blocks, in order of the asking rows."""
    places, ids, levels = _columns(parts)
    order = np.argsort(places, kind="stable")
    return Shared(asking, places[order], ids[order], levels[order])
