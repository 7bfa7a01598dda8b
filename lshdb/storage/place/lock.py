"""The single-writer lock: an exclusive ``flock`` on the file ``lock`` in the index directory.

The lock ends with the process, so a killed writer leaves none behind. The holder writes its process
id and the time into the file, for the message that others get; those are only words, the lock is
the kernel's. A process that makes an index adds a mark, by which others recognise an unfinished
directory (``creation.py``).

A file that holds anything else belongs to another program, and is not written to.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from lshdb.arguments import check_seconds
from lshdb.errors import IndexNotFoundError, LockedError, LshdbError, write_hint
from lshdb.files.descriptors import sync_file, write_at
from lshdb.files.own_files import UnfitFileError, open_file
from lshdb.files.process import Process
from lshdb.files.rights import create_file
from lshdb.storage.tables.records import timestamp

__all__ = ["WriterLock"]

_POLL_SECONDS = 0.05
_MOST_BYTES = 256
_WORDS = re.compile(rb"[\0\d :.-]*\n?[a-z]*[\0\d \n]*")
"""What a holder writes: number and time, then a mark. Also a part of it, or zeros instead, as a
full disk or a power loss leaves them."""


class WriterLock:
    """Hold the writer lock of one index.

    Parameters
    ----------
    path : Path
        The lock file; made if it is absent.
    timeout : float
        Seconds to wait for another writer.
    known_as : Path, optional
        Name of the index in messages, if it is not the directory of the file.
    on_wait : callable, optional
        Called once before waiting, with the error of a wait that is too long.
    """

    def __init__(
        self,
        path: Path,
        timeout: float,
        *,
        known_as: Path | None = None,
        on_wait: Callable[[LockedError], None] | None = None,
    ) -> None:
        self._on_wait = on_wait
        self.path = path
        self.timeout = check_seconds("lock_timeout", timeout)
        self._index = known_as or path.parent
        self._descriptor: int | None = None
        self._is_said = False
        self._mark = ""
        self._process = Process()

    def acquire(self, *, is_said: bool = True) -> None:
        """Take the lock.

        Parameters
        ----------
        is_said : bool
            Write the holder into the file; otherwise write nothing before :meth:`say_holder`.

        Raises
        ------
        LockedError
            Another process held it for all of the timeout.
        IndexNotFoundError
            The directory does not exist any more.
        LshdbError
            The lock file cannot be made or opened, or is not a lock file.
        """
        try:
            with contextlib.suppress(FileExistsError):
                os.close(create_file(self.path))
            descriptor = open_file(self.path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError as error:
            raise IndexNotFoundError(
                f"the index {self._index} does not exist any more", hint="check what removed it"
            ) from error
        except UnfitFileError as error:
            raise LshdbError(
                f"cannot lock the index {self._index}: {self.path}: {error.strerror}",
                hint="remove it; the next writer makes the file",
            ) from error
        except OSError as error:
            raise LshdbError(
                f"cannot write to the index {self._index}: {error.strerror}",
                hint=write_hint(
                    error, "changing an index needs write permission for its directory and files"
                ),
            ) from error
        try:
            self._lock(descriptor)
            if not _WORDS.fullmatch(self._read(descriptor)):
                raise LshdbError(
                    f"cannot lock the index {self._index}: {self.path} holds something that lshdb "
                    "did not write",
                    hint="move the file away; the next writer makes it again",
                )
            self._process = Process()
            self._descriptor = descriptor
        except BaseException:
            self._descriptor = None
            os.close(descriptor)
            raise
        self._is_said = False
        if is_said:
            with contextlib.suppress(OSError):  # a full disk must not prevent the lock itself
                self.say_holder()

    def say_holder(self, mark: str = "") -> None:
        """Write the holder into the file; a mark is synced, and stays when the lock is released.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        self._is_said = True
        self._mark = mark
        self._write(f"{os.getpid()} {timestamp()}\n{mark}")
        if mark and self._descriptor is not None:
            sync_file(self._descriptor)

    def words(self) -> str:
        """Return the content of the file while it is locked.

        Raises
        ------
        LshdbError
            It cannot be read.
        """
        return "" if self._descriptor is None else self._read(self._descriptor).decode("ascii")

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + self.timeout
        on_wait, is_collected = self._on_wait, False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise self._locked(descriptor) from None
                if not is_collected and self._locked(descriptor).pid in (None, os.getpid()):
                    gc.collect()  # a writer of this process that Ctrl-C ended as it began
                is_collected = True
                if on_wait is not None:
                    on_wait(self._locked(descriptor))
                    on_wait = None
                time.sleep(_POLL_SECONDS)
            except OSError as error:
                raise LshdbError(
                    f"cannot lock the index {self._index}: {error.strerror}",
                    hint="the lock needs a file system with flock",
                ) from error

    def release(self) -> None:
        """Release the lock; do nothing if it is not held.

        It is unlocked and not only closed: a process forked meanwhile has the file open, too, and
        would keep the lock for as long as it lives. In such a process the file is only closed.
        """
        descriptor = self._descriptor
        if descriptor is None:
            return
        try:  # Ctrl-C may come at any line
            if self._process.is_this and self._is_said:
                with contextlib.suppress(OSError):
                    self._write(self._mark and f"\n{self._mark}")
        finally:
            if self._process.is_this:
                with contextlib.suppress(OSError):  # then closing unlocks it, unless forked
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            self._descriptor = None
            os.close(descriptor)

    def __del__(self) -> None:
        """Release a lock whose holder was interrupted between taking it and noting that it has."""
        if getattr(self, "_descriptor", None) is not None:
            with contextlib.suppress(OSError):
                self.release()

    def is_in_place(self) -> bool:
        """Return whether the locked file is still the one at its path."""
        try:
            in_place = os.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return self._descriptor is not None and os.path.samestat(
            os.fstat(self._descriptor), in_place
        )

    def _write(self, words: str) -> None:
        """Write words into the file; the old ones go after the new ones are written."""
        if self._descriptor is not None:
            write_at(self._descriptor, words.encode(), 0)
            os.ftruncate(self._descriptor, len(words))

    def _locked(self, descriptor: int) -> LockedError:
        pid, since = None, None
        first_line = self._read(descriptor).decode("ascii", "replace").partition("\n")[0]
        words = first_line.split(maxsplit=1)
        if len(words) == 2 and words[0].isdecimal():
            pid, since = int(words[0]), words[1].strip()
        holder = f"process {pid} since {since} UTC" if pid else "another process"
        return LockedError(
            f"the index {self._index} is being written by {holder}; waited {self.timeout:g} s",
            pid=pid,
            since=since,
            hint="wait for it to end, or give a longer --lock-timeout",
        )

    def _read(self, descriptor: int) -> bytes:
        try:
            return os.pread(descriptor, _MOST_BYTES, 0)
        except OSError as error:
            raise LshdbError(
                f"cannot lock the index {self._index}: {self.path} cannot be read: "
                f"{error.strerror}",
                hint="check the disk, then try again",
            ) from error
