"""Parquet: columns of every kind, keys, damage, and what is said without pyarrow."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb import InputError, read_documents
from lshdb.documents.read import peek_documents
from tests.documents.conftest import peak

Read = Callable[..., tuple[list, list]]
NUMBERS = np.arange(12).reshape(4, 3)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="needs pyarrow") as caught:
        read_documents([tmp_path])
    assert "[parquet]" in str(caught.value.hint)


@pytest.fixture(scope="module")
def arrow() -> Any:
    pytest.importorskip("pyarrow.parquet")
    return sys.modules["pyarrow"]


@pytest.fixture(scope="module")
def table(arrow: Any) -> Callable[..., Path]:
    """Write columns, in row groups of three."""

    def write(path: Path, **columns: Any) -> Path:
        arrow.parquet.write_table(arrow.table(columns), path, row_group_size=3)
        return path

    return write


Table = Callable[..., Path]


@pytest.mark.parametrize("form", ["list_", "large_list", "fixed"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "bool_"])
def test_lists_of_numbers_are_arrays(
    form: str, dtype: str, arrow: Any, table: Table, tmp_path: Path, read: Read
) -> None:
    element = getattr(arrow, dtype)()
    array = (NUMBERS % 2 == 0) if dtype == "bool_" else NUMBERS.astype(dtype)
    kind = arrow.list_(element, 3) if form == "fixed" else getattr(arrow, form)(element)
    column = arrow.array([list(row) for row in array], type=kind)
    path = table(tmp_path / "v.parquet", id=arrow.array([1, 2, 3, 4]), vector=column)
    documents, rejected = read(path, body="vector")
    assert rejected == []
    assert [(d.key, d.source) for d in documents] == [
        (str(n), f"{path}: row {n}") for n in range(1, 5)
    ]
    assert all(isinstance(d.body, np.ndarray) for d in documents)
    assert np.array_equal(np.array([d.body for d in documents]), array)
    assert documents[0].body.dtype == array.dtype
    peek, items = peek_documents([path], body="vector", sample=2)
    assert (peek.dim, len(peek.bodies), len(list(items))) == (3, 2, 4)


def test_lists_of_several_lengths_and_of_other_numbers(
    arrow: Any, table: Table, tmp_path: Path, read: Read
) -> None:
    column = arrow.array([[1.0], [], [2.0, 3.0], [4.0]])
    path = table(tmp_path / "v.parquet", id=["a", "b", "c", "d"], vector=column)
    assert [d.body.tolist() for d in read(path, body="vector")[0]] == [[1], [], [2, 3], [4]]
    column = arrow.array([[1, 2], [3, None]])
    path = table(tmp_path / "v.parquet", id=["a", "b"], vector=column)
    assert [d.body for d in read(path, body="vector")[0]] == [[1, 2], [3, None]]
    column = arrow.array([[1.0, None], [2.0]])
    path = table(tmp_path / "v.parquet", id=["a", "b"], vector=column)
    assert [d.body for d in read(path, body="vector")[0]] == [[1.0, None], [2.0]]
    column = arrow.array([[1.0, None], None])
    path = table(tmp_path / "v.parquet", id=["a", "b"], vector=column)
    documents, (rejected,) = read(path, body="vector")
    assert documents[0].body == [1.0, None]
    assert rejected.reason == "the body is null"


def test_bits_weights_texts_and_tokens(
    arrow: Any, table: Table, tmp_path: Path, read: Read
) -> None:
    path = table(
        tmp_path / "v.parquet",
        id=["a", "b"],
        text=["one two", "three"],
        tokens=[["x"], []],
        packed=[b"\x01\x02", b""],
        digits=["01", "10"],
        fixed=arrow.array([b"ab", b"cd"], type=arrow.binary(2)),
        weights=arrow.array(
            [[("a", 1.5)], []], type=arrow.map_(arrow.string(), arrow.float64())
        ),
        fields=[{"a": 1.5, "b": None}, {"a": None, "b": 2.0}],
        repeated=arrow.array(["x", "x"]).dictionary_encode(),
    )  # fmt: skip
    bodies = [
        [d.body if not isinstance(d.body, np.ndarray) else d.body.tolist() for d in found]
        for found in (
            read(path)[0],
            read(path, text_field="tokens")[0],
            read(path, body="bits", vector_field="packed")[0],
            read(path, body="bits", vector_field="digits")[0],
            read(path, body="bits", vector_field="fixed")[0],
            read(path, body="weights")[0],
            read(path, body="weights", text_field="weights")[0],
            read(path, body="weights", text_field="fields")[0],
            read(path, text_field="repeated")[0],
        )
    ]
    assert bodies == [
        ["one two", "three"], [["x"], []], [[1, 2], []], ["01", "10"], [[97, 98], [99, 100]],
        ["one two", "three"], [{"a": 1.5}, {}], [{"a": 1.5}, {"b": 2.0}], ["x", "x"],
    ]  # fmt: skip


def test_texts_are_texts(arrow: Any, table: Table, tmp_path: Path, read: Read) -> None:
    path = table(tmp_path / "v.parquet", id=["a"], text=arrow.array([[1.0, 2.0]]))
    documents, (rejected,) = read(path)
    assert documents == [] and "of type ndarray, expected a string" in rejected.reason
    path = table(tmp_path / "v.parquet", id=["a", "b"], text=["x" * 99, "y"])
    documents, (rejected,) = read(path, max_document_bytes=50)
    assert [d.key for d in documents] == ["b"] and "more than the limit of 50" in rejected.reason


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"text": ["a"]}, {}, "give --key-field NAME or --keys FILE or --row-keys"),
        ({"id": ["a"]}, {}, "has no column 'text'; the columns are: 'id'"),
        ({"id": ["a"], "vector": [1.5]}, {"body": "vector"}, "a column 'vector' of double"),
        ({"id": ["a"], "text": [7]}, {}, "a column 'text' of int64, expected strings"),
    ],
)
def test_columns_that_are_not_there(
    columns: Any, options: Any, words: str, table: Table, tmp_path: Path, read: Read
) -> None:
    documents, (rejected,) = read(table(tmp_path / "v.parquet", **columns), **options)
    assert documents == [] and words in rejected.reason


def test_keys(table: Table, tmp_path: Path, read: Read) -> None:
    path = table(tmp_path / "v.parquet", id=["a", None, "", "d\0"], text=["x"] * 4)
    documents, rejected = read(path)
    assert [d.key for d in documents] == ["a"]
    assert [r.reason for r in rejected] == [
        "the key is null", "the key is empty", "the key holds a NUL at character 2",
    ]  # fmt: skip
    path = table(tmp_path / "v.parquet", id=[1.5], text=["x"])
    assert "the key is of type float" in read(path)[1][0].reason
    (tmp_path / "keys").write_text("p\nq\n")
    path = table(tmp_path / "v.parquet", text=["x", "y"])
    assert [d.key for d in read(path, keys=tmp_path / "keys")[0]] == ["p", "q"]
    path = table(tmp_path / "v.parquet", text=["x", "y", "z"])
    with pytest.raises(InputError, match="has 2 keys, but there are 3"):
        read(path, keys=tmp_path / "keys")


def test_a_damaged_file(table: Table, tmp_path: Path, read: Read, read_bytes: Read) -> None:
    path = table(tmp_path / "v.parquet", id=["a"], text=["x"])
    content = path.read_bytes()
    path.write_bytes(content[:-6])
    documents, (rejected,) = read(path)
    assert documents == [] and "cannot be read as Parquet" in rejected.reason
    assert "is a pipe" in read_bytes(content, input_format="parquet")[1][0].reason


def test_memory_does_not_grow_with_a_row_group(arrow: Any, tmp_path: Path) -> None:
    """Both groups are many batches long: what a batch costs, and how long, is pyarrow's to say.

    The groups differ by 160 MB. Peaks of the same file differ by up to 80 MB from run to run.
    """
    sizes = {}
    for n in (20_000, 60_000):
        array = np.random.default_rng(1).random((n, 500))  # 80 MB, 240 MB
        lists = arrow.FixedSizeListArray.from_arrays(arrow.array(array.reshape(-1)), 500)
        path = tmp_path / "v.parquet"
        columns = arrow.table({"id": np.arange(n), "vector": lists})
        arrow.parquet.write_table(columns, path, row_group_size=n, use_dictionary=False)
        sizes[n] = peak(path, n)
    assert sizes[60_000] - sizes[20_000] < 120 * 2**20


@given(st.data())
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes(
    arrow: Any, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Of the data itself; a damaged end of the file is pyarrow's to survive."""
    file = io.BytesIO()
    columns = {"id": ["a", "b", "c"] * 30, "vector": arrow.array(NUMBERS[:3].tolist() * 30)}
    arrow.parquet.write_table(arrow.table(columns), file, compression="zstd", row_group_size=40)
    content = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.integers(0, 10)))
        content[start:end] = data.draw(st.binary(max_size=10))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path_factory.getbasetemp() / "mess.parquet"
    path.write_bytes(content)
    assert len(list(read_documents([path], body="vector"))) <= 91
