"""Rows laid out as a database: SQLite finds it sound, and inserts what was laid out."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb import Index
from lshdb.kernel import compiled
from lshdb.storage.dialects.sqlite import sqlite_session, staged_rows
from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase
from lshdb.storage.dialects.sqlite.sqlite_session import SqliteSession
from lshdb.storage.dialects.sqlite.staged_rows import STAGED_ROWS, database_of_rows
from tests.without_kernel import use_reference

kernel = compiled
pytestmark = [
    pytest.mark.skipif(kernel is None, reason="no kernel"),
    pytest.mark.skipif(
        not hasattr(sqlite3.Connection, "deserialize"), reason="SQLite was compiled without it"
    ),
]

MOST_BYTES = 8192
VALUES = st.one_of(
    st.none(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.binary(max_size=300),
    st.integers(-(2**63), 2**63 - 1),
)
WHOLE = [0, 1, 2, -1] + [
    sign * 2**bits + more
    for bits in (7, 8, 15, 16, 23, 24, 31, 32, 39, 40, 47, 48, 55, 56, 62, 63)
    for sign in (1, -1)
    for more in (-1, 0, 1)
    if -(2**63) <= sign * 2**bits + more < 2**63
]


def read_back(columns: Sequence[Sequence[Any]]) -> tuple[list[Any], list[int]]:
    """What SQLite finds in the database of some columns, and the places that are not there."""
    names = [f"c{number}" for number in range(len(columns))]
    made = database_of_rows(names, columns)
    assert made is not None
    database, left = made
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(database.data)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return connection.execute(f"SELECT * FROM {STAGED_ROWS}").fetchall(), left


@pytest.mark.fast
@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=40), st.integers(1, 2**62))
def test_sqlite_reads_every_value(rows: list[tuple[Any, ...]], first: int) -> None:
    numbered = [(first + at, *row) for at, row in enumerate(rows)]
    columns = list(zip(*numbered, strict=True)) or [[], [], [], []]
    assert read_back(columns) == (numbered, [])


def test_whole_numbers_of_every_width_are_read_as_they_were() -> None:
    rowids = sorted(one for one in WHOLE if one > 0)
    columns = [rowids, WHOLE[: len(rowids)], WHOLE[-len(rowids) :]]
    assert read_back(columns) == (list(zip(*columns, strict=True)), [])


@pytest.mark.parametrize("n", [1, 2, 654, 655, 656, 1309, 1310, 1311, 50_000])
def test_rows_fill_leaf_after_leaf(n: int) -> None:
    """Rows of 100 bytes: 655 are a leaf, whose end is met from both sides."""
    rowids = list(range(2**20, 2**20 + n))
    texts = [f"{number:088d}" for number in rowids]
    found, left = read_back([rowids, texts, [b"abc"] * n])
    assert left == []
    assert found == [(rowid, text, b"abc") for rowid, text in zip(rowids, texts, strict=True)]


@pytest.mark.parametrize("lengths", [range(790, 811), range(6530, 6556)])
def test_a_leaf_is_full_to_the_byte(lengths: range) -> None:
    """Cells of all sizes about 807, of which 81 lack one byte of a leaf, and 6,551: 10 lack two."""
    rowids = range(1, 121)
    for length in lengths:
        texts = [f"{number:0{length}d}" for number in rowids]
        assert read_back([rowids, texts]) == (list(zip(rowids, texts, strict=True)), [])


def test_many_columns_have_a_long_header() -> None:
    for n_columns in (2, 62, 63, 64):
        for length in (0, 57, 58, 100):  # of types of one byte and of two
            row = (7, *("x" * length for _ in range(n_columns - 1)))
            assert read_back([[value] for value in row]) == ([row], [])
    with pytest.raises(ValueError, match="64 columns"):
        kernel.lay_rows(((1,),) * 65)


@pytest.mark.parametrize("form", [str, bytes])
def test_a_row_that_is_too_long_is_left_to_the_driver(form: type) -> None:
    lengths = [10, MOST_BYTES - 5, MOST_BYTES - 4, 100_000, 20, 2**20]
    values = ["x" * n if form is str else b"x" * n for n in lengths]
    found, left = read_back([range(1, 7), values])
    assert left == [2, 3, 5]
    assert found == [(at + 1, values[at]) for at in (0, 1, 4)]


def test_rows_beyond_the_last_leaf_are_left_to_the_driver() -> None:
    n_leaves, a_leaf = 4_000, 8
    n = n_leaves * a_leaf + 3
    laid, left = kernel.lay_rows((tuple(range(1, n + 1)), ("x" * 8_100,) * n))
    assert left == [n - 3, n - 2, n - 1]
    assert len(laid) == (2 + n_leaves) * 65_536


@pytest.mark.fast
@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ([(1,)], TypeError),
        ((), TypeError),
        (([1],), TypeError),
        (((1,), (1.5,)), TypeError),
        (((1,), (True,)), TypeError),
        (((1, 2), (1,)), ValueError),
        (((1,), (2**63,)), OverflowError),
        (((2**63,),), OverflowError),
        (((1,), ("\ud800",)), UnicodeEncodeError),
        (((1, 1),), ValueError),
        (((2, 1),), ValueError),
        (((0,),), ValueError),
        (((-1,),), ValueError),
        ((("1",),), ValueError),
        (((None,),), ValueError),
    ],
)
def test_other_columns_are_refused(columns: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        kernel.lay_rows(columns)


def contents(path: Path) -> list[Any]:
    """The rows of documents without what depends on the time, and those of texts."""
    with contextlib.closing(sqlite3.connect(path / "index.db")) as connection, connection:
        return [
            connection.execute(f"SELECT {columns} FROM {table} ORDER BY doc_id").fetchall()
            for table, columns in (
                ("content", "*"),
                (
                    "document",
                    "doc_id, key, signature_id, content_hash, body_hash, n_shingles, n_chars, "
                    "typeof(source), source, batch_id, n_unassigned, typeof(checksum)",
                ),
            )
        ]


@pytest.mark.sqlite("rows are staged in a file of SQLite")
def test_rows_are_the_same_whichever_way_they_come_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New ones, replaced ones out of order, a long text, keys in another script."""
    monkeypatch.setattr(sqlite_session, "_FEW_ROWS", 10)
    laid: list[int | None] = []

    def made(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> Any:
        found = database_of_rows(names, columns)
        laid.append(None if found is None else len(columns[0]) - len(found[1]))
        return found

    monkeypatch.setattr(staged_rows, "database_of_rows", made)
    noise = "".join(chr(0x4E00 + at * 7919 % 20_000) for at in range(20_000))
    texts = [(f"ключ {at}", f"text number {at} of a few words") for at in range(100)]
    texts[40:42] = [("long", noise), ("empty", "")]
    others = [(key, body + "!") for key, body in reversed(texts[50:70])]
    others += [(f"more {at}", f"other words {at} here") for at in range(30)]

    def grown(name: str) -> list[Any]:
        laid.clear()
        with Index.create(tmp_path / name) as index:
            index.add(texts)
            index.add(others)
            assert index.check() == []
            assert index.show("long").body == noise
            assert index.show("ключ 60").body == "text number 60 of a few words!"
            assert index.stats().documents == 130
        return contents(tmp_path / name)

    staged = grown("staged.lshdb")
    assert laid == [100, 99, 30, None]  # the long text; texts of which some replace others
    use_reference(monkeypatch)
    assert grown("no-kernel.lshdb") == staged
    assert laid == [None] * 4
    monkeypatch.setattr(sqlite_session.SqliteSession, "stages", False)
    assert grown("not-staged.lshdb") == staged
    assert laid == []


def test_a_key_that_is_there_is_refused_as_by_the_driver(tmp_path: Path) -> None:
    """Nothing of the statement stays; the next one finds the place of staged rows free."""
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE)")
    database = SqliteDatabase(tmp_path / "x.db")
    session = SqliteSession(database, connection, is_reader=False)
    rows = list(range(1, 2_002)), [f"key {number}" for number in range(2_001)]
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (5000, 'key 1500')")
    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE constraint failed: t\.key"):
        session.insert_columns("t", ("n", "key"), rows)
    connection.execute("ROLLBACK")
    connection.execute("BEGIN")
    session.insert_columns("t", ("n", "key"), rows)
    connection.execute("COMMIT")
    assert connection.execute("SELECT * FROM t").fetchall() == list(zip(*rows, strict=True))
    assert connection.execute("SELECT count(*) FROM stage.sqlite_master").fetchone() == (0,)
