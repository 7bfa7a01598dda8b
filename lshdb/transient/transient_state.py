"""What questions ask of an index, answered from arrays and temporary files.

All documents came in one after the other, none was replaced and none is removed. So the documents
are numbered from 1, and a signature is never without one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import DamageError, no_document
from lshdb.storage.bands.postings import Postings
from lshdb.storage.orders.frozen import Cover, OrderFolder
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rowfiles.row_file import FileRows
from lshdb.storage.rows.edges import Holders
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, BodyCodec
from lshdb.storage.tables.records import Cursor, StoredDocument
from lshdb.transient.document_names import DocumentNames
from lshdb.transient.document_signatures import DocumentSignatures
from lshdb.transient.spilled import SpilledBytes, SpilledRows
from lshdb.transient.transient_edges import TransientEdges

__all__ = ["DocumentColumns", "TransientState"]

Ids: TypeAlias = NDArray[np.int64]
_TEXTS = 512
_HOLDERS = 2**16
FORMS = ("text", "tokens", "vector")


class DocumentColumns:
    """The documents, as columns in files; row i is of the document with doc_id i + 1.

    Parameters
    ----------
    directory : Path
        Where the files are made.

    Attributes
    ----------
    signatures : DocumentSignatures
    set_sizes : SpilledRows
        Shingles of each signature.
    digests : SpilledRows
        Hash of the content of each signature.
    sizes : SpilledRows
        Characters of each document, and the form of its body, a place in ``FORMS``.
    names : DocumentNames
    bodies : SpilledBytes
        Frames that a codec unpacks; without texts there are none.
    fields : SpilledBytes
        Kept fields as JSON; nothing for a document without any.
    """

    def __init__(self, directory: Path) -> None:
        self.signatures = DocumentSignatures()
        self.set_sizes = SpilledRows(directory, "<i4", 1)
        self.digests = SpilledRows(directory, "|u1", 16)
        self.sizes = SpilledRows(directory, "<i4", 2)
        self.names = DocumentNames(directory)
        self.bodies, self.fields = SpilledBytes(directory), SpilledBytes(directory)

    def __len__(self) -> int:
        return len(self.signatures)

    def close(self) -> None:
        """Remove the files."""
        columns = (self.set_sizes, self.digests, self.sizes, self.names, self.bodies, self.fields)
        for column in columns:
            column.close()


class TransientState:
    """All documents, signatures and postings of an index that lasts for one question.

    Parameters
    ----------
    documents : DocumentColumns
    generation : Generation
        The row files.
    orders : OrderFolder
        Covers all their rows.
    batch_starts : ndarray of int64
        The row at which each batch begins.
    files : mapping of str to range
        The rows of the documents of files in which each record is one.
    added_at : str
    """

    has_signatures = True

    def __init__(
        self,
        documents: DocumentColumns,
        generation: Generation,
        orders: OrderFolder,
        *,
        batch_starts: Ids,
        files: Mapping[str, range],
        added_at: str,
    ) -> None:
        self._documents = documents
        self._signatures = documents.signatures
        self._batch_starts, self._files, self._added_at = batch_starts, files, added_at
        self.generation = generation
        self.n_signatures = documents.signatures.n_signatures
        self.next_doc_id = len(documents) + 1
        self._orders = orders
        self.edges = TransientEdges(self._holders)

    def segments(self, ends: Iterable[int]) -> dict[int, int]:
        """Return a number for each segment, as commits of an index draw them."""
        return dict.fromkeys(ends, 1)

    @functools.cached_property
    def postings(self) -> Postings:
        """Which signature lies in which bucket."""
        return Postings(None, self.n_signatures, cover=lambda sorts: self._cover)

    @functools.cached_property
    def _cover(self) -> Cover:
        cover = self._orders.cover(self)
        if cover is None:
            raise DamageError(f"temporary files fail: {'; '.join(self._orders.faults)}")
        return cover

    @property
    def signatures(self) -> FileRows:
        """The signature rows, for reading."""
        return self.generation.signatures.rows(self.n_signatures)

    @property
    def vectors(self) -> FileRows:
        """The rows of the vector file."""
        return self.generation.vector_file.rows(self.n_signatures)

    def require_signatures(self) -> None:
        """Do nothing: they are here."""

    @contextmanager
    def twins(self, n: int) -> Iterator[list[TransientState]]:
        """Return this state for each of n threads, which may share it."""
        yield [self] * n

    # Queries

    def members(self, keys: bytes | bytearray) -> bytes:
        """Return the signatures in the buckets of one query, native int64 as bytes."""
        return self.postings.members(np.frombuffer(keys, np.int64)).tobytes()

    def members_of(self, keys: Ids) -> Iterator[Ids]:
        """Return for each query the signatures in its buckets, unordered, once per bucket."""
        return self.postings.members_of(keys)

    def agreeing(
        self, keys: Ids, rows: NDArray[Any], *, most: int, least: int
    ) -> tuple[int, Ids] | None:
        """Return which signatures agree with queries in a band and in ``least`` slots."""
        agreeing = functools.partial(self._cover.agreeing, keys, rows, most, least)
        return self.signatures.read_in_place(agreeing, len(keys))

    def document(self, key: str) -> StoredDocument:
        """Return the document of a key; KeyNotFoundError if there is none."""
        document = self.documents_of_keys([key]).get(key)
        if document is None:
            raise no_document(key)
        return document

    # Documents of signatures

    def _holders(self, signature_ids: Ids | None) -> Iterator[Holders]:
        n = self.n_signatures if signature_ids is None else len(signature_ids)
        for start in range(0, n, _HOLDERS):
            stop = min(start + _HOLDERS, n)
            ids = np.arange(start, stop) if signature_ids is None else signature_ids[start:stop]
            yield Holders(ids, self._signatures.first_rows(ids) + 1, self._signatures.counts(ids))

    def document_columns(self, signature_ids: Sequence[int]) -> tuple[Ids, Ids, Ids, list[str]]:
        """Return every document with one of some sorted signatures, as columns."""
        rows = self._signatures.rows_of(np.array(signature_ids, dtype=np.int64))
        keys = self._documents.names.keys_of(rows)
        return self._signatures.of(rows), rows + 1, self._batches(rows), keys

    def documents_of_signatures(
        self, signature_ids: Iterable[int]
    ) -> dict[int, list[tuple[int, str, int]]]:
        """Return (doc_id, key, batch_id) of each document with one of the signatures."""
        documents: dict[int, list[tuple[int, str, int]]] = {}
        ids, doc_ids, batches, keys = self.document_columns(sorted(set(signature_ids)))
        rows = zip(ids.tolist(), doc_ids.tolist(), keys, batches.tolist(), strict=True)
        for signature_id, *document in rows:
            documents.setdefault(signature_id, []).append(tuple(document))
        return documents

    def documents_and_texts(
        self, signature_ids: list[int]
    ) -> tuple[dict[int, list[tuple[int, str, int]]], dict[int, Any]]:
        """Return documents alone: no text comes with them."""
        return self.documents_of_signatures(signature_ids), {}

    def copies(self, among: Ids | None = None) -> Iterator[tuple[int, int, str, int]]:
        """Yield (signature_id, doc_id, key, batch_id) of documents that share signatures."""
        shared, _ = self._signatures.shared()
        if among is not None:
            shared = np.intersect1d(shared, among)
        for start in range(0, len(shared), _TEXTS):
            ids, doc_ids, batches, keys = self.document_columns(
                shared[start : start + _TEXTS].tolist()
            )
            yield from zip(ids.tolist(), doc_ids.tolist(), keys, batches.tolist(), strict=True)

    def shared_signatures(self) -> Iterator[int]:
        """Return the signatures that more than one document has."""
        return iter(self._signatures.shared()[0].tolist())

    def copy_counts(self) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of documents) of signatures with several documents."""
        return self._signatures.shared()

    def copied_between(self, first: int, last: int) -> list[int]:
        """Return the signatures from first to last that more than one document has."""
        shared, _ = self._signatures.shared()
        start, stop = np.searchsorted(shared, [first, last + 1]).tolist()
        return [*shared[start:stop].tolist()]

    def set_sizes(self) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of shingles) of all signatures."""
        sizes = self._documents.set_sizes.between(0, self.n_signatures)
        return np.arange(self.n_signatures), sizes[:, 0].astype(np.int64)

    def mean_length(self, signature_ids: Ids) -> float:
        """Return the average number of characters in a document of some signatures."""
        n_chars, _ = self._sizes(self._signatures.rows_of(signature_ids))
        return float(n_chars.mean()) if len(n_chars) else 0.0

    # Documents

    def _sizes(self, rows: Ids) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the lengths of documents, and the forms of their bodies."""
        n_chars, forms = self._documents.sizes.take(rows).T
        return n_chars, forms

    def _n_shingles(self, signature_ids: Ids) -> Ids:
        """Return the set sizes of signatures; 0 for -1."""
        sizes = np.zeros(len(signature_ids), dtype=np.int64)
        is_signed = signature_ids >= 0
        sizes[is_signed] = self._documents.set_sizes.take(signature_ids[is_signed])[:, 0]
        return sizes

    def _batches(self, rows: Ids) -> Ids:
        return np.searchsorted(self._batch_starts, rows, side="right")

    def document_keys(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key) of every document, in order."""
        return enumerate(self._documents.names.keys(), 1)

    def documents_of_file(self, name: str) -> range | None:
        """Return the doc_ids of a file's documents, if each of its records is one."""
        rows = self._files.get(name)
        return None if rows is None else range(rows.start + 1, rows.stop + 1)

    def document_signatures(self) -> Iterator[tuple[int, int, int]]:
        """Yield (doc_id, signature_id, batch_id) of documents with a signature, in order."""
        for start in range(0, len(self._documents), _HOLDERS):
            rows = np.arange(start, min(start + _HOLDERS, len(self._documents)))
            ids = self._signatures.of(rows)
            rows, ids = rows[ids >= 0], ids[ids >= 0]
            batches = self._batches(rows).tolist()
            yield from zip((rows + 1).tolist(), ids.tolist(), batches, strict=True)

    def signatures_of_keys(self, keys: Iterable[str]) -> dict[str, int]:
        """Return signatures by key, for keys that exist and have one."""
        documents = self.documents_of_keys(keys)
        return {
            key: document.signature_id
            for key, document in documents.items()
            if document.signature_id is not None
        }

    def keys_of(self, doc_ids: Ids) -> dict[int, str]:
        """Return keys by doc_id."""
        return dict(zip(doc_ids.tolist(), self._documents.names.keys_of(doc_ids - 1), strict=True))

    def values_of(self, doc_ids: Ids, column: str) -> list[object]:
        """Return a column of the documents, in their order."""
        rows = doc_ids - 1
        if column == "n_chars":
            return list(self._sizes(rows)[0].tolist())
        if column == "n_shingles":
            return list(self._n_shingles(self._signatures.of(rows)).tolist())
        if column == "batch_id":
            return list(self._batches(rows).tolist())
        if column in ("added_at", "last_seen_at"):
            return [self._added_at] * len(rows)
        place = ("key", "source").index(column)
        return [name[place] for name in self._documents.names.take(rows)]

    def documents_of_keys(self, keys: Iterable[str]) -> dict[str, StoredDocument]:
        """Return documents by key, for the keys that exist."""
        keys = list(keys)
        rows = self._documents.names.rows_of(keys)
        keys, rows = [keys[at] for at in np.flatnonzero(rows >= 0).tolist()], rows[rows >= 0]
        ids = self._signatures.of(rows)
        columns = (rows + 1, ids, self._n_shingles(ids), self._sizes(rows)[0])
        added_at = self._added_at
        return {
            key: StoredDocument(
                doc_id, key, None if signature < 0 else signature, b"", b"",
                n_shingles, n_chars, "", 0, added_at, added_at, 0,
            )
            for key, doc_id, signature, n_shingles, n_chars in zip(
                keys, *(column.tolist() for column in columns), strict=True
            )
        }  # fmt: skip

    # Fields

    def fields_of(self, doc_ids: Iterable[int]) -> dict[int, str]:
        """Return kept fields by doc_id, as JSON objects, for the documents that have some."""
        rows = np.sort(np.fromiter(doc_ids, dtype=np.int64)) - 1
        values = self._documents.fields.take(rows)
        return {
            row + 1: fields.decode()
            for row, fields in zip(rows.tolist(), values, strict=True)
            if fields
        }

    def has_fields(self) -> bool:
        """Return whether any document has kept fields."""
        return self._documents.fields.n_bytes > 0

    def has_field(self, name: str) -> bool:
        """Return whether any document has that kept field."""
        return any(name in fields for fields in self._all_fields())

    def field_names(self, most: int) -> list[str]:
        """Return the names of kept fields, up to so many."""
        names: set[str] = set()
        for fields in self._all_fields():
            names.update(fields)
        return sorted(names)[:most]

    def _all_fields(self) -> Iterator[dict[str, Any]]:
        values = itertools.chain.from_iterable(self._documents.fields.blocks())
        return (orjson.loads(fields) for fields in values if fields)

    # Texts

    def packed_bodies_of_signatures(
        self, signature_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[list[tuple[int, int, str, bytes]]]:
        """Yield lists of (signature_id, doc_id, form, packed), of one document for each.

        A list has a megabyte, or one text.
        """
        for start in range(0, len(signature_ids), _TEXTS):
            ids = np.sort(np.array(signature_ids[start : start + _TEXTS], dtype=np.int64))
            rows = self._signatures.first_rows(ids)
            forms = self._sizes(rows)[1]
            for part, frames in self._documents.bodies.take_blocks(rows):
                yield [
                    (signature_id, row + 1, FORMS[form], frame)
                    for signature_id, row, form, frame in zip(
                        ids[part].tolist(), rows[part].tolist(), forms[part].tolist(), frames,
                        strict=True,
                    )
                ]  # fmt: skip

    def bodies_of_signatures(
        self, signature_ids: Sequence[int], documents: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield one body for each signature: (signature_id, body)."""
        for rows in self.packed_bodies_of_signatures(signature_ids, n_bytes=0):
            for signature_id, doc_id, form, frame in rows:
                n_chars = self.n_chars_of(doc_id)
                yield signature_id, WITHOUT_DICTIONARY.unpack(form, frame, n_chars=n_chars)

    def bodies_of_documents(self, doc_ids: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yield (doc_id, text or tokens) of some documents."""
        for part, bodies in self.bodies_in_groups(list(doc_ids), n_bytes=0):
            yield from zip(part, bodies, strict=True)

    def bodies_in_groups(
        self, doc_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield the doc_ids and the texts or tokens of documents, a megabyte at a time."""
        for start in range(0, len(doc_ids), _TEXTS):
            rows = np.sort(np.array(doc_ids[start : start + _TEXTS], dtype=np.int64)) - 1
            n_chars, forms = self._sizes(rows)
            for part, frames in self._documents.bodies.take_blocks(rows):
                bodies = [
                    WITHOUT_DICTIONARY.unpack(FORMS[form], frame, n_chars=n)
                    for form, n, frame in zip(
                        forms[part].tolist(), n_chars[part].tolist(), frames, strict=True
                    )
                ]
                yield (rows[part] + 1).tolist(), bodies

    def n_chars_of(self, doc_id: int) -> int:
        """Return the length of a document."""
        return int(self._sizes(np.array([doc_id - 1]))[0][0])

    def codec_for(self, frames: Iterable[bytes]) -> BodyCodec:
        """Return what unpacks frames."""
        return WITHOUT_DICTIONARY

    # Batches

    def newest_batch(self) -> int:
        """Return the number of the newest batch."""
        return len(self._batch_starts)

    def last_batch(self) -> None:
        """Return None: batches have no rows of their own."""
        return

    def last_add(self) -> int:
        """Return the first batch: all came in one add."""
        return 1

    def batch_from(self, moment: str, now: str) -> int:
        """Return the first batch, unless it began before that time; then one past the newest."""
        return 1 if moment <= self._added_at else self.newest_batch() + 1

    def cursors(self) -> list[Cursor]:
        """Return all cursors: none."""
        return []

    def _new(self, since: int) -> Ids:
        """Return the signature of each document of a batch or later that has one."""
        starts = np.append(self._batch_starts, len(self._documents))
        rows = np.arange(int(starts[min(since, len(starts)) - 1]), len(self._documents))
        signature_ids = self._signatures.of(rows)
        return signature_ids[signature_ids >= 0]

    def new_signatures(self, since: int) -> Ids:
        """Return the signatures of documents of batch ``since`` or later, sorted."""
        return distinct(self._new(since))

    def new_counts(self, since: int) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of documents) of documents of batch ``since`` or later."""
        ids, counts = np.unique(self._new(since), return_counts=True)
        return ids, counts
