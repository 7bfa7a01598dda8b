"""A word diff for the terminal and for programs.

A module of its own because it is the one place that puts colours into texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lshdb.cli._cells import harmless

if TYPE_CHECKING:
    from lshdb import DiffPart, TextDiff

__all__ = ["diff_in_words", "diff_lines", "diff_rows"]

_MARKS = {
    "deleted": ("[-", "-]", "red"),
    "inserted": ("{+", "+}", "green"),
    "moved-from": ("{>", ">}", "magenta"),
    "moved-to": ("{<", "<}", "magenta"),
}
_SPACE = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)
_LINES = re.compile(r"\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def diff_rows(diff: TextDiff) -> Iterator[dict[str, Any]]:
    """Yield the parts of a diff as data."""
    names = ("kind", "line1", "start1", "end1", "line2", "start2", "end2")
    for part in diff.parts:
        text1, text2 = diff.texts_of(part)
        row = {name: getattr(part, name) for name in names}
        yield (
            row
            | ({"text1": text1} if part.is_first else {})
            | ({"text2": text2} if part.is_second else {})
        )


def diff_in_words(diff: TextDiff) -> str:
    """Say how much of both texts is equal."""
    said = f"{diff.n_same:,} words are equal, of {diff.words1:,} and {diff.words2:,}"
    if diff.n_moved:
        said += f"; {diff.n_moved:,} were moved"
    if diff.is_coarse:
        said += "; a part was too long to be compared word by word"
    return said


def diff_lines(diff: TextDiff, is_coloured: bool) -> Iterator[str]:
    """Yield the differences line by line, with their place and context."""
    for hunk in diff.hunks():
        head = f"line {hunk[0].line1:,} of the first text, line {hunk[0].line2:,} of the second"
        yield ""
        yield click.style(head, bold=True) if is_coloured else head
        text = "".join(_shown(diff, part, is_coloured) for part in hunk)
        yield from text.strip("\n").split("\n")


def _shown(diff: TextDiff, part: DiffPart, is_coloured: bool) -> str:
    """Return a part between its marks, which touch the words."""
    text = diff.texts_of(part)[0 if part.is_first else 1]
    if part.kind == "same":
        return _lines(text)
    left, right, colour = _MARKS[part.kind]
    match = _SPACE.fullmatch(text)
    before, words, behind = match.groups() if match else ("", text, "")
    if not words:
        before, words, behind = "", text, ""
    shown = f"{left}{_lines(words)}{_moved(part)}{right}"
    if is_coloured:
        shown = "\n".join(click.style(line, fg=colour) for line in shown.split("\n"))
    return f"{_lines(before)}{shown}{_lines(behind) or ' '}"


def _moved(part: DiffPart) -> str:
    if part.kind == "moved-from":
        return f" to line {part.line2:,}"
    return f" from line {part.line1:,}" if part.kind == "moved-to" else ""


def _lines(text: str) -> str:
    """Return a text with line feeds, harmless to a terminal."""
    return "\n".join(harmless(line.replace("\t", "    ")) for line in _LINES.split(text))
