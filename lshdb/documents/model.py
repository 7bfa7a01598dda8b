"""What a reader of documents yields: a document, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

__all__ = ["Body", "Document", "Given", "Rejected", "given_document"]

Body: TypeAlias = (
    "str | list[str] | tuple[str, ...] | AbstractSet[str] | dict[str, float] | dict[str, int] | "
    "list[float] | list[int] | tuple[float, ...] | NDArray[Any]"
)
"""A text; a list or tuple of ready tokens, or a set of them, that are used as they are; weights by
token; a vector or bits: a 1-D array, a list of numbers, or a string of binary or hexadecimal
digits."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document on its way into the index, or a query.

    Attributes
    ----------
    key : str
        The user's identifier.
    body : str, list, tuple, set, dict or ndarray
        The text, ready tokens in order or as a set, weights of tokens, a vector or bits.
    source : str
        Where it came from, for messages: ``file``, ``file:line`` or ``file: row n``.
    """

    key: str
    body: Any
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


Given: TypeAlias = "Document | Rejected | tuple[str, Body]"
"""What an add takes."""


def given_document(item: object) -> Document:
    """A document as the caller gives it, or the pair of its key and its body.

    Raises
    ------
    InputError
        It is neither.
    """
    if isinstance(item, Document):
        return item
    if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
        raise InputError(
            f"the documents hold {item!r:.200}; expected (key, text) or (key, tokens), the key a "
            "string",
            hint="give pairs; a dict gives them by .items()",
        )
    return Document(item[0], item[1])
