"""Stored bodies -> what a page shows: a text, or two side by side, with what differs marked.

Texts are compared word by word by ``search/word_diff.py``. What is the same over many words is
folded, and long texts are cut. A line break that only ends a full line of prose, such as those of a
scanner, becomes ``SOFT_BREAK``: the page lets such texts flow, and can show their lines.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lshdb.pages.environment import SOFT_BREAK
from lshdb.search.word_diff import DiffPart, TextDiff, diff_texts, readable_text
from lshdb.shingling import word_spans

__all__ = [
    "DiffRow",
    "Piece",
    "ShownText",
    "SideBySide",
    "first_words",
    "lay_side_by_side",
    "show_difference",
    "side_by_side",
    "unchanged_text",
]

LONGEST = 12_000
"""Characters of a text that is shown."""
_AROUND = 15
"""Words that stay beside what differs."""
_FOLDED = 60
"""Words that are the same, one after the other, before some of them are folded."""

_SAME, _INS, _DEL, _FOLD = "same", "ins", "del", "fold"
_GAP, _LEFT, _RIGHT = "gap", "left", "right"
_BREAKS = {(SOFT_BREAK, " "): "break-left", (" ", SOFT_BREAK): "break-right"}
_KINDS = {
    "same": _SAME,
    "deleted": _DEL,
    "inserted": _INS,
    "moved-from": "moved-from",
    "moved-to": "moved",
}
_SHORTEST_LINE, _LONGEST_LINE = 40, 160
_HAS_BLANKS = re.compile(r"[ \t]{2}|\t|\n ")
_OF_CODE = re.compile(
    r"(?m)[{}]\s*$|^\s*(?:</?\w|//|#include|import |def |return\b)|^(?: {4}|\t)\S"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text.

    Attributes
    ----------
    kind : str
        ``same``; ``ins``, new in the second text; ``del``, gone from the first; ``moved``, at its
        place in the second text, and ``moved-from``, at that in the first; ``left`` and ``right``,
        what is written differently but counts as equal; ``gap``, the blank behind ``del``, where
        blanks are exact;
        ``break-left`` and ``break-right``, a soft line break in one text where the other has a
        blank; or ``fold``, which says how much is left out.
    text : str
        Characters to show: as they are stored, but for soft line breaks.
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

    @property
    def is_code(self) -> bool:
        """Whether it looks like code."""
        return _is_code("".join(piece.text for piece in self.pieces))


@dataclass(frozen=True, slots=True)
class DiffRow:
    """Parts of two texts that stand beside each other.

    Attributes
    ----------
    pieces : tuple of Piece
        Of both texts, each word once. A page reads them as one text with its changes; its script
        lays them out in two columns.
    fold : str
        If the row is alike and folded, how much it is; else empty.
    """

    pieces: tuple[Piece, ...]
    fold: str = ""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two texts with their differences.

    Attributes
    ----------
    diff : TextDiff
        Of the beginnings that were compared.
    rows : tuple of DiffRow
        In the order of both.
    n_cut : tuple of (int, int)
        Characters at the end of either text that were not compared.
    is_exact : bool
        Whether blanks are shown as they are: some stand together, or at the beginning of a line.
    """

    diff: TextDiff
    rows: tuple[DiffRow, ...]
    n_cut: tuple[int, int]
    is_exact: bool

    @property
    def n_shown(self) -> int:
        """The characters that are shown, folded ones included."""
        return sum(len(piece.text) for row in self.rows for piece in row.pieces)

    @property
    def is_code(self) -> bool:
        """Whether the second text looks like code."""
        return _is_code(self.diff.text2)


def readable(body: Any) -> str:
    """Return a body as text; weights one a line, sorted."""
    if isinstance(body, dict) and "set" not in body:
        return "\n".join(f"{token} {weight:g}" for token, weight in sorted(body.items()))
    return readable_text(body)


def unchanged_text(body: Any, longest: int = LONGEST) -> ShownText:
    """Return the beginning of a text."""
    text = readable(body)
    return ShownText((Piece(_SAME, _flowing(text[:longest])),), max(0, len(text) - longest))


def first_words(body: Any, longest: int) -> str:
    """Return the beginning of a text as one line, up to the end of a word."""
    text = readable(body)
    line = " ".join(text[: 2 * longest].replace("\xad\n", "\xad").split())
    if len(line) <= longest and len(text) <= 2 * longest:
        return line
    return line[:longest].rpartition(" ")[0] or line[:longest]


