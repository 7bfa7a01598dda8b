"""An index in SQLite on a file system that other hosts share, where its log does not work."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lshdb import DatabaseError, Index, LshdbError, ReadOnlyError
from lshdb.files import mounts
from lshdb.storage.dialects.sqlite import connections
from tests.children.databases import child_path
from tests.conftest import family_corpus

pytestmark = [
    pytest.mark.sqlite("a file on a disk"),
    pytest.mark.skipif(sys.platform != "linux", reason="mounts are listed on Linux"),
]

CORPUS = family_corpus(6, families=20)


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the disk of the test's folder be of some type."""

    def listed(kind: str) -> None:
        device = tmp_path.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        file = tmp_path / "mountinfo"
        file.write_text(
            "21 1 0:199 / /proc rw,nosuid - proc proc rw\n"
            f"22 1 {number} / /home rw,relatime shared:1 master:2 - {kind} server:/home rw\n"
        )
        monkeypatch.setattr(mounts, "_MOUNTS", file)

    return listed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "index" / "a.lshdb"
    made.parent.mkdir()
    with Index.create(made, k=2) as index:
        index.add(CORPUS)
        index.update_clusters()
    return made


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "lock"}


def on_the_writers_host(program: str, path: Path) -> None:
    """In a process that sees the disk as one of its own."""
    subprocess.run(
        [sys.executable, "-c", f"import sys, lshdb\n{program}", path],
        check=True, env=os.environ | {"PYTHONPATH": child_path()}, timeout=300,
    )  # fmt: skip


ADD = (
    "with lshdb.Index.open(sys.argv[1]) as index:\n"
    "    index.add((f'n{number}', f'words of a night, number {number}') for number in range(500))"
)


@pytest.mark.parametrize(
    ("kind", "is_shared"),
    [
        *((kind, True) for kind in ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse",
                                    "fuse.gcsfuse", "fuse.glusterfs")),
        *((kind, False) for kind in ("ext4", "xfs", "btrfs", "overlay", "tmpfs", "fuseblk",
                                     "fuse.mergerfs", "virtiofs", "zfs")),
    ],
)  # fmt: skip
def test_the_kinds(
    mount: Callable[[str], None], tmp_path: Path, kind: str, is_shared: bool
) -> None:
    mount(kind)
    for path in (tmp_path, tmp_path / "not there", tmp_path / "mountinfo"):
        assert mounts.shared_file_system(path) == (kind if is_shared else None)
    assert mounts.shared_file_system(Path("/proc/self/status")) is None


CHANGES: dict[str, Callable[[Path], object]] = {
    "add": lambda path: opened(path, lambda index: index.add(family_corpus(7, families=2))),
    "remove": lambda path: opened(path, lambda index: index.remove([CORPUS[0][0]])),
    "compact": lambda path: opened(path, Index.compact),
    "clusters": lambda path: opened(path, lambda index: index.update_clusters(verify="signature")),
    "advance": lambda path: opened(path, lambda index: index.advance("mail")),
    "reband": lambda path: Index.reband(path, threshold=0.6),
    "repair": Index.repair,
    "upgrade": Index.upgrade,
    "create": lambda path: Index.create(path.with_name("new.lshdb")),
    "reindex": lambda path: opened(path, lambda index: index.reindex(path.with_name("new"), k=3)),
}


def opened(path: Path, work: Callable[[Index], object]) -> object:
    with Index.open(path) as index:
        return work(index)


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_written_there(
    path: Path, mount: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = content(path)
    mount("nfs4")
    if change == "repair":  # nothing to do
        CHANGES[change](path)
    else:
        with pytest.raises(ReadOnlyError) as caught:
            CHANGES[change](path)
        assert "hosts share (nfs4)" in caught.value.message
        assert ("--no-update" if change == "clusters" else "Postgres") in str(caught.value.hint)
    assert content(path) == before
    assert os.listdir(path.parent) == ["a.lshdb"]
    monkeypatch.setenv("LSHDB_SHARED_DISK", "allow")
    CHANGES[change](path)


def test_it_is_read_there_while_nobody_writes(
    path: Path, mount: Callable[[str], None], tmp_path: Path
) -> None:
    def answers() -> list[object]:
        with Index.open(path) as index:
            return [
                sorted((pair.key1, pair.key2, pair.similarity) for pair in index.pairs()),
                [sorted(hit.key for hit in index.query(text)) for _, text in CORPUS[:5]],
                list(index.sql("SELECT key FROM document ORDER BY key").rows),
                sorted(cluster.keys for cluster in index.clusters(update=False)),
                index.check(),
            ]

    expected = answers()
    mount("nfs")
    before = content(path)
    assert answers() == expected and content(path) == before
    with Index.open(path) as index:
        index.copy(tmp_path / "copy.lshdb")  # a backup is written there, and restored from there
        index.export(tmp_path / "export")
    with Index.open(tmp_path / "copy.lshdb") as copy:
        assert copy.check() == [] and copy.stats().documents == len(CORPUS)


def test_a_commit_elsewhere_is_noticed_in_the_middle(
    path: Path, mount: Callable[[str], None]
) -> None:
    mount("nfs")
    with Index.open(path) as index:
        assert index.stats().documents == len(CORPUS)
        on_the_writers_host(ADD, path)
        assert index.stats().documents == len(CORPUS) + 500  # from the next question on
        rows = index.sql("SELECT key FROM document, (SELECT 1 UNION SELECT 2)").rows
        next(rows)
        on_the_writers_host(ADD.replace("'n{", "'m{"), path)
        with pytest.raises(DatabaseError, match="written to from elsewhere"):
            list(rows)
        pairs = iter(index.pairs())
        next(pairs)
        on_the_writers_host(ADD.replace("'n{", "'o{"), path)
        with pytest.raises(DatabaseError, match="written to from elsewhere"):
            list(pairs)
        assert index.stats().documents == len(CORPUS) + 1500


def test_long_texts_are_read_there_few_at_a_time(
    tmp_path: Path, mount: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(1)
    with Index.create(tmp_path / "long.lshdb", k=2) as index:
        index.add((f"d{number}", random.randbytes(100_000).hex()) for number in range(40))
        index.export(tmp_path / "expected")
    mount("nfs")
    pieces: list[int] = []
    whole = sqlite3.Cursor.fetchmany

    def fetchmany(cursor: connections._WatchedCursor, size: int = 1) -> list[tuple[object, ...]]:
        piece: list[tuple[object, ...]] = cursor._watch(lambda: whole(cursor, size))
        values = [value for row in piece for value in row if isinstance(value, bytes)]
        pieces.append(sum(map(len, values)))
        return piece

    monkeypatch.setattr(connections._WatchedCursor, "fetchmany", fetchmany)
    with Index.open(tmp_path / "long.lshdb") as index:
        index.export(tmp_path / "export")
    assert content(tmp_path / "export") == content(tmp_path / "expected")
    assert max(pieces) < 2 * 2**20 < sum(pieces)


def test_a_log_that_is_not_empty_is_said(path: Path, mount: Callable[[str], None]) -> None:
    writer = sqlite3.connect(path / "index.db")
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("DELETE FROM cursor")
    writer.execute("CREATE TABLE other (n)")
    writer.execute("DROP TABLE other")
    writer.commit()
    assert (path / "index.db-wal").stat().st_size
    mount("cifs")
    with pytest.raises(LshdbError) as caught:
        Index.open(path)
    assert "its log is not empty" in caught.value.message
    writer.close()
    with Index.open(path) as index:
        assert index.stats().documents == len(CORPUS)
