"""Statements of the user's own, read-only for real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lshdb.errors import QueryError
from lshdb.storage.dialects import sqlite as dialect

__all__ = ["SqlResult", "run_sql"]


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows of a statement.

    Attributes
    ----------
    columns : tuple of str
    rows : iterator of tuple
        Streamed; the connection closes when it is exhausted or dropped.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def run_sql(
    database: Path, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> SqlResult:
    """Run one SELECT; see :meth:`lshdb.Index.sql`."""
    connection = dialect.open_guarded_reader(database)
    try:
        cursor = connection.execute(statement, parameters)
    except (*dialect.DRIVER_ERRORS, ValueError) as error:
        connection.close()
        raise QueryError(
            f"the statement was refused: {error}",
            hint="one SELECT (or WITH ... SELECT) is run, read-only; the tables and views are in "
            "docs/format.md",
        ) from error
    if cursor.description is None:
        connection.close()
        raise QueryError("the statement gives no rows", hint="write one SELECT")
    columns = tuple(column[0] for column in cursor.description)
    rows = _rows(connection, cursor)
    next(rows)
    return SqlResult(columns, rows)


def _rows(connection: Any, cursor: Any) -> Iterator[tuple[Any, ...]]:
    """The rows, after one empty one: only a generator that has begun closes what it holds."""
    try:
        yield ()
        # Not "yield from": that would close the cursor, after the connection, when it is dropped.
        for row in cursor:  # noqa: UP028
            yield row
    except dialect.DRIVER_ERRORS as error:
        raise QueryError(f"the statement failed: {error}") from error
    finally:
        connection.close()
