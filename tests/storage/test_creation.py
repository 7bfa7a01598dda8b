"""An index comes into being at once, by itself or with its first commit."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from lshdb import (
    AllRejectedError,
    Index,
    IndexExistsError,
    LockedError,
    Rejected,
    TooManyRejectedError,
)
from lshdb.storage.place.creation import Creation
from lshdb.storage.place.directory import IndexDirectory
from lshdb.storage.place.lock import WriterLock
from tests.children.waiting import join_all

TEXTS = [(f"key{number}", f"some words of text number {number} and more") for number in range(20)]

KILLED = """
import os, sys
from lshdb import Index
index = Index.create(sys.argv[1], deferred=sys.argv[2] == "deferred")
if sys.argv[2] == "deferred":
    index.add(iter(lambda: os.kill(os.getpid(), 9), 0))
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_first_commit_brings_it_to_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    seen: list[bool] = []

    def watched() -> Iterator[tuple[str, str]]:
        for document in TEXTS:
            seen.append(path.exists())
            yield document

    with Index.create(path, deferred=True) as index:
        assert index.path == path
        assert names(tmp_path) == [".x.lshdb.new"]
        assert index.stats().documents == 0
        index.add(watched())
        assert names(tmp_path) == ["x.lshdb"]
        assert index.path == path
        assert index.stats().documents == 20
        index.add([("more", "text")])
        index.remove(["key1"])
        assert index.check() == []
        with Index.open(path) as other:
            assert other.stats().documents == 20
    assert seen == [False] * 20


@pytest.mark.parametrize("failure", ["closed", "rejected", "raised", "interrupted"])
def test_without_a_commit_there_is_none(tmp_path: Path, failure: str) -> None:
    def stopped() -> Iterator[tuple[str, str]]:
        yield TEXTS[0]
        raise KeyboardInterrupt if failure == "interrupted" else ZeroDivisionError

    index = Index.create(
        tmp_path / "x.lshdb", deferred=True, database=f"sqlite:///{tmp_path / 'apart.db'}"
    )
    assert (tmp_path / "apart.db").exists()
    if failure == "rejected":
        with pytest.raises(TooManyRejectedError):
            index.add([TEXTS[0], Rejected("line 2", "no good")], max_errors=0)
    elif failure != "closed":
        with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
            index.add(stopped())
    index.close()
    assert names(tmp_path) == []


def test_an_add_that_failed_can_be_made_again_on_the_same_object(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", deferred=True) as index:
        with pytest.raises(TooManyRejectedError):
            index.add([TEXTS[0], Rejected("line 2", "no good")], max_errors=0)
        assert names(tmp_path) == [".x.lshdb.new"]
        index.add(TEXTS)
        assert names(tmp_path) == ["x.lshdb"]
        assert index.check() == []


@pytest.mark.parametrize("items", [[], [Rejected("line 1", "no good")]])
def test_an_add_that_accepts_nothing_makes_no_index(tmp_path: Path, items: list[Rejected]) -> None:
    with Index.create(tmp_path / "x.lshdb", deferred=True) as index:
        with nullcontext() if not items else pytest.raises(AllRejectedError):
            assert index.add(items).batches == []
        assert names(tmp_path) == [".x.lshdb.new"]
        assert index.add([TEXTS[0]]).batches == [1]  # and may yet be made
    with Index.open(tmp_path / "x.lshdb") as index:
        assert [batch.n_added for batch in index.batches()] == [1]
    with (
        nullcontext() if not items else pytest.raises(AllRejectedError),
        Index.create(tmp_path / "y.lshdb", deferred=True) as index,
    ):
        index.add(items)
    assert names(tmp_path) == ["x.lshdb"]


def test_what_a_killed_process_left_is_cleared_out(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), "deferred"], check=False, timeout=300
    )
    assert child.returncode == -9
    assert names(tmp_path) == [".x.lshdb.new"]
    with Index.create(path, k=3) as index:
        index.add(TEXTS)
        assert index.check() == []
    assert names(tmp_path) == ["x.lshdb"]


def test_the_second_one_waits_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    first = Index.create(path, deferred=True)
    with pytest.raises(LockedError, match=r"x\.lshdb is being written by process") as caught:
        Index.create(path, lock_timeout=0.1)
    assert caught.value.pid is not None
    outcome: list[BaseException] = []

    def second() -> None:
        try:
            Index.create(path, lock_timeout=30).close()
        except IndexExistsError as error:
            outcome.append(error)

    thread = threading.Thread(target=second, daemon=True)
    thread.start()
    first.add(TEXTS)
    join_all([thread])
    assert "there is an index at" in str(outcome[0])
    first.close()
    with Index.open(path) as index:
        assert index.stats().documents == 20


def test_the_lock_is_held_from_the_making_to_the_end_of_the_add(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    tried: list[str] = []

    def try_to_lock(*_: object) -> None:
        lock = WriterLock(IndexDirectory(path).lock, 0.0)
        with pytest.raises(LockedError):
            lock.acquire()
        tried.append("refused")

    with Index.create(path, deferred=True) as index:
        index.add(TEXTS, on_commit=try_to_lock)
        assert tried == ["refused"]
        lock = WriterLock(IndexDirectory(path).lock, 0.0)
        lock.acquire()
        lock.release()


def test_a_place_that_is_taken_while_it_is_made_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    index = Index.create(path, deferred=True)
    path.mkdir()
    (path / "file").write_text("somebody's")
    with pytest.raises(Exception, match="cannot make the index"):
        index.add(TEXTS)
    index.close()
    assert names(tmp_path) == ["x.lshdb"]
    assert names(path) == ["file"]


def test_an_empty_directory_is_a_place(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    path.mkdir()
    with Index.create(path, deferred=True) as index:
        index.add(TEXTS)
    with Index.open(path) as index:
        assert index.check() == []


def test_a_lock_whose_directory_was_renamed_is_not_taken_for_the_one_aside(tmp_path: Path) -> None:
    creation = Creation(tmp_path / "x.lshdb")
    assert creation.lock.is_in_place()
    creation.aside.rename(tmp_path / "elsewhere")
    assert not creation.lock.is_in_place()
    creation.aside.mkdir()
    (creation.aside / "lock").touch()
    assert not creation.lock.is_in_place()
    creation.lock.release()


def test_the_lock_is_released_where_memory_is_too_short_to_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: IndexDirectory) -> None:
        raise MemoryError

    creation = Creation(tmp_path / "x.lshdb")
    with monkeypatch.context() as patch:
        patch.setattr(IndexDirectory, "read_description", fail)
        with pytest.raises(MemoryError):
            creation.abandon()
    Index.create(tmp_path / "x.lshdb", lock_timeout=0).close()
    assert [path.name for path in tmp_path.iterdir()] == ["x.lshdb"]
