"""The single-writer lock: an exclusive ``flock`` on the file ``lock`` in the index directory.

The lock goes with the process, so a killed writer leaves none behind. The holder writes its process
id and the time into the file, for the message that others get; those are only words, the lock is
the kernel's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from lshdb.errors import IndexNotFoundError, LockedError, LshdbError
from lshdb.storage.times import timestamp
from lshdb.values import check_seconds

__all__ = ["WriterLock"]

_POLL_SECONDS = 0.05


class WriterLock:
    """Hold the writer lock of one index.

    Parameters
    ----------
    path : Path
        The lock file; made if it is absent.
    timeout : float
        Seconds to wait for another writer.
    known_as : Path, optional
        The index in messages, where it is not the directory of the file.
    """

    def __init__(self, path: Path, timeout: float, *, known_as: Path | None = None) -> None:
        self.path = path
        self.timeout = check_seconds("lock_timeout", timeout)
        self._index = known_as or path.parent
        self._descriptor: int | None = None
        self._process = os.getpid()

    def acquire(self) -> None:
        """Take the lock.

        Raises
        ------
        LockedError
            Another process held it for all of the timeout.
        IndexNotFoundError
            The directory is not there any more.
        LshdbError
            The lock file cannot be made or opened.
        """
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError as error:
            raise IndexNotFoundError(
                f"the index {self._index} is not there any more", hint="look for what removed it"
            ) from error
        except OSError as error:
            raise LshdbError(
                f"cannot write to the index {self._index}: {error.strerror}",
                hint="changing an index needs write permission for its directory and files",
            ) from error
        try:
            self._lock(descriptor)
            self._process = os.getpid()
            self._descriptor = descriptor
        except BaseException:
            self._descriptor = None
            os.close(descriptor)
            raise
        self._describe(f"{os.getpid()} {timestamp()}\n")

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise self._locked(descriptor) from None
                time.sleep(_POLL_SECONDS)
            except OSError as error:
                raise LshdbError(
                    f"cannot lock the index {self._index}: {error.strerror}",
                    hint="the lock needs a file system with flock",
                ) from error

    def release(self) -> None:
        """Give the lock back; does nothing when it is not held.

        It is taken off and not only closed: a process that came by a fork meanwhile has the file
        open, too, and would keep the lock for as long as it lives. Such a process only closes.
        """
        if self._descriptor is not None:
            if self._process == os.getpid():
                self._describe("")
                with contextlib.suppress(OSError):  # then closing takes it off, but for a fork
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None

    def is_in_place(self) -> bool:
        """Whether the file that is locked is still the one at its path."""
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), there)

    def _describe(self, holder: str) -> None:
        """Put words into the file; a full or failing disk keeps nobody from the lock itself."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, holder.encode(), 0)

    def _locked(self, descriptor: int) -> LockedError:
        pid, since = None, None
        words = os.pread(descriptor, 100, 0).decode("ascii", "replace").split(maxsplit=1)
        if len(words) == 2 and words[0].isdecimal():
            pid, since = int(words[0]), words[1].strip()
        holder = f"process {pid} since {since} UTC" if pid else "another process"
        return LockedError(
            f"the index {self._index} is being written by {holder}; waited {self.timeout:g} s",
            pid=pid,
            since=since,
            hint="wait for it to end, or give a longer --lock-timeout",
        )
