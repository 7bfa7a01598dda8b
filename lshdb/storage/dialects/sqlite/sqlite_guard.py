"""A connection for statements of the user's own: reading is all that is possible on it.

Read-only mode alone would let ATTACH create files and VACUUM INTO write copies, so an authorizer
allows SELECT, reading of columns, functions and recursive queries, and nothing else; that refuses
ATTACH, PRAGMA (also as a table, ``pragma_table_info``), transactions and temporary tables. Of the
functions those that reach out of the database are refused by name.

Decided: what a statement may take in time is for the caller to say; what a single value may take is
not, because a slip of a zero in ``zeroblob`` or ``printf`` would end the process. Time is counted
while the database works and not while the reader of the rows does, so that a long listing that
somebody pages through is not cut off.

While the database works a signal is heard in these callbacks. What its handler raises there the
``sqlite3`` module drops: it takes an authorizer that raises for one that refuses, and a progress
handler that raises for one that stops the statement. So each notes when it does that itself. Where
the database says so and neither has, it was a signal, and the interruption is raised again.

Limits: the clock is looked at between two steps of SQLite's machine, some thousand times a second;
a single function over one huge value is one step. What sorts or removes duplicates without end
goes to SQLite's temporary files, which the timeout alone bounds.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lshdb.cancel import dropped
from lshdb.storage.dialects.reader import GuardedReader, TimedOut

__all__ = ["LONGEST_VALUE", "SqliteGuardedReader"]

LONGEST_VALUE = 256 * 2**20
"""Bytes of one value: four documents of the usual limit."""

_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_REFUSED_FUNCTIONS = frozenset(
    # What loads code, names addresses in memory, reads or writes files or runs programs, wherever
    # SQLite was built with it.
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "fsdir", "sqlite_log"}
)
_STEPS = 1000
"""Steps of SQLite's machine between two looks at the clock: well under a millisecond."""
_UNTIMED_STEPS = 50 * _STEPS
"""The same without a timeout, for signals alone."""


class SqliteGuardedReader(GuardedReader):
    """One statement on a connection that can only read.

    Parameters
    ----------
    connection : sqlite3.Connection
        Closed with this.
    timeout : float, optional
        Seconds that the database may work on the statement.
    """

    def __init__(self, connection: sqlite3.Connection, timeout: float | None) -> None:
        self._left = timeout
        self._deadline = 0.0
        self._connection = connection
        self._has_refused = False
        self._is_late = False
        self._connection.set_authorizer(self._authorise)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        steps = _UNTIMED_STEPS if timeout is None else _STEPS
        self._connection.set_progress_handler(self._is_over, steps)

    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Names of the columns, and the rows; None where the statement gives no rows.

        Raises
        ------
        TimedOut
            Also from the rows.
        sqlite3.Error, sqlite3.Warning
            The statement is refused, or fails; also from the rows.
        """
        cursor = self._timed(lambda: self._connection.execute(statement, parameters))
        if cursor.description is None:
            return None
        return tuple(column[0] for column in cursor.description), self._rows(cursor)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
        while (row := self._timed(cursor.fetchone)) is not None:
            yield row

    def _timed(self, work: Any) -> Any:
        """Let the database work, for what is left of its time."""
        begun = time.monotonic()
        if self._left is not None:
            self._deadline = begun + self._left
        try:
            return work()
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_INTERRUPT and self._is_late:
                raise TimedOut from error
            is_ours = self._is_late or self._has_refused
            if code in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_AUTH) and not is_ours:
                raise dropped() from None
            raise
        finally:
            if self._left is not None:
                self._left -= time.monotonic() - begun

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