def side_by_side(
    left: Any, right: Any, *, steps: str, longest: int = LONGEST, keep_folds: bool = False
) -> SideBySide:
    """Return the beginnings of two texts beside each other, with their differences marked.

    Parameters
    ----------
    left, right : str, list, set or dict
        Bodies.
    steps : str
        The normalisation by which words are compared.
    longest : int
        Characters of each that are compared.
    keep_folds : bool
        Whether folded rows have their texts.
    """
    diff, *n_cut = _compared(left, right, steps, longest)
    return lay_side_by_side(diff, n_cut=(n_cut[0], n_cut[1]), keep_folds=keep_folds)


def lay_side_by_side(
    diff: TextDiff, *, n_cut: tuple[int, int] = (0, 0), keep_folds: bool = True
) -> SideBySide:
    """Return the texts of a diff beside each other; see :func:`side_by_side`."""
    is_exact = any(_HAS_BLANKS.search(text) for text in (diff.text1, diff.text2))
    rows = _rows(diff, keep_folds=keep_folds, is_exact=is_exact)
    return SideBySide(diff, tuple(rows), n_cut, is_exact)


def show_difference(left: Any, right: Any, *, steps: str) -> ShownText:
    """Return the second text, with additions and deletions against the first."""
    diff, _, cut = _compared(left, right, steps)
    pieces: list[Piece] = []
    for row in _rows(diff, keep_folds=False, is_exact=True):
        if row.fold:
            pieces.append(Piece(_FOLD, f" {row.fold} "))
        _join(pieces, (_in_second(piece) for piece in row.pieces))
    return ShownText(tuple(pieces), cut)


def _in_second(piece: Piece) -> Piece:
    """Return a piece as one text with its changes has it; empty if it has none of it."""
    if piece.kind in (_LEFT, "moved-from", "break-left"):
        return replace(piece, text="")
    return replace(piece, kind=_SAME) if piece.kind in (_GAP, _RIGHT) else piece


def _compared(
    left: Any, right: Any, steps: str, longest: int = LONGEST
) -> tuple[TextDiff, int, int]:
    """Compare the beginnings of two texts; return how many characters of each were left out."""
    texts = readable(left), readable(right)
    diff = diff_texts(texts[0][:longest], texts[1][:longest], steps=steps)
    cut = [max(0, len(text) - longest) for text in texts]
    return diff, cut[0], cut[1]


def _is_code(text: str) -> bool:
    """Return whether a text has the marks of code on a tenth of its lines, and on two at least."""
    return len(_OF_CODE.findall(text)) >= max(2.0, 0.1 * text.count("\n"))


def _flowing(text: str) -> str:
    """Return a text with soft line breaks, as long as before.

    A line break is soft if the line before it is nearly as long as the longest, or the next one
    goes on with a small letter, and nothing looks like code.
    """
    lines = text.split("\n")
    full = 0.6 * max(len(line) for line in lines)
    if not 0.6 * _SHORTEST_LINE <= full <= 0.6 * _LONGEST_LINE or _is_code(text):
        return text
    parts = [lines[0]]
    for line, following in itertools.pairwise(lines):
        is_full = len(line) >= full or (line.strip() and following[:1].islower())
        is_soft = is_full and following[:1].strip() and following[0] not in "-*•|>"
        parts += [SOFT_BREAK if is_soft else "\n", following]
    return "".join(parts)


def _rows(diff: TextDiff, *, keep_folds: bool, is_exact: bool) -> list[DiffRow]:
    """Lay the parts of a diff beside each other."""
    flowing = _flowing(diff.text1), _flowing(diff.text2)
    rows: list[DiffRow] = []
    pieces: list[Piece] = []
    for place, part in enumerate(diff.parts):
        text1 = flowing[0][part.start1 : part.end1]
        text2 = flowing[1][part.start2 : part.end2]
        if part.kind != "same":
            text = text1 if part.is_first else text2
            _join(pieces, _marked(_KINDS[part.kind], text, part, is_exact=is_exact))
            continue
        before = _AROUND if place else 0
        behind = _AROUND if place < len(diff.parts) - 1 else 0
        folds1, folds2 = _fold(text1, before, behind), _fold(text2, before, behind)
        if folds1 is None or folds2 is None:
            _join(pieces, _alike(text1, text2))
            continue
        head, folded, tail = zip(folds1, folds2, strict=True)
        _join(pieces, _alike(*head))
        if pieces:
            rows.append(DiffRow(tuple(pieces)))
        inside = _join([], _alike(*folded)) if keep_folds else []
        rows.append(DiffRow(tuple(inside), _length(folded[1])))
        pieces = _join([], _alike(tail[0].lstrip(), tail[1].lstrip()))
    if pieces:
        rows.append(DiffRow(tuple(pieces)))
    return rows


