"""A stored body -> the text that a page shows, in pieces that are the same, new, gone or moved.

A module of its own because clusters and pairs both show texts, and so that only this one knows how
texts are compared word by word: by ``difflib``, after what is the same at both ends. Passages of at
least ``_MOVED`` words that are gone here and new there are moved. What is the same over many words
is folded. Words are compared without case, and shown as they stand in the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

__all__ = ["Piece", "ShownText", "show_difference", "show_texts", "unchanged_text"]

LONGEST = 12_000
"""Characters of a text that is shown."""
_MOVED = 6
_AROUND = 15
"""Words that stay beside what differs."""
_FOLDED = 60
"""Words that are the same, one after the other, before some of them are folded."""
_WORDS = re.compile(r"\S{1,40}\s*|\s+")

_SAME, _INS, _DEL, _FOLD = "same", "ins", "del", "fold"
_MOVED_FROM, _MOVED_TO = "moved-from", "moved"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text.

    Attributes
    ----------
    kind : str
        ``same``; ``ins``, new in the second text; ``del``, gone from the first; ``moved``, at its
        place in the second text, and ``moved-from``, at that in the first; or ``fold``, which says
        how many words are left out.
    text : str
    """

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
    return ShownText((Piece(_SAME, text[:LONGEST]),), max(0, len(text) - LONGEST))


def show_texts(left: Any, right: Any) -> tuple[ShownText, ShownText]:
    """Return two texts to stand side by side: each with its own words, and what differs marked."""
    parts, one, other = _compared(left, right)
    return (
        ShownText(_pieces(parts, leave_out=(_INS, _MOVED_TO)), one),
        ShownText(_pieces(parts, leave_out=(_DEL, _MOVED_FROM)), other),
    )


def show_difference(left: Any, right: Any) -> ShownText:
    """Return the second text with what is new in it, and what is gone from the first."""
    parts, _, cut = _compared(left, right)
    return ShownText(_pieces(parts, leave_out=(_MOVED_FROM,)), cut)


def _compared(left: Any, right: Any) -> tuple[list[tuple[str, str]], int, int]:
    """Return (kind, word) in order, and how many characters of each text were not compared."""
    texts = readable(left), readable(right)
    one, other = (_WORDS.findall(text[:LONGEST]) for text in texts)
    parts = list(_aligned(one, other))
    _find_moved(parts)
    cut = [max(0, len(text) - LONGEST) for text in texts]
    return parts, cut[0], cut[1]


def _name(word: str) -> str:
    return word.strip().casefold()


def _aligned(one: list[str], other: list[str]) -> Iterator[tuple[str, str]]:
    names, other_names = list(map(_name, one)), list(map(_name, other))
    start = 0
    while start < min(len(one), len(other)) and names[start] == other_names[start]:
        yield _SAME, other[start]
        start += 1
    end = 0
    most = min(len(one), len(other)) - start
    while end < most and names[-1 - end] == other_names[-1 - end]:
        end += 1
    matcher = SequenceMatcher(
        None, names[start : len(names) - end], other_names[start : len(other_names) - end]
    )
    for kind, low, high, other_low, other_high in matcher.get_opcodes():
        if kind == "equal":
            yield from ((_SAME, word) for word in other[start + other_low : start + other_high])
            continue
        yield from ((_DEL, word) for word in one[start + low : start + high])
        yield from ((_INS, word) for word in other[start + other_low : start + other_high])
    yield from ((_SAME, word) for word in other[len(other) - end :])


def _find_moved(parts: list[tuple[str, str]]) -> None:
    """Mark runs of words that are gone at one place and new at another."""
    gone = [place for place, (kind, _) in enumerate(parts) if kind == _DEL]
    new = [place for place, (kind, _) in enumerate(parts) if kind == _INS]
    if len(gone) < _MOVED or len(new) < _MOVED:
        return
    sides = [[_name(parts[place][1]) for place in places] for places in (gone, new)]
    for block in SequenceMatcher(None, sides[0], sides[1]).get_matching_blocks():
        if block.size < _MOVED:
            continue
        for places, first, kind in ((gone, block.a, _MOVED_FROM), (new, block.b, _MOVED_TO)):
            for place in places[first : first + block.size]:
                parts[place] = kind, parts[place][1]


def _pieces(parts: Sequence[tuple[str, str]], *, leave_out: tuple[str, ...]) -> tuple[Piece, ...]:
    """Join words of one kind, and fold what is the same over many."""
    pieces: list[Piece] = []
    kept = [each for each in parts if each[0] not in leave_out]
    runs = [(kind, [word for _, word in run]) for kind, run in groupby(kept, lambda each: each[0])]
    for place, (kind, words) in enumerate(runs):
        if kind != _SAME:
            pieces += _marked(kind, "".join(words))
            continue
        if len(words) <= _FOLDED or len(runs) == 1:
            pieces.append(Piece(kind, "".join(words)))
            continue
        before = _AROUND if place else 0
        after = _AROUND if place < len(runs) - 1 else 0
        middle = words[before : len(words) - after]
        pieces += [
            Piece(_SAME, "".join(words[:before])),
            Piece(_FOLD, f"[{len(middle):,} words are the same] "),
            Piece(_SAME, "".join(words[len(words) - after :])),
        ]
    return tuple(piece for piece in pieces if piece.text)


def _marked(kind: str, text: str) -> list[Piece]:
    """Return a piece without the white space at its end, which stands beside it unmarked."""
    words = text.rstrip()
    space = text[len(words) :]
    if space and kind == _DEL:
        space = " "
    return [Piece(kind, words), Piece(_SAME, space)] if words else [Piece(kind, text)]
