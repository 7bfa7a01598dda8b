"""Stored edges -> clusters (components, or components cut by representatives) and neighbours.

Clusters consist of signatures until the very end: all copies of a document are one member of the
arrays here. Memory grows with the signatures in clusters, by some forty bytes each, and with the
keys of one cluster at a time.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_choice, check_whole
from lshdb.arrays import distinct
from lshdb.groups.agreed_units import agreed_clusters, units_of
from lshdb.groups.update import edges_down_to, ready_edges
from lshdb.handle import Handle, Listing
from lshdb.params.index_params import IndexParams, check_recall
from lshdb.search.agreement import Agreement, check_agreement
from lshdb.search.candidates import contains
from lshdb.search.components import connect, represent
from lshdb.search.loss import PairCount, warn_unchecked
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.search.verification import asked_level, below_level, choose_method, level_of
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import Edges, EdgeState
from lshdb.storage.transactions.index_state import IndexState, OpenIndex, while_open
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers

__all__ = [
    "LINKAGES",
    "Cluster",
    "Clusters",
    "NearestNeighbors",
    "Neighbor",
    "Neighbors",
    "StoredAnswer",
    "cluster_labels",
    "clusters_of_edges",
    "find_clusters",
    "find_neighbors",
    "nearest_neighbors",
    "stored_edges",
]


LINKAGES = ("component", "representative")
_SIGNATURES = 1000
_QUERIES = 256
"""Documents that are searched for together."""

Ids = NDArray[np.int64]
_Item = TypeVar("_Item", covariant=True)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of near-duplicate documents.

    Attributes
    ----------
    label : str
        The key of the document with the smallest doc_id, or of the representative: the same in
        every run.
    keys : tuple of str
        All members in the order in which they were added, including the label.
    """

    label: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ClusteredSignatures:
    """Signatures in clusters, sorted; the label and the number of documents of each."""

    signature_ids: Ids
    labels: Ids
    counts: Ids


