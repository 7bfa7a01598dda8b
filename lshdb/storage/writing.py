"""The commit protocol: how a batch gets onto disk whole or not at all.

Under the writer lock, for each batch:

1. the new signature rows are written past the committed count, and the file is synced (fdatasync);
2. one SQL transaction brings documents, texts, postings, the blocks' CRC-32 and the new committed
   count, which replaces the old one only if that is still what it was;
3. COMMIT, in WAL mode with synchronous=FULL.

Rows past the committed count do not exist, so a failure before COMMIT leaves nothing behind but
bytes that the next batch overwrites. A failure *at* COMMIT leaves the outcome unknown: the writer
then touches nothing more, closes, and says so; the next open reads from the database what became of
it.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError, DatabaseError, LshdbError
from lshdb.storage.checksums import row_checksum, verified_row, with_checksums
from lshdb.storage.dialects import sqlite as dialect
from lshdb.storage.edges import EdgeTables
from lshdb.storage.lock import WriterLock
from lshdb.storage.migrations import check_revision
from lshdb.storage.records import StoredDocument
from lshdb.storage.runs import FAN_IN, MOST_RUNS, PostingRuns
from lshdb.storage.snapshot import Snapshot
from lshdb.storage.store import Store

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["BLOCK_ROWS", "WriteTransaction", "Writer"]

BLOCK_ROWS = 1024
"""Signature rows under one CRC-32."""
_FORKED: list[contextlib.ExitStack] = []
"""What a fork has of its parent's writing; never closed."""
MANY_DOCUMENTS = 5_000
"""From so many rows in a batch on, large statements are worth being prepared."""


