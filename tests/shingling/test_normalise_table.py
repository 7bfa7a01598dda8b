"""The table of characters that normalise alone is right, and leaves out whatever is not."""

from __future__ import annotations

import sys
from unicodedata import combining, decomposition, normalize

import pytest

from lshdb.shingling import normalise
from lshdb.shingling.composition import composing_seconds
from lshdb.shingling.normalise import (
    APART,
    COMPLEX,
    MARK,
    SPACE,
    fold_character,
    table_entries,
    table_entry,
)

POINTS = [chr(point) for point in range(0x20000) if not 0xD800 <= point < 0xE000]


def test_each_character_alone_and_beside_others_is_what_the_reference_makes_of_it() -> None:
    alone = 0
    for character in POINTS:
        if combining(character):
            continue
        folded = fold_character(character, fold=True)
        if folded is None:
            continue
        alone += 1
        for before, after in (("a", "e"), ("\u1100", "b"), ("é", character), ("가", "\ufb01")):
            expected = normalise(before) + folded + normalise(after if after != character else "")
            if after == character:
                expected += folded
            found = normalize("NFKC", normalize("NFKC", before + character + after).casefold())
            assert found == expected, hex(ord(character))
    assert alone > 100_000


def test_marks_in_order_change_nothing_and_are_changed_by_nothing() -> None:
    """Every mark of the table behind every kind of base, alone and behind marks in order."""
    marks = [
        point
        for point in POINTS
        if combining(point) and table_entry(point, fold=True) & 0xFF > MARK
    ]
    assert len(marks) > 300
    by_class = {combining(mark): mark for mark in marks}
    for mark in marks:
        entry = table_entry(mark, fold=True)
        assert entry >> 56 == combining(mark)
        encoded = mark.encode()
        assert (entry >> 8).to_bytes(7, "little")[: len(encoded)] == encoded
        assert entry & 0xFF == MARK + len(encoded)
        for base in ("a", "é", "ậ", "ก", "क", "ا", "가", " ", "中"):
            for before in ("", *(other for c, other in by_class.items() if c <= combining(mark))):
                text = base + before + mark + "b"
                assert normalize("NFKC", normalize("NFKC", text).casefold()) == text, hex(ord(mark))


def test_no_character_that_composes_with_the_one_before_is_in_the_table() -> None:
    """All second halves of compositions that this interpreter knows."""
    seconds = {chr(point) for point in range(0x1161, 0x1176)}
    seconds |= {chr(point) for point in range(0x11A8, 0x11C3)}
    for point in range(sys.maxunicode + 1):
        parts = decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    assert len(seconds) > 100
    for character in seconds:
        for fold in (False, True):
            assert table_entry(character, fold=fold) == COMPLEX, hex(ord(character))


@pytest.mark.parametrize(
    ("character", "expected"),
    [("A", b"a"), ("é", "é".encode()), ("É", "é".encode()), ("\ufb01", b"fi"), ("ß", b"ss")],
)
def test_entries_hold_utf8(character: str, expected: bytes) -> None:
    entry = table_entry(character, fold=True)
    assert (entry & 0xFF, (entry >> 8).to_bytes(7, "little")[: len(expected)]) == (
        len(expected),
        expected,
    )


@pytest.mark.parametrize("character", [" ", "\t", "\u00a0", "\u3000", "\u2028", "\x1f"])
def test_white_space_is_marked(character: str) -> None:
    assert table_entry(character, fold=True) == SPACE


@pytest.mark.parametrize(
    "character", ["\u0301", "\uff9e", "\u11a8", "\ud800", "\u0345", "\u09be", "\u0344"]
)
def test_what_is_in_doubt_is_normalised_with_its_neighbours(character: str) -> None:
    assert table_entry(character, fold=True) == COMPLEX


@pytest.mark.parametrize("character", ["\u00a8", "\ufdfa", "\u3300", "\u037a", "\u00b4"])
def test_before_what_becomes_much_a_text_may_be_cut(character: str) -> None:
    assert table_entry(character, fold=True) == APART


@pytest.mark.parametrize("fold", [False, True])
def test_a_text_may_be_cut_before_what_stands_apart(fold: bool) -> None:
    """Before every such character, whatever it makes of those behind it, and after case folding.

    What a character is composed to with marks behind it is a character of Unicode, too: so it is
    enough to look at all of them.
    """

    def first_part(text: str) -> str:
        return normalize("NFKD", text)[0]

    seconds = {chr(point) for point in range(0x1161, 0x1176)} | set(composing_seconds())
    seconds |= {chr(point) for point in range(0x11A8, 0x11C3)}
    apart = 0
    for character in map(chr, range(sys.maxunicode + 1)):
        first = first_part(character)
        if combining(first) or first in seconds or "\ud800" <= character <= "\udfff":
            continue
        composed = normalize("NFKC", character)
        folded = first_part(composed.casefold() if fold else composed)
        assert not combining(folded), hex(ord(character))
        assert folded not in seconds, hex(ord(character))
        apart += 1
    assert apart > 1_000_000


def test_nothing_is_composed_with_white_space() -> None:
    """So a segment may begin behind it."""
    firsts = set().union(*composing_seconds().values())
    assert not any(map(str.isspace, firsts))


@pytest.mark.parametrize("fold", [False, True])
def test_entries_of_a_block_are_those_of_its_characters(fold: bool) -> None:
    for first in (*range(0, 0x30000, 256), *range(0xDFF00, 0xE0300, 256), 0xFFF00, 0x10FF00):
        expected = [table_entry(chr(point), fold=fold) for point in range(first, first + 256)]
        assert table_entries(first, first + 256, fold=fold) == expected, hex(first)
