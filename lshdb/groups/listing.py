"""Stored edges -> clusters: components, or components cut by representatives.

Clusters consist of signatures until the very end: all copies of a document are one member of the
arrays here. Memory grows with the signatures in clusters, by some forty bytes each, and with the
keys of one cluster at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_choice, check_whole
from lshdb.arrays import distinct
from lshdb.groups.agreed_units import agreed_clusters, units_of
from lshdb.groups.update import edges_down_to, ready_edges
from lshdb.handle import Handle, Listing, ListingTable
from lshdb.phases.phase import Phase
from lshdb.search.agreement import Agreement, check_agreement
from lshdb.search.candidates import contains
from lshdb.search.components import connect, represent
from lshdb.search.loss import PairCount, warn_unchecked
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.search.verification import asked_level, level_of
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import Edges, EdgeState
from lshdb.storage.transactions.index_state import IndexState, OpenIndex, while_open

__all__ = [
    "LINKAGES",
    "Cluster",
    "Clusters",
    "StoredAnswer",
    "cluster_labels",
    "clusters_of_edges",
    "find_clusters",
    "stored_edges",
]


LINKAGES = ("component", "representative")
_SIGNATURES = 1000

Ids = NDArray[np.int64]
_Item = TypeVar("_Item", covariant=True)
_Part = TypeVar("_Part")


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
        """Yield the items of one state."""
        return self._answer(store, family, self._found)

    def _answer(
        self,
        store: OpenIndex,
        family: Family,
        find: Callable[[IndexState, Family, EdgeState, float], Iterator[_Part]],
    ) -> Iterator[_Part]:
        """Yield what is found in one state; its edges must reach down to the threshold."""
        level = level_of(store.params, self._threshold)
        with store.reading() as snapshot:
            self.state, self.newest_batch = edges_down_to(store, snapshot, level), None
            yield from while_open(store, find(snapshot, family, self.state, level))
            self.newest_batch = self.state.batch_id  # later batches are not compared yet

    @abstractmethod
    def _found(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Iterator[_Item]:
        """Yield the items."""


class Clusters(StoredAnswer[Cluster], ListingTable[Cluster]):
    """Clusters, the largest first."""

    ITEM = Cluster

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
    with Phase("clusters", len(largest)) as phase:
        while place < len(largest):
            groups: list[Ids] = []
            n_signatures = 0
            while place < len(largest) and n_signatures < _SIGNATURES:
                number = largest[place]
                groups.append(order[starts[number] : ends[number]])
                n_signatures += len(groups[-1])
                place += 1
            for cluster in _with_keys(snapshot, members, groups):
                yield cluster
                phase.add(1)


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
