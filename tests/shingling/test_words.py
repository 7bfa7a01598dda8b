r"""Words: the documented ranges, ``\w`` and marks outside them, one character a word inside."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.shingling import SPACELESS_RANGES, cut_words, normalise, split_words, word_spans
from lshdb.shingling.words import MARK_RANGES
from tests.golden import plain

pytestmark = pytest.mark.fast

# Symbols by category and words in fact: the radicals of Han characters.
RADICALS = range(0x2E80, 0x2FD6)

# By the names that the Unicode tables give to the characters of the documented scripts.
SPACELESS_NAMES = (
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
    "HIRAGANA ",
    "KATAKANA ",
    "KATAKANA-HIRAGANA ",
    "HENTAIGANA ",
    "CJK UNIFIED IDEOGRAPH",
    "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ITERATION",
    "IDEOGRAPHIC NUMBER",
    "HANGZHOU ",
    "VERTICAL KANA",
)
INVISIBLE = (0x17B4, 0x17B5)  # inherent vowels of Khmer, which no text should hold
LATER = range(0x116D0, 0x11700)  # further Burmese digits, of Unicode 16


SPACELESS = {point for first, last in SPACELESS_RANGES for point in range(first, last + 1)}
MARKS = {point for first, last in MARK_RANGES for point in range(first, last + 1)}


def test_the_ranges_are_the_documented_ones() -> None:
    assert sorted(SPACELESS_RANGES) == plain.RANGES
    assert all(first <= last for first, last in SPACELESS_RANGES)
    assert min(first for first, _ in SPACELESS_RANGES) > 127, "ASCII has a way of its own"


def test_every_character_between_letters() -> None:
    r"""A word of its own in the ranges, elsewhere part of a word if ``\w`` matches or a mark."""
    wrong = []
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if point in SPACELESS:
            expected = ["x", character, "y"]
        elif character.isalnum() or character == "_" or point in MARKS:
            expected = [f"x{character}y"]
        else:
            expected = ["x", "y"]
        if split_words(f"x{character}y") != expected:
            wrong.append(f"U+{point:04X}")
    assert wrong == []


def test_the_marks_are_those_of_unicode() -> None:
    """All that this interpreter knows, and later ones that it does not assign."""
    known = {
        point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point))[0] == "M"
    }
    assert known <= MARKS | SPACELESS
    assert not MARKS & SPACELESS
    assert all(unicodedata.category(chr(point)) == "Cn" for point in MARKS - known)


def test_the_ranges_hold_letters_marks_and_digits_only() -> None:
    others = [
        f"U+{point:04X}"
        for point in sorted(SPACELESS)
        if unicodedata.category(chr(point))[0] not in "LMN"
        and unicodedata.category(chr(point)) != "Cn"
        and point not in RADICALS
    ]
    assert others == []


def test_the_ranges_hold_all_of_their_scripts() -> None:
    """Every letter, mark or digit that is still there after normalising."""
    missing = [
        f"U+{point:04X}"
        for point in range(sys.maxunicode + 1)
        if unicodedata.name(chr(point), "").startswith(SPACELESS_NAMES)
        and unicodedata.category(chr(point))[0] in "LMN"
        and normalise(chr(point)) == chr(point)
        and point not in SPACELESS
        and point not in INVISIBLE
        and point not in LATER
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" ", []),
        ("to be, or not to be?", ["to", "be", "or", "not", "to", "be"]),
        ("l'\u00e9t\u00e9 d'apr\u00e8s-midi", ["l", "\u00e9t\u00e9", "d", "apr\u00e8s", "midi"]),
        ("snake_case __x__ _", ["snake_case", "__x__", "_"]),
        ("3.14 1,000 x2", ["3", "14", "1", "000", "x2"]),
        ("\u0663\u0664 \u0967", ["\u0663\u0664", "\u0967"]),
        ("a\x00b", ["a", "b"]),
        ("a\u200bb a\u200db", ["a", "b", "a", "b"]),
        ("\U0001f600 ok\U0001f600ok", ["ok", "ok"]),
        # Han, kana, and the punctuation that parts nothing further
        ("\u661f\u8fb0\u3002\u5927\u6d77", ["\u661f", "\u8fb0", "\u5927", "\u6d77"]),
        ("\u4eba\u3005\u30fb\u30bf\u30fc", ["\u4eba", "\u3005", "\u30bf", "\u30fc"]),
        ("\u3042\u3099", ["\u3042", "\u3099"]),
        ("\U00020000\U0002a6d6", ["\U00020000", "\U0002a6d6"]),
        # Thai, Lao, Khmer, Burmese: a vowel sign is a word, as it tells words apart
        ("\u0e17\u0e35\u0e48", ["\u0e17", "\u0e35", "\u0e48"]),
        ("\u0e51\u0e3f\u0e5a\u0e52", ["\u0e51", "\u0e52"]),
        ("\u0e99\u0ecd\u0ec9", ["\u0e99", "\u0ecd", "\u0ec9"]),
        ("\u1781\u17d2\u1798\u17c2\u17d4", ["\u1781", "\u17d2", "\u1798", "\u17c2"]),
        ("\u1019\u103c\u1014\u103a\u104b", ["\u1019", "\u103c", "\u1014", "\u103a"]),
        # scripts with spaces keep their runs, beside the others
        ("\ub300\ud55c \uc11c\uc6b8", ["\ub300\ud55c", "\uc11c\uc6b8"]),
        ("v2\u7684abc\u0e44xyz", ["v2", "\u7684", "abc", "\u0e44", "xyz"]),
        # elsewhere a combining mark belongs to the word that it follows
        ("q\u0303x", ["q\u0303x"]),
        ("\u0939\u093f\u0928 \u0939\u0940", ["\u0939\u093f\u0928", "\u0939\u0940"]),
        ("_\u0301 1\u20e3", ["_\u0301", "1\u20e3"]),
        # and begins none
        ("\u0301x !\u0301y \u0301", ["x", "y"]),
        ("\u4e2d\u0301\u0302x\u0e01\u0303 \u0303", ["\u4e2d\u0301\u0302", "x", "\u0e01\u0303"]),
        ("\u4e2d \u0301\u4e2d!\u0301", ["\u4e2d", "\u4e2d"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words
    assert plain.words(text) == words


def test_ascii_words_are_those_of_any_text() -> None:
    for point in range(128):
        for text in (chr(point), f"a{chr(point)}", f"{chr(point)}9_", f"a {chr(point)} b"):
            assert split_words(f"{text} \u00e9") == [*split_words(text), "\u00e9"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gov\xadern\u200bment, \xadand\xad", ["gov\xadern\u200bment", "and\xad"]),
        ("\u2060\ufeff \xad", []),
        ("e\xad\u0301t\u034f\xe9", ["e\xad\u0301t\u034f\xe9"]),
        ("\u4e2d\U000e0100\u200b\u6587", ["\u4e2d\U000e0100\u200b", "\u6587"]),
        ("a\u3164\u115fb \u3164", ["a\u3164\u115fb"]),
        ("\u2764\ufe0f\u200d\U0001f525", []),
    ],
)
def test_no_ignorable_character_cuts_a_word_of_a_text_as_it_was_given(
    text: str, words: list[str]
) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words
    assert list(map(normalise, words)) == split_words(normalise(text))


@settings(deadline=None)
@given(
    st.text()
    | st.text(alphabet="ab_1 .-\n\x00\x7f")
    | st.text(alphabet="a \u00e9\u00a7\u201c\u0416")
    | st.text(alphabet="a \u00e9\u00ad\u0301\u200d\u0e01\u4e2d\ud800")
)
def test_words_are_cut_where_their_spans_are(text: str) -> None:
    words, starts, ends = cut_words(text)
    spans = word_spans(text)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == spans
    assert words == [text[start:end] for start, end in spans]
