"""Characters that the interpreter's Unicode version does not assign are counted."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable
from unicodedata import category

import pytest

from lshdb import Index
from lshdb.shingling import count_unassigned


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", 0),
        ("plain text", 0),
        ("schöne Grüße\n日本語", 0),
        ("soft\u00adhyphen and \ue000 of one's own", 0),
        ("a\u0378b", 1),
        (["a\u0378\u0379", "日本", "\U0003fffd"], 3),
        ("\U000e0fff tail", 1),
    ],
)
def test_known_texts(content: str | list[str], expected: int) -> None:
    assert count_unassigned(content) == expected


def test_every_character_by_itself() -> None:
    for point in [*range(0x3000), *range(0xA000, 0x11000, 7), *range(0x11000, sys.maxunicode, 97)]:
        character = chr(point)
        assert count_unassigned("é" + character) == (category(character) == "Cn"), hex(point)


def test_it_is_kept_with_the_document(make_index: Callable[..., Index]) -> None:
    index = make_index(k=1)
    index.add([("a", "word \u0378"), ("b", "word"), ("c", ["\u0378", "\u0379"])])
    index.add([("b", "word \u0378"), ("a", "word")])
    rows = index.sql("SELECT key, n_unassigned FROM document ORDER BY key").rows
    assert list(rows) == [("a", 0), ("b", 1), ("c", 2)]


def test_any_mixture_is_counted_as_character_by_character() -> None:
    rng = random.Random(1)
    alphabets = [
        "plain text é中\u00ad",
        "\ue000\u200d\U0001f468\ufe0f a",
        "a\u0378\u0379\U0003fffd",
        "".join(map(chr, range(0x370, 0x2000))),
    ]
    for length in (1, 30, 511, 512, 513, 5000):
        for alphabet in alphabets:
            text = "".join(rng.choices(alphabet, k=length)) + "a" * rng.randrange(600)
            expected = sum(category(character) == "Cn" for character in text)
            assert count_unassigned(text) == expected


def test_one_character_that_is_not_printable_does_not_have_all_others_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[str] = []

    def counted(character: str) -> str:
        looked_up.append(character)
        return category(character)

    # By its name in sys.modules: lshdb.shingling.normalise is also a function.
    module = importlib.import_module("lshdb.shingling.normalise")
    monkeypatch.setattr(module, "category", counted)
    page = "The quick brown fox jumps over the lazy dog, été. " * 100
    for odd in "\u00ad\ue000\u200b\0":
        looked_up.clear()
        assert count_unassigned(page + odd + page) == 0
        assert len(looked_up) <= 100, odd
    looked_up.clear()
    assert count_unassigned(f"{odd}{page}" * 10) == 0
    assert len(looked_up) < len(page) / 10
