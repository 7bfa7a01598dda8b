"""What is committed is asked for beyond the cache of the disk, where the system can: macOS."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from lshdb import Index, TransientIndex, deduplicate, read_documents
from lshdb.files.descriptors import sync_file
from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase
from lshdb.storage.orders import freezing

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


def test_names_are_synced_before_an_index_comes_to_its_place_and_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SQLite syncs the directory of its own files; the database may be elsewhere."""
    synced: list[int | str] = []
    rename = os.rename

    def note(file: int) -> None:
        status = os.fstat(file)
        if stat.S_ISDIR(status.st_mode):
            synced.append(status.st_ino)

    def note_rename(*paths: Path) -> None:
        synced.append("rename")
        rename(*paths)

    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "rename", note_rename)
    Index.create(tmp_path / "x.lshdb").close()
    index, parent = (path.stat().st_ino for path in (tmp_path / "x.lshdb", tmp_path))
    assert synced == [index, index, "rename", parent]  # its mark, and all else


@pytest.mark.sqlite("it is SQLite's file that is copied")
def test_every_file_of_a_copy_is_synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Orders, too, though what is wrong with them changes no answer."""
    synced: set[int] = set()
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    for name in {"fsync", "fdatasync"} & set(dir(os)):
        monkeypatch.setattr(os, name, lambda file: synced.add(os.fstat(file).st_ino))
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add([("a", "one two three four five six")])
        synced.clear()
        index.copy(tmp_path / "y.lshdb")
    files = {path.name: path.stat().st_ino for path in (tmp_path / "y.lshdb").iterdir()}
    assert any(name.startswith("orders.") for name in files)
    assert {name for name in files if files[name] not in synced} <= {"index.db-shm", "index.db-wal"}


@pytest.mark.sqlite("it is SQLite that is asked")
def test_writers_of_sqlite_ask_for_it(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb"):
        pass
    with contextlib.closing(
        SqliteDatabase(tmp_path / "x.lshdb" / "index.db").open_writer()
    ) as opened:
        assert opened.driver.execute("PRAGMA fullfsync").fetchone() == (1,)
        assert opened.driver.execute("PRAGMA synchronous").fetchone() == (2,)


def test_what_goes_away_is_not_synced(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An index that lasts for one question: its rows, vectors and orders, for each caller."""
    monkeypatch.setattr(freezing, "MOST_SORTED", 1)  # so that some rows have a file of orders
    texts = [f"one two three four five six {number % 9}" for number in range(20)]
    deduplicate(texts, threshold=0.5)
    for parameters, bodies in (
        ({"threshold": 0.5}, texts),
        ({"metric": "cosine", "dim": 2}, [[1.0, float(number)] for number in range(20)]),
    ):
        with TransientIndex.create(**parameters) as index:
            index.add([(f"k{number}", body) for number, body in enumerate(bodies)])
            assert list(index.pairs())
            files = {path.name.partition(".")[0] for path in index.path.iterdir()}
            assert files >= {"signatures", "orders"}
    assert asked == []
    links = tmp_path / "links"
    links.write_text("a\tp\nb\tp\na\tq\nb\tq\n")
    with Index.create(tmp_path / "x.lshdb", unit="token", k=1) as index:
        index.add([("p", ["x"]), ("q", ["x"])])
        index.update_clusters()
        asked.clear()
        with index.contract(links, repeat=True) as contraction:
            assert contraction.merged == (1, 1, 0)
    assert asked == []
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"id": "{number}", "text": "one two three four five six"}}\n' for number in "ab")
    )
    with TransientIndex.create() as index:
        index.add(read_documents([tmp_path / "a.jsonl"]))
        index.dedup_files([tmp_path / "a.jsonl"], tmp_path / "b.jsonl")
    assert asked == ["F_FULLFSYNC"] * 2  # the output, and its name
