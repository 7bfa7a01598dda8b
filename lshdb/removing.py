"""Removing documents by key: gone from every answer with the commit that says so.

What goes is the document and its text. Its signature, where no other document has it, and the
postings of that stay where they are and are passed over, until the index is compacted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from lshdb.storage.store import Store
from lshdb.storage.times import timestamp, timestamp_after
from lshdb.storage.writing import Writer

__all__ = ["RemoveResult", "remove_documents"]

_KEYS_A_BATCH = 40_000


@dataclass(slots=True)
class RemoveResult:
    """What a removal did.

    Attributes
    ----------
    removed : int
        Documents that are gone.
    missing : list of str
        Keys that no document had, in the order given.
    batches : list of int
        The batches that were committed, by number.
    """

    removed: int = 0
    missing: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)


def remove_documents(store: Store, keys: Iterable[str], *, lock_timeout: float) -> RemoveResult:
    """Remove documents; see :meth:`lshdb.Index.remove`."""
    result = RemoveResult()
    keys = iter(dict.fromkeys(keys))
    with Writer(store, lock_timeout=lock_timeout) as writer:
        while some := list(itertools.islice(keys, _KEYS_A_BATCH)):
            _remove(writer, some, result)
    return result


def _remove(writer: Writer, keys: list[str], result: RemoveResult) -> None:
    with writer.transaction() as transaction:
        found = transaction.snapshot.documents_of_keys(keys)
        if found:
            last = transaction.snapshot.last_batch()
            started_at = timestamp_after(last.started_at if last else None)
            batch_id = transaction.open_batch(started_at=started_at, source="")
            transaction.delete_documents([document.doc_id for document in found.values()])
            transaction.release_signatures(
                [one.signature_id for one in found.values() if one.signature_id is not None],
                batch_id,
            )
            transaction.update_batch(
                batch_id, {"n_removed": len(found), "finished_at": timestamp()}
            )
    result.removed += len(found)
    result.missing += [key for key in keys if key not in found]
    if found:
        result.batches.append(batch_id)
