"""Documents of other indexes -> committed batches, without signing any of them again.

What decides about signatures must be equal: metric, scheme, num_perm, seed, unit, k, bag,
normalisation, stop tokens and tokenizer. Then a content has one signature in all of them, so rows
are taken over as they are; postings come from the rows by the banding of the index that takes them.
Signatures that no document has any longer, edges and clusters stay behind.

Documents keep the times at which they first and last came in: a merge is none of their own doing.
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
from lshdb.ingest.pipeline import AddResult, Change, Committer, LastBatch, check_on_conflict
from lshdb.params.comparison import check_equal
from lshdb.params.index_params import IndexParams
from lshdb.storage.store import Store
from lshdb.storage.tables.records import WholeDocument
from lshdb.storage.transactions.snapshot import Snapshot, verified_rows
from lshdb.storage.transactions.writer import Writer

__all__ = ["merge_stores"]

BATCH_DOCUMENTS = 40_000
BATCH_BYTES = 32 * 2**20
"""Of texts as they are stored, and of vectors."""
_MAY_DIFFER = frozenset({"bands", "rows", "threshold", "recall", "store_text"})


def merge_stores(
    into: Store,
    others: Sequence[Store],
    *,
    on_conflict: str,
    lock_timeout: float,
    on_commit: Callable[[AddResult], None] | None,
) -> AddResult:
    """Take the documents of other indexes over; see :meth:`lshdb.Index.merge`."""
    check_on_conflict(on_conflict)
    if not others:
        return AddResult()
    for other in others:
        _check(into, other)
    begun = time.perf_counter()
    result = AddResult()
    with Writer(into, lock_timeout=lock_timeout) as writer, contextlib.ExitStack() as opened:
        sources = [
            (other.directory.path, opened.enter_context(other.reading())) for other in others
        ]
        run = _Merge(writer, into.params, result, sources, on_conflict=on_conflict)
        run.take(run.batches(), begun=begun, on_commit=on_commit)
    result.seconds = time.perf_counter() - begun
    return result


def _check(into: Store, other: Store) -> None:
    if os.path.samefile(into.directory.path, other.directory.path):
        raise ParameterError(
            f"{other.directory.path} is the index that others are to be merged into",
            hint="leave it out",
        )
    check_equal(
        (into.directory.path, into.params),
        (other.directory.path, other.params),
        may_differ=_MAY_DIFFER,
        hint="only indexes whose parameters give the same signatures can be merged; bands, rows, "
        "threshold, recall and stored texts may differ; lshdb reindex makes an index with others",
    )
    if into.params.store_text and not other.params.store_text:
        what = "vectors" if into.params.keeps_vectors else "text"
        raise TextNotStoredError(
            f"{into.directory.path} stores {what.rstrip('s')}s, and {other.directory.path} was "
            f"made with --no-{what}",
            hint=f"merge both into an index that stores none (lshdb init --no-{what})",
        )
    other.require_signatures()


class _Merge(Committer):
    """One call of merge: of the index that is being read, and of all that are read in turn."""

    def __init__(
        self,
        writer: Writer,
        params: IndexParams,
        result: AddResult,
        sources: Sequence[tuple[Path, Snapshot]],
        *,
        on_conflict: str,
    ) -> None:
        lasts = [snapshot.last_batch() for _, snapshot in sources]
        after = max((last.started_at for last in lasts if last), default="")
        super().__init__(writer, params, result, source="", on_conflict=on_conflict, after=after)
        self._sources = sources
        self._reading: Snapshot

    def batches(self) -> Iterator[list[WholeDocument]]:
        """The documents of all, one index after the other, in batches that fit in memory."""
        for number, (path, snapshot) in enumerate(self._sources, 1):
            for file in snapshot.generation.files[: 1 + self.params.keeps_vectors]:
                for _ in verified_rows(snapshot, file):
                    pass
            self.source, self._reading = str(path), snapshot
            batch: list[WholeDocument] = []
            size, vector_bytes = 0, 0
            if self.params.keeps_vectors:
                vector_bytes = snapshot.vector_file.row_bytes
            for document in snapshot.whole_documents():
                if len(batch) >= BATCH_DOCUMENTS or size >= BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
                batch.append(document)
                size += len(document.body or b"") + vector_bytes
            if batch:
                yield LastBatch(batch) if number == len(self._sources) else batch

    def _change(self, item: WholeDocument) -> Change:
        if self.params.keeps_texts and (item.form is None or item.body is None):
            raise DamageError(
                f"the text of {item.key!r} is missing in {self.source}", hint="run lshdb check"
            )
        return Change(
            item.key,
            item.source,
            item.n_chars,
            item.body_hash,
            item.form or "",
            item.body or b"",
            item.added_at,
            item.last_seen_at,
            (item.signature_id, item.n_shingles),
            item.content_hash,
            n_unassigned=item.n_unassigned,
        )

    def _sign(
        self, contents: list[tuple[int | None, int]]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The rows of those signatures; zeros where there is none."""
        rows = np.zeros((len(contents), self.params.row_words), dtype=np.uint32)
        ids = np.array([-1 if one is None else one for one, _ in contents], dtype=np.int64)
        rows[ids >= 0] = self._reading.signatures[ids[ids >= 0]]
        return rows, np.array([count for _, count in contents], dtype=np.int64)

    def _vectors(self, contents: list[tuple[int | None, int]]) -> NDArray[Any]:
        """The vectors of those signatures."""
        return self._reading.vectors[np.array([one for one, _ in contents], dtype=np.int64)]

    def _packed(self, change: Change) -> bytes:
        return change.body
