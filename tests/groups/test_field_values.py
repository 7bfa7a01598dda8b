"""Values to choose by: files, an index and tables in memory choose alike."""

from __future__ import annotations

import csv
import datetime
import importlib
import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lshdb
from lshdb import Index, InputError, LshdbWarning, ParameterError, read_documents
from tests.field_values import COLUMNS, UNORDERED, table

columns = pytest.mark.parametrize("name", COLUMNS)
unordered = pytest.mark.parametrize("name", UNORDERED)
KEEPS = {"field:v": "large", "field:-v": "small"}
"""``NaN`` and null are last in both directions."""
_NUMBERS = itertools.count()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The place of a file."""
    return tmp_path / "in.parquet"


def indexed(path: Path, *, is_kept: bool) -> Index:
    """An index of a file that keeps the field, or not."""
    index = Index.create(path.parent / f"{next(_NUMBERS)}.lshdb")
    index.add(read_documents([path], keep_fields=["v"] if is_kept else []))
    return index


def kept_by_index(path: Path, keep: str) -> list[str]:
    with indexed(path, is_kept=True) as index:
        return [one.key for one in index.dedup(keep=keep, only="keep")]


def kept_of_file(path: Path, keep: str) -> list[str]:
    out = path.with_stem("out")
    with indexed(path, is_kept=False) as index:
        index.dedup_files([path], out, keep=keep, overwrite=True)
    keys: list[str] = pq.read_table(out, columns=["id"]).column("id").to_pylist()
    return keys


@columns
@pytest.mark.parametrize("keep", KEEPS)
def test_files_an_index_and_tables_keep_the_same(name: str, keep: str, path: Path) -> None:
    rows = table(COLUMNS[name])
    pq.write_table(rows, path)
    expected = [KEEPS[keep], "other"]
    assert kept_of_file(path, keep) == expected
    assert kept_by_index(path, keep) == expected
    assert lshdb.deduplicate(rows, keep=keep).column("id").to_pylist() == expected


@unordered
def test_values_without_an_order_are_refused_with_two_documents(name: str, path: Path) -> None:
    column, said = UNORDERED[name]
    pq.write_table(table(column), path)
    with pytest.raises(ParameterError, match=f"'field:v', and its values cannot .*{said}") as told:
        kept_of_file(path, "field:v")
    assert "'small'" in str(told.value)
    if name == "bytes":
        with indexed(path, is_kept=True) as index:
            assert len(index) == 2  # the others are rejected
        with pytest.raises(InputError, match=r"row 1 holds b'\\xff' in 'v', of type bytes"):
            lshdb.deduplicate(table(column), keep="field:v")
        return
    with pytest.raises(ParameterError, match=said):
        kept_by_index(path, "field:v")
    with pytest.raises(ParameterError, match=said):
        lshdb.deduplicate(table(column), keep="field:v")


def test_only_documents_that_are_similar_to_others_are_compared(path: Path) -> None:
    rows = table(pa.array(["8", "9", "10"]))
    rows = rows.set_column(2, "v", pa.array(["8", "9", "10", "none"]))
    pq.write_table(rows, path)
    assert kept_by_index(path, "field:v") == ["large", "other"]
    assert lshdb.deduplicate(rows, keep="field:v").column("id").to_pylist() == ["large", "other"]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "json"])
@pytest.mark.parametrize(
    "values",
    [
        ["", "9", "10"],
        [None, 2**64 + 1, 2**64 + 2],
        [None, 1e308, "1e309"],
        [None, "2024-01-09T05:00:00+02:00", "2024-01-09T03:00:01Z"],
        ["nan", "-Infinity", 0],
    ],
)
def test_numbers_and_times_in_texts(ending: str, values: list[Any], tmp_path: Path) -> None:
    path = tmp_path / f"in.{ending}"
    rows = table(pa.array([None, 1, 2])).to_pylist()
    for row, value in zip(rows, [*values, None], strict=True):
        row["v"] = value
    if ending in ("csv", "tsv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=",\t"[ending == "tsv"])
            writer.writeheader()
            writer.writerows(rows)
    elif ending == "json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert kept_by_index(path, "field:v") == ["large", "other"]
    if ending == "json":
        return
    out = tmp_path / f"out.{ending}"
    with indexed(path, is_kept=False) as index:
        index.dedup_files([path], out, keep="field:v")
        said = out.read_text()
        assert ("large" in said, "small" in said, "none" in said) == (True, False, False)
        if ending == "jsonl":
            lines = [json.loads(line)["id"] for line in index.filter(path, keep="field:v")]
            assert lines == ["large", "other"]


def test_numbers_of_json_beyond_64_bits_are_compared_exactly(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    text = table(pa.array([None, 1, 2])).column("text").to_pylist()
    values = ["NaN", "18446744073709551617", "18446744073709551618", "1e400"]
    path.write_text(
        "".join(
            f'{{"id": "{key}", "text": "{text[0]}", "v": {value}}}\n'
            for key, value in zip("abcd", values, strict=True)
        )
    )
    for keep, kept in (("field:v", "d"), ("field:-v", "b")):
        with Index.create(tmp_path / f"{kept}.lshdb") as index:
            index.add(read_documents([path], keep_fields="v"))
            assert [one.key for one in index.dedup(keep=keep, only="keep")] == [kept]
            assert [json.loads(line)["id"] for line in index.filter(path, keep=keep)] == [kept]
            index.dedup_files([path], tmp_path / f"{kept}.jsonl", keep=keep)
            assert json.loads((tmp_path / f"{kept}.jsonl").read_text())["id"] == kept


FRAMES: dict[str, Any] = {
    "pandas": lambda rows: importlib.import_module("pandas").DataFrame(rows),
    "dicts": lambda rows: rows,
    "polars": lambda rows: importlib.import_module("polars").DataFrame(rows),
    "datasets": lambda rows: importlib.import_module("datasets").Dataset(
        pa.Table.from_pylist(rows)
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "values",
    [
        [None, Decimal(9), Decimal(10)],
        [None, datetime.timedelta(9), datetime.timedelta(10)],
        [None, datetime.datetime(999, 1, 9), datetime.datetime(2024, 1, 9)],
        [None, datetime.time(9), datetime.time(10)],
        [float("nan"), 9.0, 10.0],
        [None, b"a", b"b"],
    ],
)
def test_values_of_tables_in_memory(kind: str, values: list[Any]) -> None:
    if kind in ("polars", "datasets"):
        pytest.importorskip(kind)
    rows = [
        {"id": key, "text": "a b c d e f", "v": v} for key, v in zip("nsl", values, strict=True)
    ]
    for keep, kept in (("field:v", "l"), ("field:-v", "s")):
        found = lshdb.deduplicate(FRAMES[kind](rows), keep=keep)
        assert list(found["id"] if kind != "dicts" else [row["id"] for row in found]) == [kept]


@pytest.mark.parametrize("kind", ["pandas", "dicts"])
def test_whole_numbers_beyond_64_bits(kind: str) -> None:
    rows = [{"text": "a b c d e f", "v": value} for value in (None, 2**70, 2**70 + 1)]
    found = FRAMES[kind](rows)
    kept = lshdb.deduplicate(found, keep="field:v")
    assert list(kept["v"] if kind != "dicts" else [row["v"] for row in kept]) == [2**70 + 1]


def test_a_value_that_cannot_be_kept_is_told() -> None:
    rows = [{"text": "a b c d e f", "v": value} for value in (1, object())]
    with pytest.raises(InputError, match=r"row 1 holds <object .* in 'v', of type object") as told:
        lshdb.deduplicate(rows, keep="field:v")
    assert "numbers" in (told.value.hint or "")


def test_columns_of_the_index_that_are_texts_are_compared_as_texts(tmp_path: Path) -> None:
    text = "a b c d e f"
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add([("9", text), ("10", text), ("x", text), ("1.10.2", text)])
        assert [one.key for one in index.dedup(keep="field:key", only="keep")] == ["x"]
        assert [one.key for one in index.dedup(keep="field:-key", only="keep")] == ["1.10.2"]
        for name in ("added_at", "n_chars", "batch_id", "source"):
            assert [one.key for one in index.dedup(keep=f"field:{name}", only="keep")] == ["9"]


@pytest.mark.parametrize(
    "column",
    [
        pa.nulls(3),
        pa.array([float("nan")] * 3),
        pa.array([None, "", " "]),
        pa.nulls(3, pa.date32()),
    ],
    ids=lambda column: str(column.type),
)
def test_without_any_value_the_oldest_is_kept(column: Any, path: Path) -> None:
    rows = table(column)
    pq.write_table(rows, path)
    expected = ["none", "other"]
    for keep in KEEPS:
        assert kept_of_file(path, keep) == expected
        assert kept_by_index(path, keep) == expected
        assert lshdb.deduplicate(rows, keep=keep).column("id").to_pylist() == expected


def test_whole_numbers_of_128_bits_of_polars() -> None:
    polars = pytest.importorskip("polars")
    values = polars.Series("v", [None, 2**100, 2**100 + 1], dtype=polars.Int128)
    frame = polars.DataFrame({"text": ["a b c d e f"] * 3}).with_columns(values)
    assert lshdb.deduplicate(frame, keep="field:v")["v"].to_list() == [2**100 + 1]


@pytest.mark.parametrize("others", [["a b c d e f"] * 2, []])
def test_rows_that_an_index_refuses_stay_and_are_told(others: list[str]) -> None:
    texts = ["half \ud83d of an emoji", *others, "another \ud83d"]
    said = "2 rows are kept uncompared: row 0: the text holds a lone surrogate at character 6"
    with pytest.warns(LshdbWarning, match=said) as warned:
        kept = lshdb.deduplicate(texts)
    assert kept == [texts[0], *others[:1], texts[-1]]
    assert warned[0].filename == __file__
