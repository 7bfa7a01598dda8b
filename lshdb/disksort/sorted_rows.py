"""Sort rows on disk, in private scratch databases.

An SQLite file in the system's folder for temporary files, unlinked as soon as it is open: it is
gone with the connection, also after an error or a kill. No journal and no syncs, for nothing of it
is to survive. Memory is the page cache and one chunk of rows, however many are added.

Decided: one table a database, and three kinds of it. :class:`Scratch` keeps the first of equal
pairs, in a tree. :class:`Sums` adds up the numbers that come with them: rows lie as they came and
are sorted when they are read, which for 5 million distinct pairs takes 21 s where a tree, written
all over, takes 44. :class:`Ranked` keeps all and gives the highest numbers first.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from operator import itemgetter
from typing import ClassVar, Generic, Self, TypeVar

from lshdb.errors import DatabaseError, InputError
from lshdb.files.temporary_folder import TemporaryFolder, temporary_hint

__all__ = ["Ranked", "Scratch", "Sums"]

_CACHE_KIB = 16 * 1024
_CHUNK = 10_000


_Number = TypeVar("_Number", int, float)


class _SortedRows(Generic[_Number]):
    """Rows of two texts and a number, sorted; texts by code points.

    A context manager. Its methods raise DatabaseError if the temporary database fails.
    """

    _create: ClassVar[str]
    _insert: ClassVar[str]
    _select: ClassVar[str]

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, _Number]] = []
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all rows; the object can be filled again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._rows.clear()

    def __iter__(self) -> Iterator[tuple[str, str, _Number]]:
        """Yield all rows, in order; add none until the last has been read."""
        self._write()
        if self._connection is None:
            return
        try:
            # Not "yield from", which closes the cursor of a reader that stops early: by then the
            # connection may be closed.
            for row in self._connection.execute(self._select):  # noqa: UP028
                yield row
        except sqlite3.Error as error:
            raise _failure(error) from error

    def _put(self, row: tuple[str, str, _Number]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _CHUNK:
            self._write()

    def _write(self) -> None:
        if not self._rows:
            return
        try:
            if self._connection is None:
                self._connection = _open(self._create)
            self._connection.executemany(self._insert, self._rows)
        except (sqlite3.Error, OSError) as error:
            raise _failure(error) from error
        self._rows.clear()


class Ranked(_SortedRows[float]):
    """(key1, key2) pairs, repeats included, the highest number first."""

    _create = "CREATE TABLE pair (key1 TEXT, key2 TEXT, number REAL)"
    _insert = "INSERT INTO pair VALUES (?, ?, ?)"
    _select = "SELECT key1, key2, number FROM pair ORDER BY number DESC, key1, key2"

    def put(self, key1: str, key2: str, number: float) -> None:
        """Add a pair."""
        self._put((key1, key2, number))


class Scratch(_SortedRows[int]):
    """(group, member) pairs, each once, with the number of its first source."""

    _create = (
        'CREATE TABLE pair ("group" TEXT, member TEXT, source INTEGER, '
        'PRIMARY KEY ("group", member)) WITHOUT ROWID'
    )
    _insert = "INSERT OR IGNORE INTO pair VALUES (?, ?, ?)"
    _select = 'SELECT "group", member, source FROM pair ORDER BY "group", member'

    def put(self, group: str, member: str, source: int) -> None:
        """Add a pair; an equal one keeps its first source."""
        self._put((group, member, source))

    def count(self) -> int:
        """Return the number of rows; one pass over them."""
        self._write()
        if self._connection is None:
            return 0
        try:
            (count,) = self._connection.execute("SELECT count(*) FROM pair").fetchone()
        except sqlite3.Error as error:
            raise _failure(error) from error
        return int(count)

    def _write(self) -> None:
        # What lies together is written together; equal pairs keep their order.
        self._rows.sort(key=itemgetter(0, 1))
        super()._write()


class Sums(_SortedRows[int]):
    """(source, target) pairs, each once, with the sum of its counts."""

    _create = "CREATE TABLE link (source TEXT, target TEXT, count INTEGER)"
    _insert = "INSERT INTO link VALUES (?, ?, ?)"
    _select = (
        "SELECT source, target, sum(count) FROM link GROUP BY source, target "
        "ORDER BY source, target"
    )

    def put(self, source: str, target: str, count: int) -> None:
        """Add a pair, or add to its count."""
        self._put((source, target, count))

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Yield all pairs, in order; InputError if a sum has more than 64 bits."""
        try:
            yield from super().__iter__()
        except DatabaseError as error:
            if "integer overflow" not in str(error.__cause__):
                raise
            raise InputError(
                f"the counts of one link add up to more than {2**63 - 1:,}",
                hint="give smaller counts",
            ) from error


def _open(create: str) -> sqlite3.Connection:
    with TemporaryFolder() as folder:  # an open file needs no name
        # Rows may be read by another thread than put them in; never by two at once.
        connection = sqlite3.connect(
            folder.path / "rows.db", isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            connection.execute(create)
            # Never committed: a row is not a write to the disk of its own.
            connection.execute("BEGIN")
        except BaseException:
            connection.close()
            raise
    return connection


def _failure(error: Exception) -> DatabaseError:
    return DatabaseError(
        f"the temporary database in {tempfile.gettempdir()} failed: {error}",
        hint=temporary_hint(error),
    )
