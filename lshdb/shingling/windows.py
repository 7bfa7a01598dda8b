"""A text -> overlapping windows of words, and the keys of these windows.

An index of passages keeps windows of a document instead of the document: ``words`` words from one
word on, the next window ``step`` words later. Each begins with its first word (the first with the
beginning of the text) and ends where the word after its last one begins (the last with the end of
the text), so that windows laid over each other are the text again, character by character.

Decided: the last window is moved back until it has all its words. So nothing of a text is left
out, and no window is a sliver. A text of ``words`` words or fewer is one window.

A window's key is the document's key, ``#``, and the first and the last character (left out) of the
window in the text, counted from 0 as code points: ``report.txt#1204-2391``. Offsets come after the
last ``#``, so a document's key may hold the sign. A file of its own because shingles know nothing
of keys.
"""

from __future__ import annotations

from typing import NamedTuple

from lshdb.shingling.words import word_spans

__all__ = ["Window", "cut_windows", "parse_window_key", "window_key"]


class Window(NamedTuple):
    """A document, and the start and end (exclusive) of a window in it, in characters."""

    document: str
    start: int
    end: int


def cut_windows(text: str, words: int, step: int) -> list[tuple[int, int]]:
    """Cut a text into windows; O(n).

    Parameters
    ----------
    text : str
        As it was given, not normalised.
    words : int
        Words in a window.
    step : int
        Words from the beginning of a window to that of the next, 1 to ``words``.

    Returns
    -------
    list of (int, int)
        First and last character (left out) of each, in order; at least one.
    """
    begins = [start for start, _ in word_spans(text)]
    if len(begins) <= words:
        return [(0, len(text))]
    begins[0] = 0
    begins.append(len(text))
    last = len(begins) - 1 - words
    firsts = [*range(0, last, step), last]
    return [(begins[first], begins[first + words]) for first in firsts]


def window_key(document: str, start: int, end: int) -> str:
    """Return the key of a window of a document."""
    return f"{document}#{start}-{end}"


def parse_window_key(key: str) -> Window | None:
    """Parse the key of a window; None if it is not one."""
    document, sign, place = key.rpartition("#")
    start, dash, end = place.partition("-")
    if not (sign and dash and place.isascii() and start.isdecimal() and end.isdecimal()):
        return None
    window = Window(document, int(start), int(end))
    return window if window_key(*window) == key else None
