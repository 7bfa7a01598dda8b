"""Values -> text for one cell of a listing, in each of the formats. Pure functions.

Decided: what a terminal would obey, it is not shown. Control characters, direction overrides and
separators that break lines appear as escapes wherever the output may be a terminal; in data for
programs they stay what they are, but for the four characters that TSV cannot hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

__all__ = ["csv_line", "harmless", "harmless_json", "json_line", "text_of", "tsv_line"]

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_TSV_SPECIAL = re.compile("[\\\\\t\n\r]")
_TSV_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_CSV_SPECIAL = re.compile('[",\r\n]')


def harmless(text: str) -> str:
    """The text with everything that a terminal would act on as an escape; one line."""
    return _UNSAFE.sub(_escape, text)


def harmless_json(text: str) -> str:
    r"""The same for a line of JSON without its line feed, which stays valid: ``\u202e``."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return match[0].encode("unicode_escape").decode("ascii")


def text_of(value: Any, decimals: int | None = None) -> str:
    """A value as text: nothing for None, hexadecimal for bytes, JSON for lists.

    Parameters
    ----------
    value : str, int, float, bytes, list or None
    decimals : int, optional
        Of a float; as many as it takes to tell it from every other if not given.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if decimals is None else f"{value:.{decimals}f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple | dict):
        return orjson.dumps(value, default=_json_default).decode()
    return str(value)


def tsv_line(cells: Sequence[str]) -> str:
    r"""Cells between tabs; backslash, tab, line feed and carriage return as ``\\ \t \n \r``."""
    return "\t".join(
        _TSV_SPECIAL.sub(lambda match: _TSV_ESCAPES[match[0]], cell)
        if _TSV_SPECIAL.search(cell)
        else cell
        for cell in cells
    )


def csv_line(cells: Sequence[str]) -> str:
    """Cells between commas, quoted where they must be (RFC 4180, but for the line's end)."""
    if len(cells) == 1 and not cells[0]:
        return '""'  # an empty line would be no record
    return ",".join(
        '"' + cell.replace('"', '""') + '"' if _CSV_SPECIAL.search(cell) else cell for cell in cells
    )


def json_line(names: Sequence[str], values: Sequence[Any]) -> bytes:
    """An object by column name; floats in full precision, bytes as hexadecimal."""
    return orjson.dumps(dict(zip(names, values, strict=True)), default=_json_default)


def _json_default(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(type(value).__name__)
