r"""What a word is: text rules 2.

A word is a maximal run of characters that Python's ``\w`` matches and of the combining marks that
follow one of them (Unicode's categories Mn, Mc and Me): vowel signs, points and tone marks belong
to their word. Without them three different Hindi sentences are one. A mark that follows no such
character, such as one after a blank, is not part of a word.

In scripts that are written without spaces (Han, kana, Thai, Lao, Khmer, Burmese) such a run would
be a whole sentence, so there each letter, digit or mark is a word of its own, with the marks of
other scripts that follow it. The marks of these scripts are words too, because a Thai or Burmese
vowel sign distinguishes words.

A text in which this finds nothing, such as ``...`` or an emoji, is a text without a word.

Decided: the characters of these scripts, the marks, and the default-ignorable characters are fixed
ranges and do not come from ``unicodedata``, so that a signature does not depend on the Unicode
version of the interpreter. What ``\w`` matches does: see ``normalise.py``. The marks are those of
the newest version at the time of writing; later ones are for other text rules. The ranges of
scripts without spaces hold letters, marks and digits of the blocks, but not their punctuation.

Everything that counts, cuts or compares words asks this module: shingles, stop words, windows of
passages, differences of two texts, the report. The compiled kernel has a copy of the ranges
(``kernel/words.c``), and tests compare the two character by character.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any
from unicodedata import category

from lshdb.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "IGNORABLE_RANGES",
    "MARK_RANGES",
    "SPACELESS_RANGES",
    "TEXT_RULES",
    "cut_words",
    "holds_ignorable",
    "split_letters",
    "split_words",
    "without_ignorable",
    "word_spans",
]

TEXT_RULES = 2
"""Number of these rules, which an index stores. Rules 1 left marks out, and were never released."""

Ranges = tuple[tuple[int, int], ...]

SPACELESS_RANGES: Ranges = (
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


def _ranges(written: str) -> Ranges:
    ranges = []
    for part in written.split():
        first, _, last = part.partition("-")
        ranges.append((int(first, 16), int(last or first, 16)))
    return tuple(ranges)


MARK_RANGES = _ranges("""
    0300-036F 0483-0489 0591-05BD 05BF 05C1-05C2 05C4-05C5 05C7-05C9 0610-061A 064B-065F 0670
    06D6-06DC 06DF-06E4 06E7-06E8 06EA-06ED 0711 0730-074A 07A6-07B0 07EB-07F3 07FD 0816-0819
    081B-0823 0825-0827 0829-082D 0859-085B 0897-089F 08CA-08E1 08E3-0903 093A-093C 093E-094F
    0951-0957 0962-0963 0981-0983 09BC 09BE-09C4 09C7-09C8 09CB-09CD 09D7 09E2-09E3 09FE
    0A01-0A03 0A3C 0A3E-0A42 0A47-0A48 0A4B-0A4D 0A51 0A70-0A71 0A75 0A81-0A83 0ABC 0ABE-0AC5
    0AC7-0AC9 0ACB-0ACD 0AE2-0AE3 0AFA-0AFF 0B01-0B03 0B3C 0B3E-0B44 0B47-0B48 0B4B-0B4D
    0B53-0B57 0B62-0B63 0B82 0BBE-0BC2 0BC6-0BC8 0BCA-0BCD 0BD7 0C00-0C04 0C3C 0C3E-0C44
    0C46-0C48 0C4A-0C4D 0C55-0C56 0C62-0C63 0C81-0C83 0CBC 0CBE-0CC4 0CC6-0CC8 0CCA-0CCD
    0CD5-0CD6 0CE2-0CE3 0CF3 0D00-0D03 0D3B-0D3C 0D3E-0D44 0D46-0D48 0D4A-0D4D 0D57 0D62-0D63
    0D81-0D83 0DCA 0DCF-0DD4 0DD6 0DD8-0DDF 0DF2-0DF3 0F18-0F19 0F35 0F37 0F39 0F3E-0F3F
    0F71-0F84 0F86-0F87 0F8D-0F97 0F99-0FBC 0FC6 135D-135F 1712-1715 1732-1734 1752-1753
    1772-1773 17B4-17B5 180B-180D 180F 1885-1886 18A9 1920-192B 1930-193B 1A17-1A1B 1A55-1A5E
    1A60-1A7C 1A7F 1AB0-1AF0 1B00-1B04 1B34-1B44 1B6B-1B73 1B80-1B82 1BA1-1BAD 1BE6-1BF3
    1C24-1C37 1CD0-1CD2 1CD4-1CE8 1CED 1CF4 1CF7-1CF9 1DC0-1DFF 20D0-20F0 2CEF-2CF1 2D7F
    2DE0-2DFF 302E-302F A66F-A672 A674-A67D A69E-A69F A6F0-A6F1 A802 A806 A80B A823-A827 A82C
    A880-A881 A8B4-A8C5 A8E0-A8F1 A8FF A926-A92D A947-A953 A980-A983 A9B3-A9C0 AA29-AA36 AA43
    AA4C-AA4D AAB0 AAB2-AAB4 AAB7-AAB8 AABE-AABF AAC1 AAEB-AAEF AAF5-AAF6 ABE3-ABEA ABEC-ABED
    FB1E FE00-FE0F FE20-FE2F 101FD 102E0 10376-1037A 10A01-10A03 10A05-10A06 10A0C-10A0F
    10A38-10A3A 10A3F 10AE5-10AE6 10D24-10D27 10D69-10D6D 10EAB-10EAC 10ECB-10ECF 10EF0-10EFF
    10F46-10F50 10F82-10F85 11000-11002 11038-11046 11070 11073-11074 1107F-11082 110B0-110BA
    110C2 11100-11102 11127-11134 11145-11146 11173 11180-11182 111B3-111C0 111C9-111CC
    111CE-111CF 1122C-11237 1123E 11241 112DF-112EA 11300-11303 1133B-1133C 1133E-11344
    11347-11348 1134B-1134D 11357 11362-11363 11366-1136C 11370-11374 113B8-113C0 113C2 113C5
    113C7-113CA 113CC-113D0 113D2 113E1-113E2 11435-11446 1145E 114B0-114C3 115AF-115B5
    115B8-115C0 115DC-115DD 11630-11640 116AB-116B7 1171D-1172B 1182C-1183A 11930-11935
    11937-11938 1193B-1193E 11940 11942-11943 119D1-119D7 119DA-119E0 119E4 11A01-11A0A
    11A33-11A39 11A3B-11A3E 11A47 11A51-11A5B 11A8A-11A99 11B60-11B67 11C2F-11C36 11C38-11C3F
    11C92-11CA7 11CA9-11CB6 11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 11D47 11D8A-11D8E
    11D90-11D91 11D93-11D97 11DF0 11EF3-11EF6 11F00-11F01 11F03 11F34-11F3A 11F3E-11F42 11F5A
    13440 13447-13455 1611E-1612F 16AF0-16AF4 16B30-16B36 16F4F 16F51-16F87 16F8F-16F92 16FE4
    16FF0-16FF1 1BC9D-1BC9E 1CF00-1CF2D 1CF30-1CF46 1D127-1D128 1D165-1D169 1D16D-1D172
    1D17B-1D182 1D185-1D18B 1D1AA-1D1AD 1D242-1D244 1D250-1D252 1D25B-1D25C 1D25F 1D280-1D281
    1DA00-1DA36 1DA3B-1DA6C 1DA75 1DA84 1DA9B-1DA9F 1DAA1-1DAAF 1E000-1E006 1E008-1E018
    1E01B-1E021 1E023-1E024 1E026-1E02A 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF
    1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1E8D0-1E8D6 1E944-1E94A E0100-E01EF
