"""Owner, group, mode and access control list of what is written anew.

Whoever runs a command, and with whatever umask: who could use the index before can use it after.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import struct
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from lshdb import DamageError, Index, LshdbError
from lshdb.files.rights import take_rights
from lshdb.files.whole_files import whole_file
from tests.children.waiting import end_of
from tests.conftest import make_text
from tests.golden.test_indexes import unpack

pytestmark = [
    pytest.mark.sqlite("files of the index"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users"),
    pytest.mark.skipif(sys.platform == "darwin", reason="folders have other rules there"),
]

ALICE, BOB, EDITORS = 4001, 4002, 4100
GOLDEN = Path(__file__).parents[1] / "golden" / "format1"
Work = Callable[[Path], object]
Rights = tuple[int, int, int, bytes]


def documents(prefix: str) -> list[tuple[str, str]]:
    rng = random.Random(prefix)
    return [(f"{prefix}{number}", make_text(rng, 40)) for number in range(12)]


def _damage(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database, database:
        database.execute("UPDATE band SET b0 = b0 / 2")
        database.execute("UPDATE document SET key = 'other' WHERE key = 'm1'")


def _add(path: Path, prefix: str = "more") -> None:
    with Index.open(path) as index:
        assert index.add(documents(prefix)).added == 12


def _compact(path: Path) -> None:
    with Index.open(path) as index:
        index.remove([key for key, _ in documents("made")][:3])
        index.compact()


def _cluster(path: Path) -> None:
    with Index.open(path) as index:
        index.update_clusters()


def _merge(path: Path) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.create(Path(folder) / "other.lshdb") as other,
        Index.open(path) as index,
    ):
        other.add(documents("merged"))
        index.merge(other)


def _advance(path: Path) -> None:
    with Index.open(path) as index:
        index.advance("mail")


def _reband(path: Path) -> None:
    Index.reband(path, threshold=0.6)


def _repair(path: Path) -> None:
    assert Index.repair(path).findings


def _remake_description(path: Path) -> None:
    (path / "index.toml").unlink()
    Index.repair(path)


def _restore(path: Path) -> None:
    """SQLite alone takes ``-wal`` and ``-shm`` away: whoever comes first makes them."""
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database:
        database.execute("SELECT * FROM state").fetchall()
    assert not (path / "index.db-wal").exists()
    with Index.open(path) as index:
        index.stats()


CHANGES: dict[str, Work] = {
    "add": _add, "compact": _compact, "clusters": _cluster, "merge": _merge, "reband": _reband,
    "advance": _advance, "repair": _repair, "index.toml": _remake_description, "open": _restore,
}  # fmt: skip


def as_user(
    uid: int, work: Callable[[], object], *, groups: Sequence[int] = (), umask: int = 0o022
) -> None:
    """Do something in a fork of this process, which is then another user."""
    child = os.fork()
    if child == 0:
        try:
            os.umask(umask)
            os.setgroups(groups)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    assert end_of(child) == 0


def acl(*entries: tuple[int, int, int]) -> bytes:
    """A list as the system keeps it: tag, permissions, and the number of a user or group."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def for_bob(permissions: int, *, of_group: int = 4, of_all: int = 0) -> bytes:
    """Owner, Bob, group, mask, others."""
    nobody = 0xFFFFFFFF
    return acl(
        (0x01, 6 | permissions & 1, nobody), (0x02, permissions, BOB), (0x04, of_group, nobody),
        (0x10, permissions, nobody), (0x20, of_all, nobody),
    )  # fmt: skip


def acl_of(path: Path, kind: str = "access") -> bytes:
    try:
        return os.getxattr(path, f"system.posix_acl_{kind}")
    except OSError:
        return b""


def rights(path: Path) -> Rights:
    looks = path.stat()
    return looks.st_uid, looks.st_gid, looks.st_mode & 0o7777, acl_of(path)


def files_of(path: Path) -> dict[str, Rights]:
    return {file.name: rights(file) for file in path.iterdir()}


def require_lists(folder: Path) -> None:
    (folder / "probe").touch()
    try:
        os.setxattr(folder / "probe", "system.posix_acl_access", for_bob(6))
    except OSError as error:
        pytest.skip(f"no access control lists in {folder}: {error}")


