"""Normal forms: the interpreter's own bits, in linear time, in pieces, whatever a text holds."""

from __future__ import annotations

import importlib
import itertools
import random
import time
from unicodedata import combining, decomposition, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.shingling import composition
from lshdb.shingling.composition import composing_seconds, is_boundary, normal_form
from tests.golden import plain

normalising = importlib.import_module("lshdb.shingling.normalise")

FORMS: tuple[composition.Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
POINTS = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
MARKS = [point for point in POINTS if combining(normalize("NFKD", point)[0])]
BASES = [
    *"aeoéậ中 가ㄱ\u1100\u1161\u11a8\u09c7\u09be\u05d0\u1f82\uff76\u00a8\ufdfa",
    "\u0cc6\u0cc2", "\u0cd5", "\u1025\u102e", "",
]  # fmt: skip


@st.composite
def _marked_texts(draw: st.DrawFn) -> str:
    pool = draw(st.lists(st.sampled_from(MARKS), min_size=1, max_size=8))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        length = draw(st.sampled_from([0, 1, 3, 31, 32, 33, 34, 70]))
        marks = random.Random(draw(st.integers(0, 2**32))).choices(pool, k=length)
        parts += [draw(st.sampled_from(BASES)), *marks]
    return "".join(parts)


@settings(max_examples=300, deadline=None)
@given(text=_marked_texts() | st.text(), piece=st.sampled_from([1, 2, 3, 7, 1 << 18]))
def test_any_text_has_the_bits_of_the_interpreter(text: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "PIECE", piece)
        for form in FORMS:
            assert normal_form(form, text) == normalize(form, text), form


@pytest.mark.parametrize("base", BASES)
def test_every_mark_in_a_long_run_behind_every_kind_of_base(base: str) -> None:
    rng = random.Random(base)
    for first in range(0, len(MARKS), 50):
        some = rng.choices(MARKS[first : first + 50], k=60)
        texts = [f"x{base}{''.join(some)}y", *(base + mark * 40 + "\u0316" for mark in some[:5])]
        for text in texts:
            for form in FORMS:
                assert normal_form(form, text) == normalize(form, text)


def test_all_of_unicode_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = POINTS.copy()
    random.Random(3).shuffle(shuffled)
    monkeypatch.setattr(composition, "PIECE", 1000)
    text = "".join(shuffled)
    for form in FORMS:
        assert normal_form(form, text) == normalize(form, text)


def test_no_composition_begins_behind_a_boundary() -> None:
    """Every composition of two, and of three: no two of its parts are a boundary."""
    for point in POINTS:
        parts = normalize("NFD", point)
        if "\uac00" <= point <= "\ud7a3" and ord(point) % 97:
            continue
        if len(parts) > 1 and normalize("NFC", parts) == point:
            for before, after in itertools.pairwise(parts):
                assert not is_boundary(before, after), hex(ord(point))


def test_compositions_are_looked_for_where_they_are() -> None:
    everywhere = set()
    for point in POINTS:
        parts = decomposition(point).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            everywhere.add(chr(int(parts[1], 16)))
    assert everywhere == composing_seconds().keys()
    firsts = set().union(*composing_seconds().values())
    blocking = [first for first in firsts if combining(first)]
    seconds = [second for second in composing_seconds() if not combining(second)]
    assert not any(set(blocking) & composing_seconds()[second] for second in seconds), (
        "a letter composes behind a mark: a long run of marks may then not end a piece"
    )


HOSTILE = {
    "two classes": "a" + "\u0301" * 200_000 + "\u0316" * 200_000,
    "alternating classes": "a" + "\u0301\u0316" * 200_000,
    "falling classes": "a" + "".join(sorted(MARKS[:400], key=combining, reverse=True)) * 1000,
    "marks that come apart": "a" + "\u0344\u0316\u0f73" * 100_000,
    "marks without a base": "\u0301\u0316" * 200_000,
    "runs just too short to count": ("a" + "\u0301" * 16 + "\u0316" * 16) * 12_000,
    "voiced sound marks": "\uff9e\u0301" * 200_000,
    "vowels that may compose": "\u1161" * 400_000,
    "syllables": "\u1100\u1161\u11a8" * 140_000,
    "long ligatures": "\ufdfa" * 40_000,
    "second halves": "\u09be" * 400_000,
    "numbers": "1,2." * 100_000 + "é",
    "no white space": "é" * 400_000,
    "blanks": "\u2003" * 400_000,
    "line separators": "\u2028é" * 200_000,
    "unassigned": "\u0378\U0003fffd" * 200_000,
}
LONGEST_PROCEDURE = "nfkc-casefold-accents-digits-punctuation-space"


@pytest.mark.parametrize("steps", ["nfkc-casefold-space", LONGEST_PROCEDURE])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_texts_take_linear_time(kind: str, steps: str) -> None:
    """Seconds; quadratic steps would make it minutes: 200,000 marks before as many others."""
    begun = time.process_time()
    normalised = normalising.normalise(HOSTILE[kind], steps)
    assert time.process_time() - begun < 120
    assert normalising.normalise(normalised[:5000], steps) == normalised[:5000].strip()


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(alphabet="01.,aB \n\r\x0b\u2028\u00a0é\u0301\u0345ßİ\u00a8-\u0660\ufdfa")
    | _marked_texts(),
    piece=st.sampled_from([1, 2, 3, 5]),
    steps=st.sampled_from(
        ["nfkc-casefold-space", "nfkc-casefold-lines", LONGEST_PROCEDURE, "casefold-accents",
         "digits-lines", "digits", "space", "nfkc-punctuation-lines"]
    ),
)  # fmt: skip
def test_pieces_make_no_difference(text: str, piece: int, steps: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (composition, normalising):
            patch.setattr(module, "PIECE", piece)
        assert normalising.normalise(text, steps) == plain.normalise(text, steps)


def test_no_character_grows_more_than_is_allowed_for() -> None:
    most = max(
        len(normalising.normalise(f"x{point}", "nfkc-casefold").encode()) - 1 for point in POINTS
    )
    assert most == normalising.MOST_GROWTH


def test_what_would_grow_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalising, "MOST_NORMALISED", 1000)
    monkeypatch.setattr(normalising, "PIECE", 7)
    refuse, steps = normalising.refuse_growth, "nfkc-casefold-space"
    assert refuse("\ufdfa" * 30, steps) is None  # 990 bytes
    assert refuse("\ufdfa" * 31, steps) == (
        "normalised, the text has more bytes than the limit of 1,000 "
        "(64 MiB, or twice the bytes of the text)"
    )
    assert refuse("\ufdfa" * 31, "casefold") is None
    assert refuse("é" * 5000, steps) is None  # twice its own bytes may be more
    assert refuse("½" * 5000, steps) == (
        "normalised, the text has more bytes than the limit of 20,000 "
        "(64 MiB, or twice the bytes of the text)"
    )
    assert refuse("x" * 5000, steps) is None