""")
"""Combining marks (Mn, Mc, Me) that are not in ``SPACELESS_RANGES``."""

IGNORABLE_RANGES = _ranges("""
    00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F
    FEFF FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF
""")
"""Unicode's Default_Ignorable_Code_Point: soft hyphens, zero-width spaces and joiners, word
joiners, byte order marks, signs of direction, variation selectors, tags, fillers of Hangul."""


def _set(ranges: Ranges) -> str:
    return "".join(rf"{chr(first)}-{chr(last)}" for first, last in ranges)


@functools.cache
def _word(*, is_ascii: bool, is_raw: bool = False) -> re.Pattern[str]:
    """Return the pattern of a word, compiled at its first use: the kernel cuts most texts itself.

    For other texts than ASCII this takes some milliseconds, which a query would wait for. The
    repeated groups are possessive, because others take memory for each repetition.
    """
    if is_ascii:
        return re.compile(r"\w+", re.ASCII)
    spaceless, marks = _set(SPACELESS_RANGES), _set(MARK_RANGES)
    letter = rf"[^\W{spaceless}]"
    if is_raw:
        ignorable = _set(IGNORABLE_RANGES)
        letter = rf"[^\W{spaceless}{ignorable}]"
        marks += ignorable
    return re.compile(rf"{letter}+(?:[{marks}]+{letter}*)*+|[{spaceless}][{marks}]*")


def split_words(text: str) -> list[str]:
    """Split a normalised text into words; O(n)."""
    return _word(is_ascii=text.isascii()).findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end (exclusive) of each word of a text that is not normalised; O(n).

    A default-ignorable character, which normalising takes out, cuts no word: it belongs to the word
    before it.
    """
    pattern = _word(is_ascii=text.isascii(), is_raw=True)
    return [match.span() for match in pattern.finditer(text)]


