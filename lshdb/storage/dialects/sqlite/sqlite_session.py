"""One open transaction on an SQLite database: its statements, and a check of columns.

Lists of values travel as one JSON parameter (``json_each``), so that the text of a statement, and
with it the prepared statement, does not depend on their number.

The check looks for values of undeclared types: SQLite stores any value in any column, and so does
damage.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from lshdb.arrays import np
from lshdb.files.process import require_memory
from lshdb.storage.dialects.base import NUMBERS, Database, Session, State
from lshdb.storage.dialects.sqlite.connections import Connection, copy_database

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SqliteSession"]

PARAMETERS_A_STATEMENT = 2_000 if sqlite3.sqlite_version_info >= (3, 32) else 999
"""More gain nothing: preparing a statement takes 0.6 us a parameter."""

STAGE = "stage"
"""Name of the attached database from which rows are copied."""
_FEW_ROWS = 1_000
_FEW_VALUES = 16
_JSON_BYTES = 512
"""What a value in a list may take while orjson writes it: 300 were seen."""
_STATE_SQL = (
    "SELECT signature_file, n_signatures, next_doc_id, uuid, (SELECT group_concat(value) "
    "FROM parameter WHERE name IN ('bands', 'recall', 'rows', 'threshold') ORDER BY name) "
    "FROM state"
)


class SqliteSession(Session):
    """One open transaction; the connection is the driver's."""

    has_band_indexes = False

    def __init__(
        self, database: Database, connection: Connection | Any, *, is_reader: bool
    ) -> None:
        super().__init__(database, is_reader=is_reader)
        self._connection = connection
        self._run = connection.execute

    def numbers(
        self, sql: str, parameters: Sequence[Any] = (), *, columns: int = 2
    ) -> NDArray[np.int64]:
        """Run one statement whose rows are whole numbers."""
        rows = self.fetch(sql, parameters)
        values = itertools.chain.from_iterable(rows)
        return np.fromiter(values, dtype=np.int64, count=columns * len(rows)).reshape(-1, columns)

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Run one statement; SQLite computes rows as they are taken anyway."""
        rows: Iterator[Any] = self.execute(sql, parameters)
        return rows

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement once for each row of parameters."""
        self._connection.executemany(sql, rows)

    def insert_rows(
        self,
        table: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        or_ignore: bool = False,
    ) -> None:
        """Insert rows, several per statement: a quarter to a third faster than executemany.

        Rows of the table ``band`` take 1.1 us each: by executemany 2, and laid out as pages 1.6.

        OR FAIL spares the copy of every changed page that SQLite would keep to undo the statement
        alone: an error undoes the whole transaction.
        """
        execute, width = self._connection.execute, len(columns)
        most = PARAMETERS_A_STATEMENT // width * width
        into = f"OR {'IGNORE' if or_ignore else 'FAIL'} INTO {table}"
        parts: Iterator[list[Any]]
        if isinstance(rows, np.ndarray):
            flat = rows.reshape(-1)
            parts = (flat[start : start + most].tolist() for start in range(0, len(flat), most))
        else:
            values = itertools.chain.from_iterable(rows)
            parts = iter(lambda: list(itertools.islice(values, most)), [])
        statement, size = "", 0
        for part in parts:
            if len(part) != size:
                statement, size = _insertion(into, columns, len(part) // width), len(part)
            execute(statement, part)

    def insert_columns(
        self, table: str, names: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> None:
        """Insert many rows without the interpreter's lock, few as :meth:`insert_rows`."""
        if len(columns[0]) > _FEW_ROWS and self.stages:
            columns = self._insert_staged(table, names, columns)
        self.insert_rows(table, names, zip(*columns, strict=True))

    def _insert_staged(
        self, table: str, names: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> Sequence[Sequence[Any]]:
        """Insert the rows that can be staged; return the others."""
        from lshdb.storage.dialects.sqlite import staged_rows as staged

        staging = staged.database_of_rows(names, columns)
        if staging is None:
            return columns
        database, left = staging
        self.stage(database)
        del database
        try:
            self.execute(
                f"INSERT OR FAIL INTO {table} ({', '.join(names)}) "
                f"SELECT * FROM {STAGE}.{staged.STAGED_ROWS}"
            )
        finally:  # detaching would have to wait for the end of the transaction
            self.unstage()
        return [[column[place] for place in left] for column in columns]

    @functools.cached_property
    def stages(self) -> bool:
        """Whether :meth:`stage` can be called: not if SQLite was compiled without that."""
        return hasattr(self._connection, "deserialize")

    def stage(self, database: NDArray[np.uint8]) -> None:
        """Attach a database in memory, in place of the one before; SQLite makes its own copy."""
        names = {name for _, name, _ in self.execute("PRAGMA database_list")}
        if STAGE not in names:
            self.execute(f"ATTACH ':memory:' AS {STAGE}")
        self._connection.deserialize(database.data, name=STAGE)

    def unstage(self) -> None:
        """Free the attached database; a file is closed."""
        from lshdb.storage.dialects.sqlite.staged_database import empty_database

        self.stage(empty_database())

    def in_list(self, column: str) -> str:
        """Return a condition: the column is one of the values in the encoded list."""
        return f"{column} IN (SELECT value FROM json_each(?))"

    def listed(self) -> str:
        """Return a table of the values in the encoded list."""
        return "json_each(?) AS listed"

    def encode_list(self, values: Iterable[Any] | NDArray[np.int64]) -> str:
        """Encode values as JSON."""
        if isinstance(values, np.ndarray):
            _require_memory_of(values.size)
            return orjson.dumps(
                np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY
            ).decode()
        values = list(values)
        _require_memory_of(len(values))
        return orjson.dumps(values).decode()

    def state(self) -> State | None:
        """Return what a snapshot begins with, in one statement.

        A reader keeps it for as long as nobody commits: it takes 12 us, and more pages.
        """
        connection = self._connection
        if self.is_reader and connection.kept and connection.kept[0] == connection.version:
            known_state: State = connection.kept[1]
            return known_state
        row = self.execute(_STATE_SQL).fetchone()
        if row is None:
            return None
        state: State = row
        if self.is_reader:
            connection.kept = connection.version, state
        return state

    def structure(self) -> Iterator[str]:
        """Yield findings of SQLite's own check of its pages and indexes."""
        for (finding,) in self.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield str(finding)

    def misplaced_values(self) -> Iterator[str]:
        """Yield findings: columns with values of another type, or numbers of missing signatures.

        One pass over every table.
        """
        tables = self.fetch(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY name"
        )
        for (table,) in tables:
            columns = self.fetch(f'PRAGMA table_info("{table}")')
            conditions = {
                name: _is_wrong(name, declared, may_be_null=not (not_null or key))
                for _, name, declared, not_null, _, key in columns
                if declared.startswith(tuple(_TYPES))
            }
            counts = ", ".join(f"sum({condition})" for condition in conditions.values())
            if not conditions:
                continue
            row = self.execute(f'SELECT {counts} FROM "{table}"').fetchone()
            for name, count in zip(conditions, row, strict=True):
                if count:
                    yield f"{count} values in the column {name} of the table {table} are impossible"

    def free_bytes(self) -> int:
        """Return the bytes of pages that hold nothing."""
        row = self.execute(
            "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
        ).fetchone()
        return int(row[0])

    def keys_by_index(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key); the index of a unique column holds its values once more."""
        rows: Iterator[tuple[int, str]] = self.execute(
            "SELECT doc_id, key FROM document INDEXED BY sqlite_autoindex_document_1"
        )
        return rows

    def whole_bytes(self, target: Database) -> int:
        """Return the size of the file, if the target is one too."""
        if target.path is None:
            return 0
        row = self.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()
        return int(row[0])

    def copy_whole(self, target: Database) -> bool:
        """Copy the file as this transaction sees it, if the target is a file too."""
        if target.path is None:
            return False
        copy_database(self._connection, target.path)
        return True


def _insertion(into: str, columns: Sequence[str], n_rows: int) -> str:
    """Return an INSERT of this many rows at once."""
    row = "(" + ",".join("?" * len(columns)) + ")"
    return f"INSERT {into} ({', '.join(columns)}) VALUES " + ",".join([row] * n_rows)


def _require_memory_of(n_values: int) -> None:
    if n_values > _FEW_VALUES:
        require_memory(_JSON_BYTES * n_values)


_TYPES = {
    "INTEGER": "'integer'", "BOOLEAN": "'integer'", "TEXT": "'text'", "VARCHAR(32)": "'text'",
    "BLOB": "'blob'", "FLOAT": "'real', 'integer'",
}  # fmt: skip


def _is_wrong(name: str, declared: str, *, may_be_null: bool) -> str:
    types = _TYPES[declared] + (", 'null'" if may_be_null else "")
    wrong = f"typeof({name}) NOT IN ({types})"
    if name in NUMBERS:
        first, last = NUMBERS[name]
        wrong += f" OR coalesce((SELECT {name} NOT BETWEEN {first} AND {last} FROM state), 0)"
    return wrong
