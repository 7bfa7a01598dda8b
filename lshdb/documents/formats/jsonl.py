"""JSON Lines: documents out of the objects, or the lines as they lie.

Each line is an object with the key in one field and the body in another.

Decided: every line is independent. A bad line is rejected, and the next one is read as usual.
Blank lines are skipped. If a field occurs twice in an object, the last one counts, which is the
parser's rule. ``objects.py`` says what an object must hold.

:func:`read_raw_lines` is for passing lines on unchanged. It rejects nothing: a line without an
object has ``record`` None, and the caller decides what to do with it. A line over the limit is
yielded in pieces as it is read, so that it is neither held nor lost.

Limits: integers have 64 bits; nesting is at most about 1,000 deep (the parser's limits).
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from lshdb.documents.document import Document, Rejected, json_kind
from lshdb.documents.formats.objects import NoDocumentError, Records
from lshdb.documents.io.encodings import undecodable
from lshdb.documents.io.sources import open_single
from lshdb.documents.io.streams import OpenFile, TooLong, split_lines

__all__ = [
    "RawLine",
    "key_of",
    "parse_object",
    "read_jsonl",
    "read_raw_lines",
    "split_raw_lines",
]


def read_jsonl(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read JSON Lines.

    Yields
    ------
    Document or Rejected
        One for each line that is not blank, in order.

    Raises
    ------
    BrokenSourceError
        As the chunks raise it, with the line.
    """
    name, limit = file.name, file.limit
    document = Records(file).document
    for number, line in enumerate(split_lines(file.chunks, limit), start=1):
        source = f"{name}:{number}"
        if isinstance(line, TooLong):
            reason = f"the line has {line.size:,} bytes, more than the limit of {limit:,}"
            yield Rejected(source, reason)
            continue
        line = line.rstrip(b" \t\r")
        if not line:
            continue
        try:
            record = orjson.loads(line)
            if not isinstance(record, dict):
                raise NoDocumentError(f"the line is {json_kind(record)}, expected an object")
            yield document(record, number, source)
        except orjson.JSONDecodeError as error:
            yield Rejected(source, _no_json(line, error, file.encoding))
        except NoDocumentError as error:
            yield Rejected(source, str(error))


def _no_json(line: bytes, error: orjson.JSONDecodeError, encoding: str | None) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as wrong:
        return undecodable(f"at byte {wrong.start + 1} of the line", encoding)
    message = error.msg
    if "surrogate" in message:
        message = "an escape stands for a lone surrogate"
    return f"not valid JSON: {message} (column {error.colno})"


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
    held: list[bytes] = []
    size, in_pieces = 0, False
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            end = chunk.find(b"\n", start) + 1 or len(chunk)
            piece = chunk[start:end]
            start = end
            ended = piece.endswith(b"\n")
            held.append(piece)
            size += len(piece)
            if in_pieces or size - ended > limit:
                yield RawLine(b"".join(held), None, continues=in_pieces, is_whole=False)
                in_pieces = not ended
            elif ended:
                yield RawLine(b"".join(held), None)
            else:
                continue
            held.clear()
            size = 0
    if held:
        yield RawLine(b"".join(held), None)


def parse_object(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line; None if it holds none."""
    try:
        record = orjson.loads(line.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None
