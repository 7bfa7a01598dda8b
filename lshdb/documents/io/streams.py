"""Read an open source in bounded memory: chunks of decompressed bytes, and lines cut out of them.

Decided: this module drives the decoders itself. ``gzip.open`` and its like throw away what they
have decoded when they meet damage. Every step here is bounded: a chunk that expands a
millionfold comes out in pieces of ``CHUNK`` bytes.

If compressed data is corrupt, all data before the damage counts. A decoder loses what it had
decoded in the step that fails. So a corrupt file is opened once more, decoded up to that step, and
fed on byte by byte until it fails at the very byte. That costs a second pass over a file that is
damaged anyway, and nothing for good ones. A pipe cannot be opened twice: it loses what the step
held, at most 64 KiB of compressed data. A flipped bit in a gzip file may show only at the check sum
that ends the member; the data between the two has been yielded by then.

A file is one or more gzip members, Zstandard frames, or streams of xz or bzip2, one after another.
Zeros after a gzip member or an xz stream are padding; anything else there is damage. An empty file
counts as truncated. The decoders refuse Zstandard frames and xz streams that want a window over 128
MiB.

A line ends at a line feed and nowhere else, so that U+2028, form feeds and lone carriage returns
inside a text do not end it. The limit applies before memory is taken: only the length of an
over-long line is kept, and reading goes on after its end. A UTF-8 byte order mark is removed at the
front of a file, and nowhere else.

Progress counts bytes on disk, so a compressed file counts its size from ``stat``. A finished file
counts in full, even if it was left early or could not be read, so that the last report equals the
total. A file that has grown since counts no more than its size at the start. Standard input and
pipes have no size: they count only when nothing else does (total 0).
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from lshdb.documents.document import (
    BrokenSourceError,
    DamagedDataError,
    Fields,
    SeenFields,
    system_reason,
)
from lshdb.phases.phase import OnProgress

if TYPE_CHECKING:
    from lshdb.documents.io.source import InputFile

__all__ = [
    "CHUNK",
    "Damage",
    "MemberEnd",
    "OpenFile",
    "Progress",
    "TooLong",
    "Watched",
    "chunks_of",
    "corrupt",
    "decompressed",
    "load_arrow",
    "load_decompressor",
    "open_source",
    "split_lines",
    "whole_lines",
    "without_bom",
]

CHUNK = 2**18
"""The most bytes that one step yields."""
_COMPRESSED_CHUNK = 2**16
_PROGRESS_STEP = 2**20
"""Bytes between two reports within one file."""


class Progress:
    """Progress through several files.

    Parameters
    ----------
    callback : callable or None
        Called with the bytes read so far, the total (None if unknown) and ``"bytes"``.
    total : int
        Bytes in all; 0 if unknown.

    """

    __slots__ = ("_at", "_callback", "_done", "_reported", "_size", "total")

    def __init__(self, callback: OnProgress | None, total: int) -> None:
        self._callback = callback
        self.total = total
        self._done = 0
        self._size = 0
        self._at = 0
        self._reported = 0

    @property
    def position(self) -> int:
        """The bytes read so far."""
        return self._done + (min(self._at, self._size) if self.total else self._at)

    def begin(self, size: int) -> None:
        """Begin the next file, which has ``size`` bytes."""
        self._size = size
        self._at = 0

    def read(self, count: int) -> None:
        """Add ``count`` bytes that were read from the file."""
        self._at += count
        if self.position - self._reported >= _PROGRESS_STEP:
            self._report(self.position)

    def end(self) -> None:
        """Finish the file."""
        self._done += self._size if self.total else self._at
        self._at = self._size = 0
        if self._done != self._reported:
            self._report(self._done)

    def _report(self, position: int) -> None:
        self._reported = position
        if self._callback is not None:
            self._callback(position, self.total or None, "bytes")


Decode: TypeAlias = Callable[[Callable[[], bytes]], Iterator[bytes]]

_GZIP_WINDOW = 31  # 15 bits of window, plus 16 for the gzip header and its check sum


_XZ_MEMORY = 136 * 2**20
"""For a window of 128 MiB, in bytes."""


class _Member(Protocol):
    """One member, frame or stream of a compressed file on its way through."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipMember:
    """zlib's decompressor with the interface of those of xz and bzip2: it keeps unused input."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(wbits=_GZIP_WINDOW)
        self._tail = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inflater.decompress(self._tail + data if self._tail else data, max_length)
        self._tail = self._inflater.unconsumed_tail
        # If the output is full, the inflater may still hold bytes although it took all input.
        self.needs_input = not self._tail and len(out) < max_length
        return out


class _ZstdFrame:
    """zstandard's decompressor, which has no bound of its own, with the same interface.

    It is given as many blocks at a time as can yield ``max_length`` bytes, and at least one: a
    block yields up to 128 KiB, and nothing before its last byte has come (RFC 8878, 3.1.1.2).
    """

    def __init__(self) -> None:
        import zstandard

        self._decompressor = zstandard.ZstdDecompressor().decompressobj()
        self._parts = _parts_of_frame()
        self._missing, self._most = next(self._parts)
        self._part = b""
        self._tail = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data = self._tail + data if self._tail else data
        end = self._end_of_whole(data, max_length)
        self._tail = data[end:]
        self.needs_input = not self._tail
        return self._decompressor.decompress(data[:end])

    def _end_of_whole(self, data: bytes, room: int) -> int:
        """Return how much of the data yields as many bytes as there is room for."""
        at, is_empty = 0, True
        while at < len(data):
            step = min(self._missing, len(data) - at)
            if step == self._missing and self._most:
                if self._most > room and not is_empty:
                    break
                room -= self._most
                is_empty = False
            if self._most == 0 and self._missing <= _LONGEST_HEAD:
                self._part += data[at : at + step]
            at += step
            self._missing -= step
            try:
                while not self._missing:
                    part, self._part = self._part, b""
                    self._missing, self._most = self._parts.send(part)
            except StopIteration:
                break
        return at


_LONGEST_HEAD = 4
_BLOCK = 2**17
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)


def _parts_of_frame() -> Generator[tuple[int, int], bytes, None]:
    """Yield the length of each part of a Zstandard frame, and the most bytes that it decodes to.

    Each part of up to four bytes is sent back; RFC 8878, section 3.1.
    """
    magic = int.from_bytes((yield 4, 0), "little")
    if magic in _SKIPPABLE:
        yield int.from_bytes((yield 4, 0), "little"), 0
        return
    if magic != 0xFD2FB528:
        yield sys.maxsize, 0  # the decompressor refuses it
    (flags,) = yield 1, 0
    is_single = flags >> 5 & 1
    yield (1 - is_single) + (0, 1, 2, 4)[flags & 3] + (is_single, 2, 4, 8)[flags >> 6], 0
    is_last = 0
    while not is_last:
        head = int.from_bytes((yield 3, 0), "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        yield (1 if kind == 1 else size), (size if kind < 2 else _BLOCK)
    if flags & 4:
        yield 4, 0


def load_decompressor(
    compression: str,
) -> tuple[Callable[[], _Member], type[Exception] | tuple[type[Exception], ...]]:
    """Return a factory of decoders, each for one member, and the errors that they raise.

    Parameters
    ----------
    compression : {"gz", "zst", "xz", "bz2"}

    Raises
    ------
    ImportError
        For ``zst``, if ``zstandard`` is missing; for ``xz`` and ``bz2``, if Python was built
        without them.
    """
    if compression == "gz":
        return _GzipMember, zlib.error
    if compression == "xz":
        import lzma

        limit = _XZ_MEMORY
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=limit), lzma.LZMAError
    if compression == "bz2":
        import bz2

        return bz2.BZ2Decompressor, (OSError, ValueError)
    import zstandard

    return _ZstdFrame, zstandard.ZstdError


def load_arrow() -> tuple[Any, Any]:
    """Import pyarrow and its Parquet module.

    Raises
    ------
    ImportError
    """
    return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")


def decompressed(compression: str, read: Callable[[], bytes]) -> Iterator[bytes]:
    """Decompress a whole file, member after member.

    Parameters
    ----------
    compression : {"gz", "zst", "xz", "bz2"}
    read : callable
        Returns the next bytes of the file, of any length; ``b""`` at its end.

    Yields
    ------
    bytes
        At least one and at most ``CHUNK`` bytes. Data decoded before damage comes out first,
        except what the decoder loses in the step that fails: at most what one ``read`` returned.

    Raises
    ------
    DamagedDataError
        The data is truncated or corrupt.
    """
    new_member, decoder_error = load_decompressor(compression)
    member: _Member | None = None
    n_members = 0
    data = read()
    if not data:
        raise DamagedDataError("the compressed file is truncated: it is empty")
    while data:
        if member is None:
            if compression in ("gz", "xz") and n_members:
                data = data.lstrip(b"\0")
            if data:
                member = new_member()
                n_members += 1
        while member is not None:
            try:
                out = member.decompress(data, CHUNK)
            except decoder_error as error:
                raise corrupt(error) from error
            data = b""
            if out:
                yield out
            if member.eof:
                data = member.unused_data
                member = None
            elif member.needs_input:
                break
        data = data or read()
    if member is not None:
        raise DamagedDataError("the compressed file is truncated")


def corrupt(error: Exception) -> DamagedDataError:
    """Return the error for a file that a decoder refused."""
    detail = str(error).rpartition(": ")[2].lower()
    if "memory" in detail:
        return DamagedDataError(
            "the compressed file cannot be decoded: it asks for a window of more than 128 MiB"
        )
    return DamagedDataError(f"the compressed file is corrupt ({detail})")


class MemberEnd(bytes):
    """Nothing, where a gzip member has ended well."""


class Damage(bytes):
    """A line feed in the place of the rest of a damaged member, behind which others follow."""

    reason: str

    def __new__(cls, reason: str) -> Damage:
        """Make one; bytes have no other way to be given anything."""
        damage = super().__new__(cls, b"\n")
        damage.reason = reason
        return damage


def open_source(source: InputFile) -> BinaryIO:
    """Open a file for reading, without a buffer, because it is read in large steps.

    Raises
    ------
    BrokenSourceError
        The file cannot be opened.
    """
    try:
        if source.is_remote:
            from lshdb.documents.io.remote import open_remote

            return open_remote(source.path, from_end=source.format.from_end, archive=source.archive)
        return open(source.path, "rb", buffering=0)
    except OSError as error:
        raise BrokenSourceError(f"cannot be opened: {system_reason(error)}") from error


def chunks_of(
    source: InputFile,
    file: BinaryIO,
    progress: Progress,
    head: bytes = b"",
    *,
    decode: Decode | None = None,
) -> Generator[bytes, None, None]:
    """Read an open source to its end.

    Parameters
    ----------
    source : InputFile
        The source and its compression.
    file : binary file
        Open at its beginning; not closed here.
    progress : Progress
        Counts every byte read from the file.
    head : bytes
        What was read from the file before, if it is a pipe.
    decode : callable, optional
        Decompresses the file, given how its next bytes are read; by default :func:`decompressed`.

    Yields
    ------
    bytes
        At least one and at most ``CHUNK`` decompressed bytes.

    Raises
    ------
    BrokenSourceError
        Reading failed, or the compressed data is damaged.
    """
    reader = _Reader(file, _COMPRESSED_CHUNK if source.compression else CHUNK, progress, head)
    if not source.compression:
        while chunk := reader():
            yield chunk
        return
    n_yielded = 0
    content = decompressed(source.compression, reader) if decode is None else decode(reader)
    is_first = True
    try:
        for chunk in content:
            n_yielded += len(chunk)
            is_first = is_first and not isinstance(chunk, Damage)
            yield chunk
        return
    except DamagedDataError as error:
        damage = error
    if source.is_regular and is_first:
        start = reader.last_start if damage.start is None else damage.start
        yield from _up_to_damage(source, start=start, n_yielded=n_yielded)
    raise damage


class Watched(io.RawIOBase):
    """A file that is read in any order and counts the bytes read."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def readable(self) -> bool:
        """Return True: the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return whether the file can be read at any place."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a position and return it."""
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes into the buffer and return their number."""
        count = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._progress.read(count)
        return int(count)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open source, with the options for the reader of its format.

    Attributes
    ----------
    name : str
        The file, for messages.
    key : str
        The document's key, if the file is one document.
    chunks : iterator of bytes
        The decompressed content, cut anywhere.
    fields : Fields
        Names of the fields, columns or arrays, and the side file of keys.
    limit : int
        The longest line, record, text or row, in bytes.
    prefix : str
        Put before row numbers that serve as keys.
    file : binary file
        The same content, compressed if the source is; for readers that do not take chunks.
    descriptor : int or None
        Of the file, if it is neither compressed nor a pipe.
    seen : SeenFields
        Notes which fields to be kept there are.
    encoding : str or None
        That of the file, if it is not UTF-8. The chunks are in UTF-8 nevertheless.
    is_regular : bool
        Whether it is a regular file, which is read without waiting for anybody.
    has_members : bool
        Whether the chunks are of gzip members that hold a record each, with :class:`MemberEnd` and
        :class:`Damage` among them.
    say : callable
        Says what the file is, if a reader finds it to be something other than its name says.
    """

    name: str
    key: str
    chunks: Iterator[bytes]
    fields: Fields
    limit: int
    prefix: str
    file: BinaryIO
    progress: Progress
    descriptor: int | None
    seen: SeenFields
    encoding: str | None
    say: Callable[[str], None]
    note: Callable[[str], None]
    is_regular: bool = False
    has_members: bool = False

    def in_any_order(self) -> BinaryIO:
        """Return the file, to be read at any place; bytes that are read count as progress."""
        return io.BufferedReader(Watched(self.file, self.progress))


