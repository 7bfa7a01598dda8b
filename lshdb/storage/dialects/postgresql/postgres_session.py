"""One open transaction on Postgres, the checks of a schema, and the statement that asks at once.

Statements are written with ``?`` as everywhere, and numbered here as the server wants them. A list
of values travels as one array. Many rows come through a server-side cursor, and go in by COPY.

Checks: Postgres enforces types and keeps its pages sound (with checksums, if the cluster was made
with them; the server then compares every row that a full check reads). What remains to be found is
an index that was never finished, and numbers of what does not exist.

``ask`` asks all that a query needs in one statement: one way to the server and back. The statement
is its own transaction, so its answer is of one state. LATERAL and OFFSET 0 keep the order: from the
candidates to their documents, from the first document of each to its text.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from lshdb.params.bucket_layout import bands_of, sql_buckets
from lshdb.storage.dialects.base import (
    NUMBERS,
    ROWS_AT_FIRST,
    BucketContents,
    Database,
    Session,
    State,
    next_piece,
)
from lshdb.storage.dialects.postgresql.postgres_arrays import rows_to_copy
from lshdb.storage.dialects.postgresql.server_connection import ServerConnection
from lshdb.storage.tables.bodies import SHORT_CHARACTERS
from lshdb.storage.tables.stored_columns import (
    BAND_TABLE,
    band_columns,
)

__all__ = ["STATE_COLUMNS", "PostgresSession", "ask"]

_ROWS_A_FETCH = 20_000
_ROWS_AN_INSERT = 10_000

STATE_COLUMNS = (
    "signature_file, n_signatures, next_doc_id, uuid, "
    "(SELECT string_agg(value, ',' ORDER BY name) FROM parameter "
    "WHERE name IN ('bands', 'recall', 'rows', 'threshold'))"
)
"""What :meth:`PostgresSession.state` selects from the table ``state``."""
_PLACE = re.compile(r"\?(\d*)")
_TYPES = {"BIGINT": "int8", "TEXT": "text", "BLOB": "bytea", "FLOAT": "float8", "BOOLEAN": "bool"}


class PostgresSession(Session):
    """One open transaction; the connection is the driver's.

    Parameters
    ----------
    beginning : sequence of str
        Statements that begin the transaction, sent together with the first query.
    """

    has_band_indexes = True

    def __init__(
        self,
        database: Database,
        connection: ServerConnection,
        *,
        is_reader: bool,
        beginning: Sequence[str] = (),
    ) -> None:
        super().__init__(database, is_reader=is_reader)
        self.connection = connection
        self._beginning = beginning
        self._numbers = itertools.count(1)

    def numbers(
        self, sql: str, parameters: Sequence[Any] = (), *, columns: int = 2
    ) -> NDArray[np.int64]:
        """Run one statement whose rows are whole numbers; each column comes as an array."""
        names = [f"n{place}" for place in range(columns)]
        arrays = ", ".join(f"coalesce(array_agg({name}::int8), '{{}}')" for name in names)
        row = self.execute(
            f"SELECT {arrays} FROM ({sql}) AS numbers ({', '.join(names)})", parameters
        ).fetchone()
        return np.column_stack(row)

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        cursor = psycopg.RawCursor(self.connection)
        if not self._beginning:
            return cursor.execute(numbered(sql), parameters, binary=True)
        with self.connection.pipeline():
            self._begin()
            cursor.execute(numbered(sql), parameters, binary=True)
        return cursor

    def _begin(self) -> None:
        beginning, self._beginning = self._beginning, ()
        for statement in beginning:
            self.connection.execute(statement.encode())

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Run one statement through a server-side cursor, up to some thousand rows at a time."""
        self._begin()
        cursor = psycopg.RawServerCursor(self.connection, f"lshdb_{next(self._numbers)}")
        try:
            with cursor:
                cursor.execute(numbered(sql), parameters, binary=True)
                n_rows = ROWS_AT_FIRST
                while rows := cursor.fetchmany(n_rows):
                    yield from rows
                    n_rows = next_piece(rows, _ROWS_A_FETCH)
        except psycopg.Error as error:  # also from closing the cursor
            if self.connection.closed:
                cursor.close()
            if not self.is_reader:
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
    ) -> None:
        """Insert rows by COPY, or by arrays of their columns if some may exist already.

        Rows of an array are laid out without a Python object for each number.
        """
        names = ", ".join(columns)
        if or_ignore:
            self._insert_new(table, names, _types(table, columns), rows)
            return
        with psycopg.RawCursor(self.connection).copy(
            f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)"
        ) as copy:
            if isinstance(rows, np.ndarray):
                for part in rows_to_copy(rows, ("int8", *("int4",) * (len(columns) - 1))):
                    copy.write(part)
            else:
                copy.set_types(_types(table, columns))
                for row in rows:
                    copy.write_row(row)

    def _insert_new(
        self, table: str, names: str, types: list[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        marks = ", ".join(f"${place + 1}::{name}[]" for place, name in enumerate(types))
        sql = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({marks}) ON CONFLICT DO NOTHING"
        iterator = iter(rows)
        while chunk := list(itertools.islice(iterator, _ROWS_AN_INSERT)):
            columns = [
                np.array(column) if name == "int8" else list(column)
                for name, column in zip(types, zip(*chunk, strict=True), strict=True)
            ]
            psycopg.RawCursor(self.connection).execute(sql, columns)

    def in_list(self, column: str) -> str:
        """Return a condition: the column is one of the values in the array."""
        return f"{column} = ANY(?)"

    def listed(self) -> str:
        """Return a table of the texts in the array."""
        return "unnest(CAST(? AS TEXT[])) AS listed (value)"

    def encode_list(self, values: Iterable[Any] | NDArray[np.int64]) -> Any:
        """Encode whole numbers as an array of NumPy's, texts as a list."""
        if isinstance(values, np.ndarray):
            return values.astype(np.int64, copy=False)
        listed = list(values)
        if listed and isinstance(listed[0], int):
            return np.array(listed, dtype=np.int64)
        return listed

    def state(self) -> State | None:
        """Return the state that a snapshot begins with, by one statement."""
        row: State | None = self.execute(f"SELECT {STATE_COLUMNS} FROM state").fetchone()
        return row

    def may_have_changed(self) -> bool:
        """Whether the server has given this transaction a number: the first change asks for it."""
        row = self.execute("SELECT txid_current_if_assigned() IS NOT NULL").fetchone()
        return bool(row[0])

    def leave_mark(self) -> str:
        """Leave the number of this transaction, to ask for it if the connection is lost.

        Marks are kept for a day; the question comes within a minute or two.
        """
        mark = str(uuid.uuid4())
        self.execute(
            "WITH forgotten AS (DELETE FROM commit_mark WHERE made_at < ?) "
            "INSERT INTO commit_mark (mark, made_at) VALUES (?, ?)",
            (_time(-24 * 3600), mark, _time()),
        )
        return mark

    def has_mark(self, mark: str) -> bool:
        """Return whether a transaction with that mark is committed."""
        rows = self.fetch("SELECT FROM commit_mark WHERE mark = ?", (mark,))
        return bool(rows)

    def structure(self) -> Iterator[str]:
        """Yield findings about indexes that were never finished."""
        for (index,) in self.execute(
            "SELECT pg_class.relname::text FROM pg_index "
            "JOIN pg_class ON pg_class.oid = indexrelid "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = current_schema() AND NOT (indisvalid AND indisready)"
        ):
            yield f"the index {index} is not valid"

    def misplaced_values(self) -> Iterator[str]:
        """Yield findings: columns with numbers of signatures or documents that do not exist."""
        columns = self.fetch(
            "SELECT table_name::text, column_name::text FROM information_schema.columns "
            "JOIN information_schema.tables USING (table_schema, table_name) "
            "WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' "
            "AND column_name = ANY(?) ORDER BY 1, 2",
            (list(NUMBERS),),
        )
        for table, column in columns:
            first, last = NUMBERS[column]
            wrong = f"{column} NOT BETWEEN {first} AND (SELECT {last} FROM state)"
            (count,) = self.execute(f'SELECT count(*) FROM "{table}" WHERE {wrong}').fetchone()
            if count:
                yield f"{count} values in the column {column} of the table {table} are impossible"

    def free_bytes(self) -> int:
        """Return 0: the server reuses what deleted rows took, and does not say how much."""
        return 0

    def whole_bytes(self, target: Database) -> int:
        """Return 0."""
        return 0

    def copy_whole(self, target: Database) -> bool:
        """Return False: a schema is copied row by row."""
        return False

    def keys_by_index(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key); Postgres may answer from the table instead of the index."""
        return self.stream("SELECT doc_id, key FROM document ORDER BY key")


def _time(later: float = 0.0) -> str:
    """Return the time now, or this many seconds later, in UTC, as a text that sorts by time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + later))


