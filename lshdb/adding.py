"""Documents -> committed batches: the way of every document into the index.

The stream of documents is cut into batches that fit in memory; each batch is one commit. Within a
batch:

    classify   against the index by key: new, replaced, unchanged, rejected
    normalise  and hash the contents; a content that a document has already shares its signature
    sign       the contents that are new; cut them into bands
    write      signature rows, documents, texts, postings, counts: one transaction
    (storage/writing.py)

All documents of one add carry the same time, later than that of any add before, which is how a key
that comes twice in one add is told from one that was there before, in whichever batches they fall.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.banding import bucket_keys, content_keys
from lshdb.collector import collector_paused
from lshdb.documents import Document, Rejected, validate_body, validate_key
from lshdb.errors import ConflictError, InputError, ParameterError, TooManyRejectedError
from lshdb.params import IndexParams
from lshdb.posted import PostedContents
from lshdb.shingling import Shingler, count_unassigned
from lshdb.signatures import canonical_contents
from lshdb.signing import sign_in_threads
from lshdb.storage.bodies import hash_body, pack_body, raw_body
from lshdb.storage.records import StoredDocument
from lshdb.storage.store import Store
from lshdb.storage.times import timestamp, timestamp_after
from lshdb.storage.writing import Writer, WriteTransaction
from lshdb.threads import choose_workers
from lshdb.tokenizers import naming_text

__all__ = ["AddResult", "add_documents"]

BATCH_DOCUMENTS = 40_000
BATCH_CHARACTERS = 32 * 2**20
_REJECTIONS_KEPT = 100

logger = logging.getLogger("lshdb")

Item = Document | Rejected | tuple[str, str | list[str]]


@dataclass(slots=True)
class AddResult:
    """What an add did.

    Attributes
    ----------
    added, replaced, unchanged : int
        Documents with a new key, with a known key and another body, and with a known key and the
        same.
    copies : int
        Of those added and replaced, how many share the signature of an identical content.
    rejected : int
        Inputs that were no acceptable document.
    rejections : list of Rejected
        The first hundred of them.
    batches : list of int
        The batches that were committed, by number.
    seconds : float
        Wall time.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    copies: int = 0
    rejected: int = 0
    rejections: list[Rejected] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def documents(self) -> int:
        """Documents that were accepted."""
        return self.added + self.replaced + self.unchanged


def add_documents(
    store: Store,
    items: Iterable[Item],
    *,
    shingler: Shingler,
    source: str,
    on_conflict: str,
    max_errors: int | None,
    lock_timeout: float,
    workers: int | None,
    on_reject: Callable[[Rejected], None] | None,
    on_commit: Callable[[AddResult], None] | None,
) -> AddResult:
    """Add documents; see :meth:`lshdb.Index.add`."""
    if on_conflict not in ("replace", "skip", "error"):
        raise ParameterError(
            f'on_conflict is {on_conflict!r}; expected "replace", "skip" or "error"'
        )
    workers = choose_workers(workers)
    begun = time.perf_counter()
    result = AddResult()
    with Writer(store, lock_timeout=lock_timeout) as writer:
        run = _Add(writer, store.params, result, source, on_conflict, max_errors, on_reject)
        run.workers = workers
        run.shingler = shingler
        for batch in _batches(items, run.reject):
            run.commit(batch)
            result.seconds = time.perf_counter() - begun
            if on_commit is not None:
                on_commit(result)
            writer.limit_runs()
        run.finish()
        writer.tidy()
    result.seconds = time.perf_counter() - begun
    return result


def _batches(items: Iterable[Item], reject: Callable[[Rejected], None]) -> Iterator[list[Document]]:
    """Cut a stream into batches that fit in memory, leaving out and reporting what is unusable."""
    batch: list[Document] = []
    characters = 0
    for item in items:
        if isinstance(item, Rejected):
            reject(item)
            continue
        document = item if isinstance(item, Document) else _document(item)
        reason = validate_key(document.key) or validate_body(document.body)
        if reason is not None:
            reject(Rejected(document.source or f"key {document.key!r}"[:200], reason))
            continue
        batch.append(document)
        characters += _weight(document.body)
        if len(batch) >= BATCH_DOCUMENTS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


@dataclass(slots=True)
class _Change:
    """One document that will be written: what it was, and what it will be."""

    document: Document
    before: StoredDocument | None
    body_hash: bytes
    content: Any
    content_hash: bytes
    form: str
    raw: bytes
    n_shingles: int = 0
    n_unassigned: int = 0
    signature_id: int | None = None
    is_copy: bool = False