class _Reader:
    """Reads a file in steps, counts, and remembers where the last step began."""

    def __init__(self, file: BinaryIO, step: int, progress: Progress, head: bytes = b"") -> None:
        self._head: bytes = head
        # A pipe's buffered reader waits for a full step; read1 returns what is there.
        self._read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
        self._step = step
        self._progress = progress
        self._position = 0
        self.last_start = 0

    def __call__(self) -> bytes:
        try:
            data = self._head or self._read(self._step)
            self._head = b""
            if data is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except OSError as error:
            raise BrokenSourceError(f"cannot be read further: {system_reason(error)}") from error
        if data:
            self.last_start = self._position
            self._position += len(data)
            self._progress.read(len(data))
        return data


def _up_to_damage(source: InputFile, *, start: int, n_yielded: int) -> Iterator[bytes]:
    """Yield the bytes of a corrupt file before its damage, from ``n_yielded`` on."""
    try:
        with open_source(source) as file:
            reader = _Reader(file, _COMPRESSED_CHUNK, Progress(None, 0))
            for chunk in decompressed(source.compression, _bytewise(reader, start)):
                fresh = chunk[n_yielded:] if n_yielded else chunk
                n_yielded = max(n_yielded - len(chunk), 0)
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


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line over the limit.

    Attributes
    ----------
    size : int
        Bytes of the line, without its line feed.
    n_quotes : int
        How many of them are quotes; the CSV reader needs it to find the record's end.
    """

    size: int
    n_quotes: int


def without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks without a byte order mark at their beginning."""
    iterator = iter(chunks)
    head = b""
    for chunk in iterator:
        head += chunk
        if len(head) >= len(BOM_UTF8):
            break
    head = head.removeprefix(BOM_UTF8)
    if head:
        yield head
    yield from iterator


