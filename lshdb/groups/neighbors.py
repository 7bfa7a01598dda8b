"""Stored edges, or all texts -> the nearest documents of each document, as columns.

Signatures are taken some at a time, in order. What is similar to them is expanded into documents
and ranked as arrays: by level, and among equals by age. A group of many copies is cut like any
other lines, so a block takes the same memory however many there are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_whole
from lshdb.arrays import distinct
from lshdb.groups.listing import StoredAnswer
from lshdb.handle import ColumnListing, Handle, ListingTable
from lshdb.params.index_params import IndexParams, check_recall
from lshdb.phases.phase import counting
from lshdb.search.pair_columns import LINES, SignatureDocuments
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.search.verification import below_level, choose_method, level_of
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import EdgeState
from lshdb.storage.transactions.index_state import IndexState, OpenIndex, while_open
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers

__all__ = ["NearestNeighbors", "Neighbor", "NeighborColumns", "Neighbors"]

_QUERIES = 256
"""Documents that are searched for together."""
_SIGNATURES_AT_ONCE = 2_000
_MOST = 2**62
"""More than there are documents."""

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_NO_IDS, _NO_LEVELS = np.empty(0, dtype=np.int64), np.empty(0)


@dataclass(frozen=True, slots=True)
class Neighbor:
    """One of the documents most similar to another.

    Attributes
    ----------
    key : str
        The document.
    rank : int
        Counts from 1.
    neighbor : str
        Key of the similar document.
    similarity : float
        For a distance metric, minus the distance.
    method : {"signature", "exact"}
        How the similarity was found.
    distance : float or None
        The distance if the metric is one; else None.
    """

    key: str
    rank: int
    neighbor: str
    similarity: float
    method: str
    distance: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NeighborColumns:
    """Some neighbours as columns: place i of each list is of one line.

    Attributes
    ----------
    keys, neighbor_keys : list of str
        The document, and the one that is similar to it.
    ranks : list of int
        Count from 1 for each document.
    similarities : list of float
        For a distance metric, minus the distance.
    method : {"signature", "exact"}
        How the similarities were found.
    is_distance : bool
        Whether the metric is a distance.
    """

    keys: list[str]
    ranks: list[int]
    neighbor_keys: list[str]
    similarities: list[float]
    method: str
    is_distance: bool = False

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.keys)

    def neighbors(self) -> Iterator[Neighbor]:
        """Yield them one by one."""
        distances: Iterable[float | None] = itertools.repeat(None)
        if self.is_distance:
            distances = [0.0 - similarity for similarity in self.similarities]
        return map(
            Neighbor,
            self.keys, self.ranks, self.neighbor_keys, self.similarities,
            itertools.repeat(self.method), distances,
        )  # fmt: skip


class _NeighborListing(ColumnListing[Neighbor, NeighborColumns], ListingTable[Neighbor]):
    """Neighbours as they are found, one by one or as columns."""

    ITEM = Neighbor


class Neighbors(StoredAnswer[Neighbor], _NeighborListing):
    """The nearest documents of each document."""

    def __init__(
        self,
        store: OpenIndex,
        family: Family,
        handle: Handle,
        /,
        *,
        top: int,
        below: float | None,
        since: Since,
        threshold: float | None,
        **question: Any,
    ) -> None:
        check_since(store, since)
        self._top, self._since = check_whole("top", top, 1), since
        self._below = below_level(
            store, below, level=level_of(store.params, threshold), verify="exact"
        )
        super().__init__(
            store, family, handle,
            top=top, below=below, since=since, threshold=threshold, **question,
        )  # fmt: skip

    def _found(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Iterator[Neighbor]:
        return _one_by_one(self._found_columns(snapshot, family, state, level))

    def _columns(self, store: Store, family: Family) -> Iterator[NeighborColumns]:
        return self._answer(store, family, self._found_columns)

    def _found_columns(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Generator[NeighborColumns]:
        return find_neighbors(
            snapshot,
            family.params,
            threshold=level,
            below=self._below,
            method=state.method,
            top=self._top,
            since=first_new_batch(snapshot, self._since),
        )


class NearestNeighbors(_NeighborListing):
    """The nearest documents of each document, at any distance.

    With stored texts, all are compared; without them, each document is a query with this recall.

    Attributes
    ----------
    reached : float
        The lowest recall of a document so far; 1 if all texts are compared.
    """

    def __init__(
        self,
        store: Store,
        family: Family,
        handle: Handle,
        /,
        *,
        top: int,
        threshold: float | None,
        below: float | None,
        recall: float,
        since: Since,
    ) -> None:
        from lshdb.search.all_texts import has_texts  # imports much, and is rarely needed

        check_since(store, since)
        self._all_texts = has_texts(store.params)
        check_recall(recall, may_be_1=self._all_texts)
        self._top, self._since, self._recall = check_whole("top", top, 1), since, recall
        self._least = None if threshold is None else level_of(store.params, threshold)
        self._below = below_level(
            store, below, level=-math.inf if self._least is None else self._least
        )
        self.reached = 1.0
        super().__init__(
            handle, top=top, threshold=threshold, below=below, recall=recall, since=since
        )

    def _items(self, store: Store, family: Family) -> Iterator[Neighbor]:
        """Yield the neighbours in one state one by one."""
        return while_open(store, _one_by_one(self._columns(store, family)))

    def _columns(self, store: Store, family: Family) -> Generator[NeighborColumns]:
        self.newest_batch, self.reached = None, 1.0
        with store.reading() as snapshot:
            since = first_new_batch(snapshot, self._since)
            neighbors = (
                nearest_neighbors(
                    snapshot, family, top=self._top, least=self._least or 0.0, below=self._below,
                    since=since, workers=choose_workers(None),
                )
                if self._all_texts
                else self._searched(snapshot, family, since or 0)
            )  # fmt: skip
            yield from while_open(store, neighbors)
            self.newest_batch = snapshot.newest_batch()

    def _searched(
        self, snapshot: Snapshot, family: Family, since: int
    ) -> Iterator[NeighborColumns]:
        """Yield the neighbours by a search from each document, in order of signature."""
        from lshdb.search.nearest import NearestSearch

        snapshot.require_signatures()
        params = family.params
        method, is_distance = choose_method(None, params), params.kind.is_distance
        search = NearestSearch(
            snapshot, family, top=self._top + 1, threshold=self._least, below=self._below,
            recall=self._recall, limit=None, method=method, workers=choose_workers(None),
        )  # fmt: skip
        queries = snapshot.new_signatures(since) if since else np.arange(snapshot.n_signatures)
        starts = range(0, len(queries), _QUERIES)
        for start in counting(starts, "signatures", len(queries), lambda _: _QUERIES):
            block = queries[start : start + _QUERIES].tolist()
            documents = {
                number: [key for _, key, batch_id in rows if batch_id >= since]
                for number, rows in snapshot.documents_of_signatures(block).items()
            }
            numbers = np.array([number for number in block if documents.get(number)], np.int64)
            for number, answer in zip(
                numbers.tolist(), search.search_signatures(numbers), strict=True
            ):
                if answer.recall is not None:
                    self.reached = min(self.reached, answer.recall)
                for key in documents[number]:
                    hits = [hit for hit in answer if hit.key != key][: self._top]
                    if hits:
                        yield NeighborColumns(
                            [key] * len(hits), [*range(1, len(hits) + 1)],
                            [hit.key for hit in hits], [hit.similarity for hit in hits],
                            method, is_distance,
                        )  # fmt: skip


def _one_by_one(blocks: Generator[NeighborColumns]) -> Generator[Neighbor]:
    with closing(blocks):
        for block in blocks:
            yield from block.neighbors()


def find_neighbors(
    snapshot: IndexState,
    params: IndexParams,
    *,
    threshold: float,
    method: str,
    top: int,
    since: int | None = None,
    below: float | None = None,
) -> Generator[NeighborColumns]:
    """Yield the ``top`` most similar documents of each document; among equals the oldest.

    Documents come in order of signature, a range of signatures at a time; memory does not grow with
    the index. A document without a neighbour is left out. With ``since``, documents of earlier
    batches are left out, but not as neighbours; with ``below``, neighbours at or above that level.
    """
    most = math.inf if below is None else below
    has_copies = params.curve.best < most
    ranking = _Ranking(snapshot, params, method, top, since or 0, has_copies=has_copies)
    new = None if since is None else snapshot.new_signatures(since)
    n, step = snapshot.n_signatures, _SIGNATURES_AT_ONCE
    for start in counting(range(0, n, step), "signatures", n, lambda _: step):
        end = start + _SIGNATURES_AT_ONCE
        if new is not None and np.searchsorted(new, start) == np.searchsorted(new, end):
            continue
        lefts, rights, levels = [_NO_IDS], [_NO_IDS], [_NO_LEVELS]
        for edges in snapshot.edges.edges_between(start, end - 1, threshold):
            is_below = edges.similarities < most
            lefts.append(edges.left[is_below])
            rights.append(edges.right[is_below])
            levels.append(edges.similarities[is_below])
        left = np.concatenate(lefts)
        copied = snapshot.copied_between(start, end - 1) if has_copies else []
        asking = distinct(np.concatenate([left, np.array(copied, dtype=np.int64)]))
        yield from ranking.columns(asking, left, np.concatenate(rights), np.concatenate(levels))


def nearest_neighbors(
    snapshot: IndexState,
    family: Family,
    *,
    top: int,
    least: float,
    below: float | None,
    since: int | None,
    workers: int,
) -> Generator[NeighborColumns]:
    """Yield the ``top`` most similar documents of each document, by comparing all texts.

    Parameters
    ----------
    snapshot, family, top, below, since
        As for :func:`find_neighbors`.
    least : float
        Lowest similarity; 0 for any above it.
    workers : int
        Threads.
    """
    from lshdb.search.all_texts import AllTexts

    texts = AllTexts(snapshot, family, workers=workers)
    new = None if since is None else snapshot.new_signatures(since)
    ranking = _Ranking(snapshot, family.params, "exact", top, since or 0, has_copies=below is None)
    # One more than asked for, because each text is most similar to itself.
    for shared in texts.sharing_with(new, most=top + 1, least=least, below=below):
        left = shared.asking[shared.places]
        is_other = left != shared.ids
        yield from ranking.columns(
            distinct(shared.asking), left[is_other], shared.ids[is_other], shared.levels[is_other]
        )


class _Ranking:
    """Ranks the documents of similar signatures for each document of a signature.

    Parameters
    ----------
    has_copies : bool
        Whether documents of one signature are neighbours.
    """

    def __init__(
        self,
        snapshot: IndexState,
        params: IndexParams,
        method: str,
        top: int,
        since: int,
        *,
        has_copies: bool,
    ) -> None:
        self._snapshot, self._method, self._since = snapshot, method, since
        self._best, self._is_distance = params.curve.best, params.kind.is_distance
        self._top, self._has_copies = min(top, _MOST), has_copies

    def columns(
        self, asking: Ids, left: Ids, right: Ids, levels: Floats
    ) -> Iterator[NeighborColumns]:
        """Yield the neighbours of the documents of some signatures.

        Parameters
        ----------
        asking : ndarray of int64
            The signatures, sorted.
        left, right, levels : ndarray, shape (n,)
            One of the signatures, another that is similar to it, and how similar.
        """
        if not len(asking):
            return
        if self._has_copies:
            left, right = np.concatenate([left, asking]), np.concatenate([right, asking])
            levels = np.concatenate([levels, np.full(len(asking), self._best)])
        documents = SignatureDocuments(self._snapshot, np.concatenate([asking, right]))
        of_pair, hit = documents.places(right)
        # Of each signature, every document that is similar to it: by level, and then by age.
        order = np.lexsort((documents.doc_ids[hit], -levels[of_pair], left[of_pair]))
        of_pair, hit = of_pair[order], hit[order]
        own_left, own_right = left[of_pair], right[of_pair]
        place_among = np.full(len(documents.keys), _MOST)
        itself = np.flatnonzero(own_left == own_right)
        place_among[hit[itself]] = itself
        of_asking, own = documents.places(asking)
        is_new = documents.batches[own] >= self._since
        of_asking, own = of_asking[is_new], own[is_new]
        begins = np.searchsorted(own_left, asking, side="left")[of_asking]
        counts = np.searchsorted(own_left, asking, side="right")[of_asking] - begins
        counts = np.minimum(counts, self._top + 1)  # one of them may be the document itself
        ends = np.cumsum(counts)
        for start in range(0, int(ends[-1]) if len(ends) else 0, LINES):
            numbers = np.arange(start, min(start + LINES, int(ends[-1])))
            document = np.searchsorted(ends, numbers, side="right")
            among = numbers - (ends - counts)[document]
            place = begins[document] + among
            behind = place - place_among[own[document]]
            rank = among + (behind < 0)
            is_listed = (behind != 0) & (rank <= self._top)
            place, document = place[is_listed], document[is_listed]
            if len(place):
                yield NeighborColumns(
                    [*map(documents.keys.__getitem__, own[document].tolist())],
                    rank[is_listed].tolist(),
                    [*map(documents.keys.__getitem__, hit[place].tolist())],
                    levels[of_pair[place]].tolist(),
                    self._method,
                    self._is_distance,
                )
