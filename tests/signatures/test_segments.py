"""The kernel cuts texts about characters that need their neighbours: the bits are those of Unicode.

Everything is held against one call of ``unicodedata.normalize`` over the whole text.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from unicodedata import category, combining, normalize

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lshdb.kernel import compiled, lookup_tables
from lshdb.shingling.normalise import APART, COMPLEX, normalise_segment, table_entry
from lshdb.signatures.sets import normalise_texts
from tests.golden.plain import IGNORABLE
from tests.signatures.test_kernels import levels

pytestmark = pytest.mark.skipif(compiled is None, reason="no compiled kernel")

POINTS = [  # of Han and Hangul syllables every 23rd
    character
    for character in map(chr, range(0x110000))
    if category(character) not in ("Cn", "Co", "Cs")
    and not (character >= "\u3400" and category(character) == "Lo" and ord(character) % 23)
]
MARKS = [character for character in POINTS if combining(normalize("NFKD", character)[0])]
SCRIPTS = {
    "NFD": "aeoAEOnNßİ \u0301\u0300\u0323\u0302\u0327\u0345\u031b,",
    "arabic": "ابتثجحخدلمن \u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0653\u0654"
    "\ufdfa\ufefb",
    "hebrew": "אבגדהוש \u05b0\u05b4\u05b7\u05b8\u05bc\u05c1\u05c2\ufb2a\ufb49",
    "devanagari": "कखगजडढफय \u093c\u094d\u093e\u0902\u0958\u095b\u0929\u0928",
    "bengali": "কখগড \u09bc\u09be\u09c7\u09d7\u09cb\u09cc\u09cd\u09dc",
    "thai": "กขคงน \u0e33\u0e34\u0e38\u0e48\u0e49\u0e4d\u0e32",
    "hangul": "가각힣\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2 ㄱ\uffa1\uffc2",
    "kana": "ｶｷﾊﾎｱ\uff9e\uff9fかは\u3099\u309a\u309b㌔ ",
    "greek": "αωΩᾳᾼΐ\u0345\u0301\u0342\u0313\u037aς ",
    "others": "\u0b47\u0b3e\u0b56\u1025\u102e\u0dd9\u0dca\u0dcf\U00011099\U000110ba\U0001d157"
    "\U0001d165\U0001d16e\U00016d63\U00016d67\u0f71\u0f72\u0f74\u0f73 ",
    "odd": "\u00b4\u00a8\u00ad\u200d\ue000\U00100000\U0002f800\U0002f81d\U000e0001\U000e0100\0\t"
    "\r\n\u2028\x85\xa0\u3000\u1680\u0344\u0fb2\u0f81",
}


def plain(text: str, *, fold: bool) -> str:
    text = normalize("NFKC", "".join(c for c in text if ord(c) not in IGNORABLE))
    return " ".join((normalize("NFKC", text.casefold()) if fold else text).split())


def normalised(texts: Sequence[str], *, fold: bool, fresh: bool = False) -> Iterator[str | None]:
    """By the kernel alone, at every level of instructions."""
    kernel = compiled
    table, fill, memo, segment = lookup_tables.folding_table(fold)
    found = []
    for level in levels():
        kernel.use_level(level)
        try:
            memory = np.zeros_like(memo) if fresh else memo
            found.append(kernel.normalise(list(texts), fold, table, fill, memory, segment))
        finally:
            kernel.use_level()
    assert all(each == found[0] for each in found)
    yield from found[0]


def check(texts: Sequence[str], *, fold: bool, fresh: bool = False) -> None:
    for text, found in zip(texts, normalised(texts, fold=fold, fresh=fresh), strict=True):
        assert found == plain(text, fold=fold), ascii(text)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        alphabet = draw(st.sampled_from([*SCRIPTS.values(), "".join(SCRIPTS.values())]))
        parts.append(draw(st.text(alphabet=alphabet, max_size=16)))
        parts.append(draw(st.sampled_from(["", " ", "plain words of letters, many of them. " * 2])))
    return "".join(parts)


@settings(max_examples=400, deadline=None)
@given(texts=st.lists(_texts() | st.text(max_size=60), max_size=4), fold=st.booleans())
@example(texts=[" \u0301", "a \u0301", "\u00b4", " \u00b4\u00b4 ", "\u00a0\u0323\u0301"], fold=True)
@example(texts=["\0\u0301\u0323", "\u0301", "A\u0323\u0301 ", "\u0344\u0301"], fold=False)
def test_any_text_has_the_bits_of_the_interpreter(texts: list[str], fold: bool) -> None:
    for text, found in zip(texts, normalised(texts, fold=fold), strict=True):
        if found is None:  # in doubt, and long
            assert len(text) > 64
        else:
            assert found == plain(text, fold=fold)
    assert normalise_texts(texts, fold=fold) == [plain(text, fold=fold) for text in texts]


@pytest.mark.parametrize("fold", [False, True])
def test_every_character_beside_every_kind_of_neighbour(fold: bool) -> None:
    neighbours = [
        *"aÉßΣ ก가中\n\u0301\u0323\u0345\u0e38\u05b4\u1100\u1161\u11a8\u09c7\u09be\uff76\uff9e",
        *"\u3099\u00b4\ufdfa\u0344\U00016d67\u1025\u102e\u0f71\u0f74",
    ]
    for neighbour in neighbours:
        texts = [part for one in POINTS for part in (neighbour + one, one + neighbour)]
        for text, found in zip(texts, normalise_texts(texts, fold=fold), strict=True):
            assert found == plain(text, fold=fold), ascii(text)


def test_every_mark_behind_and_before_marks_of_every_class() -> None:
    of_each_class = list({combining(mark): mark for mark in MARKS}.values())
    texts = [
        f"{base}{''.join(order)}{after}"
        for mark in MARKS
        for other in of_each_class
        for order in ((mark, other), (other, mark))
        for base, after in (("a", ""), ("", "b"))
    ]
    for text, found in zip(texts, normalise_texts(texts), strict=True):
        assert found == plain(text, fold=True), ascii(text)


@pytest.mark.parametrize("script", SCRIPTS)
def test_segments_at_every_place_of_a_text(script: str) -> None:
    """What comes before pushes each segment over every edge of 32 characters."""
    rng = random.Random(script)
    some = [
        "".join(rng.choices(SCRIPTS[script], k=rng.choice((1, 2, 3, 6, 7, 8, 20))))
        for _ in range(6)
    ]
    letters = ("a", "é", "中", "😀", "A \t")
    texts = [
        (before * 70)[:length] + segment + after * 40
        for segment, before, after in itertools.product(some, letters, letters)
        for length in (0, *range(28, 37), 63, 64, 65)
    ]
    check(texts, fold=True)
    check(texts[::7], fold=False, fresh=True)


def test_long_runs() -> None:
    """Behind 1024 characters a segment is left to the reference; below, it is cut out."""
    rng = random.Random(4)
    for size in (5, 6, 7, 30, 33, 70, 1000, 1022, 1023, 1024, 1025, 3000):
        for pool in ("\u0301\u0323", MARKS, "\u0e48\u0e38", "\u1161", "\u00b4", "\uff9e"):
            for before in ("", "x", "é ", "x" * 64):
                text = f"{before}{''.join(rng.choices(pool, k=size))}ÿ"
                (found,) = normalised([text], fold=True)
                assert found == plain(text, fold=True) or (found is None and size > 1000)
                assert normalise_texts([text]) == [plain(text, fold=True)]


@pytest.mark.parametrize("fold", [False, True])
def test_a_memo_that_is_full_forgets_and_does_not_mistake(fold: bool) -> None:
    """100,000 segments, six times as many as it holds, twice: some come back after they went."""
    pairs = itertools.product("abcdeghiko", MARKS[:400], MARKS[100:125])
    segments = ["".join(pair) for pair in pairs]
    for _ in range(2):
        for first in range(0, len(segments), 40):
            texts = [" ".join(segments[first : first + 40])]
            assert normalise_texts(texts, fold=fold) == [plain(texts[0], fold=fold)]


def test_a_text_of_segments_that_are_all_new_is_left_after_some() -> None:
    """So that no text takes much longer than the reference takes for it."""
    kernel = compiled
    table, fill, memo, segment = lookup_tables.folding_table(True)
    memory, asked = np.zeros_like(memo), []

    def counting(text: str) -> str:
        asked.append(text)
        return segment(text)

    text = "".join(map("".join, itertools.product("abcdefghik", MARKS[:200], MARKS[:10])))
    found = kernel.normalise([text], True, table, fill, memory, counting)
    assert found == [None]
    assert len(asked) <= 64 + len(text) // 32
    assert memory.nbytes == 1 << 20
    assert normalise_texts([text]) == [plain(text, fold=True)]


def test_a_segment_is_normalised_once() -> None:
    kernel = compiled
    table, fill, memo, segment = lookup_tables.folding_table(True)
    memory, asked = np.zeros_like(memo), []

    def counting(text: str) -> str:
        asked.append(text)
        return segment(text)

    text = "cafe\u0301 ｶﾞ \u1100\u1161\u11a8 \ufdfa " * 1000
    assert (
        kernel.normalise([text, text], True, table, fill, memory, counting)
        == [plain(text, fold=True)] * 2
    )
    assert sorted(asked) == sorted(["e\u0301", "ｶﾞ", "\u1100\u1161\u11a8", "\ufdfa"])


def test_a_memo_may_hold_anything() -> None:
    """Odd lengths are not trusted; what is no UTF-8 is refused where it is read."""
    kernel = compiled
    table, fill, memo, segment = lookup_tables.folding_table(True)
    for value in (0, 1, 2**64 - 1, 0x3030303030303030):
        memory = np.full_like(memo, value)
        (found,) = kernel.normalise(["e\u0301 " * 50], True, table, fill, memory, segment)
        assert found == plain("e\u0301 " * 50, fold=True)


def test_a_length_in_the_memo_is_not_trusted() -> None:
    """Longer than its place is: nothing is read behind it."""
    kernel = compiled
    table, fill, memo, segment = lookup_tables.folding_table(True)
    memory = np.zeros_like(memo)
    kernel.normalise(["e\u0301"], True, table, fill, memory, segment)
    (at,) = np.flatnonzero(memory.view(np.uint8) == ord("e"))  # as a character
    assert memory.view(np.uint8)[at + 24] == len("é".encode())
    for length in (40, 255):
        again = memory.copy()
        again.view(np.uint8)[at + 24] = length
        asked: list[str] = []
        found = kernel.normalise(
            ["e\u0301"], True, table, fill, again, lambda text, to=asked: to.append(text) or "é"
        )
        assert (found, asked) == (["é"], ["e\u0301"])


def test_an_error_of_the_segment_function_is_raised() -> None:
    kernel = compiled
    table, fill, memo, _ = lookup_tables.folding_table(True)

    def interrupted(text: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel.normalise(["e\u0301"], True, table, fill, np.zeros_like(memo), interrupted)
    with pytest.raises(TypeError, match="segment returned int, expected str"):
        kernel.normalise(["e\u0301"], True, table, fill, np.zeros_like(memo), len)


def test_white_space_of_a_segment_is_kept_at_its_ends_and_collapsed() -> None:
    assert normalise_segment("\u00b4", fold=True) == " \u0301"
    assert normalise_segment(" \t\u0301 \n", fold=True) == " \u0301 "
    assert normalise_segment("\ufdfa", fold=False) == normalize("NFKC", "\ufdfa")


def test_entries_are_apart_where_a_text_may_be_cut() -> None:
    assert [table_entry(one, fold=True) for one in "\u00b4\ufdfa"] == [APART, APART]
    assert [table_entry(one, fold=True) for one in "\u0301\u1161\uff9e"] == [COMPLEX] * 3
