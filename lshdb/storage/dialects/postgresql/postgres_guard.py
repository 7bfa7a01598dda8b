"""A statement of the user, on a connection that can only read: its parameters, and its values.

The statement becomes that of a cursor (``DECLARE ... CURSOR FOR``) in a READ ONLY transaction. A
cursor takes one SELECT, VALUES or TABLE, without anything in it that writes or locks, and no other
kind of statement. The transaction is never committed, so nothing remains even of what a function
may do while reading. The server gives rows as they are taken, as many at a time as fit into a
megabyte or so. It makes its own plans, because the question can be anything.

Time is counted while the server works, not while the user reads rows. The server stops the
statement (``statement_timeout``); before each piece it is told what time is left. Without a timeout
that of the role stays.

Values are as on SQLite: numbers, texts, bytes, lists. Everything else (times, JSON, ranges,
addresses, rows) is the text that the server writes for it. That loses nothing: Python has no
infinite time, none before the year 1, and no JSON number of a hundred digits. Whole numbers of more
than 64 bits and fractions become floats, as in SQLite.

Parameters are as on SQLite, too: ``?``, ``?2`` and ``:name``, while the server wants ``$1``. What
looks like a parameter inside a text, a quoted name or a comment is none; that is all that is known
of the language here. A statement that is wrong is left to the server, which says so. Decided, where
the two languages have one sign for two things:

* ``:name`` is a parameter if one of that name is given; so in a slice ``a[lo:hi]`` it is none as
  long as no parameter is called ``hi``.
* ``?|``, ``?&`` and ``@?`` are operators on JSON, and so is ``?`` itself if no values are given in
  order. If some are, it is a parameter, and ``??`` stands for the operator.

``text(doc_id)`` of SQLite is refused: the server has no zstd, and takes ``text(...)`` for a change
of type, which would give the number.

Limits: the server decides about functions. A role that may end other sessions, read the server's
files or take locks may do so here as in any other session; give users who ask a role that may not.
The size of a single value is bounded by the server alone, at 1 GB.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.numeric import IntDumper
from psycopg.types.string import TextLoader

from lshdb.errors import QueryError
from lshdb.storage.dialects.base import GuardedReader, TimedOut, close_with, next_piece
from lshdb.storage.dialects.postgresql.server_connection import ServerConnection

__all__ = [
    "PostgresGuardedReader",
    "numbered_parameters",
    "use_plain_values",
]

_KEPT = frozenset(
    {
        "bool", "bytea", "char", "bpchar", "varchar", "text", "name", "unknown", "float4", "float8",
        "int2", "int4", "int8", "oid", "numeric",
    }
)  # fmt: skip
"""Types whose values are numbers, texts and bytes in Python."""
_LARGEST = 2**63


class _TextNumericLoader(Loader):
    """A numeric as an int of 64 bits if it is written as one, else as a float."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        if text.lstrip("-").isdecimal() and -_LARGEST <= int(text) < _LARGEST:
            return int(text)
        return float(text)


