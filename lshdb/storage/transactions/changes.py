"""What one write transaction changes: every row that a batch brings, moves or takes away.

Made by ``writer.py``, which commits it. Rows that say what a document is are sealed with a
checksum as they are written.

The functions ``load_...`` put the rows of an exported or damaged index into a new one, as they
were. Only what is specific to the new index is computed: checksums.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.errors import DamageError
from lshdb.storage.bands.band_table import BandTable
from lshdb.storage.rowfiles.layouts import StoredBlock, block_rows, cover, extend_blocks
from lshdb.storage.rows.edges import Edges, EdgeState, EdgeTables
from lshdb.storage.tables.bodies import BodyCodec, hash_body, train_dictionary
from lshdb.storage.tables.records import (
    BATCH_COLUMNS,
    DOCUMENT_COLUMNS,
    StoredDocument,
    row_checksum,
    with_checksum,
    with_checksums,
)
from lshdb.storage.tables.stored_columns import verified_row
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store

if TYPE_CHECKING:
    from lshdb.storage.dialects.base import OpenDatabase

__all__ = [
    "WriteTransaction",
    "load_batches",
    "load_clusters",
    "load_documents",
    "load_edges",
    "load_releases",
]


class WriteTransaction:
    """The open transaction of one or more batches; made by :meth:`Writer.transaction`.

    Attributes
    ----------
    snapshot : Snapshot
        Signatures and postings as they were when the transaction began. Documents are those that
        it sees itself: its own ones, too.
    bands : BandTable
        The buckets of all signatures, with its own.
    n_signatures : int
        Rows, with those that it has written.
    """

    def __init__(self, connection: OpenDatabase, store: Store) -> None:
        self._connection = connection
        self.session = store.database.session(connection)
        self.execute = self.session.execute
        self.snapshot = Snapshot(self.session, store.generation, orders=store.orders)
        self.bands = self.snapshot.bands
        self.edges = EdgeTables(self.session)
        # A commit gives the row a new checksum, which must not make damage good.
        verified_row("state", tuple(self.execute("SELECT * FROM state").fetchone()))
        self.n_signatures = self.snapshot.n_signatures
        self._n_in_segment = self.n_signatures
        self.batch_id: int | None = None
        self.mark: str | None = None

    def append_signatures(
        self, rows: NDArray[np.uint16], vectors: NDArray[Any] | None = None
    ) -> None:
        """Write and sync signature rows; they get the ids from ``n_signatures`` on.

        Parameters
        ----------
        rows : ndarray of uint16, shape (n, row_words)
        vectors : ndarray, shape (n, vector_columns), optional
            What was signed, in the index's dtype; given where vectors are kept, and only there.
        """
        parts = (rows,) if vectors is None else (rows, vectors)
        self.write_signatures(self.begin_signatures(), parts)
        self.record_signatures(parts)

    def begin_signatures(self) -> int:
        """Return the id of the next row; see that nobody else has written since the last batch."""
        if self.session.database.serves_hosts:
            self.snapshot.check_row_files(is_writer=True)
        return self.n_signatures

    def write_signatures(self, first: int, parts: Sequence[NDArray[Any]]) -> None:
        """Write and sync rows, a part to each file; without SQL, so another thread may do it.

        Until :meth:`record_signatures` they do not exist, and what comes later overwrites them.
        """
        if len(parts[0]):
            self.snapshot.generation.append(first, parts)

    def record_signatures(self, parts: Sequence[NDArray[Any]]) -> None:
        """Count the rows of :meth:`write_signatures`, and record their checksums."""
        if not len(parts[0]):
            return
        first = self.n_signatures
        self.record_blocks(parts)
        self.n_signatures = first + len(parts[0])
        changed = self.execute(
            "UPDATE state SET n_signatures = ? WHERE n_signatures = ?", (self.n_signatures, first)
        )
        if changed.rowcount != 1:
            raise DamageError(
                f"the committed number of signatures is no longer {first}",
                hint="something else wrote to the database; run lshdb check",
            )

    def record_blocks(self, parts: Sequence[NDArray[Any]]) -> None:
        """Put the CRC-32 of rows that were appended, a part to each file, into their blocks.

        Raises
        ------
        DamageError
            The last block does not end where the rows begin.
        """
        last = self.execute(
            "SELECT first_row, n_rows, crc32, vector_crc32 FROM signature_block "
            "ORDER BY first_row DESC LIMIT 1"
        ).fetchone()
        written = []
        for file, rows, crc in zip(
            self.snapshot.generation.files, parts, last[2:] if last else (0, 0), strict=False
        ):
            blocks = [] if last is None else [(*last[:2], crc)]
            if crc is None or not cover(blocks, self.n_signatures):
                raise DamageError(
                    f"the last checksum of signatures (first row, rows, CRC-32, of vectors) is "
                    f"{last}; there are {self.n_signatures} rows",
                    hint="run lshdb check, and then lshdb check --repair",
                )
            extend_blocks(blocks, rows, file.layout)
            written.append(blocks)
        if last is not None:
            self.execute("DELETE FROM signature_block WHERE first_row = ?", (last[0],))
        self._insert_blocks(block_rows(written))

    def replace_signatures(self, name: str, blocks: list[StoredBlock]) -> None:
        """Refer to another generation of the row files, which is whole and synced."""
        self.session.delete_all("signature_block")
        self.session.delete_all("segment")
        self._insert_blocks(blocks)
        self._n_in_segment = 0
        n_signatures = sum(block[1] for block in blocks)
        self.execute("UPDATE state SET signature_file = ?, n_signatures = ?", (name, n_signatures))

    def _insert_blocks(self, blocks: Iterable[StoredBlock]) -> None:
        names = ("first_row", "n_rows", "crc32", "vector_crc32")
        self.session.insert_rows("signature_block", names, blocks)

    def insert_documents(self, columns: Sequence[Sequence[Any]]) -> None:
        """Insert rows of ``document``.

        Parameters
        ----------
        columns : sequence of sequences
            The columns of the table in order, with a value a row. The doc_ids begin at
            ``snapshot.next_doc_id``.
        """
        if len(columns[0]):
            self.session.insert_columns("document", DOCUMENT_COLUMNS.split(", "), columns)
            self.number_documents_from(self.snapshot.next_doc_id + len(columns[0]))

    def number_documents_from(self, doc_id: int) -> None:
        """Let the next document have this number, or a later one."""
        self.snapshot.next_doc_id = doc_id
        self.execute("UPDATE state SET next_doc_id = ?", (doc_id,))

    def replace_documents(self, columns: Sequence[Sequence[Any]]) -> None:
        """Update rows of ``document`` by ``doc_id``; columns as for :meth:`insert_documents`."""
        if len(columns[0]):
            assignments = ", ".join(f"{name} = ?" for name in DOCUMENT_COLUMNS.split(", ")[1:])
            doc_ids, *columns_after = columns
            self.session.execute_many(
                f"UPDATE document SET {assignments} WHERE doc_id = ?",
                list(zip(*columns_after, doc_ids, strict=True)),
            )

    def move_documents(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Set (signature_id, checksum) of documents; the doc_id comes last."""
        self.session.execute_many(
            "UPDATE document SET signature_id = ?, checksum = ? WHERE doc_id = ?", list(rows)
        )

    def prepare_bands(self, bands: int) -> None:
        """Prepare the database for a number of bands; commit before :meth:`remake_bands`."""
        self.session.database.prepare_bands(self._connection, bands)

    def remake_bands(self, bands: int) -> BandTable:
        """Empty the table of bands and set their number; return it."""
        self.session.database.remake_bands(self._connection, bands)
        self.bands = BandTable(self.session, bands)
        return self.bands

    def choose_band_indexes(self, is_wanted: bool) -> None:
        """Say whether :meth:`complete_bands` is to index the columns, where there is a choice."""
        self.execute("UPDATE state SET index_bands = ?", (int(is_wanted),))

    def complete_bands(self, bands: int) -> None:
        """Complete the table of bands after its first rows."""
        self.session.database.complete_bands(self._connection, bands)

    def name_banding(self, values: Mapping[str, Any]) -> None:
        """Write parameters that can change in the life of an index."""
        for name, value in values.items():
            self.execute(
                "UPDATE parameter SET value = ? WHERE name = ?",
                (orjson.dumps(value).decode(), name),
            )

    def release_signatures(self, signature_ids: Sequence[int], batch_id: int) -> None:
        """Record that a document left each of some signatures; it may have been the last one."""
        first = self.edges.last_release() + 1
        rows = (
            (release_id, signature_id, batch_id)
            for release_id, signature_id in enumerate(signature_ids, first)
        )
        load_releases(self, rows)

    def delete_documents(self, doc_ids: Sequence[int]) -> None:
        """Delete documents with texts and fields; postings stay until the index is compacted."""
        for start in range(0, len(doc_ids), 10_000):
            chunk = self.session.encode_list(doc_ids[start : start + 10_000])
            for table in ("content", "kept_field", "document"):
                self.execute(
                    f"DELETE FROM {table} WHERE {self.session.in_list('doc_id')}", (chunk,)
                )

    def touch_documents(
        self, documents: Sequence[StoredDocument], seen_at: str, *, batch_id: int | None = None
    ) -> None:
        """Set ``last_seen_at``, and where it is given ``batch_id``, of unchanged documents."""
        if not documents:
            return
        changed: dict[str, Any] = {"last_seen_at": seen_at}
        columns = ["added_at", "last_seen_at"]
        if batch_id is not None:
            started_at = self.snapshot.batch_start(batch_id)
            changed |= {"batch_id": batch_id, "batch_started_at": started_at}
            columns.insert(0, "batch_id")
        self._update_documents([replace(document, **changed) for document in documents], columns)

    def date_documents(self, documents: Sequence[StoredDocument]) -> None:
        """Set the times of documents."""
        self._update_documents(documents, ("added_at", "last_seen_at"))

    def _update_documents(
        self, documents: Sequence[StoredDocument], columns: Sequence[str]
    ) -> None:
        places = list(map(DOCUMENT_COLUMNS.split(", ").index, columns))
        rows = (with_checksum(document.row()) for document in documents)
        self.session.execute_many(
            f"UPDATE document SET {''.join(f'{name} = ?, ' for name in columns)}checksum = ? "
            "WHERE doc_id = ?",
            [(*(row[place] for place in places), row[-1], row[0]) for row in rows],
        )

    def date_index(self, created_at: str) -> None:
        """Set when the index was made."""
        self.execute("UPDATE state SET created_at = ?", (created_at,))

    def begin_add(self, add_id: int) -> None:
        """Record that more batches of an add are to come."""
        self.execute(
            "INSERT INTO unfinished_add (add_id) SELECT batch_id FROM batch WHERE batch_id = ? "
            "AND batch_id NOT IN (SELECT add_id FROM unfinished_add)",
            (add_id,),
        )

    def end_add(self, add_id: int) -> None:
        """Record that an add has ended; forget unfinished adds that have no document left."""
        self.execute(
            "DELETE FROM unfinished_add WHERE add_id = ? OR NOT EXISTS (SELECT 1 FROM batch "
            "JOIN document ON document.batch_id = batch.batch_id "
            "WHERE batch.add_id = unfinished_add.add_id)",
            (add_id,),
        )

    def put_bodies(self, columns: Sequence[Sequence[Any]], *, replaced: Sequence[int] = ()) -> None:
        """Insert columns of ``content`` (doc_id, form, body); rows of ``replaced`` go first."""
        if replaced:
            self.execute(
                f"DELETE FROM content WHERE {self.session.in_list('doc_id')}",
                (self.session.encode_list(replaced),),
            )
        self.session.insert_columns("content", ("doc_id", "form", "body"), columns)

    def fit_bodies(
        self, frames: Sequence[bytes], n_chars: Sequence[int], codec: BodyCodec
    ) -> Sequence[bytes]:
        """Return frames that a codec made so that the index can unpack them.

        An index without a dictionary takes that of the codec, and keeps it.

        Parameters
        ----------
        frames : sequence of bytes
        n_chars : sequence of int
            The length of each body in the row of its document.

        Raises
        ------
        DamageError
            A frame cannot be decoded.
        """
        own = self.snapshot.codec
        if own.dictionary == codec.dictionary or not codec.dictionary:
            return frames
        if own.dictionary:
            return own.repacked(frames, n_chars, codec)
        row = (1, codec.dictionary, hash_body("dictionary", codec.dictionary))
        self.session.insert_rows("text_dictionary", ("dictionary_id", "body", "hash"), [row])
        self.snapshot.codec = codec
        return frames

    def put_fields(self, rows: Sequence[tuple[int, str]], *, replaced: Sequence[int] = ()) -> None:
        """Insert rows of ``kept_field`` (doc_id, JSON object); those of ``replaced`` go first."""
        if replaced:
            self.execute(
                f"DELETE FROM kept_field WHERE {self.session.in_list('doc_id')}",
                (self.session.encode_list(replaced),),
            )
        if rows:
            names = ("doc_id", "fields", "checksum")
            self.session.insert_rows("kept_field", names, with_checksums(rows))

    def name_night(self, add_id: int, name: str) -> None:
        """Record that an add belongs to a night."""
        rows = with_checksums([(add_id, name)])
        self.session.insert_rows("night", ("add_id", "name", "checksum"), rows)

    def set_cursor(self, name: str, batch_id: int, advanced_at: str) -> None:
        """Set a cursor, or make it."""
        self.remove_cursor(name)
        rows = with_checksums([(name, batch_id, advanced_at)])
        self.session.insert_rows("cursor", ("name", "batch_id", "advanced_at", "checksum"), rows)

    def remove_cursor(self, name: str) -> bool:
        """Remove a cursor; return whether there was one."""
        return bool(self.execute("DELETE FROM cursor WHERE name = ?", (name,)).rowcount)

    def open_batch(self, *, started_at: str, source: str, add_id: int | None = None) -> int:
        """Insert the row of ``batch`` that the documents refer to; its counts are still zero.

        Without ``add_id`` it is the first of its add. Returns its number.
        """
        last = self.snapshot.last_batch()
        batch_id = last.batch_id + 1 if last else 1
        row = {
            **{name: 0 for name in BATCH_COLUMNS.split(", ") if name.startswith("n_")},
            "batch_id": batch_id,
            "add_id": batch_id if add_id is None else add_id,
            "started_at": started_at,
            "finished_at": started_at,
            "source": source.encode(errors="backslashreplace").decode(),  # may name a path
            "unicode_version": unicodedata.unidata_version,
        }
        self.session.insert_rows("batch", list(row), [list(row.values())])
        self.batch_id = batch_id
        return batch_id

    def update_batch(self, batch_id: int, values: Mapping[str, Any]) -> None:
        """Complete the row of ``batch`` with counts and the time of its end."""
        assignments = ", ".join(f"{name} = ?" for name in values)
        self.execute(
            f"UPDATE batch SET {assignments} WHERE batch_id = ?", (*values.values(), batch_id)
        )
        self._seal("batch", f"batch_id = {batch_id:d}")

    def seal(self) -> bool:
        """Give the row of ``state`` its checksum before the commit, and leave a mark.

        Return False if there is nothing to commit.
        """
        if not self.session.may_have_changed():
            return False
        self._end_segment()
        self._seal("state", "state_id = 1")
        self.mark = self.session.leave_mark()
        return True

    def _end_segment(self) -> None:
        """Draw a number for the rows that the commit brings: orders of them are known by it."""
        (n_signatures,) = self.execute("SELECT n_signatures FROM state").fetchone()
        if n_signatures != self._n_in_segment:
            self.execute("DELETE FROM segment WHERE n_signatures >= ?", (n_signatures,))
            self.session.insert_rows(
                "segment", ("n_signatures", "number"), [(n_signatures, secrets.randbits(63))]
            )

    def _seal(self, table: str, condition: str) -> None:
        row = self.execute(f"SELECT * FROM {table} WHERE {condition}").fetchone()
        checksum = row_checksum(row[:-1])
        if checksum != row[-1]:
            self.execute(f"UPDATE {table} SET checksum = ? WHERE {condition}", (checksum,))


