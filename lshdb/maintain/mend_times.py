"""Times later than now, which a clock that was ahead has written -> the latest that they can be.

A batch began before the batch after it, and after those before it. So one that began later than now
gets the time of the next batch with a possible one, or now. Its documents get its time; those that
a merge or a reindex brought with their own times get that of the batch that brought them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lshdb.signatures.family import Family
from lshdb.storage.tables.records import StoredBatch, timestamp, timestamp_in_future
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer

__all__ = ["MendedTimes", "mend_times"]


@dataclass(frozen=True, slots=True)
class MendedTimes:
    """How many rows had a time later than now, and have a possible one.

    Attributes
    ----------
    batches : list of int
        Numbers of the batches.
    documents : int
    """

    batches: list[int]
    documents: int


def mend_times(store: Store, _: Family, *, lock_timeout: float) -> MendedTimes:
    """Date what is later than now; see :meth:`lshdb.Index.mend_times`."""
    with Writer(store, lock_timeout=lock_timeout, needs_signatures=False) as writer:
        return writer.commit(_mend)


def _mend(transaction: WriteTransaction) -> MendedTimes:
    snapshot, now, future = transaction.snapshot, timestamp(), timestamp_in_future()
    batches = snapshot.batches()
    starts = _possible(batches, now, future)
    mended: dict[str, str] = {}
    for batch, start in zip(batches, starts, strict=True):
        mended.setdefault(batch.started_at, start)
    brought = {batch.batch_id: start for batch, start in zip(batches, starts, strict=True)}
    n_documents = doc_id = 0
    while group := snapshot.documents_after(future, doc_id):
        doc_id = group[-1].doc_id
        dated = []
        for document in group:
            start = brought[document.batch_id]
            added_at, last_seen_at = (
                mended.get(time, start) if time > future else time
                for time in (document.added_at, document.last_seen_at)
            )
            dated.append(
                replace(
                    document,
                    added_at=added_at,
                    last_seen_at=last_seen_at,
                    batch_started_at=start,
                )
            )
        transaction.date_documents(dated)
        n_documents += len(dated)
    numbers = []
    for batch, start in zip(batches, starts, strict=True):  # documents may have their times
        if max(batch.started_at, batch.finished_at) > future:
            finished_at = start if batch.finished_at > future else batch.finished_at
            transaction.update_batch(
                batch.batch_id, {"started_at": start, "finished_at": max(start, finished_at)}
            )
            numbers.append(batch.batch_id)
    _mend_rest(transaction, now, future, starts[0] if starts else now)
    return MendedTimes(numbers, n_documents)


def _possible(batches: Sequence[StoredBatch], now: str, future: str) -> list[str]:
    """Return when each batch began: its own time, or the latest possible one."""
    starts, following = [], now
    for batch in reversed(batches):
        if batch.started_at <= future:
            following = batch.started_at
        starts.append(following)
    starts.reverse()
    earlier = ""
    for at, batch in enumerate(batches):  # where the clock was behind later on
        starts[at] = max(starts[at], earlier) if batch.started_at > future else starts[at]
        earlier = max(earlier, starts[at])
    return starts


def _mend_rest(transaction: WriteTransaction, now: str, future: str, first: str) -> None:
    """Date the index itself, its cursors and its stored pairs."""
    if transaction.snapshot.identity()["created_at"] > future:
        transaction.date_index(min(first, now))
    for cursor in transaction.snapshot.cursors():
        if cursor.advanced_at > future:
            transaction.set_cursor(cursor.name, cursor.batch_id, now)
    state = transaction.edges.state()
    if state is not None and state.updated_at > future:
        transaction.edges.put_state(replace(state, updated_at=now))