_PLAIN = 0x3000
"""Of code points below, nearly all stand for themselves in most texts."""
_NO_WORD, _BY_PATTERN = 0, 2
_TOGETHER = 2**16


@functools.cache
def _classes() -> NDArray[np.uint8]:
    """Return by code point whether it is in a word, or what is around it says that; takes 3 ms."""
    word = _word(is_ascii=False, is_raw=True)
    classes = np.array([word.match(chr(point)) is not None for point in range(_PLAIN)], np.uint8)
    for ranges in (SPACELESS_RANGES, MARK_RANGES, IGNORABLE_RANGES):
        for first, last in ranges:
            classes[first : last + 1] = _BY_PATTERN
    return classes


def cut_words(text: str) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the words of a text that is not normalised, and the :func:`word_spans` of them.

    Parameters
    ----------
    text : str

    Returns
    -------
    words : list of str
    starts, ends : ndarray of int64, shape (n,)
        O(n), .2 us a word of most texts, and 1 us of one with marks, ignorable characters, or
        scripts without spaces.
    """
    if text.isascii():
        points: NDArray[Any] = np.frombuffer(text.encode(), np.uint8)
    else:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    if text.isascii() or points.max() < _PLAIN:
        classes = _classes()[points]
        if not (classes == _BY_PATTERN).any():
            edges = np.flatnonzero(np.diff(classes, prepend=_NO_WORD, append=_NO_WORD))
            starts, ends = edges[::2].copy(), edges[1::2].copy()
            words: list[str] = []
            for first in range(0, len(starts), _TOGETHER):
                some = slice(first, first + _TOGETHER)
                places = zip(starts[some].tolist(), ends[some].tolist(), strict=True)
                words += [text[start:end] for start, end in places]
            return words, starts, ends
    spans = word_spans(text)
    starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    return [text[start:end] for start, end in spans], starts.copy(), ends.copy()


def split_letters(text: str) -> list[str]:
    """Return the maximal runs of letters (``str.isalpha``) and marks that follow one; O(n)."""
    letters, is_inside = [], False
    for character in text:
        is_mark = not character.isascii() and category(character)[0] == "M"
        is_inside = character.isalpha() or (is_inside and is_mark)
        letters.append(character if is_inside else " ")
    return "".join(letters).split()


def holds_ignorable(first: int, last: int) -> bool:
    """Return whether a code point from first to last is default-ignorable."""
    return any(low <= last and high >= first for low, high in IGNORABLE_RANGES)


@functools.cache
def _ignorable() -> re.Pattern[str]:
    return re.compile(f"[{_set(IGNORABLE_RANGES)}]+")


def without_ignorable(text: str) -> str:
    """Return a text without its default-ignorable characters; O(n)."""
    return text if text.isascii() else _ignorable().sub("", text)
