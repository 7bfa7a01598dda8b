"""Readers of other users, and behind read-only mounts, beside a writer of every kind.

Each answer is begun before a change and taken to its end after it, and is then the one of the state
before; what is asked afterwards is the one of the state after it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lshdb import Index
from tests.children.waiting import join_all
from tests.conftest import edited, make_text
from tests.fault.onlooker import NOBODY, QUESTIONS, Answers, Onlooker, answers, can_mount

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin", reason="folders of other users are shared there, and no mounts made"
)

ALL = list(QUESTIONS)
STREAMS = [name for name in ALL if name != "check"]
"""What can be begun, and held there."""
Documents = list[tuple[str, str]]


def documents(seed: int, prefix: str, families: int) -> Documents:
    rng = random.Random(seed)
    found = []
    for number in range(families):
        text = make_text(rng, rng.randrange(30, 90))
        found.append((f"{prefix}{number}", text))
        for member in range(rng.randrange(3)):
            found.append((f"{prefix}{number}-{member}", edited(rng, text, member)))
    return found


def _added(path: Path, size: int) -> Path:
    with Index.open(path) as index:
        index.add(documents(2, "b", size // 3), workers=1)
    return path


def _removed(path: Path, size: int) -> Path:
    with Index.open(path) as index:
        there = {key for (key,) in index.sql("SELECT key FROM document").rows}
        index.remove([key for key, _ in documents(1, "a", size)[::4] if key in there])
    return path


def _compacted(path: Path, size: int) -> Path:
    """Removed, compacted, added: what one night may be."""
    _removed(path, size)
    with Index.open(path) as index:
        index.compact()
    return _added(path, size)


def _rebanded(path: Path, _: int) -> Path:
    Index.reband(path, threshold=0.6)
    return path


def _reindexed(path: Path, _: int) -> Path:
    target = path.with_name("reindexed.lshdb")
    with Index.open(path) as index:
        index.reindex(target, k=3, workers=1)
    return target


def _merged(path: Path, size: int) -> Path:
    other = path.with_name("other.lshdb")
    with Index.create(other, k=2) as index, Index.open(path) as into:
        index.add(documents(3, "c", size // 2), workers=1)
        into.merge(index)
    return path


def _clustered(path: Path, size: int) -> Path:
    _added(path, size)
    with Index.open(path) as index:
        index.update_clusters(workers=1)
    return path


CHANGES: dict[str, Callable[[Path, int], Path]] = {
    "add": _added, "remove": _removed, "compact": _compacted, "reband": _rebanded,
    "reindex": _reindexed, "merge": _merged, "clusters": _clustered,
}  # fmt: skip
"""Each gives the path of the index to be looked at afterwards."""


class Place:
    """A folder that everybody may read, and how an onlooker sees it."""

    def __init__(self, folder: Path, seen: Path, *, may_write: bool) -> None:
        self.folder = folder
        self.seen = seen
        self.may_write = may_write
        self.room = folder / "room"
        self.room.mkdir()
        self.room.chmod(0o777)

    def copied(self, index: Path, name: str) -> Path:
        path = self.folder / name / index.name
        shutil.copytree(index, path)
        return path

    def as_seen(self, path: Path) -> Path:
        return self.seen / path.relative_to(self.folder)


@pytest.fixture(scope="module")
def size(is_long: bool) -> int:
    """Families of documents in the index."""
    return 1500 if is_long else 120


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, size: int) -> tuple[Path, Answers]:
    """An index, and all its answers."""
    path = tmp_path_factory.mktemp("made") / "a.lshdb"
    with Index.create(path, k=2) as made:
        made.add(documents(1, "a", size), workers=1)
        made.update_clusters(workers=1)
    return path, answers(path, path.parent, ALL)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder to which everybody finds the way; that of pytest is closed by each new session."""
    with tempfile.TemporaryDirectory(prefix="lshdb-") as made:
        path = Path(made)
        path.chmod(0o755)
        opened = []
        for above in path.parents:
            mode = above.stat().st_mode
            if not mode & 0o001 and above.stat().st_uid == os.getuid():
                opened.append((above, mode))
                above.chmod(mode | 0o005)
        yield path
        for above, mode in opened:
            above.chmod(mode)


@pytest.fixture(scope="module", params=["same user", "other user", "read-only mount"])
def place(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Place, Onlooker]]:
    source, seen = folder / request.param, folder / f"{request.param} seen"
    source.mkdir()
    seen.mkdir()
    uid, mount, room = None, None, source
    if request.param == "other user":
        if os.getuid() != 0:
            pytest.skip("only root can become another user; the read-only mount is tried")
        uid, seen = NOBODY, source
    elif request.param == "read-only mount":
        tried = folder / "tried"
        tried.mkdir()
        why = can_mount(tried)
        if why:
            pytest.skip(why)
        mount, room = (source, seen), folder / "mount's"
        room.mkdir()
    else:
        seen = source
    place = Place(source, seen, may_write=request.param == "same user")
    if room != source:
        place.room = room
    onlooker = Onlooker(uid, mount)
    try:
        yield place, onlooker
    finally:
        onlooker.close()


