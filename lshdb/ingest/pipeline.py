"""Batches -> commits: the one way into an index.

A :class:`BatchSource` gives batches of documents, as columns, and says how they are signed:
documents that come in (``add.py``), stored texts that are signed anew (``reindex.py``), or the
documents of another index with the signatures that they have there (``merge.py``). Each batch takes
these steps:

    classify   against the index by key: new, replaced, unchanged
    share      a content that a document has already shares its signature
    sign       the contents that are new; cut their rows into bands
    write      signature rows, documents, texts, counts

One commit (``storage/transactions/writer.py``) takes one batch, or those that are at hand
(``commit_group.py``). Its postings come last, all in one run. Fewer commits write fewer pages twice
and leave fewer runs: five million documents in commits of 20,000 took half as long again.

All batches of one run carry the same time, later than that of any before.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import ConflictError, LshdbWarning, ParameterError, warn_caller
from lshdb.ingest.add_result import AddResult
from lshdb.ingest.batch import Batch, Contents, row_checksums, sign_new
from lshdb.ingest.commit_group import Group, NewPostings
from lshdb.ingest.cut_documents import Review, review_documents
from lshdb.ingest.unite import unite
from lshdb.ingest.written import WrittenContents, WrittenDocuments
from lshdb.params.index_params import IndexParams
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.banding import content_keys
from lshdb.storage.tables.records import (
    StoredDocument,
    timestamp,
    timestamp_in_future,
    unused_timestamp,
)
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import Workers, collector_paused

__all__ = [
    "ON_CONFLICT",
    "AddRun",
    "BatchSource",
    "check_on_conflict",
    "commit_batches",
]

ON_CONFLICT = ("replace", "skip", "error")
"""What every run may do about a key that is there with another text."""

logger = logging.getLogger("lshdb")

Seen = dict[str, list[StoredDocument]]
"""Unchanged documents by the time at which they last came in."""


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Where batches come from, and what depends on that.

    Attributes
    ----------
    name : str
        Recorded with the batches.
    batches : iterable of Batch
        Taken as they are committed.
    sign : callable
        Values of contents that the index does not have -> their signature rows (uint16, shape
        (n, row_words)) and numbers of shingles (int64, shape (n,)). A row without shingles is not
        written.
    vectors : callable
        The same values -> their rows of the vector file; called where vectors are kept.
    contents : callable, optional
        Batch, places -> the contents of those documents, which are packed then; where batches do
        not have both.
    is_same : callable, optional
        Body as it was given, function that reads the stored body -> whether the two are the same
        although their hashes differ.
    on_repeat : callable, optional
        Told the key and the source of a document whose key came before in this run. Such a document
        is left out. Without it, such a document replaces the one before.
    is_at_hand : callable
        Whether the next batch comes without waiting, so that the one before may be committed with
        it. By default it does not.
    """

    name: str
    batches: Iterable[Batch]
    sign: Callable[[list[Any]], tuple[NDArray[np.uint16], NDArray[np.int64]]]
    vectors: Callable[[list[Any]], NDArray[Any]]
    contents: Callable[[Batch, Sequence[int]], Contents] | None = None
    is_same: Callable[[Any, Callable[[], Any]], bool] | None = None
    on_repeat: Callable[[str, str], None] | None = None
    is_at_hand: Callable[[], bool] = lambda: False


def check_on_conflict(on_conflict: str, *, ways: Sequence[str] = ON_CONFLICT) -> None:
    """Raise ParameterError if there is no such way to deal with a key that is there."""
    if on_conflict not in ways:
        *first_ways, last = (f'"{way}"' for way in ways)
        raise ParameterError(
            f"on_conflict is {on_conflict!r}; expected {', '.join(first_ways)} or {last}"
        )


