"""Everything that is SQLite's own: connections, transactions, and the SQL it needs in its own form.

Decisions, with their reasons:

* WAL with synchronous=FULL: readers never wait for the writer, and an acknowledged commit survives
  a power cut (with NORMAL it may not).
* The driver's own transaction handling is switched off (isolation_level=None) and BEGIN is sent by
  us: the driver would otherwise commit before DDL statements, and creating a run table would split
  a batch in two.
* Reading goes through the DB-API driver alone, because importing SQLAlchemy takes longer (0.3 s)
  than a whole cold query may; schema and writing go through SQLAlchemy, but for the rows of a
  batch, which go to the driver inside its transaction (``WriteTransaction.insert``).
* Pages of 8 KiB: sorted loads and merges of posting runs were up to a half faster than with 4 KiB.
* Lists of values travel as one JSON parameter (``json_each``), so that the statement text, and with
  it the prepared statement, does not depend on their number.
"""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
import urllib.parse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.errors import DamageError, DatabaseError, ParameterError
from lshdb.storage.dialects.urls import hide_passwords

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["CONTENT_RANGE", "open_reader", "open_writer_engine"]

NAME = "sqlite"
DRIVER_ERRORS = (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError)
"""The driver decodes SQLite's messages, which quote a damaged schema as it lies."""
PAGE_SIZE = 8192
PARAMETERS_A_STATEMENT = 999
"""As many as SQLite took before 3.32; more gain nothing for postings and texts."""
LARGE_STATEMENT = 8_000 if sqlite3.sqlite_version_info >= (3, 32) else PARAMETERS_A_STATEMENT
"""Parameters of a statement for rows of ``document``, when they are many.

A statement keeps a copy of every page that it changes, to be undone by itself, and the rows of 90
documents touch many pages in four B-trees. So 40,000 rows take 165 ms in statements of this size
and 230 ms in those of the other; but preparing one takes 5 ms.
"""
FILE_SUFFIXES = ("", "-wal", "-shm")
"""Of the files that belong to a database."""
OWN_FILES = re.compile(r"index(\.next)?\.toml|lock|signatures(\.\d+)?\.npy")
FEW_VALUES = 8
READER_CACHE_KIB = 32 * 1024
WRITER_CACHE_KIB = 64 * 1024

BUCKET_MASK = 2**56 - 1
CONTENT_RANGE = (-(2**56), -1)
"""First and last bucket key of band 255, the content band, in two's complement."""

BAND_SQL = "bucket_key >> 56 & 255"
BUCKET_SQL = f"bucket_key & {BUCKET_MASK}"
NOT_CONTENT_SQL = f"bucket_key NOT BETWEEN {CONTENT_RANGE[0]} AND {CONTENT_RANGE[1]}"


def open_reader(database: Path) -> sqlite3.Connection:
    """Open a connection that can only read.

    Where the directory cannot be written to and no writer has left a write-ahead log, the file is
    opened as immutable: SQLite could not make the shared-memory file it reads a WAL database with.

    Raises
    ------
    DatabaseError
        The file cannot be opened.
    """
    options = "mode=ro&immutable=1" if is_immutable(database) else "mode=ro"
    uri = f"file:{urllib.parse.quote(str(database.absolute()))}?{options}"
    connection = None
    try:
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB}")
        connection.execute("PRAGMA mmap_size=0")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except DRIVER_ERRORS as error:
        if connection is not None:
            connection.close()
        kind = DamageError if is_damage(error) else DatabaseError
        raise kind(
            f"cannot open the database {database}: {error}",
            hint="check that the path is an index and that you may read it",
        ) from error
    return connection


def is_immutable(database: Path) -> bool:
    """Whether the file is to be opened as one that nobody writes; see :func:`open_reader`.

    A connection of that kind does not notice a writer that comes later by another way (another
    mount, another user), so it is good for one transaction and then opened anew.
    """
    log = database.with_name(database.name + "-wal")
    return not os.access(database.parent, os.W_OK) and not (log.exists() and log.stat().st_size)


