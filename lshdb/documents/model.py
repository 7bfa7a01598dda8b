"""What a reader of documents yields: a document, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Body", "Document", "Rejected"]

Body = str | list[str]
"""A text, or a list of ready tokens that are used as they are."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document on its way into the index, or a query.

    Attributes
    ----------
    key : str
        The user's identifier.
    body : str or list of str
        The text, or ready tokens.
    source : str
        Where it came from, for messages: ``file`` or ``file:line``.
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
        ``file`` or ``file:line``.
    reason : str
        What was found and what was expected, in one line.
    """

    source: str
    reason: str
