"""Keys by row, texts of several fields, and fields that are kept: the same in every format."""

from __future__ import annotations

import datetime
import decimal
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, ParameterError
from lshdb.documents.document import Document
from lshdb.documents.formats.objects import joined
from lshdb.documents.read import read_documents

pytestmark = pytest.mark.fast

Read = Callable[..., tuple[list, list]]
ROWS: list[dict[str, Any]] = [
    {"title": "one", "abstract": "first words", "year": "2001"},
    {"title": "two", "abstract": None, "year": "2002"},
    {"title": None, "abstract": "third words", "year": None},
]
TEXTS = ["one\n\nfirst words", "two", "third words"]


def write(path: Path) -> Path:
    """The rows in the format of the path's extension."""
    kind = path.suffix
    if kind == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(ROWS), path)
    elif kind == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        between = "," if kind == ".csv" else "\t"
        lines = [list(ROWS[0]), *([value or "" for value in row.values()] for row in ROWS)]
        path.write_text("".join(between.join(line) + "\n" for line in lines))
    return path


kinds = pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])


@kinds
def test_a_row_key_is_the_path_and_a_number_from_one(
    kind: str, tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / f"a.{kind}")
    monkeypatch.chdir(tmp_path)
    expected = [f"d/a.{kind}:{number}" for number in (1, 2, 3)]
    options = {"row_keys": True, "text_field": ["title", "abstract"]}
    for given in ("d", f"./d//a.{kind}", f"d/*.{kind}"):
        documents, rejected = read(given, **options)
        assert [d.key for d in documents] == expected and rejected == []
    write(tmp_path / "d" / f"0.{kind}")  # whatever other files come along
    assert [d.key for d in read("d", **options)[0]][3:] == expected


def test_row_keys_count_lines_of_json_and_records_of_csv(read_bytes: Read) -> None:
    lines = b'\n{"text": "a"}\nnope\n{"text": "b"}\n'
    assert [d.key for d in read_bytes(lines, row_keys=True)[0]] == ["-:2", "-:4"]
    records = b'text,x\n"a\nb",1\n\nc\nd,2\n'
    documents, _ = read_bytes(records, row_keys=True, input_format="csv")
    assert [(d.key, d.body) for d in documents] == [("-:1", "a\nb"), ("-:3", "d")]


def test_row_keys_of_arrays_have_the_path_too(tmp_path: Path, read: Read) -> None:
    import numpy as np

    np.save(tmp_path / "v.npy", np.ones((2, 3)))
    np.savez(tmp_path / "v.npz", vector=np.ones((2, 3)), id=np.array(["a", "b"]))
    for name in ("v.npy", "v.npz"):
        path = tmp_path / name
        documents, _ = read(path, body="vector", row_keys=True)
        assert [d.key for d in documents] == [f"{path}:0", f"{path}:1"]


@pytest.mark.parametrize("other", [{"key_field": "id"}, {"keys": "keys.txt"}])
def test_keys_come_from_one_place(other: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match="both say where the keys come from"):
        read_documents(["-"], row_keys=True, **other)


@kinds
def test_texts_of_several_fields_are_joined_in_the_order_named(
    kind: str, tmp_path: Path, read: Read
) -> None:
    path = write(tmp_path / f"a.{kind}")
    documents, rejected = read(path, row_keys=True, text_field=["title", "abstract", "nope"])
    assert [d.body for d in documents] == TEXTS and rejected == []
    documents, _ = read(path, row_keys=True, text_field=("abstract", "title"))
    assert documents[0].body == "first words\n\none"


def test_a_record_without_any_of_the_texts_is_rejected(
    tmp_path: Path, read: Read, read_bytes: Read
) -> None:
    options = {"row_keys": True, "text_field": ["title", "abstract"]}
    lines = b'{"x": 1}\n{"title": null}\n{"title": 7}\n{"title": ["a"], "abstract": "b"}\n'
    documents, rejected = read_bytes(lines, **options)
    assert documents == []
    assert [one.reason for one in rejected] == [
        "no fields 'title' and 'abstract'; the fields are: 'x'; give --text-field NAME",
        "the texts 'title' and 'abstract' are all missing or null",
        "text 'title' is an integer, expected a string: texts of several fields are joined",
        "text 'title' is an array, expected a string: texts of several fields are joined",
    ]
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"title": ["a", None], "n": [1, 2]})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    documents, (rejected,) = read(tmp_path / "a.parquet", **options)
    assert [d.body for d in documents] == ["a"] and rejected.reason == "the bodies are all null"
    _, (rejected,) = read(tmp_path / "a.parquet", row_keys=True, text_field=["title", "n"])
    assert "a column 'n' of int64, expected strings" in rejected.reason
    assert joined([None, None]) is None and joined(["", None]) == ""


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], [7], 7, b"a"])
@pytest.mark.parametrize("parameter", ["text_field", "keep_fields"])
def test_names_that_are_none(parameter: str, names: Any) -> None:
    with pytest.raises(ParameterError, match=parameter):
        read_documents(["-"], **{parameter: names})


