"""A connection for statements of the user, which can only read.

Read-only mode alone would let ATTACH create files and VACUUM INTO write copies. So an authorizer
allows SELECT, reading of columns, functions and recursive queries, and nothing else. That refuses
ATTACH, PRAGMA (also as a table, ``pragma_table_info``), transactions and temporary tables.
Functions that reach out of the database are refused by name. One is added: ``text(doc_id)``.

Decided: the caller limits the time of a statement. The size of a single value is limited here,
because a slip of a zero in ``zeroblob`` or ``printf`` would end the process. Time is counted while
the database works, not while the user reads rows, so a long listing that somebody pages through is
not cut off.

While the database works, a signal is handled in these callbacks. The ``sqlite3`` module drops what
the handler raises: it takes an authorizer that raises for one that refuses, and a progress handler
that raises for one that stops the statement. So each callback notes when it refuses or stops. If
the database reports either without such a note, it was a signal, and the interruption is raised
again.

Limits: the clock is checked between two steps of SQLite's machine, some thousand times a second,
and before each text; a single function over one huge value is one step. A statement that sorts or
removes duplicates without end fills SQLite's temporary files, which only the timeout bounds.
"""

from __future__ import annotations

import re
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from lshdb.cancel import dropped
from lshdb.storage.dialects.base import GuardedReader, TimedOut, close_with
from lshdb.storage.dialects.sqlite.text_function import LONGEST_VALUE, register_text
from lshdb.storage.dialects.sqlite.trust import REVISION_TABLE

__all__ = ["LONGEST_VALUE", "SqliteGuardedReader"]

_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_REFUSED_FUNCTIONS = frozenset(
    # Functions that load code, reveal addresses in memory, read or write files or run programs, if
    # SQLite was built with them.
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "fsdir", "sqlite_log"}
)
_NO_TABLE = re.compile(r"no such table: (?:main\.)?(.+)", re.DOTALL)
_NAMES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' "
    f"AND name <> '{REVISION_TABLE}' ORDER BY name"
)
_STEPS = 1000
"""Steps of SQLite's machine between two looks at the clock: well under a millisecond."""
_UNTIMED_STEPS = 50 * _STEPS
"""The same without a timeout, for signals alone."""


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class SqliteGuardedReader(GuardedReader):
    """One statement on a connection that can only read.

    Parameters
    ----------
    connection : sqlite3.Connection
        Closed together with this object.
    timeout : float, optional
        Seconds that the database may work on the statement.
    """

    def __init__(self, connection: sqlite3.Connection, timeout: float | None) -> None:
        self._left = timeout
        self._deadline = 0.0
        self._connection = connection
        self._has_refused = False
        self._is_late = False
        self._failure: BaseException | None = None
        close_with(self, connection)  # so the connection must not have this object
        stop_if_over, note = _weak(self._stop_if_over), _weak(self._note_failure)
        register_text(connection, before=stop_if_over, failed=note)
        self._connection.set_authorizer(_weak(self._authorise))
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        steps = _UNTIMED_STEPS if timeout is None else _STEPS
        self._connection.set_progress_handler(_weak(self._is_over), steps)

    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Return the names of the columns, and the rows; None if the statement gives no rows.

        Raises
        ------
        TimedOut
            Also from the rows.
        sqlite3.Error, sqlite3.Warning
            The statement is refused, or fails; also from the rows.
        LshdbError
            From ``text(doc_id)``; also from the rows.
        """
        cursor = self._timed(lambda: self._connection.execute(statement, parameters))
        if cursor.description is None:
            return None
        return tuple(column[0] for column in cursor.description), self._rows(cursor)

    def lacking(self, error: BaseException) -> tuple[str, list[str]] | None:
        """Return the missing table that a statement names, and the existing ones."""
        match = _NO_TABLE.fullmatch(str(error))
        if match is None:
            return None
        rows = self._timed(lambda: self._connection.execute(_NAMES).fetchall())
        return match[1], [name for (name,) in rows]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
        while (row := self._timed(cursor.fetchone)) is not None:
            yield row

    def _timed(self, work: Any) -> Any:
        """Let the database work for the time that is left."""
        start = time.monotonic()
        if self._left is not None:
            self._deadline = start + self._left
        try:
            return work()
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure from None
            if "user-defined function" in str(error):  # a signal, before or after its work
                raise dropped() from None
            if code == sqlite3.SQLITE_INTERRUPT and self._is_late:
                raise TimedOut from error
            is_ours = self._is_late or self._has_refused
            if code in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_AUTH) and not is_ours:
                raise dropped() from None
            raise
        finally:
            if self._left is not None:
                self._left -= time.monotonic() - start

    def _note_failure(self, failure: BaseException) -> None:
        """Keep what ``text`` raises: SQLite drops it, and stops the statement."""
        if getattr(failure, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            failure = TimedOut() if self._is_late else dropped()
        self._failure = failure

    def _stop_if_over(self) -> None:
        if self._is_over():
            raise TimedOut

    def _is_over(self) -> bool:
        if self._left is not None and time.monotonic() > self._deadline:
            self._is_late = True
        return self._is_late

    def _authorise(
        self, action: int, _first: str | None, second: str | None, *_rest: object
    ) -> int:
        if action in _ALLOWED and not (
            action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS
        ):
            return sqlite3.SQLITE_OK
        self._has_refused = True
        return sqlite3.SQLITE_DENY


def _weak(method: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Return a function that calls a method as long as there is its object."""
    reference = weakref.WeakMethod(method)

    def call(*given: _Given.args, **options: _Given.kwargs) -> _Result:
        return cast("Callable[_Given, _Result]", reference())(*given, **options)

    return call
