"""Update the stored edges and clusters, at the cost of what changed.

    new signatures                  -> their verified pairs -> table edge
    ends of new edges, signatures that gained or lost a document
                                    -> their clusters, which are cut and joined again from their
                                       edges; all others stay as they are

The first update starts from scratch, and so does one with a lower threshold, another method or
another cap. Clusters at a *higher* threshold need no update: they are made from the edges at or
above it.

Decided: ``add`` finds no edges, so that the add of a night stays cheap. A method that answers from
edges brings them up to date when it is called, unless told not to; it takes the writer lock only
if there is something to do. Iterating over its answer only reads. An update is one transaction.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_seconds
from lshdb.errors import LshdbError, ParameterError, ReadOnlyError
from lshdb.search.candidates import LeftOut, contains
from lshdb.search.components import connect
from lshdb.search.loss import Loss, remember_loss, stored_loss
from lshdb.search.pairs import find_links
from lshdb.search.verification import MEMORY, asked_level, check_limits, choose_method
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import EdgeState, EdgeTables
from lshdb.storage.tables.records import timestamp
from lshdb.storage.transactions.index_state import EdgeSink, IndexState, OpenIndex
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers

__all__ = [
    "MAX_BUCKET",
    "NO_CAP",
    "EdgeMaking",
    "bring_up_to_date",
    "edge_state",
    "edges_down_to",
    "is_current",
    "make_edges",
    "ready_edges",
    "update_clusters",
]

MAX_BUCKET = 1000
"""Larger buckets are joined through leaders, not compared, unless you ask for another number."""
NO_CAP = "none"
"""The ``max_bucket`` that compares the pairs of all buckets."""
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)

Ids = NDArray[np.int64]


def is_current(snapshot: IndexState, target: EdgeState) -> bool:
    """Return whether the stored edges cover the whole index, down to the threshold of a state."""
    state = snapshot.edges.state()
    if state is None or not _serves(state, target):
        return False
    last = snapshot.last_batch()
    return last is None or last.batch_id <= state.batch_id


def update_clusters(
    store: Store,
    family: Family,
    *,
    threshold: float | None,
    verify: str | None,
    max_bucket: int | str | None,
    lock_timeout: float,
    memory: int,
    workers: int | None,
) -> EdgeState:
    """Bring edges and clusters up to date; see :meth:`lshdb.Index.update_clusters`."""
    check_limits(max_bucket, memory)
    level = asked_level(store, threshold)
    return bring_up_to_date(
        store,
        family,
        threshold=min(level, store.params.level),
        method=_edge_method(store, verify),
        max_bucket=max_bucket,
        lock_timeout=lock_timeout,
        memory=memory,
        workers=choose_workers(workers),
    )


def edge_state(store: Store, family: Family) -> EdgeState | None:
    """Return the state of the stored edges; None if none were ever stored."""
    with store.reading() as snapshot:
        return snapshot.edges.state()


def ready_edges(
    store: OpenIndex, family: Family, level: float, *, update: bool, lock_timeout: float
) -> EdgeState:
    """Return the state of edges down to a level; with ``update``, bring them up to date first.

    An index without tables has all its edges from the beginning.

    Raises
    ------
    ParameterError
        Without ``update``: the edges do not reach down to the level.
    LockedError, DatabaseError, LshdbError
        As :meth:`lshdb.Index.update_clusters` raises them.
    """
    check_seconds("lock_timeout", lock_timeout)
    if not (update and isinstance(store, Store)):
        with store.reading() as snapshot:
            return edges_down_to(store, snapshot, level)
    state = edge_state(store, family)
    return bring_up_to_date(
        store,
        family,
        threshold=min(level, store.params.level),
        method=_edge_method(store, None if state is None else state.method),
        max_bucket=None,
        lock_timeout=lock_timeout,
        memory=MEMORY,
        workers=choose_workers(None),
    )


def edges_down_to(store: OpenIndex, snapshot: IndexState, level: float) -> EdgeState:
    """Return the state of the stored edges.

    Raises
    ------
    ParameterError
        There are none, or they do not reach down to the level.
    """
    state = snapshot.edges.state()
    if state is None or state.threshold > level:
        reach = "no verified edges"
        if state is not None:
            lowest = store.params.curve.value(state.threshold)
            reach = f"verified edges only down to {lowest:g}"
        wanted = store.params.curve.value(level)
        raise ParameterError(
            f"the index {store.path} has {reach}",
            hint=f"find them with: lshdb clusters INDEX --threshold {wanted:g}",
        )
    return state


def _edge_method(store: OpenIndex, verify: str | None) -> str:
    method = choose_method(verify, store.params)
    if method == "none":
        raise ParameterError(
            "clusters are made of verified pairs; verify 'none' gives candidates alone",
            hint="use 'signature' or 'exact'",
        )
    return method


def bring_up_to_date(
    store: Store,
    family: Family,
    *,
    threshold: float,
    method: str,
    max_bucket: int | str | None,
    lock_timeout: float,
    memory: int = MEMORY,
    workers: int = 1,
) -> EdgeState:
    """Update edges and clusters if they are not current, and return their state.

    Parameters
    ----------
    store : Store
        The index.
    family : Family
        Its hash functions.
    threshold : float
        The level down to which edges are needed; edges of a lower one are kept.
    method : {"signature", "exact"}
        How pairs are verified.
    max_bucket : int or "none", optional
        As in the stored state by default, or ``MAX_BUCKET``; "none" compares buckets of any size.
    lock_timeout : float
        Seconds to wait for another writer.
    memory, workers : int
        See :func:`~lshdb.search.pairs.find_links`.

    Raises
    ------
    ReadOnlyError
        They are not current, and the index may not be written to.
    LockedError, DatabaseError, LshdbError
        Nothing was changed.
    """
    with store.reading() as snapshot:
        state = snapshot.edges.state()
        target = _target(state, threshold, method, max_bucket)
        if state is not None and is_current(snapshot, target):
            return state
    with contextlib.ExitStack() as exits:
        try:
            writer = exits.enter_context(Writer(store, lock_timeout=lock_timeout))
        except LshdbError as error:
            cause = error.__cause__
            is_refused = isinstance(cause, OSError) and cause.errno in _NOT_WRITABLE
            if not is_refused and not isinstance(error, ReadOnlyError):
                raise
            raise ReadOnlyError(
                f"{error.message}, and its clusters are not up to date",
                hint="use --no-update (update=False) for what was found before, or ask a user who "
                "may write there to run lshdb clusters",
            ) from error
        transaction = exits.enter_context(writer.transaction())
        # The last holder of the lock may have changed the index. Pairs are read by a separate
        # transaction, which under the lock sees the same state.
        with store.reading() as snapshot:
            state = snapshot.edges.state()
            target = _target(state, threshold, method, max_bucket)
            if state is not None and not _serves(state, target):
                transaction.edges.clear()
                state = None
            update = _Update(transaction.edges, snapshot, family, target, memory, workers)
            reached = update.from_scratch() if state is None else update.catch_up(state)
        if update.loss is not None:
            remember_loss(store, reached, update.loss)
        transaction.edges.put_state(reached)
    return reached


def make_edges(
    store: OpenIndex,
    tables: EdgeSink,
    state: IndexState,
    family: Family,
    *,
    threshold: float,
    verify: str | None,
    max_bucket: int | str | None,
    memory: int,
    workers: int,
) -> EdgeState:
    """Make the edges and clusters of an index without tables, and return their state.

    Parameters
    ----------
    store : OpenIndex
    tables : EdgeSink
        Where they go; empty.
    state : IndexState
        The documents.
    family : Family
    threshold : float
        The level down to which edges are needed.
    verify, max_bucket, memory, workers
        As for :meth:`lshdb.Index.update_clusters`.
    """
    target = _target(None, threshold, _edge_method(store, verify), max_bucket)
    making = EdgeMaking(tables, state, family, target, memory, workers)
    reached = making.from_scratch()
    if making.loss is not None:
        remember_loss(store, reached, making.loss)
    tables.put_state(reached)
    return reached


def _target(
    state: EdgeState | None, threshold: float, method: str, max_bucket: int | str | None
) -> EdgeState:
    """Return the state that an update has to reach, still without its counts."""
    most: int | None
    if max_bucket is None:
        most = MAX_BUCKET if state is None else state.max_bucket
    else:
        most = None if isinstance(max_bucket, str) else max_bucket
    if state is not None and state.method == method and state.max_bucket == most:
        threshold = min(threshold, state.threshold)
    return EdgeState(threshold, method, most, 0, 0, 0, 0, 0, 0.0, timestamp())


def _serves(state: EdgeState, target: EdgeState) -> bool:
    return (
        state.threshold <= target.threshold
        and state.method == target.method
        and state.max_bucket == target.max_bucket
    )


class EdgeMaking:
    """Makes edges and clusters.

    Parameters
    ----------
    tables : EdgeSink
        Where they go.
    snapshot : IndexState
        The state that they are made of.
    family : Family
    target : EdgeState
        What they have to reach, still without its counts.
    memory, workers : int
        See :func:`~lshdb.search.pairs.find_links`.

    Attributes
    ----------
    loss : Loss or None
        What the cap of the target costs, once they are made.
    """

    def __init__(
        self,
        tables: EdgeSink,
        snapshot: IndexState,
        family: Family,
        target: EdgeState,
        memory: int,
        workers: int,
    ) -> None:
        self._tables = tables
        self._snapshot = snapshot
        self._family = family
        self._target = target
        self._memory = memory
        self._workers = workers
        self._left_out = LeftOut()
        self.loss: Loss | None = None

    def from_scratch(self) -> EdgeState:
        """Make all edges and all clusters."""
        self._find(None)
        ends = [np.empty((2, 0), dtype=np.int64)]
        for edges in self._tables.edges(self._target.threshold):
            ends.append(np.stack([edges.left, edges.right]))
        left, right = np.concatenate(ends, axis=1)
        self._cluster(left, right, None)
        return self._reached(self._target)

    def _find(self, new: Ids | None) -> list[Ids]:
        """Find edges and store them; return their ends."""
        if new is not None and not len(new):
            return []
        links = find_links(
            self._snapshot,
            self._family,
            threshold=self._target.threshold,
            method=self._target.method,
            new=new,
            most=self._target.max_bucket,
            link=True,
            left_out=self._left_out,
            memory=self._memory,
            workers=self._workers,
        )
        ends = []
        for edges in links:
            self._tables.put_edges(edges, self._target.method)
            if new is not None:
                ends += [edges.left, edges.right]
        return ends

    def _cluster(self, left: Ids, right: Ids, members: Ids | None) -> None:
        """Store the clusters of the given members; of all signatures for None."""
        nodes, roots = connect(left, right)
        ids, firsts = [], []
        for holders in self._snapshot.edges.holders(members):
            in_cluster = contains(nodes, holders.signature_ids) | (holders.count > 1)
            ids.append(holders.signature_ids[in_cluster])
            firsts.append(holders.first[in_cluster])
        if not ids:
            return
        signature_ids, first = np.concatenate(ids), np.concatenate(firsts)
        # A signature without an edge is its own component: copies of one document.
        root = signature_ids.copy()
        linked = contains(nodes, signature_ids)
        root[linked] = roots[np.searchsorted(nodes, signature_ids[linked])]
        order = np.lexsort((first, root))
        starts = np.flatnonzero(np.diff(root[order], prepend=-1))
        sizes = np.diff(starts, append=len(order))
        labels = np.empty(len(order), dtype=np.int64)
        labels[order] = np.repeat(first[order][starts], sizes)
        self._tables.put_members(signature_ids, labels)

    def _reached(self, before: EdgeState) -> EdgeState:
        snapshot = self._snapshot
        reached = replace(
            self._target,
            n_signatures=snapshot.n_signatures,
            batch_id=snapshot.newest_batch(),
            release_id=snapshot.edges.last_release(),
            hot_buckets=max(before.hot_buckets, self._left_out.buckets),
            hot_pairs=before.hot_pairs + self._left_out.pairs,
            recall_lost=before.recall_lost,
            updated_at=timestamp(),
        )
        if not reached.hot_buckets:
            return reached
        self.loss = stored_loss(
            snapshot, self._family, reached, threshold=reached.threshold, tables=self._tables
        )
        return reached if self.loss is None else replace(reached, recall_lost=self.loss.share)


class _Update(EdgeMaking):
    """One update of stored edges and clusters, inside one transaction."""

    def __init__(
        self,
        tables: EdgeTables,
        snapshot: Snapshot,
        family: Family,
        target: EdgeState,
        memory: int,
        workers: int,
    ) -> None:
        super().__init__(tables, snapshot, family, target, memory, workers)
        self._stored = tables

    def catch_up(self, state: EdgeState) -> EdgeState:
        """Add the edges of new signatures, and update the clusters that changed."""
        tables, snapshot = self._stored, self._snapshot
        changed = snapshot.new_signatures(state.batch_id + 1)
        new = changed[changed >= state.n_signatures]
        released = tables.released_since(state.release_id)
        dead = released[contains(tables.dead(), released)]
        touched = [changed, released]
        if len(dead):
            if state.hot_buckets:
                # Documents joined through a leader that was removed must find another one.
                new = np.union1d(new, self._neighbours(dead))
            # Look up the labels of joined signatures before the edges are dropped. The label of a
            # dead signature is that of its cluster.
            tables.drop_edges_of(dead)
        touched += self._find(new)
        self._recluster(np.unique(np.concatenate(touched)))
        return self._reached(state)

    def _neighbours(self, signature_ids: Ids) -> Ids:
        members = self._stored.members_of(self._stored.labels_of(signature_ids))
        return np.setdiff1d(members, self._stored.dead())

    def _recluster(self, touched: Ids) -> None:
        """Make the clusters of these signatures anew, and those that they joined."""
        tables = self._stored
        labels = tables.labels_of(touched)
        members = np.union1d(tables.members_of(labels), touched)
        tables.drop_members(labels)
        ends = [np.empty((2, 0), dtype=np.int64)]
        for edges in tables.edges_of(members):
            ends.append(np.stack([edges.left, edges.right]))
        left, right = np.concatenate(ends, axis=1)
        self._cluster(left, right, members)
