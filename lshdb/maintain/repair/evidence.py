"""Find proof that the remains of a damaged index are as written.

A document is proved by the CRC-32 of its row, the hash of its text, and what its signature comes
from (:class:`Evidence`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import LshdbError
from lshdb.ingest.batch import sign_in_threads
from lshdb.params.index_params import IndexParams
from lshdb.signatures.banding import bucket_keys, content_keys
from lshdb.signatures.family import Family
from lshdb.storage.dialects.base import Session
from lshdb.storage.rowfiles.generations import FIRST_NAME, Generation, is_generation
from lshdb.storage.rowfiles.layouts import HEADER_BYTES, RowLayout
from lshdb.storage.rowfiles.row_file import RowFile
from lshdb.storage.rows.salvage import copies_of, readable, salvaged
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, Body, BodyCodec, hash_body, raw_body
from lshdb.storage.tables.records import DOCUMENT_COLUMNS, StoredDocument, row_checksum
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = [
    "Evidence",
    "KeptFields",
    "Text",
    "find_generation",
    "sound_rows",
]

_UNPROVED_CHARS = 16 * 2**20
"""A text up to this length is read whatever its document's row says, which may be damaged."""


class Text(NamedTuple):
    """A stored text that can be decoded, or a vector, and its hash."""

    form: str
    packed: bytes
    body: Body
    body_hash: bytes


class KeptFields(NamedTuple):
    """The kept fields of a document as found, and whether they have their checksum."""

    fields: Any
    is_proved: bool