@pytest.fixture(scope="module")
def warm() -> None:
    """A fork cannot import from where only root can go, so all is imported before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.lshdb"
        make(path)
        for name, change in CHANGES.items():
            if name == "repair":
                _damage(path)
            change(path)
        _add(path, "end")


@pytest.fixture
def shared(warm: None) -> Iterator[Path]:
    """A folder in which everybody may make something."""
    with tempfile.TemporaryDirectory(prefix="lshdb-") as made:
        Path(made).chmod(0o777)
        yield Path(made)


def make(path: Path) -> None:
    with Index.create(path) as index:
        index.add(documents("made"))
        index.update_clusters()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_root_leaves_the_index_to_its_owner(shared: Path, change: str, umask: int) -> None:
    path = shared / "a.lshdb"
    as_user(ALICE, lambda: make(path), umask=0o027)
    before = files_of(path)
    assert set(before.values()) == {(ALICE, ALICE, 0o640, b"")}
    if change == "repair":
        _damage(path)
    as_user(0, lambda: CHANGES[change](path), umask=umask)
    assert set(files_of(path).values()) == {(ALICE, ALICE, 0o640, b"")}
    assert rights(path) == (ALICE, ALICE, 0o750, b"")
    as_user(ALICE, lambda: _add(path, "night"))
    as_user(ALICE, lambda: _compact(path))
    for quarantine in shared.glob("*.quarantine-*"):
        assert rights(quarantine) == (ALICE, ALICE, 0o640, b"")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_setgid", [False, True])
@pytest.mark.long(when=lambda change, is_setgid: list(CHANGES).index(change) % 2 == is_setgid)
def test_members_of_a_group_take_turns(shared: Path, change: str, is_setgid: bool) -> None:
    path = shared / "a.lshdb"
    members = {"groups": [EDITORS], "umask": 0o077}
    as_user(ALICE, lambda: make(path))
    for file in path.iterdir():
        os.chown(file, -1, EDITORS)
        file.chmod(0o660)
    os.chown(path, -1, EDITORS)
    path.chmod(0o2770 if is_setgid else 0o770)
    if change == "repair":
        _damage(path)
    for turn, user in enumerate((BOB, ALICE, BOB)):
        if turn == 0:
            as_user(user, lambda: CHANGES[change](path), **members)
        as_user(user, lambda turn=turn: _add(path, f"turn{turn}"), **members)
        seen = {looks[1:] for looks in files_of(path).values()}
        assert seen == {(EDITORS, 0o660, b"")}
    as_user(ALICE, lambda: Index.reband(path, threshold=0.5), **members)
    as_user(BOB, lambda: _compact(path) if change != "compact" else _add(path, "end"), **members)
    with Index.open(path) as index:
        assert index.check() == []


@pytest.mark.parametrize("change", ["add", "compact", "reband", "open", "repair"])
@pytest.mark.parametrize("kind", ["access", "default"])
def test_lists_are_kept(shared: Path, change: str, kind: str) -> None:
    """Bob is in no group of Alice's; a list lets him in."""
    require_lists(shared)
    path = shared / "a.lshdb"
    if kind == "default":
        path.mkdir()
        os.chown(path, ALICE, ALICE)
        path.chmod(0o750)
        os.setxattr(path, "system.posix_acl_access", for_bob(7, of_group=5))
        os.setxattr(path, "system.posix_acl_default", for_bob(7, of_group=5))
    as_user(ALICE, lambda: make(path), umask=0o077)
    if kind == "access":
        for file in path.iterdir():
            os.setxattr(file, "system.posix_acl_access", for_bob(6))
        os.setxattr(path, "system.posix_acl_access", for_bob(7, of_group=5))
    assert {(looks[0], looks[3]) for looks in files_of(path).values()} == {(ALICE, for_bob(6))}
    if change == "repair":
        _damage(path)
    as_user(ALICE, lambda: CHANGES[change](path), umask=0o077)
    assert {(looks[0], looks[3]) for looks in files_of(path).values()} == {(ALICE, for_bob(6))}
    as_user(BOB, lambda: _add(path, "bob"), umask=0o077)
    as_user(BOB, lambda: _reband(path) if change != "reband" else _compact(path))
    assert all(looks[3][:20] == for_bob(6)[:20] for looks in files_of(path).values())
    for name, (uid, _, _, entries) in files_of(path).items():
        if uid == BOB:  # his own group is none of Alice's
            assert entries == for_bob(6, of_group=0), name
    if kind == "default":
        assert acl_of(path, "default") == for_bob(7, of_group=5)
    with Index.open(path) as index:
        assert index.check() == []


@pytest.mark.parametrize(
    ("umask", "folder", "file"),
    [(0o077, 0o700, 0o600), (0o027, 0o750, 0o640), (0o022, 0o755, 0o644), (0o002, 0o775, 0o664)],
)
def test_a_new_index_is_as_open_as_the_umask_says(
    shared: Path, umask: int, folder: int, file: int
) -> None:
    path, copied, again = (shared / f"{name}.lshdb" for name in ("a", "b", "c"))

    def work() -> None:
        make(path)
        with Index.open(path) as index:
            index.copy(copied)
            index.reindex(again, k=3)

    as_user(ALICE, work, umask=umask)
    for made in (path, copied, again):
        assert rights(made)[:3] == (ALICE, ALICE, folder)
        assert {looks[:3] for looks in files_of(made).values()} == {(ALICE, ALICE, file)}


