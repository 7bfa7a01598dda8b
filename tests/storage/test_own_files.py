"""What is not the index's own is not opened, emptied or removed, whatever its name."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lshdb import DamageError, Index, IndexExistsError, LshdbError
from lshdb.files import descriptors
from lshdb.files.own_files import foreign_names, open_file, open_folder
from lshdb.storage.place.creation import Creation
from tests.children.databases import child_path
from tests.children.waiting import killed_late
from tests.interrupts import every_interrupt

DOCUMENTS = [(f"key{number}", f"some words of text {number} and more") for number in range(9)]
FILES = ("index.toml", "index.db", "index.db-wal", "index.db-shm", "signatures.npy", "lock")


def make(path: Path) -> None:
    with Index.create(path) as index:
        index.add(DOCUMENTS)


def export(path: Path) -> None:
    source = path.with_name("source.lshdb")
    if not source.exists():
        make(source)
    with Index.open(source) as index:
        index.export(path)


def import_(path: Path) -> None:
    files = path.with_name("files")
    export(files)
    Index.from_export(files, path)


def copy(path: Path) -> None:
    source = path.with_name("source.lshdb")
    make(source)
    with Index.open(source) as index:
        index.copy(path)


WAYS = pytest.mark.parametrize("way", [make, export, import_, copy])


def tree(path: Path) -> dict[str, bytes | str]:
    """Everything below a path, links as what they say."""
    return {
        str(one.relative_to(path)): os.readlink(one) if one.is_symlink() else one.read_bytes()
        for one in sorted(path.rglob("*"))
        if one.is_symlink() or one.is_file()
    }


def killed(path: Path) -> Path:
    """What a process leaves that is killed while it adds to a new index."""
    code = (
        "import os, sys; from lshdb import Index; "
        "index = Index.create(sys.argv[1], deferred=True); "
        "index.add(iter(lambda: os.kill(os.getpid(), 9), 0))"
    )
    environment = {**os.environ, "PYTHONPATH": child_path()}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=False, env=environment, timeout=300
    )
    assert done.returncode == -9
    return path.with_name(f".{path.name}.new")


# What lies where an index is made


@WAYS
def test_a_link_where_an_index_is_made_leads_nowhere(
    tmp_path: Path, way: Callable[[Path], None]
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("theirs")
    (tmp_path / ".x.new").symlink_to(theirs)
    with pytest.raises(LshdbError, match=r"\.x\.new.*it is a symbolic link; nothing was changed"):
        way(tmp_path / "x")
    assert tree(theirs) == {"file": b"theirs"}
    assert not os.path.lexists(tmp_path / "x")
    assert (tmp_path / ".x.new").readlink() == theirs


@WAYS
@pytest.mark.parametrize("their_lock", [None, b"", b"1 2026-11-22 10:00:00\n", b"precious"])
def test_a_directory_of_the_users_own_stays_as_it_is(
    tmp_path: Path, way: Callable[[Path], None], their_lock: bytes | None
) -> None:
    theirs = tmp_path / ".x.new"
    (theirs / "folder").mkdir(parents=True)
    for name in ("file", "folder/file", "signatures.npy", "index.db"):
        (theirs / name).write_text(f"their {name}")
    if their_lock is not None:
        (theirs / "lock").write_bytes(their_lock)
    before = tree(theirs)
    with pytest.raises(LshdbError, match=r"nothing was changed|did not write"):
        way(tmp_path / "x")
    assert tree(theirs) == before
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", ["file", "pipe", "dangling"])
def test_what_is_no_directory_is_named(tmp_path: Path, kind: str) -> None:
    aside = tmp_path / ".x.new"
    if kind == "file":
        aside.write_text("theirs")
    elif kind == "pipe":
        os.mkfifo(aside)
    else:
        aside.symlink_to(tmp_path / "nowhere")
    word = {"file": "a file", "pipe": "a named pipe", "dangling": "a symbolic link"}[kind]
    with pytest.raises(LshdbError, match=f"it is {word}"):
        make(tmp_path / "x")
    assert os.path.lexists(aside)
    assert not (tmp_path / "nowhere").exists()


def test_a_place_that_is_a_link_is_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x").symlink_to("empty")
    with pytest.raises(IndexExistsError):
        make(tmp_path / "x")
    assert sorted(os.listdir(tmp_path)) == ["empty", "x"]


def test_an_empty_directory_is_used(tmp_path: Path) -> None:
    (tmp_path / ".x.new").mkdir()
    make(tmp_path / "x")
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.sqlite("names of its files")
def test_leftovers_with_something_of_the_users_own_stay(tmp_path: Path) -> None:
    aside = killed(tmp_path / "x")
    (aside / "notes.txt").write_text("theirs")
    (aside / "vectors.npy").symlink_to("notes.txt")
    before = tree(aside)
    for _ in range(2):
        with pytest.raises(LshdbError, match=r"it holds notes\.txt, which lshdb did not make"):
            make(tmp_path / "x")
    (aside / "notes.txt").unlink()
    with pytest.raises(LshdbError, match=r"it holds vectors\.npy, which lshdb did not make"):
        make(tmp_path / "x")
    after = tree(aside)
    assert before.keys() - after.keys() == {"notes.txt"}
    assert after["signatures.npy"] == before["signatures.npy"]
    (aside / "vectors.npy").unlink()
    make(tmp_path / "x")
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.sqlite("another database is named")
def test_leftovers_that_were_copied_remove_nothing_outside(tmp_path: Path) -> None:
    """The mark has the inode numbers of the place where it was written."""
    aside = killed(tmp_path / "x")
    for name in (".y.new", ".z.new"):
        shutil.copytree(aside, tmp_path / name)
    toml = tmp_path / ".z.new" / "index.toml"
    url = "postgresql://me:secret@localhost:1/mine"
    toml.write_text(toml.read_text().replace("\n\n", f'\ndatabase = "{url}"\n\n'))
    before = tree(tmp_path / ".z.new")
    with pytest.raises(LshdbError, match=r"names the database postgresql://me:.*@") as caught:
        make(tmp_path / "z")
    assert "secret" not in str(caught.value)
    assert tree(tmp_path / ".z.new") == before
    make(tmp_path / "y")
    assert sorted(os.listdir(tmp_path)) == [".x.new", ".z.new", "y"]


@pytest.mark.sqlite("a file of it is planted")
def test_a_planted_description_removes_no_database(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    with contextlib.closing(sqlite3.connect(theirs)) as connection, connection:
        connection.execute("CREATE TABLE state (uuid TEXT)")
    before = theirs.read_bytes()
    aside = killed(tmp_path / "x")
    text = (aside / "index.toml").read_text()
    (aside / "index.toml").write_text(
        text.replace("\n\n", f'\ndatabase = "sqlite:///{theirs}"\n\n')
    )
    make(tmp_path / "x")
    assert theirs.read_bytes() == before


@pytest.mark.sqlite("a file of it outside the index")
def test_a_database_outside_that_somebody_else_made_meanwhile_stays(tmp_path: Path) -> None:
    apart = tmp_path / "apart.db"
    index = Index.create(tmp_path / "x", deferred=True, database=f"sqlite:///{apart}")
    apart.unlink()
    apart.write_text("theirs")
    index.close()
    assert apart.read_text() == "theirs"


@pytest.mark.sqlite("a file of it outside the index")
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_link_where_a_database_is_to_be_made(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"apart.db{suffix}").symlink_to(tmp_path / "nowhere")
    with pytest.raises(IndexExistsError, match="there is a file at"):
        Index.create(tmp_path / "x", database=f"sqlite:///{tmp_path / 'apart.db'}")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("tables", ["jsonl", "parquet"])
def test_what_indexes_and_exports_hold_is_known_by_name(tmp_path: Path, tables: str) -> None:
    make(tmp_path / "x")
    with Index.create(tmp_path / "v", metric="cosine", dim=2) as index:
        index.add([("a", [1.0, 2.0])])
    for name in ("x", "v"):
        with Index.open(tmp_path / name) as index:
            index.export(tmp_path / f"{name}-files", format=tables)
            for place in (name, f"{name}-files"):
                with open_folder(tmp_path / place) as folder:
                    assert foreign_names(folder) == []


def test_nothing_is_left_of_a_creation_that_is_given_up(tmp_path: Path) -> None:
    creation = Creation(tmp_path / "x")
    (creation.aside / "index.toml").write_text("")
    creation.abandon()
    assert os.listdir(tmp_path) == []


# Inside an index


@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_lock_that_is_a_link_is_not_written_through(tmp_path: Path, is_dangling: bool) -> None:
    make(tmp_path / "x")
    victim = tmp_path / "victim.txt"
    if not is_dangling:
        victim.write_text("precious")
    (tmp_path / "x" / "lock").unlink()
    (tmp_path / "x" / "lock").symlink_to(victim)
    with Index.open(tmp_path / "x") as index:
        for change in (
            lambda: index.add([("more", "words")]),
            lambda: index.remove(["key1"]),
            index.compact,
        ):
            with pytest.raises(LshdbError, match="lock: it is a symbolic link"):
                change()
    with pytest.raises(LshdbError, match="lock: it is a symbolic link"):
        Index.repair(tmp_path / "x")
    assert (victim.read_text() == "precious") if not is_dangling else not victim.exists()


def test_a_lock_with_something_else_in_it_keeps_it(tmp_path: Path) -> None:
    """As where it is another name of a file of the user's own: a hard link."""
    make(tmp_path / "x")
    victim = tmp_path / "victim.txt"
    victim.write_text("precious words of the user's own")
    (tmp_path / "x" / "lock").unlink()
    os.link(victim, tmp_path / "x" / "lock")
    with (
        Index.open(tmp_path / "x") as index,
        pytest.raises(LshdbError, match="holds something that lshdb did not write"),
    ):
        index.add([("more", "words")])
    assert victim.read_text() == "precious words of the user's own"


