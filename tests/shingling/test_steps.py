"""The steps of normalisation: what each does, in what order, and that twice is once."""

from __future__ import annotations

import itertools
import random
import sys
from unicodedata import category, normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.errors import ParameterError
from lshdb.shingling import STEPS, UNITS, join_steps, normalise, parse_steps
from tests.chosen import choose_params
from tests.golden import plain
from tests.property.test_stages import TEXTS

COMBINATIONS = [
    join_steps([*some, *last])
    for last in ([], ["space"], ["lines"])
    for count in range(7)
    for some in itertools.combinations(STEPS[:6], count)
]


def _telling_characters() -> list[str]:
    """Those that some step may change, or compose or reorder."""
    found = []
    for point in range(sys.maxunicode + 1):
        c = chr(point)
        kind = category(c)
        if kind in ("Cs", "Co", "Cn"):
            continue
        if kind[0] in "PSMNZC" or c.casefold() != c or normalize("NFKD", c) != c:
            found.append(c)
    return found


_TELLING = _telling_characters()


@pytest.mark.parametrize("steps", COMBINATIONS)
@pytest.mark.long(when=lambda steps: COMBINATIONS.index(steps) % 4)
def test_twice_is_once_and_as_in_the_plain_path(steps: str) -> None:
    rng = random.Random(steps)
    for text in ("\0a".join(_TELLING), "".join(rng.sample(_TELLING, len(_TELLING)))):
        once = normalise(text, steps)
        assert normalise(once, steps) == once
        assert once == plain.normalise(text, steps)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(TEXTS | st.text(st.sampled_from(_TELLING), max_size=12), st.sampled_from(COMBINATIONS))
def test_any_text_twice_is_once_and_as_in_the_plain_path(text: str, steps: str) -> None:
    once = normalise(text, steps)
    assert normalise(once, steps) == once
    assert once == plain.normalise(text, steps)


@pytest.mark.parametrize("steps", COMBINATIONS)
def test_ascii_as_in_the_plain_path(steps: str) -> None:
    rng = random.Random(1)
    alphabet = [chr(point) for point in range(128)] + list("  \n\n019.,.,aA")
    for _ in range(100):
        text = "".join(rng.choices(alphabet, k=rng.randrange(40)))
        assert normalise(text, steps) == plain.normalise(text, steps)


@pytest.mark.parametrize(
    ("steps", "text", "normalised"),
    [
        ("none", " A\u0301  1,5\n", " A\u0301  1,5\n"),
        ("ignorable", "a\xadb\u200b \ufeff\u2764\ufe0f\U000e0001", "ab \u2764"),
        ("ignorable", "e\u034f\u0301", "e\u0301"),
        ("ignorable-nfkc", "e\u034f\u0301\xad\u0323 \u1100\u200b\u1161", "\u1eb9\u0301 \uac00"),
        ("nfkc", "\ufb01 A\u0301", "fi \xc1"),
        ("casefold", "Stra\xdfe \uff21", "strasse \uff41"),
        (
            "accents",
            "\xc9t\xe9 o\u0323\u0302 \u0130 \ud55c \uff21\u0301",
            "Ete o I \ud55c \uff21",
        ),
        # Neither vowel signs, nuktas and viramas nor the voicing of kana
        (
            "accents",
            "\u0915\u093c\u093f\u094d\u0951 \u0e19\u0e49\u0e33 \u304c",
            "\u0915\u093c\u093f\u094d \u0e19\u0e49\u0e33 \u304c",
        ),
        (
            "accents",
            "\u05e9\u05c1\u05b8 \u0643\u064e\u0651 \u0439\u0438\u0306 \u1ec7 \u2260",
            "\u05e9 \u0643 \u0438\u0438 e =",
        ),
        ("nfkc-accents", "\uff21\u0301", "A"),
        ("digits", "1.5, 2,000.25. 7..8 a1b22 \u0663\u0664", "0, 0. 0..0 a0b0 0"),
        ("punctuation", "a-b_c+d\u2014e\u20ac", "a b c d e "),
        ("digits-punctuation", "1-2 3.4", "0 0 0"),
        ("space", " a\n\n b\tc ", "a b c"),
        ("lines", " a  b \r\n\n \t\nc\x0bd\u2028e", "a b\nc\nd\ne"),
        ("punctuation-lines", "a,b\n--\nc", "a b\nc"),
    ],
)
def test_what_a_step_does(steps: str, text: str, normalised: str) -> None:
    assert normalise(text, steps) == normalised == plain.normalise(text, steps)


@pytest.mark.parametrize(
    "wrong",
    ["", "nfc", "casefold-nfkc", "nfkc-nfkc", "space-lines", "none-space", "nfkc--space", "space-"],
)
def test_what_is_no_procedure(wrong: str) -> None:
    for ask in (parse_steps, lambda name: normalise("x", name)):
        with pytest.raises(ParameterError) as caught:
            ask(wrong)
        assert repr(wrong) in str(caught.value)
        for step in (*STEPS, "none"):
            assert step in str(caught.value)


@pytest.mark.parametrize(
    ("unit", "options", "steps"),
    [
        ("word", {}, "ignorable-nfkc-casefold-space"),
        ("char", {}, "ignorable-nfkc-casefold-space"),
        ("line", {}, "ignorable-nfkc-casefold-lines"),
        ("url", {}, "ignorable-nfkc-casefold-lines"),
        ("byte", {}, "none"),
        ("token", {}, "space"),
        ("word", {"lowercase": False}, "ignorable-nfkc-space"),
        ("word", {"lowercase": True}, "ignorable-nfkc-casefold-space"),
        ("byte", {"lowercase": True}, "casefold"),
        ("token", {"lowercase": True, "strip_accents": True}, "casefold-accents-space"),
        ("line", {"strip_punctuation": True}, "ignorable-nfkc-casefold-punctuation-lines"),
        ("char", {"digits": "zero"}, "ignorable-nfkc-casefold-digits-space"),
        ("char", {"digits": "keep"}, "ignorable-nfkc-casefold-space"),
    ],
)
def test_options_are_steps(unit: str, options: dict[str, object], steps: str) -> None:
    params = choose_params(unit=unit, **options)  # type: ignore[arg-type]
    assert params.normalisation == steps
    assert params.options().items() >= options.items()
    assert params.k == UNITS[unit].k
