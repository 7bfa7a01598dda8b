"""Build a new index from everything in a damaged one that can be proved, batch by batch.

Rows of the table ``batch`` that are proved are kept; others are worked out (:class:`History`).
Documents that are not proved go into a file (:class:`Quarantine`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.files.descriptors import sync_directory, sync_file
from lshdb.files.rights import create_file
from lshdb.maintain.repair.evidence import Evidence, KeptFields, Text, sound_rows
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import counting
from lshdb.signatures.banding import bucket_keys
from lshdb.signatures.family import Family
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rows.salvage import keys_by_index, proved_rows, salvaged
from lshdb.storage.tables.bodies import plain_tokens, plain_vector
from lshdb.storage.tables.records import (
    BATCH_COLUMNS,
    DOCUMENT_COLUMNS,
    StoredDocument,
    is_document,
    row_checksum,
    timestamp,
    with_checksums,
)
from lshdb.storage.transactions.changes import WriteTransaction, load_batches
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import collector_paused

__all__ = [
    "History",
    "Quarantine",
    "Rebuild",
]

_BATCH_COLUMNS = BATCH_COLUMNS.split(", ")
_MOST_BATCHES = 10**7
"""An add a minute comes to it in 19 years. A greater number is none that lshdb wrote."""


@dataclass(slots=True)
class _Usage:
    """What its documents prove about a batch: their number and the time of the first."""

    documents: int
    seen_at: str


class History:
    """The proved batches, and what documents prove about the others.

    Attributes
    ----------
    rebuilt : list of int
        Batches whose row had to be worked out.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._usage: dict[int, _Usage] = {}
        for row in salvaged(snapshot.session, "batch", *_BATCH_COLUMNS):
            if row_checksum(row[:-1]) == row[-1] and _may_be_batch(row[0]):
                self._rows[row[0]] = row[:-1]
        self._unfinished = [
            row[0] for row in salvaged(snapshot.session, "unfinished_add", "add_id")
        ]
        self.rebuilt: list[int] = []

    def unfinished_adds(self) -> list[int]:
        """Return the adds that did not end, among those that the new index will have."""
        return [add_id for add_id in self._unfinished if self.has(add_id)]

    def count(self, batch_id: int, seen_at: str) -> None:
        """Take note of a proved document of a batch; an empty time is that of the batch."""
        usage = self._usage.get(batch_id)
        if usage is None:
            self._usage[batch_id] = _Usage(1, seen_at)
        else:
            usage.documents += 1
            usage.seen_at = min(usage.seen_at, seen_at)

    def rows(self, unicode_version: str) -> Iterator[tuple[Any, ...]]:
        """Yield the known batches in order: those with a row, and those of a document or an add.

        A number says nothing of those before it: it can be a stranger's.
        """
        add_id = _BATCH_COLUMNS.index("add_id")
        adds = (row[add_id] for row in self._rows.values())
        started_at = ""
        for batch_id in sorted({*self._rows, *self._usage, *filter(_may_be_batch, adds)}):
            row = self._rows.get(batch_id)
            if row is None:
                row = self._worked_out(batch_id, started_at, unicode_version)
                self._rows[batch_id] = row
                self.rebuilt.append(batch_id)
            started_at = row[_BATCH_COLUMNS.index("started_at")]
            yield row

    def _worked_out(
        self, batch_id: int, started_before: str, unicode_version: str
    ) -> tuple[Any, ...]:
        """Return a batch as a separate add, from the documents that have it."""
        usage = self._usage.get(batch_id, _Usage(0, ""))
        started_at = max(usage.seen_at, started_before) or self._first_start()
        values = {
            **dict.fromkeys(_BATCH_COLUMNS[:-1], 0),
            "batch_id": batch_id,
            "add_id": batch_id,
            "started_at": started_at,
            "finished_at": started_at,
            "source": "",
            "n_added": usage.documents,
            "unicode_version": unicode_version,
        }
        return tuple(values[name] for name in _BATCH_COLUMNS[:-1])

    def _first_start(self) -> str:
        """Return when the first proved batch began; without any, the time now."""
        place = _BATCH_COLUMNS.index("started_at")
        return min((row[place] for row in self._rows.values()), default=timestamp())

    def has(self, batch_id: object) -> bool:
        """Return whether there will be a batch of that number."""
        return batch_id in self._rows

    def balance(self, transaction: WriteTransaction, *, proved: int, lost: int) -> int:
        """Make the counts of batches add up to the documents of the new index.

        A batch that was worked out takes what is missing; lost documents become a removal.

        Returns
        -------
        int
            How many documents more were lost than ``lost`` says, where all batches are proved.
        """
        added, removed = (_BATCH_COLUMNS.index(name) for name in ("n_added", "n_removed"))
        counted = sum(row[added] - row[removed] for row in self._rows.values())
        if self.rebuilt:
            last = self.rebuilt[-1]
            more = self._rows[last][added] + proved + lost - counted
            transaction.update_batch(last, {"n_added": max(more, 0), "n_removed": max(-more, 0)})
            unknown = 0
        else:
            unknown = counted - proved - lost
            lost = counted - proved
        if lost:
            batch_id = transaction.open_batch(started_at=timestamp(), source="check --repair")
            counts = {"n_removed": max(lost, 0), "n_added": max(-lost, 0)}
            transaction.update_batch(batch_id, {**counts, "finished_at": timestamp()})
        return unknown