@pytest.mark.parametrize("words", [b"12 2026-11-22 10:00:00.123456\nunfin", b"\0" * 40, b"1"])
def test_a_lock_that_was_written_in_part_is_one(tmp_path: Path, words: bytes) -> None:
    make(tmp_path / "x")
    (tmp_path / "x" / "lock").write_bytes(words)
    with Index.open(tmp_path / "x") as index:
        index.add([("more", "words")])
    assert (tmp_path / "x" / "lock").read_bytes() == b""


@pytest.mark.parametrize("name", ["signatures.1.npy", "index.next.toml"])
def test_a_link_where_a_file_is_written_anew_is_not_written_through(
    tmp_path: Path, name: str
) -> None:
    """Laid there behind the clearing-up at a writer's beginning."""
    make(tmp_path / "x")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    with Index.open(tmp_path / "x") as index:
        index.remove(["key1"])
        from lshdb.storage.transactions.store import Store

        plain = Store.clear_leftovers
        patch = pytest.MonkeyPatch()

        def planted(store: Store, *current: object) -> None:
            plain(store, *current)  # type: ignore[arg-type]
            (tmp_path / "x" / name).symlink_to(victim)

        patch.setattr(Store, "clear_leftovers", planted)
        try:
            if name.startswith("index"):
                Index.reband(tmp_path / "x", threshold=0.7)
            else:
                index.compact()
        finally:
            patch.undo()
    assert victim.read_text() == "precious"
    with Index.open(tmp_path / "x") as index:
        assert index.check() == []


