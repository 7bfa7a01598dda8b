"""A stored body -> the text that a page shows, in pieces that are the same, new, gone or moved.

A module of its own because clusters and pairs both show texts, and so that only this one knows how
texts are compared word by word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Piece", "ShownText", "show_texts", "unchanged_text"]

LONGEST = 12_000
"""Characters of a text that is shown."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text: ``same``, ``ins``, ``del`` or ``moved``, or ``fold``: one left out."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text as it is shown; ``n_cut`` characters at its end are not."""

    pieces: tuple[Piece, ...]
    n_cut: int

    @property
    def n_shown(self) -> int:
        """The characters that are shown."""
        return sum(len(piece.text) for piece in self.pieces)


def readable(body: Any) -> str:
    """Return a body as text: tokens with blanks between, sets and weights sorted."""
    if isinstance(body, str):
        return body
    if isinstance(body, dict):
        return "\n".join(f"{token} {weight:g}" for token, weight in sorted(body.items()))
    if isinstance(body, set | frozenset):
        return "\n".join(sorted(body))
    return " ".join(map(str, body))


def unchanged_text(body: Any) -> ShownText:
    """Return the beginning of a text."""
    text = readable(body)
    return ShownText((Piece("same", text[:LONGEST]),), max(0, len(text) - LONGEST))


def show_texts(left: Any, right: Any) -> tuple[ShownText, ShownText]:
    """Return both texts with what differs between them."""
    return unchanged_text(left), unchanged_text(right)
