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
from collections.abc import Callable, Iterator
from types import TracebackType

from lshdb.errors import DatabaseError, LshdbError
from lshdb.storage.dialects import sqlite as dialect
from lshdb.storage.lock import WriterLock
from lshdb.storage.migrations import check_revision
from lshdb.storage.runs import FAN_IN, MOST_RUNS
from lshdb.storage.store import Store
from lshdb.storage.transaction import WriteTransaction

__all__ = ["Writer"]

_FORKED: list[contextlib.ExitStack] = []
"""What a fork has of its parent's writing; never closed."""


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
            with self.translated():
                self._store.clear_leftovers(snapshot.signature_file)
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
        with self.translated():
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
        with self.translated():
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

    def vacuum(self) -> None:
        """Give the space of what was deleted back to the file system.

        Raises
        ------
        DatabaseError
            There is not enough space for it; the index is as it was.
        """
        driver = self._connection.connection.driver_connection
        try:
            dialect.vacuum(driver)
        except dialect.DRIVER_ERRORS as error:
            raise DatabaseError(
                f"the database {self._store.database} could not be made smaller: {error}; "
                "nothing is lost",
                hint="it needs as much free space again as the database takes; "
                "then run lshdb compact again",
            ) from error

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
    def translated(self) -> Iterator[None]:
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
