r"""Keys as listings write them, read again.

A listing of the command line is TSV, where a backslash, a tab, a line feed and a carriage return in
a key are written ``\\ \t \n \r``; everything else stands as it is. Whatever reads keys from lines
takes them so: ``lshdb remove INDEX -``, ``--keys FILE``, labels, links. A listing never writes a
backslash before anything else. A line that has one was written by hand or by another program, and
is refused rather than guessed at: ``C:\docs\new`` would become another key without a word.

Listings of JSON Lines are read too: each line is a string, or an object with ``key``.
"""

from __future__ import annotations

import re

import orjson

from lshdb.documents.document import MAX_KEY_BYTES

__all__ = ["LONGEST_KEY_LINES", "json_key", "unescaped"]

LONGEST_KEY_LINES = {
    "lines": MAX_KEY_BYTES,
    "tsv": 2 * MAX_KEY_BYTES,
    "jsonl": 6 * MAX_KEY_BYTES + 64 * 1024,
}
"""Bytes of a line with one key: as it stands, as TSV has it, and in JSON with fields beside it."""

_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_ESCAPED = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def unescaped(cell: str) -> str:
    r"""Return the key that a cell of a listing stands for.

    Raises
    ------
    ValueError
        A backslash is followed by something that no listing writes; the message says what to do.
    """
    return _ESCAPE.sub(_character, cell) if "\\" in cell else cell


def _character(match: re.Match[str]) -> str:
    character = _ESCAPED.get(match[1])
    if character is None:
        raise ValueError(
            rf"{match[0]} is no escape: write a backslash of a key as \\, and a tab, line "
            r"feed and carriage return as \t, \n and \r, as listings do"
        )
    return character


def json_key(line: bytes) -> str:
    """Return the key of a line of JSON: a string, or an object with the string ``key``.

    Raises
    ------
    ValueError
        It is something else.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        value = value.get("key")
    if not isinstance(value, str):
        raise ValueError('it is no JSON string, and no object with a string "key"')
    return value
