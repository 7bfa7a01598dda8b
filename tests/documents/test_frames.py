"""Tables in memory: every kind gives the same documents, and wrong ones are named."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

import lshdb
from lshdb import AllRejectedError, Index, InputError, ParameterError
from lshdb.documents.column_tables import is_table

arrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

ROWS: list[dict[str, Any]] = [
    {"id": f"k{n}", "text": f"some words and the number {n}", "day": datetime.date(2026, 1, n + 1)}
    for n in range(20)
]
ROWS[3]["day"] = None
TABLE = arrow.Table.from_pylist(ROWS)


class Dataset:
    """Has what is asked of a ``datasets.Dataset``; its class says that it comes from there."""

    def __init__(self, table: Any) -> None:
        self.table = table

    @property
    def column_names(self) -> list[str]:
        return self.table.column_names

    def __len__(self) -> int:
        return len(self.table)

    def select_columns(self, columns: list[str]) -> Dataset:
        return Dataset(self.table.select(columns))

    def with_format(self, kind: str) -> Dataset:
        assert kind == "arrow"
        return self

    def iter(self, batch_size: int) -> Iterator[Any]:
        assert batch_size > 1
        for start in range(0, len(self.table), 7):
            yield self.table.slice(start, 7)

    @property
    def features(self) -> Any:
        return type("Features", (), {"arrow_schema": self.table.schema})


Dataset.__module__ = "datasets.arrow_dataset"


class Stream:
    """Only hands over Arrow data, as a relation of DuckDB does."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def polars(table: Any) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def scanned(table: Any) -> Any:
    return pytest.importorskip("pyarrow.dataset").dataset(table)


def ibis_table(table: Any) -> Any:
    return pytest.importorskip("ibis").memtable(table)


splits = type("DatasetDict", (dict,), {"__module__": "datasets.dataset_dict"})

KINDS: dict[str, Callable[[Any], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: arrow.RecordBatchReader.from_batches(table.schema, table.to_batches(7)),
    "scanned": scanned,
    "pandas": lambda table: table.to_pandas(),
    "pandas index": lambda table: table.to_pandas().set_index("id"),
    "polars": polars,
    "lazy": lambda table: polars(table).lazy(),
    "dicts": lambda table: table.to_pylist(),
    "splits": lambda table: splits(a=Dataset(table.slice(0, 3)), b=Dataset(table.slice(3))),
    "datasets": Dataset,
    "stream": Stream,
    "ibis": ibis_table,
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "a.lshdb") as made:
        yield made
        assert made.check() == []


def documents(index: Index) -> dict[str, str]:
    return {key: index.show(key).body for (key,) in index.sql("SELECT key FROM document").rows}


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_a_document(kind: str, index: Index) -> None:
    result = index.add(KINDS[kind](TABLE), key="id", text="text", keep=["day"])
    assert (result.added, result.rejected) == (20, 0)
    assert documents(index) == {row["id"]: row["text"] for row in ROWS}
    kept = index.sql("SELECT key, value FROM document_field WHERE name = 'day'").rows
    expected = {row["id"]: row["day"] and row["day"].isoformat() for row in ROWS}
    assert {key: value and value[:10] for key, value in kept} == expected


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"pandas index"}))
def test_rows_are_numbered_from_zero(kind: str, index: Index) -> None:
    index.add(KINDS[kind](TABLE), key=None)
    assert documents(index) == {str(n): row["text"] for n, row in enumerate(ROWS)}
    index.add(KINDS[kind](TABLE), key=None, source="train")
    assert index.show("train:19").body == ROWS[19]["text"]


def test_several_texts_and_missing_values(index: Index) -> None:
    frame = pandas.DataFrame(
        {"title": ["one", None, float("nan")], "body": ["b", "c", None], "n": [1, 2, 3]}
    )
    result = index.add(frame, key="n", text=["title", "body"])
    assert documents(index) == {"1": "one\n\nb", "2": "c"}
    assert [(one.source, one.reason) for one in result.rejections] == [
        ("table: row 2", "the bodies are all null")
    ]


