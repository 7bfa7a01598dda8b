"""Stored edges -> clusters: what hangs together, as it lies or cut by representatives.

Clusters are made of signatures until the very end: however many copies a document has, they are one
member of the arrays here. Memory grows with the signatures that are in clusters, by some forty
bytes each, and with the keys of one cluster at a time.

Stored edges -> for every document its most similar ones.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_choice, check_whole
from lshdb.arrays import distinct
from lshdb.clusters.update import edges_down_to, ready_edges
from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import contains
from lshdb.search.components import connect, represent
from lshdb.search.handle import Handle
from lshdb.search.listings import Listing
from lshdb.search.loss import PairCount
from lshdb.search.verification import asked_level, level_of
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.tables.edges import Edges, EdgeState
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = [
    "LINKAGES",
    "Cluster",
    "Clusters",
    "Neighbor",
    "Neighbors",
    "StoredAnswer",
    "cluster_labels",
    "clusters_of_edges",
    "find_clusters",
    "find_neighbors",
    "stored_edges",
]


LINKAGES = ("component", "representative")
_SIGNATURES = 1000

Ids = NDArray[np.int64]
_Item = TypeVar("_Item", covariant=True)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Documents that tell the same story.

    Attributes
    ----------
    label : str
        The key of the document with the smallest doc_id, or of the representative: the same in
        every run.
    keys : tuple of str
        All members in the order in which they came in, the label's own among them.
    """

    label: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Members:
    """Signatures in clusters, sorted, with their label and number of documents."""

    signature_ids: Ids
    labels: Ids
    counts: Ids


class StoredAnswer(Listing[_Item]):
    """What is answered from stored pairs, item by item.

    Attributes
    ----------
    state : EdgeState
        What those pairs cover, and its ``max_bucket``: buckets over that were linked and not
        compared. Of the last iteration that has begun.
    unchecked : PairCount or None
        Of :meth:`lshdb.Index.dedup` and :meth:`lshdb.Index.filter`: pairs of documents that are
        kept and may be near-duplicates all the same, as large buckets made too many pairs to
        compare; None where there are none. Known with the first item.
    """

    def __init__(
        self,
        store: Store,
        family: Family,
        handle: Handle,
        /,
        *,
        threshold: float | None,
        update: bool,
        lock_timeout: float,
        **said: Any,
    ) -> None:
        super().__init__(handle, threshold=threshold, **said)
        self._threshold = threshold
        level = asked_level(store, threshold)
        self.state = ready_edges(store, family, level, update=update, lock_timeout=lock_timeout)
        self.unchecked: PairCount | None = None

    def _items(self, store: Store, family: Family) -> Iterator[_Item]:
        """The items of one state, which must still have the edges."""
        level = level_of(store.params, self._threshold)
        with store.reading() as snapshot:
            self.state = edges_down_to(store, snapshot, level)
            yield from store.while_open(self._found(snapshot, family, self.state, level))

    @abstractmethod
    def _found(
        self, snapshot: Snapshot, family: Family, state: EdgeState, level: float
    ) -> Iterator[_Item]:
        """The items; a generator."""


class Clusters(StoredAnswer[Cluster]):
    """Clusters, the largest first."""

    def __init__(
        self,
        store: Store,
        family: Family,
        handle: Handle,
        /,
        *,
        min_size: int,
        linkage: str,
        **asked: Any,
    ) -> None:
        check_choice("linkage", linkage, LINKAGES)
        self._min_size, self._linkage = check_whole("min_size", min_size, 2), linkage
        super().__init__(store, family, handle, linkage=linkage, **asked)

    def _found(
        self, snapshot: Snapshot, family: Family, state: EdgeState, level: float
    ) -> Iterator[Cluster]:
        return find_clusters(
            snapshot, threshold=level, linkage=self._linkage, min_size=self._min_size
        )


class Neighbors(StoredAnswer["Neighbor"]):
    """The nearest documents of each."""

    def __init__(
        self, store: Store, family: Family, handle: Handle, /, *, top: int, **asked: Any
    ) -> None:
        self._top = check_whole("top", top, 1)
        super().__init__(store, family, handle, top=top, **asked)

    def _found(
        self, snapshot: Snapshot, family: Family, state: EdgeState, level: float
    ) -> Iterator[Neighbor]:
        return find_neighbors(
            snapshot, family.params, threshold=level, method=state.method, top=self._top
        )


