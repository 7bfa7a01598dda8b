"""SQLite's database as a file: copied or replaced as a whole while others use it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from lshdb.disksort.descriptors import sync_file
from lshdb.storage.dialects.sqlite.connections import Connection, WriterConnection, make_log_files

__all__ = ["copy_database", "replace_database"]


def copy_database(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the state that the connection's open reading transaction sees, and sync it.

    Uses SQLite's online backup, all pages in one step. It reads through the connection, so what the
    transaction sees in the write-ahead log is copied, and later commits are not. The log itself is
    not copied.

    Parameters
    ----------
    connection : sqlite3.Connection
        With a reading transaction open.
    target : Path
        Must not exist.

    Raises
    ------
    sqlite3.Error
        Reading or writing failed; discard what there is of the target.
    """
    with contextlib.closing(_connect(target)) as copy:
        # Nobody sees the copy before it is complete and synced, so it needs no journal.
        copy.execute("PRAGMA journal_mode=OFF")
        copy.execute("PRAGMA synchronous=OFF")
        connection.backup(copy, pages=-1)
    make_log_files(target)
    for place in (target, target.parent):
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        finally:
            os.close(descriptor)


def replace_database(source: Path, target: Path) -> None:
    """Replace the content of one database by that of another, in one durable transaction.

    Uses SQLite's online backup, all pages in one step: readers of the target go on with what they
    have begun to read, and see the new content from their next transaction on. The target may be
    damaged. For a while its write-ahead log holds all of the new content.

    Parameters
    ----------
    source : Path
        A database with the same page size, at rest.
    target : Path
        A database that nobody else is writing to.

    Raises
    ------
    sqlite3.Error
        Reading or writing failed; the target is as it was.
    """
    with (
        contextlib.closing(_connect(source)) as new,
        contextlib.closing(_connect(target, kind=WriterConnection)) as old,
    ):
        old.execute("PRAGMA busy_timeout=30000")
        old.execute("PRAGMA synchronous=FULL")
        old.execute("PRAGMA fullfsync=ON")
        new.backup(old, pages=-1)


def _connect(path: Path, *, kind: type[Connection] = Connection) -> Connection:
    return kind(str(path), isolation_level=None)