def test_a_file_of_the_users_own_with_a_generations_name_stays(tmp_path: Path) -> None:
    make(tmp_path / "x")
    theirs = tmp_path / "x" / "signatures.7.npy"
    theirs.write_bytes(b"not rows of ours")
    (tmp_path / "x" / "signatures.8.npy").write_bytes(
        (tmp_path / "x" / "signatures.npy").read_bytes()[:500]
    )
    (tmp_path / "x" / "signatures.9.npy").touch()
    with Index.open(tmp_path / "x") as index:
        index.add([("more", "words")])
    assert theirs.read_bytes() == b"not rows of ours"
    there = {path.name for path in (tmp_path / "x").glob("signatures*")}
    assert there == {"signatures.npy", "signatures.7.npy"}


def test_a_repair_does_not_empty_a_folder_of_the_users_own(tmp_path: Path) -> None:
    make(tmp_path / "x")
    with open(tmp_path / "x" / "signatures.npy", "r+b") as file:
        file.seek(200)
        file.write(b"\xff\x00\xff")
    theirs = tmp_path / "x" / "repair"
    theirs.mkdir()
    (theirs / "notes").write_text("theirs")
    with pytest.raises(LshdbError, match="it holds notes; nothing was changed"):
        Index.repair(tmp_path / "x")
    (theirs / "notes").unlink()
    theirs.rmdir()
    make(theirs)
    before = tree(theirs)
    with pytest.raises(LshdbError, match="it is another index; nothing was changed"):
        Index.repair(tmp_path / "x")
    assert tree(theirs) == before
    shutil.rmtree(theirs)
    Index.repair(tmp_path / "x")
    with Index.open(tmp_path / "x") as index:
        assert index.check() == []


