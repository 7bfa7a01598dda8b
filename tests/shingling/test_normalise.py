"""Normalisation: idempotent over all of Unicode, and what it makes alike."""

from __future__ import annotations

import random
import sys

import pytest

from lshdb.shingling import NORMALISATION, canonical_content, normalise
from tests.chosen import choose_params
from tests.golden import plain

CHARACTERS = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]
WHITE_SPACE = [character for character in CHARACTERS if character.isspace()]


@pytest.mark.parametrize("before", ["", "a"])
def test_twice_is_once_for_every_character(before: str) -> None:
    changed = []
    for character in CHARACTERS:
        once = normalise(before + character)
        if normalise(once) != once:
            changed.append(f"U+{ord(character):04X}")
    assert changed == []


@pytest.mark.parametrize("before", ["", "a"])
def test_every_character_as_in_the_plain_path(before: str) -> None:
    different = []
    for character in CHARACTERS:
        text = before + character
        if normalise(text) != plain.normalise(text):
            different.append(f"U+{ord(character):04X}")
    assert different == []


def test_ascii_text_needs_no_way_of_its_own() -> None:
    """ASCII text skips NFKC and folding; the plain path does not, and gives the same."""
    ascii_characters = [chr(point) for point in range(128)]
    for first in ascii_characters:
        for second in ascii_characters:
            for text in (first + second, f"x{first}{second}Y"):
                assert normalise(text) == plain.normalise(text)
    rng = random.Random(1)
    for _ in range(500):
        text = "".join(rng.choices(ascii_characters, k=rng.randrange(60)))
        assert normalise(text) == plain.normalise(text)


@pytest.mark.parametrize("space", WHITE_SPACE, ids=lambda space: f"U+{ord(space):04X}")
def test_white_space(space: str) -> None:
    assert normalise(space) == ""
    assert normalise(f"{space}a{space}{space}b{space}") == "a b"
    assert normalise(f"{space}\u00e9{space} {space}b{space}") == "\u00e9 b"
    assert normalise(f"a{space}\n\u3000b") == "a b"


@pytest.mark.parametrize("control", ["\x00", "\x1b", "\u0600", "\u06dd", "\ufff9"])
def test_what_is_neither_white_space_nor_ignorable_stays(control: str) -> None:
    assert normalise(f"a{control}b") == f"a{control}b"


@pytest.mark.parametrize(
    "joiner",
    [
        "\u200b", "\u2060", "\ufeff", "\u180e", "\xad", "\u034f", "\ufe0f", "\u3164", "\u2065",
        "\U000e0fff",
    ],
)  # fmt: skip
def test_what_is_ignorable_is_left_out(joiner: str) -> None:
    assert normalise(f"{joiner}a{joiner}b {joiner} c{joiner}") == "ab c"
    assert normalise(f"e{joiner}\u0301{joiner}\u0323") == "\u1eb9\u0301"
    assert normalise(f"\u1100{joiner}\u1161{joiner}{joiner}\u11a8") == "\uac01"
    assert normalise(joiner * 3) == ""


@pytest.mark.parametrize(
    ("texts", "normalised"),
    [
        (["CAF\u00c9", "cafe\u0301", "\uff23\uff41\uff46\u00e9", "CAFE\u0301"], "caf\u00e9"),
        (["\ufb01ne", "FINE", "\ufb01NE", "fine"], "fine"),
        (["stra\u00dfe", "STRASSE", "stra\u1e9ee"], "strasse"),
        (["\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2", "\u03bf\u03b4\u03bf\u03c3"],
         "\u03bf\u03b4\u03bf\u03c3"),
        (["\u0130x", "i\u0307x", "I\u0307X"], "i\u0307x"),
        (["\u212b", "\u00c5", "A\u030a", "a\u030a"], "\u00e5"),
        (["\u3392", "MHz", "\uff2d\uff28\uff5a"], "mhz"),
        (["\uff76\uff9e", "\u30ac", "\u30ab\u3099"], "\u30ac"),
        (["\u1112\u1161\u11ab", "\ud55c"], "\ud55c"),
        (["x\u00b2", "X2", "\uff38\u2082"], "x2"),
        (["e\u0301\u0323", "e\u0323\u0301", "\u1eb9\u0301"], "\u1eb9\u0301"),
        (["\U0001d407i", "hi", "HI"], "hi"),
        (["a \t\r\n b", " a b ", "A\u00a0B", "a\u3000b", "a\u2028b\u2029"], "a b"),
    ],
)  # fmt: skip
def test_made_alike(texts: list[str], normalised: str) -> None:
    assert {normalise(text) for text in texts} == {normalised}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\u0131", "i"),  # a dotless i is another letter
        ("resume", "r\u00e9sum\u00e9"),  # accents stay
        ("a-b", "a b"),  # so does punctuation
        ("ab", "a b"),
        ("\u30cf", "\u306f"),  # and the kind of kana
    ],
)
def test_kept_apart(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_content_of_a_text_is_normalised_and_ready_tokens_are_not() -> None:
    assert canonical_content("  Caf\u00c9 ") == "caf\u00e9"
    tokens = ["Caf\u00c9 ", "", "A  b"]
    assert canonical_content(tokens) is tokens


def test_the_name_is_the_one_that_is_stored() -> None:
    assert NORMALISATION == "ignorable-nfkc-casefold-space"
    assert choose_params().normalisation == NORMALISATION