def load_batches(transaction: WriteTransaction, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows of ``batch``, all columns except the checksum."""
    transaction.session.insert_rows("batch", BATCH_COLUMNS.split(", "), with_checksums(rows))


def load_documents(
    transaction: WriteTransaction,
    rows: Sequence[tuple[Any, ...]],
    bodies: Iterable[tuple[int, str, bytes]],
) -> None:
    """Insert values of ``document``, all but the checksum, and (doc_id, form, raw body).

    Their batches exist.
    """
    if rows:
        batch_start = transaction.snapshot.batch_start
        documents = (StoredDocument(*row) for row in rows)
        stored = (
            replace(document, batch_started_at=batch_start(document.batch_id)).row()
            for document in documents
        )
        transaction.insert_documents(list(zip(*with_checksums(stored), strict=True)))
    raw_bodies = list(bodies)
    if not raw_bodies:
        return
    doc_ids, forms, raws = zip(*raw_bodies, strict=True)
    codec = transaction.snapshot.codec
    if not codec.dictionary:
        codec = BodyCodec(train_dictionary(raws) or b"")
    frames = transaction.fit_bodies(codec.pack_many(raws), [len(raw) for raw in raws], codec)
    transaction.put_bodies([doc_ids, forms, frames])


def load_releases(transaction: WriteTransaction, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows of ``signature_release``."""
    names = ("release_id", "signature_id", "batch_id")
    transaction.session.insert_rows("signature_release", names, rows)


def load_edges(transaction: WriteTransaction, rows: Sequence[tuple[int, int, float, str]]) -> None:
    """Insert edges: signature1, signature2, similarity, method."""
    for method in sorted({row[3] for row in rows}):
        left, right, similarities = zip(*(row[:3] for row in rows if row[3] == method), strict=True)
        edges = Edges(np.array(left), np.array(right), np.array(similarities))
        transaction.edges.put_edges(edges, method)


def load_clusters(
    transaction: WriteTransaction, members: Sequence[tuple[int, int]], state: EdgeState | None
) -> None:
    """Insert (signature_id, label), and how far edges and clusters are up to date."""
    flat = np.array(members, dtype=np.int64).reshape(-1, 2)
    transaction.edges.put_members(flat[:, 0], flat[:, 1])
    if state is not None:
        transaction.edges.put_state(state)
