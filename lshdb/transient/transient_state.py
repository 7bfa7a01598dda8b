"""What questions ask of an index, answered from arrays and temporary files.

All documents came in one after the other, none was replaced and none is removed. So the documents
are numbered from 1, and a signature is never without one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import DamageError
from lshdb.storage.bands.postings import Postings
from lshdb.storage.orders.frozen import OrderFolder
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.rowfiles.row_file import FileRows
from lshdb.storage.rows.edges import Holders
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, BodyCodec
from lshdb.storage.tables.records import Cursor, StoredDocument
from lshdb.transient.document_names import DocumentNames
from lshdb.transient.spilled import SpilledBytes
from lshdb.transient.transient_edges import TransientEdges

__all__ = ["DocumentColumns", "TransientState"]

Ids: TypeAlias = NDArray[np.int64]
_TEXTS = 512
FORMS = ("text", "tokens", "vector")


@dataclass(frozen=True, slots=True)
class DocumentColumns:
    """The documents, as columns; row i is of the document with doc_id i + 1.

    Attributes
    ----------
    signature_ids : ndarray of int64, shape (n,)
        -1 for a document without shingles.
    set_sizes : ndarray of int32, shape (n_signatures + 1,)
        Shingles of each signature; 0 at the end, for documents without one.
    n_chars : ndarray of int32, shape (n,)
    forms : ndarray of uint8, shape (n,)
        Places in ``FORMS``.
    batch_starts : ndarray of int64
        The row at which each batch begins.
    names : DocumentNames
    bodies : SpilledBytes
        Frames that a codec unpacks; without texts there are none.
    fields : dict of int to bytes
        Kept fields by doc_id, as JSON.
    files : mapping of str to range
        The rows of the documents of files in which each record is one.
    added_at : str
    """

    signature_ids: Ids
    set_sizes: NDArray[np.int32]
    n_chars: NDArray[np.int32]
    forms: NDArray[np.uint8]
    batch_starts: Ids
    names: DocumentNames
    bodies: SpilledBytes
    fields: Mapping[int, bytes]
    files: Mapping[str, range]
    added_at: str

    def __len__(self) -> int:
        return len(self.signature_ids)


class TransientState:
    """All documents, signatures and postings of an index that lasts for one question.

    Parameters
    ----------
    documents : DocumentColumns
    generation : Generation
        The row files.
    orders : OrderFolder
        Covers all their rows.
    n_signatures : int
    """

    has_signatures = True

    def __init__(
        self,
        documents: DocumentColumns,
        generation: Generation,
        orders: OrderFolder,
        n_signatures: int,
    ) -> None:
        self._documents = documents
        self.generation = generation
        self.n_signatures = n_signatures
        self.next_doc_id = len(documents) + 1
        self._orders = orders
        self.edges = TransientEdges(self._holders)

    def segments(self, ends: Iterable[int]) -> dict[int, int]:
        """Return a number for each segment, as commits of an index draw them."""
        return dict.fromkeys(ends, 1)

    @functools.cached_property
    def postings(self) -> Postings:
        """Which signature lies in which bucket."""
        cover = self._orders.cover(self)
        if cover is None:
            raise DamageError(f"temporary files fail: {'; '.join(self._orders.faults)}")

        return Postings(None, self.n_signatures, cover=cover)

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

    # Documents of signatures

    @functools.cached_property
    def _by_signature(self) -> tuple[Ids, Ids]:
        """Rows of the documents with a signature in its order, and these signatures."""
        rows = np.argsort(self._documents.signature_ids, kind="stable")
        signature_ids = self._documents.signature_ids[rows]
        first = int(np.searchsorted(signature_ids, 0))
        return rows[first:], signature_ids[first:]

    @functools.cached_property
    def _counts(self) -> Ids:
        """How many documents have each signature."""
        _, signature_ids = self._by_signature
        return np.bincount(signature_ids, minlength=self.n_signatures)

    def _rows_of(self, signature_ids: Ids) -> Ids:
        """Return the rows of the documents with some sorted, distinct signatures."""
        rows, signatures = self._by_signature
        starts = np.searchsorted(signatures, signature_ids, side="left")
        counts = np.searchsorted(signatures, signature_ids, side="right") - starts
        before = np.cumsum(counts) - counts
        return rows[np.repeat(starts - before, counts) + np.arange(int(counts.sum()))]

    def _holders(self, signature_ids: Ids | None) -> Holders:
        rows, signatures = self._by_signature
        is_first = np.diff(signatures, prepend=-1) > 0
        distinct_ids, first = signatures[is_first], rows[is_first] + 1
        counts = self._counts[distinct_ids]
        if signature_ids is None:
            return Holders(distinct_ids, first, counts)
        places = np.searchsorted(distinct_ids, signature_ids)
        return Holders(signature_ids, first[places], counts[places])

    def document_columns(self, signature_ids: Sequence[int]) -> tuple[Ids, Ids, Ids, list[str]]:
        """Return every document with one of some sorted signatures, as columns."""
        rows = self._rows_of(np.array(signature_ids, dtype=np.int64))
        keys = self._documents.names.keys_of(rows)
        return self._documents.signature_ids[rows], rows + 1, self._batches(rows), keys

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

    def copies(self, among: Ids | None = None) -> Iterator[tuple[int, int, str, int]]:
        """Yield (signature_id, doc_id, key, batch_id) of documents that share signatures."""
        shared = np.flatnonzero(self._counts > 1)
        if among is not None:
            shared = np.intersect1d(shared, among)
        for start in range(0, len(shared), _TEXTS):
            ids, doc_ids, batches, keys = self.document_columns(
                shared[start : start + _TEXTS].tolist()
            )
            yield from zip(ids.tolist(), doc_ids.tolist(), keys, batches.tolist(), strict=True)

    def shared_signatures(self) -> Iterator[int]:
        """Return the signatures that more than one document has."""
        return iter(np.flatnonzero(self._counts > 1).tolist())

    def copy_counts(self) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of documents) of signatures with several documents."""
        shared = np.flatnonzero(self._counts > 1)
        return shared, self._counts[shared]

    def copied_between(self, first: int, last: int) -> list[int]:
        """Return the signatures from first to last that more than one document has."""
        return (np.flatnonzero(self._counts[first : last + 1] > 1) + first).tolist()

    def set_sizes(self) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of shingles) of all signatures."""
        return np.arange(self.n_signatures), self._documents.set_sizes[:-1].astype(np.int64)

    def mean_length(self, signature_ids: Ids) -> float:
        """Return the average number of characters in a document of some signatures."""
        rows = self._rows_of(signature_ids)
        return float(self._documents.n_chars[rows].mean()) if len(rows) else 0.0

    # Documents

    def _n_shingles(self, rows: Ids) -> NDArray[np.int32]:
        return self._documents.set_sizes[self._documents.signature_ids[rows]]

    def _batches(self, rows: Ids) -> Ids:
        return np.searchsorted(self._documents.batch_starts, rows, side="right")

    def document_keys(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key) of every document, in order."""
        return enumerate(self._documents.names.keys(), 1)

    def documents_of_file(self, name: str) -> range | None:
        """Return the doc_ids of a file's documents, if each of its records is one."""
        rows = self._documents.files.get(name)
        return None if rows is None else range(rows.start + 1, rows.stop + 1)

    def document_signatures(self) -> Iterator[tuple[int, int, int]]:
        """Yield (doc_id, signature_id, batch_id) of documents with a signature, in order."""
        rows = np.flatnonzero(self._documents.signature_ids >= 0)
        ids = self._documents.signature_ids[rows]
        yield from zip((rows + 1).tolist(), ids.tolist(), self._batches(rows).tolist(), strict=True)

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
            return list(self._documents.n_chars[rows].tolist())
        if column == "n_shingles":
            return list(self._n_shingles(rows).tolist())
        if column == "batch_id":
            return list(self._batches(rows).tolist())
        if column in ("added_at", "last_seen_at"):
            return [self._documents.added_at] * len(rows)
        place = ("key", "source").index(column)
        return [name[place] for name in self._documents.names.take(rows)]

    def documents_of_keys(self, keys: Iterable[str]) -> dict[str, StoredDocument]:
        """Return documents by key, for the keys that exist."""
        keys = list(keys)
        rows = self._documents.names.rows_of(keys)
        columns = self._documents
        return {
            key: StoredDocument(
                row + 1, key, None if signature < 0 else signature, b"", b"",
                int(columns.set_sizes[signature]), int(columns.n_chars[row]), "", 0,
                columns.added_at, columns.added_at, 0,
            )
            for key, row, signature in zip(
                keys, rows.tolist(), columns.signature_ids[rows].tolist(), strict=True
            )
            if row >= 0
        }  # fmt: skip

    # Fields

    def fields_of(self, doc_ids: Iterable[int]) -> dict[int, str]:
        """Return kept fields by doc_id, as JSON objects, for the documents that have some."""
        fields = self._documents.fields
        return {doc_id: fields[doc_id].decode() for doc_id in doc_ids if doc_id in fields}

    def has_fields(self) -> bool:
        """Return whether any document has kept fields."""
        return bool(self._documents.fields)

    def has_field(self, name: str) -> bool:
        """Return whether any document has that kept field."""
        return any(name in orjson.loads(fields) for fields in self._documents.fields.values())

    def field_names(self, most: int) -> list[str]:
        """Return the names of kept fields, up to so many."""
        names: set[str] = set()
        for fields in self._documents.fields.values():
            names.update(orjson.loads(fields))
        return sorted(names)[:most]

    # Texts

    def _first_rows(self, signature_ids: Ids) -> Ids:
        rows, signatures = self._by_signature
        return rows[np.searchsorted(signatures, signature_ids, side="left")]

    def packed_bodies_of_signatures(
        self, signature_ids: Sequence[int], *, n_bytes: int
    ) -> Iterator[list[tuple[int, int, str, bytes]]]:
        """Yield lists of (signature_id, doc_id, form, packed), of one document for each."""
        for start in range(0, len(signature_ids), _TEXTS):
            ids = np.sort(np.array(signature_ids[start : start + _TEXTS], dtype=np.int64))
            rows = self._first_rows(ids)
            forms = self._documents.forms[rows].tolist()
            frames = self._documents.bodies.take(rows)
            yield [
                (signature_id, row + 1, FORMS[form], frame)
                for signature_id, row, form, frame in zip(
                    ids.tolist(), rows.tolist(), forms, frames, strict=True
                )
            ]

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
        rows = np.sort(np.fromiter(doc_ids, dtype=np.int64)) - 1
        forms, n_chars = self._documents.forms[rows], self._documents.n_chars[rows]
        frames = self._documents.bodies.take(rows)
        for row, form, n, frame in zip(
            rows.tolist(), forms.tolist(), n_chars.tolist(), frames, strict=True
        ):
            yield row + 1, WITHOUT_DICTIONARY.unpack(FORMS[form], frame, n_chars=n)

    def n_chars_of(self, doc_id: int) -> int:
        """Return the length of a document."""
        return int(self._documents.n_chars[doc_id - 1])

    def codec_for(self, frames: Iterable[bytes]) -> BodyCodec:
        """Return what unpacks frames."""
        return WITHOUT_DICTIONARY

    # Batches

    def newest_batch(self) -> int:
        """Return the number of the newest batch."""
        return len(self._documents.batch_starts)

    def last_batch(self) -> None:
        """Return None: batches have no rows of their own."""
        return

    def last_add(self) -> int:
        """Return the first batch: all came in one add."""
        return 1

    def batch_from(self, moment: str, now: str) -> int:
        """Return the first batch, unless it began before that time; then one past the newest."""
        return 1 if moment <= self._documents.added_at else self.newest_batch() + 1

    def cursors(self) -> list[Cursor]:
        """Return all cursors: none."""
        return []

    def _new_rows(self, since: int) -> Ids:
        starts = np.append(self._documents.batch_starts, len(self._documents))
        rows = np.arange(int(starts[min(since, len(starts)) - 1]), len(self._documents))
        return rows[self._documents.signature_ids[rows] >= 0]

    def new_signatures(self, since: int) -> Ids:
        """Return the signatures of documents of batch ``since`` or later, sorted."""
        return distinct(self._documents.signature_ids[self._new_rows(since)])

    def new_counts(self, since: int) -> tuple[Ids, Ids]:
        """Return (signature ids, numbers of documents) of documents of batch ``since`` or later."""
        ids, counts = np.unique(
            self._documents.signature_ids[self._new_rows(since)], return_counts=True
        )
        return ids, counts