class _TruthLoader(Loader):
    """A truth value as 1 or 0."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


def use_plain_values(connection: psycopg.Connection[Any]) -> None:
    """Let a connection give plain values, and take numbers in the smallest type that holds them.

    ``substr(key, ?)`` exists for an integer, and a bigint does not become one by itself.
    """
    adapters = connection.adapters
    adapters.register_dumper(int, IntDumper)
    for info in psycopg.adapters.types:
        if info.name not in _KEPT:
            adapters.register_loader(info.oid, TextLoader)
    adapters.register_loader("numeric", _TextNumericLoader)
    adapters.register_loader("bool", _TruthLoader)


_NO_RELATION = re.compile(r'relation "(.+?)" does not exist')
_NAMES = (
    "SELECT relname::text FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace "
    "WHERE nspname = current_schema()) AND relkind IN ('r', 'p', 'v') AND NOT relispartition "
    "AND relname NOT IN ('alembic_version', 'commit_mark') ORDER BY relname"
)
_MOST_ROWS = 500


class PostgresGuardedReader(GuardedReader):
    """One statement on a connection that can only read.

    Parameters
    ----------
    connection : ServerConnection
        Closed together with this object.
    timeout : float, optional
        Seconds that the server may work on the statement.
    """

    def __init__(self, connection: ServerConnection, timeout: float | None) -> None:
        self._connection = connection
        close_with(self, connection)
        self._left = timeout
        use_plain_values(connection)
        self._cursor = psycopg.RawServerCursor(connection, "lshdb")

    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Return the names of the columns, and the rows; see the base class.

        Raises
        ------
        TimedOut
            Also from the rows.
        psycopg.Error, ValueError
            The statement is refused, or fails; the first also from the rows.
        QueryError
            It asks for ``text(doc_id)``.
        """
        if "\0" in statement:  # the driver would end the statement there
            raise ValueError("the statement holds a NUL")
        if calls_text(statement):
            raise QueryError(
                "text(doc_id) is a function of an index in SQLite; Postgres cannot decompress "
                "what is stored",
                hint="read a text with lshdb show INDEX KEY (Index.show), or many with lshdb "
                "export; for the type, write CAST(... AS text)",
            )
        sql, values = numbered_parameters(statement.strip().removesuffix(";"), parameters)
        self._connection.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._timed(lambda: self._cursor.execute(sql.encode(), values))
        columns = self._cursor.description or []
        return tuple(column.name for column in columns), self._rows()

    def lacking(self, error: BaseException) -> tuple[str, list[str]] | None:
        """Return the missing table that a statement names, and the existing ones."""
        if not isinstance(error, psycopg.errors.UndefinedTable):
            return None
        match = _NO_RELATION.search(str(error))
        if match is None:
            return None
        self._connection.execute("ROLLBACK")
        self._connection.begin()
        rows = self._connection.execute(_NAMES).fetchall()
        return match[1], [name for (name,) in rows]

    def close(self) -> None:
        """Close the connection; undo what its transaction did."""
        self._connection.close()
        self._cursor.close()  # without telling the server, which may have no time left

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        cursor = self._cursor
        cursor.arraysize = 1
        while rows := self._timed(cursor.fetchmany):
            yield from rows
            cursor.arraysize = next_piece(rows, _MOST_ROWS)

    def _timed(self, work: Any) -> Any:
        """Let the server work for the time that is left."""
        if self._left is None:
            return work()
        milliseconds = max(1, round(self._left * 1000))
        start = time.monotonic()
        try:
            # The time left before is the timeout of this statement, too.
            self._connection.execute(f"SET LOCAL statement_timeout = {milliseconds}".encode())
            result = work()
        except psycopg.errors.QueryCanceled as error:
            if time.monotonic() - start < self._left / 2:  # cancelled by someone, not by the clock
                raise
            raise TimedOut from error
        self._left -= time.monotonic() - start
        if self._left < 0:
            raise TimedOut
        return result


_COMMENTS_DEEP = 4
"""Comments in comments are known to this depth."""


def _comment(depth: int) -> str:
    inner = rf"|{_comment(depth - 1)}" if depth else ""
    return rf"/\*(?:(?!/\*|\*/).{inner})*(?:\*/|\Z)"


_TOKEN = re.compile(
    rf"""
      --[^\n]* | {_comment(_COMMENTS_DEEP)}
    | [eE]'(?:[^'\\]|''|\\.)*'?             # a text in which a backslash means something
    | '(?:[^']|'')*'? | "(?:[^"]|"")*"?     # any other text, a quoted name
    | \$(?P<tag>(?:[^\W\d]\w*)?)\$ .*? (?:\$(?P=tag)\$|\Z)
    | [^\W\d][\w$]*                         # a name or a word
    | :: | @\? | \?& | \?\|(?!\|)
    | (?P<operator> \?\? )
    | \?(?P<number>\d*)
    | :(?P<name>[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_CALL = re.compile(rf"{_TOKEN.pattern} | [^\s]", re.VERBOSE | re.DOTALL)


def calls_text(statement: str) -> bool:
    """Return whether a statement calls ``text(...)``, which here would only change a type."""
    tokens = [match[0].lower().strip('"') for match in _CALL.finditer(statement)]
    tokens = [token for token in tokens if not token.startswith(("--", "/*"))]
    return any(pair == ("text", "(") for pair in itertools.pairwise(tokens))


def numbered_parameters(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> tuple[str, list[Any]]:
    """Return a statement with ``$1`` for its parameters, and their values in that order.

    Raises
    ------
    ValueError
        There are more or fewer parameters than values in order.
    """
    named = parameters if isinstance(parameters, Mapping) else {}
    positional = () if isinstance(parameters, Mapping) else parameters
    highest = 0
    values: list[Any] = []
    places: dict[int | str, int] = {}

    def placed(match: re.Match[str]) -> str:
        nonlocal highest
        name: int | str
        if match["name"] in named:
            name, value = match["name"], named[match["name"]]
        elif match["number"] is not None and positional:
            name = int(match["number"] or highest + 1)
            highest = max(highest, name)
            if not 1 <= name <= len(positional):
                raise ValueError(f"there is no parameter {name}; {len(positional)} were given")
            value = positional[name - 1]
        else:
            return "?" if match["operator"] and parameters else match[0]
        if name not in places:
            values.append(value)
            places[name] = len(values)
        start = match.start()
        is_after_word = statement[max(0, start - 1) : start].isalnum()
        return f" ${places[name]}" if is_after_word else f"${places[name]}"

    sql = _TOKEN.sub(placed, statement)
    if highest != len(positional):
        raise ValueError(f"the statement has {highest} parameters; {len(positional)} were given")
    return sql, values