_DOCUMENTS = 10_000
_CHARACTERS = 32 * 2**20
_DOCUMENT_COLUMNS = DOCUMENT_COLUMNS.split(", ")

Row = tuple[Any, ...]


class Rebuild:
    """One rebuilding.

    Parameters
    ----------
    snapshot : Snapshot
        State of the damaged index.
    generation : Generation
        Row files of the damaged index; some may be missing.
    quarantine : Quarantine
        Takes what is not proved.
    workers : int
        Threads that sign.

    Attributes
    ----------
    documents : int
        Number of documents put into the new index.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        params: IndexParams,
        family: Family,
        generation: Generation,
        quarantine: Quarantine,
        workers: int,
    ) -> None:
        self._snapshot = snapshot
        self._params = params
        self._file = generation.signatures
        self._quarantine = quarantine
        self._what = "vector" if params.kind.is_dense else "text"
        self.evidence = Evidence(snapshot, params, family, generation, workers)
        self.history = History(snapshot)
        self.documents = 0
        self._sound = sound_rows(snapshot.session, self._file)
        self._new_ids = np.full(len(self._sound), -1, dtype=np.int64)
        self._new_ids_past: dict[int, int] = {}
        """Of signatures past the end of the file, which are as many as documents name."""
        self._keys: dict[int, str] = {}
        """Keys by doc_id, from the index of keys, for documents whose row is not proved."""
        self._fields: dict[int, KeptFields] = {}
        """Kept fields by doc_id of the documents that are being taken."""
        self._without_row: set[int] = set()
        """Doc_ids of texts and kept fields for which no row of a document can be read."""
        self._last_doc_id = self._n_surveyed = 0

    def build(self, writer: Writer, *, next_doc_id: int) -> None:
        """Fill an empty index.

        Parameters
        ----------
        writer : Writer
            Writer of the empty index.
        next_doc_id : int
            The least next doc_id: that of the old index, if it is proved.
        """
        self._survey()
        with writer.transaction() as transaction:
            version = str(transaction.snapshot.identity()["unicode_version"])
            load_batches(transaction, self.history.rows(version))
            for add_id in self.history.unfinished_adds():
                transaction.begin_add(add_id)
            for add_id, name in proved_rows(self._snapshot.session, "night", "add_id", "name"):
                if self.history.has(add_id):
                    transaction.name_night(add_id, name)
            cursor = ("name", "batch_id", "advanced_at")
            for name, batch_id, at in proved_rows(self._snapshot.session, "cursor", *cursor):
                transaction.set_cursor(name, batch_id, at)
        for rows in counting(self._chunks(), "documents", self._n_surveyed, len):
            with collector_paused(), writer.transaction() as transaction:
                self._take(transaction, rows)
        self._take_out_the_rest()
        with writer.transaction() as transaction:
            lost = len(self._quarantine.keys)
            unknown = self.history.balance(transaction, proved=self.documents, lost=lost)
            if unknown > 0:
                reason = f"documents of which only batches tell, that count them: {unknown}"
                self._quarantine.put(None, reason)
            transaction.number_documents_from(max(next_doc_id, self._last_doc_id + 1))
        writer.tidy()

    def _survey(self) -> None:
        """Read all rows of documents: which batches they have, and which are not proved."""
        proved, met = [], []
        rows = salvaged(self._snapshot.session, "document", *_DOCUMENT_COLUMNS)
        for self._n_surveyed, row in enumerate(rows, start=1):
            met.append(row[0])
            if _is_proved(row):
                document = StoredDocument(*row[:-1])
                self.history.count(document.batch_id, document.last_seen_at or "")
                proved.append(document.doc_id)
        proved_ids = np.array(proved, dtype=np.int64)
        for doc_id, key in keys_by_index(self._snapshot.session):
            place = int(np.searchsorted(proved_ids, doc_id))
            if place == len(proved_ids) or proved_ids[place] != doc_id:
                self._keys[doc_id] = key
        for table in ("content", "kept_field"):
            doc_ids = (doc_id for (doc_id,) in salvaged(self._snapshot.session, table, "doc_id"))
            self._without_row.update(np.setdiff1d(np.fromiter(doc_ids, np.int64), met).tolist())
        self._last_doc_id = max(proved, default=0)

    def _chunks(self) -> Iterator[list[Row]]:
        """Yield rows of documents, as found, in batches whose texts fit in memory."""
        chunk: list[Row] = []
        size = 0
        place = _DOCUMENT_COLUMNS.index("n_chars")
        for row in salvaged(self._snapshot.session, "document", *_DOCUMENT_COLUMNS):
            chunk.append(row)
            size += row[place] if type(row[place]) is int else 0
            if len(chunk) >= _DOCUMENTS or size >= _CHARACTERS:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _take(self, transaction: WriteTransaction, rows: list[Row]) -> None:
        """Write the documents of a batch that are proved."""
        if self._params.keeps_vectors:
            texts = self.evidence.vectors(rows)
        else:
            texts = self.evidence.texts([row[0] for row in rows])
        self._fields = self.evidence.fields([row[0] for row in rows])
        documents = [
            document
            for row in rows
            if (document := self._document(row, texts.get(row[0]))) is not None
        ]
        if self._params.store_text:
            documents = [document for document in documents if self._has_text(document, texts)]
        documents = self._with_signatures(transaction, documents, texts)
        if documents:
            kept_rows = (
                (document.doc_id, document.key, self._new_id(document), *document.values()[3:])
                for document in documents
            )
            transaction.insert_documents(list(zip(*with_checksums(kept_rows), strict=True)))
        if documents and self._params.keeps_texts:
            proved = [texts[document.doc_id] for document in documents]
            transaction.put_bodies(
                (
                    [document.doc_id for document in documents],
                    [text.form for text in proved],
                    transaction.fit_bodies(
                        [text.packed for text in proved],
                        [document.n_chars for document in documents],
                        self.evidence.codec,
                    ),
                )
            )
        transaction.put_fields(list(self._proved_fields(documents)))
        self.documents += len(documents)
        self._last_doc_id = max(self._last_doc_id, *(document.doc_id for document in documents), 0)

    def _proved_fields(self, documents: list[StoredDocument]) -> Iterator[tuple[int, Any]]:
        """Yield (doc_id, kept fields) of documents; those that are not proved go into the file."""
        for document in documents:
            kept = self._fields.get(document.doc_id)
            if kept is not None and kept.is_proved:
                yield document.doc_id, kept.fields
            elif kept is not None:
                self._quarantine.write(
                    document.key, "its kept fields are not what was written", **_shown_fields(kept)
                )

    def _document(self, row: Row, text: Text | None) -> StoredDocument | None:
        """Return the row of a document if it is proved; otherwise quarantine the document."""
        if _is_proved(row):
            return StoredDocument(*row[:-1])
        doc_id, values, checksum = row[0], row[:-1], row[-1]
        document = self.evidence.proved(values, checksum, self._keys.get(doc_id), text)
        if (
            document is not None
            and is_document(document.values())
            and self.history.has(document.batch_id)
        ):
            self._keys.pop(doc_id, None)
            return document
        columns = dict(zip(_DOCUMENT_COLUMNS, row, strict=True))
        key = self._keys.pop(doc_id, None) or columns["key"]
        is_proved = text is not None and text.body_hash == columns["body_hash"]
        self._quarantine.put(
            key if isinstance(key, str) else None,
            "its row in the table document is not what was written",
            **self._shown(text, is_proved=is_proved),
            **_shown_fields(self._fields.get(doc_id)),
            row=columns,
        )
        return None

    def _has_text(self, document: StoredDocument, texts: dict[int, Text]) -> bool:
        """Return whether a text or vector is there, or in a copy; else take the document out."""
        text = texts.get(document.doc_id)
        if text is not None and text.body_hash == document.body_hash:
            return True
        copy = self.evidence.text_of_copy(document)
        if copy is not None:
            texts[document.doc_id] = copy
            return True
        reason = f"its {self._what} is {'missing' if text is None else 'not the one written'}"
        self._put_out(document, reason, text, is_proved=False)
        return False

    def _put_out(
        self, document: StoredDocument, reason: str, text: Text | None, *, is_proved: bool
    ) -> None:
        row = dict(zip(_DOCUMENT_COLUMNS[:-1], document.values(), strict=True))
        self._quarantine.put(
            document.key,
            reason,
            **self._shown(text, is_proved=is_proved),
            **_shown_fields(self._fields.get(document.doc_id)),
            row=row,
        )

    def _shown(self, text: Text | None, *, is_proved: bool) -> dict[str, Any]:
        """Return the quarantine's field for a text or a vector, if there is one."""
        if text is None:
            return {}
        body = plain_tokens(text.body)
        if self._params.kind.is_dense:
            body = plain_vector(body, is_bits=self._params.kind.body == "bits")
        return {self._what if is_proved else f"unproved_{self._what}": body}

    def _new_id(self, document: StoredDocument) -> int | None:
        """Return a document's signature id in the new index; None if it is not there yet."""
        old = document.signature_id
        if old is None or not 0 <= old < len(self._new_ids):
            return self._new_ids_past.get(old) if old is not None else None
        new = int(self._new_ids[old])
        return new if new >= 0 else None

    def _with_signatures(
        self,
        transaction: WriteTransaction,
        documents: list[StoredDocument],
        texts: dict[int, Text],
    ) -> list[StoredDocument]:
        """Write new signatures; return the documents that have one or need none.

        Documents with one content have one signature, as before.
        """
        firsts: dict[int, StoredDocument] = {}
        for document in documents:
            if document.signature_id is not None and self._new_id(document) is None:
                firsts.setdefault(document.signature_id, document)
        sound = [old for old in firsts if 0 <= old < len(self._sound) and self._sound[old]]
        damaged = firsts.keys() - set(sound)
        rows = self.evidence.signatures(
            [document for old, document in firsts.items() if old in damaged], texts
        )
        if sound:
            rows.update(zip(sound, self._file.take(np.array(sound, dtype=np.int64)), strict=True))
        self._write_signatures(transaction, rows, firsts, texts)
        signed = []
        for document in documents:
            if document.signature_id is None or self._new_id(document) is not None:
                signed.append(document)
            else:
                text = texts.get(document.doc_id)
                self._put_out(document, "its signature is damaged", text, is_proved=True)
        return signed

    def _write_signatures(
        self,
        transaction: WriteTransaction,
        rows: dict[int, NDArray[np.uint16]],
        firsts: dict[int, StoredDocument],
        texts: dict[int, Text],
    ) -> None:
        """Append rows in the order of their documents, and their postings."""
        olds = [old for old in firsts if old in rows]
        if not olds:
            return
        first = transaction.snapshot.n_signatures
        for new, old in enumerate(olds, start=first):
            if 0 <= old < len(self._new_ids):
                self._new_ids[old] = new
            else:  # the file was cut, or the number is none that lshdb wrote
                self._new_ids_past[old] = new
        stacked = np.stack([rows[old] for old in olds]).astype(np.uint16)
        parts = [stacked]
        if self._params.keeps_vectors:
            parts.append(np.stack([texts[firsts[old].doc_id].body for old in olds]))
        transaction.append_signatures(*parts)
        transaction.bands.append(first, bucket_keys(stacked, **self._params.cut))

    def _take_out_the_rest(self) -> None:
        """Quarantine what remains where no row can be read: keys, texts and kept fields."""
        for doc_id in sorted(self._without_row.union(self._keys)):
            key = self._keys.get(doc_id)
            text = self.evidence.texts([doc_id]).get(doc_id)
            remains = {
                **self._shown(text, is_proved=False),
                **_shown_fields(self.evidence.fields([doc_id]).get(doc_id)),
            }
            if key is None:  # their number may be damaged, which is no document lost
                if remains:
                    reason = "no document has this number"
                    self._quarantine.write(None, reason, **remains, doc_id=doc_id)
            else:
                reason = "its row in the table document cannot be read"
                self._quarantine.put(key, reason, **remains, doc_id=doc_id)
                self._last_doc_id = max(self._last_doc_id, doc_id)


