"""What one transaction sees of an index: every question that is answered from disk.

A snapshot is made inside an open transaction, of a reader or of the writer, and is good until that
ends. All of its SQL is plain text given to the DB-API driver (see ``dialects/sqlite.py`` for why).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError, KeyNotFoundError
from lshdb.storage.bodies import unpack_body
from lshdb.storage.dialects import sqlite as dialect
from lshdb.storage.edges import EdgeTables
from lshdb.storage.signature_file import SignatureFile

__all__ = ["Buckets", "Snapshot", "StoredBatch", "StoredDocument"]

_CHUNK = 1000
_FEW_KEYS = 256
_GROUPS = 4096
_DOCUMENT_COLUMNS = (
    "doc_id, key, signature_id, content_hash, body_hash, n_shingles, n_chars, source, batch_id, "
    "added_at, last_seen_at"
)
_BATCH_COLUMNS = (
    "batch_id, add_id, started_at, finished_at, source, n_added, n_replaced, n_unchanged, "
    "n_copies, n_rejected, n_removed"
)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A row of the table ``document``; ``signature_id`` is None for a document without tokens."""

    doc_id: int
    key: str
    signature_id: int | None
    content_hash: bytes
    body_hash: bytes
    n_shingles: int
    n_chars: int
    source: str
    batch_id: int
    added_at: str
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A row of the table ``batch``: what one commit of one add brought."""

    batch_id: int
    add_id: int
    started_at: str
    finished_at: str
    source: str
    n_added: int
    n_replaced: int
    n_unchanged: int
    n_copies: int
    n_rejected: int
    n_removed: int


@dataclass(frozen=True, slots=True)
class Buckets:
    """Some buckets and what is in them.

    Attributes
    ----------
    keys, sizes : ndarray of int64, shape (n,)
        Bucket key and number of postings of each.
    members : ndarray of int64, shape (sum(sizes),)
        Signature ids, one bucket after the other.
    """

    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]
    members: NDArray[np.int64]


class Snapshot:
    """One consistent state of an index.

    Parameters
    ----------
    execute : callable
        ``execute(sql, parameters=())`` inside an open transaction; returns rows.
    signature_file : callable
        Signature file of a given name.

    Attributes
    ----------
    n_signatures : int
        Committed rows of the signature file.
    signatures : ndarray of uint32, shape (n_signatures, num_perm)
        Those rows, memory-mapped.
    """

    def __init__(
        self, execute: Callable[..., Any], signature_file: Callable[[str], SignatureFile]
    ) -> None:
        self.execute = execute
        self._open_file = signature_file
        state = execute("SELECT signature_file, n_signatures, next_doc_id FROM state").fetchone()
        if state is None:
            raise DamageError(
                "the table state has no row, so nothing says how much is committed",
                hint="restore the index from a copy",
            )
        self._file_name, self.n_signatures, self.next_doc_id = state
        self.run_tables: list[str] = [
            row[0] for row in execute("SELECT table_name FROM run ORDER BY run_id")
        ]

    @property
    def edges(self) -> EdgeTables:
        """Verified edges and clusters."""
        return EdgeTables(self.execute)

    @property
    def signature_file(self) -> SignatureFile:
        """The generation of the signature file that this state refers to."""
        return self._open_file(self._file_name)

    @property
    def signatures(self) -> NDArray[np.uint32]:
        """The committed signature rows, memory-mapped."""
        return self.signature_file.rows(self.n_signatures)

    # Postings

    def postings(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Postings of some buckets.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys.

        Returns
        -------
        bucket_keys, signature_ids : ndarray of int64, shape (m,)
            In no order; one look-up a key and run.

        Raises
        ------
        DamageError
            A posting names a signature that does not exist.
        """
        if not self.run_tables or not len(keys):
            empty = np.empty(0, dtype=np.int64)
            return empty, empty
        if len(keys) <= _FEW_KEYS:
            sql = dialect.posting_lookup(self.run_tables, len(keys))
            rows = self.execute(sql, tuple(keys.tolist()))
        else:
            sql = dialect.posting_lookup_list(self.run_tables)
            rows = self.execute(sql, (dialect.encode_list(keys),))
        flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64)
        bucket_keys, signature_ids = flat[0::2], flat[1::2]
        self._check_ids(signature_ids)
        return bucket_keys, signature_ids

    def shared_buckets(self) -> Iterator[Buckets]:
        """Every bucket with more than one posting, in blocks, each bucket whole and once.

        Streamed from one SQL ``GROUP BY`` over the runs; memory does not grow with their number.
        """
        if not self.run_tables:
            return
        rows = self.execute(dialect.bucket_groups(self.run_tables))
        while block := list(itertools.islice(rows, _GROUPS)):
            keys, sizes, members = zip(*block, strict=True)
            signature_ids = dialect.decode_members(members)
            self._check_ids(signature_ids)
            yield Buckets(np.array(keys), np.array(sizes), signature_ids)

    def _check_ids(self, signature_ids: NDArray[np.int64]) -> None:
        if len(signature_ids) and not (
            signature_ids.min() >= 0 and signature_ids.max() < self.n_signatures
        ):
            raise DamageError(
                f"a posting names signature {signature_ids.max()}; "
                f"the index has {self.n_signatures}",
                hint="run lshdb check",
            )

    # Documents

    def document(self, key: str) -> StoredDocument:
        """The document of a key.

        Raises
        ------
        KeyNotFoundError
        """
        statement = f"SELECT {_DOCUMENT_COLUMNS} FROM document WHERE key = ?"
        row = self.execute(statement, (key,)).fetchone() if _is_utf8(key) else None
        if row is None:
            raise KeyNotFoundError(f"no document has the key {key!r}", key=key)
        return StoredDocument(*row)

    def documents_of_keys(self, keys: Iterable[str]) -> dict[str, StoredDocument]:
        """Documents by key, for those keys that are there."""
        if self.next_doc_id == 1:
            return {}
        return {
            row[1]: StoredDocument(*row)
            for chunk in _chunks(filter(_is_utf8, keys))
            for row in self.execute(
                f"SELECT {_DOCUMENT_COLUMNS} FROM document WHERE {dialect.in_list('key')}",
                (dialect.encode_list(chunk),),
            )
        }

    def signatures_of_keys(self, keys: Iterable[str]) -> dict[str, int]:
        """Signatures by key, for those keys that are there and have one."""
        return {
            key: signature_id
            for chunk in _chunks(filter(_is_utf8, keys))
            for key, signature_id in self.execute(
                "SELECT key, signature_id FROM document "
                f"WHERE {dialect.in_list('key')} AND signature_id IS NOT NULL",
                (dialect.encode_list(chunk),),
            )
        }

    def documents_of_signatures(
        self, signature_ids: Iterable[int]
    ) -> dict[int, list[tuple[int, str, int]]]:
        """(doc_id, key, batch_id) of every document with one of the signatures, by signature.

        A signature that no document has any longer is absent.
        """
        found: dict[int, list[tuple[int, str, int]]] = {}
        for chunk in _chunks(signature_ids):
            for signature_id, doc_id, key, batch_id in self.execute(
                "SELECT signature_id, doc_id, key, batch_id FROM document "
                f"WHERE {dialect.in_list('signature_id')} ORDER BY signature_id, doc_id",
                (dialect.encode_list(chunk),),
            ):
                found.setdefault(signature_id, []).append((doc_id, key, batch_id))
        return found

    def documents_of_signature(self, signature_id: int) -> Iterator[tuple[int, str, int]]:
        """(doc_id, key, batch_id) of each document with that signature, streamed."""
        yield from self.execute(
            "SELECT doc_id, key, batch_id FROM document WHERE signature_id = ? ORDER BY doc_id",
            (signature_id,),
        )

    def signatures_of_contents(self, pairs: dict[bytes, int]) -> dict[bytes, tuple[int, int]]:
        """(signature_id, n_shingles) by content hash, for those contents that a document has.

        Parameters
        ----------
        pairs : dict of bytes to int
            Content hash to its bucket key in the content band.
        """
        keys = np.unique(np.fromiter(pairs.values(), dtype=np.int64, count=len(pairs)))
        found: dict[bytes, tuple[int, int]] = {}
        for start in range(0, len(keys), _CHUNK * 10):
            _, candidates = self.postings(keys[start : start + _CHUNK * 10])
            for chunk in _chunks(np.unique(candidates).tolist()):
                for content_hash, signature_id, n_shingles in self.execute(
                    "SELECT content_hash, min(signature_id), min(n_shingles) FROM document "
                    f"WHERE {dialect.in_list('signature_id')} GROUP BY content_hash",
                    (dialect.encode_list(chunk),),
                ):
                    if content_hash in pairs:
                        found[content_hash] = (signature_id, n_shingles)
        return found

    def copies(self, since: int | None = None) -> Iterator[tuple[int, int, str, int]]:
        """(signature_id, doc_id, key, batch_id) of documents that share a signature, in its order.

        With ``since``, only signatures that a document that new has.
        """
        newest = "" if since is None else " AND max(batch_id) >= ?"
        yield from self.execute(
            "SELECT signature_id, doc_id, key, batch_id FROM document WHERE signature_id IN "
            "(SELECT signature_id FROM document WHERE signature_id IS NOT NULL "
            f"GROUP BY signature_id HAVING count(*) > 1{newest}) ORDER BY signature_id, doc_id",
            () if since is None else (since,),
        )

    def shared_signatures(self) -> Iterator[int]:
        """Signatures that more than one document has."""
        rows = self.execute(
            "SELECT signature_id FROM document WHERE signature_id IS NOT NULL "
            "GROUP BY signature_id HAVING count(*) > 1"
        )
        return (row[0] for row in rows)

    def document_keys(self) -> Iterator[tuple[int, str]]:
        """(doc_id, key) of every document, in the order in which they came in."""
        yield from self.execute("SELECT doc_id, key FROM document ORDER BY doc_id")

    def document_signatures(self) -> Iterator[tuple[int, int, int]]:
        """(doc_id, signature_id, batch_id) of every document with a signature, in that order."""
        yield from self.execute(
            "SELECT doc_id, signature_id, batch_id FROM document "
            "WHERE signature_id IS NOT NULL ORDER BY doc_id"
        )

    def keys_of(self, doc_ids: NDArray[np.int64]) -> dict[int, str]:
        """Keys by doc_id."""
        return dict(
            self.execute(
                f"SELECT doc_id, key FROM document WHERE {dialect.in_list('doc_id')}",
                (dialect.encode_list(doc_ids),),
            )
        )

    def values_of(self, doc_ids: NDArray[np.int64], column: str) -> list[object]:
        """A column of ``document``, for doc_ids that are there, in their order."""
        found: dict[int, object] = {}
        for start in range(0, len(doc_ids), _CHUNK * 10):
            found.update(
                self.execute(
                    f"SELECT doc_id, {column} FROM document WHERE {dialect.in_list('doc_id')}",
                    (dialect.encode_list(doc_ids[start : start + _CHUNK * 10]),),
                )
            )
        return [found[doc_id] for doc_id in doc_ids.tolist()]

    def copied_between(self, first: int, last: int) -> list[int]:
        """Signatures from first to last that more than one document has."""
        rows = self.execute(
            "SELECT signature_id FROM document WHERE signature_id BETWEEN ? AND ? "
            "GROUP BY signature_id HAVING count(*) > 1",
            (first, last),
        )
        return [row[0] for row in rows]

    def new_signatures(self, since: int) -> NDArray[np.int64]:
        """Signatures of the documents that came in with batch ``since`` or later, sorted."""
        rows = self.execute(
            "SELECT DISTINCT signature_id FROM document "
            "WHERE batch_id >= ? AND signature_id IS NOT NULL ORDER BY 1",
            (since,),
        )
        return np.fromiter((row[0] for row in rows), dtype=np.int64)

    # Texts

    def body(self, doc_id: int) -> str | list[str] | None:
        """The body of a document; None where texts are not stored."""
        row = self.execute("SELECT form, body FROM content WHERE doc_id = ?", (doc_id,)).fetchone()
        return None if row is None else unpack_body(*row)

    def bodies_of_signatures(
        self, signature_ids: Sequence[int]
    ) -> Iterator[tuple[int, str | list[str]]]:
        """One body for each signature that a document has: (signature_id, body)."""
        for chunk in _chunks(signature_ids):
            for signature_id, form, packed in self.execute(
                "SELECT first.signature_id, content.form, content.body FROM "
                "(SELECT signature_id, min(doc_id) AS doc_id FROM document "
                f"WHERE {dialect.in_list('signature_id')} GROUP BY signature_id) AS first "
                "JOIN content ON content.doc_id = first.doc_id",
                (dialect.encode_list(chunk),),
            ):
                yield signature_id, unpack_body(form, packed)

    # Batches

    def batches(self) -> Iterator[StoredBatch]:
        """All batches, oldest first."""
        rows = self.execute(f"SELECT {_BATCH_COLUMNS} FROM batch ORDER BY batch_id")
        return (StoredBatch(*row) for row in rows)

    def last_add(self) -> int:
        """The first batch of the newest add; 1 where there was none."""
        (add_id,) = self.execute("SELECT max(add_id) FROM batch WHERE n_removed = 0").fetchone()
        return add_id or 1

    def last_batch(self) -> StoredBatch | None:
        """The newest batch."""
        row = self.execute(
            f"SELECT {_BATCH_COLUMNS} FROM batch ORDER BY batch_id DESC LIMIT 1"
        ).fetchone()
        return None if row is None else StoredBatch(*row)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(values)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk
