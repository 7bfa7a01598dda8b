"""JSON arrays of objects: each element is a record, however large the array is.

The array is cut into its elements as it streams by, by its brackets, quotes and commas; each
element is parsed by itself. Memory is one element and one chunk. An element over the limit is
counted and not held. A bad element is rejected, and the next one is read as usual, as long as the
brackets match. Several arrays one after another are read as one.

A source is ``file: record 17``, counted from 1, and a row key has the same number.
"""

from __future__ import annotations

import itertools
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lshdb.documents.document import BrokenSourceError, Document, Rejected
from lshdb.documents.formats.json_text import JsonRecords
from lshdb.documents.io.streams import OpenFile, without_bom

__all__ = ["beginning", "read_array", "split_array"]

_SPACE = b" \t\r\n"
_LINE_FEEDS = 2**16
_NOT_SPACE = re.compile(rb"[^ \t\r\n]")
_STRUCTURE = re.compile(rb'["{}\[\],]')
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_OPENING, _CLOSING, _QUOTE, _COMMA = b"{[", b"}]", ord('"'), ord(",")


def beginning(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes that are no white space, at least two, and all chunks.

    White space before them is not held: line feeds come back, and in an array nothing does.
    """
    chunks_read: list[bytes] = []
    start = b""
    n_lines = 0
    while len(start) < 2 or BOM_UTF8.startswith(start):
        try:
            chunk = next(chunks, None)
        except BrokenSourceError as error:
            return start, itertools.chain(_line_feeds(n_lines), chunks_read, _failing(error))
        if chunk is None:
            break
        is_blank = not chunk.strip(_SPACE)
        if not is_blank or (start and start != b"["):
            chunks_read.append(chunk)
        elif not start:
            n_lines += chunk.count(b"\n")
        start = (start + chunk).removeprefix(BOM_UTF8).lstrip(_SPACE)
        if start[:1] == b"[":
            start = b"[" + start[1:].lstrip(_SPACE)
        elif start and not BOM_UTF8.startswith(start):
            break
    return start[:2], itertools.chain(_line_feeds(n_lines), chunks_read, chunks)


def _line_feeds(count: int) -> Iterator[bytes]:
    """Yield ``count`` line feeds, some thousand at a time."""
    for at in range(0, count, _LINE_FEEDS):
        yield b"\n" * min(_LINE_FEEDS, count - at)


def _failing(error: Exception) -> Iterator[bytes]:
    raise error
    yield b""


def read_array(file: OpenFile, chunks: Iterable[bytes]) -> Iterator[Document | Rejected]:
    """Read the objects of an array.

    Yields
    ------
    Document or Rejected
        One for each element, in order.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it; or the array has no end, or its brackets do not match.
    """
    records = JsonRecords(file, "record")
    for number, element in enumerate(split_array(chunks, file.limit), start=1):
        source = f"{file.name}: record {number}"
        if element.data is None:
            limit = f"more than the limit of {file.limit:,}"
            yield Rejected(source, f"the record has {element.size:,} bytes, {limit}")
            continue
        yield records.item(element.data, number, source)


class _Element(NamedTuple):
    """An element of an array: its bytes, or only their number if it is over the limit."""

    data: bytes | None
    size: int


class _ElementBytes:
    """The beginning of an element whose end has not come yet."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        if not self._size:
            piece = piece.lstrip(_SPACE)
        self._size += len(piece)
        if self._size > self._limit:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def take(self) -> _Element | None:
        """Return the element, or None where there is none between two commas."""
        size = self._size
        data = b"".join(self._pieces).rstrip(_SPACE) if size <= self._limit else None
        self._pieces.clear()
        self._size = 0
        return _Element(data, size) if size else None


def split_array(chunks: Iterable[bytes], limit: int) -> Iterator[_Element]:
    """Cut an array into its elements.

    Parameters
    ----------
    chunks : iterable of bytes
        The array, cut anywhere; a byte order mark at its beginning is skipped.
    limit : int
        The longest element that is held, in bytes.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, or it is no array.
    """
    depth = count = 0
    in_string = False
    content = _ElementBytes(limit)
    rest = b""
    try:
        for chunk in without_bom(chunks):
            data = rest + chunk
            rest = b""
            position = start = 0
            while position < len(data):
                if in_string:
                    position = _IN_STRING.match(data, position).end()  # type: ignore[union-attr]
                    if position == len(data):
                        break
                    if data[position] != _QUOTE:  # a backslash whose character has not come yet
                        rest = data[position:]
                        break
                    in_string = False
                    position += 1
                    continue
                if depth == 0:
                    match = _NOT_SPACE.search(data, position)
                    if match is None:
                        break
                    if match[0] != b"[":
                        raise BrokenSourceError("holds something other than an array of objects")
                    start = position = match.end()
                    depth = 1
                    continue
                match = _STRUCTURE.search(data, position)
                if match is None:
                    break
                sign, position = data[match.start()], match.end()
                if sign == _QUOTE:
                    in_string = True
                elif sign in _OPENING:
                    depth += 1
                elif sign in _CLOSING:
                    depth -= 1
                if (sign == _COMMA and depth == 1) or depth == 0:
                    content.add(data[start : match.start()])
                    start = position
                    element = content.take()
                    if element is not None:
                        count += 1
                        yield element
            if depth:
                content.add(data[start : len(data) - len(rest)])
    except BrokenSourceError as error:
        raise BrokenSourceError(f"{error.reason}, after record {count:,}") from error
    if depth:
        raise BrokenSourceError(f"ends before its array is closed, after record {count:,}")