def find_clusters(
    snapshot: Snapshot, *, threshold: float, linkage: str, min_size: int
) -> Iterator[Cluster]:
    """Clusters by the edges that are stored, the largest first, then by label's doc_id.

    Parameters
    ----------
    snapshot : Snapshot
        With edges down to the threshold at least.
    threshold : float
    linkage : {"component", "representative"}
    min_size : int
        Fewest documents of a cluster; at least 2.
    """
    members = _members(snapshot, threshold, linkage)
    order = np.argsort(members.labels, kind="stable")
    starts = np.flatnonzero(np.diff(members.labels[order], prepend=-1))
    sizes = np.add.reduceat(members.counts[order], starts) if len(starts) else starts
    ends = np.append(starts[1:], len(order))
    largest = np.lexsort((members.labels[order][starts], -sizes))
    largest = largest[sizes[largest] >= min_size]
    place = 0
    while place < len(largest):
        some: list[Ids] = []
        n_signatures = 0
        while place < len(largest) and n_signatures < _SIGNATURES:
            one = largest[place]
            some.append(order[starts[one] : ends[one]])
            n_signatures += len(some[-1])
            place += 1
        yield from _spelt_out(snapshot, members, some)


def cluster_labels(
    snapshot: Snapshot, *, threshold: float, linkage: str
) -> Callable[[Ids], tuple[Ids, Ids]]:
    """What the clusters of signatures are called after, some signatures at a time.

    Parameters
    ----------
    snapshot : Snapshot
        With edges down to the threshold at least.
    threshold : float
    linkage : {"component", "representative"}

    Returns
    -------
    callable
        Sorted distinct signature ids to (those that are in a cluster, the doc_id that each one's
        cluster is called after), as :func:`find_clusters` calls it. Components at the threshold of
        the stored edges are looked up as they lie; other clusters are made once and held.
    """
    if _lie_there(snapshot, threshold, linkage):
        return lambda signature_ids: _stored_labels(snapshot, signature_ids)
    members = _made_of_edges(snapshot, threshold, linkage)

    def labels(signature_ids: Ids) -> tuple[Ids, Ids]:
        found = signature_ids[contains(members.signature_ids, signature_ids)]
        return found, members.labels[np.searchsorted(members.signature_ids, found)]

    return labels


def _stored_labels(snapshot: Snapshot, signature_ids: Ids) -> tuple[Ids, Ids]:
    found, labels = snapshot.edges.labels_by_signature(signature_ids)
    astray = snapshot.edges.astray(distinct(labels))
    if astray:
        labels = np.array([astray.get(label, label) for label in labels.tolist()], dtype=np.int64)
    return found, labels


def _lie_there(snapshot: Snapshot, threshold: float, linkage: str) -> bool:
    """Whether clusters of this kind are what the index keeps."""
    state = snapshot.edges.state()
    return linkage == "component" and state is not None and state.threshold == threshold


