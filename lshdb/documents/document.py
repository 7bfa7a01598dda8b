"""Documents, rejected input, and the rules for keys and bodies.

A reader yields a ``Document``, or a ``Rejected`` with the reason. A source that cannot be read to
its end raises ``BrokenSourceError``, which this package catches and never lets out.

Decided: a key is at most 1,024 bytes of UTF-8, so that it fits any database's index entry. It
holds no NUL, which PostgreSQL's text refuses. Keys and texts hold no lone surrogates: UTF-8 cannot
carry them and no shingle hash is defined for them. A text may hold NUL. Nothing is trimmed or
normalised: two keys are the same only if they are the same characters.

The checks return reasons and do not raise, because a bad document is counted and skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeAlias

from lshdb.arguments import lone_surrogate, validate_body
from lshdb.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "MAX_KEY_BYTES",
    "Body",
    "BrokenSourceError",
    "DamagedDataError",
    "Document",
    "Given",
    "Rejected",
    "given_document",
    "validate_body",
    "validate_key",
]


class BrokenSourceError(Exception):
    """A source cannot be read any further.

    Attributes
    ----------
    reason : str
        Why, in one line.
    line : int or None
        The line that was being read, if the reader counts lines.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line: int | None = None


class DamagedDataError(BrokenSourceError):
    """Compressed data is truncated or corrupt."""


if TYPE_CHECKING:
    Body: TypeAlias = (
        str
        | Sequence[str]
        | AbstractSet[str]
        | Mapping[str, float]
        | Sequence[SupportsFloat]
        | NDArray[Any]
    )
else:  # NumPy is not imported for the sake of a name
    Body = str | Sequence | AbstractSet | Mapping
"""A text; a list or tuple of ready tokens, or a set of them, that are used as they are; weights by
token; a vector or bits: a 1-D array, a list or tuple of numbers, or a string of binary or
hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document on its way into the index, or a query.

    Attributes
    ----------
    key : str
        The user's identifier.
    body : str, list, tuple, set, dict or ndarray
        The text, tokens in order or as a set, weights of tokens, a vector or bits.
    source : str
        Where it came from, for messages: ``file``, ``file:line`` or ``file: row n``.
    """

    key: str
    body: Body
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A piece of the input that is not an acceptable document.

    Attributes
    ----------
    source : str
        ``file``, ``file:line`` or ``file: row n``.
    reason : str
        What was found and what was expected, in one line.
    """

    source: str
    reason: str


Given: TypeAlias = "Document | Rejected | tuple[str, Body]"
"""What ``add`` accepts."""


def given_document(item: object) -> Document:
    """Return the document that a caller gave, as a ``Document`` or as a pair of key and body.

    Raises
    ------
    InputError
        The item is neither.
    """
    if isinstance(item, Document):
        return item
    if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
        raise InputError(
            f"the documents hold {item!r:.200}; expected (key, text) or (key, tokens), with a "
            "string as key",
            hint="pass pairs of key and body; for a dict, pass its .items()",
        )
    return Document(item[0], item[1])


MAX_KEY_BYTES = 1024
"""The longest key, in bytes of UTF-8."""


def validate_key(key: str) -> str | None:
    """Return the reason why a key cannot be used.

    Parameters
    ----------
    key : str
        The user's identifier of a document.

    Returns
    -------
    str or None
        The reason in one line, or None if the key is valid.
    """
    if type(key) is str and key.isascii() and 0 < len(key) <= MAX_KEY_BYTES and "\0" not in key:
        return None  # a shortcut for nearly every key: a third of the time
    if not isinstance(key, str):
        return f"the key is of type {type(key).__name__}, expected a string"
    if not key:
        return "the key is empty"
    position = lone_surrogate(key)
    if position is not None:
        return f"the key holds a lone surrogate at character {position + 1}"
    if "\0" in key:
        return f"the key holds a NUL at character {key.index(chr(0)) + 1}"
    size = len(key.encode("utf-8"))
    if size > MAX_KEY_BYTES:
        return f"the key has {size:,} bytes in UTF-8, at most {MAX_KEY_BYTES:,} are allowed"
    return None
