"""Documents -> committed batches: the way of every document into the index.

The stream of documents is cut into batches that fit in memory; what is no document is reported on
the way. Each batch is classified, its contents are normalised, hashed and signed, and it becomes
one commit (``ingest/pipeline.py``).

All documents of one add carry the same time, later than that of any add before, which is how a key
that comes twice in one add is told from one that was there before, in whichever batches they fall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_items
from lshdb.documents import Document, Given, Rejected, given_document, validate_key
from lshdb.errors import TooManyRejectedError
from lshdb.ingest.pipeline import AddResult, Change, Committer, LastBatch, check_on_conflict
from lshdb.ingest.sign import sign_in_threads
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.tables.bodies import hash_body, pack_body, raw_body
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers
from lshdb.tokenizers import naming_text

__all__ = ["AddResult", "Addition", "add_documents", "in_batches"]

BATCH_DOCUMENTS = 40_000
BATCH_CHARACTERS = 32 * 2**20
_REJECTIONS_KEPT = 100
_CONVERTED = 256
"""Vectors that are brought into the index's type together."""


def add_documents(
    store: Store,
    items: Iterable[Given],
    *,
    family: Family,
    source: str,
    on_conflict: str,
    max_errors: int | None,
    lock_timeout: float,
    workers: int | None,
    on_reject: Callable[[Rejected], None] | None,
    on_commit: Callable[[AddResult], None] | None,
) -> AddResult:
    """Add documents; see :meth:`lshdb.Index.add`."""
    check_on_conflict(on_conflict)
    check_items(
        "documents", items, "an iterable of (key, text) pairs or documents",
        hint="put one document into a list; a dict gives its pairs by .items()",
    )  # fmt: skip
    workers = choose_workers(workers)
    begun = time.perf_counter()
    result = AddResult()
    with Writer(store, lock_timeout=lock_timeout) as writer:
        run = Addition(
            writer,
            family,
            result,
            source=source,
            on_conflict=on_conflict,
            workers=workers,
        )
        run.max_errors = max_errors
        run.on_reject = on_reject
        run.take(in_batches(items, family, run.reject), begun=begun, on_commit=on_commit)
    result.seconds = time.perf_counter() - begun
    return result


def in_batches(
    items: Iterable[Given], family: Family, reject: Callable[[Rejected], None]
) -> Iterator[list[Document]]:
    """Cut a stream into batches that fit in memory, without what is unusable, which is reported.

    Vectors and bits come out as their contents: in another form they are the same, and a list of
    numbers takes eight times the memory. A full batch is given out when one more item has come, so
    that the last batch is known to be the last.
    """
    batch: list[Document] = []
    characters = done = 0
    is_full = False
    is_dense = family.params.kind.is_dense
    try:
        for item in items:
            if is_full:
                yield batch
                batch, characters, done, is_full = [], 0, 0, False
            if isinstance(item, Rejected):
                reject(item)
                continue
            document = given_document(item)
            reason = validate_key(document.key) or family.refusal(document.body)
            if reason is not None:
                reject(Rejected(document.source or f"key {document.key!r}"[:200], reason))
                continue
            batch.append(document)
            characters += _weight(document.body)
            full = len(batch) >= BATCH_DOCUMENTS or characters >= BATCH_CHARACTERS
            if is_dense and (full or len(batch) - done >= _CONVERTED):
                batch[done:] = _with_contents(batch[done:], family)
                done = len(batch)
            is_full = full
    except Exception:
        if is_full:
            yield batch  # whatever became of the items after it
        raise
    if batch:
        if is_dense:
            batch[done:] = _with_contents(batch[done:], family)
        yield LastBatch(batch)


def _with_contents(documents: list[Document], family: Family) -> list[Document]:
    contents = family.contents([document.body for document in documents])
    return [
        Document(one.key, content, one.source)
        if type(one) is Document  # six times faster than replacing
        else replace(one, body=content)
        for one, content in zip(documents, contents, strict=True)
    ]


class Addition(Committer):
    """One call of add."""

    def __init__(
        self,
        writer: Writer,
        family: Family,
        result: AddResult,
        *,
        source: str,
        on_conflict: str,
        workers: int,
        after: str = "",
    ) -> None:
        super().__init__(
            writer, family.params, result, source=source, on_conflict=on_conflict, after=after
        )
        self.family = family
        self.workers = workers
        self.max_errors: int | None = None
        self.on_reject: Callable[[Rejected], None] | None = None
        self._seen: set[str] = set()

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

    def _write(self, transaction: WriteTransaction, items: Sequence[Document]) -> dict[str, int]:
        self._seen.clear()
        return super()._write(transaction, items)

    def _is_same(
        self, transaction: WriteTransaction, item: Document, before: StoredDocument
    ) -> bool:
        """Whether single tokens, which are compared without their order, differ in it alone.

        So an index does not grow by a set that comes in as a list, in a new order each night.
        """
        is_ordered = self.params.k > 1 or self.params.unit == "url" or not self.params.keeps_texts
        if is_ordered or not isinstance(item.body, list | tuple):
            return False
        body = transaction.snapshot.body(before.doc_id)
        return isinstance(body, list) and sorted(body) == sorted(item.body)

    def _repeats(self, item: Document, before: StoredDocument | None) -> bool:
        """Whether the key came before in this input; that is a rejection."""
        came = item.key in self._seen or (
            before is not None and before.last_seen_at == self.started_at
        )
        self._seen.add(item.key)
        if came and not self.is_again:
            self.reject(
                Rejected(
                    item.source or f"key {item.key!r}",
                    f"the key {item.key!r} came before in this input; the first one counts",
                )
            )
        return came

    def _change(self, item: Document) -> Change:
        form, raw = raw_body(item.body)
        return Change(
            item.key,
            item.source,
            self.params.dim or _n_chars(item.body),
            hash_body(form, raw),
            form,
            raw,
            self.started_at,
            self.started_at,
            item,
        )

    def _hash_contents(self, changes: list[Change]) -> None:
        if self.params.kind.is_dense:  # whose bodies are their contents
            for change in changes:
                change.content, change.content_hash = change.content.body, change.body_hash
            return
        documents = [change.content for change in changes]
        with naming_text(documents, self.family.content):
            contents = self.family.contents([each.body for each in documents])
        for change, content in zip(changes, contents, strict=True):
            change.content = content
            change.n_unassigned = self.family.n_unassigned(content)
            change.content_hash = hash_body(*raw_body(change.content))

    def _sign(self, contents: list[Any]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return sign_in_threads(contents, self.family, workers=self.workers)

    def _packed(self, change: Change) -> bytes:
        return pack_body(change.body)


def _weight(body: Any) -> int:
    """Characters, with what each token takes in memory beside its own; of numbers bytes."""
    if isinstance(body, str):
        return len(body)
    if isinstance(body, np.ndarray):
        return int(body.nbytes)
    return _n_chars(body) + 64 * len(body)


def _n_chars(body: Any) -> int:
    if isinstance(body, str):
        return len(body)
    return sum(len(token) for token in body if isinstance(token, str))
