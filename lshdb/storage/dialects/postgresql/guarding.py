"""A connection for statements of the user's own: reading is all that is possible on it.

The statement becomes that of a cursor (``DECLARE ... CURSOR FOR``) in a READ ONLY transaction. A
cursor takes one SELECT, VALUES or TABLE, without anything in it that writes or locks, and no other
kind of statement; and the transaction is never committed, so that nothing is left even of what a
function may do in one that only reads. The server gives rows as they are taken, as many at a time
as fit into a megabyte or so. Plans are the server's own, for what is asked is anybody's guess.

Time is counted while the server works and not while the reader of the rows does, and stopped by
the server (``statement_timeout``), which is told anew before each piece what is left. Without a
timeout that of the role stays.

Limits: functions are the server's to allow. A role that may call what ends other sessions, reads
the server's files or takes locks may do so here as in any other session of its own; give whoever
asks a role that may not. What a single value takes is bounded by the server alone, at 1 GB.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from lshdb.storage.dialects.postgresql.placing import numbered_parameters
from lshdb.storage.dialects.postgresql.values import size_of, use_plain_values
from lshdb.storage.dialects.reading import GuardedReader, TimedOut

__all__ = ["PostgresGuardedReader"]

_MOST_ROWS = 500
_PIECE_BYTES = 1 << 20


class PostgresGuardedReader(GuardedReader):
    """One statement on a connection that can only read.

    Parameters
    ----------
    connection : psycopg.Connection
        Closed with this.
    timeout : float, optional
        Seconds that the server may work on the statement.
    """

    def __init__(self, connection: psycopg.Connection[Any], timeout: float | None) -> None:
        self._connection = connection
        self._left = timeout
        use_plain_values(connection)
        self._cursor = psycopg.RawServerCursor(connection, "lshdb")

    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Names of the columns, and the rows; see the base class.

        Raises
        ------
        TimedOut
            Also from the rows.
        psycopg.Error, ValueError
            The statement is refused, or fails; the first also from the rows.
        """
        if "\0" in statement:  # where the driver would take it to end
            raise ValueError("the statement holds a NUL")
        sql, values = numbered_parameters(statement.strip().removesuffix(";"), parameters)
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._timed(lambda: self._cursor.execute(sql.encode(), values))
        columns = self._cursor.description or []
        return tuple(column.name for column in columns), self._rows()

    def close(self) -> None:
        """Close the connection; what its transaction did is undone."""
        self._connection.close()
        self._cursor.close()  # without a word to the server, which may have no time left for it

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        cursor = self._cursor
        cursor.arraysize = 1
        while rows := self._timed(cursor.fetchmany):
            yield from rows
            size = sum(map(size_of, rows)) // len(rows) + 1
            cursor.arraysize = max(1, min(2 * len(rows), _MOST_ROWS, _PIECE_BYTES // size))

    def _timed(self, work: Any) -> Any:
        """Let the server work, for what is left of its time."""
        if self._left is None:
            return work()
        milliseconds = max(1, round(self._left * 1000))
        begun = time.monotonic()
        try:
            # Also this, which what was left before is the timeout of.
            self._connection.execute(f"SET LOCAL statement_timeout = {milliseconds}".encode())
            result = work()
        except psycopg.errors.QueryCanceled as error:
            if time.monotonic() - begun < self._left / 2:  # by somebody, and not by the clock
                raise
            raise TimedOut from error
        self._left -= time.monotonic() - begun
        if self._left < 0:
            raise TimedOut
        return result