class _Add:
    """One call of add: its time, its counts, and the making of its batches."""

    def __init__(
        self,
        writer: Writer,
        params: IndexParams,
        result: AddResult,
        source: str,
        on_conflict: str,
        max_errors: int | None,
        on_reject: Callable[[Rejected], None] | None,
    ) -> None:
        self.writer = writer
        self.params = params
        self.result = result
        self.source = source
        self.on_conflict = on_conflict
        self.max_errors = max_errors
        self.on_reject = on_reject
        self.rejected_before = 0
        self.workers = 1
        self.shingler: Shingler
        with writer.transaction() as transaction:
            last = transaction.snapshot.last_batch()
            self.posted = PostedContents(transaction.snapshot.run_tables)
        self.started_at = timestamp_after(last.started_at if last else None)
        self.add_id: int | None = None

    def reject(self, rejection: Rejected) -> None:
        """Count and report one rejected input.

        Raises
        ------
        TooManyRejectedError
            That was one more than max_errors.
        """
        self.result.rejected += 1
        if len(self.result.rejections) < _REJECTIONS_KEPT:
            self.result.rejections.append(rejection)
        if self.on_reject is not None:
            self.on_reject(rejection)
        if self.max_errors is not None and self.result.rejected > self.max_errors:
            raise TooManyRejectedError(
                f"{self.result.rejected} inputs were rejected and {self.max_errors} are allowed; "
                f"stopped at {rejection.source}, with {self.result.documents} documents committed "
                "before",
                hint="mend the input, or allow more with --max-errors; "
                "adding it again leaves what is in unchanged",
            )

    def commit(self, documents: list[Document]) -> None:
        """Write one batch."""
        with collector_paused(), self.writer.transaction() as transaction:
            counts = self._write(transaction, documents)
        result = self.result
        result.added += counts["n_added"]
        result.replaced += counts["n_replaced"]
        result.unchanged += counts["n_unchanged"]
        result.copies += counts["n_copies"]
        result.batches.append(counts["batch_id"])
        logger.info("batch %d: %d documents committed", counts["batch_id"], len(documents))

    def finish(self) -> None:
        """Record rejections that came after the last batch, or that nothing came, in a last one."""
        if self.result.rejected > self.rejected_before or not self.result.batches:
            self.commit([])

    def _write(self, transaction: WriteTransaction, documents: list[Document]) -> dict[str, int]:
        changes, seen_again = self._classify(transaction, documents)
        self._hash_contents(changes)
        digests, rows = self._share_signatures(transaction, changes)
        batch_id = transaction.open_batch(
            started_at=self.started_at, source=self.source, add_id=self.add_id
        )
        self.add_id = self.add_id or batch_id
        self._add_signatures(transaction, digests, rows)
        self._write_documents(transaction, changes, batch_id)
        transaction.touch_documents(seen_again, self.started_at)
        counts = {
            "n_added": sum(change.before is None for change in changes),
            "n_replaced": sum(change.before is not None for change in changes),
            "n_unchanged": len(seen_again),
            "n_copies": sum(change.is_copy for change in changes),
            "n_rejected": self.result.rejected - self.rejected_before,
        }
        transaction.update_batch(batch_id, {**counts, "finished_at": timestamp()})
        self.rejected_before = self.result.rejected
        return {**counts, "batch_id": batch_id}

    def _classify(
        self, transaction: WriteTransaction, documents: list[Document]
    ) -> tuple[list[_Change], list[StoredDocument]]:
        """Sort documents into those to be written and those left unchanged."""
        known = transaction.snapshot.documents_of_keys(document.key for document in documents)
        changes: list[_Change] = []
        seen_again: list[StoredDocument] = []
        seen: set[str] = set()
        for document in documents:
            before = known.get(document.key)
            if document.key in seen or (before and before.last_seen_at == self.started_at):
                self.reject(
                    Rejected(
                        document.source or f"key {document.key!r}",
                        f"the key {document.key!r} came before in this input; the first one counts",
                    )
                )
                continue
            seen.add(document.key)
            form, raw = raw_body(document.body)
            body_hash = hash_body(form, raw)
            if before is not None:
                if before.body_hash == body_hash or self.on_conflict == "skip":
                    seen_again.append(before)
                    continue
                if self.on_conflict == "error":
                    raise ConflictError(
                        f"the key {document.key!r} is in the index already, with another text "
                        f"({document.source or 'no source named'})",
                        key=document.key,
                        hint="add with --on-conflict replace or skip; "
                        "nothing of this batch was written",
                    )
            changes.append(_Change(document, before, body_hash, None, b"", form, raw))
        return changes, seen_again

    def _hash_contents(self, changes: list[_Change]) -> None:
        documents = [change.document for change in changes]
        with naming_text(documents, self.shingler.canonical):
            contents = canonical_contents(self.shingler, [each.body for each in documents])
        for change, content in zip(changes, contents, strict=True):
            change.content = content
            change.n_unassigned = count_unassigned(change.content)
            change.content_hash = hash_body(*raw_body(change.content))

    def _share_signatures(
        self, transaction: WriteTransaction, changes: list[_Change]
    ) -> tuple[list[bytes], NDArray[np.uint32]]:
        """Give each change the signature that its content has, or will have.

        Returns
        -------
        digests : list of bytes
            Hashes of the contents that need a new signature, in the order of their ids.
        rows : ndarray of uint32, shape (len(digests), num_perm)
            Their signatures.
        """
        contents = {change.content_hash: change.content for change in changes}
        there = self._known(transaction, contents)
        fresh = [digest for digest in contents if digest not in there]
        fresh_contents = [contents[digest] for digest in fresh]
        rows, counts = sign_in_threads(fresh_contents, self.params, workers=self.workers)
        filled = counts > 0
        digests = [digest for digest, good in zip(fresh, filled.tolist(), strict=True) if good]
        next_id = transaction.snapshot.n_signatures
        signed = zip(itertools.count(next_id), counts[filled].tolist(), strict=False)
        new = dict(zip(digests, signed, strict=True))
        met = set(there)
        for change in changes:
            digest = change.content_hash
            kept = change.before is not None and change.before.content_hash == digest
            change.is_copy = digest in met and not kept
            if digest in new:
                met.add(digest)
            change.signature_id, change.n_shingles = there.get(digest) or new.get(digest, (None, 0))
            change.content = None
        return digests, rows[filled]

    def _known(
        self, transaction: WriteTransaction, hashes: dict[bytes, Any]
    ) -> dict[bytes, tuple[int, int]]:
        """(signature_id, n_shingles) of the contents that a document has."""
        keys, snapshot = content_keys(list(hashes)), transaction.snapshot
        before = self.posted.runs_before(snapshot.run_tables)
        suspected = self.posted.suspected(keys)
        found = snapshot.signatures_of_contents(hashes, keys[~suspected], runs=before)
        return found | snapshot.signatures_of_contents(hashes, keys[suspected])

    def _add_signatures(
        self, transaction: WriteTransaction, digests: list[bytes], rows: NDArray[np.uint32]
    ) -> None:
        """Write new signature rows and add their postings."""
        if not digests:
            return
        bands = self.params.bands
        ids = np.arange(len(digests), dtype=np.int64) + transaction.snapshot.n_signatures
        transaction.append_signatures(rows)
        keys = bucket_keys(rows, bands=bands, rows=self.params.rows)
        of_contents = content_keys(digests)
        self.posted.remember(of_contents)
        transaction.runs.add(
            np.concatenate([keys.reshape(-1), of_contents]),
            np.concatenate([np.repeat(ids, bands), ids]),
        )

    def _write_documents(
        self, transaction: WriteTransaction, changes: list[_Change], batch_id: int
    ) -> None:
        next_doc_id = transaction.snapshot.next_doc_id
        inserted: list[tuple[Any, ...]] = []
        replaced: list[tuple[Any, ...]] = []
        doc_ids: list[int] = []
        for change in changes:
            before = change.before
            document = change.document
            doc_id = next_doc_id + len(inserted) if before is None else before.doc_id
            row = (
                doc_id,
                document.key,
                change.signature_id,
                change.content_hash,
                change.body_hash,
                change.n_shingles,
                _n_chars(document.body),
                document.source,
                batch_id,
                self.started_at if before is None else before.added_at,
                self.started_at,
                change.n_unassigned,
            )
            (inserted if before is None else replaced).append(row)
            doc_ids.append(doc_id)
        transaction.insert_documents(inserted)
        transaction.replace_documents(replaced)
        transaction.release_signatures(_left(changes), batch_id)
        if self.params.store_text:
            transaction.put_bodies(
                (
                    (doc_id, change.form, pack_body(change.raw))
                    for doc_id, change in zip(doc_ids, changes, strict=True)
                ),
                replaced=[row[0] for row in replaced],
            )


def _left(changes: list[_Change]) -> list[int]:
    """The signature of each replaced document that has another one now."""
    return [
        before.signature_id
        for change in changes
        if (before := change.before) is not None
        and before.signature_id is not None
        and before.signature_id != change.signature_id
    ]


def _document(item: object) -> Document:
    if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
        raise InputError(
            f"the documents hold {item!r:.200}; expected (key, text) or (key, list of tokens)",
            hint="give pairs; a dict gives them by .items()",
        )
    return Document(item[0], item[1])


def _weight(body: str | list[str]) -> int:
    """Characters, with what each token takes in memory beside its own."""
    return len(body) if isinstance(body, str) else sum(map(len, body)) + 64 * len(body)


def _n_chars(body: str | list[str]) -> int:
    return len(body) if isinstance(body, str) else sum(map(len, body))
