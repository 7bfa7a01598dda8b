"""Arrow files and streams, and the folders in which Hugging Face keeps a dataset."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb import InputError
from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.read import read_documents

pytestmark = pytest.mark.fast

Read = Callable[..., tuple[list, list]]
arrow = pytest.importorskip("pyarrow")
ROWS = [
    {"id": str(n), "text": f"text {n}", "date": datetime.date(2026, 1, n + 1), "x": [n]}
    for n in range(5)
]


def write(path: Path, kind: str = "stream", rows: list[dict[str, Any]] = ROWS) -> Path:
    """The rows, two in a record batch."""
    table = arrow.Table.from_pylist(rows or ROWS).slice(0, len(rows))
    make = arrow.ipc.new_file if kind == "file" else arrow.ipc.new_stream
    with make(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def dataset(folder: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    """A folder as ``datasets.Dataset.save_to_disk`` writes it."""
    folder.mkdir(parents=True)
    names = [f"data-{n:05}-of-00002.arrow" for n in range(2)]
    write(folder / names[0], rows=rows[:3])
    write(folder / names[1], rows=rows[3:])
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (folder / "state.json").write_text(json.dumps(state, indent=2))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}}, indent=2))
    return folder


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("name", ["a.arrow", "a.feather", "a.ipc", "a.jsonl", "a"])
def test_rows_become_documents(kind: str, name: str, tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / name, kind)
    said: list[str] = []
    documents, rejected = read(path, keep_fields=["date"], on_note=said.append)
    assert documents == [
        Document(row["id"], row["text"], f"{path}: row {n}", {"date": row["date"].isoformat()})
        for n, row in enumerate(ROWS, start=1)
    ]
    is_misnamed = name in ("a.jsonl", "a")
    assert rejected == []
    assert said == [f"{path} is an Arrow file; reading it as such"] * is_misnamed
    documents, _ = read(path, row_keys=True)
    assert [d.key for d in documents] == [f"{path}:{n}" for n in range(1, 6)]
    (tmp_path / "keys").write_text("a\nb\nc\nd\ne\n")
    assert [d.key for d in read(path, keys=tmp_path / "keys")[0]] == list("abcde")
    (tmp_path / "keys").write_text("a\n")
    with pytest.raises(InputError, match="has 1 keys, but there are 5"):
        read(path, keys=tmp_path / "keys")


def test_vectors_too(tmp_path: Path, read: Read) -> None:
    rows = [{"id": n, "vector": [n + 0.5, 1.0]} for n in range(3)]
    documents, rejected = read(write(tmp_path / "v.arrow", "file", rows), body="vector")
    assert [d.body.tolist() for d in documents] == [row["vector"] for row in rows]
    assert rejected == []


def test_a_saved_dataset_is_its_rows(tmp_path: Path, read: Read) -> None:
    folder = dataset(tmp_path / "d")
    write(folder / "cache-0123456789abcdef.arrow")
    documents, rejected = read(folder)
    assert [d.key for d in documents] == list("01234") and rejected == []
    documents, _ = read(folder, row_keys=True)
    assert documents[-1].key == f"{folder}/data-00001-of-00002.arrow:2"


def test_a_dataset_of_several_splits(tmp_path: Path, read: Read) -> None:
    folder = tmp_path / "d"
    dataset(folder / "test", ROWS[:2])
    dataset(folder / "train", ROWS[2:])
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    documents, rejected = read(folder)
    assert [d.key for d in documents] == list("01234") and rejected == []
    (tmp_path / "e" / "sub").mkdir(parents=True)
    (tmp_path / "e" / "dataset_dict.json").write_text('{"splits": []}')
    assert len(read(tmp_path / "e")[1]) == 1  # of no dataset
    named = folder / "test" / "state.json"
    with pytest.raises(InputError, match="looks like a JSON object"):
        read(named)


def test_what_is_no_arrow_or_lacks_a_column(tmp_path: Path, read: Read, read_bytes: Read) -> None:
    path = write(tmp_path / "a.arrow")
    _, (rejected,) = read(path, text_field=["title", "body"])
    assert rejected.reason.startswith("has no columns 'title' and 'body'; the columns are: 'id', ")
    content = path.read_bytes()
    path.write_bytes(content[:-300])
    documents, (rejected,) = read(path)
    assert len(documents) < 5 and rejected.reason.startswith("cannot be read as Arrow: ")
    path.write_text("some text")
    assert "cannot be read as Arrow" in read(path)[1][0].reason
    assert "is a pipe" in read_bytes(content, input_format="arrow")[1][0].reason


def test_without_pyarrow_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.arrow")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match="reading Arrow needs pyarrow") as caught:
        read_documents([path])
    assert "[parquet]" in (caught.value.hint or "")


def test_a_batch_that_claims_to_be_larger_than_memory_is_damage(tmp_path: Path) -> None:
    file = io.BytesIO()
    table = arrow.Table.from_pylist(ROWS)
    with arrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    content = file.getvalue()
    messages = list(arrow.ipc.MessageReader.open_stream(content))
    size = messages[1].body.size.to_bytes(8, "little")
    assert content.count(size) == 1
    path = tmp_path / "a.arrow"
    path.write_bytes(content.replace(size, (2**60).to_bytes(8, "little")))
    (only,) = read_documents([path])
    assert isinstance(only, Rejected)
    assert "cannot be read as Arrow: it asks for more memory than there is" in only.reason


@pytest.mark.parametrize("kind", ["file", "stream"])
@given(data=st.data())
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes(kind: str, tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    file = io.BytesIO()
    table = arrow.Table.from_pylist(ROWS)
    make = arrow.ipc.new_file if kind == "file" else arrow.ipc.new_stream
    with make(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    content = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.integers(0, 10)))
        content[start:end] = data.draw(st.binary(max_size=10))
    path = tmp_path_factory.getbasetemp() / "mess.arrow"
    path.write_bytes(content)
    found = list(read_documents([path]))
    assert len(found) <= 6 and all(isinstance(one, Document | Rejected) for one in found)
