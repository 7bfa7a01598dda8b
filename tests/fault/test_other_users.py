"""Readers of other users, and behind read-only mounts, beside a writer of every kind.

Each answer is begun before a change and taken to its end after it, and is then the one of the state
before; what is asked afterwards is the one of the state after it.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lshdb import Index
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

    def __init__(self, folder: Path, seen: Path) -> None:
        self.folder = folder
        self.seen = seen
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
    return 5000 if is_long else 120


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, size: int) -> tuple[Path, Answers]:
    """An index, and all its answers."""
    path = tmp_path_factory.mktemp("made") / "a.lshdb"
    with Index.create(path, k=2) as made:
        made.add(documents(1, "a", size), workers=1)
        made.update_clusters(workers=1)
    return path, answers(path, path.parent, ALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to which everybody finds the way."""
    path = tmp_path_factory.mktemp("other_users")
    opened = []
    for above in (path, *path.parents):
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
    place = Place(source, seen)
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
    for _ in range(40 if is_long else 3):
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