@functools.lru_cache(maxsize=1024)
def numbered(sql: str) -> str:
    """Return a statement with ``$1`` for ``?``, and ``$2`` for ``?2``."""
    numbers = itertools.count(1)
    return _PLACE.sub(lambda match: f"${match[1] or next(numbers)}", sql)


@functools.lru_cache(maxsize=64)
def _table_types(table: str) -> dict[str, str]:
    from lshdb.storage.tables.schema import metadata

    columns = metadata.tables[table].columns
    return {column.name: _TYPES[str(column.type).split("(")[0]] for column in columns}


def _types(table: str, columns: Sequence[str]) -> list[str]:
    types = _table_types(table)
    return [types[name] for name in columns]


_MOST_CANDIDATES = 256
"""More are not answered at once: most of them will not pass the first look at their signatures."""

_ASK_SQL = f"""
WITH hit AS MATERIALIZED (
    {{arms}}
), candidate AS MATERIALIZED (
    SELECT signature_id, count(*) AS n_buckets FROM hit GROUP BY signature_id
), counted AS MATERIALIZED (
    SELECT count(*) <= {_MOST_CANDIDATES} AS is_few FROM candidate
)
SELECT {STATE_COLUMNS},
    (SELECT is_few FROM counted), one.signature_id, one.n_buckets, one.doc_id, one.key,
    one.batch_id, one.form, one.body, one.n_chars
FROM state LEFT JOIN (
    SELECT candidate.signature_id, candidate.n_buckets, document.doc_id, document.key,
        document.batch_id, content.form, content.body, document.n_chars
    FROM candidate LEFT JOIN LATERAL (
        SELECT doc_id, key, batch_id, n_chars, row_number() OVER (ORDER BY doc_id) AS place
        FROM document WHERE document.signature_id = candidate.signature_id OFFSET 0
    ) AS document ON true LEFT JOIN LATERAL (
        SELECT form, body FROM content
        WHERE content.doc_id = document.doc_id AND document.place = 1 AND $1::bool
        AND document.n_chars <= {SHORT_CHARACTERS} OFFSET 0
    ) AS content ON true
    WHERE (SELECT is_few FROM counted)
) AS one ON true
"""


