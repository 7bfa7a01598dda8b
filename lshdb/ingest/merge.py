"""Documents of other indexes -> batches, without signing any of them again.

The parameters that decide a signature must be equal: metric, scheme, num_perm, seed, unit, k, bag,
normalisation, stop tokens and tokenizer. A content then has one signature in all indexes, so rows
are copied as they are. Postings are made from the rows, by the banding of the index that takes
them. Unused signatures, edges and clusters are not copied.

Documents keep the times at which they first and last came in.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError, ParameterError, TextNotStoredError
from lshdb.ingest import add_sizes
from lshdb.ingest.add import InputShare
from lshdb.ingest.add_result import AddResult
from lshdb.ingest.batch import Batch, Contents
from lshdb.ingest.pipeline import (
    AddRun,
    BatchSource,
    check_on_conflict,
    commit_batches,
)
from lshdb.params.index_params import IndexParams, check_equal
from lshdb.storage.tables.records import WholeDocument
from lshdb.storage.transactions.snapshot import Snapshot, verified_rows
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer

__all__ = ["merge_stores"]

_MAY_DIFFER = frozenset({"bands", "rows", "threshold", "recall", "store_text"})


def merge_stores(
    into: Store,
    stores: Sequence[Store],
    *,
    on_conflict: str,
    lock_timeout: float,
    on_commit: Callable[[AddResult], None] | None,
) -> AddResult:
    """Take over the documents of other indexes; see :meth:`lshdb.Index.merge`."""
    check_on_conflict(on_conflict)
    if not stores:
        return AddResult()
    for store in stores:
        _check(into, store)
    started = time.perf_counter()
    result = AddResult()
    with Writer(into, lock_timeout=lock_timeout) as writer, contextlib.ExitStack() as opened:
        snapshots = [opened.enter_context(store.reading()) for store in stores]
        sources = [
            _source(store.directory.path, snapshot, into.params, is_last=number == len(stores))
            for number, (store, snapshot) in enumerate(zip(stores, snapshots, strict=True), 1)
        ]
        run = AddRun(writer, into.params, result, on_conflict=on_conflict)
        share = InputShare(lambda: sum(snapshot.n_documents() for snapshot in snapshots))
        with share.phase:
            commit_batches(run, sources, on_commit=share.then(on_commit))
    result.seconds = time.perf_counter() - started
    return result


def _check(into: Store, store: Store) -> None:
    if into.params.window is not None:
        raise ParameterError(
            f"{into.directory.path} is an index of passages, and merge would mix windows of two "
            "texts of one document",
            hint="add the documents to one index (lshdb add)",
        )
    if os.path.samefile(into.directory.path, store.directory.path):
        raise ParameterError(
            f"{store.directory.path} is the index that others are to be merged into",
            hint="leave it out",
        )
    check_equal(
        (into.directory.path, into.params),
        (store.directory.path, store.params),
        may_differ=_MAY_DIFFER,
        hint="only indexes whose parameters give the same signatures can be merged; bands, rows, "
        "threshold, recall and stored texts may differ; lshdb reindex makes an index with others",
    )
    if into.params.store_text and not store.params.store_text:
        what = "vectors" if into.params.keeps_vectors else "text"
        raise TextNotStoredError(
            f"{into.directory.path} stores {what.rstrip('s')}s, and {store.directory.path} was "
            f"made with --no-{what}",
            hint=f"merge both into an index that stores none (lshdb init --no-{what})",
        )
    store.require_signatures()


def _source(path: Path, snapshot: Snapshot, params: IndexParams, *, is_last: bool) -> BatchSource:
    """Return the source of the documents of one index, signed by the rows that they have there.

    Contents are pairs of a signature's number there, None without one, and its shingles.
    """

    def sign(
        contents: list[tuple[int | None, int]],
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        rows = np.zeros((len(contents), params.row_words), dtype=np.uint16)
        ids = np.array(
            [-1 if signature_id is None else signature_id for signature_id, _ in contents],
            dtype=np.int64,
        )
        rows[ids >= 0] = snapshot.signatures[ids[ids >= 0]]
        return rows, np.array([count for _, count in contents], dtype=np.int64)

    def vectors(contents: list[tuple[int | None, int]]) -> NDArray[Any]:
        return snapshot.vectors[
            np.array([signature_id for signature_id, _ in contents], dtype=np.int64)
        ]

    batches = _batches(path, snapshot, params, is_last=is_last)
    return BatchSource(str(path), batches, sign=sign, vectors=vectors, is_at_hand=lambda: True)


def _batches(
    path: Path, snapshot: Snapshot, params: IndexParams, *, is_last: bool
) -> Iterator[Batch]:
    """Compare the rows of an index with their checksums; then yield its documents in batches."""
    for file in snapshot.generation.files[: 1 + params.keeps_vectors]:
        for _ in verified_rows(snapshot, file):
            pass
    vector_bytes = snapshot.vector_file.row_bytes if params.keeps_vectors else 0
    sizes = add_sizes.SIZES
    documents: list[WholeDocument] = []
    size = 0
    for document in snapshot.whole_documents():
        if len(documents) >= sizes.merge_documents or size >= sizes.merge_bytes:
            yield _batch_of(snapshot, documents)
            documents, size = [], 0
        if params.keeps_texts and (document.form is None or document.body is None):
            raise DamageError(
                f"the text of {document.key!r} is missing in {path}", hint="run lshdb check"
            )
        documents.append(document)
        size += len(document.body or b"") + vector_bytes
    if documents:
        yield _batch_of(snapshot, documents, is_last=is_last)


def _batch_of(
    snapshot: Snapshot, documents: list[WholeDocument], *, is_last: bool = False
) -> Batch:
    fields = (
        snapshot.fields_of(document.doc_id for document in documents)
        if snapshot.has_fields()
        else {}
    )
    return Batch(
        keys=[document.key for document in documents],
        sources=[document.source for document in documents],
        bodies=[None] * len(documents),
        sizes=[document.n_chars for document in documents],
        body_hashes=[document.body_hash for document in documents],
        forms=[document.form or "" for document in documents],
        packed=[document.body or b"" for document in documents],
        times=[(document.added_at, document.last_seen_at) for document in documents],
        fields={
            place: fields[document.doc_id]
            for place, document in enumerate(documents)
            if document.doc_id in fields
        },
        contents=Contents(
            [(document.signature_id, document.n_shingles) for document in documents],
            [document.content_hash for document in documents],
            [document.n_unassigned for document in documents],
        ),
        codec=snapshot.codec,
        is_last=is_last,
    )