def is_damage(error: Exception) -> bool:
    """Whether the driver's error says that the file is not what SQLite wrote."""
    if isinstance(error, UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def open_writer_engine(database: Path) -> Engine:
    """Make an SQLAlchemy engine whose transactions are explicit, immediate and durable."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.engine import URL
    from sqlalchemy.pool import NullPool

    engine = create_engine(URL.create("sqlite", database=str(database)), poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KIB}")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def database_path(url: str | None, index_directory: Path) -> Path:
    """Path of the database file: ``index.db`` in the index, or what an sqlite URL says.

    A relative path in a URL is taken from the index directory.
    """
    if url is None:
        return index_directory / "index.db"
    shown = hide_passwords(url)
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.split("+")[0] != "sqlite":
        raise ParameterError(
            f"the database URL is {shown!r}; this version keeps postings in SQLite only",
            hint="leave --database out, or give sqlite:///PATH",
        )
    path = rest.removeprefix("/")
    if path == rest or not path or path == ":memory:":
        raise ParameterError(
            f"the database URL {shown!r} names no file", hint="give sqlite:///PATH"
        )
    if "?" in path or "\0" in path:
        raise ParameterError(
            f"the database URL {shown!r} holds a ? or a NUL; a path of SQLite takes no settings",
            hint="give sqlite:///PATH",
        )
    if OWN_FILES.fullmatch(Path(path).name) and (index_directory / path).parent == index_directory:
        raise ParameterError(
            f"the database URL {shown!r} names a file that the index uses for something else",
            hint="give another file name",
        )
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ParameterError("the database URL is not valid UTF-8") from error
    return index_directory / path


STATE_SQL = (
    "SELECT signature_file, n_signatures, next_doc_id, (SELECT group_concat(table_name) FROM "
    "(SELECT table_name FROM run ORDER BY run_id)), (SELECT group_concat(value) FROM parameter "
    "WHERE name IN ('bands', 'recall', 'rows', 'threshold') ORDER BY name) FROM state"
)
"""What a snapshot begins with, in one statement: state, names of the runs, how bands are cut."""


def encode_list(values: Iterable[Any] | NDArray[np.int64]) -> str:
    """Encode values as the one parameter that :func:`in_list` expects."""
    if isinstance(values, np.ndarray):
        return orjson.dumps(
            np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY
        ).decode()
    return orjson.dumps(list(values)).decode()


def in_list(column: str, parameter: str = "?") -> str:
    """Condition: the column is one of the values in the encoded list."""
    return f"{column} IN (SELECT value FROM json_each({parameter}))"


def is_one_of(column: str, values: Sequence[int]) -> tuple[str, tuple[Any, ...]]:
    """Condition and parameters: the column is one of some values.

    A few are parameters each, which spares them the way through JSON (some 10 us a statement).
    """
    if len(values) <= FEW_VALUES:
        return f"{column} IN ({','.join('?' * len(values))})", tuple(values)
    return in_list(column), (encode_list(values),)


def posting_lookup(tables: Sequence[str], n_keys: int) -> str:
    """SELECT of (bucket_key, signature_id) over runs for n_keys bucket keys, the parameters."""
    keys = ",".join(f"?{number + 1}" for number in range(n_keys))
    arms = (
        f"SELECT bucket_key, signature_id FROM {table} WHERE bucket_key IN ({keys})"
        for table in tables
    )
    return " UNION ALL ".join(arms)


def posting_lookup_list(tables: Sequence[str]) -> str:
    """The same for an encoded list, for many keys; distinct, and better sorted.

    CROSS JOIN keeps the list outside, whose keys are then looked up as they come. IN would first
    put them into a table of its own, for each run anew, which takes a third of the time.
    """
    arms = (
        f"SELECT bucket_key, signature_id FROM json_each(?1) CROSS JOIN {table} "
        "ON bucket_key = value"
        for table in tables
    )
    return " UNION ALL ".join(arms)


def bucket_groups(tables: Sequence[str]) -> str:
    """SELECT of the buckets with more than one posting whose keys lie from ?1 to ?2, as one text.

    One value, read by :func:`decode_groups`, and not a row a bucket: the driver gives up the
    interpreter's lock while a row is worked out, and has to get it back for each. Keys are grouped
    first and the members of the few that are shared looked up, which takes two thirds of the time
    of gathering members while grouping.
    """
    return _groups(tables, "bucket_key BETWEEN ?1 AND ?2")


def bucket_groups_of(tables: Sequence[str]) -> str:
    """The same for the buckets whose keys are in an encoded list."""
    return _groups(tables, in_list("bucket_key", "?1"))


def _groups(tables: Sequence[str], condition: str) -> str:
    keys = " UNION ALL ".join(
        f"SELECT bucket_key FROM {table} WHERE {condition}" for table in tables
    )
    members = " UNION ALL ".join(
        f"SELECT shared.bucket_key || ',' || {table}.signature_id AS posting "
        f"FROM shared CROSS JOIN {table} ON {table}.bucket_key = shared.bucket_key"
        for table in tables
    )
    return (
        f"WITH shared AS MATERIALIZED (SELECT bucket_key FROM ({keys}) "
        "GROUP BY bucket_key HAVING count(*) > 1) "
        f"SELECT group_concat(posting) FROM ({members})"
    )


def decode_groups(groups: str | None) -> NDArray[np.int64]:
    """(bucket key, signature id) of what :func:`bucket_groups` gives, shape (n, 2), sorted."""
    flat = np.array(groups.split(",") if groups else [], dtype=np.int64).reshape(-1, 2)
    return flat[np.lexsort((flat[:, 1], flat[:, 0]))]


def ordered_postings(tables: Sequence[str], *, contents: bool = False) -> str:
    """SELECT of every posting of the bands in order: (bucket_key, signature_id).

    With ``contents`` also those of the content band.

    Sorted streams are merged, or sorted where there are many, as by :func:`merge_runs`.
    """
    condition = "" if contents else f" WHERE {NOT_CONTENT_SQL}"
    arms = " UNION ALL ".join(
        f"SELECT bucket_key, signature_id FROM {table}{condition}" for table in tables
    )
    if len(tables) > 16:
        arms = f"SELECT bucket_key, signature_id FROM ({arms})"
    return f"{arms} ORDER BY 1, 2"


def create_run(table: str) -> str:
    """CREATE TABLE of a posting run: a B-tree in key order and nothing beside it."""
    return (
        f"CREATE TABLE {table} (bucket_key INTEGER NOT NULL, signature_id INTEGER NOT NULL, "
        "PRIMARY KEY (bucket_key, signature_id)) WITHOUT ROWID"
    )


def merge_runs(target: str, tables: Sequence[str]) -> str:
    """INSERT of all postings of some runs into a new one, in key order.

    Up to sixteen runs are merged as sorted streams, the largest (given last) through the fewest
    steps; more go through one external sort, because the streams of a compound SELECT are nested.
    """
    arms = " UNION ALL ".join(f"SELECT bucket_key, signature_id FROM {table}" for table in tables)
    if len(tables) > 16:
        arms = f"SELECT bucket_key, signature_id FROM ({arms})"
    return f"INSERT INTO {target} {arms} ORDER BY 1, 2"


def insert_rows(
    execute: Any,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    or_ignore: bool = False,
    large: bool = False,
) -> None:
    """Insert rows, so many a statement; faster than executemany by a quarter to a third.

    Parameters
    ----------
    execute : callable
        ``execute(sql, parameters)`` on the open transaction.
    table : str
    columns : sequence of str
    rows : iterable
        Values in the order of the columns; taken as they are inserted.
    or_ignore : bool
        Leave a row that is there already as it is.
    large : bool
        Begin with statements of ``LARGE_STATEMENT`` parameters; the rest goes in smaller ones.
    """
    part = iter(rows)
    into = f"OR IGNORE INTO {table}" if or_ignore else f"INTO {table}"
    for parameters in (LARGE_STATEMENT, PARAMETERS_A_STATEMENT)[not large :]:
        step = parameters // len(columns)
        whole = _insertion(into, columns, step)
        while len(taken := list(itertools.islice(part, step))) == step:
            execute(whole, list(itertools.chain.from_iterable(taken)))
        part = iter(taken)
    if taken:
        execute(_insertion(into, columns, len(taken)), list(itertools.chain.from_iterable(taken)))


def insert_postings(
    execute: Any, table: str, keys: NDArray[np.int64], signature_ids: NDArray[np.int64]
) -> None:
    """Insert sorted postings, as :func:`insert_rows` does (three times as fast as executemany).

    Parameters
    ----------
    execute : callable
        ``execute(sql, parameters)`` on the open transaction.
    table : str
    keys, signature_ids : ndarray of int64, shape (n,)
        Sorted by key, then signature id.
    """
    columns = ("bucket_key", "signature_id")
    step = PARAMETERS_A_STATEMENT // 2
    whole = _insertion(f"INTO {table}", columns, step)
    pairs = np.column_stack([keys, signature_ids])
    for start in range(0, len(pairs), step):
        part = pairs[start : start + step]
        statement = whole if len(part) == step else _insertion(f"INTO {table}", columns, len(part))
        execute(statement, part.reshape(-1).tolist())


def _insertion(into: str, columns: Sequence[str], n_rows: int) -> str:
    """INSERT of so many rows at once."""
    row = "(" + ",".join("?" * len(columns)) + ")"
    return f"INSERT {into} ({', '.join(columns)}) VALUES " + ",".join([row] * n_rows)


def bucket_sizes(table: str) -> str:
    """SELECT of (band, size, number of buckets) of a run, without the content band; one pass."""
    return (
        f"SELECT band, size, count(*) FROM (SELECT {BAND_SQL} AS band, count(*) AS size "
        f"FROM {table} WHERE {NOT_CONTENT_SQL} GROUP BY bucket_key) GROUP BY band, size"
    )


def posting_counts(table: str) -> str:
    """SELECT of (bucket_key, number of postings) in a run, for an encoded list of keys."""
    return (
        f"SELECT bucket_key, count(*) FROM {table} "
        f"WHERE {in_list('bucket_key')} GROUP BY bucket_key"
    )


def posting_view(tables: Sequence[str]) -> str:
    """CREATE VIEW of all postings, by which people query them."""
    if not tables:
        body = "SELECT 0 AS band, 0 AS bucket, 0 AS bucket_key, 0 AS signature_id WHERE 0"
    else:
        body = " UNION ALL ".join(
            f"SELECT {BAND_SQL} AS band, {BUCKET_SQL} AS bucket, bucket_key, signature_id "
            f"FROM {table} WHERE {NOT_CONTENT_SQL}"
            for table in tables
        )
    return f"CREATE VIEW posting AS {body}"


def checkpoint(connection: Any) -> None:
    """Bring the write-ahead log into the database, as far as readers let it, without waiting."""
    connection.execute("PRAGMA busy_timeout=0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def vacuum(connection: Any) -> None:
    """Write the database anew without free pages; readers go on with the old ones meanwhile.

    The file gets shorter with the checkpoint after it, which waits for no reader.
    """
    connection.execute("VACUUM")
    checkpoint(connection)


FREE_BYTES_SQL = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
"""What of the database's file holds nothing."""
POSTING_BYTES = 16
"""On disk, about: a key of 8 bytes, a signature id of 1 to 5, their types, a share of a page."""
