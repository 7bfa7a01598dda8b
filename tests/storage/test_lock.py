"""The writer lock: one at a time, named, and gone with its process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lshdb.errors import LockedError, LshdbError
from lshdb.storage.place.lock import WriterLock
from tests.children.waiting import killed_late

pytestmark = pytest.mark.fast

HOLD = """
import sys, time
from pathlib import Path
from lshdb.storage.place.lock import WriterLock
lock = WriterLock(Path(sys.argv[1]), 0)
lock.acquire()
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def hold(path: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with killed_late(process.pid):
        assert process.stdout.readline() == "held\n"
    return process


def test_second_writer_is_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path, 60) as process:
        begun = time.monotonic()
        with pytest.raises(LockedError, match=f"process {process.pid} since 2") as caught:
            WriterLock(path, 0.3).acquire()
        assert time.monotonic() - begun >= 0.3
        assert caught.value.pid == process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        again = WriterLock(path, 0)
        again.acquire()
        again.release()
    assert path.read_bytes() == b""


def test_waiting_ends_when_the_holder_does(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold(path, 0.5):
        lock = WriterLock(path, 30)
        lock.acquire()
        assert path.read_text().split()[0] == str(os.getpid())
        lock.release()
        lock.release()


def test_lock_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LshdbError, match="does not exist any more"):
        WriterLock(tmp_path / "no" / "lock", 0).acquire()


def test_a_lock_that_cannot_be_taken_off_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    flock = fcntl.flock

    def failing(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            raise OSError(5, "Input/output error")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", failing)
    lock = WriterLock(tmp_path / "lock", 0.0)
    lock.acquire()
    lock.release()
    again = WriterLock(tmp_path / "lock", 0.0)
    again.acquire()
    again.release()


@pytest.mark.parametrize("is_held", [False, True])
def test_a_lock_that_cannot_be_read_is_told_of_and_free(
    is_held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    holder, lock = WriterLock(tmp_path / "lock", 0.0), WriterLock(tmp_path / "lock", 0.0)
    if is_held:
        holder.acquire()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", fail)
        with pytest.raises(LshdbError, match=r"lock cannot be read: Input/output error"):
            lock.acquire()
    holder.release()
    lock.acquire()
    lock.release()