class StoredAnswer(Listing[_Item]):
    """An answer from stored pairs, item by item.

    Attributes
    ----------
    state : EdgeState
        The state of the pairs that the last iteration reads. Buckets over its ``max_bucket`` were
        linked and not compared.
    unchecked : PairCount or None
        For :meth:`lshdb.Index.dedup` and :meth:`lshdb.Index.filter`: kept pairs that may still be
        near-duplicates, because large buckets had too many pairs to compare; None if there are
        none. It is set before the first item; there is also an ``UncheckedWarning``.
    """

    def __init__(
        self,
        store: OpenIndex,
        family: Family,
        handle: Handle,
        /,
        *,
        threshold: float | None,
        update: bool,
        lock_timeout: float,
        **question: Any,
    ) -> None:
        super().__init__(handle, threshold=threshold, **question)
        self._threshold = threshold
        level = asked_level(store, threshold)
        self.state = ready_edges(store, family, level, update=update, lock_timeout=lock_timeout)
        self.unchecked: PairCount | None = None

    def _say_unchecked(self, unchecked: PairCount | None) -> None:
        """Set ``unchecked``, and warn the caller if it is not None."""
        self.unchecked = unchecked
        warn_unchecked(unchecked)

    def _items(self, store: OpenIndex, family: Family) -> Iterator[_Item]:
        """Yield the items of one state; its edges must reach down to the threshold."""
        level = level_of(store.params, self._threshold)
        with store.reading() as snapshot:
            self.state, self.newest_batch = edges_down_to(store, snapshot, level), None
            yield from while_open(store, self._found(snapshot, family, self.state, level))
            self.newest_batch = self.state.batch_id  # later batches are not compared yet

    @abstractmethod
    def _found(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Iterator[_Item]:
        """Yield the items."""


class Clusters(StoredAnswer[Cluster]):
    """Clusters, the largest first."""

    def __init__(
        self,
        store: OpenIndex,
        family: Family,
        handle: Handle,
        /,
        *,
        min_size: int,
        linkage: str,
        since: Since,
        agree: str | Iterable[str],
        differ: str | Iterable[str],
        **question: Any,
    ) -> None:
        check_choice("linkage", linkage, LINKAGES)
        check_since(store, since)
        self._agreement = check_agreement(store, agree, differ)
        self._min_size, self._linkage = check_whole("min_size", min_size, 2), linkage
        self._since = since
        super().__init__(store, family, handle, linkage=linkage, since=since, **question)

    def _found(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Iterator[Cluster]:
        return find_clusters(
            snapshot,
            threshold=level,
            linkage=self._linkage,
            min_size=self._min_size,
            since=first_new_batch(snapshot, self._since),
            agreement=self._agreement,
            best=family.params.curve.best,
        )


class Neighbors(StoredAnswer["Neighbor"]):
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
        return find_neighbors(
            snapshot,
            family.params,
            threshold=level,
            below=self._below,
            method=state.method,
            top=self._top,
            since=first_new_batch(snapshot, self._since),
        )


class NearestNeighbors(Listing["Neighbor"]):
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
        """Yield the neighbours in one state."""
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

    def _searched(self, snapshot: Snapshot, family: Family, since: int) -> Iterator[Neighbor]:
        """Yield the neighbours by a search from each document, in order of signature."""
        from lshdb.search.nearest import NearestSearch

        snapshot.require_signatures()
        params = family.params
        search = NearestSearch(
            snapshot, family, top=self._top + 1, threshold=self._least, below=self._below,
            recall=self._recall, limit=None, method=choose_method(None, params),
            workers=choose_workers(None),
        )  # fmt: skip
        queries = snapshot.new_signatures(since) if since else np.arange(snapshot.n_signatures)
        for start in range(0, len(queries), _QUERIES):
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
                    hits = (hit for hit in answer if hit.key != key)
                    for rank, hit in enumerate(itertools.islice(hits, self._top), 1):
                        yield Neighbor(key, rank, hit.key, hit.similarity, hit.method, hit.distance)


def find_clusters(
    snapshot: IndexState,
    *,
    threshold: float,
    linkage: str,
    min_size: int,
    since: int | None = None,
    agreement: Agreement | None = None,
    best: float = 1.0,
) -> Iterator[Cluster]:
    """Yield clusters by the stored edges, the largest first, then by the label's doc_id.

    Parameters
    ----------
    snapshot : IndexState
        Its edges reach down to the threshold.
    threshold : float
        The lowest level of a pair.
    linkage : {"component", "representative"}
        As for :meth:`lshdb.Index.clusters`.
    min_size : int
        Fewest documents of a cluster; at least 2.
    since : int, optional
        Only clusters with a document of this batch or a later one.
    agreement : Agreement, optional
        Join only pairs of documents that it allows.
    best : float
        The similarity of copies.
    """
    if agreement is not None:
        units = units_of(snapshot, stored_edges(snapshot, threshold), agreement, best)
        for label, doc_ids in agreed_clusters(
            units, linkage=linkage, min_size=min_size, since=since
        ):
            keys = snapshot.keys_of(np.array(doc_ids, dtype=np.int64))
            yield Cluster(keys[label], tuple(keys[doc_id] for doc_id in doc_ids))
        return
    members = _members(snapshot, threshold, linkage)
    order = np.argsort(members.labels, kind="stable")
    starts = np.flatnonzero(np.diff(members.labels[order], prepend=-1))
    sizes = np.add.reduceat(members.counts[order], starts) if len(starts) else starts
    ends = np.append(starts[1:], len(order))
    largest = np.lexsort((members.labels[order][starts], -sizes))
    largest = largest[sizes[largest] >= min_size]
    if since is not None:
        is_new = contains(snapshot.new_signatures(since), members.signature_ids[order])
        largest = largest[np.add.reduceat(is_new, starts, dtype=np.int64)[largest] > 0]
    place = 0
    while place < len(largest):
        groups: list[Ids] = []
        n_signatures = 0
        while place < len(largest) and n_signatures < _SIGNATURES:
            number = largest[place]
            groups.append(order[starts[number] : ends[number]])
            n_signatures += len(groups[-1])
            place += 1
        yield from _with_keys(snapshot, members, groups)


def cluster_labels(
    snapshot: IndexState, *, threshold: float, linkage: str
) -> Callable[[Ids], tuple[Ids, Ids]]:
    """Return a function that looks up the documents after which clusters are named.

    Parameters
    ----------
    snapshot : IndexState
        Its edges reach down to the threshold.
    threshold : float
        The lowest level of a pair.
    linkage : {"component", "representative"}
        As for :meth:`lshdb.Index.clusters`.

    Returns
    -------
    callable
        Takes sorted distinct signature ids; returns those in a cluster and, for each, the doc_id
        that names its cluster, as in :func:`find_clusters`. Components at the threshold of the
        stored edges are looked up on disk; other clusters are computed once, in memory.
    """
    if not _are_stored(snapshot, threshold, linkage):
        members = _members_of_edges(snapshot, threshold, linkage)

        def computed(signature_ids: Ids) -> tuple[Ids, Ids]:
            hits = signature_ids[contains(members.signature_ids, signature_ids)]
            return hits, members.labels[np.searchsorted(members.signature_ids, hits)]

        return computed

    def stored(signature_ids: Ids) -> tuple[Ids, Ids]:
        hits, labels = snapshot.edges.labels_by_signature(signature_ids)
        astray = snapshot.edges.astray(distinct(labels))
        if astray:
            labels = np.array([astray.get(label, label) for label in labels.tolist()], np.int64)
        return hits, labels

    return stored


def _are_stored(snapshot: IndexState, threshold: float, linkage: str) -> bool:
    """Return whether the index stores clusters of this kind."""
    state = snapshot.edges.state()
    return linkage == "component" and state is not None and state.threshold == threshold


def stored_edges(snapshot: IndexState, threshold: float) -> Edges:
    """Return all stored edges at or above a level, in memory: 24 bytes each.

    Edges of signatures that lost their last document since the last update are left out.
    """
    dead = snapshot.edges.dead()
    left, right = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    similarities = [np.empty(0)]
    for block in snapshot.edges.edges(threshold):
        alive = ~(contains(dead, block.left) | contains(dead, block.right))
        left.append(block.left[alive])
        right.append(block.right[alive])
        similarities.append(block.similarities[alive])
    return Edges(*map(np.concatenate, (left, right, similarities)))  # type: ignore[arg-type]


def _with_keys(
    snapshot: IndexState, members: _ClusteredSignatures, groups: list[Ids]
) -> Iterator[Cluster]:
    """Yield clusters with the keys of their documents; a group has the places of its members."""
    ids = members.signature_ids[np.concatenate(groups)].tolist()
    rows = snapshot.documents_of_signatures(ids)
    for places in groups:
        label = members.labels[places[0]]
        documents = sorted(
            (doc_id, key)
            for signature_id in members.signature_ids[places].tolist()
            for doc_id, key, _ in rows[signature_id]
        )
        # Without an update, the document of the label may be removed; then the next names it.
        name = next((key for doc_id, key in documents if doc_id == label), documents[0][1])
        yield Cluster(name, tuple(key for _, key in documents))


def _members(snapshot: IndexState, threshold: float, linkage: str) -> _ClusteredSignatures:
    """Return every signature in a cluster of two documents or more."""
    tables = snapshot.edges
    if not _are_stored(snapshot, threshold, linkage):
        return _members_of_edges(snapshot, threshold, linkage)
    blocks = list(tables.members())
    if not blocks:
        return _ClusteredSignatures(*(np.empty(0, dtype=np.int64) for _ in range(3)))
    ids, labels = (np.concatenate(column) for column in zip(*blocks, strict=True))
    counts = np.zeros(len(ids), dtype=np.int64)
    for holders in tables.holders(ids):
        counts[np.searchsorted(ids, holders.signature_ids)] = holders.count
    return _ClusteredSignatures(ids[counts > 0], labels[counts > 0], counts[counts > 0])


def clusters_of_edges(snapshot: IndexState, threshold: float) -> Iterator[tuple[int, int]]:
    """Yield (signature_id, label) for all members of clusters, computed from the edges."""
    members = _members_of_edges(snapshot, threshold, "component")
    yield from zip(members.signature_ids.tolist(), members.labels.tolist(), strict=True)


def _members_of_edges(snapshot: IndexState, threshold: float, linkage: str) -> _ClusteredSignatures:
    edges = stored_edges(snapshot, threshold)
    nodes = distinct(np.concatenate([edges.left, edges.right]))
    ids, first, count = _holders(snapshot, nodes)
    if linkage == "component":
        _, roots = connect(edges.left, edges.right)
    else:
        by_age = np.argsort(first[np.searchsorted(ids, nodes)], kind="stable")
        _, roots, _ = represent(nodes[by_age], edges.left, edges.right)
    root = ids.copy()
    root[np.searchsorted(ids, nodes)] = roots
    # A cluster is named after its representative, or after its oldest document.
    oldest = np.full(len(ids), np.iinfo(np.int64).max)
    place = np.searchsorted(ids, root)
    np.minimum.at(oldest, place, first if linkage == "component" else first[place])
    return _ClusteredSignatures(ids, oldest[place], count)


def _holders(snapshot: IndexState, nodes: Ids) -> tuple[Ids, Ids, Ids]:
    """Return signatures with an edge or several documents: ids, smallest doc_ids, counts."""
    blocks = [np.empty((3, 0), dtype=np.int64)]
    for holders in snapshot.edges.holders():
        places = np.searchsorted(nodes, holders.signature_ids)
        places[places == len(nodes)] = 0
        is_member = holders.count > 1
        if len(nodes):
            is_member |= nodes[places] == holders.signature_ids
        columns = np.stack([holders.signature_ids, holders.first, holders.count])
        blocks.append(columns[:, is_member])
    ids, first, count = np.concatenate(blocks, axis=1)
    return ids, first, count


_SIGNATURES_AT_ONCE = 2_000


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


def find_neighbors(
    snapshot: IndexState,
    params: IndexParams,
    *,
    threshold: float,
    method: str,
    top: int,
    since: int | None = None,
    below: float | None = None,
) -> Iterator[Neighbor]:
    """Yield the ``top`` most similar documents of each document; among equals the oldest.

    Documents come in order of signature, a range of signatures at a time; memory does not grow with
    the index. A document without a neighbour is left out. With ``since``, documents of earlier
    batches are left out, but not as neighbours; with ``below``, neighbours at or above that level.
    """
    most = math.inf if below is None else below
    has_copies = params.curve.best < most
    new = None if since is None else snapshot.new_signatures(since)
    for start in range(0, snapshot.n_signatures, _SIGNATURES_AT_ONCE):
        end = start + _SIGNATURES_AT_ONCE
        if new is not None and np.searchsorted(new, start) == np.searchsorted(new, end):
            continue
        similar: dict[int, list[tuple[float, int]]] = {}
        for edges in snapshot.edges.edges_between(start, end - 1, threshold):
            is_below = edges.similarities < most
            columns = edges.left[is_below], edges.right[is_below], edges.similarities[is_below]
            for left, right, level in zip(*(column.tolist() for column in columns), strict=True):
                similar.setdefault(left, []).append((level, right))
        for shared in snapshot.copied_between(start, end - 1) if has_copies else ():
            similar.setdefault(shared, [])
        yield from _ranked(snapshot, params, similar, has_copies, method, top, since or 0)


def nearest_neighbors(
    snapshot: IndexState,
    family: Family,
    *,
    top: int,
    least: float,
    below: float | None,
    since: int | None,
    workers: int,
) -> Iterator[Neighbor]:
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
    # One more than asked for, because each text is most similar to itself.
    for shared in texts.sharing_with(new, most=top + 1, least=least, below=below):
        ids = shared.asking.tolist()
        similar: dict[int, list[tuple[float, int]]] = {signature_id: [] for signature_id in ids}
        columns = shared.places.tolist(), shared.ids.tolist(), shared.levels.tolist()
        for place, neighbor, level in zip(*columns, strict=True):
            if neighbor != ids[place]:
                similar[ids[place]].append((level, neighbor))
        yield from _ranked(
            snapshot, family.params, similar, below is None, "exact", top, since or 0
        )


def _ranked(
    snapshot: IndexState,
    params: IndexParams,
    similar: Mapping[int, list[tuple[float, int]]],
    has_copies: bool,
    method: str,
    top: int,
    since: int,
) -> Iterator[Neighbor]:
    """Yield the neighbours of each document of the signatures in ``similar``.

    Parameters
    ----------
    similar : mapping
        Signature to (similarity, signature) of each similar one; empty if it has only copies.
    has_copies : bool
        Whether documents of one signature are neighbours.
    """
    best, is_distance = params.curve.best, params.kind.is_distance
    involved = set(similar)
    involved.update(neighbor for pairs in similar.values() for _, neighbor in pairs)
    documents = snapshot.documents_of_signatures(sorted(involved))
    for signature_id in sorted(similar):
        pairs = sorted(similar[signature_id], key=lambda pair: -pair[0])
        if has_copies:
            pairs.insert(0, (best, signature_id))
        own_documents = documents.get(signature_id, ())
        # More than ``top``, because copies include the document itself.
        nearest = [
            (doc_id, key, similarity)
            for similarity, group in itertools.groupby(pairs, key=lambda pair: pair[0])
            for doc_id, key in sorted(
                (doc_id, key)
                for _, neighbor in group
                for doc_id, key, _ in documents.get(neighbor, ())
            )
        ][: top + len(own_documents)]
        for own, key, batch_id in own_documents:
            if batch_id < since:
                continue
            hits = (hit for hit in nearest if hit[0] != own)
            for rank, (_, name, similarity) in enumerate(itertools.islice(hits, top), 1):
                distance = 0.0 - similarity if is_distance else None
                yield Neighbor(key, rank, name, similarity, method, distance)
