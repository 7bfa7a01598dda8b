"""Changes -> committed batches: what every way into an index has in common.

Documents come in with a body that is yet to be signed (``ingest/add.py``), with stored texts that
are signed anew (``ingest/reindex.py``), or with signatures that another index has already
(``ingest/merge.py``). Each batch of them is one commit:

    classify   against the index by key: new, replaced, unchanged
    share      a content that a document has already shares its signature
    sign       the contents that are new; cut their rows into bands
    write      signature rows, documents, texts, postings, counts: one transaction
    (storage/transactions/writer.py)

All batches of one run carry the same time, later than that of any before.

Which contents one add has posted: what tells a new content without looking it up in every run.

While an add goes on its batches leave run after run, which are merged at its end. Looking each
content of a batch up in all of them costs more with every batch: half of the time of the last tenth
of 5 million documents. So an add remembers the bucket keys that it has posted in a Bloom filter
(Bloom, 1970), in a fixed 16 MiB. A key that is not in it can only be in a run from before the add.
"""

from __future__ import annotations

import itertools
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.documents import Rejected
from lshdb.errors import ConflictError, ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.signatures.banding import bucket_keys, content_keys
from lshdb.storage.tables.records import StoredDocument, timestamp, timestamp_after
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import collector_paused

__all__ = ["AddResult", "Change", "Committer", "LastBatch", "PostedContents", "check_on_conflict"]


_BITS = 27
_HASHES = 3
"""With 2^27 bits: 1 in 1,000 wrongly suspected after 5 million keys, 3 in 100 after 20 million."""


