"""An SQLite database: its file, and the connections to it.

Decisions, with their reasons:

* WAL with synchronous=FULL: readers never wait for the writer, and an acknowledged commit survives
  a power cut (with NORMAL it may not).
* The driver's own transaction handling is switched off (isolation_level=None) and BEGIN is sent by
  us: the driver would otherwise commit before DDL statements, and a reband would
  be split in two.
* Reading goes through the DB-API driver alone, because importing SQLAlchemy takes longer (0.3 s)
  than a whole cold query may. Writing does so, too: a small add took half its time for importing
  SQLAlchemy. Where statements depend on the schema, as in migrations, SQLAlchemy has the driver's
  connection (:attr:`OpenSqlite.alchemy`); what a new database is made of is frozen text of its.
* Pages of 8 KiB: sorted loads were up to a half faster than with 4 KiB.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lshdb.errors import (
    DamageError,
    DatabaseError,
    IndexExistsError,
    LshdbError,
    ParameterError,
    ReadOnlyError,
    system_hint,
    write_hint,
)
from lshdb.files.mounts import shared_file_system
from lshdb.files.own_files import UnfitFileError, refuse_unfit, writing_fails
from lshdb.storage.dialects.base import (
    Database,
    GuardedReader,
    OpenDatabase,
    Reader,
    Session,
    close_with,
)
from lshdb.storage.dialects.database_urls import hide_passwords
from lshdb.storage.dialects.sqlite.connections import (
    SUFFIXES,
    Connection,
    WriterConnection,
    begin_reading,
    bring_in_log,
    commit_durably,
    empty_log,
    make_file,
    open_for_reading,
    replace_database,
    share_log_files,
)
from lshdb.storage.dialects.sqlite.sqlite_session import SqliteSession
from lshdb.storage.dialects.sqlite.trust import (
    REVISION_TABLE,
    band_statements,
    foreign_object,
)
from lshdb.storage.tables.stored_columns import BAND_TABLE, band_columns, indexed_columns

if TYPE_CHECKING:
    from sqlalchemy import Connection as AlchemyConnection

_SHARED_DISK = "LSHDB_SHARED_DISK"
"""Variable of the environment: ``allow`` says that only this host uses the file, or nobody writes.
"""

__all__ = ["SqliteDatabase", "SqliteReader"]

PAGE_SIZE = 8192
WRITER_CACHE_KIB = 32 * 1024
LOG_KIB = 256 * 1024
"""A commit that makes the log so long brings it into the database itself. Before that, a long add
does so in another thread (:meth:`SqliteDatabase.checkpoint`), and every writer at its end."""
_BAND_INDEXES_SQL = (
    f"SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = '{BAND_TABLE}'"
)
_FILES_AT_ONCE = 8
"""More than SQLite opens for one connection."""
_ALL_SUFFIXES = (*SUFFIXES, "-journal")
"""Of all that SQLite may open."""
_OF_WRITING = {
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
}  # fmt: skip
"""Codes behind which the system has said why a file cannot be written to."""
_PASSING = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
)  # fmt: skip
"""Codes of errors that say nothing about what is stored."""

_OWN_FILES = re.compile(r"index(\.next)?\.toml|lock|signatures(\.\d+)?\.npy")


class SqliteDatabase(Database):
    """A database file.

    Parameters
    ----------
    follows_links : bool
        Whether it may be reached by a symbolic link: not if it lies in an index.
    """

    driver_errors = (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError)
    # The driver decodes SQLite's messages, which quote a damaged schema as it is.

    path: Path

    def __init__(self, path: Path, *, follows_links: bool = False) -> None:
        self.path = path
        self._follows_links = follows_links
        self._reserved: os.stat_result | None = None
        self._trusted: list[tuple[Any, ...]] | None = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def short_name(self) -> str:
        """Name of the file."""
        return self.path.name

    @classmethod
    def by_url(cls, url: str | None, directory: Path) -> SqliteDatabase:
        """Return ``index.db`` in the index, or the file of an sqlite URL.

        A relative path in a URL is taken from the index directory.

        Raises
        ------
        ParameterError
            The URL does not name a file that can be a database.
        """
        if url is None:
            return cls(directory / "index.db")
        shown = hide_passwords(url)
        rest = url.partition("://")[2]
        path = rest.removeprefix("/")
        if path == rest or not path or path == ":memory:":
            raise ParameterError(
                f"the database URL {shown!r} names no file", hint="give sqlite:///PATH"
            )
        if "?" in path or "\0" in path:
            raise ParameterError(
                f"the database URL {shown!r} holds a ? or a NUL; a path of SQLite takes no "
                "settings",
                hint="give sqlite:///PATH",
            )
        if _OWN_FILES.fullmatch(Path(path).name) and (directory / path).parent == directory:
            raise ParameterError(
                f"the database URL {shown!r} names a file that the index uses for something else",
                hint="give another file name",
            )
        return cls(directory / path, follows_links=Path(path).is_absolute())

    def is_damage(self, error: Exception) -> bool:
        """Return whether the driver's error says that the file is damaged."""
        if isinstance(error, UnicodeDecodeError):
            return True
        cause = getattr(error, "orig", None) or error
        code = getattr(cause, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_CONSTRAINT_CHECK or str(cause) == "integer overflow":
            return True  # a number that lshdb did not write
        return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

    def is_passing(self, error: Exception) -> bool:
        """Return whether another one has it locked, or memory, space or files have run out."""
        cause = getattr(error, "orig", None) or error
        return (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF in _PASSING

    def hint(self, error: BaseException, otherwise: str) -> str:
        """Return what to do, also if SQLite hides what the system said.

        It says "readonly database", "disk I/O error" or "disk is full" for many an error of the
        system, so the same is tried again.
        """
        cause = getattr(error, "orig", None) or error
        code = getattr(cause, "sqlite_errorcode", None)
        if code is not None and code & 0xFF == sqlite3.SQLITE_CANTOPEN:
            with contextlib.ExitStack() as opened:
                try:
                    for _ in range(_FILES_AT_ONCE):
                        opened.enter_context(open(os.devnull, "rb"))
                except OSError as failure:
                    return system_hint(failure) or otherwise
        if code is not None and (code & 0xFF in _OF_WRITING or code in _OF_WRITING):
            refusal = writing_fails(self.path.parent, self.files)
            if refusal is None and code & 0xFF == sqlite3.SQLITE_FULL:
                refusal = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if refusal is not None:
                return write_hint(refusal, otherwise)
        return otherwise

    def lies_in(self, directory: Path) -> bool:
        """Return whether the file is in that directory, or in one below it."""
        return directory.resolve() in self.path.resolve().parents

    def identity(self) -> tuple[int, ...]:
        """Return the device and the number of the file."""
        try:
            file = os.stat(self.path)
        except OSError:
            return ()
        return file.st_dev, file.st_ino

    # Making

    def refuse_existing(self) -> None:
        """Raise an IndexExistsError if there is a file, or one that SQLite would take for its log.

        A symbolic link counts too, wherever it leads.
        """
        for path in (f"{self.path}{suffix}" for suffix in _ALL_SUFFIXES):
            if os.path.lexists(path):
                raise IndexExistsError(
                    f"there is a file at {path} already",
                    hint="give another --database, or remove the file",
                )

    def reserve(self) -> None:
        """Make the file, empty; it must not exist.

        Raises
        ------
        DatabaseError
            It cannot be made.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise DatabaseError(
                f"cannot make the database {self}: {error.strerror}",
                hint=write_hint(
                    error,
                    "check that its folder exists, that you may write to it, and its free space",
                ),
            ) from error
        self._reserved = os.fstat(descriptor)
        os.close(descriptor)

    def refuse_foreign(self, connection: sqlite3.Connection) -> None:
        """Refuse a database with something in it that no migration made; see ``trust.py``.

        Raises
        ------
        DamageError
        """
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        if rows == self._trusted:
            return
        fault = foreign_object(rows, None)
        if fault is None and any(name == REVISION_TABLE for _, name, _ in rows):
            row = connection.execute(f"SELECT version_num FROM {REVISION_TABLE}").fetchone()
            revision = row and row[0]
            if (1,) in connection.execute("SELECT format FROM state").fetchall():
                revision = f"{revision} of format 1"  # whose revisions have the same numbers
            fault = foreign_object(rows, revision, is_damaged=self.is_damaged)
        if fault is not None:
            raise DamageError(
                f"the database {self} is not as lshdb made it: it {fault}",
                hint="do not use it if it comes from elsewhere; otherwise restore it from a copy; "
                "if an lshdb before the first release made it, add its documents to a new index",
            )
        self._trusted = rows

    def refuse_unfit(self) -> None:
        """Refuse what SQLite would wait for, or follow to another file.

        SQLite opens the files after this check, so a user who may write to the directory can still
        exchange a file in between.

        Raises
        ------
        DamageError
            A file of the database is not a regular file.
        """
        for suffix in _ALL_SUFFIXES:
            follows = self._follows_links and not suffix
            try:
                refuse_unfit(f"{self.path}{suffix}", follows_links=follows)
            except UnfitFileError as error:
                raise DamageError(
                    f"cannot open the database {self.path}{suffix}: {error.strerror}",
                    hint="put the file itself there, or restore the index from a copy",
                ) from error
            except OSError:
                return  # SQLite says what keeps the file from being opened

    def refuse_lost(self) -> None:
        """Refuse a file that is gone or was emptied: SQLite takes nothing for a new database.

        Raises
        ------
        DamageError
        """
        try:
            if os.stat(self.path).st_size:
                return
            what = "has 0 bytes"
        except FileNotFoundError:
            if self._follows_links:  # it lies outside the index, perhaps on a disk that is away
                return
            what = "is gone"
        except OSError:
            return  # SQLite says what keeps the file from being opened
        raise DamageError(
            f"the database {self.path} {what}",
            hint="restore it from a copy (lshdb copy, or a backup of the file without its -wal and "
            "-shm): the other files may be newer; without a copy, move the index away and add its "
            "documents anew",
        )

    def new_schema(self, bands: int) -> Sequence[str]:
        """Return what the migrations make, and the table of bands with its views.

        Without Alembic and SQLAlchemy, which take .4 s to import.
        """
        from lshdb.storage.dialects.sqlite.new_schema import STATEMENTS

        return (*STATEMENTS, *band_statements(bands))

    def moved(self, directory: Path, target: Path) -> SqliteDatabase:
        """Return the file in the index's new directory, or itself if it lies outside."""
        if self.path.is_relative_to(directory):
            return SqliteDatabase(target / self.path.relative_to(directory))
        return self

    def remove(self, uuid: str) -> None:
        """Remove the file and what belongs to it, unless another file has taken its place."""
        if self._reserved is not None:
            try:
                if not os.path.samestat(os.lstat(self.path), self._reserved):
                    return
            except OSError:
                return
        for suffix in SUFFIXES:
            with contextlib.suppress(OSError):
                os.unlink(f"{self.path}{suffix}")

    # Connections

    def open_reader(self) -> SqliteReader:
        """Open a connection that can only read; see ``connections.py``."""
        return SqliteReader(self)

    def open_file(self) -> tuple[Connection, bool]:
        """Open a connection that can only read; return it, and whether for one transaction only.

        Raises
        ------
        DatabaseError
            The file cannot be opened.
        DamageError
            It is gone or no regular file, or its schema is not that of an index.
        """
        self.refuse_unfit()
        self.refuse_lost()
        is_shared = self._shared() is not None
        return open_for_reading(self, self.path, self.refuse_foreign, is_shared=is_shared)

    def _shared(self) -> str | None:
        """Return the type of the file system if other hosts may use the file on it, too."""
        return None if os.environ.get(_SHARED_DISK) == "allow" else shared_file_system(self.path)

    def _refuse_shared(self) -> None:
        """Refuse to write where SQLite's write-ahead log does not work.

        Raises
        ------
        ReadOnlyError
        """
        kind = self._shared()
        if kind is not None:
            raise ReadOnlyError(
                f"cannot write to the database {self}: it lies on a file system that hosts share "
                f"({kind}), where SQLite's log does not work",
                hint="keep it on a local disk, or in Postgres: see lshdb guide elsewhere; if no "
                f"other host ever uses it, set {_SHARED_DISK}=allow",
            )

    def open_guarded(self, timeout: float | None) -> GuardedReader:
        """Open a connection for a statement of the user."""
        from lshdb.storage.dialects.sqlite.sqlite_guard import SqliteGuardedReader

        connection, _ = self.open_file()
        try:
            connection = begin_reading(connection, lambda: self.open_file()[0])
        except self.driver_errors as error:
            connection.close()
            raise self.translation(error) from error
        return SqliteGuardedReader(connection, timeout)

    def open_writer(self) -> OpenSqlite:
        """Open a connection whose transactions are explicit, immediate and durable."""
        self.refuse_unfit()
        self._refuse_shared()
        make_file(self.path)
        connection = sqlite3.connect(
            os.path.abspath(self.path),  # never a URI
            factory=WriterConnection,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA busy_timeout=30000")
            connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
            connection.execute("PRAGMA journal_mode=WAL")
            commit_durably(connection)
            share_log_files(self.path)
            connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KIB}")
            connection.execute(f"PRAGMA wal_autocheckpoint={LOG_KIB * 1024 // PAGE_SIZE}")
            # Looking up what each row refers to costs 2.4 us a document, with the copies of pages
            # that SQLite then keeps for each statement. ``check`` finds what it would refuse.
            connection.execute("PRAGMA foreign_keys=OFF")
            connection.execute("PRAGMA trusted_schema=OFF")
            # Some builds of SQLite write zeros over pages that become free. Rows within pages are
            # blanked.
            connection.execute("PRAGMA secure_delete=FAST")
        except BaseException:
            connection.close()
            raise
        return OpenSqlite(connection)

    def session(self, connection: OpenDatabase) -> Session:
        """Return the transaction that a writer's connection has open."""
        return SqliteSession(self, connection.driver, is_reader=False)

    def remake_bands(self, connection: OpenDatabase, bands: int) -> None:
        """Drop the table, and make it again without indexes: those are made once rows are in it."""
        from lshdb.storage.tables import band_schema

        band_schema.drop_bands(connection.alchemy)
        band_schema.make_bands(connection.alchemy, bands)

    def has_indexed_bands(self, connection: OpenDatabase, bands: int) -> bool:
        """Return whether each column has an index, or none is wanted."""
        is_wanted, indexed = self._band_indexes(connection)
        return not is_wanted or indexed.issuperset(band_columns(bands))

    def complete_bands(self, connection: OpenDatabase, bands: int) -> None:
        """Make the indexes on bands if the state asks for them, else drop them."""
        from lshdb.storage.tables.band_schema import index_bands

        is_wanted, indexed = self._band_indexes(connection)
        index_bands(connection.alchemy, bands, indexed=indexed, is_wanted=is_wanted)

    @staticmethod
    def _band_indexes(connection: OpenDatabase) -> tuple[bool, set[str]]:
        """Return whether the state asks for indexes, and which columns have one."""
        driver = connection.driver
        ((is_wanted,),) = driver.execute("SELECT index_bands FROM state").fetchall()
        names = driver.execute(_BAND_INDEXES_SQL).fetchall()
        return bool(is_wanted), indexed_columns(name for (name,) in names)

    def free_memory(self, connection: OpenDatabase) -> None:
        """Empty the cache of pages: a batch reads few pages that the batch before has written."""
        connection.driver.execute("PRAGMA shrink_memory")

    def checkpoint(self) -> None:
        """Bring the write-ahead log into the database, by a connection of its own."""
        with contextlib.suppress(sqlite3.Error, LshdbError):
            bring_in_log(self.path)

    def rest(self, connection: OpenDatabase) -> None:
        """Bring the write-ahead log into the database as far as readers allow, without waiting."""
        empty_log(connection.driver)

    def vacuum(self, connection: OpenDatabase) -> None:
        """Rewrite the database without free pages; readers go on with the old ones meanwhile.

        The next checkpoint shortens the file; it waits for no reader.
        """
        connection.driver.execute("VACUUM")
        empty_log(connection.driver)

    def replace_whole(self, source: Database) -> bool:
        """Replace the content of this file by that of another."""
        if not isinstance(source, SqliteDatabase):
            return False
        replace_database(source.path, self.path)
        return True

    # Sizes

    @property
    def files(self) -> tuple[Path, ...]:
        """The database, its write-ahead log, and the log's index."""
        return tuple(self.path.with_name(self.path.name + suffix) for suffix in SUFFIXES)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of the file and of its write-ahead log."""
        return _size(self.path), _size(self.path.with_name(self.path.name + "-wal"))


class OpenSqlite(OpenDatabase):
    """A connection to the file that may write."""

    driver: WriterConnection

    def __init__(self, connection: WriterConnection) -> None:
        self.driver = connection
        close_with(self, connection)

    @functools.cached_property
    def alchemy(self) -> AlchemyConnection:
        """The same connection for SQLAlchemy, which begins and ends nothing."""
        from sqlalchemy import create_engine
        from sqlalchemy.pool import StaticPool

        engine = create_engine(
            "sqlite://", creator=lambda: _Lent(self.driver), poolclass=StaticPool
        )
        connection = engine.connect()
        connection.begin()
        return connection

    def begin(self) -> None:
        """Begin a transaction, and wait for another writer now."""
        self.driver.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End the transaction."""
        self.driver.commit()

    def rollback(self) -> None:
        """Undo the transaction, if an error has not done so."""
        self.driver.rollback()

    def close(self) -> None:
        """Close the connection."""
        self.driver.close()


class _Lent:
    """A connection of another owner, who begins and ends its transactions and closes it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def commit(self) -> None:
        """Do nothing."""

    rollback = close = commit


class SqliteReader(Reader):
    """A connection to the file that can only read."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._connection = self._reopened()
        self._session = SqliteSession(database, self._connection, is_reader=True)

    def begin(self) -> SqliteSession:
        """Begin a transaction on the present state."""
        try:
            connection = begin_reading(self._connection, self._reopened)
        except self._database.driver_errors as error:
            raise self._database.translation(error) from error
        if connection is not self._connection:
            self._connection = connection
            self._session = SqliteSession(self._database, connection, is_reader=True)
        return self._session

    def _reopened(self) -> Connection:
        connection, self.is_fleeting = self._database.open_file()
        close_with(self, connection)
        return connection

    def end(self) -> None:
        """End the transaction, if there is one."""
        if self._connection.is_closed:  # and could not be opened again
            self.is_fleeting = True
            return
        self._connection.rollback()
        self._connection.is_idle = True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
