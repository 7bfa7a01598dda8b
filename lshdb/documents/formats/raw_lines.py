"""Raw JSON Lines: the bytes of each line and the object in it.

This reader is for passing lines on unchanged. It rejects nothing: a line without an object has
``record`` None, and the caller decides what to do with it. A line over the limit is yielded in
pieces as it is read, so that it is neither held nor lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from lshdb.documents.io.lines import BOM
from lshdb.documents.io.single_file import open_single

__all__ = ["RawLine", "key_of", "read_raw_lines"]


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
        for piece in _pieces(chunks, limit):
            yield piece if not piece.is_whole else piece._replace(record=_object(piece.data))


def key_of(record: dict[str, Any] | None, key_field: str) -> str | None:
    """Return the key that ``read_documents`` would take from an object; None if it has none."""
    key = None if record is None else record.get(key_field)
    if type(key) is int:
        return str(key)
    return key if isinstance(key, str) else None


def _pieces(chunks: Iterator[bytes], limit: int) -> Iterator[RawLine]:
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


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line.removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None