def commit_batches(
    run: AddRun,
    sources: Sequence[BatchSource],
    *,
    workers: int = 1,
    on_commit: Callable[[AddResult], None] | None,
) -> None:
    """Commit the batches of all sources, one after the other, and sort what they bring.

    Parameters
    ----------
    run : AddRun
    sources : sequence of BatchSource
        At least one; the last batch of the last one ends the run.
    workers : int
        With more than one, rows are written and cut into bands while documents are written, and
        what a commit leaves to be done is done while the next batch is read.
    on_commit : callable, optional
        Called after each commit with the counts so far.
    """
    run.writer.sort_left()
    with Workers(min(workers - 1, 1)) as run.beside:
        try:
            for source in sources:
                batches = iter(source.batches)
                for batch in batches:
                    first_batch = [batch]
                    del batch  # it is let go of before the next one is complete
                    failure = run.commit(source, first_batch, batches)
                    if on_commit is not None:
                        on_commit(run.result)
                    if failure is not None:
                        raise failure
                    if not run.has_ended:
                        run.writer.sort_meanwhile(run.beside)
        except Exception:
            run.writer.end_sorting()
            raise
        run.finish(sources[-1])
        run.writer.tidy(workers=workers)


@dataclass(slots=True)
class _Classified:
    """What to do with the documents of a batch.

    A document that an unfinished add brought, and that comes in again as it is, belongs to the run
    that brings it again: what ``--since last`` means is then the whole of that input.

    Attributes
    ----------
    places : list of int
        Documents that will be written.
    before : list of StoredDocument or None
        The documents that have their keys now.
    seen_again : dict
        Unchanged documents that came in later than the index knew.
    resumed : dict
        Unchanged documents of unfinished adds.
    n_unchanged : int
    same : list of (int, int)
        Place and doc_id of unchanged documents that come with fields, and of unchanged windows of
        documents that changed, which have the fields that come now, or none.
    stale : list of StoredDocument
        Windows that their documents no longer have.
    """

    places: list[int] = field(default_factory=list)
    before: list[StoredDocument | None] = field(default_factory=list)
    seen_again: Seen = field(default_factory=dict)
    resumed: Seen = field(default_factory=dict)
    n_unchanged: int = 0
    same: list[tuple[int, int]] = field(default_factory=list)
    stale: list[StoredDocument] = field(default_factory=list)


@dataclass(slots=True)
class _Shared:
    """The signatures of the documents that will be written.

    Attributes
    ----------
    content_hashes : list of bytes
    n_unassigned : sequence of int or None
    digests : list of bytes
        Hashes of the contents that need a new signature, in the order of their ids.
    parts : list of ndarray
        Their signature rows, and their vectors where those are kept.
    signature_ids : list of int or None
    n_shingles : list of int
    n_copies : int
        How many documents share the signature of an identical content.
    """

    content_hashes: list[bytes]
    n_unassigned: Sequence[int | None]
    digests: list[bytes]
    parts: list[NDArray[Any]]
    signature_ids: list[int | None] = field(default_factory=list)
    n_shingles: list[int] = field(default_factory=list)
    n_copies: int = 0


@dataclass(frozen=True, slots=True)
class _Written:
    """A batch that is written, and counts of its documents.

    Attributes
    ----------
    batch_id : int
    counts : dict of str to int
        Columns of the table ``batch``.
    n_documents, n_resumed, n_short, n_cut : int
    is_last : bool
    """

    batch_id: int
    counts: dict[str, int]
    n_documents: int
    n_resumed: int
    n_short: int
    n_cut: int
    is_last: bool