def test_vectors(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame({"id": range(9), "v": list(rng.normal(size=(9, 8)))})
    with Index.create(tmp_path / "v.lshdb", metric="cosine", dim=8, threshold=0.8) as index:
        assert index.add(frame, vector="v").added == 9
        assert index.query(frame["v"][4], top=1)[0].key == "4"


def test_many_rows_of_many_batches(index: Index) -> None:
    n = 20_000
    frame = pandas.DataFrame({"id": range(n), "text": [f"text {i}" for i in range(n)], 7: 0})
    assert index.add(frame).added == n
    assert index.show("19999").body == "text 19999"
    assert index.add(polars(arrow.Table.from_pandas(frame[["id", "text"]]))).unchanged == n


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_table(kind: str, index: Index) -> None:
    if kind == "batch":
        empty = arrow.RecordBatch.from_pylist([], schema=TABLE.schema)
    else:
        empty = KINDS[kind](TABLE.slice(0, 0))
    if kind.startswith("pandas"):
        empty["text"] = empty["text"].astype(str)
    assert index.add(empty).documents == 0


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"pandas index", "dicts"}))
def test_columns_that_are_not_there(kind: str, index: Index) -> None:
    with pytest.raises(ParameterError) as caught:
        index.add(KINDS[kind](TABLE), key="url", text="body", keep=["date"])
    assert caught.value.message == (
        "the table has no column 'url' and no 'body' and no 'date'; the columns are: 'id', 'text', "
        "'day'"
    )
    assert "key=None numbers the rows" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: pandas.DataFrame({"id": [1], "text": [2]}), ParameterError,
         "a column 'text' of int64, expected strings"),
        (lambda: pandas.DataFrame([[1, "a", "b"]], columns=["id", "text", "text"]), ParameterError,
         "more than one column 'text'"),
        (lambda: pandas.DataFrame({"id": [1, "a"], "text": ["a", "b"]}), InputError,
         "cannot be converted to Arrow"),
        (lambda: pandas.Series(["a"]), ParameterError, "no column 'id'; the columns are: 'text'"),
        (lambda: pandas.Index(["a"]), ParameterError, "the table is of type Index"),
        (lambda: arrow.array(["a"]), ParameterError, "no column 'id'; the columns are: 'text'"),
        (lambda: splits(train=1, test=2), ParameterError, "the table is of type DatasetDict"),
        (lambda: ["a"], InputError, "the documents hold 'a'"),
    ],
)  # fmt: skip
def test_what_is_no_table(
    make: Callable[[], Any], error: type[Exception], words: str, index: Index
) -> None:
    with pytest.raises(error, match=words):
        index.add(make())


def test_the_splits_of_a_dataset_come_one_after_another(index: Index) -> None:
    index.add(splits(train=Dataset(TABLE.slice(0, 5)), test=Dataset(TABLE.slice(5))), key=None)
    assert [*index] == [str(number) for number in range(20)]
    other = TABLE.slice(5).set_column(0, "id", arrow.array(range(15)))
    with pytest.raises(ParameterError, match="the split 'test' has other types of columns"):
        index.add(splits(train=Dataset(TABLE.slice(0, 5)), test=Dataset(other)))


@pytest.mark.parametrize("is_iterator", [False, True])
def test_dicts_are_records(index: Index, is_iterator: bool) -> None:
    rows: list[Any] = [
        *ROWS,
        {"id": "x"},
        {"id": np.int64(7), "text": "a text of its own"},
        "no dict",
        {"id": 2**64, "text": "a text of its own"},
        {"id": 10**5_000, "text": "a text of its own"},
    ]
    result = index.add(iter(rows) if is_iterator else rows, keep="day")
    assert (result.added, result.rejected) == (21, 4)
    larger = "key 'id' is a number that is not a 64-bit integer, expected a string or an integer"
    assert [f"{rejection.source}: {rejection.reason}" for rejection in result.rejections] == [
        "row 20: no field 'text'; the fields are: 'id'; name them by key= and text=",
        "row 22: it is of type str, expected a dict",
        f"row 23: {larger}",
        f"row 24: {larger}",
    ]
    assert index.fields(["k1", "7"]) == {"k1": {"day": "2026-01-02"}, "7": {}}
    with pytest.raises(ParameterError, match="text names a column"):
        index.add([("a", "b")], text="title")


def test_a_dict_holds_any_body_that_a_pair_may_hold(tmp_path: Path, index: Index) -> None:
    tokens = [("x", "y"), {"x", "y"}, ["x", "y"], frozenset("xy"), b"x y", np.array(["x"]), None]
    result = index.add([{"id": str(place), "text": body} for place, body in enumerate(tokens)])
    assert (result.added, result.rejected) == (4, 3)
    assert [f"{rejection.source}: {rejection.reason}" for rejection in result.rejections] == [
        "row 4: the text is of type bytes, expected a string, or a list, tuple or set of strings",
        "row 5: the text is of type ndarray, expected a string, or a list, tuple or set of strings",
        "row 6: text 'text' is null, expected a string or an array of strings",
    ]
    with Index.create(tmp_path / "v.lshdb", metric="l2", dim=2, threshold=1) as vectors:
        assert vectors.add([{"id": "a", "vector": np.array([1.0, 2.0])}]).added == 1
        with pytest.raises(AllRejectedError, match="is of type UUID, expected a string or an int"):
            vectors.add([{"id": UUID(int=1), "vector": (1.0, 2.0)}])


