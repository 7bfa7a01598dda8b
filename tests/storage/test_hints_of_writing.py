"""Hints follow what the system said: only a full disk is told to check the free space."""

from __future__ import annotations

import errno
import json
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lshdb import DatabaseError, Index, LshdbError
from lshdb.errors import system_hint
from lshdb.files import descriptors, own_files
from lshdb.storage.dialects.sqlite import SqliteDatabase
from tests.children.waiting import end_of
from tests.cli.conftest import MODULE, environment
from tests.conftest import family_corpus

CORPUS = family_corpus(5, families=20)
ERRORS = {
    errno.EACCES: "needs write permission",
    errno.EPERM: "immutable",
    errno.EROFS: "mounted read-only",
    errno.EFBIG: "ulimit -f",
    errno.EDQUOT: "quota",
    errno.ENOSPC: "free space",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add(CORPUS[:50])
    return tmp_path / "x.lshdb"


def failing(number: int) -> object:
    def fail(*args: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", ERRORS)
def test_rows_that_cannot_be_written(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.open(path) as index:
        with monkeypatch.context() as patched:
            patched.setattr(descriptors.os, "pwrite", failing(number))
            with pytest.raises(LshdbError) as caught:
                index.add(CORPUS[50:])
        assert ERRORS[number] in (caught.value.hint or "")
        assert ("free space" in (caught.value.hint or "")) == (number == errno.ENOSPC)
        index.add(CORPUS[50:])
        assert index.check() == []


@pytest.mark.sqlite("about files of SQLite")
def test_a_disk_that_was_full_a_moment_ago(path: Path) -> None:
    """SQLite has given its room back before anybody looks."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    database = SqliteDatabase(path / "index.db")
    assert database.hint(error, "") == system_hint(OSError(errno.ENOSPC, "full"))
    assert database.hint(error, "wait") == "wait"


@pytest.mark.parametrize("number", ERRORS)
def test_a_place_where_no_index_can_be_made(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.storage.place.creation.os.mkdir", failing(number))
    with pytest.raises(LshdbError) as caught:
        Index.create(tmp_path / "x.lshdb").close()
    assert ERRORS[number] in (caught.value.hint or "")


@pytest.mark.parametrize("number", ERRORS)
def test_a_lock_that_cannot_be_had(
    path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.open(path) as index:
        monkeypatch.setattr("lshdb.storage.place.lock.open_file", failing(number))
        with pytest.raises(LshdbError) as caught:
            index.add(CORPUS[50:])
    expected = "needs write permission" if number == errno.ENOSPC else ERRORS[number]
    assert expected in (caught.value.hint or "")


@pytest.mark.sqlite("about files of SQLite")
@pytest.mark.parametrize("number", ERRORS)
@pytest.mark.parametrize("code", ["SQLITE_READONLY", "SQLITE_FULL", "SQLITE_IOERR_WRITE"])
def test_sqlite_hides_why_and_the_same_is_tried_again(
    path: Path, number: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    from lshdb.storage.dialects.sqlite import SqliteDatabase

    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = getattr(sqlite3, code)
    database = SqliteDatabase(path / "index.db")
    assert database.hint(error, "check the free space") == "check the free space"
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    monkeypatch.setattr(own_files.os, "open", failing(number))
    assert ERRORS[number] in database.hint(error, "check the free space")
    monkeypatch.undo()
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.sqlite("about files of SQLite")
def test_a_limit_on_the_size_of_files(path: Path) -> None:
    """As ``ulimit -f`` gives it: SQLite says that the disk is full."""
    with open(path.parent / "more.jsonl", "w") as file:
        for number in range(40):
            for key, text in CORPUS:
                document = {"id": f"{number}-{key}", "text": f"{text} {number}"}
                file.write(json.dumps(document) + "\n")
    most = (path / "index.db").stat().st_size + 2**15
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, resource, sys; limit = int(sys.argv[1]); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)); "
            "os.execv(sys.argv[2], sys.argv[2:])",
            str(most),
            *MODULE,
            "add",
            str(path),
            str(path.parent / "more.jsonl"),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert "ulimit -f" in done.stderr and "Traceback" not in done.stderr
    with Index.open(path) as index:
        assert index.check() == []


@pytest.mark.sqlite("about files of SQLite")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_database_of_another_user(path: Path) -> None:
    """The directory is shared, and the database is not."""
    for folder in path.parents:
        if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    path.chmod(0o777)
    for name in ("lock", "signatures.npy", "index.db-wal", "index.db-shm"):
        (path / name).chmod(0o666)
    (path / "index.db").chmod(0o644)
    reading, writing = os.pipe()
    with Index.open(path) as index:
        index.add([("old", "a text of some words that loads what an add needs")])
    child = os.fork()
    if not child:
        os.setgid(65534)
        os.setuid(65534)
        try:
            Index.open(path).add([("new", "some other words of a text")])
        except BaseException as error:
            os.write(writing, f"{type(error).__name__} {getattr(error, 'hint', '')}".encode())
        os._exit(0)
    assert end_of(child) == 0
    os.close(writing)
    with open(reading) as file:
        said = file.read()
    assert said.startswith(DatabaseError.__name__)
    assert "needs write permission" in said


@pytest.mark.sqlite("about files of SQLite")
@pytest.mark.parametrize("change", ["compact", "reband"])
def test_a_limit_below_the_size_of_the_database(path: Path, change: str) -> None:
    """Files that are there already are above it, too."""
    most = (path / "index.db").stat().st_size // 2
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Index.open(path) as index:
        index.remove([key for key, _ in CORPUS[:40]])
        if change == "reband":
            index.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
        try:
            with pytest.raises(LshdbError) as caught:
                index.compact() if change == "compact" else Index.reband(path, threshold=0.6)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "ulimit -f" in (caught.value.hint or ""), caught.value
    with Index.open(path) as index:
        index.compact()
        assert index.check() == []