@functools.cache
def _ask_sql(bands: tuple[int, ...]) -> str:
    """Return the statement for a bucket in each of some bands: always the same for an index."""
    columns = band_columns(max(bands) + 1)
    arms = (
        f"SELECT signature_id FROM {BAND_TABLE} WHERE {columns[band]} = ${place}"
        for place, band in enumerate(bands, 2)
    )
    return _ASK_SQL.format(arms=" UNION ALL ".join(arms))


def ask(
    connection: ServerConnection, keys: NDArray[np.int64], *, with_bodies: bool
) -> BucketContents | None:
    """Return what lies in some buckets; None if that is too much to be answered at once.

    It is also None if the index has fewer bands than the keys, since it was banded anew.

    Parameters
    ----------
    connection : ServerConnection
        With no transaction open.
    keys : ndarray of int64, shape (n,)
        Bucket keys, of a band each.
    with_bodies : bool
        Also return the texts of the candidates.

    Raises
    ------
    psycopg.Error
        The database failed.
    """
    if not len(keys):
        return None
    keys = np.sort(keys)
    statement = _ask_sql(tuple(bands_of(keys).tolist()))
    cursor = psycopg.RawCursor(connection)
    parameters = (with_bodies, *sql_buckets(keys).tolist())
    try:
        if not connection.opening:
            cursor.execute(statement, parameters, prepare=True, binary=True)
        else:  # a transaction of its own
            with connection.pipeline():
                connection.begin()
                cursor.execute(statement, parameters, binary=True)
                connection.execute("COMMIT")
    except psycopg.errors.UndefinedColumn:
        return None
    rows: list[Any] = cursor.fetchall()
    if not rows or not rows[0][5]:
        return None
    answer = BucketContents(rows[0][:5], {}, {}, {})
    for row in rows:
        signature_id, n_buckets, doc_id, key, batch_id, form, body, n_chars = row[6:]
        if signature_id is None:
            break
        answer.postings[signature_id] = n_buckets
        documents = answer.documents.setdefault(signature_id, [])
        if with_bodies and not documents and (n_chars or 0) > SHORT_CHARACTERS:
            return None
        if doc_id is not None:
            documents.append((doc_id, key, batch_id))
        if form is not None:
            answer.bodies[signature_id] = (form, body, n_chars, doc_id)
    return answer