def split_lines(
    chunks: Iterable[bytes], limit: int, quote: bytes = b'"'
) -> Iterator[bytes | TooLong]:
    """Split at line feeds.

    Parameters
    ----------
    chunks : iterable of bytes
        The content, cut anywhere; a byte order mark at its beginning is skipped.
    limit : int
        The longest line, in bytes without its line feed.
    quote : bytes
        What is counted in longer ones.

    Yields
    ------
    bytes or TooLong
        Each line without its line feed. A last line without one counts if it holds anything.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, with the line number. The beginning of that line is dropped,
        because its rest is unknown.
    """
    n_ended = 0
    line = _LineBytes(limit, quote)
    try:
        for chunk in without_bom(chunks):
            pieces = chunk.split(b"\n")
            rest = pieces.pop()
            for piece in pieces:
                n_ended += 1
                if line.size or len(piece) > limit:
                    line.add(piece)
                    yield line.take()
                else:
                    yield piece
            if rest:
                line.add(rest)
    except BrokenSourceError as error:
        error.line = n_ended + 1
        raise
    if line.size:
        yield line.take()


def whole_lines(chunks: Iterable[bytes], limit: int) -> Iterator[bytes | TooLong]:
    """Cut at the last line feed of each chunk, so that lines stay together and none is cut.

    Parameters
    ----------
    chunks, limit
        As for :func:`split_lines`.

    Yields
    ------
    bytes or TooLong
        Lines with their line feeds, one or many; one that comes alone may have none. A line over
        the limit comes alone, unless one chunk holds all of it: then it is among the others.

    Raises
    ------
    BrokenSourceError
        As :func:`split_lines`.
    """
    n_ended = 0
    content = _LineBytes(limit)
    try:
        for chunk in without_bom(chunks):
            start = 0
            if content.size:
                start = chunk.find(b"\n") + 1
                content.add(chunk[: start - 1] if start else chunk)
                if not start:
                    continue
                n_ended += 1
                line = content.take()
                if isinstance(line, bytes) and len(line) < CHUNK:
                    line += b"\n"
                yield line
            end = chunk.rfind(b"\n") + 1
            if end > start:
                n_ended += chunk.count(b"\n", start, end)
                yield chunk[start:end] if start or end < len(chunk) else chunk
            if end < len(chunk):
                content.add(chunk[max(start, end) :])
    except BrokenSourceError as error:
        error.line = n_ended + 1
        raise
    if content.size:
        yield content.take()


class _LineBytes:
    """The beginning of a line whose end has not come yet; beyond the limit, only its length."""

    def __init__(self, limit: int, quote: bytes = b'"') -> None:
        self._limit = limit
        self._quote = quote
        self._pieces: list[bytes] = []
        self._n_quotes = 0
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._n_quotes += piece.count(self._quote)
        if self.size > self._limit:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def take(self) -> bytes | TooLong:
        line: bytes | TooLong
        if self.size > self._limit:
            line = TooLong(self.size, self._n_quotes)
        else:
            line = b"".join(self._pieces)
        self._pieces.clear()
        self._n_quotes = 0
        self.size = 0
        return line