@pytest.mark.parametrize("change", CHANGES)
def test_an_answer_is_of_one_state(
    place: tuple[Place, Onlooker],
    index: tuple[Path, Answers],
    change: str,
    size: int,
    tmp_path: Path,
) -> None:
    (where, onlooker), (made, before) = place, index
    path = where.copied(made, change)
    seen = where.as_seen(path)
    onlooker.hold(seen, where.room, STREAMS)
    changed = CHANGES[change](path, size)
    assert onlooker.finish() == {name: before[name] for name in STREAMS}
    after = answers(changed, tmp_path, ALL)
    assert after["check"] == before["check"] and after != before
    assert onlooker.ask(where.as_seen(changed), where.room, ALL) == after
    if changed != path:
        assert onlooker.ask(seen, where.room, ALL) == before
    shutil.rmtree(path.parent)


def test_changes_one_after_the_other(
    place: tuple[Place, Onlooker],
    index: tuple[Path, Answers],
    size: int,
    tmp_path: Path,
    is_long: bool,
) -> None:
    """Each answer is held over the next change, and the log is never at rest."""
    (where, onlooker), (made, before) = place, index
    path = where.copied(made, "one after the other")
    seen = where.as_seen(path)
    orders = random.Random(4)
    changes = ["add", "remove", "compact", "merge", "clusters"]
    for _ in range(30 if is_long else 3):
        change = orders.choice(changes)
        shutil.rmtree(path.with_name("other.lshdb"), ignore_errors=True)
        onlooker.hold(seen, where.room, STREAMS)
        CHANGES[change](path, orders.randrange(size))
        assert onlooker.finish() == {name: before[name] for name in STREAMS}, change
        before = answers(path, tmp_path, ALL)
        assert onlooker.ask(seen, where.room, STREAMS) == {
            name: before[name] for name in STREAMS
        }, change
    shutil.rmtree(path.parent)


# The files that such readers need


def _files(path: Path) -> dict[str, Path]:
    return {suffix: path / f"index.db{suffix}" for suffix in ("", "-wal", "-shm")}


def _lie_there(path: Path, *, is_empty: bool = True) -> bool:
    """The log is empty, and it and its index are open to whoever the database is open to."""
    looks = {suffix: file.stat() for suffix, file in _files(path).items()}
    rights = {(one.st_mode, one.st_uid, one.st_gid) for one in looks.values()}
    return len(rights) == 1 and (looks["-wal"].st_size == 0) == is_empty


