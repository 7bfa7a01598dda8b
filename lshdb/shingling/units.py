r"""The units that shingles are made of, their defaults, and the words of a text.

``word``, ``char``, ``byte``, ``line`` and ``token`` cut a normalised text in a fixed way
(``content.py``). ``url`` reads a list of URLs as the set of their paths (``url_shingles.py``).
``tokenizer`` uses the tokens that the user's own function returns.

A word is a maximal run of characters that Python's ``\w`` matches. In scripts that are written
without spaces (Han, kana, Thai, Lao, Khmer, Burmese) such a run would be a whole sentence, so there
each letter, digit or mark is a word of its own.

Decided: those characters are fixed ranges and do not come from ``unicodedata``, so that a
signature does not depend on the interpreter's Unicode version. The ranges hold the letters, marks
and digits of the blocks, but not their punctuation. Marks count although ``\w`` leaves them out,
because a Thai or Burmese vowel sign distinguishes words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lshdb.shingling.normalise import NORMALISATION

__all__ = ["SPACELESS_RANGES", "UNITS", "Unit", "split_words"]


_LINES = "nfkc-casefold-lines"


@dataclass(frozen=True, slots=True)
class Unit:
    """Defaults of a unit.

    Attributes
    ----------
    k : int
        Units per shingle.
    normalisation : str
        Applied to a text first; bytes and tokens, which are meant for machines, stay unchanged.
    """

    k: int
    normalisation: str


UNITS = {
    "word": Unit(5, NORMALISATION),
    "char": Unit(9, NORMALISATION),
    "byte": Unit(9, "none"),
    "line": Unit(3, _LINES),
    "token": Unit(5, "space"),
    "url": Unit(2, _LINES),
    "tokenizer": Unit(5, "none"),
}
"""Every unit by name."""


SPACELESS_RANGES: tuple[tuple[int, int], ...] = (
    (0x0E01, 0x0E3A), (0x0E40, 0x0E4E), (0x0E50, 0x0E59),  # Thai
    (0x0E81, 0x0EBD), (0x0EC0, 0x0ECE), (0x0ED0, 0x0ED9), (0x0EDC, 0x0EDF),  # Lao
    (0x1000, 0x1049), (0x1050, 0x109D),  # Burmese
    (0x1780, 0x17B3), (0x17B6, 0x17D3), (0x17D7, 0x17D7), (0x17DC, 0x17DD),  # Khmer
    (0x17E0, 0x17E9), (0x17F0, 0x17F9),
    (0x2E80, 0x2FD5),  # Han radicals
    (0x3005, 0x3007), (0x3021, 0x302D), (0x3031, 0x3035), (0x3038, 0x303C),  # Han marks, numerals
    (0x3041, 0x3096), (0x3099, 0x309A), (0x309D, 0x309F),  # Hiragana
    (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF),  # Katakana
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),  # Han
    (0xA9E0, 0xA9FE), (0xAA60, 0xAA76), (0xAA7A, 0xAA7F),  # Burmese, extended
    (0xFF66, 0xFF9F),  # half-width Katakana, if the text was not normalised
    (0x1AFF0, 0x1B16F),  # kana supplements
    (0x20000, 0x3FFFF),  # Han, planes 2 and 3
)  # fmt: skip
"""First and last code point of each range in which every character is a word."""

_SPACELESS = "".join(rf"{chr(first)}-{chr(last)}" for first, last in SPACELESS_RANGES)
_WORD = re.compile(rf"[^\W{_SPACELESS}]+|[{_SPACELESS}]")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)


def split_words(text: str) -> list[str]:
    """Split a normalised text into words; O(n)."""
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)
