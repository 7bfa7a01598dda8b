"""Tables in memory without the rows that repeat others."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset as scanned

import lshdb
from lshdb import InputError, LshdbWarning, ParameterError

ROWS: list[dict[str, Any]] = [
    {"text": "w1 w2 w3 w4 w5", "n": 2, "day": date(2026, 1, 2)},
    {"text": "w2 w3 w4 w5 w6", "n": 7, "day": date(2026, 1, 3)},
    {"text": None, "n": 1, "day": None},
    {"text": "w3 w4 w5 w6 w7", "n": None, "day": date(2025, 1, 1)},
    {"text": "W1 w2 w3   w4 w5", "n": 9, "day": date(2024, 1, 1)},
]
"""The first stands for the second and the last."""
HOW: dict[str, Any] = {"threshold": 0.6, "k": 1, "bands": 128, "rows": 1}
MARKS = {
    "lshdb_keep": [True, False, True, True, False],
    "lshdb_cluster": [0, 0, None, 0, 0],
    "lshdb_kept_as": [None, 0, None, None, 0],
    "lshdb_similarity": [None, 4 / 6, None, None, 1.0],
}


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    half = len(rows) // 2
    schema = pa.schema({"text": pa.large_string(), "n": pa.int8(), "day": pa.date32()})
    parts = (pa.Table.from_pylist(part, schema) for part in (rows[:half], rows[half:]))
    return pa.concat_tables(parts).replace_schema_metadata({"of": "the table"})


def pandas_frame(rows: list[dict[str, Any]]) -> Any:
    pandas = importlib.import_module("pandas")
    return pandas.DataFrame(rows, columns=[*ROWS[0]], index=[f"r{i}" for i in range(len(rows))])


def polars_frame(rows: list[dict[str, Any]]) -> Any:
    polars = pytest.importorskip("polars")
    return polars.from_arrow(arrow(rows))


def dataset(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("datasets").Dataset(arrow(rows))


def of_arrow(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def of_pandas(frame: Any) -> list[dict[str, Any]]:
    pandas = importlib.import_module("pandas")
    rows = frame.astype(object).where(pandas.notna(frame), None).to_dict("records")
    return [*rows]


def of_stream(relation: Any) -> list[dict[str, Any]]:
    return of_arrow(pa.table(relation))


def relation(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("duckdb").from_arrow(arrow(rows))


def ibis_table(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("ibis").memtable(arrow(rows))


def splits(rows: list[dict[str, Any]]) -> Any:
    datasets = pytest.importorskip("datasets")
    table, half = dataset(rows), len(rows) // 2
    parts = range(half), range(half, len(rows))
    return datasets.DatasetDict(
        {name: table.select(part) for name, part in zip(("train", "test"), parts, strict=True)}
    )


def views(rows: list[dict[str, Any]]) -> pa.Table:
    table = arrow(rows)
    return table.set_column(0, "text", table.column("text").cast(pa.string_view()))


class Handed:
    """Only hands over Arrow data, and can be made of it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Handed:
        return cls(table)


KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], list[dict[str, Any]]]]] = {
    "arrow": (arrow, of_arrow),
    "pandas": (pandas_frame, of_pandas),
    "polars": (polars_frame, lambda frame: [*frame.to_dicts()]),
    "datasets": (dataset, lambda one: [*one]),
    "dicts": (lambda rows: rows, lambda rows: rows),
    "tuple": (tuple, list),
    "objects": (lambda rows: np.array([*rows, None])[:-1], lambda rows: [*rows]),
    "batch": (
        lambda rows: (
            arrow(rows).combine_chunks().to_batches()[0]
            if rows
            else pa.RecordBatch.from_pylist([], schema=arrow([]).schema)
        ),
        of_arrow,
    ),
    "reader": (lambda rows: arrow(rows).to_reader(), of_stream),
    "scanned": (lambda rows: scanned(arrow(rows)), lambda scan: of_arrow(scan.to_table())),
    "views": (views, of_arrow),
    "lazy": (lambda rows: polars_frame(rows).lazy(), lambda frame: [*frame.collect().to_dicts()]),
    "splits": (splits, lambda parts: [row for part in parts.values() for row in part]),
    "relation": (relation, of_stream),
    "ibis": (ibis_table, of_stream),
    "handed": (lambda rows: Handed(arrow(rows)), of_stream),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_same_kind_of_table_comes_back(kind: Any, temporary: Path) -> None:
    make, rows_of = kind
    table = make(ROWS)
    clean = lshdb.deduplicate(table, **HOW)
    assert type(clean) is type(table)
    assert rows_of(clean) == [ROWS[0], ROWS[2], ROWS[3]]
    assert not os.listdir(temporary)


def test_marks_are_four_more_columns(kind: Any) -> None:
    make, rows_of = kind
    table = make(ROWS)
    marked = lshdb.deduplicate(table, mark=True, **HOW)
    assert type(marked) is type(table)
    found = rows_of(marked)
    assert {name: [row[name] for row in found] for name in MARKS} == MARKS
    assert [{name: row[name] for name in ROWS[0]} for row in found] == ROWS
    with pytest.raises(ParameterError, match="is marked"):
        lshdb.deduplicate(marked, mark=True, **HOW)


def test_a_column_decides_what_is_kept(kind: Any) -> None:
    make, rows_of = kind
    assert rows_of(lshdb.deduplicate(make(ROWS), keep="field:n", **HOW)) == ROWS[2:]
    oldest = lshdb.deduplicate(make(ROWS), keep="field:-day", **HOW)
    assert rows_of(oldest) == ROWS[2:]
    last = lshdb.deduplicate(make(ROWS), keep="last", **HOW)
    assert rows_of(last) == ROWS[2:]


def test_tables_without_rows_or_texts(kind: Any) -> None:
    make, rows_of = kind
    assert rows_of(lshdb.deduplicate(make([]), **HOW)) == []
    nothing = [{"text": None, "n": 1, "day": None}] * 2
    assert rows_of(lshdb.deduplicate(make(nothing), **HOW)) == nothing
    marked = rows_of(lshdb.deduplicate(make(nothing), mark=True, **HOW))
    assert [row["lshdb_keep"] for row in marked] == [True, True]


def test_what_a_table_keeps_of_its_own() -> None:
    assert lshdb.deduplicate(arrow(ROWS), **HOW).schema == arrow(ROWS).schema
    assert lshdb.deduplicate(arrow(ROWS), **HOW).schema.metadata == {b"of": b"the table"}
    frame = lshdb.deduplicate(pandas_frame(ROWS), **HOW)
    assert list(frame.index) == ["r0", "r2", "r3"]
    assert frame.dtypes.equals(pandas_frame(ROWS).dtypes)
    marked = lshdb.deduplicate(pandas_frame(ROWS), mark=True, **HOW)
    assert list(marked.index) == [f"r{i}" for i in range(5)]
    assert str(marked["lshdb_kept_as"].dtype) == "Int64"


def test_texts_alone_and_several_columns() -> None:
    texts = [row["text"] for row in ROWS if row["text"]]
    assert lshdb.deduplicate(texts, **HOW) == [texts[0], texts[2]]
    marked = lshdb.deduplicate(texts, mark=True, **HOW)
    assert marked[1] == {
        "text": texts[1], "lshdb_keep": False, "lshdb_cluster": 0, "lshdb_kept_as": 0,
        "lshdb_similarity": 4 / 6,
    }  # fmt: skip
    rows = [
        {"title": "a", "body": "b c d"},
        {"title": "a", "body": "b c d"},
        {"title": "x", "body": "b c d"},
        {"title": None, "body": "a b c d"},
        {"title": None, "body": None},
    ]
    clean = lshdb.deduplicate(rows, text=["title", "body"], k=1, threshold=0.9)
    assert clean == [rows[0], rows[2], rows[4]]


@pytest.mark.parametrize(
    ("table", "how", "message"),
    [
        ("a text", {}, "of type str"),
        ({"text": ["a"]}, {}, "of type dict"),
        (np.ones(3), {}, "of type ndarray"),
        (["a", 1], {}, "the list holds 1 at 1, of type int"),
        (arrow(ROWS), {"text": "body"}, "no column 'body'; the columns are: 'text', 'n', 'day'"),
        (arrow(ROWS), {"keep": "field:score"}, "no column 'score'"),
        (arrow(ROWS), {"keep": "best"}, "keep is 'best'"),
        (arrow(ROWS), {"text": []}, "text names no column"),
        (arrow(ROWS), {"threshold": 2}, "threshold"),
        (
            arrow([]).append_column("text", pa.array([], pa.string())),
            {},
            "more than one column 'text'",
        ),
    ],
)
def test_other_tables_are_refused(table: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        lshdb.deduplicate(table, **how)


COLUMNS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "numpy": lambda texts: np.array(texts, dtype=object),
    "arrow": pa.array,
    "chunks": lambda texts: pa.chunked_array([texts[:1], [], texts[1:]]),
    "dictionary": lambda texts: pa.array(texts).dictionary_encode(),
    "pandas": lambda texts: importlib.import_module("pandas").Series(
        texts, name="body", index=[3, "a", None, 3, 3][: len(texts)]
    ),
    "pandas strings": lambda texts: importlib.import_module("pandas").Series(texts, dtype="string"),
    "polars": lambda texts: importlib.import_module("polars").Series("body", texts),
    "datasets": lambda texts: pytest.importorskip("datasets").Dataset(
        pa.table({"body": pa.array(texts, pa.string())})
    )["body"],
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_without_a_table_come_back_as_they_were(kind: str) -> None:
    texts = COLUMNS[kind]([row["text"] for row in ROWS])
    clean = lshdb.deduplicate(texts, **HOW)
    assert type(clean) is type(texts) and len(clean) == 3
    values = clean.to_pylist() if hasattr(clean, "to_pylist") else [*clean]
    assert values[0] == ROWS[0]["text"] and values[2] == ROWS[3]["text"]
    if kind == "pandas":
        assert clean.name == "body" and list(clean.index) == [3, None, 3]
    marked = lshdb.deduplicate(texts, mark=True, **HOW)
    if not isinstance(marked, list | tuple):
        assert [*marked["lshdb_keep"]] == MARKS["lshdb_keep"] or marked["lshdb_keep"].to_pylist()
    assert len(list(lshdb.pairs(texts, **HOW))) == 4
    assert lshdb.deduplicate(COLUMNS[kind]([]), **HOW) is not None


def test_a_result_says_what_was_dropped_for_what(kind: Any) -> None:
    make, rows_of = kind
    result = lshdb.deduplicate(make(ROWS), explain=True, **HOW)
    assert rows_of(result.kept) == [ROWS[0], ROWS[2], ROWS[3]]
    assert rows_of(result.dropped) == [ROWS[1], ROWS[4]]
    assert (len(result), result.duplicate_ratio, result.exact_duplicate_ratio) == (2, 0.4, 0.2)
    assert [*result] == [
        lshdb.DroppedRow(1, 0, 4 / 6, ROWS[1]["text"], ROWS[0]["text"]),
        lshdb.DroppedRow(4, 0, 1.0, ROWS[4]["text"], ROWS[0]["text"]),
    ]
    assert result.examples(1) == [next(iter(result))]
    assert result.to_arrow().column("kept_row").to_pylist() == [0, 0]
    shown = result._repr_html_()
    assert repr(result) in shown and "the 2 least similar of 2 dropped rows" in shown
    assert repr(result) == ("DeduplicatedTable(3 of 5 rows kept, 40.0% dropped, threshold 0.6)")


def test_a_result_without_duplicates() -> None:
    for table in ([], ["a b", "c d"], [None]):
        result = lshdb.deduplicate(table, explain=True)
        assert result and result.kept == table and len(result) == result.duplicate_ratio == 0
        assert "least similar of 0" in result._repr_html_() and result.examples() == []
    with pytest.raises(ParameterError, match="mark gives all rows"):
        lshdb.deduplicate([], mark=True, explain=True)  # type: ignore[call-overload]


def test_an_iterator_becomes_a_list() -> None:
    assert lshdb.deduplicate(iter(ROWS), **HOW) == [ROWS[0], ROWS[2], ROWS[3]]
    assert lshdb.deduplicate((text for text in "aab"), **HOW) == ["a", "b"]


def test_columns_by_the_older_protocol() -> None:
    class Frame:
        def __dataframe__(self, **how: Any) -> Any:
            return pa.table({"text": ["a", "a", None]}).__dataframe__(**how)

    assert lshdb.deduplicate(Frame(), **HOW).to_pylist() == [
        {"text": "a"},
        {"text": None},
    ]


def test_a_row_without_a_text_in_its_place_is_named() -> None:
    with pytest.raises(InputError, match=r"row 1 holds 7 in 'n', of type int; expected a text"):
        lshdb.deduplicate([{"n": "a"}, {"n": 7}], text="n")
    with pytest.raises(InputError, match=r"row 0 holds \['x'\] in 'n' and 'm'"):
        lshdb.deduplicate([{"n": ["x"], "m": "a"}], text=["n", "m"])


@pytest.mark.parametrize("kind", ["arrow", "binary", "pandas", "polars", "datasets", "objects"])
def test_a_text_that_is_not_utf_8_stays_and_is_told_of(kind: str) -> None:
    arrow = pytest.importorskip("pyarrow")
    text = b"the council voted on Monday to close the old bridge over the river"
    texts = arrow.array([text, text, b"caf\xe9 " + text, None], arrow.binary())
    table: Any = arrow.table({"text": texts})
    if kind in ("arrow", "pandas"):
        table = arrow.table({"text": texts.view(arrow.string())})
    if kind == "pandas":
        pandas = pytest.importorskip("pandas")
        column = pandas.arrays.ArrowExtensionArray(table.column("text"))
        table = pandas.DataFrame({"text": pandas.Series(column)})
    elif kind == "objects":
        table = pytest.importorskip("pandas").DataFrame({"text": texts.to_pylist()})
    elif kind == "polars":
        table = pytest.importorskip("polars").from_arrow(table)
    elif kind == "datasets":
        table = pytest.importorskip("datasets").Dataset(table)
    with pytest.warns(LshdbWarning, match="1 row is kept uncompared: row 2: the text is not valid"):
        assert len(lshdb.deduplicate(table)) == 3
