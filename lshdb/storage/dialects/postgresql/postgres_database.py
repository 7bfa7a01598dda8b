"""A schema in a Postgres database: the connections to it, and its errors in plain words.

Decisions, with their reasons:

* An index is in one schema, and the sessions' search path is that schema alone. So statements name
  tables as on SQLite and never meet those of another index, or of ``public``.
* libpq reads the URL, so its other sources count too: the environment, a service, ``.pgpass``.
  SQLAlchemy is handed connections that are made here.
* Readers are REPEATABLE READ and READ ONLY: one state from the beginning to the end.
* Plans of our own statements are made once for any parameters, and use an index wherever there is
  one: our statements look rows up or read them in the order of an index. The server's own
  estimates, made for freshly filled tables and parameters it does not know, led to scans of whole
  runs, to helpers that take longer to start than the look-up, and to compilation (280 ms for a
  query of 0.3). Statements of the user are planned as the server likes.
* Writers are READ COMMITTED, and wait for each other before anything else in a transaction
  (``schema_place.py``): so they read what the writer before them has committed.
* Messages keep only the server's first message: its whole text can have several lines and point
  into a statement that the user never wrote. The hint is chosen by SQLSTATE.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.pq import TransactionStatus

from lshdb.errors import DatabaseError, LockedError, LshdbError, ParameterError
from lshdb.storage.dialects.base import (
    BucketContents,
    Database,
    Fate,
    GuardedReader,
    OpenDatabase,
    Reader,
    Session,
    close_with,
    pool_log,
)
from lshdb.storage.dialects.database_urls import hide_passwords
from lshdb.storage.dialects.postgresql.postgres_arrays import register_arrays
from lshdb.storage.dialects.postgresql.postgres_session import PostgresSession, ask
from lshdb.storage.dialects.postgresql.schema_place import (
    PRIVILEGES,
    drop_index,
    make_schema,
    refuse_unfit,
    take_lock,
)
from lshdb.storage.dialects.postgresql.server_connection import ServerConnection, quoted
from lshdb.storage.tables.stored_columns import BAND_INDEX, band_columns, indexed_columns

if TYPE_CHECKING:
    from sqlalchemy import Connection, RootTransaction

__all__ = ["PostgresDatabase", "hint_of", "said"]


# A lost connection is an error, too; without a handler libpq's notice of it goes to stderr.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_LONGEST_NAME = 63
"""Longest name in Postgres, in bytes; the server cuts a longer one without an error."""
_CONNECT_SECONDS = 10
"""Unless the URL or PGCONNECT_TIMEOUT sets another."""
_PLANNING = {
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_VACUUMED = ("document", "content", "band", "edge", "cluster_member")
_MAINTENANCE_MEMORY = "256MB"
_LOCK_SECONDS = 2
"""A reader who goes on for longer keeps the indexes of bands, and the rewriting slow."""
_BAND_COLUMNS_SQL = (
    "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass('band') "
    "AND NOT attisdropped AND attname ~ '^b[0-9]+$'"
)
_STORED_BANDS_SQL = (
    "SELECT count(*) FROM regexp_matches(pg_get_viewdef('posting'::regclass), 'AS bucket', 'g')"
)
_BAND_INDEXES_SQL = (
    "SELECT relname::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
    "WHERE indrelid = to_regclass('band') AND NOT indisprimary"
)
_GUARDED = {"default_transaction_read_only": "on", "standard_conforming_strings": "on"}
_READING = _PLANNING | {"default_transaction_read_only": "on"}
_WRITING = _PLANNING | {
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
"""A writer whose host vanished keeps its lock for two minutes, not for hours."""


class PostgresDatabase(Database):
    """A schema.

    Parameters
    ----------
    url : str
        ``postgresql+psycopg://...`` (or ``postgresql://``), without a password.
    schema : str
        Any name that Postgres accepts; always quoted.

    Raises
    ------
    ParameterError
        The URL holds a password, or the name cannot be that of a schema.
    """

    driver_errors = (psycopg.Error, UnicodeDecodeError)
    serves_hosts = True
    may_repeat = True
    answers_at_once = True
    always_indexes_bands = True

    def __init__(self, url: str, schema: str) -> None:
        if hide_passwords(url) != url:
            raise ParameterError(
                f"the database URL {hide_passwords(url)!r} holds a password, which would have to "
                "be stored in index.toml",
                hint="leave it out, and set PGPASSWORD, or write it into ~/.pgpass or a service "
                "file (PGSERVICE)",
            )
        self.url = url
        self.schema = schema
        self._conninfo = "postgresql://" + url.partition("://")[2]
        _check_name(schema)
        self._options = _options(self._conninfo, url)

    def __str__(self) -> str:
        return f"{self.url} (schema {self.schema})"

    @property
    def short_name(self) -> str:
        """The schema."""
        return f"schema {self.schema}"

    def is_damage(self, error: Exception) -> bool:
        """Return whether a page or an index is damaged, or a number that lshdb did not write."""
        errors = psycopg.errors
        return isinstance(
            getattr(error, "orig", None) or error,
            errors.DataCorrupted | errors.IndexCorrupted | errors.CheckViolation
            | errors.NumericValueOutOfRange,
        )  # fmt: skip

    def is_passing(self, error: Exception) -> bool:
        """Return whether it was cancelled, lost or locked out, or the server ran out of room."""
        state = getattr(getattr(error, "orig", None) or error, "sqlstate", None) or ""
        return state.startswith(_PASSING)

    def fate(self, error: Exception) -> Fate:
        """Return what an error means for its transaction, by its SQLSTATE."""
        error = getattr(error, "orig", None) or error
        state = getattr(error, "sqlstate", None)
        if state in ("40001", "40P01"):
            return Fate.REPEATABLE
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and (
            state is None or state.startswith(("08", "57P"))
        ):
            return Fate.LOST
        return Fate.FAILED

    def said(self, error: BaseException) -> str:
        """Return the server's first message."""
        return said(error)

    def hint(self, error: BaseException, otherwise: str) -> str:
        """Return what to do, by the error's SQLSTATE."""
        return hint_of(error, otherwise)

    def translation(self, error: Exception) -> LshdbError:
        """Translate one of the driver's errors while reading."""
        if self.fate(error) is Fate.LOST:
            lost = DatabaseError(
                f"the connection to the database {self} was lost: {said(error)}",
                hint=hint_of(error, "check that the server runs, then try again"),
            )
            lost.is_passing = True
            return lost
        return super().translation(error)

    def lies_in(self, directory: Path) -> bool:
        """Return False: the server has it."""
        return False

    # Making

    def refuse_existing(self) -> None:
        """Raise an IndexExistsError if the schema has anything in it."""
        with self._looking() as connection:
            refuse_unfit(connection, self.url, self.schema)

    def prepare(self, connection: OpenDatabase, uuid: str) -> None:
        """Make the schema if it is not there; nobody else can make or remove it meanwhile."""
        make_schema(connection.driver, self.url, self.schema)

    def moved(self, directory: Path, target: Path) -> PostgresDatabase:
        """Return the same database: it does not lie in the directory."""
        return self

    def remove(self, uuid: str) -> None:
        """Drop the index of that uuid if the schema holds it, and a schema that was made for it.

        A writer whose connection was lost may still be making it; wait for it.
        """
        with contextlib.closing(self._connect("removing", _WRITING)) as connection:
            try:
                drop_index(connection, self.schema, uuid)
            except psycopg.Error as error:
                raise self.translation(error) from error

    def remove_leftover(self, uuid: str) -> None:
        """Drop what a killed process made; see :meth:`remove`."""
        self.remove(uuid)

    # Connections

    def open_reader(self) -> PostgresReader:
        """Open a connection for reading."""
        return PostgresReader(self, self._connect("reading", _READING))

    def open_guarded(self, timeout: float | None) -> GuardedReader:
        """Open a connection for a statement of the user."""
        from lshdb.storage.dialects.postgresql.postgres_guard import PostgresGuardedReader

        return PostgresGuardedReader(self._connect("reading", _GUARDED), timeout)

    def open_writer(self) -> OpenPostgres:
        """Open a connection of SQLAlchemy's; the driver's is made here."""
        from sqlalchemy import create_engine, event
        from sqlalchemy.pool import NullPool

        def connect() -> ServerConnection:
            connection = self._connect("writing", _WRITING)
            connection.autocommit = False
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            return connection

        # Closing a connection rolls back what is open, so there is nothing to reset.
        engine = create_engine(
            "postgresql+psycopg://",
            creator=connect,
            poolclass=NullPool,
            pool_logging_name=pool_log(),
            pool_reset_on_return=None,
        )
        event.listen(
            engine, "begin", lambda connection: connection.connection.driver_connection.open()
        )
        return OpenPostgres(engine.connect())

    def session(self, connection: OpenDatabase) -> Session:
        """Return the transaction that a writer's connection has open."""
        return PostgresSession(self, connection.driver, is_reader=False)

    def lock(
        self,
        connection: OpenDatabase,
        uuid: str,
        *,
        timeout: float,
        known_as: str,
        on_wait: Callable[[LockedError], None] | None = None,
    ) -> None:
        """Take the advisory lock of the index."""
        take_lock(connection.driver, uuid, timeout=timeout, known_as=known_as, on_wait=on_wait)

    def prepare_bands(self, connection: OpenDatabase, bands: int) -> None:
        """Add the columns that are missing, and drop the indexes: rows are written anew.

        Under sixteen indexes a row takes some ten times as long. To drop them waits for all who
        read the table, and others wait behind; where that takes longer than a moment, they stay.
        """
        driver = connection.driver
        names = ", ".join(f"{BAND_INDEX}{column}" for column in sorted(_indexed(driver)))
        if names:
            with contextlib.suppress(psycopg.errors.LockNotAvailable), driver.transaction():
                driver.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'".encode())
                driver.execute(f"DROP INDEX {names}".encode())
            driver.execute("SET LOCAL lock_timeout = DEFAULT")
        present = {name for (name,) in driver.execute(_BAND_COLUMNS_SQL)}
        for name in band_columns(bands):
            if name not in present:  # to alter a table waits for all who read it
                driver.execute(f"ALTER TABLE band ADD COLUMN {name} integer".encode())

    def remake_bands(self, connection: OpenDatabase, bands: int) -> None:
        """Delete all rows, which who began before still sees; columns that are too many stay."""
        from lshdb.storage.tables.band_schema import make_views

        driver = connection.driver
        driver.execute("DELETE FROM band")
        (stored,) = driver.execute(_STORED_BANDS_SQL).fetchone() or (0,)
        if stored != bands:  # to replace a view waits for all who read it
            make_views(connection.alchemy, bands, or_replace=True)

    def has_indexed_bands(self, connection: OpenDatabase, bands: int) -> bool:
        """Return whether each column has an index, and none is too many."""
        driver, columns = connection.driver, set(band_columns(bands))
        present = {name for (name,) in driver.execute(_BAND_COLUMNS_SQL)}
        return present == columns <= _indexed(driver)

    def complete_bands(self, connection: OpenDatabase, bands: int) -> None:
        """Drop columns that are too many, and index the others."""
        from lshdb.storage.tables.band_schema import index_bands

        driver, columns = connection.driver, band_columns(bands)
        present = {name for (name,) in driver.execute(_BAND_COLUMNS_SQL)}
        for name in sorted(present.difference(columns)):
            driver.execute(f"ALTER TABLE band DROP COLUMN {name}".encode())
        indexed = _indexed(driver)
        if indexed.issuperset(columns):
            return
        driver.execute(f"SET LOCAL maintenance_work_mem = '{_MAINTENANCE_MEMORY}'".encode())
        driver.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        index_bands(connection.alchemy, bands, indexed=indexed)

    def rest(self, connection: OpenDatabase) -> None:
        """Analyze what was loaded, so that look-ups are planned well."""
        driver = connection.driver
        for table in ("document", "content", "band", "edge", "batch", "cluster_member"):
            with driver.transaction():
                self._analyze_grown(driver, table)

    def vacuum(self, connection: OpenDatabase) -> None:
        """Free the empty ends of tables."""
        driver = connection.driver
        driver.autocommit = True
        try:
            names = (f"{quoted(self.schema)}.{table}" for table in _VACUUMED)
            driver.execute(f"VACUUM (ANALYZE) {', '.join(names)}".encode())
        finally:
            driver.autocommit = False

    def replace_whole(self, source: Database) -> bool:
        """Return False: a schema is copied row by row."""
        return False

    @staticmethod
    def _analyze_grown(driver: ServerConnection, table: str) -> None:
        """Analyze a table that has grown by a tenth in pages since the last time."""
        row = driver.execute(
            "SELECT pg_relation_size(oid) / current_setting('block_size')::int8 > "
            "8 + 1.1 * greatest(relpages, 0) OR reltuples < 0 FROM pg_class "
            "WHERE oid = to_regclass(%s)",
            (table,),
        ).fetchone()
        if row is not None and row[0]:
            driver.execute(f"ANALYZE {table}".encode())

    # Sizes

    @property
    def files(self) -> tuple[Path, ...]:
        """None: the server has them."""
        return ()

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of all tables and indexes of the schema; its log is the server's."""
        with self._looking() as connection:
            row = connection.execute(
                "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::int8 FROM pg_class "
                "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
                "WHERE nspname = current_schema() AND relkind = 'r'"
            ).fetchone()
        return (int(row[0]) if row else 0), 0

    # One connection

    @contextlib.contextmanager
    def _looking(self) -> Iterator[ServerConnection]:
        """Open a connection for one look, with errors translated into ours."""
        with contextlib.closing(self._connect("looking", _READING)) as connection:
            try:
                connection.begin()
                yield connection
            except psycopg.Error as error:
                raise self.translation(error) from error

    def _connect(self, what: str, settings: Mapping[str, str]) -> ServerConnection:
        """Open a connection of ours; the server's lists show it as ``what``."""
        try:
            connection = ServerConnection.connect(
                self._conninfo,
                autocommit=True,
                application_name=f"lshdb {what}, {os.getpid()} on {socket.gethostname()}"[:63],
                **self._options,
                client_encoding="utf8",
            )
        except psycopg.Error as error:
            raise DatabaseError(
                f"cannot reach the database {self}: {said(error)}",
                hint="check that the server runs, the URL (--database, or in index.toml), and the "
                "password in PGPASSWORD, ~/.pgpass or the service file",
            ) from error
        try:
            register_arrays(connection)
            connection.use(self.schema, settings)
        except psycopg.Error as error:
            connection.close()
            raise self.translation(error) from error
        return connection


