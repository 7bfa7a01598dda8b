"""Run a user's statement on a connection that can only read."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lshdb.arguments import check_seconds
from lshdb.errors import ParameterError, QueryError
from lshdb.result_tables import Columns, ResultTable, blocks_of
from lshdb.signatures.family import Family
from lshdb.storage.dialects.base import Database, Fate, GuardedReader, TimedOut
from lshdb.storage.transactions.index_state import while_open
from lshdb.storage.transactions.store import Store

__all__ = ["SqlResult", "run_sql"]


class SqlResult(Iterator[tuple[Any, ...]], ResultTable):
    """Rows of a statement, streamed once.

    Iterate it, or turn the remaining rows into a table. To run the statement again, call
    :meth:`lshdb.Index.sql` again.

    Attributes
    ----------
    columns : tuple of str
    rows : iterator of tuple
        The same rows. The connection closes when they are exhausted or dropped.
    """

    def __init__(self, columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
        self.columns = columns
        self.rows = rows
        self._is_spent = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._is_spent:
            raise QueryError(
                "the rows of this statement have been taken",
                hint="keep them in a list, or run the statement again",
            )
        return self

    def __next__(self) -> tuple[Any, ...]:
        try:
            return next(self.rows)
        except StopIteration:
            self._is_spent = True
            raise

    def __repr__(self) -> str:
        state = ", spent" if self._is_spent else ""
        return f"SqlResult(columns={self.columns!r}{state})"

    def _table(self) -> tuple[Columns, Iterator[list[Sequence[Any]]]]:
        """Return what remains of the rows."""
        return [(name, "") for name in self.columns], blocks_of(row for row in self)


def run_sql(
    store: Store,
    family: Family,
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
        result = reader.run(statement, parameters)
        if result is None:
            raise QueryError("the statement gives no rows", hint="write one SELECT")
    except store.database.errors(ValueError, OverflowError) as error:
        with contextlib.closing(reader):
            if store.database.fate(error) is Fate.LOST:
                raise store.database.translation(error) from error
            hint = _tables(reader, error, store.database)
        raise QueryError(
            f"the statement was refused: {store.database.said(error)}", hint=hint
        ) from error
    except TimedOut as error:
        reader.close()
        raise _timed_out(timeout) from error
    except BaseException:
        reader.close()
        raise
    columns, result_rows = result
    rows = _rows(reader, result_rows, timeout, store.database)
    next(rows)
    return SqlResult(columns, while_open(store, rows))


def _tables(reader: GuardedReader, error: Exception, database: Database) -> str:
    """Return a hint that names tables and views, if the statement names one that does not exist."""
    lacking = None
    with contextlib.suppress(TimedOut, *database.driver_errors):
        lacking = reader.lacking(error)
    if lacking is None:
        return (
            "one SELECT (or WITH ... SELECT) is run, read-only; see lshdb guide format for the "
            "tables and views"
        )
    name, tables = lacking
    near = difflib.get_close_matches(name.lower(), tables, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}tables and views: {', '.join(tables)}; see lshdb guide format"


def _rows(
    reader: GuardedReader,
    rows: Iterator[tuple[Any, ...]],
    timeout: float | None,
    database: Database,
) -> Iterator[tuple[Any, ...]]:
    """Yield an empty row, then the rows: only a started generator closes what it holds."""
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