def _damaged(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database, database:
        database.execute("UPDATE band SET b0 = b0 / 2")


def test_what_other_readers_need_lies_there(tmp_path: Path) -> None:
    """After whatever writes; each time it is taken away first."""
    path, umask = tmp_path / "a.lshdb", os.umask(0o027)
    some = documents(1, "a", 20)

    def changed(change: Callable[[Index], object]) -> Path:
        with Index.open(path) as index:
            for suffix, file in _files(path).items():
                if suffix:
                    file.unlink()
            index._store.readers.close_idle()
            change(index)
        return path

    def made(change: Callable[[Index, Path], object]) -> Path:
        target = tmp_path / "made.lshdb"
        shutil.rmtree(target, ignore_errors=True)
        with Index.open(path) as index:
            change(index, target)
        return target

    def imported(index: Index, target: Path) -> None:
        index.export(tmp_path / "export")
        Index.from_export(tmp_path / "export", target).close()

    try:
        with Index.create(path, deferred=True, k=2) as index:
            index.add(some)
        assert _lie_there(path), "a new index, renamed with its first commit"
        assert path.stat().st_mode & 0o777 == 0o750
        with Index.create(tmp_path / "empty.lshdb"):
            pass
        assert _lie_there(tmp_path / "empty.lshdb")
        (path / "index.db").chmod(0o664)
        if os.getuid() == 0:
            os.chown(path / "index.db", NOBODY, NOBODY)
        for change in (
            lambda index: index.add(documents(2, "b", 20)),
            lambda index: index.remove([some[0][0]]),
            lambda index: index.compact(),
            lambda index: index.update_clusters(),
            lambda index: Index.reband(path, threshold=0.6),
            lambda index: Index.upgrade(path),
        ):
            assert _lie_there(changed(change))
        for make in (
            lambda index, target: index.copy(target),
            lambda index, target: index.reindex(target, k=3),
            imported,
        ):
            assert _lie_there(made(make))
        target = made(lambda index, target: index.copy(target))
        with Index.open(path) as index, Index.open(target) as into:
            into.add(documents(5, "d", 5))
            index.merge(into)
        assert _lie_there(path)
        _damaged(path)
        assert not _files(path)["-wal"].exists(), "SQLite alone takes them away"
        assert Index.repair(path).findings
        assert _lie_there(path, is_empty=False), "what is repaired is read till the end"
        notes: list[str] = []
        with Index.open(path) as index:
            assert index.check(on_note=notes.append) == []
        assert notes == []
    finally:
        os.umask(umask)


def test_an_index_of_an_older_version(
    place: tuple[Place, Onlooker], index: tuple[Path, Answers], tmp_path: Path
) -> None:
    """The files are not there: they are made, or done without, or it is said who makes them."""
    (where, onlooker), (made, before) = place, index
    path = where.copied(made, "older")
    seen = where.as_seen(path)
    for missing in (("-wal", "-shm"), ("-wal",), ("-shm",)):
        for suffix in missing:
            _files(path)[suffix].unlink()
        found = onlooker.ask(seen, where.room, ALL)
        if not where.may_write and where.seen == where.folder:
            (said,) = set(found.values())
            assert said.startswith("DatabaseError: cannot read the database ")
            assert f"you may not write to {path}, so " in said
            assert all(f"index.db{suffix}" in said for suffix in missing)
        else:
            assert found == before
        with Index.open(path) as ours:  # what the hint says
            ours.stats()
        assert _lie_there(path)
        assert onlooker.ask(seen, where.room, ALL) == before
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("change", ["add", "compact"])
def test_what_seemed_to_be_read_only_is_written_to(
    place: tuple[Place, Onlooker],
    index: tuple[Path, Answers],
    change: str,
    size: int,
    tmp_path: Path,
) -> None:
    """Without those files an answer from a read-only mount is right, or an error."""
    (where, onlooker), (made, before) = place, index
    path = where.copied(made, f"seemed {change}")
    seen = where.as_seen(path)
    for suffix in ("-wal", "-shm"):
        _files(path)[suffix].unlink()
    onlooker.hold(seen, where.room, STREAMS)
    CHANGES[change](path, size)
    found = onlooker.finish()
    if where.folder != where.seen:
        stopped = [name for name in STREAMS if found[name] != before[name]]
        assert "sql of postings" in stopped and "copy" in stopped
        for name in stopped:
            assert "was written to from elsewhere while it was read" in found[name], name
    after = answers(path, tmp_path, ALL)
    assert onlooker.ask(seen, where.room, ALL) == after
    shutil.rmtree(path.parent)


def test_clusters_that_are_not_up_to_date(
    place: tuple[Place, Onlooker], index: tuple[Path, Answers]
) -> None:
    """Who may not write is told how to ask; who may brings them up to date."""
    (where, onlooker), (made, before) = place, index
    path = where.copied(made, "behind")
    seen = where.as_seen(path)
    grouped = ["clusters up to date", "dedup up to date", "neighbors up to date"]
    up_to_date = onlooker.ask(seen, where.room, grouped)
    assert up_to_date == {name: before[name.split()[0]] for name in grouped}
    with Index.open(path) as ours:
        ours.add(documents(2, "b", 5))
    found = onlooker.ask(seen, where.room, grouped)
    if where.may_write:
        assert "Error" not in str(found)
    else:
        for said in found.values():
            assert said.startswith(f"ReadOnlyError: cannot write to the index {seen}: ")
            assert said.endswith("its clusters are not up to date")
    shutil.rmtree(path.parent)


_LOCK_OF_THE_LIVING = 128
"""The byte of ``-shm`` that a process has locked while it uses the file."""


def test_a_writer_that_has_just_come(
    place: tuple[Place, Onlooker], index: tuple[Path, Answers]
) -> None:
    """It has emptied ``-shm`` and not filled it yet; who may not do that waits for it."""
    (where, onlooker), (made, before) = place, index
    path = where.copied(made, "just come")
    seen = where.as_seen(path)
    onlooker.ask(seen, where.room, [])  # it has started
    with open(_files(path)["-shm"], "r+b") as file:
        file.truncate(3)
        fcntl.lockf(file, fcntl.LOCK_SH, 1, _LOCK_OF_THE_LIVING)
        over = threading.Timer(1.0, fcntl.lockf, (file, fcntl.LOCK_UN, 1, _LOCK_OF_THE_LIVING))
        over.start()
        assert onlooker.ask(seen, where.room, STREAMS) == {name: before[name] for name in STREAMS}
        join_all([over])
    shutil.rmtree(path.parent)


_KILLED = """
import os, sys
from lshdb import Index
index = Index.open(sys.argv[1])
index.add([("killed", "nine ten eleven twelve")], on_commit=lambda _: os._exit(9))
"""


def test_a_log_that_a_killed_writer_left(
    place: tuple[Place, Onlooker], index: tuple[Path, Answers], tmp_path: Path
) -> None:
    (where, onlooker), (made, _) = place, index
    path = where.copied(made, "killed")
    seen = where.as_seen(path)
    run = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False, timeout=120)
    assert run.returncode == 9 and _files(path)["-wal"].stat().st_size > 0
    found = onlooker.ask(seen, where.room, ALL)
    after = answers(path, tmp_path, ALL)
    assert found == after and after["sql of keys"][0] == index[1]["sql of keys"][0] + 1
    onlooker.hold(seen, where.room, STREAMS)
    with Index.open(path) as ours:
        ours.remove(["killed"])
    assert onlooker.finish() == {name: after[name] for name in STREAMS}
    shutil.rmtree(path.parent)