class Evidence:
    """Proves documents and signatures of a damaged index, by every copy of their data.

    Parameters
    ----------
    snapshot : Snapshot
        State of the damaged index; reading any of its tables may fail.
    workers : int
        Threads that sign.

    Attributes
    ----------
    signed, vouched : int
        Signatures made again from texts or vectors, and proved by their postings.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        params: IndexParams,
        family: Family,
        generation: Generation,
        workers: int,
    ) -> None:
        self._snapshot = snapshot
        self._params = params
        self._family = family
        self._file = generation.signatures
        self._vectors = generation.vectors
        self._workers = workers
        self.signed = 0
        self.vouched = 0

    # Texts

    @functools.cached_property
    def codec(self) -> BodyCodec:
        """What unpacks texts; without a dictionary where that is damaged."""
        try:
            return self._snapshot.codec
        except LshdbError:
            return WITHOUT_DICTIONARY

    def texts(self, doc_ids: Sequence[int]) -> dict[int, Text]:
        """Return the texts of some documents that can be read and decoded, by doc_id."""
        rows = readable(self._snapshot.session, "content", ("doc_id", "form", "body"), doc_ids)
        decoded = (
            (doc_id, _decoded(self.codec, form, packed, functools.partial(self._length, doc_id)))
            for doc_id, form, packed in rows
        )
        return {doc_id: text for doc_id, text in decoded if text is not None}

    def _length(self, doc_id: int) -> int:
        """Return the longest possible text, in characters; the document's row may be damaged."""
        try:
            length = self._snapshot.n_chars_of(doc_id)
        except LshdbError:
            length = None
        return max(_UNPROVED_CHARS, length if isinstance(length, int) else 0)

    def text_of_copy(self, document: StoredDocument) -> Text | None:
        """Return the text of another document that came with the same text."""
        copies = copies_of(self._snapshot.session, document.signature_id, document.body_hash)
        texts = self.texts([doc_id for doc_id in copies if doc_id != document.doc_id])
        return next((text for text in texts.values() if text.body_hash == document.body_hash), None)

    def vectors(self, rows: Iterable[tuple[Any, ...]]) -> dict[int, Text]:
        """Return the vectors of some documents, by doc_id.

        A vector that has its document's hash is proved, whatever the CRC-32 of its block. If the
        document's own row does not have it, another signature posted for the content may.

        Parameters
        ----------
        rows : iterable of tuple
            Rows of ``document`` as found.
        """
        proved = {}
        for doc_id, _, signature_id, content_hash, *_ in rows:
            vector = self._vector_at(signature_id)
            if vector is None or vector.body_hash != content_hash:
                equal_vectors = map(self._vector_at, self._signatures_with(content_hash))
                good = (
                    vector
                    for vector in equal_vectors
                    if vector and vector.body_hash == content_hash
                )
                vector = next(good, vector)
            if vector is not None:
                proved[doc_id] = vector
        return proved

    def _vector_at(self, signature_id: object) -> Text | None:
        """Return a row of the vector file if it can be a vector; without a number, no bits set."""
        if self._vectors is None:
            return None
        layout = self._vectors.layout
        vector = np.zeros(layout.n_columns, dtype=layout.dtype)
        if signature_id is not None:
            if not isinstance(signature_id, int) or not 0 <= signature_id < 2**40:
                return None
            try:
                (vector,) = self._vectors.take(np.array([signature_id], dtype=np.int64))
            except (LshdbError, OSError):
                return None
        if self._family.refusal(vector) is not None:
            return None
        form, raw = raw_body(vector)
        return Text(form, b"", vector, hash_body(form, raw))

    def fields(self, doc_ids: Sequence[int]) -> dict[int, KeptFields]:
        """Return the kept fields of some documents that can be read, by doc_id."""
        columns = ("doc_id", "fields", "checksum")
        rows = readable(self._snapshot.session, "kept_field", columns, doc_ids)
        return {
            doc_id: KeptFields(fields, is_proved=row_checksum((doc_id, fields)) == checksum)
            for doc_id, fields, checksum in rows
        }

    # Rows of documents

    def proved(
        self, values: tuple[Any, ...], checksum: int, key: str | None, text: Text | None
    ) -> StoredDocument | None:
        """Return the row as written, if missing values can be found elsewhere; else None.

        Parameters
        ----------
        values : tuple
            Values of the row as found.
        checksum : int
            Checksum of the row as written.
        key : str or None
            The key in the index of keys.

        Returns
        -------
        StoredDocument or None
            With the right checksum.
        """
        document = StoredDocument(*values)
        content_hash, rows = document.content_hash, None
        derived: dict[str, set[Any]] = {}
        if text is not None:
            (content,) = self._family.contents([text.body])
            rows, counts = sign_in_threads([content], self._family, workers=1)
            content_hash = hash_body(*raw_body(content))
            derived = {
                "content_hash": {content_hash},
                "body_hash": {text.body_hash},
                "n_shingles": {int(counts[0])},
                "n_chars": {self._params.dim or sum(map(len, text.body))},
                "n_unassigned": {self._family.n_unassigned(content), None},
            }
        derived["key"] = {key} if key is not None else set()
        derived["signature_id"] = {None, *self._signatures_with(content_hash, rows)}
        names = DOCUMENT_COLUMNS.split(", ")[:-1]
        choices = [
            dict.fromkeys([value, *derived.get(name, ())])
            for name, value in zip(names, values, strict=True)
        ]
        for candidate in itertools.islice(itertools.product(*choices), 10_000):
            if row_checksum(candidate) == checksum:
                return StoredDocument(*candidate)
        return None

    def _signatures_with(
        self, content_hash: object, rows: NDArray[np.uint16] | None = None
    ) -> Iterator[int]:
        """Yield signatures that may have a content, by orders of contents, and by all its bands."""
        postings = self._snapshot.postings
        with contextlib.suppress(LshdbError, ValueError, TypeError, OverflowError):
            if isinstance(content_hash, bytes) and len(content_hash) == 16:
                ids = postings.of_contents(content_keys([content_hash]), below=0)
                yield from [] if ids is None else ids.tolist()
        with contextlib.suppress(LshdbError, ValueError, TypeError, OverflowError):
            if rows is not None:
                keys = np.unique(bucket_keys(rows, **self._params.cut))
                members = postings.grouped_of(keys).members
                ids, counts = np.unique(members, return_counts=True)
                yield from ids[counts == len(keys)].tolist()

    # Signatures

    def signatures(
        self, documents: Iterable[StoredDocument], texts: dict[int, Text]
    ) -> dict[int, NDArray[np.uint16]]:
        """Return the rows of signatures in damaged blocks that are proved, by old signature id.

        Parameters
        ----------
        documents : iterable of StoredDocument
            One for each such signature, proved.
        texts : dict
            Their texts or vectors by doc_id, proved; empty if those are not stored.
        """
        proved: dict[int, NDArray[np.uint16]] = {}
        readable = []
        for document in documents:
            if document.doc_id in texts:
                readable.append(document)
            else:
                self._vouch(document, proved)
        bodies = [texts[document.doc_id].body for document in readable]
        contents = self._family.contents(bodies)
        rows, _ = sign_in_threads(contents, self._family, workers=self._workers)
        for document, content, row in zip(readable, contents, rows, strict=True):
            if document.signature_id is None:
                continue
            if hash_body(*raw_body(content)) == document.content_hash:
                proved[document.signature_id] = row
                self.signed += 1
            else:  # another version of Unicode, or of a tokenizer
                self._vouch(document, proved)
        return proved

    def _vouch(self, document: StoredDocument, proved: dict[int, NDArray[np.uint16]]) -> None:
        """Take a row as it is if every slot of it is in a band, and every band has its bucket.

        A bucket is a hash of the band's slots: a row that differs is not taken.
        """
        params, signature_id = self._params, document.signature_id
        if signature_id is None or params.bands * params.rows != params.num_perm:
            return
        try:
            row = self._file.take(np.array([signature_id], dtype=np.int64))
            _, stored = self._snapshot.bands.rows(signature_id, signature_id + 1)
            is_sound = np.array_equal(bucket_keys(row, **params.cut), stored)
        except (LshdbError, OSError, ValueError, TypeError, OverflowError):
            return
        if is_sound:
            proved[signature_id] = row[0]
            self.vouched += 1


