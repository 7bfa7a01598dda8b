"""Connections to a database file, the files beside it that readers need, and copies of it.

SQLite keeps a state for a reader by locks in ``-shm`` and the log in ``-wal``. It removes both
files when the last connection that may write is closed, and only a user who may write to the
directory can make them again. So a writing connection leaves them there
(:class:`WriterConnection`). Then every other user, and every read-only mount of the directory,
reads beside the writer as the owner does.

Decided:

* Without these files ``immutable=1`` would open the database, with no locks and no log: a reader
  would mix the states before and after a checkpoint. It is used only on read-only file systems,
  where nobody could make the files. Such a mount may show a directory that is written elsewhere. So
  the files are checked again after every read, before the result is handed out (:class:`_Watched`).
  Anywhere else a reader is refused, and told what to do.
* SQLite's record of locks belongs to the process and survives a fork; the locks themselves do not.
  A child that opens a file which its parent had open would rely on locks that it does not hold, and
  read a mixture of states while another process writes. Connections that were idle at the fork can
  be closed in the child, which clears the record; the file is then opened as by any other process.
  Connections in use cannot be closed. A thread that did not survive the fork may have held their
  mutex, now for ever, and closing one in the middle of a transaction rolls that back in memory
  shared with the parent. So opening is refused while there are such connections. None of this
  happens before the child opens that very file: it may have been forked for another purpose, and
  other files are not concerned.

Limit: only connections of this library are known; a parent that has the file open through another
library (plain ``sqlite3``) is not noticed.

A copy, and what replaces a database, is made by SQLite's online backup: what replaces one in one
step, and a copy in many, all of the state that its open transaction sees.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import urllib.parse
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from lshdb.errors import DamageError, DatabaseError, LshdbError
from lshdb.files.descriptors import sync_file
from lshdb.files.process import Process
from lshdb.files.rights import create_file, take_rights
from lshdb.phases.phase import Phase
from lshdb.storage.dialects.base import ROWS_AT_FIRST, Database, next_piece

__all__ = [
    "SUFFIXES",
    "Connection",
    "WriterConnection",
    "begin_reading",
    "bring_in_log",
    "commit_durably",
    "copy_database",
    "empty_log",
    "make_file",
    "open_for_reading",
    "replace_database",
    "share_log_files",
]


SUFFIXES = ("", "-wal", "-shm")
"""Suffixes of the files that belong to a database."""
READER_CACHE_KIB = 32 * 1024
_BUSY_SECONDS = 30
_PAUSE_SECONDS = 0.005
_ROWS_A_LOOK = 1000
_PAGES_A_STEP = 512
"""Pages that are copied before the caller hears of it: 4 MiB."""
_READONLY_RECOVERY = 264
"""SQLITE_READONLY_RECOVERY: a writer has opened ``-shm`` and not filled it yet."""

_Result = TypeVar("_Result")
Inspection: TypeAlias = Callable[[sqlite3.Connection], None]

_OPEN: weakref.WeakSet[Connection] = weakref.WeakSet()
"""The connections of this process and, until they are closed, those from before a fork."""
_INHERITED: list[Connection] = []
"""Connections from before a fork; only :func:`_part_from_parent` closes them."""


class Connection(sqlite3.Connection):
    """A connection that belongs to the process that opened it.

    In a forked process, closing and rolling back do nothing.

    Attributes
    ----------
    is_idle : bool
        It is not in use, so a forked process may close it.
    version : int
        What :func:`begin_reading` saw: two transactions with one version read the same state.
    kept : tuple of int and Any, or None
        Something that was read, with the version that it was read at, for later transactions.

    Raises
    ------
    LshdbError
        This process was forked while its parent was using the file.
    """

    def __init__(self, database: str, *arguments: Any, **options: Any) -> None:
        self.path = _path_of(database)
        self.is_idle = False
        self.is_closed = False
        self.version = 0
        self.kept: tuple[int, Any] | None = None
        self._process = Process()
        self._identity: tuple[int, int] | None = None
        _part_from_parent(self.path)
        _OPEN.add(self)
        try:
            super().__init__(database, *arguments, **options)
        except BaseException:
            _OPEN.discard(self)
            raise
        self._identity = _identity(self.path)

    def is_of(self, path: str) -> bool:
        """Return whether it is a connection to that file."""
        if self._identity is None:  # the process was forked while it was opened
            return self.path == path
        return self._identity == _identity(path)

    def rollback(self) -> None:
        """End the transaction."""
        if self._process.is_this and not self.is_closed and self.in_transaction:
            # Prepared once; the driver's own rollback() prepares it each time.
            super().execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        if self._process.is_this:
            self.is_closed = True
            super().close()
            _OPEN.discard(self)

    def part(self) -> None:
        """Close it in a child of the process that opened it; it must be idle.

        The parent keeps its own: locks belong to a process, and the file was opened for reading.
        """
        super().close()


class WriterConnection(Connection):
    """A connection that may write, and leaves ``-wal`` and ``-shm`` where they are.

    SQLite removes them with the last connection that may do so. A second one, opened before it and
    closed after it, keeps it from being the last; as it only reads, it may not remove them.
    """

    def close(self) -> None:
        """Empty the log as far as readers allow, and close; the log's files stay.

        It raises nothing, not even for want of memory: what was written is committed or undone. A
        signal waits until it is done (``cli/launch.py``).
        """
        if self.is_closed or not self._process.is_this:
            return
        with contextlib.suppress(Exception):
            self.rollback()
            empty_log(self)
        with contextlib.suppress(Exception), contextlib.ExitStack() as exits:
            with contextlib.suppress(Exception):
                keeper = exits.enter_context(
                    contextlib.closing(Connection(_uri(self.path), uri=True))
                )
                keeper.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            super().close()


def commit_durably(connection: sqlite3.Connection) -> None:
    """Make commits and checkpoints of a connection survive a power cut; no transaction is open.

    On macOS, ``fullfsync`` writes it past the cache of the disk.
    """
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA fullfsync=ON")


def empty_log(connection: sqlite3.Connection) -> None:
    """Bring the write-ahead log into the database as far as readers allow, without waiting."""
    connection.execute("PRAGMA busy_timeout=0")
    commit_durably(connection)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def bring_in_log(path: Path) -> None:
    """Bring the write-ahead log into the database as far as nobody reads it, without waiting.

    The writer's next transaction then begins the log anew. It may be begun meanwhile: it writes
    behind what is brought in.

    Parameters
    ----------
    path : Path
        A writer has it open, so closing the connection here is not the last.

    Raises
    ------
    sqlite3.Error, LshdbError
    """
    with contextlib.closing(_connect(path)) as connection:
        commit_durably(connection)
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def make_file(path: Path) -> None:
    """Make an empty database with the rights of its directory, unless there is one.

    SQLite would make one that only its owner may write.
    """
    with contextlib.suppress(OSError):  # SQLite says what keeps it from being opened
        os.close(create_file(path))


def share_log_files(path: Path) -> None:
    """Let ``-wal`` and ``-shm`` be used by whoever may use the database.

    SQLite gives them its mode, and as root its owner, but neither its group nor its list.
    """
    for file in _log_files(Path(os.path.realpath(path))):
        take_rights(file, path)


def _make_log_files(path: Path) -> None:
    """Make ``-wal`` and ``-shm``, with owner and mode of the database, by reading from it.

    Raises
    ------
    sqlite3.Error
        They cannot be made.
    """
    with contextlib.closing(Connection(_uri(str(path)), uri=True)) as connection:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    share_log_files(path)


# The file as a whole


def copy_database(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the state that the connection's open reading transaction sees, and sync it.

    It reads through the connection, so what the transaction sees in the write-ahead log is copied,
    and later commits are not. The log itself is not copied.

    Parameters
    ----------
    connection : sqlite3.Connection
        With a reading transaction open.
    target : Path
        Must not exist.

    Raises
    ------
    sqlite3.Error
        Reading or writing failed; discard what there is of the target.
    """
    make_file(target)
    with contextlib.closing(_connect(target)) as copy:
        # Nobody sees the copy before it is complete and synced, so it needs no journal.
        copy.execute("PRAGMA journal_mode=OFF")
        copy.execute("PRAGMA synchronous=OFF")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        with Phase("bytes") as phase:
            connection.backup(
                copy,
                pages=_PAGES_A_STEP,
                progress=lambda _, left, total: phase.reached((total - left) * page_bytes),
            )
    _make_log_files(target)
    for place in (target, target.parent):
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)