@kinds
def test_fields_are_kept(kind: str, tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / f"a.{kind}")
    said: list[str] = []
    options = {"row_keys": True, "text_field": ["title", "abstract"], "on_note": said.append}
    documents, _ = read(path, keep_fields=["year", "title"], **options)
    missing = "" if kind in ("csv", "tsv") else None
    assert [d.fields for d in documents] == [
        {"year": "2001", "title": "one"}, {"year": "2002", "title": "two"},
        {"year": missing, "title": missing},
    ]  # fmt: skip
    assert said == []
    documents, _ = read(path, keep_fields=["year", "nope"], **options)
    assert documents[0].fields == {"year": "2001"}
    assert said == [
        "no record has the field 'nope' to keep; the last one has: 'title', 'abstract', 'year'"
    ]


def test_the_note_is_logged_where_nobody_takes_it(
    read_bytes: Read, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="lshdb"):
        documents, _ = read_bytes(b'{"id": 1, "text": "x"}', keep_fields="date")
    assert documents == [Document("1", "x", "<stdin>:1")]
    assert "no record has the field 'date' to keep" in caplog.text


def test_json_values_are_kept_as_they_are(read_bytes: Read) -> None:
    line = b'{"id": 1, "text": "x", "a": [1, {"b": null}], "c": 1.5, "d": false}'
    documents, _ = read_bytes(line, keep_fields=["d", "a", "c"])
    assert documents[0].fields == {"d": False, "a": [1, {"b": None}], "c": 1.5}


def test_values_of_parquet_are_kept_as_json_has_them(tmp_path: Path, read: Read) -> None:
    from lshdb.documents.document import json_fields

    arrow = pytest.importorskip("pyarrow")
    day = datetime.date(2026, 11, 22)
    table = arrow.table(
        {
            "id": [1], "text": ["x"], "day": [day], "n": [7],
            "at": arrow.array([1_500], arrow.timestamp("ns", "UTC")),
            "price": [decimal.Decimal("1.50")], "tags": [["a", None]],
            "took": arrow.array([1_500_000_000], arrow.duration("ns")), "raw": [b"x"],
            "map": arrow.array([[("a", day), ("b", None)]],
                               arrow.map_(arrow.string(), arrow.date32())),
            "maps": arrow.array([[[(1, 2.5)], []]],
                                arrow.list_(arrow.map_(arrow.int8(), arrow.float64()))),
            "deep": arrow.array([{"at": [253_402_300_800], "price": decimal.Decimal("1.50")}],
                                arrow.struct({"at": arrow.list_(arrow.timestamp("s")),
                                              "price": arrow.decimal128(4, 2)})),
            "infinite": [float("inf")], "nan": [float("nan")],
        }
    )  # fmt: skip
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    documents, _ = read(path, keep_fields=table.column_names[2:])
    assert json.loads(json_fields(documents[0].fields)) == {
        "day": "2026-11-22", "n": 7, "at": "1970-01-01T00:00:00.000001500+00:00", "price": "1.50",
        "tags": ["a", None], "took": "PT1.5S", "raw": "x", "map": {"a": "2026-11-22", "b": None},
        "maps": [{"1": 2.5}, {}], "deep": {"at": ["+10000-01-01T00:00:00"], "price": "1.50"},
        "infinite": "Infinity", "nan": None,
    }  # fmt: skip


def test_bytes_that_are_no_text_cost_their_row(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    rows = arrow.table({"id": ["a", "b"], "text": ["x", "y"], "raw": [b"ok", b"\xff"]})
    with Index.create(tmp_path / "x.lshdb") as index:
        result = index.add(rows, keep=["raw"])
        assert (result.added, result.rejected) == (1, 1)
        assert "binary values that are not UTF-8" in result.rejections[0].reason


def test_a_text_that_is_not_utf_8_is_null(tmp_path: Path, read: Read) -> None:
    arrow = pytest.importorskip("pyarrow")
    column = arrow.array([b"ok", b"caf\xe9", None], arrow.binary()).view(arrow.string())
    rows = arrow.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "author": column})
    pytest.importorskip("pyarrow.parquet").write_table(rows, tmp_path / "a.parquet")
    documents, rejected = read(tmp_path / "a.parquet", keep_fields="author")
    assert [d.fields for d in documents] == [{"author": "ok"}, {"author": None}, {"author": None}]
    assert rejected == []
