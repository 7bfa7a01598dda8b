"""A stored body -> pieces of text for a page, each marked as the same, new, gone or moved.

Texts are compared word by word by ``search/word_diff.py``. What is the same over many words is
folded, and long texts are cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lshdb.search.word_diff import DiffPart, TextDiff, diff_texts, readable_text
from lshdb.shingling import word_spans

__all__ = [
    "Piece",
    "ShownText",
    "show_diff",
    "show_difference",
    "show_pair",
    "show_texts",
    "unchanged_text",
]

LONGEST = 12_000
"""Characters of a text that is shown."""
_AROUND = 15
"""Words that stay beside what differs."""
_FOLDED = 60
"""Words that are the same, one after the other, before some of them are folded."""

_SAME, _INS, _DEL, _FOLD = "same", "ins", "del", "fold"
_MOVED_FROM, _MOVED_TO = "moved-from", "moved"
_KINDS = {
    "same": _SAME,
    "deleted": _DEL,
    "inserted": _INS,
    "moved-from": _MOVED_FROM,
    "moved-to": _MOVED_TO,
}


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
        Characters to show, as they are stored.
    line : int
        Where a passage that was moved stands in the other text; 0 elsewhere.
    """

    kind: str
    text: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text as it is shown, without the ``n_cut`` characters at its end."""

    pieces: tuple[Piece, ...]
    n_cut: int

    @property
    def n_shown(self) -> int:
        """The characters that are shown."""
        return sum(len(piece.text) for piece in self.pieces)


def readable(body: Any) -> str:
    """Return a body as text; weights one a line, sorted."""
    if isinstance(body, dict) and "set" not in body:
        return "\n".join(f"{token} {weight:g}" for token, weight in sorted(body.items()))
    return readable_text(body)


def unchanged_text(body: Any) -> ShownText:
    """Return the beginning of a text."""
    text = readable(body)
    return ShownText((Piece(_SAME, text[:LONGEST]),), max(0, len(text) - LONGEST))


def show_texts(left: Any, right: Any, *, steps: str) -> tuple[ShownText, ShownText]:
    """Return two texts to show side by side, with their differences marked.

    Parameters
    ----------
    left, right : str, list, set or dict
        Bodies.
    steps : str
        The normalisation by which words are compared.
    """
    _, first, second = show_pair(left, right, steps=steps, longest=LONGEST)
    return first, second


def show_diff(diff: TextDiff) -> tuple[ShownText, ShownText]:
    """Return both whole texts of a diff, to show side by side."""
    return (
        ShownText(_joined(_pieces(diff, (_INS, _MOVED_TO))), 0),
        ShownText(_joined(_pieces(diff, (_DEL, _MOVED_FROM))), 0),
    )


def show_pair(
    left: Any, right: Any, *, steps: str, longest: int
) -> tuple[TextDiff, ShownText, ShownText]:
    """Return a diff of the beginnings of two texts, and both beginnings to stand side by side.

    Parameters
    ----------
    left, right : str, list, set or dict
        Bodies.
    steps : str
        The normalisation by which words are compared.
    longest : int
        Characters of each that are compared.
    """
    diff, *cut = _compared(left, right, steps, longest)
    shown = [
        ShownText(text.pieces, n_cut) for text, n_cut in zip(show_diff(diff), cut, strict=True)
    ]
    return diff, shown[0], shown[1]


def show_difference(left: Any, right: Any, *, steps: str) -> ShownText:
    """Return the second text, with additions and deletions against the first."""
    diff, _, cut = _compared(left, right, steps)
    return ShownText(_joined(_pieces(diff, (_MOVED_FROM,))), cut)


def _compared(
    left: Any, right: Any, steps: str, longest: int = LONGEST
) -> tuple[TextDiff, int, int]:
    """Compare the beginnings of two texts; return how many characters of each were left out."""
    texts = readable(left), readable(right)
    diff = diff_texts(texts[0][:longest], texts[1][:longest], steps=steps)
    cut = [max(0, len(text) - longest) for text in texts]
    return diff, cut[0], cut[1]


def _joined(pieces: Iterator[Piece]) -> tuple[Piece, ...]:
    """Join neighbours that are the same."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and piece.kind == joined[-1].kind == _SAME:
            joined[-1] = Piece(_SAME, joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return tuple(joined)


def _pieces(diff: TextDiff, left_out: tuple[str, ...]) -> Iterator[Piece]:
    """Yield the parts of a diff; fold long equal parts.

    Equal parts are shown as in the second text if that text is shown.
    """
    is_second = _INS not in left_out
    for place, part in enumerate(diff.parts):
        kind = _KINDS[part.kind]
        if kind in left_out:
            continue
        text1, text2 = diff.texts_of(part)
        if kind == _SAME:
            text = text2 if is_second else text1
            is_last = place == len(diff.parts) - 1
            yield from _folded(text, 0 if not place else _AROUND, 0 if is_last else _AROUND)
        else:
            yield from _marked(kind, text1 if kind in (_DEL, _MOVED_FROM) else text2, part)


def _folded(text: str, before: int, behind: int) -> Iterator[Piece]:
    """Yield an equal part without its middle if it is long; never leave out all of it."""
    spans = word_spans(text)
    if len(spans) <= _FOLDED or not (before or behind):
        yield Piece(_SAME, text)
        return
    start = spans[before][0] if before else 0
    end = spans[len(spans) - behind][0] if behind else len(text)
    n = len(spans) - before - behind
    if start:
        yield Piece(_SAME, text[:start])
    yield Piece(_FOLD, f"[{n:,} words are the same] ")
    if end < len(text):
        yield Piece(_SAME, text[end:])


def _marked(kind: str, text: str, part: DiffPart) -> Iterator[Piece]:
    """Yield a piece, and unmarked the white space at its end."""
    line = {_MOVED_FROM: part.line2, _MOVED_TO: part.line1}.get(kind, 0)
    words = text.rstrip()
    space = text[len(words) :]
    if space and kind == _DEL:
        space = " "
    yield Piece(kind, words or text, line)
    if words and space:
        yield Piece(_SAME, space)
