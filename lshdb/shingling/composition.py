"""Unicode's normal forms in linear time for every text.

The interpreter's ``unicodedata.normalize`` sorts a run of combining marks by insertion, so a run of
n marks in the wrong order takes n squared steps, and Python handles no signal meanwhile: 200,000
marks after one letter take 100 s. Its results are right, so this module still calls it, except for
runs longer than any real text has:

- This module sorts a run of more than ``_LONGEST`` marks by class, stably; the standard calls this
  canonical ordering. Only the first few marks of a class can be composed with the letter before
  them, as no composed letter has more than four parts. So only those are passed on with the
  letter, and the rest of each class is put after what remains of them.
- A long text is normalised in pieces, cut where the next piece begins neither with a mark nor with
  a letter that composes with the one before. Signals are handled between two pieces.

The standard is Unicode's chapter 3.11 and its annex 15. Every function gives the same bits as one
call of ``unicodedata.normalize`` (``tests/shingling/test_composition.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import chain, starmap
from typing import Literal
from unicodedata import category, combining, decomposition, normalize

from lshdb.arrays import np

__all__ = ["PIECE", "Form", "composing_seconds", "in_pieces", "is_boundary", "normal_form",
           "normal_pieces"]  # fmt: skip

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

PIECE = 1 << 18
"""Characters per call, which no signal interrupts: 10 ms, or 200 if each becomes eighteen."""

_LONGEST = 32
"""Most marks that the interpreter sorts; it takes at most this many steps for each."""

_MOST_COMPOSED = 8
"""More marks of one class than any composed letter has."""

_MARKS = (0x300, 0x20000)
"""The code points that hold marks."""

_COMPOSED = ((0xC0, 0x3100), (0xFB00, 0xFB50), (0x11000, 0x12000), (0x16000, 0x17000),
             (0x1D100, 0x1D200))  # fmt: skip
"""Blocks that hold composed characters."""


def normal_form(form: Form, text: str) -> str:
    """Normalise as ``unicodedata.normalize`` does, in O(n)."""
    if len(text) <= _LONGEST or text.isascii():
        return normalize(form, text)
    return "".join(normal_pieces(form, text))


def normal_pieces(form: Form, text: str) -> Iterator[str]:
    """Normalise a text and yield the result piece by piece."""
    start = 0
    for first, end in _long_runs(form, text):
        base = _base(text, start, first)
        yield from _short_runs(form, text, start, base)
        yield _sorted_run(form, text[base:first], text[first:end])
        start = end
    yield from _short_runs(form, text, start, len(text))


def in_pieces(function: Callable[[str], str], text: str) -> str:
    """Apply a function of single characters to a text in pieces; signals are handled in between."""
    if len(text) <= PIECE:
        return function(text)
    return "".join(function(text[at : at + PIECE]) for at in range(0, len(text), PIECE))


def is_boundary(before: str, after: str) -> bool:
    """Return whether a text may be cut between two neighbours: normalising never joins them.

    A text is never cut before a mark, which may be sorted or composed. It is cut before a letter or
    vowel that is the second half of a composition only if the first half cannot end there.
    """
    second = normalize("NFKD", after)[0]
    if combining(second):
        return False
    firsts = _ends_of_firsts(second)
    return not firsts or normalize("NFKD", before)[-1] not in firsts


@functools.cache
def composing_seconds() -> dict[str, frozenset[str]]:
    """Map each second half of a composition to the last parts that its first halves may have.

    Only the blocks where Unicode has compositions are searched (a test searches everywhere). This
    takes some milliseconds, once, and only if a text holds marks. Hangul is left out, because a
    formula gives its compositions.
    """
    by_second: dict[str, set[str]] = {}
    for point in chain.from_iterable(starmap(range, _COMPOSED)):
        parts = decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (chr(int(part, 16)) for part in parts)
            by_second.setdefault(second, set()).add(normalize("NFD", first)[-1])
    return {second: frozenset(firsts) for second, firsts in by_second.items()}


_VOWELS = frozenset(map(chr, range(0x1161, 0x1176)))
_LEADS = frozenset(map(chr, range(0x1100, 0x1113)))


def _ends_of_firsts(second: str) -> frozenset[str]:
    if "\u1161" <= second <= "\u11c2":  # Hangul: leading consonant + vowel, and + final consonant
        return _LEADS if second in _VOWELS else _VOWELS
    if category(second)[0] == "L" and second < "\U00016d40":
        return frozenset()
    return composing_seconds().get(second, frozenset())


def _long_runs(form: Form, text: str) -> Iterator[tuple[int, int]]:
    """Yield maximal runs of more than ``_LONGEST`` characters that decompose to marks.

    Every such run holds one of the characters at ``_LONGEST``, ``2 * _LONGEST + 1`` and so on, so
    only the surroundings of those that are marks are examined.
    """
    marks = _marks(form)
    apart = _LONGEST + 1
    end = 0
    for first in range(0, len(text), PIECE * apart):
        looked_at = text[first + _LONGEST : first + PIECE * apart : apart]
        if marks.isdisjoint(looked_at):
            continue
        for number, character in enumerate(looked_at):
            at = first + _LONGEST + number * apart
            if character not in marks or at < end:
                continue
            start = at
            while start > end and text[start - 1] in marks:
                start -= 1
            end = at + 1
            while end < len(text) and text[end] in marks:
                end += 1
            if end - start > _LONGEST:
                yield start, end


@functools.cache
def _marks(form: Form) -> frozenset[str]:
    """Return the characters that decompose to marks."""
    apart: Form = "NFKD" if "K" in form else "NFD"
    return frozenset(
        character
        for character in map(chr, range(*_MARKS))
        if combining(character) or combining(normalize(apart, character)[0])
    )


def _base(text: str, start: int, run: int) -> int:
    """Return the start of the text that the marks from ``run`` may be composed with."""
    base = max(run - 1, start)
    while base > start and not is_boundary(text[base - 1], text[base]):
        base -= 1
    return base


def _short_runs(form: Form, text: str, start: int, end: int) -> Iterator[str]:
    """Normalise text[start:end], which has no long run of marks."""
    while start < end:
        stop = min(start + PIECE, end)
        while stop < end and not is_boundary(text[stop - 1], text[stop]):
            stop += 1
        yield normalize(form, text[start:stop])
        start = stop


def _sorted_run(form: Form, base: str, run: str) -> str:
    """Normalise a base with a long run of marks."""
    table = {ord(mark): normalize("NFKD", mark) for mark in _distinct(run)}
    table = {point: parts for point, parts in table.items() if chr(point) != parts}
    # Marks are decomposed one by one, which keeps their order.
    marks = in_pieces(lambda piece: piece.translate(table), run) if table else run
    groups = _by_class(marks)
    composed = normalize(form, base + "".join(group[:_MOST_COMPOSED] for group in groups.values()))
    end = len(composed)
    while end and combining(composed[end - 1]):
        end -= 1
    parts = [composed[:end]]
    left = composed[end:]
    for number in sorted({*groups, *map(combining, left)}):
        parts += [mark for mark in left if combining(mark) == number]
        parts.append(groups.get(number, "")[_MOST_COMPOSED:])
    return "".join(parts)


def _distinct(text: str) -> set[str]:
    characters: set[str] = set()
    for at in range(0, len(text), PIECE):  # signals are handled in between
        characters.update(text[at : at + PIECE])
    return characters


def _by_class(marks: str) -> dict[int, str]:
    """Group marks by combining class, the lowest first, each class in the order of the text."""
    numbers = sorted(set(map(combining, _distinct(marks))))
    if len(numbers) == 1:
        return {numbers[0]: marks}
    points = np.frombuffer(marks.encode("utf-32-le"), dtype="<u4")
    classes = _classes()[points]
    return {number: points[classes == number].tobytes().decode("utf-32-le") for number in numbers}


@functools.cache
def _classes() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the combining class of every code point."""
    return np.fromiter(map(combining, map(chr, range(_MARKS[1]))), dtype=np.uint8)
