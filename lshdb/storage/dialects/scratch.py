"""Members of groups, sorted on disk and not in memory: a database that nobody else ever sees.

An SQLite file in the system's folder for temporary files, unlinked as soon as it is open: it is
gone with the connection, also after an error or a kill. No journal and no syncs, for nothing of it
is to survive. Memory is the page cache and one chunk of rows, whatever is put in.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from types import TracebackType

from lshdb.errors import DatabaseError

__all__ = ["Scratch"]

_CACHE_KIB = 16 * 1024
_CHUNK = 10_000


class Scratch:
    """(group, member) pairs, each kept once, with the number of the source it first came from.

    A context manager. Put all in, then iterate; what fails raises DatabaseError.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, int]] = []
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._rows.clear()

    def put(self, group: str, member: str, source: int) -> None:
        """Put a pair in; one that is there already stays as it is."""
        self._rows.append((group, member, source))
        if len(self._rows) >= _CHUNK:
            self._write()

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """All pairs, in order of group and then of member, by code points."""
        self._write()
        if self._connection is None:
            return
        try:
            yield from self._connection.execute(
                'SELECT "group", member, source FROM pair ORDER BY "group", member'
            )
        except sqlite3.Error as error:
            raise _failure(error) from error

    def _write(self) -> None:
        if not self._rows:
            return
        try:
            if self._connection is None:
                self._connection = _open()
            self._connection.executemany("INSERT OR IGNORE INTO pair VALUES (?, ?, ?)", self._rows)
        except (sqlite3.Error, OSError) as error:
            raise _failure(error) from error
        self._rows.clear()


def _open() -> sqlite3.Connection:
    handle, path = tempfile.mkstemp(prefix="lshdb-", suffix=".db")
    connection = None
    try:
        os.close(handle)
        # Rows may be read by another thread than put them in; never by two at once.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        connection.execute(
            'CREATE TABLE pair ("group" TEXT, member TEXT, source INTEGER, '
            'PRIMARY KEY ("group", member)) WITHOUT ROWID'
        )
        connection.execute("BEGIN")  # never committed: a row is not a write to the disk of its own
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    finally:
        os.unlink(path)
    return connection


def _failure(error: Exception) -> DatabaseError:
    return DatabaseError(
        f"the temporary database in {tempfile.gettempdir()} failed: {error}",
        hint="make room there, or name another folder in the environment variable TMPDIR",
    )
