"""JSON Lines: documents out of the objects, or the lines as they lie.

Each line is an object with the key in one field and the body in another.

Decided: every line is independent. A bad line is rejected, and the next one is read as usual.
Blank lines are skipped. If a field occurs twice in an object, the last one counts, which is the
parser's rule. ``objects.py`` says what an object must hold.

Plain lines are read by the compiled kernel (``lines.c``), many at once, and come in blocks. It
takes only what is plainly fine; every other line, valid or not, goes to the parser here.

:func:`read_raw_lines` is for passing lines on unchanged. It rejects nothing: a line without an
object has ``record`` None, and the caller decides what to do with it. A line over the limit is
yielded in pieces as it is read, so that it is neither held nor lost.

A JSON array of objects (``json_arrays.py``) has lines too, but none of them is a record: a file
that begins with ``[`` and ``{`` is read as an array under either name. One object alone is no
record set: it is refused, so that a program's settings never become a document.

Limits: nesting is at most about 1,000 deep (the parser's limit). ``json_text.py`` says what is read
beyond JSON: NaN, numbers of any size, and halves of surrogate pairs in fields that are not needed.
"""

from __future__ import annotations

import itertools
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from lshdb.documents.blocks import DocumentBlock, Item
from lshdb.documents.document import BrokenSourceError, Document, Rejected
from lshdb.documents.formats.json_arrays import beginning, read_array
from lshdb.documents.formats.json_text import JsonRecords, load_json
from lshdb.documents.io.sources import open_single
from lshdb.documents.io.streams import OpenFile, TooLong, split_lines, whole_lines

__all__ = [
    "RawLine",
    "key_of",
    "parse_object",
    "read_jsonl",
    "read_raw_lines",
    "split_raw_lines",
]


def read_jsonl(file: OpenFile) -> Iterator[Document | Item]:
    """Read JSON Lines.

    Yields
    ------
    Document, Rejected or DocumentBlock
        One document or rejection for each line that is not blank, in order; documents of plain
        lines come in blocks.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, with the line.
    """
    start, chunks = beginning(file.chunks)
    if start == b"[{":
        file.say("a JSON array")
        yield from read_array(file, chunks)
        return
    scan = _scanner(file)
    if scan is None:
        yield from _read_lines(file, split_lines(chunks, file.limit))
    else:
        yield from _read_blocks(file, chunks, scan)