def replace_database(source: Path, target: Path) -> None:
    """Replace the content of one database by that of another, in one durable transaction.

    Readers of the target go on with what they have begun to read, and see the new content from
    their next transaction on. The target may be damaged. For a while its write-ahead log holds all
    of the new content.

    Parameters
    ----------
    source : Path
        A database with the same page size, at rest.
    target : Path
        A database that nobody else is writing to.

    Raises
    ------
    sqlite3.Error
        Reading or writing failed; the target is as it was.
    """
    with (
        contextlib.closing(_connect(source)) as new,
        contextlib.closing(_connect(target, kind=WriterConnection)) as old,
    ):
        old.execute("PRAGMA busy_timeout=30000")
        commit_durably(old)
        new.backup(old, pages=-1, progress=_refuse_to_wait)


def _refuse_to_wait(status: int, remaining: int, total: int) -> None:
    """Raise where a database is still in use after its timeout; ``backup`` asks for ever."""
    if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise sqlite3.OperationalError("database is locked")


def _connect(path: Path, *, kind: type[Connection] = Connection) -> Connection:
    return kind(str(path), isolation_level=None)


# Reading


def open_for_reading(
    database: Database, path: Path, inspect: Inspection, *, is_shared: bool = False
) -> tuple[Connection, bool]:
    """Open a connection that can only read.

    Parameters
    ----------
    database : Database
        Named in messages.
    path : Path
        Its file.
    inspect : callable
        Called with a connection in its first transaction; may raise an error.
    is_shared : bool
        Other hosts may write to the file.

    Returns
    -------
    tuple
        The connection, and whether it serves one transaction only and is then opened again, because
        it would not notice writers.

    Raises
    ------
    DatabaseError
        The file cannot be opened.
    DamageError
        The file is damaged.
    """
    if is_shared:
        if not _log_is_empty(path):
            raise _written_elsewhere(database)
        return _watched(database, path, inspect, kind=_WatchedElsewhere), True
    end, is_last = time.monotonic() + _BUSY_SECONDS, False
    while True:
        try:
            connection = _configured(Connection, _uri(str(path)), inspect)
            share_log_files(path)
            return connection, False
        except database.driver_errors as error:
            if _is_unfilled(error) and time.monotonic() < end:
                time.sleep(_PAUSE_SECONDS)  # a user who may write does the writer's work here
                continue
            if not _is_refused(error) or not os.access(path, os.R_OK):
                raise _not_opened(database, path, error) from error
            missing = [file for file in _log_files(path) if not file.exists()]
            if missing and not os.access(path.parent, os.W_OK):
                if _log_is_empty(path) and _is_read_only(path.parent):
                    return _watched(database, path, inspect), True
                raise _without_log_files(database, path, missing) from error
            if is_last:
                raise _not_opened(database, path, error) from error
            is_last = True  # a writer may have made or removed them meanwhile