class OpenPostgres(OpenDatabase):
    """A connection to the schema that may write."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._running: RootTransaction | None = None
        self.driver: Any = connection.connection.driver_connection

    @property
    def alchemy(self) -> Connection:
        """SQLAlchemy's connection."""
        return self._connection

    @property
    def is_lost(self) -> bool:
        """Whether the server has ended the connection."""
        return self._connection.invalidated

    def begin(self) -> None:
        """Begin a transaction."""
        self._running = self._connection.begin()
        self.driver = self._connection.connection.driver_connection

    def commit(self) -> None:
        """End the transaction."""
        if self._running is not None:
            self._running.commit()

    def rollback(self) -> None:
        """Undo the transaction."""
        if self._running is not None:
            self._running.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresReader(Reader):
    """A connection to the schema that can only read."""

    def __init__(self, database: PostgresDatabase, connection: ServerConnection) -> None:
        self._database = database
        self.connection = connection
        close_with(self, connection)

    def begin(self) -> PostgresSession:
        """Begin a transaction, together with its first statement."""
        return PostgresSession(
            self._database,
            self.connection,
            is_reader=True,
            beginning=self.connection.beginning("ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        )

    def ask(self, keys: NDArray[np.int64], *, with_bodies: bool) -> BucketContents | None:
        """Return what lies in some buckets, in one statement; None if it is too much for one."""
        try:
            return ask(self.connection, keys, with_bodies=with_bodies)
        except psycopg.Error as error:
            raise self._database.translation(error) from error

    def end(self) -> None:
        """End the transaction, if there is one; do not use a lost connection again."""
        if self.connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return
        try:
            self.connection.rollback()
        except psycopg.Error:
            self.is_fleeting = True
        self.is_fleeting = self.is_fleeting or self.connection.closed

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _indexed(driver: ServerConnection) -> set[str]:
    """Return the columns of ``band`` that have an index of ours."""
    return indexed_columns(name for (name,) in driver.execute(_BAND_INDEXES_SQL))


def _options(conninfo: str, url: str) -> dict[str, Any]:
    """Return the settings of a connection beside the URL: how long to wait, unless given."""
    try:
        settings = psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise ParameterError(
            f"the database URL {url!r} cannot be read: {said(error)}",
            hint="give postgresql+psycopg://USER@HOST:PORT/NAME; settings of libpq may follow: "
            "?sslmode=require&connect_timeout=5",
        ) from error
    if "connect_timeout" in settings or "PGCONNECT_TIMEOUT" in os.environ:
        return {}
    return {"connect_timeout": _CONNECT_SECONDS}


def _check_name(schema: str) -> None:
    try:
        size = len(schema.encode())
    except UnicodeEncodeError as error:
        raise ParameterError("the name of the schema is not valid UTF-8") from error
    why = ""
    if not schema or "\0" in schema:
        why = "it is empty" if not schema else "it holds a NUL"
    elif size > _LONGEST_NAME:
        why = f"it has {size} bytes, and a name has at most {_LONGEST_NAME}"
    elif schema.startswith("pg_") or schema in ("information_schema", "$user"):
        why = "it is reserved"
    if why:
        raise ParameterError(
            f"the schema {schema!r} is not a valid name: {why}", hint="give another --schema"
        )


_PASSING = ("08", "25P03", "25P04", "40", "42501", "53", "55P03", "57")
"""SQLSTATE of errors that say nothing about what is stored, or their classes."""

_HINTS = {
    "42P01": "check URL and schema in index.toml, and that your role may use the schema "
    "(see lshdb guide postgres); or restore it from a copy",
    "25006": "to write, use the primary server and a role whose transactions are not read-only"
    " (default_transaction_read_only)",
    "42501": PRIVILEGES,
    "53": "see what the server has run out of: disk, memory or connections (max_connections)",
    "55P03": "another session has a table locked: run the command again when it has ended",
    "57014": "it was cancelled, or the role's statement_timeout ended it; see lshdb guide postgres "
    "for the settings that a role needs",
    "57P": "the server was stopped or has ended the connection: run the command again",
    "08": "the connection was lost: run the command again when the server answers",
    "25P03": "the role's idle_in_transaction_session_timeout ended it; see lshdb guide postgres "
    "for the settings that a role needs",
}


def said(error: BaseException) -> str:
    """Return the error's message in one line, without the statement."""
    error = getattr(error, "orig", None) or error
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        detail = error.diag.message_detail
        return " ".join(f"{error.diag.message_primary}{f' ({detail})' if detail else ''}".split())
    return " ".join(str(error).split())


def hint_of(error: BaseException, otherwise: str) -> str:
    """Return what to do about the error if its SQLSTATE tells; else ``otherwise``."""
    error = getattr(error, "orig", None) or error
    state = getattr(error, "sqlstate", None)
    if state is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return _HINTS["08"] if lost else otherwise
    for length in (5, 3, 2):
        if state[:length] in _HINTS:
            return _HINTS[state[:length]]
    return otherwise
