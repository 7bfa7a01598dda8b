"""A connection for statements of the user's own: reading is all that is possible on it.

The statement becomes that of a cursor (``DECLARE ... CURSOR FOR``) in a READ ONLY transaction. A
cursor takes one SELECT or VALUES, without anything in it that writes, and no other kind of
statement; the server gives rows as they are taken. Time is counted while the server works, and
stopped by the server (``statement_timeout``).

Limits: functions are the server's to allow. A role that may call what ends other sessions, reads
the server's files or takes locks may do so here as in any other session of its own; give whoever
asks a role that may not. What a single value takes is bounded by the server alone, at 1 GB.

Decided: ``?`` and ``:name`` are replaced where SQL has a parameter, and not in texts, quoted names
or comments, nor as a part of ``::`` or of an operator that Postgres spells with ``?``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from lshdb.storage.dialects.base import GuardedReader, TimedOut

__all__ = ["PostgresGuardedReader"]

_ROWS_A_FETCH = 500
_TOKEN = re.compile(
    r"""(?P<skipped>
        '(?:[^']|'')*'                          # a text
      | "(?:[^"]|"")*"                          # a quoted name
      | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$       # a text between dollars
      | --[^\n]*                                # a comment
      | /\* .*? \*/
      | ::
      | [\w)\]]\s*:(?=\s*[\w(])                 # a slice of an array
    )
    | \?(?P<number>\d*)
    | :(?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)


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
        self._timeout = timeout
        self._left = timeout

    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Names of the columns, and the rows; see the base class."""
        sql, values = _with_numbers(statement.strip().rstrip(";"), parameters)
        milliseconds = 0 if self._timeout is None else max(1, round(self._timeout * 1000))
        self._connection.execute(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
            f"SET LOCAL statement_timeout = {milliseconds}".encode()
        )
        cursor = psycopg.RawServerCursor(self._connection, "lshdb")
        cursor.itersize = _ROWS_A_FETCH
        self._timed(lambda: cursor.execute(sql, values))
        columns = cursor.description or []
        return tuple(column.name for column in columns), self._rows(cursor)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, cursor: Any) -> Iterator[tuple[Any, ...]]:
        while rows := self._timed(lambda: cursor.fetchmany(_ROWS_A_FETCH)):
            yield from rows

    def _timed(self, work: Any) -> Any:
        """Let the server work, for what is left of its time."""
        begun = time.monotonic()
        try:
            result = work()
        except psycopg.errors.QueryCanceled as error:
            raise TimedOut from error
        if self._left is not None:
            self._left -= time.monotonic() - begun
            if self._left < 0:
                raise TimedOut
        return result


def _with_numbers(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> tuple[str, list[Any]]:
    """A statement with ``$1`` for its parameters, and their values in that order."""
    values: list[Any] = []
    places: dict[str, int] = {}

    def placed(name: str, value: Any) -> str:
        if name not in places:
            values.append(value)
            places[name] = len(values)
        return f"${places[name]}"

    def replaced(found: re.Match[str]) -> str:
        if found["skipped"] is not None:
            return found[0]
        if found["name"] is not None:
            if not isinstance(parameters, Mapping) or found["name"] not in parameters:
                raise ValueError(f"there is no parameter :{found['name']}")
            return placed(found["name"], parameters[found["name"]])
        if isinstance(parameters, Mapping):
            return found[0]
        number = int(found["number"] or len(asked) + 1)
        asked.append(number)
        if number > len(parameters):
            raise ValueError(f"the statement has parameter {number}; {len(parameters)} were given")
        return placed(str(number), parameters[number - 1])

    asked: list[int] = []
    sql = _TOKEN.sub(replaced, statement)
    if not isinstance(parameters, Mapping) and len(places) != len(parameters):
        raise ValueError(
            f"the statement has {len(places)} parameters; {len(parameters)} were given"
        )
    return sql, values
