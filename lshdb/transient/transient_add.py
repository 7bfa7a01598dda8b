"""Documents -> rows, orders and texts of an index that lasts for one question.

The way is that of an add (``ingest/``), but for what makes an index last: no text is compressed, no
row goes into a table, no key is looked up but for repeats, and no file is synced.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_whole
from lshdb.documents.document import Given, Rejected
from lshdb.errors import LshdbError
from lshdb.files.temporary_folder import temporary_hint
from lshdb.handle import require_whole_documents
from lshdb.ingest import add_sizes
from lshdb.ingest.add import (
    InputShare,
    Rejections,
    all_rejected,
    check_documents,
    given_blocks,
    in_batches,
)
from lshdb.ingest.add_result import AddResult
from lshdb.ingest.ahead import Ahead
from lshdb.ingest.batch import Batch, Contents, sign_new
from lshdb.ingest.commit_group import NewPostings
from lshdb.ingest.written import WrittenContents, WrittenDocuments
from lshdb.phases.phase import is_callers
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.banding import content_keys
from lshdb.signatures.family import Family
from lshdb.storage.orders.freezing import freeze_rows
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.tables.bodies import raw_body, stored_frame
from lshdb.storage.tables.records import timestamp
from lshdb.threads import choose_workers, collector_paused, give_memory_back
from lshdb.transient.transient_state import FORMS, TransientState
from lshdb.transient.transient_store import TransientStore

__all__ = ["add_to_transient"]

Ids: TypeAlias = NDArray[np.int64]


class _Rows(NamedTuple):
    """The rows so far, as orders are made of them."""

    n_signatures: int
    generation: Generation

    def segments(self, ends: Iterable[int]) -> dict[int, int]:
        """Return a number for each segment, as commits of an index draw them."""
        return dict.fromkeys(ends, 1)


class _Files:
    """Which documents came from which file, by the names and numbers that are their sources."""

    def __init__(self) -> None:
        self._starts: list[tuple[str, int]] = []
        self._n = 0
        self._odd: set[str] = set()

    def append(self, sources: Sequence[str]) -> None:
        """Take the sources of the next documents."""
        place = 0
        while place < len(sources):
            name = _file_of(sources[place])
            if not self._starts or self._starts[-1][0] != name:
                self._starts.append((name, self._n + place))
            beginning = f"{name}:"
            is_last = sources[-1].startswith(beginning)
            place = len(sources) if is_last else place + 1
        self._n += len(sources)

    def leave_out(self, source: str) -> None:
        """Take note of a record that is no document, or of a file that cannot be read."""
        self._odd |= {source, _file_of(source)}

    def whole(self) -> dict[str, range]:
        """Return the rows of each file without such a record, whose documents came together."""
        files: dict[str, range] = {}
        for (name, start), (_, end) in itertools.pairwise([*self._starts, ("", self._n)]):
            if name in files:
                self._odd.add(name)
            files[name] = range(start, end)
        return {name: rows for name, rows in files.items() if name not in self._odd}


class _NotedRejections(Rejections):
    """Rejections, of which the files take note."""

    def __init__(self, files: _Files, result: AddResult, **how: Any) -> None:
        super().__init__(result, **how)
        self._files = files

    def add(self, rejection: Rejected) -> None:
        self._files.leave_out(rejection.source)
        super().add(rejection)


def _file_of(source: str) -> str:
    return source.rpartition(":")[0]


class TransientAdd:
    """Takes batches into a store; :meth:`finish` gives it its state.

    Parameters
    ----------
    store : TransientStore
    family : Family
    result : AddResult
        Counted up.
    files : _Files
        Told of the source of each document.
    on_repeat : callable
        Told the key and the source of a document whose key came before; it is left out.
    """

    def __init__(
        self,
        store: TransientStore,
        family: Family,
        result: AddResult,
        files: _Files,
        on_repeat: Callable[[str, str], None],
    ) -> None:
        self._store = store
        self._result = result
        self._params = family.params
        self._on_repeat = on_repeat
        self._documents = store.documents
        self._batch_starts: list[int] = []
        self._files = files
        self._n = self._n_signatures = 0
        self._written = WrittenContents()
        self._orders = BandOrders(self._params.cut)
        self._new = NewPostings(self._orders, 0)
        self._met = WrittenDocuments(is_all=True)

    def take(self, batch: Batch, ahead: Ahead) -> None:
        """Take a batch."""
        places = self._without_repeats(batch)
        contents = ahead.contents(batch, places)
        columns = self._documents
        columns.signatures.append(self._share(contents, ahead))
        sources = [batch.sources[place] for place in places]
        columns.names.append([batch.keys[place] for place in places], sources)
        self._files.append(sources)
        forms = [0] * len(places)
        if self._params.keeps_texts:
            bodies = [raw_body(batch.bodies[place]) for place in places]
            columns.bodies.append([stored_frame(raw) for _, raw in bodies])
            forms = [FORMS.index(form) for form, _ in bodies]
        sizes = [batch.sizes[place] for place in places]
        columns.sizes.append(np.array([sizes, forms]).T)
        self._batch_starts.append(self._n)
        columns.fields.append([batch.fields.get(place, "").encode() for place in places])
        self._n += len(places)
        self._result.added += len(places)
        self._result.batches.append(len(self._batch_starts))
        if self._new.n >= add_sizes.SIZES.commit_postings:
            self._freeze()

    def finish(self) -> None:
        """Give the store its state."""
        self._freeze()
        columns = self._documents
        if self._params.kind.body == "text":
            short = [int((sizes <= 1).sum()) for sizes in columns.set_sizes.blocks()]
            copied = columns.set_sizes.take(columns.signatures.copied)
            self._result.short = (
                sum(short) + int((copied <= 1).sum()) + columns.signatures.n_without
            )
        store = self._store
        store.state = TransientState(
            columns,
            store.generation,
            store.orders,
            batch_starts=np.array(self._batch_starts, dtype=np.int64),
            files=self._files.whole(),
            added_at=timestamp(),
        )

    def _without_repeats(self, batch: Batch) -> Sequence[int]:
        """Return the places of the documents whose keys did not come before."""
        keys = batch.keys
        suspected = self._met.suspected(keys, remembers=True)
        if not suspected and len(set(keys)) == len(keys):
            return range(len(keys))
        is_there = self._documents.names.rows_of(suspected) >= 0
        met = set(itertools.compress(suspected, is_there.tolist()))
        places = []
        for place, key in enumerate(keys):
            if key in met:
                self._on_repeat(key, batch.sources[place])
            else:
                met.add(key)
                places.append(place)
        return places

    def _share(self, contents: Contents, ahead: Ahead) -> Ids:
        """Return the signature of each document, -1 for none; write those that are new."""
        values = dict(zip(contents.hashes, contents.values, strict=True))
        keys = content_keys(list(values))
        signature_of = self._known(values, keys[self._written.suspected(keys)])
        fresh, rows, counts = sign_new(values, signature_of, ahead.sign)
        if fresh:
            parts: list[NDArray[Any]] = [rows]
            if self._params.keeps_vectors:
                parts.append(np.stack([values[digest] for digest in fresh]))
            self._store.generation.append(self._n_signatures, parts)
            self._new.add(self._new.cut(rows, fresh))
            self._written.remember(content_keys(fresh))
            self._documents.digests.append(
                np.frombuffer(b"".join(fresh), dtype=np.uint8).reshape(-1, 16)
            )
            self._documents.set_sizes.append(counts[:, np.newaxis])
            signature_of.update(zip(fresh, itertools.count(self._n_signatures), strict=False))
            self._n_signatures += len(fresh)
        ids = np.array([signature_of.get(digest, -1) for digest in contents.hashes], dtype=np.int64)
        self._result.copies += int((ids >= 0).sum()) - len(fresh)
        return ids

    def _known(self, values: Container[bytes], keys: Ids) -> dict[bytes, int]:
        """Return the signatures of the contents that some had, by hash."""
        if not len(keys):
            return {}
        ids = self._new.of_contents(keys)
        store = self._store
        n_sorted = self._n_signatures - self._new.n // self._orders.n_orders
        rows = _Rows(n_sorted, store.generation)
        cover = store.orders.cover(rows, sorts=False) if n_sorted else None
        if cover is not None:
            ids = np.concatenate(
                [ids, cover.of_contents(keys), np.arange(cover.n_covered, n_sorted)]
            )
        digests = self._digests_of(ids)
        return {
            digest: number
            for digest, number in zip(digests, ids.tolist(), strict=True)
            if digest in values
        }

    def _digests_of(self, signature_ids: Ids) -> list[bytes]:
        return [digest.tobytes() for digest in self._documents.digests.take(signature_ids)]

    def _freeze(self) -> None:
        """Sort the postings that are new into a file."""
        store = self._store
        if self._new.n:
            freeze_rows(
                store.orders,
                _Rows(self._n_signatures, store.generation),
                lambda first, last: dict(
                    zip(range(first, last), self._digests_of(np.arange(first, last)), strict=True)
                ),
                add_start=0,
                goes_on=True,
                ready=self._new.sorted_rows(),
            )
            self._new = NewPostings(self._orders, self._n_signatures)


def add_to_transient(
    store: TransientStore,
    documents: Iterable[Given],
    family: Family,
    *,
    max_errors: int | None,
    workers: int | None,
    on_reject: Callable[[Rejected], None] | None,
    on_commit: Callable[[AddResult], None] | None,
) -> AddResult:
    """Fill an index; see :meth:`lshdb.Index.add`.

    Raises
    ------
    ParameterError
        The index is one of passages.
    AllRejectedError, TooManyRejectedError, LshdbError
    """
    check_documents(documents)
    require_whole_documents(store, "an index that lasts for one question")
    if store.is_filled:
        raise LshdbError(
            "documents come into a transient index once",
            hint="give all of them together, or make an index",
        )
    store.is_filled = True
    if max_errors is not None:
        check_whole("max_errors", max_errors, 0)
    started = time.perf_counter()
    result = AddResult()
    files = _Files()
    rejections = _NotedRejections(files, result, on_reject=on_reject, max_errors=max_errors)
    add = TransientAdd(store, family, result, files, rejections.add_repeat)
    blocks, is_at_hand = given_blocks(documents)
    share = InputShare.of(documents)
    blocks, told = share.watched(blocks), share.then(on_commit)
    try:
        with (
            share.phase,
            Ahead(family, None, workers=choose_workers(workers), expects_new=True) as ahead,
        ):
            for batch in in_batches(blocks, family, rejections.add, ahead, is_at_hand=is_at_hand):
                with collector_paused():
                    add.take(batch, ahead)
                told(result)
        add.finish()
    except OSError as error:
        if is_callers(error):
            raise
        raise LshdbError(
            f"writing temporary files to {store.path.parent} failed: {error.strerror}",
            hint=temporary_hint(error),
        ) from error
    del add  # what it knows of contents and keys is needed no more
    give_memory_back()
    result.seconds = time.perf_counter() - started
    if result.rejected and not result.documents:
        raise all_rejected(result)
    return result