def _shown_fields(kept: KeptFields | None) -> dict[str, Any]:
    """Return the quarantine's field for kept fields, if there are any."""
    if kept is None:
        return {}
    if kept.is_proved:
        with contextlib.suppress(ValueError):
            return {"fields": orjson.loads(kept.fields)}
    return {"unproved_fields": kept.fields}


def _is_proved(row: Row) -> bool:
    *values, checksum = row
    return (
        row_checksum(values) == checksum
        and is_document(values)
        and _may_be_batch(values[_DOCUMENT_COLUMNS.index("batch_id")])
    )


def _may_be_batch(number: object) -> bool:
    return type(number) is int and 0 < number <= _MOST_BATCHES


class Quarantine:
    """The file beside the index with documents that could not be kept.

    JSON Lines, made when the first is written. A line has ``id`` and, if it is proved, ``text`` or
    ``vector``: fields of ``lshdb add``, which puts such a document back. ``reason`` says why it is
    out; ``unproved_text``, ``unproved_vector`` and ``row`` are what was found of the rest, as it
    was found. A context manager that removes the file if an error keeps the documents where
    they are.

    Parameters
    ----------
    index : Path
        The file is ``<index>.quarantine-<time>.jsonl``, in the same folder.

    Attributes
    ----------
    keys : list of str
        Keys of the documents in it; ``?`` for an unknown key.
    path : Path or None
        None while there are none.
    """

    def __init__(self, index: Path) -> None:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self._index = index
        self._place = index.with_name(f"{index.name}.quarantine-{now}.jsonl")
        self._file: IO[bytes] | None = None
        self.keys: list[str] = []
        self.path: Path | None = None
        self._is_kept = False

    def __enter__(self) -> Quarantine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
        # An interrupt may have come after the commit that took them out.
        is_needed = self._is_kept and not isinstance(error, Exception)
        if self.path is not None and kind is not None and not is_needed:
            self.path.unlink(missing_ok=True)

    def put(self, key: str | None, reason: str, **facts: Any) -> None:
        """Write one document.

        Parameters
        ----------
        reason : str
            Why it is out.
        **facts
            As for :meth:`write`.
        """
        self.write(key, reason, **facts)
        self.keys.append(key if key is not None else "?")

    def write(self, key: str | None, reason: str, **facts: Any) -> None:
        """Write what is lost of a document that stays in the index, or of none.

        Parameters
        ----------
        reason : str
            Why it is lost.
        **facts
            More fields; bytes are written as hexadecimal digits, None is left out.
        """
        if self._file is None:
            descriptor = create_file(self._place, model=self._index)
            self._file, self.path = open(descriptor, "wb"), self._place  # noqa: SIM115
        fields = {name: value for name, value in facts.items() if value is not None}
        record = {"id": key, **fields, "reason": reason}
        self._file.write(orjson.dumps(record, default=_as_text) + b"\n")

    def keep(self) -> None:
        """Make the file durable: its documents are about to leave the index."""
        self._is_kept = True
        if self._file is not None:
            self._file.flush()
            sync_file(self._file.fileno())
            sync_directory(self._place.parent)


def _as_text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)
