"""Columns of tables: what keys, texts and values may be, and one value that cannot be read."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, read_documents
from lshdb.documents.document import Rejected

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

Read = Callable[..., tuple[list, list]]
UUIDS = [uuid.UUID(int=n) for n in (1, 2)]
FORMS = ["parquet", "file", "stream"]


def write(path: Path, columns: dict[str, Any] | Any, form: str = "parquet", **options: Any) -> Path:
    table = columns if isinstance(columns, arrow.Table) else arrow.table(columns)
    if form == "parquet":
        parquet.write_table(table, path, **options)
        return path
    make = arrow.ipc.new_file if form == "file" else arrow.ipc.new_stream
    with make(path, table.schema) as writer:
        writer.write_table(table, **options)
    return path


def as_text(values: list[bytes | None], kind: Any = None) -> Any:
    """Bytes as a column of strings, whether they are UTF-8 or not."""
    return arrow.array(values, arrow.binary()).view(kind or arrow.string())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (arrow.array([each.bytes for each in UUIDS], arrow.uuid()), list(map(str, UUIDS))),
        (arrow.array(map(decimal.Decimal, (7, 8)), arrow.decimal128(38, 0)), ["7", "8"]),
        (arrow.array(map(decimal.Decimal, (7, -8)), arrow.decimal256(50, 0)), ["7", "-8"]),
        (arrow.array([b"a", "é".encode()], arrow.binary()), ["a", "é"]),
        (arrow.array([b"a", b"b"], arrow.large_binary()), ["a", "b"]),
        (arrow.array([b"aa", b"bb"], arrow.binary(2)), ["aa", "bb"]),
        (arrow.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (arrow.array([5, 6], arrow.uint64()), ["5", "6"]),
        (arrow.array(["a", "b"], arrow.large_string()), ["a", "b"]),
    ],
)
def test_keys(form: str, column: Any, keys: list[str], tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a", {"id": column, "text": ["x y", "z w"]}, form)
    documents, rejected = read(path)
    assert ([each.key for each in documents], rejected) == (keys, [])


def test_keys_that_are_none(tmp_path: Path, read: Read) -> None:
    for column, reason in (
        (arrow.array([b"\xff"]), "the key is not valid UTF-8 at byte 1"),
        (arrow.array([decimal.Decimal("1.50")]), "the key is of type Decimal, expected a string"),
        (arrow.array([True]), "the key is of type bool, expected a string"),
        (arrow.array([datetime.date(2026, 1, 1)]), "the key is of type date, expected a string"),
    ):
        path = write(tmp_path / "a.parquet", {"id": column, "text": ["x"]})
        documents, (rejected,) = read(path)
        assert documents == [] and rejected.reason == reason


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind",
    ["binary", "large_binary", "string_view", "binary_view", "json", "json_large", "dictionary"],
)
def test_texts(form: str, kind: str, tmp_path: Path, read: Read) -> None:
    texts = ["one twö", "three"]
    if kind == "dictionary":
        column = arrow.array(texts).cast(arrow.binary()).dictionary_encode()
    elif kind.startswith("json"):
        storage = arrow.string() if kind == "json" else arrow.large_string()
        column = arrow.ExtensionArray.from_storage(
            arrow.json_(storage), arrow.array(texts, storage)
        )
    else:
        column = arrow.array(texts).cast(getattr(arrow, kind)())
    path = write(tmp_path / "a", {"id": ["a", "b"], "text": column}, form)
    documents, rejected = read(path)
    assert ([each.body for each in documents], rejected) == (texts, [])
    documents, rejected = read(path, text_field=["id", "text"])
    assert [each.body for each in documents] == ["a\n\none twö", "b\n\nthree"]


def test_tokens_and_weights_of_binary_values(tmp_path: Path, read: Read) -> None:
    columns = {
        "id": ["a"],
        "text": arrow.array([[b"one", b"two"]]),
        "weights": arrow.array([[(b"one", 1.5)]], arrow.map_(arrow.binary(), arrow.float64())),
    }
    path = write(tmp_path / "a.parquet", columns)
    assert read(path)[0][0].body == ["one", "two"]
    assert read(path, body="weights", text_field="weights")[0][0].body == {"one": 1.5}


def test_binary_values_are_bits_where_bits_are_expected(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.parquet", {"id": ["a"], "text": [b"one"], "vector": [b"\xff\x01"]})
    (document,), _ = read(path, body="bits")
    assert document.body.tolist() == [255, 1]


def test_runs_and_lists_of_references(tmp_path: Path, read: Read) -> None:
    runs = arrow.RunEndEncodedArray.from_arrays([2, 3], ["x y", "z"])
    path = write(tmp_path / "a.arrow", {"id": ["a", "b", "c"], "text": runs}, "file")
    assert [each.body for each in read(path)[0]] == ["x y", "x y", "z"]
    tokens = arrow.ListArray.from_arrays(
        [0, 2, 3], arrow.array(["x", "y", "x"]).dictionary_encode()
    )
    for form in FORMS:
        path = write(tmp_path / "b", {"id": ["a", "b"], "text": tokens}, form)
        assert [each.body for each in read(path)[0]] == [["x", "y"], ["x"]]


BAD_TEXTS = [b"good one", b"caf\xe9", None, b"good two"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_more", [0, 20_000])
def test_a_text_that_is_not_utf_8_costs_its_row(
    form: str, n_more: int, tmp_path: Path, read: Read
) -> None:
    texts = [*BAD_TEXTS, *(b"more %d" % n for n in range(n_more))]
    keys = list(map(str, range(len(texts))))
    for kind in (arrow.string(), arrow.binary()):
        path = write(tmp_path / "a", {"id": keys, "text": as_text(texts, kind)}, form)
        documents, rejected = read(path)
        assert [each.key for each in documents] == ["0", "3", *keys[4:]]
        assert [(each.source, each.reason) for each in rejected] == [
            (f"{path}: row 2", "the text is not valid UTF-8 at byte 4"),
            (f"{path}: row 3", "the body is null"),
        ]


@pytest.mark.parametrize("form", FORMS)
def test_a_key_that_is_not_utf_8_costs_its_row(form: str, tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a", {"id": as_text([b"\xe9", b"b"]), "text": ["x", "y"]}, form)
    (document,), (rejected,) = read(path)
    assert document.key == "b" and rejected.reason == "the key is not valid UTF-8 at byte 1"


@pytest.mark.parametrize("form", FORMS)
def test_a_token_or_a_reference_that_is_not_utf_8_costs_its_rows(
    form: str, tmp_path: Path, read: Read
) -> None:
    tokens = arrow.ListArray.from_arrays([0, 2, 3], as_text([b"a", b"\xff", b"c"]))
    path = write(tmp_path / "a", {"id": ["a", "b"], "text": tokens}, form)
    (document,), (rejected,) = read(path)
    assert document.body == ["c"] and "valid UTF-8" in rejected.reason
    texts = arrow.DictionaryArray.from_arrays([0, 1, 0], as_text([b"good", b"\xff"]))
    # With a schema of Arrow's in it, pyarrow refuses such a dictionary of a Parquet file itself.
    options = {"store_schema": False} if form == "parquet" else {}
    path = write(tmp_path / "b", {"id": ["a", "b", "c"], "text": texts}, form, **options)
    documents, (rejected,) = read(path)
    assert [each.key for each in documents] == ["a", "c"] and "valid UTF-8" in rejected.reason


@pytest.mark.parametrize("form", FORMS)
def test_values_that_python_has_not_cost_nothing(form: str, tmp_path: Path, read: Read) -> None:
    far = 253_402_300_800  # 10000-01-01
    columns = {
        "id": ["a", "b"], "text": ["x", "y"],
        "at": arrow.array([0, far], arrow.timestamp("s")),
        "zoned": arrow.array([0, 1], arrow.timestamp("s", "Mars/Olympus")),
        "who": as_text([b"ok", b"\xff"]),
        "deep": arrow.StructArray.from_arrays(
            [arrow.array([b"ok", b"\xc3\xa9"]), arrow.array([decimal.Decimal("1.50")] * 2)],
            ["raw", "price"],
        ),
    }  # fmt: skip
    path = write(tmp_path / "a", columns, form)
    documents, rejected = read(path, keep_fields=["at", "zoned", "who", "deep"])
    assert rejected == []
    assert [each.fields for each in documents] == [
        {"at": "1970-01-01T00:00:00", "zoned": "1970-01-01T00:00:00+00:00", "who": "ok",
         "deep": {"raw": "ok", "price": "1.50"}},
        {"at": "+10000-01-01T00:00:00", "zoned": "1970-01-01T00:00:01+00:00", "who": None,
         "deep": {"raw": "é", "price": "1.50"}},
    ]  # fmt: skip


def test_an_index_takes_a_table_with_bad_values(tmp_path: Path) -> None:
    table = arrow.table({"id": arrow.array(["a", "b", "c", "d"]), "text": as_text(BAD_TEXTS)})
    with Index.create(tmp_path / "x.lshdb") as index:
        result = index.add(table)
        assert (result.added, result.rejected) == (2, 2)
        assert index.check() == []


def test_offsets_that_point_elsewhere_are_damage(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.arrow", {"id": ["a", "b"], "text": as_text([b"abc", b"\xff"])}, "file"
    )
    content = path.read_bytes()
    offsets = np.array([0, 3, 4], dtype=np.int32).tobytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, np.array([0, 3, 2**20], dtype=np.int32).tobytes()))
    (only,) = read_documents([path])
    assert isinstance(only, Rejected) and "cannot be read as Arrow" in only.reason
