"""An answer that must be taken whole: it is on disk, or a reader has taken it to the last byte.

``head -n 1`` takes all of a short answer from a pipe and passes on one line of it, so bytes that
were taken say little. Therefore the last byte is held back until everything before it has been
taken. A reader that has enough goes away without asking again; one that wants everything does, and
gets it. How long either takes does not matter.

What cannot be known: what the reader does with the bytes, and what programs behind it do. Where the
system does not count the bytes in a pipe, written counts as taken.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import select
import stat
import sys
import termios
from collections.abc import Iterator
from typing import IO, Any

from lshdb.errors import LshdbError
from lshdb.files.descriptors import sync_file

__all__ = ["delivered", "end_answer", "named_output", "output_delivered"]

_POLL_MS = 20


class _HeldBack(io.RawIOBase):
    """A pipe or socket; the last byte that was written waits for :meth:`deliver`.

    Parameters
    ----------
    descriptor : int
        Stays open.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        self._last = b""
        self.is_abandoned = False
        """Whether nothing is written any more: nobody waits for a reader who does not read."""

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            if self.is_abandoned:
                return len(view)
            self.release()
            n = os.write(self._descriptor, view[:-1]) if len(view) > 1 else 0
            if n == len(view) - 1:
                self._last = bytes(view[-1:])
                n += 1
            return n

    def release(self) -> None:
        """Write the last byte."""
        if self._last:
            os.write(self._descriptor, self._last)
            self._last = b""

    def deliver(self) -> None:
        """Write the last byte when the others have been taken, and wait until it is taken.

        Raises
        ------
        BrokenPipeError
            The reader has gone before.
        """
        if self._last:
            self._wait_for_reader()
            self.release()
            self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        reader = select.poll()
        reader.register(self._descriptor, 0)  # closing alone is reported
        while True:
            is_left = self._bytes_left() > 0
            if not is_left and not self._is_socket:
                return
            if reader.poll(_POLL_MS if is_left else 0):  # what it left in a socket is gone, too
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            if not is_left:
                return

    def _bytes_left(self) -> int:
        """Return the bytes that nobody has read; 0 if the system does not count them."""
        request = termios.TIOCOUTQ if self._is_socket else termios.FIONREAD
        try:
            left = fcntl.ioctl(self._descriptor, request, bytes(4))
        except OSError:
            return 0
        return int.from_bytes(left, sys.byteorder)


@contextlib.contextmanager
def delivered(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield a file to write to; at the end of the block, all of it has been delivered.

    Parameters
    ----------
    file : binary file
        Of the system.

    Raises
    ------
    OSError
        The disk is full or failed, or the reader has gone.
    """
    mode = os.fstat(file.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        yield file
        file.flush()
        if stat.S_ISREG(mode):
            sync_file(file.fileno())
        return
    held_back = _HeldBack(file.fileno())
    buffered = io.BufferedWriter(held_back)
    try:
        yield buffered
        buffered.flush()
        held_back.deliver()
    except BaseException as error:
        if isinstance(error, LshdbError):  # what was found before it is written as ever
            with contextlib.suppress(OSError):
                buffered.flush()
                held_back.release()
        held_back.is_abandoned = True
        raise


@contextlib.contextmanager
def output_delivered() -> Iterator[None]:
    """Have standard output delivered at the end of the block."""
    plain, text = sys.stdout, None
    try:
        plain.flush()
        plain.fileno()
    except (ValueError, AttributeError, OSError):  # closed, or not a file of the system
        yield
        return
    try:
        with delivered(plain.buffer) as file:
            if file is not plain.buffer:
                sys.stdout = text = io.TextIOWrapper(
                    file, encoding=plain.encoding, errors=plain.errors, write_through=True
                )
            yield
    finally:
        sys.stdout = plain
        if text is not None:
            text.detach()


@contextlib.contextmanager
def named_output() -> Iterator[None]:
    """Make errors in writing to standard output name it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = "standard output"
        raise


def end_answer() -> None:
    """Deliver what was written to standard output so far, before notes about it."""
    if sys.stdout is None or sys.stdout.closed:
        return
    with named_output():
        sys.stdout.flush()
        raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
        if isinstance(raw, _HeldBack):
            raw.deliver()