class AddRun:
    """One add, merge or reindex under the writer's lock: its time, its counts, and its batches.

    Parameters
    ----------
    writer : Writer
    params : IndexParams
    result : AddResult
        Counted up with every commit.
    on_conflict : {"replace", "skip", "error", "unite"}
        What to do about a key that is there with another text.
    night : str
        The night that the run belongs to; empty for none.

    Attributes
    ----------
    beside : Workers
        Does what needs neither the database nor the interpreter.
    has_ended : bool
        Whether its last commit recorded that.
    """

    def __init__(
        self,
        writer: Writer,
        params: IndexParams,
        result: AddResult,
        *,
        on_conflict: str,
        night: str = "",
    ) -> None:
        self.writer = writer
        self.params = params
        self.result = result
        self.on_conflict = on_conflict
        self.beside = Workers(0)
        self.add_id: int | None = None
        self._begun = time.perf_counter()
        self._began_at = timestamp()
        self._night = night
        self._started_at = ""
        self._written: WrittenContents
        self._keys: WrittenDocuments
        self._n_before: int
        self._rejected_before = 0
        self.has_ended = False
        self._is_again = False

    def commit(
        self, source: BatchSource, first_batch: list[Batch], following: Iterator[Batch]
    ) -> BaseException | None:
        """Write a batch, and those that follow it and belong to the same commit.

        Parameters
        ----------
        source : BatchSource
        first_batch : list of Batch
            The one batch; emptied.
        following : iterator of Batch
            The batches of the source after it.

        Returns
        -------
        BaseException or None
            What came instead of another batch, or kept that from being written. The batches before
            it are committed.
        """
        self._is_again = False
        group = Group(
            first_batch, following, is_at_hand=source.is_at_hand, is_single=self.writer.may_repeat
        )
        with collector_paused():
            written = self.writer.commit(partial(self._write_group, source, group))
        for written_batch in written:
            self._count(written_batch)
        return group.failure

    def _count(self, written: _Written) -> None:
        """Add the counts of a batch that is committed to the result."""
        result, counts = self.result, written.counts
        self._rejected_before += counts["n_rejected"]
        self.add_id = self.add_id or written.batch_id
        result.added += counts["n_added"]
        result.replaced += counts["n_replaced"]
        result.unchanged += counts["n_unchanged"]
        result.copies += counts["n_copies"]
        result.resumed += written.n_resumed
        result.united += counts["n_replaced"] if self.on_conflict == "unite" else 0
        result.cut += written.n_cut
        result.stale += counts["n_removed"]
        result.short += written.n_short
        result.batches.append(written.batch_id)
        result.seconds = time.perf_counter() - self._begun
        self.has_ended = written.is_last
        logger.info("batch %d: %d documents committed", written.batch_id, written.n_documents)

    def finish(self, source: BatchSource) -> None:
        """Record that the run has ended, unless its last commit did.

        A run without documents, or with rejections after its last batch, commits one more batch
        that records this. A new index with no accepted document gets no commit, so it never comes
        to its place.
        """
        if self.writer.is_making and not self.result.documents:
            return
        if self.result.rejected > self._rejected_before or not self.result.batches:
            self.commit(source, [Batch(is_last=True)], iter(()))
        elif not self.has_ended and (add_id := self.add_id) is not None:
            self.writer.commit(lambda transaction: transaction.end_add(add_id))
            self.has_ended = True

    def _write_group(
        self, source: BatchSource, group: Group, transaction: WriteTransaction
    ) -> list[_Written]:
        """Write the batches of one commit, and then their postings."""
        if self.add_id is None:
            self._begin(transaction.snapshot)
        written: list[_Written] = []
        new = NewPostings(BandOrders(self.params.cut), transaction.n_signatures)
        add_id, n_rejected = self.add_id, self._rejected_before
        for batch in group.batches():
            if written:
                self._is_again = False
            try:
                classified, shared = self._prepare(transaction, source, batch, new, add_id)
            except (Exception, KeyboardInterrupt) as error:  # nothing of this batch is written
                if not written:
                    raise
                group.failure = error
                break
            written_batch = self._write(
                transaction, batch, classified, shared, new, add_id, source.name
            )
            written_batch.counts["n_rejected"] = self.result.rejected - n_rejected
            n_rejected = self.result.rejected
            transaction.update_batch(
                written_batch.batch_id,
                {**written_batch.counts, "finished_at": max(self._started_at, timestamp())},
            )
            add_id = add_id or written_batch.batch_id
            written.append(written_batch)
            group.note(batch, new.n)
            del batch, classified, shared  # before the next one is complete
        if new.n:
            self.writer.keep_sorted(new.sorted_rows())
        return written

    def _prepare(
        self,
        transaction: WriteTransaction,
        source: BatchSource,
        batch: Batch,
        new: NewPostings,
        add_id: int | None,
    ) -> tuple[_Classified, _Shared]:
        """Decide which documents of a batch to write, and sign those that are new."""
        if self.on_conflict == "unite":
            unite(transaction.snapshot, batch)
        try:
            classified = self._classify(transaction.snapshot, source, batch, add_id)
        finally:
            # Rejections of this batch were reported; do not report them again on a retry.
            self._is_again = True
        # Contents are let go of before documents are written: they are as large as the batch.
        contents = _contents(source, batch, classified.places)
        return classified, self._share(transaction, source, contents, classified.before, new)

    def _write(
        self,
        transaction: WriteTransaction,
        batch: Batch,
        classified: _Classified,
        shared: _Shared,
        new: NewPostings,
        add_id: int | None,
        source: str,
    ) -> _Written:
        """Write all of a batch but its postings."""
        batch_id = transaction.open_batch(started_at=self._started_at, source=source, add_id=add_id)
        if self._night and add_id is None:
            transaction.name_night(batch_id, self._night)
        transaction.delete_documents([window.doc_id for window in classified.stale])
        gone = [
            window.signature_id for window in classified.stale if window.signature_id is not None
        ]
        transaction.release_signatures(gone, batch_id)
        self._write_rows(transaction, batch, classified, shared, new, batch_id)
        _update_fields(transaction, batch, classified.same)
        for seen_at, documents in classified.seen_again.items():
            transaction.touch_documents(documents, seen_at)
        for seen_at, documents in classified.resumed.items():
            transaction.touch_documents(documents, seen_at, batch_id=batch_id)
        if batch.is_last:
            transaction.end_add(add_id or batch_id)
        else:
            transaction.begin_add(add_id or batch_id)
        n_added = classified.before.count(None)
        is_text = self.params.kind.body == "text"
        return _Written(
            batch_id=batch_id,
            counts={
                "n_added": n_added,
                "n_replaced": len(classified.places) - n_added,
                "n_unchanged": classified.n_unchanged,
                "n_copies": shared.n_copies,
                "n_removed": len(classified.stale),
            },
            n_documents=len(batch.keys),
            n_resumed=sum(map(len, classified.resumed.values())),
            n_short=int((np.array(shared.n_shingles) <= 1).sum()) if is_text else 0,
            n_cut=len(batch.cut),
            is_last=batch.is_last,
        )

    def _begin(self, snapshot: Snapshot) -> None:
        """Choose the time of this add, later than any that the index has."""
        # Documents that came in with this time came in with this add.
        starts = set(snapshot.batch_starts_from(self._began_at))
        self._started_at = unused_timestamp(self._began_at, starts)
        if starts and max(starts) > timestamp_in_future():
            warn_caller(
                LshdbWarning(
                    f"an earlier add began on {max(starts)[:16]} UTC, later than now, "
                    f"{self._began_at[:16]} UTC: a clock was ahead, or this one is behind; lshdb "
                    "check names what has such times, and lshdb check --mend-times dates it"
                )
            )
        self._written = WrittenContents()
        self._keys = WrittenDocuments(is_all=snapshot.next_doc_id == 1)
        self._n_before = snapshot.n_signatures

    def _classify(
        self, snapshot: Snapshot, source: BatchSource, batch: Batch, add_id: int | None
    ) -> _Classified:
        """Divide a batch into documents to write and unchanged ones."""
        classified = _Classified()
        places: Sequence[int] = range(len(batch.keys))
        replacing: Collection[int] = ()
        if batch.cut:
            review = self._review(snapshot, source, batch)
            stored, places, classified.stale = review.stored, review.places, review.stale
            replacing = review.replacing
            classified.n_unchanged = len(review.left)
            for window in review.left:
                classified.seen_again.setdefault(self._started_at, []).append(window)
        else:
            suspected = self._keys.suspected(batch.keys, remembers=not batch.is_last)
            stored = snapshot.documents_of_keys(suspected)
        unfinished = snapshot.unfinished_batches(but=add_id)
        if not stored and (batch.cut or len(set(batch.keys)) == len(batch.keys)):
            classified.places = list(places)
            classified.before = [None] * len(places)
            return classified
        met: set[str] = set()
        for place in places:
            key = batch.keys[place]
            before = stored.get(key)
            if source.on_repeat is not None:
                if key in met or (before and before.last_seen_at == self._started_at):
                    if not self._is_again:
                        source.on_repeat(key, batch.sources[place])
                    continue
                met.add(key)
            if before is not None:
                is_same = before.body_hash == batch.body_hashes[place] or (
                    source.is_same is not None
                    and source.is_same(batch.bodies[place], partial(snapshot.body, before.doc_id))
                )
                if is_same or self.on_conflict == "skip":
                    classified.n_unchanged += 1
                    if is_same and (place in batch.fields or place in replacing):
                        classified.same.append((place, before.doc_id))
                    seen_at = self._started_at
                    if batch.times:
                        seen_at = max(before.last_seen_at, batch.times[place][1])
                    if is_same and before.batch_id in unfinished:
                        classified.resumed.setdefault(seen_at, []).append(before)
                    elif before.last_seen_at != seen_at:
                        classified.seen_again.setdefault(seen_at, []).append(before)
                    continue
                if self.on_conflict == "error":
                    raise ConflictError(
                        f"the key {key!r} is in the index already, with another text "
                        f"({batch.sources[place] or 'no source named'})",
                        key=key,
                        hint="use --on-conflict replace or skip; nothing of this batch was written",
                    )
            classified.places.append(place)
            classified.before.append(before)
        return classified

    def _review(self, snapshot: Snapshot, source: BatchSource, batch: Batch) -> Review:
        """Compare documents that were cut into windows with the stored ones."""

        def on_repeat(key: str, of: str) -> None:
            if source.on_repeat is not None and not self._is_again:
                source.on_repeat(key, of)

        return review_documents(
            snapshot,
            batch,
            on_conflict=self.on_conflict,
            started_at=self._started_at,
            on_repeat=on_repeat,
        )

    def _share(
        self,
        transaction: WriteTransaction,
        source: BatchSource,
        contents: Contents,
        befores: list[StoredDocument | None],
        new: NewPostings,
    ) -> _Shared:
        """Give each document the signature that its content has, or will have."""
        snapshot = transaction.snapshot
        values = dict(zip(contents.hashes, contents.values, strict=True))
        keys = content_keys(list(values))
        suspected = self._written.suspected(keys)
        stored: dict[bytes, tuple[int, int]] = {}
        if self._n_before:
            stored = snapshot.signatures_of_contents(values, keys[~suspected], below=self._n_before)
        keys = keys[suspected]
        stored |= snapshot.signatures_of_contents(values, keys, recent=new.of_contents(keys))
        digests, rows, counts = sign_new(values, stored, source.sign)
        ids = itertools.count(transaction.n_signatures)
        signed = dict(zip(digests, zip(ids, counts.tolist(), strict=False), strict=True))
        shared = _Shared(contents.hashes, contents.n_unassigned, digests, [rows])
        all_known = signed | stored if stored else signed
        shared_ids = list(map(all_known.get, contents.hashes, itertools.repeat((None, 0))))
        if shared_ids:
            shared.signature_ids, shared.n_shingles = map(list, zip(*shared_ids, strict=True))
        n_same = sum(
            before.content_hash == digest and digest in stored
            for digest, before in zip(contents.hashes, befores, strict=True)
            if before is not None
        )
        n_signed = len(shared_ids) - shared.signature_ids.count(None)
        shared.n_copies = n_signed - len(signed) - n_same  # the first of a new content is no copy
        if digests and self.params.keeps_vectors:
            shared.parts.append(source.vectors([values[digest] for digest in digests]))
        return shared

    def _write_rows(
        self,
        transaction: WriteTransaction,
        batch: Batch,
        classified: _Classified,
        shared: _Shared,
        new: NewPostings,
        batch_id: int,
    ) -> None:
        """Write signature rows and cut them into bands, beside that documents."""
        first = transaction.begin_signatures()
        written = self.beside.submit(partial(transaction.write_signatures, first), shared.parts)
        keys = self.beside.submit(partial(new.cut, shared.parts[0]), shared.digests)
        try:
            self._write_documents(transaction, batch, classified, shared, batch_id)
            transaction.record_signatures(shared.parts)
            of_rows = keys.result(helps=True)
            if of_rows is not None:
                transaction.bands.append(first, of_rows[0][:-1].T)
            new.add(of_rows)
            written.result(helps=True)
        finally:  # nobody writes to the file once the transaction has ended
            keys.drop()
            written.drop()
        if not batch.is_last:  # nobody asks after the last batch: a small add spares the filter
            self._written.remember(content_keys(shared.digests))

    def _write_documents(
        self,
        transaction: WriteTransaction,
        batch: Batch,
        classified: _Classified,
        shared: _Shared,
        batch_id: int,
    ) -> None:
        places, before = classified.places, classified.before
        n_documents = len(places)
        old = [at for at, stored in enumerate(before) if stored is not None]
        times = [batch.times[place] for place in places] if batch.times else []
        added_at = [time[0] for time in times] or [self._started_at] * n_documents
        seen_at = [time[1] for time in times] or [self._started_at] * n_documents
        doc_ids = _numbers(transaction.snapshot.next_doc_id, before)
        left: list[int] = []  # signatures of replaced documents that have another one now
        for at in old:
            stored = cast(StoredDocument, before[at])
            added_at[at] = stored.added_at
            if times:
                seen_at[at] = max(seen_at[at], stored.last_seen_at)
            if stored.signature_id not in (None, shared.signature_ids[at]):
                left.append(stored.signature_id)
        columns: list[Sequence[Any]] = [
            doc_ids,
            _chosen(batch.keys, places),
            shared.signature_ids,
            shared.content_hashes,
            _chosen(batch.body_hashes, places),
            shared.n_shingles,
            _chosen(batch.sizes, places),
            _chosen(batch.sources, places),
            [batch_id] * n_documents,
            self._differing(added_at),
            self._differing(seen_at),
            shared.n_unassigned,
        ]
        columns.append(row_checksums(columns))
        if old:
            new = [at for at, stored in enumerate(before) if stored is None]
            transaction.insert_documents([_chosen(column, new) for column in columns])
            transaction.replace_documents([_chosen(column, old) for column in columns])
        else:
            transaction.insert_documents(columns)
        transaction.release_signatures(left, batch_id)
        replaced = _chosen(doc_ids, old)
        fields = batch.fields
        placed = zip(doc_ids, places, strict=True) if fields else ()
        transaction.put_fields(
            [(doc_id, fields[place]) for doc_id, place in placed if place in fields],
            replaced=replaced,
        )
        if self.params.keeps_texts:
            packed, sizes = _chosen(batch.packed, places), _chosen(batch.sizes, places)
            frames = transaction.fit_bodies(packed, sizes, batch.codec)
            columns = [doc_ids, _chosen(batch.forms, places), frames]
            transaction.put_bodies(columns, replaced=replaced)

    def _differing(self, times: list[str]) -> list[str | None]:
        """Return the times of documents as they are stored: None for that of the batch."""
        return [None if time == self._started_at else time for time in times]