def _join(pieces: list[Piece], further: Iterable[Piece]) -> list[Piece]:
    """Append pieces that are not empty; join neighbours that are the same."""
    for piece in further:
        if pieces and piece.kind == pieces[-1].kind == _SAME:
            pieces[-1] = replace(pieces[-1], text=pieces[-1].text + piece.text)
        elif piece.text:
            pieces.append(piece)
    return pieces


def _alike(text1: str, text2: str) -> Iterator[Piece]:
    """Yield words that count as equal: once where both texts write them in one way."""
    cuts1, cuts2 = _cuts(text1), _cuts(text2)
    if len(cuts1) != len(cuts2):
        yield from _variants(text1, text2)
        return
    shown = 0
    for place, ((start1, end1), (start2, end2)) in enumerate(zip(cuts1, cuts2, strict=True)):
        own, other = text1[start1:end1], text2[start2:end2]
        if own == other:
            continue
        n_same = 0 if place % 2 else _n_common(own, other)
        yield Piece(_SAME, text2[shown : start2 + n_same])
        yield from _variants(own[n_same:], other[n_same:])
        shown = end2
    yield Piece(_SAME, text2[shown:])


def _n_common(own: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = zip(own, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _cuts(text: str) -> list[tuple[int, int]]:
    """Return the ranges of what is before the first word, of each word, and of what follows it."""
    ends = [0, *itertools.chain.from_iterable(word_spans(text)), len(text)]
    return list(itertools.pairwise(ends))


def _variants(text1: str, text2: str) -> Iterator[Piece]:
    """Yield what both texts have at one place, and where they differ what either has."""
    blank = text1[-1:] if text1[-1:] == text2[-1:] == " " else ""
    if (text1, text2) in _BREAKS:
        yield Piece(_SAME, " ")
        yield Piece(_BREAKS[text1, text2], SOFT_BREAK)
    elif text1 == text2:
        yield Piece(_SAME, text1)
    else:
        yield Piece(_LEFT, text1.removesuffix(blank))
        yield Piece(_RIGHT, text2.removesuffix(blank))
        yield Piece(_SAME, blank)


def _fold(text: str, before: int, behind: int) -> tuple[str, str, str] | None:
    """Return the beginning, the folded middle and the end of an equal part, if it is long.

    Never fold all of a text.
    """
    spans = word_spans(text)
    if len(spans) <= _FOLDED or not (before or behind):
        return None
    start = spans[before][0] if before else 0
    end = spans[len(spans) - behind][0] if behind else len(text)
    return text[:start], text[start:end], text[end:]


def _length(text: str) -> str:
    """Say how long a folded text is: in lines, or in words if it has fewer than two."""
    n_lines = 1 + text.strip().count("\n") + text.strip().count(SOFT_BREAK)
    if n_lines > 1:
        return f"… {n_lines:,} lines alike …"
    return f"… {len(word_spans(text)):,} words alike …"


def _marked(kind: str, text: str, part: DiffPart, *, is_exact: bool) -> Iterator[Piece]:
    """Yield a piece, and unmarked the white space at its end."""
    line = {"moved-from": part.line2, "moved": part.line1}.get(kind, 0)
    words = text.rstrip()
    space = text[len(words) :] if words else ""
    yield Piece(kind, words or text, line)
    if kind == _DEL:
        yield Piece(_GAP if is_exact else _SAME, space and " ")
    elif is_exact or space not in (" ", SOFT_BREAK):
        yield Piece(_RIGHT if part.is_second else _LEFT, space)
    else:
        yield Piece(_SAME, " ")
        if space == SOFT_BREAK:
            yield Piece("break-right" if part.is_second else "break-left", SOFT_BREAK)
