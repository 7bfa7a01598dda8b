"""An open source -> chunks of decompressed bytes.

Decided: where compressed data is corrupt, everything before the damage counts. A decoder loses what
it had decoded in the step that fails, so a corrupt file is opened once more, decoded again up to
that step, and fed on byte by byte until it fails at the very byte. That costs a second pass over a
file that is damaged anyway, and nothing for good ones. What cannot be opened twice, such as a pipe,
loses what the step held, at most 64 KiB of compressed data.

A flipped bit in a gzip file may show only at the check sum that ends the member: what was decoded
between the two has gone out by then.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO

from lshdb.documents.decompression import CHUNK, decompressed
from lshdb.documents.faults import BrokenSourceError, DamagedDataError
from lshdb.documents.progress import Progress
from lshdb.documents.sources import Source
from lshdb.documents.wording import system_reason

__all__ = ["Watched", "chunks_of", "open_source"]

_COMPRESSED_CHUNK = 2**16


def open_source(source: Source) -> BinaryIO:
    """Open a file for reading, without a buffer: it is read in large steps.

    Raises
    ------
    BrokenSourceError
        It cannot be opened.
    """
    try:
        return open(source.path, "rb", buffering=0)
    except OSError as error:
        raise BrokenSourceError(f"cannot be opened: {system_reason(error)}") from error


def chunks_of(source: Source, file: BinaryIO, progress: Progress) -> Generator[bytes, None, None]:
    """Read an open source to its end.

    Parameters
    ----------
    source : Source
        What it is, and how it is compressed.
    file : binary file
        Open at its beginning; not closed here.
    progress : Progress
        Told of every byte read from the file.

    Yields
    ------
    bytes
        At most ``CHUNK`` decompressed bytes, never none.

    Raises
    ------
    BrokenSourceError
        The file cannot be read on, or its compressed data is damaged.
    """
    reader = _Reader(file, _COMPRESSED_CHUNK if source.compression else CHUNK, progress)
    if not source.compression:
        while chunk := reader():
            yield chunk
        return
    given = 0
    try:
        for chunk in decompressed(source.compression, reader):
            given += len(chunk)
            yield chunk
        return
    except DamagedDataError as error:
        damage = error
    if source.is_regular:
        yield from _up_to_damage(source, start=reader.last_start, given=given)
    raise damage


class Watched(io.RawIOBase):
    """A file that is read at many places, and counts what is read."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read at any place."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        """Read on, and say how much."""
        count = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._progress.read(count)
        return int(count)


class _Reader:
    """Reads a file in steps, counts, and remembers where the last step began."""

    def __init__(self, file: BinaryIO, step: int, progress: Progress) -> None:
        # A pipe's buffered reader waits for a full step; read1 returns what is there.
        self._read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
        self._step = step
        self._progress = progress
        self._position = 0
        self.last_start = 0

    def __call__(self) -> bytes:
        try:
            data = self._read(self._step)
            if data is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except OSError as error:
            raise BrokenSourceError(f"cannot be read on: {system_reason(error)}") from error
        if data:
            self.last_start = self._position
            self._position += len(data)
            self._progress.read(len(data))
        return data


def _up_to_damage(source: Source, *, start: int, given: int) -> Iterator[bytes]:
    """What a corrupt file holds before its damage, beyond the first ``given`` bytes."""
    try:
        with open_source(source) as file:
            reader = _Reader(file, _COMPRESSED_CHUNK, Progress(None, 0))
            for chunk in decompressed(source.compression, _bytewise(reader, start)):
                fresh = chunk[given:] if given else chunk
                given = max(given - len(chunk), 0)
                if fresh:
                    yield fresh
    except BrokenSourceError:
        return  # the damage itself, which the caller reports


def _bytewise(reader: _Reader, start: int) -> Callable[[], bytes]:
    """Read in whole steps before the offset ``start``, in single bytes from there."""

    def pieces() -> Iterator[bytes]:
        position = 0
        while data := reader():
            whole = max(min(start - position, len(data)), 0)
            if whole:
                yield data[:whole]
            for i in range(whole, len(data)):
                yield data[i : i + 1]
            position += len(data)

    iterator = pieces()
    return lambda: next(iterator, b"")
