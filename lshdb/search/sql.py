"""Statements of the user, on a connection that can only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lshdb.arguments import check_seconds
from lshdb.errors import ParameterError, QueryError
from lshdb.storage.dialects.base import Database, Fate
from lshdb.storage.dialects.reader import GuardedReader, TimedOut
from lshdb.storage.store import Store

__all__ = ["SqlResult", "run_sql"]


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows of a statement.

    Attributes
    ----------
    columns : tuple of str
    rows : iterator of tuple
        Streamed; the connection closes when they are exhausted or dropped.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def run_sql(
    store: Store,
    statement: str,
    parameters: Sequence[Any] | Mapping[str, Any],
    *,
    timeout: float | None,
) -> SqlResult:
    """Run one SELECT; see :meth:`lshdb.Index.sql`."""
    if not isinstance(statement, str):
        raise ParameterError(f"the statement is {statement!r:.80}; expected a string")
    if not isinstance(parameters, list | tuple | Mapping):
        raise ParameterError(
            f"parameters is {parameters!r:.80}, of type {type(parameters).__name__}; expected a "
            "list or tuple of values, or a mapping",
            hint="put one value into a list",
        )
    seconds = None if timeout is None else check_seconds("timeout", timeout)
    store.require_open()
    reader = store.database.open_guarded(seconds)
    try:
        found = reader.run(statement, parameters)
        if found is None:
            raise QueryError("the statement gives no rows", hint="write one SELECT")
    except store.database.errors(ValueError, OverflowError) as error:
        reader.close()
        if store.database.fate(error) is Fate.LOST:
            raise store.database.translation(error) from error
        raise QueryError(
            f"the statement was refused: {store.database.said(error)}",
            hint="one SELECT (or WITH ... SELECT) is run, read-only; see lshdb guide format for "
            "the tables and views",
        ) from error
    except TimedOut as error:
        reader.close()
        raise _timed_out(timeout) from error
    except BaseException:
        reader.close()
        raise
    columns, taken = found
    rows = _rows(reader, taken, timeout, store.database)
    next(rows)
    return SqlResult(columns, store.while_open(rows))


def _rows(
    reader: GuardedReader,
    rows: Iterator[tuple[Any, ...]],
    timeout: float | None,
    database: Database,
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows, after one empty one: only a started generator closes what it holds."""
    try:
        yield ()
        yield from rows
    except database.driver_errors as error:
        if database.fate(error) is Fate.LOST:
            raise database.translation(error) from error
        raise QueryError(
            f"the statement failed: {database.said(error)}",
            hint="check what it computes; it can only read, and only what your role may read",
        ) from error
    except TimedOut as error:
        raise _timed_out(timeout) from error
    finally:
        reader.close()


def _timed_out(timeout: float | None) -> QueryError:
    return QueryError(
        f"the statement was stopped: it worked for longer than {timeout:g} s",
        hint="give it more time, or look up postings by bucket_key and documents by key",
    )
