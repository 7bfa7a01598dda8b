"""What is committed is asked for beyond the cache of the disk, where the system can: macOS."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from lshdb import Index
from lshdb.files.descriptors import sync_file
from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase

FULL = 51
"""``F_FULLFSYNC`` of macOS."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of calls that sync, in order; ``fcntl`` knows F_FULLFSYNC."""
    calls: list[str] = []
    lock = fcntl.fcntl

    def control(descriptor: int, command: int, argument: int = 0) -> int:
        if command != FULL:
            return lock(descriptor, command, argument)
        calls.append("F_FULLFSYNC")
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    for name in {"fsync", "fdatasync"} & set(dir(os)):
        monkeypatch.setattr(os, name, lambda _, name=name: calls.append(name))
    return calls


def test_every_sync_of_an_index_is_a_full_one(asked: list[str], tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        made = len(asked)
        index.add([("a", "one two three four five six")])
        assert len(asked) > made > 0
    assert set(asked) == {"F_FULLFSYNC"}


def test_a_file_system_without_it_gets_the_other(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, command: int) -> int:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    refused = errno.ENOTSUP
    sync_file(1)
    assert asked == ["fsync"]
    refused = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync_file(1)
    assert asked == ["fsync"]


@pytest.mark.sqlite("it is SQLite that is asked")
def test_writers_of_sqlite_ask_for_it(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb"):
        pass
    engine = SqliteDatabase(tmp_path / "x.lshdb" / "index.db").open_engine()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA fullfsync").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    engine.dispose()