def read_json(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read an array of objects, or JSON Lines under the name of JSON.

    Yields
    ------
    Document or Rejected
        One for each element or line, in order.

    Raises
    ------
    BrokenSourceError
        The file is neither, or cannot be read further.
    """
    start, chunks = beginning(file.chunks)
    if start[:1] == b"[":
        yield from read_array(file, chunks)
        return
    lines = split_lines(chunks, file.limit)
    first = []
    for line in itertools.islice(lines, _LINES_TRIED):
        first.append(line)
        if sum(map(_is_filled, first)) == 2:
            break
    if not first:
        return  # the file is empty
    filled = list(filter(_is_filled, first))
    if len(filled) < 2 or not any(map(_is_record, filled)):
        raise BrokenSourceError(
            "holds one JSON value, not records: write an array of objects, or JSON Lines with one "
            "object a line (--input jsonl for a single line)"
        )
    yield from _read_lines(file, itertools.chain(first, lines))


def _is_filled(line: bytes | TooLong) -> bool:
    return isinstance(line, TooLong) or bool(line.strip())


def _is_record(line: bytes | TooLong) -> bool:
    if isinstance(line, TooLong):
        return True  # as few lines are that long that are no records
    try:
        return isinstance(load_json(line), dict)
    except orjson.JSONDecodeError:
        return False


def _read_lines(file: OpenFile, lines: Iterable[bytes | TooLong]) -> Iterator[Document | Rejected]:
    parser = _Parser(file)
    for number, line in enumerate(lines, start=1):
        item = parser.item(line, number)
        if item is not None:
            yield item


class _Parser:
    """Makes a document, or a rejection, of one line."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._records = JsonRecords(file, "line")

    def item(self, line: bytes | TooLong, number: int) -> Document | Rejected | None:
        """Return the document in a line, or why there is none; None for a blank line."""
        source = f"{self._file.name}:{number}"
        if isinstance(line, TooLong):
            limit = self._file.limit
            reason = f"the line has {line.size:,} bytes, more than the limit of {limit:,}"
            return Rejected(source, reason)
        line = line.rstrip(b" \t\r")
        if not line:
            return None
        return self._records.item(line, number, source)


_LONGEST = 2**20
"""Longer lines (bytes) are left to the parser."""

_ODD_LINES = 8
"""After so many lines for the parser without one for the kernel in between, the whole of a block is
left to the parser: a file whose texts are arrays has no other lines."""


def _read_blocks(file: OpenFile, chunks: Iterable[bytes], scan: Any) -> Iterator[Document | Item]:
    """Read lines by the kernel's ``scan_lines``; every line that it leaves goes to the parser."""
    parser = _Parser(file)
    longest = min(file.limit, _LONGEST)
    before, key_field, (text_field, *_) = f"{file.name}:", file.fields.key_name, file.fields.bodies
    number = 0
    for block in whole_lines(chunks, file.limit):
        if isinstance(block, TooLong):
            number += 1
            item = parser.item(block, number)
            if item is not None:
                yield item
            continue
        at = n_odd = 0
        while at < len(block):
            keys: list[str] = []
            texts: list[str] = []
            sources: list[str] = []
            if n_odd < _ODD_LINES:
                at, number = scan(
                    block, at, number, before, key_field, text_field, longest, keys, texts, sources
                )
            if keys:
                n_odd = 0
                yield DocumentBlock(keys, texts, sources, is_plain=True)
            if at < len(block):
                end = block.find(b"\n", at)
                end = len(block) if end < 0 else end
                number, n_odd = number + 1, n_odd + 1
                line = block[at:end]
                too_long = TooLong(len(line), line.count(b'"'))
                item = parser.item(line if len(line) <= file.limit else too_long, number)
                at = end + 1
                if item is not None:
                    yield item


def _scanner(file: OpenFile) -> Any:
    """Return the kernel's function for plain records; None if the file needs more.

    It takes one text from one field, and the key from another.
    """
    fields = file.fields
    if not fields.is_text or fields.is_joined or fields.keep or fields.row_keys:
        return None
    from lshdb.kernel import kernel

    return kernel.scan_lines


_LINES_TRIED = 100
"""Lines among which two must be filled, for a file to be JSON Lines."""


class RawLine(NamedTuple):
    """A line, or a piece of one that is over the limit.

    Attributes
    ----------
    data : bytes
        With the line end, if it has been read.
    record : dict or None
        The object in the line.
    continues : bool
        Whether this piece continues the line of the piece before it.
    is_whole : bool
        Whether it is a whole line.
    """

    data: bytes
    record: dict[str, Any] | None
    continues: bool = False
    is_whole: bool = True


def read_raw_lines(path: str | os.PathLike[str], *, limit: int) -> Iterator[RawLine]:
    """Read the lines of a JSON Lines file, plain or compressed.

    Parameters
    ----------
    path : path-like
    limit : int
        The longest line that is parsed, in bytes without its line feed.

    Raises
    ------
    InputError
        The path cannot be read to its end; the lines before that point have been yielded.
    """
    with open_single(path, input_format="jsonl") as (_, chunks):
        for piece in split_raw_lines(chunks, limit):
            yield piece if not piece.is_whole else piece._replace(record=parse_object(piece.data))


def key_of(record: Mapping[str, Any] | None, key_field: str) -> str | None:
    """Return the key that ``read_documents`` would take from an object; None if it has none."""
    key = None if record is None else record.get(key_field)
    if type(key) is int:
        return str(key)
    return key if isinstance(key, str) else None


def split_raw_lines(chunks: Iterator[bytes], limit: int) -> Iterator[RawLine]:
    """Yield lines, and pieces of lines over the limit, without parsing them."""
    pieces: list[bytes] = []
    size, in_pieces = 0, False
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1 or len(chunk)
            piece = chunk[start:end]
            start = end
            ended = piece.endswith(b"\n")
            pieces.append(piece)
            size += len(piece)
            if in_pieces or size - ended > limit:
                yield RawLine(b"".join(pieces), None, continues=in_pieces, is_whole=False)
                in_pieces = not ended
            elif ended:
                yield RawLine(b"".join(pieces), None)
            else:
                continue
            pieces.clear()
            size = 0
    if pieces:
        yield RawLine(b"".join(pieces), None)


def parse_object(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line; None if it holds none."""
    try:
        record = load_json(line.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None