@pytest.mark.parametrize("user", [0, ALICE])
def test_an_empty_folder_that_waits_for_the_index(shared: Path, user: int) -> None:
    path = shared / "a.lshdb"
    path.mkdir()
    os.chown(path, ALICE, EDITORS)
    path.chmod(0o2770)
    as_user(user, lambda: make(path), groups=[EDITORS], umask=0o077)
    assert rights(path) == (ALICE, EDITORS, 0o2770, b"")
    assert set(files_of(path).values()) == {(ALICE, EDITORS, 0o660, b"")}
    as_user(BOB, lambda: _add(path), groups=[EDITORS])


def test_an_upgrade_by_root(shared: Path) -> None:
    path = shared / "a.lshdb"
    archive = sorted(GOLDEN.glob("*.tar.gz"))[-1]
    unpack(archive, shared / "packed")
    (unpacked,) = (file.parent for file in (shared / "packed").rglob("index.toml"))
    shutil.move(unpacked, path)
    for file in (path, *path.iterdir()):
        os.chown(file, ALICE, ALICE)
        file.chmod(0o2750 if file == path else 0o640)
    as_user(0, lambda: Index.upgrade(path), umask=0o077)
    assert set(files_of(path).values()) == {(ALICE, ALICE, 0o640, b"")}
    as_user(ALICE, lambda: _add(path))


def test_a_group_that_the_writer_is_not_in(shared: Path) -> None:
    """Nobody else gets in by it: the writer's own group may do what everybody may."""
    path = shared / "a.lshdb"
    make(path)
    for file in (path, *path.iterdir()):
        os.chown(file, BOB, EDITORS)
        file.chmod(0o770 if file == path else 0o660)
    as_user(BOB, lambda: _reband(path))
    as_user(BOB, lambda: _compact(path))
    new = {name: looks for name, looks in files_of(path).items() if looks[1] != EDITORS}
    assert "signatures.1.npy" in new
    assert {looks[:3] for looks in new.values()} == {(BOB, BOB, 0o600)}


def test_a_file_with_two_names_is_not_given_away(shared: Path) -> None:
    """Somebody may have laid a file of root's in the way."""
    secret, model = shared / "secret", shared / "model"
    secret.touch(mode=0o600)
    os.link(secret, shared / "laid")
    model.touch()
    os.chown(model, ALICE, ALICE)
    take_rights(shared / "laid", model)
    assert rights(secret) == (0, 0, 0o600, b"")
    (shared / "laid").unlink()
    take_rights(secret, model)
    assert rights(secret) == rights(model)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_file_that_is_overwritten(shared: Path, umask: int) -> None:
    require_lists(shared)
    path = shared / "pairs.tsv"
    path.write_text("before")
    os.chown(path, ALICE, EDITORS)
    path.chmod(0o640)
    os.setxattr(path, "system.posix_acl_access", for_bob(4))
    before = rights(path)

    def write() -> None:
        with whole_file(str(path), overwrite=True) as file:
            file.write(b"after")

    as_user(0, write, umask=umask)
    assert path.read_text() == "after" and rights(path) == before


@pytest.mark.parametrize("kind", ["of another", "in a read-only folder", "that nobody may read"])
def test_a_repair_without_rights_says_so_and_changes_nothing(shared: Path, kind: str) -> None:
    folder = shared / "folder"
    path = folder / "a.lshdb"
    folder.mkdir()
    folder.chmod(0o777)
    as_user(ALICE, lambda: make(path))
    _damage(path)
    for file in path.iterdir():
        file.chmod(0o600 if kind == "that nobody may read" else 0o644)
    user = ALICE if kind == "in a read-only folder" else BOB
    if user == ALICE:
        path.chmod(0o555)
        folder.chmod(0o555)
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    def refused() -> None:
        for _ in range(2):
            with pytest.raises(LshdbError) as caught:
                Index.repair(path)
            assert caught.value.hint or "Permission denied" in caught.value.message
            assert not isinstance(caught.value, DamageError)
            assert str(path) in caught.value.message

    as_user(user, refused)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert [entry.name for entry in folder.iterdir()] == ["a.lshdb"]
    for place in (folder, path):
        place.chmod(0o777)
    as_user(ALICE, lambda: _repair(path))
    with Index.open(path) as index:
        assert index.check() == []