@pytest.mark.sqlite("the table is changed as a file")
@pytest.mark.parametrize(
    "name", ["../victim.npy", "/etc/passwd", "index.toml", "lock", "vectors.npy", ""]
)
def test_a_state_that_names_another_file_is_refused(tmp_path: Path, name: str) -> None:
    make(tmp_path / "x")
    (tmp_path / "victim.npy").write_bytes((tmp_path / "x" / "signatures.npy").read_bytes())
    with contextlib.closing(sqlite3.connect(tmp_path / "x" / "index.db")) as connection, connection:
        connection.execute("UPDATE state SET signature_file = ?", (name,))
    before = (tmp_path / "x" / "index.toml").read_bytes()
    with pytest.raises(DamageError, match="names the signature file"):
        Index.open(tmp_path / "x")
    Index.repair(tmp_path / "x")
    assert (tmp_path / "x" / "index.toml").read_bytes() == before
    assert (tmp_path / "victim.npy").exists()
    with Index.open(tmp_path / "x") as index:
        assert index.check() == []
        assert index.stats().documents == len(DOCUMENTS)


def test_an_index_through_a_link_is_an_index(tmp_path: Path) -> None:
    make(tmp_path / "x")
    (tmp_path / "link").symlink_to("x")
    with Index.open(tmp_path / "link") as index:
        index.add([("more", "words")])
        index.compact()
        assert index.check() == []
    assert not Index.repair(tmp_path / "link").findings
    assert (tmp_path / "link").is_symlink()


@pytest.mark.sqlite("a file of it outside the index")
def test_a_database_outside_may_be_a_link(tmp_path: Path) -> None:
    apart, link = tmp_path / "apart.db", tmp_path / "link.db"
    with Index.create(tmp_path / "x", database=f"sqlite:///{apart}") as index:
        index.add(DOCUMENTS)
    (tmp_path / "disk").mkdir()
    apart.rename(tmp_path / "disk" / "apart.db")
    link.symlink_to("disk/apart.db")
    toml = tmp_path / "x" / "index.toml"
    toml.write_text(toml.read_text().replace(str(apart), str(link)))
    with Index.open(tmp_path / "x") as index:
        index.add([("more", "words")])
        assert index.check() == []