class PostedContents:
    """The content keys that an add has posted, and the runs that were there before it.

    Parameters
    ----------
    runs : sequence of str
        Tables of the runs as the add begins.
    bits : int
        The filter has 2^bits bits.
    """

    def __init__(self, runs: Sequence[str], *, bits: int = _BITS) -> None:
        self._bits = bits
        self._words: NDArray[np.uint8] | None = None
        self._runs = tuple(runs)

    def remember(self, keys: NDArray[np.int64]) -> None:
        """Note keys whose postings are being written."""
        if self._words is None:
            self._words = np.zeros(2**self._bits // 8, dtype=np.uint8)
        for places in self._places(keys):
            np.bitwise_or.at(self._words, places >> 3, _bit(places))

    def suspected(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which keys may have been remembered; those that have been are among them."""
        if self._words is None:
            return np.zeros(len(keys), dtype=bool)
        found = np.ones(len(keys), dtype=bool)
        for places in self._places(keys):
            found &= (self._words[places >> 3] & _bit(places)) != 0
        return found

    def runs_before(self, runs: Sequence[str]) -> list[str]:
        """The runs to look an unsuspected key up in, of those that there are.

        Where one from before was merged with others since, it has to be all of them from then on.
        """
        if not set(self._runs) <= set(runs):
            self._runs = tuple(runs)
            self._words = None
        return list(self._runs)

    def _places(self, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Bits of a key: it is 56 bits of a hash already, below the number of its band."""
        first = keys & (2**28 - 1)
        step = keys >> 28 & (2**28 - 1) | 1
        mask = 2**self._bits - 1
        return [(first + number * step) & mask for number in range(_HASHES)]


def _bit(places: NDArray[np.int64]) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = np.left_shift(1, places & 7).astype(np.uint8)
    return bits


logger = logging.getLogger("lshdb")


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
    resumed : int
        Of those unchanged, how many an add that did not end had brought: they are this add's now.
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
    resumed: int = 0
    rejected: int = 0
    rejections: list[Rejected] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def documents(self) -> int:
        """Documents that were accepted."""
        return self.added + self.replaced + self.unchanged


@dataclass(slots=True)
class Change:
    """One document that will be written: what comes in, what was there, and what it will be.

    Attributes
    ----------
    key, source, n_chars, body_hash, form : as the columns of ``document`` and ``content``
    body : bytes
        What :meth:`Committer._packed` makes the stored text of.
    added_at, last_seen_at : str
        When it first and last came in, as far as what comes in knows.
    content : object
        What :meth:`Committer._sign` signs; let go of afterwards.
    content_hash : bytes
    before : StoredDocument or None
        The document that had the key.
    n_unassigned : int or None
        As the column.
    n_shingles, signature_id, is_copy
        Known once contents have been looked up.
    """

    key: str
    source: str
    n_chars: int
    body_hash: bytes
    form: str
    body: bytes
    added_at: str
    last_seen_at: str
    content: Any = None
    content_hash: bytes = b""
    before: StoredDocument | None = None
    n_shingles: int = 0
    n_unassigned: int | None = 0
    signature_id: int | None = None
    is_copy: bool = False


class LastBatch(list[Any]):
    """A batch after which none comes: its commit records that the run has ended."""


def check_on_conflict(on_conflict: str) -> None:
    """Refuse what is no way to deal with a key that is there.

    Raises
    ------
    ParameterError
    """
    if on_conflict not in ("replace", "skip", "error"):
        raise ParameterError(
            f'on_conflict is {on_conflict!r}; expected "replace", "skip" or "error"'
        )


class Committer(ABC):
    """One run of changes, under the writer's lock: its time, its counts, and its batches.

    Parameters
    ----------
    writer : Writer
    params : IndexParams
    result : AddResult
        Counted up with every commit.
    source : str
        Recorded with the batches.
    on_conflict : {"replace", "skip", "error"}
        What becomes of a key that is there with another text.
    after : str
        A time that the run's is to be later than, beside those of all batches before.

    Attributes
    ----------
    is_again : bool
        The batch is being written once more, and what is to be said of it has been said.
    """

    def __init__(
        self,
        writer: Writer,
        params: IndexParams,
        result: AddResult,
        *,
        source: str,
        on_conflict: str,
        after: str = "",
    ) -> None:
        self.writer = writer
        self.params = params
        self.result = result
        self.source = source
        self.on_conflict = on_conflict
        self.rejected_before = 0
        self.is_again = False
        self._has_ended = False
        with writer.transaction() as transaction:
            last = transaction.snapshot.last_batch()
            self.posted = PostedContents(transaction.snapshot.run_tables)
            self.started_at = timestamp_after(max(after, last.started_at if last else "") or None)
        self.add_id: int | None = None

    @abstractmethod
    def _change(self, item: Any) -> Change:
        """What comes in of one item; called for each in turn."""

    @abstractmethod
    def _sign(self, contents: list[Any]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Signature rows and numbers of shingles of contents that the index has not."""

    def _vectors(self, contents: list[Any]) -> NDArray[Any]:
        """The rows of the vector file of contents that have been signed: those contents."""
        return np.stack(contents)

    @abstractmethod
    def _packed(self, change: Change) -> bytes:
        """The body as the table ``content`` holds it."""

    def _is_same(self, transaction: WriteTransaction, item: Any, before: StoredDocument) -> bool:
        """Whether an item whose hash differs is what the document was given as nevertheless."""
        return False

    def _repeats(self, item: Any, before: StoredDocument | None) -> bool:
        """Whether the key came before in this run, in an earlier batch or in this one."""
        return False

    def _hash_contents(self, changes: list[Change]) -> None:
        """Give changes their contents and hashes, where :meth:`_change` did not."""
        return

    # What is common

    def take(
        self,
        batches: Iterable[Sequence[Any]],
        *,
        begun: float,
        on_commit: Callable[[AddResult], None] | None,
    ) -> None:
        """Commit batch after batch, and merge runs.

        Parameters
        ----------
        batches : iterable
            Taken as they are committed.
        begun : float
            Reading of ``time.perf_counter`` from which on time counts.
        on_commit : callable, optional
            Called after each commit with the counts so far.
        """
        for batch in batches:
            self.commit(batch)
            self.result.seconds = time.perf_counter() - begun
            if on_commit is not None:
                on_commit(self.result)
            self.writer.limit_runs()
        self.finish()
        self.writer.tidy()

    def commit(self, items: Sequence[Any]) -> None:
        """Write one batch."""
        self.is_again = False

        def work(transaction: WriteTransaction) -> dict[str, int]:
            try:
                return self._write(transaction, items)
            finally:
                self.is_again = True

        with collector_paused():
            counts = self.writer.run(work)
        self.rejected_before = self.result.rejected
        self.add_id = self.add_id or counts["batch_id"]
        result = self.result
        result.added += counts["n_added"]
        result.replaced += counts["n_replaced"]
        result.unchanged += counts["n_unchanged"]
        result.copies += counts["n_copies"]
        result.resumed += counts["n_resumed"]
        result.batches.append(counts["batch_id"])
        self._has_ended = isinstance(items, LastBatch)
        logger.info("batch %d: %d documents committed", counts["batch_id"], len(items))

    def finish(self) -> None:
        """Record that the run has ended, unless its last commit did.

        Rejections that came after the last batch, or that nothing came at all, are a batch of
        their own. A new index of which no document has been accepted stays without a commit, so
        that it never comes to its place.
        """
        if self.writer.is_making and not self.result.documents:
            return
        if self.result.rejected > self.rejected_before or not self.result.batches:
            self.commit(LastBatch())
        elif not self._has_ended and (add_id := self.add_id) is not None:
            self.writer.run(lambda transaction: transaction.end_add(add_id))
            self._has_ended = True

    def _write(self, transaction: WriteTransaction, items: Sequence[Any]) -> dict[str, int]:
        changes, seen_again, resumed, unchanged = self._classify(transaction, items)
        self._hash_contents(changes)
        digests, parts = self._share_signatures(transaction, changes)
        batch_id = transaction.open_batch(
            started_at=self.started_at, source=self.source, add_id=self.add_id
        )
        self._add_signatures(transaction, digests, parts)
        self._write_documents(transaction, changes, batch_id)
        for seen_at, some in seen_again.items():
            transaction.touch_documents(some, seen_at)
        for seen_at, some in resumed.items():
            transaction.touch_documents(some, seen_at, batch_id=batch_id)
        add_id = self.add_id or batch_id
        if isinstance(items, LastBatch):
            transaction.end_add(add_id)
        else:
            transaction.begin_add(add_id)
        counts = {
            "n_added": sum(change.before is None for change in changes),
            "n_replaced": sum(change.before is not None for change in changes),
            "n_unchanged": unchanged,
            "n_copies": sum(change.is_copy for change in changes),
            "n_rejected": self.result.rejected - self.rejected_before,
        }
        transaction.update_batch(batch_id, {**counts, "finished_at": timestamp()})
        return {**counts, "batch_id": batch_id, "n_resumed": sum(map(len, resumed.values()))}

    def _classify(
        self, transaction: WriteTransaction, items: Sequence[Any]
    ) -> tuple[list[Change], dict[str, list[StoredDocument]], dict[str, list[StoredDocument]], int]:
        """Sort a batch into what is to be written and what is unchanged.

        A document that an unfinished add brought, and that comes in again as it is, belongs to the
        run that brings it again: what ``--since last`` means is then the whole of that input.

        Returns
        -------
        changes : list of Change
        seen_again : dict
            Unchanged documents that came in later than the index knew, by time.
        resumed : dict
            Unchanged documents of unfinished adds, by the time at which they last came in.
        unchanged : int
            How many documents are.
        """
        known = transaction.snapshot.documents_of_keys(item.key for item in items)
        changes: list[Change] = []
        seen_again: dict[str, list[StoredDocument]] = {}
        resumed: dict[str, list[StoredDocument]] = {}
        unfinished = transaction.snapshot.unfinished_batches(but=self.add_id)
        unchanged = 0
        for item in items:
            before = known.get(item.key)
            if self._repeats(item, before):
                continue
            change = self._change(item)
            if before is not None:
                is_same = before.body_hash == change.body_hash or self._is_same(
                    transaction, item, before
                )
                if is_same or self.on_conflict == "skip":
                    unchanged += 1
                    if is_same and before.batch_id in unfinished:
                        seen_at = max(before.last_seen_at, change.last_seen_at)
                        resumed.setdefault(seen_at, []).append(before)
                    elif before.last_seen_at < change.last_seen_at:
                        seen_again.setdefault(change.last_seen_at, []).append(before)
                    continue
                if self.on_conflict == "error":
                    raise ConflictError(
                        f"the key {item.key!r} is in the index already, with another text "
                        f"({item.source or 'no source named'})",
                        key=item.key,
                        hint="use --on-conflict replace or skip; nothing of this batch was written",
                    )
                change.before = before
            changes.append(change)
        return changes, seen_again, resumed, unchanged

    def _share_signatures(
        self, transaction: WriteTransaction, changes: list[Change]
    ) -> tuple[list[bytes], list[NDArray[Any]]]:
        """Give each change the signature that its content has, or will have.

        Returns
        -------
        digests : list of bytes
            Hashes of the contents that need a new signature, in the order of their ids.
        parts : list of ndarray
            Their signature rows, and where those are kept their vectors.
        """
        contents = {change.content_hash: change.content for change in changes}
        there = self._known(transaction, contents)
        fresh = [digest for digest in contents if digest not in there]
        fresh_contents = [contents[digest] for digest in fresh]
        rows, counts = self._sign(fresh_contents)
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
            known = there.get(digest) or new.get(digest)
            change.signature_id, change.n_shingles = known or (None, 0)
            change.content = None
        parts: list[NDArray[Any]] = [rows[filled]]
        if digests and self.params.keeps_vectors:
            parts += [self._vectors([contents[digest] for digest in digests])]
        return digests, parts

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
        self, transaction: WriteTransaction, digests: list[bytes], parts: list[NDArray[Any]]
    ) -> None:
        """Write new signature rows and add their postings."""
        if not digests:
            return
        bands = self.params.bands
        ids = np.arange(len(digests), dtype=np.int64) + transaction.snapshot.n_signatures
        transaction.append_signatures(*parts)
        keys = bucket_keys(parts[0], **self.params.cut)
        of_contents = content_keys(digests)
        self.posted.remember(of_contents)
        transaction.runs.add(
            np.concatenate([keys.reshape(-1), of_contents]),
            np.concatenate([np.repeat(ids, bands), ids]),
        )

    def _write_documents(
        self, transaction: WriteTransaction, changes: list[Change], batch_id: int
    ) -> None:
        next_doc_id = transaction.snapshot.next_doc_id
        inserted: list[tuple[Any, ...]] = []
        replaced: list[tuple[Any, ...]] = []
        doc_ids: list[int] = []
        for change in changes:
            before = change.before
            doc_id = next_doc_id + len(inserted) if before is None else before.doc_id
            row = (
                doc_id,
                change.key,
                change.signature_id,
                change.content_hash,
                change.body_hash,
                change.n_shingles,
                change.n_chars,
                change.source,
                batch_id,
                change.added_at if before is None else before.added_at,
                max(change.last_seen_at, before.last_seen_at if before else ""),
                change.n_unassigned,
            )
            (inserted if before is None else replaced).append(row)
            doc_ids.append(doc_id)
        transaction.insert_documents(inserted)
        transaction.replace_documents(replaced)
        transaction.release_signatures(_left(changes), batch_id)
        if self.params.keeps_texts:
            transaction.put_bodies(
                (
                    (doc_id, change.form, self._packed(change))
                    for doc_id, change in zip(doc_ids, changes, strict=True)
                ),
                replaced=[row[0] for row in replaced],
            )


def _left(changes: list[Change]) -> list[int]:
    """The signature of each replaced document that has another one now."""
    return [
        before.signature_id
        for change in changes
        if (before := change.before) is not None
        and before.signature_id is not None
        and before.signature_id != change.signature_id
    ]
