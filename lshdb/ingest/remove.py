"""Remove documents, by key or by age.

A removed document is in no answer from its commit on. Its row and its text are deleted. Its
signature and the postings of that stay until the index is compacted; questions skip them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from lshdb.arguments import check_items, check_key, check_moment
from lshdb.errors import LshdbWarning, warn_caller
from lshdb.ingest.cut_documents import windows_of
from lshdb.phases.phase import counting
from lshdb.storage.tables.records import as_timestamp, timestamp, timestamp_in_future
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer

__all__ = ["RemoveResult", "expire_documents", "remove_documents"]

_DOCUMENTS_A_BATCH = 40_000

Gone = list[tuple[int, int | None]]
"""(doc_id, signature_id) of documents that go."""


@dataclass(slots=True)
class RemoveResult:
    """What a removal did.

    Attributes
    ----------
    removed : int
        Documents that were removed; in an index of passages, their windows.
    missing : list of str
        Keys that no document had, in the order given.
    batches : list of int
        The batches that were committed, by number.
    """

    removed: int = 0
    missing: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)


def remove_documents(
    store: Store, keys: str | Iterable[str], *, lock_timeout: float
) -> RemoveResult:
    """Remove documents; see :meth:`lshdb.Index.remove`."""
    result = RemoveResult()
    given_keys = check_items("keys", [keys] if isinstance(keys, str) else keys, "a key, or keys")
    unique_keys = dict.fromkeys(check_key("a key", key) for key in given_keys)
    keys = counting(unique_keys, "documents", len(unique_keys))
    with Writer(store, lock_timeout=lock_timeout, needs_signatures=False) as writer:
        while batch_keys := list(itertools.islice(keys, _DOCUMENTS_A_BATCH)):
            _remove(writer, batch_keys, result, is_cut=store.params.window is not None)
    return result


def _remove(writer: Writer, keys: list[str], result: RemoveResult, *, is_cut: bool) -> None:
    def work(transaction: WriteTransaction) -> tuple[set[str], Gone, int | None]:
        snapshot = transaction.snapshot
        if is_cut:
            windows = windows_of(snapshot, keys)
            every = itertools.chain.from_iterable(windows.values())
            gone = [(document.doc_id, document.signature_id) for document in every]
            return set(windows), gone, _delete(transaction, gone)
        documents = snapshot.documents_of_keys(keys)
        gone = [(document.doc_id, document.signature_id) for document in documents.values()]
        return set(documents), gone, _delete(transaction, gone)

    removed, gone, batch_id = writer.commit(work)
    result.missing += [key for key in keys if key not in removed]
    _count(result, gone, batch_id)


def expire_documents(
    store: Store, since: datetime, *, dry_run: bool, lock_timeout: float
) -> RemoveResult:
    """Remove documents that have not come in since; see :meth:`lshdb.Index.expire`."""
    result, since_text = RemoveResult(), as_timestamp(check_moment("since", since))
    with store.reading() as snapshot:
        n_later = snapshot.n_documents_after(timestamp_in_future())
        n_gone, n_wrong = snapshot.count_not_seen(since_text, snapshot.wrong_times(timestamp()))
    if n_later:
        warn_caller(
            LshdbWarning(
                "documents that are dated later than now, by a clock that was ahead, stay: "
                f"{n_later:,}; lshdb check --mend-times dates them"
            )
        )
    if n_wrong:
        warn_caller(
            LshdbWarning(
                "documents that came in at a wrong time, by its place among the batches, stay: "
                f"{n_wrong:,}; lshdb check --mend-times dates them"
            )
        )
    if dry_run:
        result.removed = n_gone
        return result

    def work(transaction: WriteTransaction) -> tuple[Gone, int | None]:
        snapshot = transaction.snapshot
        wrong = snapshot.wrong_times(timestamp())
        gone = snapshot.not_seen(since_text, _DOCUMENTS_A_BATCH, wrong)
        return gone, _delete(transaction, gone)

    with Writer(store, lock_timeout=lock_timeout, needs_signatures=False) as writer:
        while True:
            gone, batch_id = writer.commit(work)
            if batch_id is None:
                return result
            _count(result, gone, batch_id)


def _delete(transaction: WriteTransaction, gone: Gone) -> int | None:
    """Delete documents, given as (doc_id, signature_id), and return the batch; None without any."""
    if not gone:
        return None
    batch_id = transaction.open_batch(started_at=timestamp(), source="")
    transaction.delete_documents([doc_id for doc_id, _ in gone])
    transaction.release_signatures(
        [signature_id for _, signature_id in gone if signature_id is not None], batch_id
    )
    transaction.update_batch(batch_id, {"n_removed": len(gone), "finished_at": timestamp()})
    return batch_id


def _count(result: RemoveResult, gone: Gone, batch_id: int | None) -> None:
    result.removed += len(gone)
    if batch_id is not None:
        result.batches.append(batch_id)
