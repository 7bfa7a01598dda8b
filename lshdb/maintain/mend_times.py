"""Times that a clock has written which was ahead, or behind -> the latest that they can be.

A batch began before the batch after it, and after those before it (``possible_times``). So one that
began later than now, or out of order, gets the time of the next batch with a possible one, or now.
Its documents get its time; those that a merge or a reindex brought with times of their own, later
than now, get that of the batch that brought them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lshdb.signatures.family import Family
from lshdb.storage.tables.records import timestamp, timestamp_in_future
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer

__all__ = ["MendedTimes", "mend_times"]


@dataclass(frozen=True, slots=True)
class MendedTimes:
    """How many rows had a wrong time, and have a possible one.

    Attributes
    ----------
    batches : list of int
        Numbers of the batches.
    documents : int
    """

    batches: list[int]
    documents: int


def mend_times(store: Store, _: Family, *, lock_timeout: float) -> MendedTimes:
    """Date what a wrong clock has dated; see :meth:`lshdb.Index.mend_times`."""
    with Writer(store, lock_timeout=lock_timeout, needs_signatures=False) as writer:
        return writer.commit(_mend)


def _mend(transaction: WriteTransaction) -> MendedTimes:
    snapshot, now, future = transaction.snapshot, timestamp(), timestamp_in_future()
    batches, wrong = snapshot.batches(), snapshot.wrong_times(now)
    starts = {batch.batch_id: batch.started_at for batch in batches}
    starts |= {number: possible for number, (_, possible) in wrong.items()}
    mended = dict(wrong.values())
    n_documents = doc_id = 0
    while group := snapshot.documents_dated(future, wrong, doc_id):
        doc_id = group[-1].doc_id
        dated = []
        for document in group:
            start = starts[document.batch_id]
            added_at, last_seen_at = (
                mended.get(time, start if time > future else time)
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
    for batch in batches:  # after the documents, which may have their times
        start = starts[batch.batch_id]
        if batch.batch_id in wrong or batch.finished_at > future:
            finished_at = start if batch.finished_at > future else batch.finished_at
            transaction.update_batch(
                batch.batch_id, {"started_at": start, "finished_at": max(start, finished_at)}
            )
            numbers.append(batch.batch_id)
    _mend_rest(transaction, now, future, min(starts.values(), default=now))
    return MendedTimes(numbers, n_documents)


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
