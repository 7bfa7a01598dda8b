"""Keeping edges and clusters, and updating them at the cost of what changed.

    new signatures                  -> their verified pairs -> table edge
    ends of new edges, signatures that gained or lost a document
                                    -> their clusters, which are cut and joined again from their
                                       edges; all others stay as they are

The first time, and when you ask for a lower threshold, another method or another cap, everything is
done from the beginning. Clusters at a *higher* threshold need no new pass: they are made from the
edges that suffice.

Decided: edges are found when clusters are asked for and not by ``add``, so that a night's add costs
no more than it must. A method that answers from edges brings them up to date when it is called,
unless told not to; it takes the writer lock only if there is something to do. What it gives then
only reads. All of one update is one transaction.
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
from lshdb.storage.store import Store
from lshdb.storage.tables.edges import EdgeState, EdgeTables
from lshdb.storage.tables.records import timestamp
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers

__all__ = [
    "MAX_BUCKET",
    "NO_CAP",
    "bring_up_to_date",
    "edge_state",
    "edges_down_to",
    "is_current",
    "ready_edges",
    "update_clusters",
]

MAX_BUCKET = 1000
"""Larger buckets are joined through leaders, not compared, unless you ask for another number."""
NO_CAP = "none"
"""Asks to compare the pairs of all buckets."""

Ids = NDArray[np.int64]


def is_current(snapshot: Snapshot, wanted: EdgeState) -> bool:
    """Return whether the stored edges cover the whole index, down to the wanted threshold."""
    state = snapshot.edges.state()
    return state is not None and _serves(state, wanted) and not _is_behind(snapshot, state)


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
        method=_linking(store, verify),
        max_bucket=max_bucket,
        lock_timeout=lock_timeout,
        memory=memory,
        workers=choose_workers(workers),
    )


def edge_state(store: Store, family: Family) -> EdgeState | None:
    """Return what the stored edges cover; None if none were ever stored."""
    with store.reading() as snapshot:
        return snapshot.edges.state()


def ready_edges(
    store: Store, family: Family, level: float, *, update: bool, lock_timeout: float
) -> EdgeState:
    """Return the state of edges down to a level; bring them up to date first if asked.

    Raises
    ------
    ParameterError
        They must not be updated, and do not reach down to the level.
    LockedError, DatabaseError, LshdbError
        As :meth:`lshdb.Index.update_clusters` raises them.
    """
    check_seconds("lock_timeout", lock_timeout)
    if not update:
        with store.reading() as snapshot:
            return edges_down_to(store, snapshot, level)
    state = edge_state(store, family)
    return bring_up_to_date(
        store,
        family,
        threshold=min(level, store.params.level),
        method=_linking(store, None if state is None else state.method),
        max_bucket=None,
        lock_timeout=lock_timeout,
        memory=MEMORY,
        workers=choose_workers(None),
    )


def edges_down_to(store: Store, snapshot: Snapshot, level: float) -> EdgeState:
    """Return the state of the stored edges.

    Raises
    ------
    ParameterError
        There are none, or they do not reach down to the level.
    """
    state = snapshot.edges.state()
    if state is None or state.threshold > level:
        found = (
            "no"
            if state is None
            else f"only down to {store.params.curve.value(state.threshold):g},"
        )
        raise ParameterError(
            f"the index {store.directory.path} has {found} verified edges",
            hint="bring them up to date with: lshdb clusters INDEX",
        )
    return state


def _linking(store: Store, verify: str | None) -> str:
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
    """Update edges and clusters if they are not current, and return what they cover.

    Parameters
    ----------
    store : Store
    family : Family
    threshold : float
        Level, at least down to it.
    method : {"signature", "exact"}
    max_bucket : int or "none", optional
        By default as before, or ``MAX_BUCKET``; "none" compares buckets of any size.
    lock_timeout : float
        Seconds to wait for another writer.
    memory, workers : int
        See :func:`~lshdb.search.pairs.find_links`.

    Raises
    ------
    ReadOnlyError
        They are not current and may not be written to.
    LockedError, DatabaseError, LshdbError
        Nothing was changed.
    """
    with store.reading() as snapshot:
        state = snapshot.edges.state()
        wanted = _wanted(state, threshold, method, max_bucket)
        if state is not None and is_current(snapshot, wanted):
            return state
    with contextlib.ExitStack() as exits:
        try:
            writer = exits.enter_context(Writer(store, lock_timeout=lock_timeout))
        except LshdbError as error:
            if not _may_not_write(error):
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
            wanted = _wanted(state, threshold, method, max_bucket)
            if state is not None and not _serves(state, wanted):
                transaction.edges.clear()
                state = None
            update = _Update(transaction, snapshot, family, wanted, memory, workers)
            reached = update.from_scratch() if state is None else update.catch_up(state)
        if update.loss is not None:
            remember_loss(store, reached, update.loss)
        transaction.edges.put_state(reached)
    return reached


def _may_not_write(error: LshdbError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def _wanted(
    state: EdgeState | None, threshold: float, method: str, max_bucket: int | str | None
) -> EdgeState:
    most: int | None
    if max_bucket is None:
        most = MAX_BUCKET if state is None else state.max_bucket
    else:
        most = None if isinstance(max_bucket, str) else max_bucket
    if state is not None and state.method == method and state.max_bucket == most:
        threshold = min(threshold, state.threshold)
    return EdgeState(threshold, method, most, 0, 0, 0, 0, 0, 0.0, timestamp())


def _serves(state: EdgeState, wanted: EdgeState) -> bool:
    return (
        state.threshold <= wanted.threshold
        and state.method == wanted.method
        and state.max_bucket == wanted.max_bucket
    )


def _is_behind(snapshot: Snapshot, state: EdgeState) -> bool:
    last = snapshot.last_batch()
    return last is not None and last.batch_id > state.batch_id


class _Update:
    """One update of edges and clusters, inside one transaction."""

    def __init__(
        self,
        transaction: WriteTransaction,
        snapshot: Snapshot,
        family: Family,
        wanted: EdgeState,
        memory: int,
        workers: int,
    ) -> None:
        self._tables: EdgeTables = transaction.edges
        self._snapshot = snapshot
        self._family = family
        self._wanted = wanted
        self._memory = memory
        self._workers = workers
        self._left_out = LeftOut()
        self.loss: Loss | None = None

    def from_scratch(self) -> EdgeState:
        """Make all edges and all clusters."""
        self._find(None)
        ends = [np.empty((2, 0), dtype=np.int64)]
        for edges in self._tables.edges(self._wanted.threshold):
            ends.append(np.stack([edges.left, edges.right]))
        left, right = np.concatenate(ends, axis=1)
        self._cluster(left, right, None)
        return self._reached(self._wanted)

    def catch_up(self, state: EdgeState) -> EdgeState:
        """Add the edges of new signatures, and update the clusters that are touched."""
        tables, snapshot = self._tables, self._snapshot
        changed = snapshot.new_signatures(state.batch_id + 1)
        new = changed[changed >= state.n_signatures]
        released = tables.released_since(state.release_id)
        dead = released[contains(tables.dead(), released)]
        touched = [changed, released]
        if len(dead):
            if state.hot_buckets:
                # Documents joined through a leader that is gone must find another one.
                new = np.union1d(new, self._neighbours(dead))
            # Find the labels of what was joined to it before its edges are dropped; its own label
            # is that of its cluster.
            tables.drop_edges_of(dead)
        touched += self._find(new)
        self._recluster(np.unique(np.concatenate(touched)))
        return self._reached(state)

    def _neighbours(self, signature_ids: Ids) -> Ids:
        members = self._tables.members_of(self._tables.labels_of(signature_ids))
        return np.setdiff1d(members, self._tables.dead())

    def _find(self, new: Ids | None) -> list[Ids]:
        """Find edges and store them; return their ends."""
        if new is not None and not len(new):
            return []
        found = find_links(
            self._snapshot,
            self._family,
            threshold=self._wanted.threshold,
            method=self._wanted.method,
            new=new,
            most=self._wanted.max_bucket,
            link=True,
            left_out=self._left_out,
            memory=self._memory,
            workers=self._workers,
        )
        ends = []
        for edges in found:
            self._tables.put_edges(edges, self._wanted.method)
            if new is not None:
                ends += [edges.left, edges.right]
        return ends

    def _recluster(self, touched: Ids) -> None:
        """Cut and join again the clusters that hold some signatures, or come to hold them."""
        tables = self._tables
        labels = tables.labels_of(touched)
        members = np.union1d(tables.members_of(labels), touched)
        tables.drop_members(labels)
        ends = [np.empty((2, 0), dtype=np.int64)]
        for edges in tables.edges_of(members):
            ends.append(np.stack([edges.left, edges.right]))
        left, right = np.concatenate(ends, axis=1)
        self._cluster(left, right, members)

    def _cluster(self, left: Ids, right: Ids, members: Ids | None) -> None:
        """Store the clusters of some signatures, or of all."""
        nodes, roots = connect(left, right)
        ids, firsts, counts = [], [], []
        for held in self._snapshot.edges.holders(members):
            wanted = contains(nodes, held.signature_ids) | (held.count > 1)
            ids.append(held.signature_ids[wanted])
            firsts.append(held.first[wanted])
            counts.append(held.count[wanted])
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
        last = snapshot.last_batch()
        reached = replace(
            self._wanted,
            n_signatures=snapshot.n_signatures,
            batch_id=last.batch_id if last else 0,
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
