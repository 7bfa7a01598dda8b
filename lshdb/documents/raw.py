"""JSON Lines as they lie: each line with its bytes and the object that it holds.

For passing lines on unchanged. Nothing is rejected here: a line that holds no object has none, and
whoever reads decides what becomes of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import orjson

from lshdb.documents.lines import BOM
from lshdb.documents.single import open_single

__all__ = ["key_of", "read_raw_lines"]


def read_raw_lines(path: str | os.PathLike[str]) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """(line with its line end, object in it) of a JSON Lines file, plain or compressed.

    Raises
    ------
    InputError
        The path cannot be read, or not to its end; the lines before have been given.
    """
    with open_single(path, input_format="jsonl") as (_, chunks):
        for line in _lines(chunks):
            yield line, _object(line)


def key_of(record: dict[str, Any] | None, key_field: str) -> str | None:
    """The key that ``read_documents`` would take from an object; None where it has none."""
    key = None if record is None else record.get(key_field)
    if type(key) is int:
        return str(key)
    return key if isinstance(key, str) else None


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    for chunk in chunks:
        pieces = chunk.split(b"\n")
        if len(pieces) > 1:
            yield b"".join([*held, pieces[0], b"\n"])
            for piece in pieces[1:-1]:
                yield piece + b"\n"
            held.clear()
        if pieces[-1]:
            held.append(pieces[-1])
    if held:
        yield b"".join(held)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line.removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None
