"""Tables: widths, cropping, folding, streaming; cells of two widths and of none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lshdb.cli._cells import (
    csv_line,
    harmless,
    harmless_json,
    text_of,
    tsv_line,
    tsv_lines,
    tsv_pattern,
)
from lshdb.cli._output import Column
from lshdb.cli._table import crop, draw_record, draw_table, fold

pytestmark = pytest.mark.fast

COLUMNS = (Column("key"), Column("similarity", "similarity"), Column("method"))


def lines(columns: Any, rows: Any, width: int | None = None, **options: Any) -> list[str]:
    drawn = draw_table(columns, rows, width=width, bold=False, **options)
    return "".join(piece for piece in drawn if piece is not None).splitlines()


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    assert lines(COLUMNS, [("a", 0.5, "exact"), ("a longer key", 0.98765, "none")]) == [
        "key           similarity  method",
        "────────────  ──────────  ──────",
        "a                 0.5000  exact",
        "a longer key      0.9877  none",
    ]


def test_no_rows_no_table() -> None:
    assert lines(COLUMNS, []) == []
    assert lines(COLUMNS, [None, None]) == []


def test_wide_and_zero_width_characters_keep_the_columns_straight() -> None:
    drawn = lines(
        COLUMNS, [("漢字", 1.0, "exact"), ("e\u0301te", 1.0, "exact"), ("abcd", 1.0, "x")]
    )
    assert {cell_len(line.rpartition("1.0000")[0]) for line in drawn[2:]} == {10}


def test_long_keys_are_cropped_in_the_middle_to_fit() -> None:
    long = "some very long key of a file " + "x" * 60 + " name.txt"
    drawn = lines(COLUMNS, [(long, 1.0, "exact")], 60)
    assert max(map(cell_len, drawn)) <= 60
    assert drawn[2].startswith("some very long") and "…" in drawn[2] and "name.txt  " in drawn[2]
    assert long in lines(COLUMNS, [(long, 1.0, "exact")])[2]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    drawn = lines(COLUMNS, [("k" * 90, 1.0, "exact")], 60, encoding="ascii")
    assert "".join(drawn).isascii() and "..." in drawn[2]


def test_what_comes_after_the_measured_rows_never_breaks_a_line() -> None:
    rows = [("k", 1.0, "exact")] * 200 + [("m" * 30, 1.0, "exact"), ("l" * 300, 1.0, "exact")]
    drawn = lines(COLUMNS, rows, 60)
    assert "m" * 30 in drawn[202]  # sticks out, and the line still fits
    assert cell_len(drawn[203]) <= 60


def test_what_does_not_fit_is_written_as_records() -> None:
    columns = [Column(f"column{number}", "auto") for number in range(12)]
    rows = [tuple(range(12)), (*["text"] * 11, None)]
    drawn = lines(columns, rows, 60)
    assert drawn[0] == "column0   0" and drawn[11] == "column11  11"
    assert drawn[12] == "" and drawn[13] == "column0   text"
    assert len(drawn) == 12 + 1 + 11  # what is nothing is left out


def test_numbers_stand_to_the_right_where_all_are_numbers() -> None:
    columns = [Column("n", "auto"), Column("mixed", "auto")]
    assert lines(columns, [(1, 5), (100, "x")])[2:] == ["  1  5", "100  x"]


def test_prose_is_folded_at_blanks() -> None:
    columns = [Column("where"), Column("what", "prose")]
    drawn = lines(columns, [("here", "words " * 20)], 40)
    assert len(drawn) > 4 and max(map(len, drawn)) <= 40
    assert all(line.startswith(("here   words", "       words")) for line in drawn[2:])


def test_the_first_rows_are_drawn_before_the_last_are_known() -> None:
    taken = 0

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal taken
        for number in range(100_000):
            taken = number
            yield (f"key{number}", 0.5, "exact")

    drawn = draw_table(COLUMNS, rows(), width=80, bold=False)
    for _ in range(3):
        next(drawn)
    assert taken < 200


def test_slow_rows_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal now
        for number in range(10):
            now += 0.3
            yield (str(number), 0.5, "exact")

    rows_iterator = rows()
    drawn = draw_table(COLUMNS, rows_iterator, width=80, bold=False)
    assert [next(drawn) for _ in range(3)]
    assert next(rows_iterator)[0] == "2"  # two were taken, this is the third


def test_a_pause_draws_what_there_is() -> None:
    drawn = list(
        draw_table(COLUMNS, [("a", 1.0, "x"), None, ("b", 1.0, "x")], width=80, bold=False)
    )
    assert [piece is None for piece in drawn] == [False, False, False, True, False]


def test_bold_titles() -> None:
    first = next(iter(draw_table(COLUMNS, [("a", 1.0, "x")], width=80, bold=True)))
    assert first and first.startswith("\x1b[1m") and first.endswith("\x1b[0m\n")


SHOWN = st.text(st.characters(exclude_categories=["Cs", "Cc", "Mn", "Me", "Cf"]), max_size=80)


@given(SHOWN, st.integers(3, 40))
def test_cropped_is_never_wider(text: str, width: int) -> None:
    cropped = crop(text, width)
    assert cell_len(cropped) <= width
    assert (cropped == text) == (cell_len(text) <= width)


@given(SHOWN, st.integers(4, 40))
def test_folded_is_never_wider_and_loses_only_blanks(text: str, width: int) -> None:
    folded = fold(text, width)
    assert max(map(cell_len, folded[:-1]), default=0) <= width
    assert "".join("".join(folded).split(" ")) == "".join(text.split(" "))
    assert fold(text, None) == [text]


def test_folding_is_linear_in_the_text() -> None:
    begun = time.perf_counter()
    folded = fold("word " * 200_000, 70)
    assert len(folded) > 10_000
    assert time.perf_counter() - begun < 10


@given(st.dictionaries(SHOWN.filter(bool), SHOWN, min_size=1, max_size=5), st.integers(30, 200))
def test_records_of_anything(fields: dict[str, str], width: int) -> None:
    assert "\n" not in "".join(draw_record(fields, width))


@given(st.text())
def test_harmless_is_one_line_and_stays_what_it_is(text: str) -> None:
    safe = harmless(text)
    assert len(safe.splitlines()) <= 1
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in safe)
    assert harmless(safe) == safe
    assert harmless_json(safe) == safe


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_tsv_comes_back(cells: list[str]) -> None:
    escapes = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}

    def unescaped(cell: str) -> str:
        characters = iter(cell)
        return "".join(escapes[next(characters)] if c == "\\" else c for c in characters)

    assert [unescaped(cell) for cell in tsv_line(cells).split("\t")] == cells


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_csv_comes_back(cells: list[str]) -> None:
    import csv
    import io

    text = csv_line(cells) + "\n"
    if "\0" not in text:  # Python's reader refuses it before 3.11.4
        assert next(csv.reader(io.StringIO(text, newline=""))) == cells


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (7, "7"), (0.1, "0.1"), (b"\x00\xff", "00ff"), (["a"], '["a"]')],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert text_of(value) == text


@given(st.lists(st.tuples(st.text(), st.text(), st.floats()), max_size=20))
def test_many_lines_of_tsv_are_those_of_single_rows(rows: list[tuple[str, str, float]]) -> None:
    kinds = (None, None, 6, None)
    columns = (*map(list, zip(*rows, strict=True)), repeat("exact")) if rows else ([], [], [], [])
    expected = [
        tsv_line([one, other, text_of(value, 6), "exact"]) + "\n" for one, other, value in rows
    ]
    assert tsv_lines(tsv_pattern(kinds), columns) == "".join(expected)
