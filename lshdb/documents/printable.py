"""Turn pieces of the input into one printable line for a message.

Decided: nothing from the input reaches a message unchanged. Control characters, lone surrogates
and bytes of a file name that are not UTF-8 are shown as escapes, and lists are cut short.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["json_kind", "printable", "shown_names", "system_reason"]

_NAMES_SHOWN = 8
_NAME_WIDTH = 40


def printable(text: str) -> str:
    """Return the text with every character that does not print as an escape; for file names."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that os.fsdecode could not decode
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def shown_names(names: Iterable[str]) -> str:
    """Return field names as a short list: ``'a', 'b' and 3 more``."""
    every = list(names)
    if not every:
        return "none"
    shown = ", ".join(repr(_shortened(name)) for name in every[:_NAMES_SHOWN])
    more = len(every) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 3] + "..."


def json_kind(value: object) -> str:
    """Return JSON's name for a value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number that is not a 64-bit integer"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def system_reason(error: OSError) -> str:
    """Return the system's text for an error, without the path."""
    return error.strerror or str(error) or type(error).__name__
