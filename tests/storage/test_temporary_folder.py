"""A folder in TMPDIR is gone wherever Ctrl-C comes, and however its process goes on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE

import pytest

from lshdb.files import temporary_folder
from lshdb.files.temporary_folder import TemporaryFolder
from tests.interrupts import every_interrupt


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary_folder, "_SEARCHED", set())
    return tmp_path


@pytest.mark.parametrize("is_closed", [True, False])
def test_it_is_gone_wherever_an_interrupt_comes(
    is_closed: bool, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # it came in a finalizer
    n_left = 0
    folder: TemporaryFolder | None = None
    for interrupt in every_interrupt():
        with interrupt:
            folder = TemporaryFolder()
            (folder.path / "rows").touch()
            if is_closed:
                folder.close()
            folder = None
        folder = None  # if the interrupt came before
        n_left += os.listdir(scratch) != []
        TemporaryFolder().close()
        assert os.listdir(scratch) == [] and temporary_folder._MADE == {}
    assert interrupt.place > 50
    assert n_left <= 3, "only an interrupt in a finalizer may leave it for a while"


def test_a_fork_leaves_it_to_its_parent(scratch: Path) -> None:
    with TemporaryFolder() as folder:
        child = os.fork()
        if not child:
            folder.close()
            temporary_folder._remove_all()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.listdir(scratch) == [folder.path.name]
    assert os.listdir(scratch) == []


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_has_it_too(
    code: int, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    (scratch / "lshdb-0123456789abcdef").mkdir()
    monkeypatch.setattr("fcntl.flock", flock)
    with TemporaryFolder() as folder:
        (folder.path / "rows").touch()
        assert folder.path.stat().st_mode & 0o777 == 0o700
    assert os.listdir(scratch) == ["lshdb-0123456789abcdef"], "nobody can tell who needs it"


MAKE = """
import sys
from lshdb.files.temporary_folder import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "rows").write_bytes(bytes(9))
print(folder.path.name, flush=True)
sys.stdin.read()
"""


def test_the_next_process_removes_what_a_killed_one_has_left(scratch: Path) -> None:
    """And neither what another needs, nor what it has not made."""
    environment = {**os.environ, "TMPDIR": str(scratch)}
    words = [sys.executable, "-c", MAKE]
    makers = [
        subprocess.Popen(words, text=True, env=environment, stdin=PIPE, stdout=PIPE)
        for _ in range(2)
    ]
    killed, needed = (maker.stdout.readline().strip() for maker in makers if maker.stdout)
    makers[0].send_signal(signal.SIGKILL)
    makers[0].communicate()
    others = {"lshdb-0123456789abcdef.old", "lshdb-0123", "lshdb-aaaaaaaaaaaaaaaa"}
    for name in ("lshdb-0123456789abcdef.old", "lshdb-0123"):
        (scratch / name).mkdir()
    (scratch / "lshdb-aaaaaaaaaaaaaaaa").symlink_to(scratch / killed)
    (scratch / "lshdb-bbbbbbbbbbbbbbbb" / "own").mkdir(parents=True)
    others.add("lshdb-bbbbbbbbbbbbbbbb")
    assert {killed, needed} <= {*os.listdir(scratch)}
    with TemporaryFolder() as folder:
        assert {*os.listdir(scratch)} == {needed, folder.path.name, *others}
    assert os.listdir(scratch / needed) == ["rows"]
    makers[1].communicate("")
    assert {*os.listdir(scratch)} == others
    with TemporaryFolder():  # a process looks once
        (scratch / "lshdb-cccccccccccccccc").mkdir()
        with TemporaryFolder():
            assert (scratch / "lshdb-cccccccccccccccc").is_dir()
