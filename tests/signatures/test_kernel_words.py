r"""Words of the kernel, of the reference and of another library: ``regex`` and its properties.

``regex`` has Unicode tables of its own, so its ``[\w\p{M}]`` and ``\p{DI}`` are witnesses who never
saw the ranges of ``shingling/words.py``. Two things are said differently there: its ``\w`` leaves
out numbers that are not decimal (``str.isalnum`` has them), and holds circled letters, joining
punctuation and joiners. Characters that the interpreter does not assign are left out: its ``\w``
does not know them.
"""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Callable, Iterable
from itertools import islice

import mmh3
import numpy as np
import pytest
import regex

from lshdb.kernel import compiled
from lshdb.shingling import normalise, split_words
from lshdb.shingling.words import IGNORABLE_RANGES
from lshdb.signatures.sets import normalise_texts, shingle_contents
from tests.golden import plain
from tests.signatures.test_kernels import levels

SPACELESS = "".join(f"{chr(first)}-{chr(last)}" for first, last in plain.RANGES)
LETTER = rf"[[[\w\p{{N}}]--[\p{{M}}\p{{So}}\p{{Pc}}\p{{Cf}}{SPACELESS}]]||[_]]"
WORD = regex.compile(
    rf"(?V1)[{SPACELESS}][\p{{M}}--[{SPACELESS}]]*+"
    rf"|{LETTER}[{LETTER}[\p{{M}}--[{SPACELESS}]]]*+"
)
IGNORABLE = regex.compile(r"\p{DI}+")
BLANK = regex.compile(r"[\s\x1c-\x1f]+")  # str.split() has four separators more

POINTS = [
    chr(point)
    for point in range(sys.maxunicode + 1)
    if unicodedata.category(chr(point)) not in ("Cs", "Co", "Cn")
]
LEVELS = levels() if compiled else []

AROUND: dict[str, Callable[[str], str]] = {
    "alone": lambda character: character,
    "between letters": lambda character: f"a{character}b",
    "after a letter": lambda character: f"\xe9{character} x",
    "before a letter": lambda character: f" {character}ab",
    "after a Devanagari letter": lambda character: f"\u0915{character}\u093f",
    "after Han": lambda character: f"\u4e2d{character}\u0301x",
    "between ignorable characters": lambda character: f"e\xad{character}\u200b\u0301b",
}


def witness_normalise(text: str) -> str:
    folded = unicodedata.normalize("NFKC", IGNORABLE.sub("", text)).casefold()
    return BLANK.sub(" ", unicodedata.normalize("NFKC", folded)).strip(" ")


def check(texts: list[str]) -> None:
    """The witness, the reference, and the kernel at every level, text by text."""
    contents = [witness_normalise(text) for text in texts]
    words = [WORD.findall(content) for content in contents]
    for text, content, expected in zip(texts, contents, words, strict=True):
        assert normalise(text) == content, ascii(text)
        assert split_words(content) == expected, ascii(content)
        assert len(expected) < 255
    shingles = [" ".join(found) or content for content, found in zip(contents, words, strict=True)]
    hashes = [mmh3.hash64(each, signed=False)[0] for each in shingles if each]
    counts = [bool(each) for each in shingles]
    for level in LEVELS:
        compiled.use_level(level)
        try:
            assert normalise_texts(texts) == contents
            found, many = shingle_contents(contents, unit="word", k=255, bag=False)
        finally:
            compiled.use_level()
        assert many.tolist() == counts
        wrong = np.flatnonzero(found != np.array(hashes, dtype=np.uint64))
        assert not len(wrong), ascii([each for each in shingles if each][wrong[0]])


def test_the_ignorable_characters_are_those_of_unicode() -> None:
    own = {point for first, last in IGNORABLE_RANGES for point in range(first, last + 1)}
    theirs = {
        point
        for point in range(sys.maxunicode + 1)
        if not 0xD800 <= point < 0xE000 and IGNORABLE.match(chr(point))
    }
    assert own == theirs == plain.IGNORABLE


@pytest.mark.parametrize("where", AROUND)
@pytest.mark.long(when=lambda where: list(AROUND).index(where) % 2)
def test_every_character(where: str) -> None:
    check([AROUND[where](character) for character in POINTS])


def hard_strings(seed: int) -> Iterable[str]:
    """Strings of what changes what is beside it, some of one class and some of all."""
    rng = random.Random(seed)
    kinds: dict[str, list[str]] = {}
    for character in POINTS:
        category = unicodedata.category(character)
        if category[0] == "M":
            kinds.setdefault(f"class {unicodedata.combining(character)}", []).append(character)
            kinds.setdefault("marks", []).append(character)
        if IGNORABLE.match(character):
            kinds.setdefault("ignorable", []).append(character)
        elif regex.match(f"[{SPACELESS}]", character) and character < "\u2000":
            kinds.setdefault("spaceless", []).append(character)
        elif unicodedata.normalize("NFKD", character) != character:
            kinds.setdefault("decomposed", []).append(character)
        elif character.casefold() != character:
            kinds.setdefault("folded", []).append(character)
        elif category in ("No", "Nl", "So", "Pc", "Zs", "Sk", "Lm"):
            kinds.setdefault(category, []).append(character)
    kinds["jamo"] = [chr(point) for point in range(0x1100, 0x1200)]
    kinds["indic"] = [character for character in POINTS if "\u0900" <= character < "\u0f00"]
    kinds["ascii"] = list("ab _,.0 AZ\t\n-")
    kinds["common"] = list("\xad\u200b\u0301\u0323\u093f\u4e2d\u0e35\u0e01\uac00\u1161\u3099 a")
    # Ignorable characters of the first planes as often as the thousands of tags and selectors.
    kinds["near ignorable"] = [c for c in kinds["ignorable"] if c < "\U00010000"]
    names = sorted(kinds)
    while True:
        chosen = rng.choices(names, k=rng.randint(1, 3))
        length = rng.choice((1, 2, 3, 4, 6, 9, 33, 70)) if rng.random() < 0.2 else rng.randint(2, 9)
        yield "".join(rng.choice(kinds[rng.choice(chosen)]) for _ in range(length))


def test_strings_of_hard_characters(is_long: bool) -> None:
    strings = iter(hard_strings(42))
    for _ in range(100 if is_long else 3):
        check(list(islice(strings, 10_000)))


def test_long_texts_of_hard_characters(is_long: bool) -> None:
    """Joined, so that vectors of 32 bytes begin anywhere in them."""
    strings = iter(hard_strings(43))
    for _ in range(3000 if is_long else 300):
        text = rng_join(strings)
        content = normalise(text)
        words = WORD.findall(content)
        assert split_words(content) == words
        expected = sorted({mmh3.hash64(word, signed=False)[0] for word in words or [content]})
        for level in LEVELS:
            compiled.use_level(level)
            try:
                assert normalise_texts([text]) == [content]
                found, _ = shingle_contents([content], unit="word", k=1, bag=False)
            finally:
                compiled.use_level()
            assert found.tolist() == expected


def rng_join(strings: Iterable[str]) -> str:
    return "".join(each + "word " * (len(each) % 3) for each in islice(strings, 60))