def _numbers(next_doc_id: int, before: Sequence[StoredDocument | None]) -> list[int]:
    """Return the doc_id of each document: that of the one before, or a new one."""
    if before.count(None) == len(before):
        return list(range(next_doc_id, next_doc_id + len(before)))
    following = itertools.count(next_doc_id)
    return [next(following) if stored is None else stored.doc_id for stored in before]


def _chosen(column: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
    """Return the values at some places, which are in order and distinct."""
    if len(places) == len(column):
        return column
    return [column[place] for place in places]


def _update_fields(
    transaction: WriteTransaction, batch: Batch, same: Sequence[tuple[int, int]]
) -> None:
    """Write the fields of unchanged documents and windows where they have changed."""
    if not same:
        return
    before = transaction.snapshot.fields_of(doc_id for _, doc_id in same)
    changed = {
        doc_id: batch.fields.get(place)
        for place, doc_id in same
        if before.get(doc_id) != batch.fields.get(place)
    }
    transaction.put_fields(
        [(doc_id, fields) for doc_id, fields in changed.items() if fields is not None],
        replaced=list(changed),
    )


def _contents(source: BatchSource, batch: Batch, places: Sequence[int]) -> Contents:
    if source.contents is not None and batch.keys:
        return source.contents(batch, places)
    return batch.contents.at(places) if batch.contents is not None else Contents([], [], [])