# Things that are waited for, or do something when they are opened


def put(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        folder = os.open(path.parent, os.O_RDONLY)  # a socket's own path must be short
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


WORDS = {
    "pipe": "it is a named pipe; a regular file was expected",
    "folder": "it is a directory; a regular file was expected",
    "device": "it is a symbolic link; a regular file was expected",
    "socket": "it is a socket; a regular file was expected",
}


@pytest.mark.sqlite("names of its files")
@pytest.mark.parametrize("kind", list(WORDS))
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_is_named(tmp_path: Path, name: str, kind: str) -> None:
    make(tmp_path / "x")
    if kind == "socket" and not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc to name a folder by")
    put(kind, tmp_path / "x" / name)
    code = (
        "import sys; from lshdb import Index, LshdbError\n"
        "try:\n"
        "    with Index.open(sys.argv[1]) as index:\n"
        "        if sys.argv[2] == 'lock': index.add([('more', 'words')])\n"
        "        index.query('words')\n"
        "except LshdbError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x"), name],
        capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": child_path()},
    )  # fmt: skip
    assert WORDS[kind] in done.stdout
    assert name in done.stdout


@pytest.mark.parametrize("name", ["index.json", "documents.jsonl", "signatures.npy"])
def test_a_pipe_in_an_export_is_named(tmp_path: Path, name: str) -> None:
    export(tmp_path / "files")
    put("pipe", tmp_path / "files" / name)
    code = "import sys; from lshdb import Index; Index.from_export(sys.argv[1], sys.argv[2])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "files"), str(tmp_path / "x")],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": child_path()},
    )  # fmt: skip
    assert f"{name}" in done.stderr
    assert "it is a named pipe" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pipe_that_the_user_names_is_waited_for_until_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    make(tmp_path / "x")
    os.mkfifo(tmp_path / "in.jsonl")
    child = subprocess.Popen(
        [sys.executable, "-m", "lshdb", "add", "x", "in.jsonl"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": child_path()},
        # A test run in the background has Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    with killed_late(child.pid):
        while not (tmp_path / "x" / "lock").read_text():  # it holds the lock once it reads
            if child.poll() is not None or _waits(child.pid):
                break
            time.sleep(0.02)
        time.sleep(0.2)
        child.send_signal(number)
        _, said = child.communicate()
    assert child.returncode == 128 + number
    assert "Traceback" not in said


def _waits(pid: int) -> bool:
    try:
        return "fifo" in Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return False


def test_a_pipe_that_the_user_names_is_read(tmp_path: Path) -> None:
    make(tmp_path / "x")
    command = f'{sys.executable} -m lshdb add x <(echo \'{{"id": "p", "text": "piped words"}}\')'
    done = subprocess.run(
        ["bash", "-c", command.replace("add x", "add --input jsonl x")],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": child_path()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with Index.open(tmp_path / "x") as index:
        assert index.stats().documents == len(DOCUMENTS) + 1


class Owner:
    """Something with which a file is closed."""


def test_an_interrupt_at_every_place_loses_no_descriptor(tmp_path: Path) -> None:
    path, n_before = tmp_path / "x", len(os.listdir("/dev/fd"))
    path.write_bytes(b"x")

    def use() -> None:
        owner = Owner()
        assert os.read(open_file(path, os.O_RDONLY, owner=owner), 1) == b"x"
        for name in (tmp_path / "no", tmp_path):
            with contextlib.suppress(OSError):
                open_file(name, os.O_RDONLY, owner=owner)
        with contextlib.suppress(OSError):
            open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, owner=owner)
        del owner

    for interrupt in every_interrupt():
        with interrupt:
            use()
        assert len(os.listdir("/dev/fd")) == n_before, interrupt.place
        assert not [guard for guard in descriptors._GUARDS.values() if guard() is None]
    assert interrupt.place > 20
