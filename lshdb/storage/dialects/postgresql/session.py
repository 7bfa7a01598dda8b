"""One open transaction on Postgres.

Statements are written with ``?`` as everywhere, and numbered here as the server wants them. Lists
of values travel as one array. What is many rows comes through a cursor of the server's, and goes in
by COPY.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from lshdb.storage.dialects.base import Database, Session
from lshdb.storage.dialects.postgresql.inspecting import misplaced_values, structure
from lshdb.storage.dialects.postgresql.runs import PostgresRunTables

if TYPE_CHECKING:
    from lshdb.storage.dialects.postgresql.database import PostgresDatabase

__all__ = ["STATE_COLUMNS", "PostgresSession"]

_ROWS_A_FETCH = 20_000
_ROWS_AN_INSERT = 10_000

STATE_COLUMNS = (
    "signature_file, n_signatures, next_doc_id, "
    "coalesce((SELECT string_agg(table_name, ',' ORDER BY run_id) FROM run), ''), "
    "(SELECT string_agg(value, ',' ORDER BY name) FROM parameter "
    "WHERE name IN ('bands', 'recall', 'rows', 'threshold'))"
)
"""What :meth:`PostgresSession.state` gives, of the table ``state``."""
_PLACE = re.compile(r"\?(\d*)")
_TYPES = {"BIGINT": "int8", "TEXT": "text", "BLOB": "bytea", "FLOAT": "float8", "BOOLEAN": "bool"}


class PostgresSession(Session):
    """One open transaction; the connection is the driver's.

    Parameters
    ----------
    database : PostgresDatabase
    connection : psycopg.Connection
    is_reader : bool
    begin : str
        Statement that begins the transaction, sent together with the first one that asks.
    """

    database: PostgresDatabase

    def __init__(
        self,
        database: PostgresDatabase,
        connection: psycopg.Connection[Any],
        *,
        is_reader: bool,
        begin: str = "",
    ) -> None:
        super().__init__(database, is_reader=is_reader)
        self.connection = connection
        self._begin = begin
        self._numbers = itertools.count(1)

    @functools.cached_property
    def run_tables(self) -> PostgresRunTables:
        """The posting runs in this transaction."""
        return PostgresRunTables(self)

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        cursor = psycopg.RawCursor(self.connection)
        if not self._begin:
            return cursor.execute(numbered(sql), parameters, binary=True)
        begin, self._begin = self._begin, ""
        with self.connection.pipeline():
            self.connection.execute(begin)
            cursor.execute(numbered(sql), parameters, binary=True)
        return cursor

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Run one statement through a cursor of the server's, some thousand rows at a time."""
        if self._begin:
            self.connection.execute(self._begin)
            self._begin = ""
        cursor = psycopg.RawServerCursor(self.connection, f"lshdb_{next(self._numbers)}")
        try:
            with cursor:
                cursor.itersize = _ROWS_A_FETCH
                yield from cursor.execute(numbered(sql), parameters, binary=True)
        except psycopg.Error as error:  # from closing the cursor, too
            if self.connection.closed:
                cursor.close()
            if not self._is_reader:
                raise
            raise self.database.translation(error) from error

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement once for each row of parameters, without waiting in between."""
        psycopg.RawCursor(self.connection).executemany(numbered(sql), rows)

    def insert_rows(
        self,
        table: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        or_ignore: bool = False,
        large: bool = False,
    ) -> None:
        """Insert rows by COPY; where some may be there, by arrays of their columns."""
        types = _types(table, columns)
        names = ", ".join(columns)
        if or_ignore:
            self._insert_new(table, names, types, rows)
            return
        with psycopg.RawCursor(self.connection).copy(
            f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)"
        ) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def _insert_new(
        self, table: str, names: str, types: list[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        marks = ", ".join(f"${place + 1}::{name}[]" for place, name in enumerate(types))
        sql = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({marks}) ON CONFLICT DO NOTHING"
        iterator = iter(rows)
        while some := list(itertools.islice(iterator, _ROWS_AN_INSERT)):
            columns = [
                np.array(column) if name == "int8" else list(column)
                for name, column in zip(types, zip(*some, strict=True), strict=True)
            ]
            psycopg.RawCursor(self.connection).execute(sql, columns)

    def in_list(self, column: str) -> str:
        """Condition: the column is one of the values in the array."""
        return f"{column} = ANY(?)"

    def encode_list(self, values: Iterable[Any] | NDArray[np.int64]) -> Any:
        """Encode whole numbers as an array of NumPy's, texts as a list."""
        if isinstance(values, np.ndarray):
            return values.astype(np.int64, copy=False)
        found = list(values)
        if found and isinstance(found[0], int):
            return np.array(found, dtype=np.int64)
        return found

    def state(self) -> tuple[str, int, int, str, str] | None:
        """What a snapshot begins with, in one statement."""
        row: tuple[str, int, int, str, str] | None = self.execute(
            f"SELECT {STATE_COLUMNS} FROM state"
        ).fetchone()
        return row

    def leave_mark(self) -> str:
        """Leave the number of this transaction, by which it is known when the connection is lost.

        Marks are kept for a day: who asks does so within a minute or two.
        """
        mark = str(uuid.uuid4())
        self.execute(
            "WITH forgotten AS (DELETE FROM commit_mark WHERE made_at < ?) "
            "INSERT INTO commit_mark (mark, made_at) VALUES (?, ?)",
            (_time(-24 * 3600), mark, _time()),
        )
        return mark

    def has_mark(self, mark: str) -> bool:
        """Whether a transaction of that number is committed."""
        rows = self.execute("SELECT FROM commit_mark WHERE mark = ?", (mark,)).fetchall()
        return bool(rows)

    def structure(self) -> Iterator[str]:
        """Findings about indexes and partitions."""
        return structure(self)

    def misplaced_values(self) -> Iterator[str]:
        """Findings: numbers of what does not exist."""
        return misplaced_values(self)

    def free_bytes(self) -> int:
        """Bytes of merged runs that readers may still see."""
        row = self.execute(
            "SELECT coalesce(sum(pg_total_relation_size(to_regclass(table_name))), 0)::int8 "
            "FROM retired_run"
        ).fetchone()
        return int(row[0])

    def copy_whole(self, target: Database) -> bool:
        """A schema goes row by row."""
        return False

    def keys_by_index(self) -> Iterator[tuple[int, str]]:
        """(doc_id, key); Postgres answers from the table where it likes to."""
        return self.stream("SELECT doc_id, key FROM document ORDER BY key")


def _time(later: float = 0.0) -> str:
    """Now, or so many seconds later, UTC, as a text that sorts by time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + later))


@functools.lru_cache(maxsize=1024)
def numbered(sql: str) -> str:
    """A statement with ``$1`` for ``?``, and ``$2`` for ``?2``."""
    numbers = itertools.count(1)
    return _PLACE.sub(lambda found: f"${found[1] or next(numbers)}", sql)


@functools.lru_cache(maxsize=64)
def _table_types(table: str) -> dict[str, str]:
    from lshdb.storage.schema import metadata

    columns = metadata.tables[table].columns
    return {column.name: _TYPES[str(column.type).split("(")[0]] for column in columns}


def _types(table: str, columns: Sequence[str]) -> list[str]:
    found = _table_types(table)
    return [found[name] for name in columns]