def begin_reading(connection: Connection, reopen: Callable[[], Connection]) -> Connection:
    """Begin a transaction, and fix the state that it reads.

    Parameters
    ----------
    reopen : callable
        Opens another connection.

    Returns
    -------
    Connection
        This one, or another instead: if a writer was killed before it had filled ``-shm``, no
        connection notices while one to that file stays open.

    Raises
    ------
    sqlite3.Error, LshdbError
    """
    end = None
    while True:
        try:
            _begin(connection)
            return connection
        except sqlite3.OperationalError as error:
            end = end or time.monotonic() + _BUSY_SECONDS
            if not _is_unfilled(error) or time.monotonic() > end:
                raise
        connection.close()
        connection = reopen()


def _begin(connection: Connection) -> None:
    """Begin a transaction; the first statement fixes its state.

    That statement asks for the number that SQLite raises when it drops its cached pages, because
    another connection has committed. So its cache and what is kept here go stale together.
    """
    connection.is_idle = False
    connection.execute("BEGIN")
    try:
        (connection.version,) = connection.execute("PRAGMA data_version").fetchone()
    except BaseException:
        connection.rollback()
        raise


def _is_unfilled(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == _READONLY_RECOVERY


def _configured(kind: type[Connection], uri: str, inspect: Inspection) -> Connection:
    connection = kind(
        uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    try:
        connection.execute("PRAGMA query_only=ON")
        connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
        connection.execute("PRAGMA mmap_size=0")
        connection.execute("PRAGMA trusted_schema=OFF")
        _begin(connection)
        inspect(connection)
        connection.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB}")  # reads the schema
        connection.rollback()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_refused(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _not_opened(database: Database, path: Path, error: Exception) -> LshdbError:
    kind = DamageError if database.is_damage(error) else DatabaseError
    names = ", ".join(file.name for file in _log_files(path))
    return kind(
        f"cannot open the database {database}: {error}",
        hint=database.hint(
            error, f"check that the path is an index and that you may read it, {names} included"
        ),
    )


def _without_log_files(database: Database, path: Path, missing: list[Path]) -> DatabaseError:
    names = " and ".join(file.name for file in missing)
    return DatabaseError(
        f"cannot read the database {database}: you may not write to {path.parent}, so "
        f"{names} must be there",
        hint="ask a user who may write there to run a command on the index once, such as lshdb "
        "stats; that makes the files, and they stay",
    )


def _written_elsewhere(database: Database) -> DatabaseError:
    return DatabaseError(
        f"cannot read the database {database}: it lies on a file system that hosts share, and its "
        "log is not empty, so another host is writing to it or was killed meanwhile",
        hint="try again; if nobody writes, add something on the host that writes: that empties "
        "the log. Better keep the database in Postgres: see lshdb guide elsewhere",
    )


# On a file system that is read-only, or that hosts share


class _Watched(Connection):
    """A connection to a file whose log cannot be used, opened as one that does not change.

    The files are checked after each read, before its result is handed out.
    """

    _is_elsewhere = False

    def __init__(self, database: str, *arguments: Any, **options: Any) -> None:
        self._before = _looks(_path_of(database), is_elsewhere=self._is_elsewhere)
        super().__init__(database, *arguments, **options)

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor that checks the files again."""
        return super().cursor(_WatchedCursor)

    def execute(self, *arguments: Any) -> Any:
        """Run a statement; the driver alone would use a cursor of its own class."""
        return self.cursor().execute(*arguments)

    def backup(self, target: sqlite3.Connection, **options: Any) -> None:
        """Copy the database."""
        self.watch(lambda: sqlite3.Connection.backup(self, target, **options))

    def watch(self, work: Callable[[], _Result]) -> _Result:
        """Run a function that reads; return its result if the files have not changed.

        Raises
        ------
        DatabaseError
            They have changed.
        """
        try:
            return work()
        finally:
            if _looks(self.path, is_elsewhere=self._is_elsewhere) != self._before:
                raise DatabaseError(
                    f"the database {self.path} was written to from elsewhere while it was read; it "
                    "lies on a file system that is read-only here or that hosts share, without the "
                    "files that keep a state for a reader, so the answer is not complete",
                    hint="try again; if it happens again, run lshdb stats once where the index "
                    "can be written to: it makes these files, and they stay",
                )


class _WatchedElsewhere(_Watched):
    """Of a file that another host may write to."""

    _is_elsewhere = True


class _WatchedCursor(sqlite3.Cursor):
    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._rows: deque[Any] = deque()
        self._piece = ROWS_AT_FIRST

    def execute(self, *arguments: Any) -> Any:
        self._rows.clear()
        self._piece = ROWS_AT_FIRST
        return self._watch(lambda: super(_WatchedCursor, self).execute(*arguments))

    def __next__(self) -> Any:
        if not self._rows:  # another host is asked once for many rows
            self._rows.extend(self.fetchmany(self._piece))
            if not self._rows:
                raise StopIteration
            self._piece = next_piece(self._rows, _ROWS_A_LOOK)
        return self._rows.popleft()

    def fetchone(self) -> Any:
        return self._watch(lambda: super(_WatchedCursor, self).fetchone())

    def fetchmany(self, *arguments: Any) -> Any:
        return self._watch(lambda: super(_WatchedCursor, self).fetchmany(*arguments))

    def fetchall(self) -> Any:
        return self._watch(lambda: super(_WatchedCursor, self).fetchall())

    def _watch(self, work: Callable[[], _Result]) -> _Result:
        return cast(_Watched, self.connection).watch(work)


def _watched(
    database: Database, path: Path, inspect: Inspection, *, kind: type[_Watched] = _Watched
) -> Connection:
    try:
        return _configured(kind, _uri(str(path), "&immutable=1"), inspect)
    except database.driver_errors as error:
        raise _not_opened(database, path, error) from error


def _looks(path: str, *, is_elsewhere: bool) -> list[tuple[int, ...] | None]:
    """Return what tells whether the database or its log has changed.

    A network's file system asks the other host when a file is opened, and not before.
    """
    states: list[tuple[int, ...] | None] = []
    for suffix in SUFFIXES:
        try:
            if is_elsewhere:  # nothing here has locks on it, which closing it would drop
                os.close(os.open(path + suffix, os.O_RDONLY | os.O_CLOEXEC))
            looks = os.stat(path + suffix)
        except FileNotFoundError:
            states.append(None)
        else:
            states.append((looks.st_ino, looks.st_size, looks.st_mtime_ns, looks.st_ctime_ns))
    return states


def _is_read_only(directory: Path) -> bool:
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


def _log_files(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in SUFFIXES[1:]]


def _log_is_empty(path: Path) -> bool:
    log, _ = _log_files(path)
    return not log.exists() or log.stat().st_size == 0


# Forks


def _part_from_parent(path: str) -> None:
    """Clear this process's record of its parent's connections to a file, or refuse to open it."""
    if not _INHERITED:
        return
    ours = [connection for connection in _INHERITED if connection.is_of(path)]
    if not all(connection.is_idle for connection in ours):
        raise LshdbError(
            f"the database {path} was in use in the process that this one, {os.getpid()}, was "
            "forked from; SQLite cannot open it here without mixing up the locks of the two",
            hint="start the process by spawn or forkserver (multiprocessing.get_context), or fork "
            "when nothing is being read from or written to the index",
        )
    for connection in ours:
        connection.part()
        _INHERITED.remove(connection)
        _OPEN.discard(connection)


def _after_fork() -> None:
    """Note the open connections in the child, and keep those in use from being closed.

    The interpreter would close it in its last moments; only a reference that is never given back
    prevents that.
    """
    _INHERITED[:] = list(_OPEN)
    used = [connection for connection in _INHERITED if not connection.is_idle]
    if used:
        with contextlib.suppress(ImportError):
            import ctypes

            for connection in used:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_after_fork)


def _uri(path: str, options: str = "") -> str:
    return f"file:{urllib.parse.quote(os.fsencode(os.path.abspath(path)))}?mode=ro{options}"


def _path_of(database: str) -> str:
    """Return the path in SQLite's name of a database."""
    if database.startswith("file:"):
        path = database.removeprefix("file:").partition("?")[0]
        return os.fsdecode(urllib.parse.unquote_to_bytes(path))
    return os.path.abspath(database)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        looks = os.stat(path)
    except OSError:
        return None
    return looks.st_dev, looks.st_ino
