"""Characters that the interpreter's Unicode version does not assign are counted."""

from __future__ import annotations

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