def stored_edges(snapshot: Snapshot, threshold: float) -> Edges:
    """All stored edges of at least that similarity, in memory: 24 bytes each.

    Without those of signatures that lost their last document since edges were brought up to date.
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


def _spelt_out(snapshot: Snapshot, members: _Members, some: list[Ids]) -> Iterator[Cluster]:
    ids = members.signature_ids[np.concatenate(some)].tolist()
    documents = snapshot.documents_of_signatures(ids)
    for places in some:
        label = members.labels[places[0]]
        found = sorted(
            (doc_id, key)
            for one in members.signature_ids[places].tolist()
            for doc_id, key, _ in documents[one]
        )
        # Without an update the label's own document may be gone; then the next one gives the name.
        named = next((key for doc_id, key in found if doc_id == label), found[0][1])
        yield Cluster(named, tuple(key for _, key in found))


def _members(snapshot: Snapshot, threshold: float, linkage: str) -> _Members:
    """Every signature in a cluster of two documents or more."""
    tables = snapshot.edges
    if _lie_there(snapshot, threshold, linkage):
        blocks = list(tables.members())
        if not blocks:
            return _Members(*(np.empty(0, dtype=np.int64) for _ in range(3)))
        ids, labels = (np.concatenate(column) for column in zip(*blocks, strict=True))
        counts = np.zeros(len(ids), dtype=np.int64)
        for held in tables.holders(ids):
            counts[np.searchsorted(ids, held.signature_ids)] = held.count
        return _Members(ids[counts > 0], labels[counts > 0], counts[counts > 0])
    return _made_of_edges(snapshot, threshold, linkage)


def clusters_of_edges(snapshot: Snapshot, threshold: float) -> Iterator[tuple[int, int]]:
    """(signature_id, label) of all that is in clusters, by the edges and not as it lies."""
    members = _made_of_edges(snapshot, threshold, "component")
    yield from zip(members.signature_ids.tolist(), members.labels.tolist(), strict=True)


def _made_of_edges(snapshot: Snapshot, threshold: float, linkage: str) -> _Members:
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
    # A cluster is called after its representative, or after the oldest of its documents.
    oldest = np.full(len(ids), np.iinfo(np.int64).max)
    place = np.searchsorted(ids, root)
    np.minimum.at(oldest, place, first if linkage == "component" else first[place])
    return _Members(ids, oldest[place], count)


def _holders(snapshot: Snapshot, nodes: Ids) -> tuple[Ids, Ids, Ids]:
    """Signatures that are a node or have several documents: ids, smallest doc_ids, counts."""
    found = [np.empty((3, 0), dtype=np.int64)]
    for held in snapshot.edges.holders():
        places = np.searchsorted(nodes, held.signature_ids)
        places[places == len(nodes)] = 0
        wanted = held.count > 1
        if len(nodes):
            wanted |= nodes[places] == held.signature_ids
        found.append(np.stack([held.signature_ids, held.first, held.count])[:, wanted])
    ids, first, count = np.concatenate(found, axis=1)
    return ids, first, count


_SIGNATURES_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Neighbor:
    """One of the documents most similar to another.

    Attributes
    ----------
    key : str
    rank : int
        From 1 on.
    neighbor : str
        Key of the similar document.
    similarity : float
        Minus the distance where the metric is one.
    method : {"signature", "exact"}
    distance : float or None
        Where the metric is a distance (``hamming``, ``l1``, ``l2``); else None.
    """

    key: str
    rank: int
    neighbor: str
    similarity: float
    method: str
    distance: float | None = field(default=None, compare=False)


def find_neighbors(
    snapshot: Snapshot, params: IndexParams, *, threshold: float, method: str, top: int
) -> Iterator[Neighbor]:
    """The ``top`` most similar documents of each, those that came in first among equals.

    Documents come in order of signature, a range of signatures at a time; memory does not grow with
    the index. A document without a neighbour is not listed.
    """
    for start in range(0, snapshot.n_signatures, _SIGNATURES_AT_ONCE):
        yield from _of_range(
            snapshot, params, start, start + _SIGNATURES_AT_ONCE - 1, threshold, method, top
        )


def _of_range(
    snapshot: Snapshot,
    params: IndexParams,
    first: int,
    last: int,
    threshold: float,
    method: str,
    top: int,
) -> Iterator[Neighbor]:
    best, is_distance = params.curve.best, params.kind.is_distance
    similar: dict[int, list[tuple[float, int]]] = {}
    for edges in snapshot.edges.edges_between(first, last, threshold):
        columns = (edges.left.tolist(), edges.right.tolist(), edges.similarities.tolist())
        for one, other, similarity in zip(*columns, strict=True):
            similar.setdefault(one, []).append((similarity, other))
    for shared in snapshot.copied_between(first, last):
        similar.setdefault(shared, [])
    wanted = set(similar)
    wanted.update(other for found in similar.values() for _, other in found)
    documents = snapshot.documents_of_signatures(sorted(wanted))
    for one in sorted(similar):
        found = [(best, one), *sorted(similar[one], key=lambda each: -each[0])]
        # One more than is asked for, for among its own copies is the document itself.
        nearest = [
            (doc_id, key, similarity)
            for similarity, group in itertools.groupby(found, key=lambda each: each[0])
            for doc_id, key in sorted(
                (doc_id, key) for _, other in group for doc_id, key, _ in documents.get(other, ())
            )
        ][: top + len(documents.get(one, ()))]
        for own, key, _ in documents.get(one, ()):
            others = (each for each in nearest if each[0] != own)
            for rank, (_, other_key, similarity) in enumerate(itertools.islice(others, top), 1):
                distance = 0.0 - similarity if is_distance else None
                yield Neighbor(key, rank, other_key, similarity, method, distance)
