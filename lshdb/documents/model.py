"""What a reader of documents yields: a document, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Body", "Document", "Rejected"]

Body = Any
"""A text, or a list of ready tokens that are used as they are; a mapping from token to weight; a
vector or bits: a 1-D array, a list of numbers, or a string of binary or hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document on its way into the index, or a query.

    Attributes
    ----------
    key : str
        The user's identifier.
    body : str, list, dict or ndarray
        The text, ready tokens, weights of tokens, a vector or bits.
    source : str
        Where it came from, for messages: ``file``, ``file:line`` or ``file: row n``.
    """

    key: str
    body: Body
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something in the input that is no acceptable document.

    Attributes
    ----------
    source : str
        ``file``, ``file:line`` or ``file: row n``.
    reason : str
        What was found and what was expected, in one line.
    """

    source: str
    reason: str