class WriteTransaction:
    """The open transaction of one batch; made by :meth:`Writer.transaction`."""

    def __init__(self, connection: Connection, store: Store) -> None:
        self._connection = connection
        self.snapshot = Snapshot(self.execute, store.signature_file)
        self._driver_execute = connection.connection.cursor().execute
        self.runs = PostingRuns(self.execute, self._insert)
        self.edges = EdgeTables(self.execute, self._insert)
        # A commit gives the row a new checksum, which must not make damage good.
        verified_row("state", tuple(self.execute("SELECT * FROM state").fetchone()))
        self.n_signatures = self.snapshot.n_signatures
        self.batch_id: int | None = None

    def execute(self, sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        """Run one statement given as text."""
        return self._connection.exec_driver_sql(sql, parameters)

    def _insert(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run one of many insertions, which is all that most of the time goes into.

        It goes to the driver in the same transaction: SQLAlchemy takes about 15 us a statement, and
        8 us a row where it is given dictionaries. Errors are raised as SQLAlchemy raises them.
        """
        try:
            self._driver_execute(sql, parameters)
        except dialect.DRIVER_ERRORS as error:
            from sqlalchemy.exc import DBAPIError

            raise DBAPIError(sql, None, error) from error

    def append_signatures(self, rows: NDArray[np.uint32]) -> None:
        """Write and sync signature rows; they get the ids from ``snapshot.n_signatures`` on."""
        if not len(rows):
            return
        first = self.snapshot.n_signatures
        self.snapshot.signature_file.append(first, rows)
        self._record_blocks(first, np.ascontiguousarray(rows, dtype="<u4"))
        self.n_signatures = first + len(rows)
        changed = self.execute(
            "UPDATE state SET n_signatures = ? WHERE n_signatures = ?", (self.n_signatures, first)
        )
        if changed.rowcount != 1:
            raise DamageError(
                f"the committed number of signatures is no longer {first}",
                hint="something else wrote to the database; run lshdb check",
            )

    def _record_blocks(self, first: int, rows: NDArray[np.uint32]) -> None:
        """Extend the last block's CRC-32 and begin new ones: blocks start at multiples of 1024."""
        start = 0
        while start < len(rows):
            row = first + start
            block = row - row % BLOCK_ROWS
            taken = min(block + BLOCK_ROWS - row, len(rows) - start)
            data = rows[start : start + taken].tobytes()
            if row == block:
                self.execute(
                    "INSERT INTO signature_block (first_row, n_rows, crc32) VALUES (?, ?, ?)",
                    (block, taken, zlib.crc32(data)),
                )
            else:
                (crc,) = self.execute(
                    "SELECT crc32 FROM signature_block WHERE first_row = ?", (block,)
                ).fetchone()
                self.execute(
                    "UPDATE signature_block SET n_rows = ?, crc32 = ? WHERE first_row = ?",
                    (row - block + taken, zlib.crc32(data, crc), block),
                )
            start += taken

    def insert_documents(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows of ``document``, values in the order of its columns but the checksum.

        Their doc_ids begin at ``snapshot.next_doc_id``.
        """
        from lshdb.storage.schema import document

        if rows:
            large = len(rows) >= MANY_DOCUMENTS
            names = document.columns.keys()
            whole = with_checksums(rows)
            dialect.insert_rows(self._insert, document.name, names, whole, large=large)
            self.execute(
                "UPDATE state SET next_doc_id = ?", (self.snapshot.next_doc_id + len(rows),)
            )

    def replace_documents(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Update rows of ``document`` by ``doc_id``; values as for :meth:`insert_documents`."""
        from lshdb.storage.schema import document

        if rows:
            columns = ", ".join(f"{name} = ?" for name in document.columns.keys()[1:])
            self._connection.exec_driver_sql(
                f"UPDATE document SET {columns} WHERE doc_id = ?",
                [(*values, doc_id) for doc_id, *values in with_checksums(rows)],
            )

    def release_signatures(self, signature_ids: Sequence[int], batch_id: int) -> None:
        """Record that a document left each of some signatures; it may have been the last one."""
        rows = ((signature_id, batch_id) for signature_id in signature_ids)
        names = ("signature_id", "batch_id")
        dialect.insert_rows(self._insert, "signature_release", names, rows)

    def delete_documents(self, doc_ids: Sequence[int]) -> None:
        """Delete documents and their texts; their postings stay until the index is compacted."""
        for start in range(0, len(doc_ids), 10_000):
            some = dialect.encode_list(doc_ids[start : start + 10_000])
            for table in ("content", "document"):
                self.execute(f"DELETE FROM {table} WHERE {dialect.in_list('doc_id')}", (some,))

    def touch_documents(self, documents: Sequence[StoredDocument], seen_at: str) -> None:
        """Set ``last_seen_at`` of documents that came in again unchanged."""
        if documents:
            seen = (replace(document, last_seen_at=seen_at) for document in documents)
            self._connection.exec_driver_sql(
                "UPDATE document SET last_seen_at = ?, checksum = ? WHERE doc_id = ?",
                [(seen_at, row_checksum(one.values()), one.doc_id) for one in seen],
            )

    def put_bodies(
        self, rows: Iterable[tuple[int, str, bytes]], *, replaced: Sequence[int] = ()
    ) -> None:
        """Insert rows of ``content`` (doc_id, form, body); those of ``replaced`` go first."""
        from lshdb.storage.schema import content

        if replaced:
            self.execute(
                f"DELETE FROM content WHERE {dialect.in_list('doc_id')}",
                (dialect.encode_list(replaced),),
            )
        dialect.insert_rows(self._insert, content.name, content.columns.keys(), rows)

    def open_batch(self, *, started_at: str, source: str, add_id: int | None = None) -> int:
        """Insert the row of ``batch`` that the documents refer to; its counts are still zero.

        Without ``add_id`` it is the first of its add. Returns its number.
        """
        from lshdb.storage.schema import batch

        last = self.snapshot.last_batch()
        batch_id = last.batch_id + 1 if last else 1
        counts = {each.name: 0 for each in batch.columns if each.name.startswith("n_")}
        row = {
            "batch_id": batch_id,
            "add_id": batch_id if add_id is None else add_id,
            "started_at": started_at,
            "finished_at": started_at,
            "source": source,
            "unicode_version": unicodedata.unidata_version,
        }
        self._connection.execute(batch.insert(), [{**row, **counts}])
        self.batch_id = batch_id
        return batch_id

    def update_batch(self, batch_id: int, values: Mapping[str, Any]) -> None:
        """Complete the row of ``batch`` with counts and the time of its end."""
        from lshdb.storage.schema import batch

        chosen = batch.update().where(batch.c.batch_id == batch_id)
        self._connection.execute(chosen.values(**values))
        self._seal("batch", f"batch_id = {batch_id:d}")

    def seal(self) -> None:
        """Give the row of ``state`` its checksum, before the commit."""
        self._seal("state", "state_id = 1")

    def _seal(self, table: str, condition: str) -> None:
        row = self.execute(f"SELECT * FROM {table} WHERE {condition}").fetchone()
        checksum = row_checksum(row[:-1])
        if checksum != row[-1]:
            self.execute(f"UPDATE {table} SET checksum = ? WHERE {condition}", (checksum,))


class Writer:
    """The one writer of an index; a context manager that holds the lock.

    Parameters
    ----------
    store : Store
    lock_timeout : float
        Seconds to wait for another writer.

    Raises
    ------
    LockedError
        On entering, where another writer held the lock for all of the timeout.
    """

    def __init__(self, store: Store, *, lock_timeout: float) -> None:
        self._store = store
        creation = store.creation
        self._lock = creation.lock if creation else WriterLock(store.directory.lock, lock_timeout)
        self._exits = contextlib.ExitStack()
        self._usable = False
        self._process = os.getpid()

    def __enter__(self) -> Writer:
        self._store.require_open()
        with contextlib.ExitStack() as exits:
            if self._store.creation is None:
                self._lock.acquire()
            exits.callback(self._release)
            self._connect()
            exits.callback(self._disconnect)
            self._usable = True
            with self.transaction() as transaction:
                snapshot = transaction.snapshot
                revision = snapshot.execute("SELECT version_num FROM alembic_version").fetchone()
                check_revision(revision[0] if revision else None, self._store.directory.path)
                self._store.check_banding(snapshot)
                snapshot.signature_file.check_header(snapshot.n_signatures, is_writer=True)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process != os.getpid():  # a fork's: connection and lock are the other process's
            _FORKED.append(self._exits.pop_all())
            return
        if self._usable:
            self._usable = False
            with contextlib.suppress(Exception):
                dialect.checkpoint(self._connection.connection.driver_connection)
        self._exits.close()

    def _connect(self) -> None:
        self._engine = dialect.open_writer_engine(self._store.database)
        with self._translated():
            self._connection = self._engine.connect()

    def _disconnect(self) -> None:
        self._connection.close()
        self._engine.dispose()

    def _release(self) -> None:
        """Give the lock back; that of an index which is still aside is kept until it is closed."""
        if self._store.creation is None:
            self._lock.release()

    def _settle(self) -> None:
        """Bring a new index to its place, with its first commit in it.

        Nobody else can have opened the database, and it is closed for the renaming: SQLite knows
        its files by their names.
        """
        self._usable = False
        dialect.checkpoint(self._connection.connection.driver_connection)
        self._disconnect()
        self._store.settle()
        self._connect()
        self._usable = True

    @contextlib.contextmanager
    def transaction(self) -> Iterator[WriteTransaction]:
        """One transaction: committed at the end of the block, rolled back on any error.

        Raises
        ------
        DatabaseError
            The database failed. Where that was at COMMIT the message says that the outcome is
            unknown, and the writer is not usable any more.
        """
        if not self._usable or self._process != os.getpid():
            raise LshdbError("the writer is closed", hint="open the index again")
        with self._translated():
            running = self._connection.begin()
            try:
                transaction = WriteTransaction(self._connection, self._store)
                yield transaction
                transaction.seal()
            except BaseException:
                self._roll_back(running.rollback)
                raise
            try:
                running.commit()
            except Exception as error:
                self._usable = False
                raise DatabaseError(
                    f"the database {self._store.database} failed while committing: {error}; "
                    "whether the batch is in is not known",
                    hint="run the same command again: what is in already will be left unchanged",
                ) from error
            except BaseException:
                self._usable = False
                raise
            if transaction.n_signatures != transaction.snapshot.n_signatures:
                with contextlib.suppress(OSError):
                    transaction.snapshot.signature_file.set_header(transaction.n_signatures)
        creation = self._store.creation
        if creation and transaction.batch_id is not None and not creation.is_whole_only:
            self._settle()

    def tidy(self) -> None:
        """Merge the posting runs that are due, each merge in a transaction of its own."""
        while self._merge_due(most=FAN_IN):
            pass

    def limit_runs(self) -> None:
        """Merge in the middle of an add, where it has made very many runs."""
        self._merge_due(most=MOST_RUNS)

    def _merge_due(self, *, most: int) -> bool:
        with self.transaction() as transaction:
            due = transaction.runs.due(most=most)
            if due:
                transaction.runs.merge(due)
        return bool(due)

    def _roll_back(self, rollback: Callable[[], None]) -> None:
        try:
            rollback()
        except Exception:
            self._usable = False

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the errors of database and file system into ours, once, with the cause."""
        from sqlalchemy.exc import SQLAlchemyError

        with self._store.diagnosed():
            try:
                yield
            except SQLAlchemyError as error:
                cause = getattr(error, "orig", None) or error
                raise DatabaseError(
                    f"the database {self._store.database} failed: {cause}; "
                    "the batch that was being written is not in",
                    hint="check the free space and the permissions of its folder",
                ) from error
            except OSError as error:
                raise DatabaseError(
                    f"writing to the index {self._store.directory.path} failed: "
                    f"{error.strerror or error}; the batch that was being written is not in",
                    hint="check the free space and the permissions of its folder",
                ) from error
