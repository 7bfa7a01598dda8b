"""The commit protocol: how batches get onto disk whole or not at all.

Under the writer lock, in one SQL transaction for one batch or several:

1. the new signature rows of each batch, and their vectors where those are kept, are written past
   the rows before them, and each file is synced (fdatasync);
2. SQL brings documents, texts, rows of bands, the blocks' CRC-32 and the new count, which replaces
   the old one only if that is still what it was;
3. COMMIT, in WAL mode with synchronous=FULL.

Rows past the committed count do not exist, so a failure before COMMIT leaves nothing behind but
bytes that the next batch overwrites. A failure *at* COMMIT leaves the outcome unknown. Where the
connection was lost, and another one can be had, it is looked up by the mark that the transaction
left, and the work is done again if it is not in. Otherwise the writer touches nothing more, closes,
and says so; the next open reads from the database what became of it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TypeVar

from lshdb.errors import (
    DamageError,
    DatabaseError,
    IndexChangedError,
    LockedError,
    LshdbError,
    write_hint,
)
from lshdb.files.process import Process, leave_open
from lshdb.phases.phase import is_callers
from lshdb.storage.dialects.base import Fate
from lshdb.storage.orders.freezing import SortedRows
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.tables.migrations import check_revision
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Frozen, Store
from lshdb.threads import Task, Workers

__all__ = ["Writer"]

_Result = TypeVar("_Result")

logger = logging.getLogger("lshdb")

_MOST_SORTED_BYTES = 36 * 2**20
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.1


class Writer:
    """The one writer of an index; a context manager that holds the lock.

    Parameters
    ----------
    lock_timeout : float
        Seconds to wait for another writer.
    needs_signatures : bool
        Whether the signature file must be here; a change of SQL alone does not need it.
    on_wait : callable, optional
        Called before waiting for another writer, with the error of a wait that is too long.

    Attributes
    ----------
    began_empty : bool
        Whether the index had no signature on entering.

    Raises
    ------
    SignaturesElsewhereError
        On entering, before anything else, where the file is needed and lies on another host.
    LockedError
        On entering, where another writer held the lock for all of the timeout.
    """

    def __init__(
        self,
        store: Store,
        *,
        lock_timeout: float,
        needs_signatures: bool = True,
        on_wait: Callable[[LockedError], None] | None = None,
    ) -> None:
        self._store = store
        self._needs_signatures = needs_signatures
        creation = store.creation
        self._on_wait = on_wait
        self._lock = (
            creation.lock
            if creation
            else WriterLock(store.directory.lock, lock_timeout, on_wait=on_wait)
        )
        self._exits = contextlib.ExitStack()
        self._usable = False
        self.began_empty = False
        self._began: int | None = None
        self._has_unsorted = self._lacks_indexes = False
        self._sorted: SortedRows | None = None
        self._sorting: Task[SortedRows | None, Frozen] | None = None
        self._process = Process()

    def __enter__(self) -> Writer:
        self._store.require_open()
        if self._needs_signatures:
            self._store.require_signatures()
        with contextlib.ExitStack() as exits:
            exits.callback(self._release)  # before it is taken: Ctrl-C may come behind that
            if self._store.creation is None:
                self._store.directory.refuse_linked(self._store.database)
                self._lock.acquire()
            self._connect()
            exits.callback(self._disconnect)
            self._usable = True
            with self.translated():
                self._look()
            self._exits = exits.pop_all()
        return self

    def _look(self) -> None:
        """See whether the index is as it should be, and tidy its files up; nothing is committed.

        Where other hosts may write, that is under the lock that keeps them out: a caller whose turn
        it is not is told so before it has taken anything from its input.
        """
        store = self._store
        with contextlib.ExitStack() as opened:
            if store.database.serves_hosts:
                snapshot = opened.enter_context(self._attempt()).snapshot
            else:
                snapshot = opened.enter_context(store.reading())
            check_revision(snapshot.revision(), store.directory.path)
            if self._needs_signatures or snapshot.has_signatures:
                snapshot.check_row_files(is_writer=True)
            self._began = snapshot.n_signatures
            self._has_unsorted = bool(
                self._needs_signatures
                and self._began
                and snapshot.postings.cover(sorts=False) is None
            )
            self._lacks_indexes = not store.database.has_indexed_bands(
                self._connection, store.params.bands
            )
            self.began_empty = self._began == 0
            self.codec = snapshot.codec
            if snapshot.has_signatures:
                store.clear_leftovers(snapshot)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._process.is_this:  # a fork's: connection and lock are the other process's
            leave_open(self._exits.pop_all())
            return
        if self._usable:
            self._usable = False
            with contextlib.suppress(Exception):
                self._store.database.rest(self._connection)
        self._exits.close()

    def _connect(self) -> None:
        with self.translated():
            self._connection = self._store.database.open_writer()

    def _disconnect(self) -> None:
        self._connection.close()

    def _release(self) -> None:
        """Give the lock back; that of an index which is still aside is kept until it is closed."""
        if self._store.creation is None:
            self._lock.release()

    def _settle(self) -> None:
        """Bring a new index to its place, with its first commit in it.

        The database is closed for the renaming: SQLite knows its files by their names, and nobody
        else has opened it. The commit has taken effect, so no error here may look like its own.
        """
        self._usable = False
        with contextlib.suppress(Exception):
            self._store.database.rest(self._connection)
        self._disconnect()
        self._store.settle()
        self._reconnect()

    @property
    def may_repeat(self) -> bool:
        """Whether :meth:`commit` may call its work several times."""
        return self._store.database.may_repeat

    @property
    def is_making(self) -> bool:
        """Whether the index comes to its place with its first commit, which has not been made."""
        creation = self._store.creation
        return creation is not None and not creation.is_whole_only

    def commit(self, work: Callable[[WriteTransaction], _Result]) -> _Result:
        """Do some work in one transaction, and repeat it if the database asks for that.

        Parameters
        ----------
        work : callable
            Given the open transaction, it writes; what it gives is the result. It may be called
            several times, each time on the state that is committed then, and takes effect once.

        Raises
        ------
        DatabaseError
            The database failed and nothing was written, or, where the message says so, it is not
            known whether it was.
        """
        with self.translated():
            self.end_sorting()
            attempt = 0
            while True:
                attempt += 1
                try:
                    with self._attempt() as transaction:
                        result = work(transaction)
                    return result
                except self._store.database.errors() as error:
                    fate = self._store.database.fate(error)
                    if fate is Fate.FAILED or attempt == _ATTEMPTS:
                        raise
                    if fate is Fate.REPEATABLE:
                        time.sleep(_PAUSE_SECONDS * attempt)
                    elif not self._usable:
                        self._reconnect(error)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[WriteTransaction]:
        """One transaction: committed at the end of the block, rolled back on any error.

        Raises
        ------
        DatabaseError
            The database failed. Where that was at COMMIT and the database does not tell what became
            of it, the message says that, and the writer is not usable any more.
        """
        with self.translated():
            self.end_sorting()
            with self._attempt() as transaction:
                yield transaction

    @contextlib.contextmanager
    def _attempt(self) -> Iterator[WriteTransaction]:
        """One transaction; errors come as the driver raises them."""
        if not self._usable or not self._process.is_this:
            raise LshdbError("the writer is closed", hint="open the index again")
        self._sorted = None  # of rows that another transaction wrote, or failed to
        self._store.directory.refuse_linked(self._store.database)  # links may be made at any time
        self._connection.begin()
        try:
            self._lock_database()
            transaction = WriteTransaction(self._connection, self._store)
            self._check_same(transaction.snapshot)
            yield transaction
            is_changed = transaction.seal()
        except BaseException:
            self._roll_back()
            raise
        if not is_changed:
            self._end_unchanged()
            return
        try:
            self._connection.commit()
        except BaseException as error:
            self._usable = False
            if not isinstance(error, Exception) or not self._is_in(transaction.mark, error):
                raise
        with contextlib.suppress(Exception):  # the commit has taken effect
            self._store.database.free_memory(self._connection)
        if transaction.n_signatures != transaction.snapshot.n_signatures:
            with contextlib.suppress(OSError):
                transaction.snapshot.generation.set_header(transaction.n_signatures)
        creation = self._store.creation
        if creation and transaction.batch_id is not None and not creation.is_whole_only:
            self._settle()

    def _check_same(self, snapshot: Snapshot) -> None:
        """See that it is the index that was opened, and cut as it was then.

        Another host may cut it anew between two transactions. Once this writer has entered, it may
        have taken some of its input, so nobody is to begin again.

        Raises
        ------
        IndexChangedError
            This writer has not entered yet.
        LshdbError
        """
        self._store.check_uuid(snapshot.uuid)
        try:
            self._store.check_banding(snapshot.banding)
        except IndexChangedError as error:
            if self._began is None:
                raise
            raise LshdbError(
                f"{error.message}; what was being written is not in",
                hint="run the same command again: what is in already will be left unchanged",
            ) from error

    def _lock_database(self) -> None:
        """Keep writers of other hosts out until the transaction ends."""
        store = self._store
        store.database.lock(
            self._connection,
            store.uuid,
            timeout=self._lock.timeout,
            known_as=str(store.path),
            on_wait=self._on_wait,
        )

    def _is_in(self, mark: str | None, error: Exception) -> bool:
        """Whether a transaction is committed whose COMMIT failed; asked by another connection.

        Raises
        ------
        DatabaseError
            It cannot be known.
        """
        database = self._store.database
        fate = database.fate(error)
        if mark is None or fate is Fate.FAILED:
            raise self._unknown(error) from error
        try:
            self._reconnect(error)
            return fate is Fate.LOST and self._is_marked(mark)
        except self._store.database.errors(LshdbError) as failure:
            self._usable = False
            raise self._unknown(error) from failure

    def _is_marked(self, mark: str) -> bool:
        """Whether a transaction of that mark is committed, and not only not yet."""
        database = self._store.database
        with self._connection.transaction():
            if database.session(self._connection).has_mark(mark):
                return True
            # Whoever has the lock now may be the lost connection, still at work.
            self._lock_database()
            return database.session(self._connection).has_mark(mark)

    def _unknown(self, error: Exception) -> DatabaseError:
        database = self._store.database
        again = "run the same command again: what is in already will be left unchanged"
        cause = "" if self._connection.is_lost else database.hint(error, "")
        return DatabaseError(
            f"the database {database} failed while committing: {database.said(error)}; "
            "whether the batch is in is not known",
            hint=f"{cause}; then {again}" if cause else again,
        )

    def _reconnect(self, error: Exception | None = None) -> None:
        """Connect again, trying for as long as one waits for a lock.

        Raises
        ------
        Exception
            The error that made it necessary, if there was one, where no connection is to be had.
        """
        deadline = time.monotonic() + self._lock.timeout
        with contextlib.suppress(Exception):
            self._disconnect()
        while True:
            try:
                self._connect()
                break
            except DatabaseError as failure:
                if time.monotonic() >= deadline:
                    raise error or failure from None
                time.sleep(_PAUSE_SECONDS)
        self._usable = True

    def tidy(self, *, workers: int = 1) -> None:
        """Sort new rows into frozen orders, in threads; complete the table of bands.

        Each is committed by itself, and what fails is done by the next writer.
        """
        self.end_sorting()
        ready = self._take_sorted()
        self._store.freeze(add_start=self._began, ready=ready, workers=workers)
        if self._lacks_indexes:
            bands = self._store.params.bands
            self.commit(lambda transaction: transaction.complete_bands(bands))

    def sort_left(self) -> None:
        """Sort the rows that an earlier writer has left: contents are looked up in orders."""
        if self._has_unsorted:
            self._store.freeze()

    def sort_meanwhile(self, beside: Workers) -> None:
        """Begin to sort the rows of an add that goes on, for its readers, and to empty the log.

        Another thread may do so until the next transaction begins.
        """
        if not self.is_making:
            self._sorting = beside.submit(self._sort, self._take_sorted())

    def _sort(self, ready: SortedRows | None) -> Frozen:
        store = self._store
        store.database.checkpoint()
        return store.freeze(add_start=self._began, goes_on=True, ready=ready)

    def end_sorting(self) -> Frozen:
        """Wait for what :meth:`sort_meanwhile` has begun; an add that breaks off merges nothing."""
        sorting, self._sorting = self._sorting, None
        return Frozen(None, False) if sorting is None else sorting.result(helps=True)

    def keep_sorted(self, rows: SortedRows) -> None:
        """Keep the sorted bucket keys of rows that are being written, until orders need them.

        Those of many bands are let go of, and made again then: they take much memory.
        """
        self._sorted = rows if rows.planes.nbytes <= _MOST_SORTED_BYTES else None

    def _take_sorted(self) -> SortedRows | None:
        rows, self._sorted = self._sorted, None
        return rows

    def vacuum(self) -> None:
        """Give the space of deleted rows back to the file system.

        Raises
        ------
        DatabaseError
            There is not enough space for it; the index is as it was.
        """
        database = self._store.database
        try:
            database.vacuum(self._connection)
        except database.driver_errors as error:
            raise DatabaseError(
                f"the database {database} could not be made smaller: {database.said(error)}; "
                "nothing is lost",
                hint=database.hint(
                    error,
                    "it needs as much free space again as the database takes; then run lshdb "
                    "compact again",
                ),
            ) from error

    def _end_unchanged(self) -> None:
        """End a transaction that changed nothing, without a commit."""
        try:
            self._connection.rollback()
        except Exception:
            self._usable = False
            raise

    def _roll_back(self) -> None:
        try:
            self._connection.rollback()
        except Exception:
            self._usable = False
        if self._connection.is_lost:
            self._usable = False

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn the errors of database and file system into ours, once, with the cause.

        Errors out of the caller's own code stay as they are, whatever their kind.
        """
        try:
            yield
        except LshdbError:
            raise
        except Exception as error:
            if is_callers(error):
                raise
            otherwise = "check the free space and the permissions of its folder"
            database = self._store.database
            if isinstance(error, self._store.database.errors()):
                is_damage = database.is_damage(error)
                raise (DamageError if is_damage else DatabaseError)(
                    f"the database {database} failed: {database.said(error)}; "
                    "the batch that was being written is not in",
                    hint="run lshdb check" if is_damage else database.hint(error, otherwise),
                ) from error
            if isinstance(error, OSError):
                raise DatabaseError(
                    f"writing to the index {self._store.directory.path} failed: "
                    f"{error.strerror or error}; the batch that was being written is not in",
                    hint=write_hint(error, otherwise),
                ) from error
            self._store.diagnose(error)
            raise
