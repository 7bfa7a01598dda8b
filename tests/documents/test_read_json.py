"""JSON arrays of objects, and what else is found under the name of JSON."""

from __future__ import annotations

import gzip
import itertools
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb import InputError
from lshdb.documents.document import BrokenSourceError
from lshdb.documents.formats.json_arrays import beginning, split_array
from lshdb.documents.io.streams import CHUNK
from lshdb.documents.read import read_documents

pytestmark = pytest.mark.fast

Read = Callable[..., tuple[list, list]]
ROWS = [
    {"id": "a", "text": "one [two] {three}, \"four\" \\", "more": [{"x": [1]}, "]"]},
    {"id": 2, "text": "fünf\n\\\"", "more": {}},
    {"id": "c", "text": ""},
]  # fmt: skip
KEYS = ["a", "2", "c"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def elements(content: bytes, step: int = CHUNK, limit: int = 10**6) -> list[Any]:
    pieces = (content[at : at + step] for at in range(0, len(content), step))
    return [one.data if one.data is not None else one.size for one in split_array(pieces, limit)]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.JSON", "a.json.gz", "a.ndjson"])
@pytest.mark.parametrize("indent", [None, 0, 2])
def test_an_array_is_records(name: str, indent: int | None, tmp_path: Path, read: Read) -> None:
    path = tmp_path / name
    content = json.dumps(ROWS, indent=indent, ensure_ascii=False).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    for given_path in (path, tmp_path):
        said: list[str] = []
        documents, rejected = read(given_path, on_note=said.append)
        assert [d.key for d in documents] == KEYS and rejected == []
        assert [d.body for d in documents] == [row["text"] for row in ROWS]
        assert documents[1].source == f"{path}: record 2"
        is_lines = name in ("a.jsonl", "a.ndjson")
        assert said == [f"{path} is a JSON array; reading it as such"] * is_lines
    documents, _ = read(path, row_keys=True, keep_fields=["more"])
    assert [d.key for d in documents] == [f"{path}:{number}" for number in (1, 2, 3)]
    assert documents[0].fields == {"more": ROWS[0]["more"]}


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_json_lines_under_the_name_of_json(name: str, tmp_path: Path, read: Read) -> None:
    path = tmp_path / name
    for lines, numbers in (
        ([json.dumps(row) for row in ROWS], [1, 2, 3]),
        (["", json.dumps(ROWS[0]), "", *map(json.dumps, ROWS[1:])], [2, 4, 5]),
        ([json.dumps(ROWS[0] | {"text": "x" * 9000}), *map(json.dumps, ROWS[1:])], [1, 2, 3]),
    ):
        content = "".join(line + "\n" for line in lines).encode()
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        documents, rejected = read(path)
        assert [d.key for d in documents] == KEYS and rejected == []
        assert [d.source for d in documents] == [f"{path}:{number}" for number in numbers]
    content = b'{"id": 1, "text": "x"\n{"id": 2, "text": "y"}\n'  # the first is no JSON
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    documents, (rejected,) = read(path, input_format="json")
    assert [d.key for d in documents] == ["2"] and rejected.source == f"{path}:1"


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(ROWS[0]), json.dumps(ROWS[0]) + "\n", json.dumps(ROWS[0], indent=2),
        json.dumps(ROWS[0] | {"text": "x\n" * 5000}), json.dumps({"a": ROWS}), "[1, 2]", "7",
        "not JSON", '"x"', json.dumps({"text": "x" * 5000}, indent=1) + "\n",
    ],
)  # fmt: skip
def test_one_value_is_never_a_document(content: str, tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    documents, rejected = read(tmp_path)
    assert documents == [] and len(rejected) == 1
    assert "JSON Lines" in rejected[0].reason
    try:
        documents, rejected = read(path)
    except InputError as error:
        assert "looks like " in error.message and "JSON Lines" in (error.hint or "")
    else:
        assert documents == [] and "write an array of objects" in rejected[0].reason
    documents, rejected = read(path, input_format="json")
    assert documents == [] and len(rejected) == (2 if content == "[1, 2]" else 1)


def test_bad_elements_cost_no_more_than_themselves(read_bytes: Read) -> None:
    content = (
        b'[{"id": 1, "text": "a"}, 7, {"id": 2}, {"id": 3 "text": "b"}, null, "x,y", [1, 2],'
        b'{"id": 4, "text": "\xff"}, {"id": 5, "text": "' + b"x" * 300 + b'"},'
        b'{"id": 6, "text": "e"},]'
    )
    documents, rejected = read_bytes(content, max_document_bytes=100)
    assert [(d.key, d.source) for d in documents] == [
        ("1", "<stdin>: record 1"), ("6", "<stdin>: record 10"),
    ]  # fmt: skip
    assert [r.source for r in rejected] == [f"<stdin>: record {n}" for n in range(2, 10)]
    words = (
        "is an integer", "no field 'text'", "not valid JSON", "is null", "is a string",
        "is an array", "not valid UTF-8 at byte 20 of the record", "321 bytes, more than the limit",
    )  # fmt: skip
    for one, word in zip(rejected, words, strict=True):
        assert word in one.reason


@pytest.mark.parametrize(
    ("content", "word", "count"),
    [
        (b'[{"id": 1, "text": "a"}', "ends before its array is closed, after record 0", 0),
        (b'[{"id": 1, "text": "a"}, {"id', "ends before its array is closed, after record 1", 1),
        (b'[{"id": 1, "text": "a"}, {"id": "x\\', "ends before its array", 1),
        (b'[{"id": 1, "text": "a"}] and more', "something other than an array of objects", 1),
    ],
)
def test_an_array_that_is_broken(
    content: bytes, word: str, count: int, tmp_path: Path, read: Read
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    documents, (rejected,) = read(path)
    assert len(documents) == count and word in rejected.reason
    path = tmp_path / "b.json.gz"
    path.write_bytes(gzip.compress(content)[:-9])
    documents, (rejected,) = read(path)
    assert word in rejected.reason or "truncated, after record" in rejected.reason


@given(st.lists(JSON, max_size=6), st.integers(1, 9), st.sampled_from([None, 0, 1]))
def test_wherever_it_is_cut(values: list[Any], step: int, indent: int | None) -> None:
    content = json.dumps(values, indent=indent).encode()
    assert [json.loads(one) for one in elements(content, step)] == values


@given(st.binary(max_size=60), st.integers(1, 9))
def test_any_bytes_do_no_harm(content: bytes, step: int) -> None:
    try:
        found = elements(b"[" + content + b"]", step, limit=20)
    except BrokenSourceError:
        return
    assert all(isinstance(one, int) or 0 < len(one) <= 20 for one in found)


def test_two_arrays_are_read_as_one() -> None:
    assert elements(b"[1, 2]\n[3]\n[]\n", 2) == [b"1", b"2", b"3"]
    many = b"[1]\n" * CHUNK
    assert len(elements(many)) == CHUNK


def test_memory_is_one_element_and_one_chunk(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.json.gz"
    row = json.dumps({"id": 1, "text": "x" * 1000}).encode()
    with gzip.open(path, "wb", 1) as file:
        file.write(b"[" + row)
        for _ in range(4_000):
            file.write(b"," + row)
        file.write(b',{"id": 2, "text": "' + b'\\"' * 2_000_000 + b'"}]')
    sum(1 for _ in read_documents([path], max_document_bytes=5000))
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_documents([path], max_document_bytes=5000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 4_002 and peak < 10 * CHUNK


def test_white_space_before_records_is_neither_held_nor_joined(read_bytes: Read) -> None:
    row = b'{"id": "a", "text": "x"}'
    for content, n in (
        (b"[" + row + b"]", 1),
        (b"[ \n" + row + b", " + row.replace(b'"a"', b'"b"') + b"]", 2),
        (row + b"\n" + row.replace(b'"a"', b'"b"') + b"\n", 2),
    ):
        parts = (b" " * 2**18 if number % 2 else b" \n" * 2**17 for number in range(400))
        start, chunks = beginning(itertools.chain(parts, [content[:1], b" " * 2**18, content[1:]]))
        data = b"".join(chunks)
        assert start == (b"[{" if content[:1] == b"[" else b"{")
        assert data.count(b"\n", 0, data.find(row[:1])) >= 200 * 2**17
        assert len(data) < 200 * 2**17 + 2**19 + 100
        for blanks in (b"", b"\n", b"\xef\xbb\xbf \n"):
            documents, rejected = read_bytes(blanks + content, input_format="json")
            assert len(documents) == n and rejected == []


CUT = [b'\xef\xbb\xbf[{"a":1}]', b' \n{"a"', b"[", b"", b"\xef\xbb", b"7"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("content", CUT)
def test_the_beginning_does_not_depend_on_how_it_is_cut(content: bytes, size: int) -> None:
    parts = (content[at : at + size] for at in range(0, len(content), size))
    start, chunks = beginning(parts)
    assert b"".join(chunks).strip() == content.strip()
    text = content.removeprefix(b"\xef\xbb\xbf").strip()
    assert text.startswith(start) and start[:1] == text[:1]
