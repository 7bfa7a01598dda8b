"""One open transaction on an SQLite database, and a check of its columns.

Lists of values travel as one JSON parameter (``json_each``), so that the text of a statement, and
with it the prepared statement, does not depend on their number.

The check looks for values of undeclared types: SQLite stores any value in any column, and so does
damage.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.storage.dialects.base import NUMBERS, Database, Session
from lshdb.storage.dialects.sqlite.database_files import copy_database
from lshdb.storage.dialects.sqlite.sqlite_runs import SqliteRunTables

if TYPE_CHECKING:
    from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase

__all__ = ["SqliteSession", "misplaced_values"]


_TYPES = {
    "INTEGER": "'integer'", "BOOLEAN": "'integer'", "TEXT": "'text'", "VARCHAR(32)": "'text'",
    "BLOB": "'blob'", "FLOAT": "'real', 'integer'",
}  # fmt: skip


def misplaced_values(execute: Callable[..., Any]) -> Iterator[str]:
    """Yield findings: columns with values of another type, or numbers of missing signatures.

    One pass over every table, the small ones and those of documents before the posting runs.
    """
    tables = execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
        "ORDER BY name LIKE 'posting_run_%', name"
    ).fetchall()
    for (table,) in tables:
        columns = execute(f'PRAGMA table_info("{table}")').fetchall()
        conditions = {
            name: _is_wrong(name, declared, may_be_null=not (not_null or key))
            for _, name, declared, not_null, _, key in columns
            if declared.startswith(tuple(_TYPES))
        }
        counts = ", ".join(f"sum({condition})" for condition in conditions.values())
        if not conditions:
            continue
        row = execute(f'SELECT {counts} FROM "{table}"').fetchone()
        for name, count in zip(conditions, row, strict=True):
            if count:
                yield f"{count} values in the column {name} of the table {table} are impossible"


def _is_wrong(name: str, declared: str, *, may_be_null: bool) -> str:
    types = _TYPES[declared] + (", 'null'" if may_be_null else "")
    wrong = f"typeof({name}) NOT IN ({types})"
    if name in NUMBERS:
        first, last = NUMBERS[name]
        wrong += f" OR coalesce((SELECT {name} NOT BETWEEN {first} AND {last} FROM state), 0)"
    return wrong


PARAMETERS_A_STATEMENT = 999
"""As many as SQLite took before 3.32; more gain nothing for postings and texts."""
LARGE_STATEMENT = 8_000 if sqlite3.sqlite_version_info >= (3, 32) else PARAMETERS_A_STATEMENT
"""Parameters of a statement for many rows of ``document``.

To undo a statement on its own, SQLite keeps a copy of every page that it changes, and the rows of
90 documents touch many pages in four B-trees. So 40,000 rows take 165 ms in statements of this size
and 230 ms in those of the other; but preparing one takes 5 ms.
"""

_STATE_SQL = (
    "SELECT signature_file, n_signatures, next_doc_id, (SELECT group_concat(table_name) FROM "
    "(SELECT table_name FROM run ORDER BY run_id)), (SELECT group_concat(value) FROM parameter "
    "WHERE name IN ('bands', 'recall', 'rows', 'threshold') ORDER BY name) FROM state"
)


class SqliteSession(Session):
    """One open transaction; the connection is the driver's."""

    database: SqliteDatabase

    def __init__(
        self, database: SqliteDatabase, connection: sqlite3.Connection | Any, *, is_reader: bool
    ) -> None:
        super().__init__(database, is_reader=is_reader)
        self._connection = connection
        self._run = connection.execute

    @functools.cached_property
    def run_tables(self) -> SqliteRunTables:
        """The posting runs in this transaction."""
        return SqliteRunTables(self)

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
        large: bool = False,
    ) -> None:
        """Insert rows, several per statement: a quarter to a third faster than executemany."""
        part = iter(rows)
        execute = self._connection.execute
        into = f"OR IGNORE INTO {table}" if or_ignore else f"INTO {table}"
        for parameters in (LARGE_STATEMENT, PARAMETERS_A_STATEMENT)[not large :]:
            step = parameters // len(columns)
            whole = _insertion(into, columns, step)
            while len(taken := list(itertools.islice(part, step))) == step:
                execute(whole, list(itertools.chain.from_iterable(taken)))
            part = iter(taken)
        if taken:
            rest = _insertion(into, columns, len(taken))
            execute(rest, list(itertools.chain.from_iterable(taken)))

    def insert_pairs(self, table: str, columns: tuple[str, str], pairs: NDArray[np.int64]) -> None:
        """Insert rows of two whole numbers, shape (n, 2): three times as fast as executemany."""
        step = PARAMETERS_A_STATEMENT // 2
        whole = _insertion(f"INTO {table}", columns, step)
        execute = self._connection.execute
        for start in range(0, len(pairs), step):
            part = pairs[start : start + step]
            rest = whole if len(part) == step else _insertion(f"INTO {table}", columns, len(part))
            execute(rest, part.reshape(-1).tolist())

    def in_list(self, column: str) -> str:
        """Return a condition: the column is one of the values in the encoded list."""
        return f"{column} IN (SELECT value FROM json_each(?))"

    def encode_list(self, values: Iterable[Any] | NDArray[np.int64]) -> str:
        """Encode values as JSON."""
        if isinstance(values, np.ndarray):
            return orjson.dumps(
                np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY
            ).decode()
        return orjson.dumps(list(values)).decode()

    def state(self) -> tuple[str, int, int, str, str] | None:
        """Return what a snapshot begins with, in one statement."""
        row = self.execute(_STATE_SQL).fetchone()
        return None if row is None else (*row[:3], row[3] or "", row[4])

    def structure(self) -> Iterator[str]:
        """Yield findings of SQLite's own check of its pages and indexes."""
        for (finding,) in self.execute("PRAGMA integrity_check"):
            if finding != "ok":
                yield str(finding)

    def misplaced_values(self) -> Iterator[str]:
        """Yield findings: columns with values of another type, or numbers of what is missing."""
        return misplaced_values(self.execute)

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

    def copy_whole(self, target: Database) -> bool:
        """Copy the file as this transaction sees it, if the target is a file too."""
        if not isinstance(target, type(self.database)):
            return False
        copy_database(self._connection, target.path)
        return True


def _insertion(into: str, columns: Sequence[str], n_rows: int) -> str:
    """Return an INSERT of this many rows at once."""
    row = "(" + ",".join("?" * len(columns)) + ")"
    return f"INSERT {into} ({', '.join(columns)}) VALUES " + ",".join([row] * n_rows)