TEXTS = [row["text"] for row in ROWS]
COLUMNS: dict[str, Callable[[], Any]] = {
    "list": lambda: TEXTS,
    "iterator": lambda: iter(TEXTS),
    "numpy": lambda: np.array(TEXTS),
    "numpy objects": lambda: np.array(TEXTS, dtype=object),
    "arrow": lambda: arrow.array(TEXTS),
    "chunks": lambda: TABLE.column("text"),
    "dictionary": lambda: arrow.array(TEXTS).dictionary_encode(),
    "pandas series": lambda: pandas.Series(TEXTS, name="body", index=[0] * 20),
    "polars series": lambda: polars(TABLE)["text"].alias("body"),
    "pandas series with keys": lambda: TABLE.to_pandas().set_index("id")["text"].rename("body"),
    "column of a dataset": lambda: pytest.importorskip("datasets").Dataset(TABLE)["text"],
    "column of ibis": lambda: ibis_table(TABLE).text,
    "column of a stream": lambda: Stream(TABLE.column("text")),
    "values of a dict": lambda: dict(enumerate(TEXTS)).values(),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_alone_are_numbered(kind: str, index: Index) -> None:
    result = index.add(COLUMNS[kind](), key=None, source="news")
    assert result.added == 20 and documents(index)["news:7"] == TEXTS[7]


def test_texts_that_are_missing_cost_their_row(index: Index) -> None:
    for texts in ([None, "one text"], np.array([float("nan"), "one text"], object)):
        result = index.add(texts, key=None)
        assert [(one.source, one.reason) for one in result.rejections] == [
            ("row 0", "the body is null")
        ]


def test_advice_takes_the_same(index: Index) -> None:
    for table in (COLUMNS["numpy"](), polars(TABLE).lazy(), ROWS, TABLE.to_reader(), iter(TEXTS)):
        assert lshdb.advise(table, sample=5, aim="exact-copies").documents == 20
    frame = TABLE.to_pandas().rename(columns={"text": "body"})
    assert lshdb.advise(frame, text="body", key="id", sample=5, aim="exact-copies").documents == 20


@pytest.mark.parametrize(
    "names", [{"key": "x"}, {"key": None}, {"text": "t"}, {"vector": "v"}, {"keep": ["a"]}]
)
def test_columns_of_what_is_no_table(names: dict[str, Any], index: Index) -> None:
    with pytest.raises(ParameterError, match="names a column of a table, but the documents are of"):
        index.add([("a", "text")], **names)
    assert not is_table([("a", "text")]) and not is_table("text") and not is_table(np.ones(3))


@pytest.mark.parametrize("names", [{"key": 7}, {"text": 7}, {"vector": ["v"]}, {"keep": 7}])
def test_names_that_are_none(names: dict[str, Any], index: Index) -> None:
    with pytest.raises(ParameterError, match="expected a name of a column"):
        index.add(TABLE, **names)


def test_without_pyarrow_the_error_names_the_extra(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = TABLE.to_pandas()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="reading tables needs pyarrow") as caught:
        index.add(frame)
    assert "[parquet]" in (caught.value.hint or "")


def test_kept_values_are_json(index: Index) -> None:
    frame = pandas.DataFrame(
        {
            "id": ["a"], "text": ["x"], "at": pandas.to_datetime(["2026-11-22T01:02:03"]),
            "kind": pandas.Categorical(["news"]), "n": pandas.array([None], "Int64"),
        }
    )  # fmt: skip
    index.add(frame, keep=("at", "kind", "n"))
    rows = index.sql("SELECT name, value FROM document_field").rows
    assert dict(map(tuple, rows)) == {"at": "2026-11-22T01:02:03", "kind": "news", "n": None}


def test_a_lone_surrogate_in_a_frame_costs_its_row(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    texts = pandas.Series(["one two", None, "bad \ud800", "three"], dtype=object)
    frame = pandas.DataFrame({"id": ["a", "b", "c", "d"], "text": texts, "n": [1, 2, 3, 4]})
    with Index.create(tmp_path / "x.lshdb") as index:
        result = index.add(frame, keep=["n"])
        assert (result.added, result.rejected) == (2, 2)
        assert result.rejections[1].reason == "the text is not valid UTF-8 at byte 5"