def _decoded(codec: BodyCodec, form: Any, packed: Any, length: Callable[[], int]) -> Text | None:
    """Return a stored text; if its form is damaged, in the first form that can be read."""
    for likely in (form,) if form in ("text", "tokens") else ("tokens", "text"):
        try:
            body = codec.unpack(likely, packed, n_chars=length)
            named, raw = raw_body(body)
            return Text(named, packed, body, hash_body(named, raw))
        except (LshdbError, ValueError, TypeError, AttributeError):
            continue
    return None


def find_generation(directory: Path, name: object, layouts: Sequence[RowLayout]) -> Generation:
    """Return the files that the state names; if they are missing, the only ones that exist."""
    if not (is_generation(name) and (directory / str(name)).is_file()):
        names = (path.name for path in directory.glob("signatures*.npy"))
        generations = [name for name in names if is_generation(name)]
        name = generations[0] if len(generations) == 1 else FIRST_NAME
    return Generation(directory, str(name), layouts)


def sound_rows(session: Session, file: RowFile) -> NDArray[np.bool_]:
    """Return which rows of a file are in a block with the right CRC-32.

    Ignores the header and the state.
    """
    try:
        n_rows = max(0, (file.path.stat().st_size - HEADER_BYTES) // file.row_bytes)
    except OSError:
        n_rows = 0
    sound = np.zeros(n_rows, dtype=bool)
    columns = ("first_row", "n_rows", file.layout.checksum)
    for first, count, crc in salvaged(session, "signature_block", *columns):
        if type(count) is not int or not 0 < count <= n_rows - first:
            continue
        if file.block_crc(first, count) == crc:
            sound[first : first + count] = True
    return sound
