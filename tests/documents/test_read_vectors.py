"""Vectors from .npy and .npz: every type and order, keys, damage, and memory."""

from __future__ import annotations

import gzip
import io
import os
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lshdb.documents.formats.rows as array_rows
from lshdb import Document, InputError, ParameterError, read_documents
from lshdb.documents.read import peek_documents
from tests.documents.conftest import peak

Read = Callable[..., tuple[list, list]]
NUMBERS = np.arange(-12, 12).reshape(6, 4) / 4
TYPES = ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2", "u1", "?"]


def saved(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


def rows(documents: list[Document]) -> Any:
    return np.array([document.body for document in documents])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_in_either_order(dtype: str, order: Any, tmp_path: Path, read: Read) -> None:
    array = np.asarray(abs(NUMBERS) * 4, dtype=dtype, order=order)
    documents, rejected = read(saved(tmp_path / "v.npy", array))
    assert rejected == []
    assert [d.key for d in documents] == ["0", "1", "2", "3", "4", "5"]
    assert [d.source for d in documents] == [f"{tmp_path}/v.npy: row {n}" for n in range(6)]
    assert np.array_equal(rows(documents), array)
    assert all(d.body.dtype == np.dtype(dtype).newbyteorder("=") for d in documents)
    assert all(d.body.dtype.isnative and d.body.shape == (4,) for d in documents)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_versions_of_the_format(version: Any, tmp_path: Path, read: Read) -> None:
    with open(tmp_path / "v.npy", "wb") as file:
        np.lib.format.write_array(file, NUMBERS, version=version)
    assert np.array_equal(rows(read(tmp_path / "v.npy")[0]), NUMBERS)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 7), (100, 3), (101, 16), (64, 40)])
def test_any_number_of_blocks(
    shape: Any, order: Any, tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_rows, "BLOCK_BYTES", 64)
    monkeypatch.setattr(array_rows, "SCATTERED_BYTES", 64)
    array = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape).copy(order=order)
    documents, rejected = read(saved(tmp_path / "v.npy", array))
    assert rejected == [] and np.array_equal(rows(documents), array)


@pytest.mark.parametrize("order", ["C", "F"])
def test_from_standard_input_a_pipe_and_compressed(
    order: Any, tmp_path: Path, read: Read, read_bytes: Read
) -> None:
    array = NUMBERS.copy(order=order)
    content = saved(tmp_path / "v.npy", array).read_bytes()
    assert np.array_equal(rows(read_bytes(content, input_format="npy")[0]), array)
    (tmp_path / "v.npy.gz").write_bytes(gzip.compress(content))
    assert np.array_equal(rows(read(tmp_path / "v.npy.gz")[0]), array)
    os.mkfifo(tmp_path / "pipe.npy")
    writer = threading.Thread(target=(tmp_path / "pipe.npy").write_bytes, args=(content,))
    writer.start()
    assert np.array_equal(rows(read(tmp_path / "pipe.npy")[0]), array)
    writer.join()


def test_fortran_order_from_a_pipe_must_fit(
    read_bytes: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_rows, "SCATTERED_BYTES", 191)
    content = saved(tmp_path / "v.npy", NUMBERS.copy(order="F")).read_bytes()
    documents, (rejected,) = read_bytes(content, input_format="npy")
    assert documents == []
    assert "Fortran order with 192 bytes" in rejected.reason
    assert "numpy.ascontiguousarray" in rejected.reason


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (NUMBERS.astype(np.int64), "holds int64, expected float32"),
        (NUMBERS.astype(complex), "holds complex128"),
        (NUMBERS.astype(str), "holds <U32"),
        (NUMBERS.astype(np.uint16), "holds uint16"),
        (NUMBERS.astype("i1"), "holds int8"),
        (np.array([[{}, 1], [2, 3]], dtype=object), "holds Python objects, which are pickled"),
        (np.zeros(3, dtype=[("a", "f4"), ("b", "O")]), "holds Python objects"),
        (np.zeros((2, 2), dtype="V8"), "holds |V8"),
        (np.zeros((2, 2), dtype=[("x", "f4")]), "holds [('x', '<f4')]"),
        (np.zeros(7), "one dimension (7 numbers), expected two"),
        (np.zeros(()), "has 0 dimensions, expected two"),
        (np.zeros((2, 2, 2)), "has 3 dimensions, expected two"),
        (np.zeros((3, 0)), "holds vectors without numbers"),
        (np.zeros((1, 5000)), "vectors of 40,000 bytes, more than the limit of 10,000"),
    ],
)
def test_arrays_that_are_no_vectors(array: Any, words: str, tmp_path: Path, read: Read) -> None:
    documents, (rejected,) = read(saved(tmp_path / "v.npy", array), max_document_bytes=10_000)
    assert documents == []
    assert rejected.source == f"{tmp_path}/v.npy" and words in rejected.reason


def test_an_array_of_no_rows(tmp_path: Path, read: Read) -> None:
    assert read(saved(tmp_path / "v.npy", np.zeros((0, 4)))) == ([], [])
    assert read(saved(tmp_path / "v.npy", np.zeros((0, 4), order="F"))) == ([], [])


class _Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("exploded",)


def test_pickles_are_never_loaded(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bombs = np.array([[_Bomb()]], dtype=object)
    np.save("v.npy", bombs)
    np.savez("v.npz", id=bombs.reshape(-1), x=np.zeros((1, 2)))
    np.save("keys.npy", bombs.reshape(-1))
    assert "never loaded" in read("v.npy")[1][0].reason
    assert "never loaded" in read("v.npz")[1][0].reason
    assert "never loaded" in read("v.npz", vector_field="id")[1][0].reason
    with pytest.raises(InputError, match="never loaded"):
        read(saved(tmp_path / "w.npy", NUMBERS), keys="keys.npy")
    assert not Path("exploded").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a .npy file"),
        (b"\x93NUMPY", "is not a .npy file"),
        (b"id,text\n1,2\n", "is not a .npy file"),
        (b"\x93NUMPY\x09\x00aaaa", "format version 9.0, expected 1.0 or 2.0"),
        (b"\x93NUMPY\x03\x00\x76\x00\x00\x00", "format version 3.0"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "header of 2,147,483,647 bytes, expected at most"),
        (b"\x93NUMPY\x01\x00\x76\x00{'descr'", "a .npy header that cannot be read"),
        (b"\x93NUMPY\x01\x00\x05\x00spam\n", "a .npy header that cannot be read"),
    ],
)
def test_files_that_are_no_arrays(content: bytes, words: str, tmp_path: Path, read: Read) -> None:
    (tmp_path / "v.npy").write_bytes(content)
    documents, (rejected,) = read(tmp_path / "v.npy")
    assert documents == [] and words in rejected.reason


def headed(shape: Any, *, order: bool = False, rest: bytes = b"") -> bytes:
    """A header that says what it likes."""
    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": order, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + rest


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("shape", [(-1, 4), (10**30, 4), (2**62, 2**20), (5, 10**30)])
def test_shapes_that_no_file_has(shape: Any, order: bool, tmp_path: Path, read: Read) -> None:
    (tmp_path / "v.npy").write_bytes(headed(shape, order=order, rest=b"1234" * 3))
    documents, rejected = read(tmp_path / "v.npy")
    assert documents == [] and len(rejected) == 1
    peek_documents([tmp_path / "v.npy"], body="vector")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_cut_file_gives_its_whole_rows(
    suffix: str, tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_rows, "BLOCK_BYTES", 64)
    content = saved(tmp_path / "v.npy", NUMBERS).read_bytes()[:-40]
    path = tmp_path / f"v.npy{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    documents, (rejected,) = read(path)
    assert np.array_equal(rows(documents), NUMBERS[:4])
    assert rejected.source == str(path)
    assert rejected.reason == "ends in row 4, but its header says 6 rows"


def test_a_cut_file_in_fortran_order_gives_nothing(tmp_path: Path, read: Read) -> None:
    path = saved(tmp_path / "v.npy", NUMBERS.copy(order="F"))
    path.write_bytes(path.read_bytes()[:-1])
    documents, (rejected,) = read(path)
    assert documents == []
    assert rejected.reason == "ends before its last column, but its header says 6 rows"


def test_damaged_compression_names_the_row(tmp_path: Path, read: Read) -> None:
    array = np.random.default_rng(1).random((4000, 8))
    content = gzip.compress(saved(tmp_path / "v.npy", array).read_bytes())
    (tmp_path / "v.npy.gz").write_bytes(content[: len(content) // 2])
    documents, (rejected,) = read(tmp_path / "v.npy.gz")
    assert 1000 < len(documents) < 3000
    assert np.array_equal(rows(documents), array[: len(documents)])
    assert f"in row {len(documents):,}" in rejected.reason


def test_what_is_behind_the_rows_is_not_read(tmp_path: Path, read: Read) -> None:
    path = saved(tmp_path / "v.npy", NUMBERS)
    path.write_bytes(path.read_bytes() + b"more")
    assert np.array_equal(rows(read(path)[0]), NUMBERS)


# Keys


def test_several_files_have_their_names_before_the_rows(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    saved(Path("in/a.npy"), NUMBERS[:2])
    np.savez("in/b.npz", NUMBERS[:1])
    Path("in/c.jsonl").write_text('{"id": "x", "vector": [1, 2, 3, 4]}\n')
    documents, rejected = read("in", body="vector")
    assert rejected == []
    assert [d.key for d in documents] == ["in/a.npy:0", "in/a.npy:1", "in/b.npz:0", "x"]
    assert [d.key for d in read(["in/a.npy", "in/c.jsonl"], body="vector")[0]] == ["0", "1", "x"]


KEYS = ["a", "b c", " ü ", "7", "漢", "../x"]


@pytest.mark.parametrize("form", ["lines", "crlf", "gz", "npy", "bytes", "numbers"])
def test_keys_from_a_side_file(form: str, tmp_path: Path, read: Read) -> None:
    keys, path = KEYS, tmp_path / "keys"
    lines = "\n".join(KEYS).encode()
    match form:
        case "lines":
            path.write_bytes(lines)
        case "crlf":
            path.write_bytes(b"\xef\xbb\xbf" + lines.replace(b"\n", b"\r\n") + b"\r\n")
        case "gz":
            path = tmp_path / "keys.txt.gz"
            path.write_bytes(gzip.compress(lines))
        case "npy":
            path = saved(tmp_path / "keys.npy", np.array(KEYS))
        case "bytes":
            path = saved(tmp_path / "keys.npy", np.array([key.encode() for key in KEYS]))
        case "numbers":
            keys = ["9", "8", "-7", "6", "5", str(2**62)]
            path = saved(tmp_path / "keys.npy", np.array(keys, dtype=">i8"))
    documents, rejected = read(saved(tmp_path / "v.npy", NUMBERS), keys=path)
    assert rejected == [] and [d.key for d in documents] == keys
    np.savez(tmp_path / "v.npz", id=np.arange(6), x=NUMBERS)
    assert [d.key for d in read(tmp_path / "v.npz", keys=path)[0]] == keys


@pytest.mark.parametrize("n", [0, 5, 7])
def test_a_wrong_number_of_keys_is_an_error_before_the_first_document(
    n: int, tmp_path: Path
) -> None:
    path = saved(tmp_path / "v.npy", NUMBERS)
    (tmp_path / "keys").write_text("k\n" * n)
    items = read_documents([path], keys=tmp_path / "keys")
    with pytest.raises(InputError, match=f"has {n} keys, but there are 6 vectors"):
        next(items)


def test_a_key_that_cannot_be_used_costs_its_row(tmp_path: Path, read: Read) -> None:
    (tmp_path / "keys").write_bytes(b"a\n\nc\n\xff\n" + b"k" * 1025 + b"\n" + b"k" * 9999)
    documents, rejected = read(saved(tmp_path / "v.npy", NUMBERS), keys=tmp_path / "keys")
    assert [d.key for d in documents] == ["a", "c"]
    assert np.array_equal(rows(documents), NUMBERS[[0, 2]])
    assert [(r.source.rpartition(" ")[2], r.reason) for r in rejected] == [
        ("1", "the key is empty"),
        ("3", "the key is not valid UTF-8 at byte 1"),
        ("4", "the key has 1,025 bytes in UTF-8, at most 1,024 are allowed"),
        ("5", "the key has 9,999 bytes, at most 1,024 are allowed"),
    ]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(6), "holds float64, expected strings or whole numbers"),
        (np.zeros((6, 1), dtype=int), "has 2 dimensions, expected one"),
        (np.zeros(6, dtype=bool), "holds bool"),
        (np.zeros(6, dtype="U0"), "keys.npy"),
    ],
)
def test_arrays_that_are_no_keys(array: Any, words: str, tmp_path: Path, read: Read) -> None:
    keys = saved(tmp_path / "keys.npy", array)
    if array.dtype.kind == "U":  # NumPy writes <U1 for it
        keys.write_bytes(keys.read_bytes().replace(b"<U1", b"<U0"))
    with pytest.raises(InputError, match="keys") as caught:
        read(saved(tmp_path / "v.npy", NUMBERS), keys=keys)
    assert words in caught.value.message


def test_keys_beyond_unicode(tmp_path: Path, read: Read) -> None:
    keys = saved(tmp_path / "keys.npy", np.array(["a", "b"]))
    keys.write_bytes(keys.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
    with pytest.raises(InputError, match="not text"):
        read(saved(tmp_path / "v.npy", NUMBERS[:2]), keys=keys)


def test_keys_are_for_one_file_of_rows(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("k\n" * 6)
    path = saved(tmp_path / "v.npy", NUMBERS)
    (tmp_path / "t.jsonl").write_text("")
    for paths in ([path, path], [tmp_path / "t.jsonl"], [path, tmp_path / "t.jsonl"]):
        with pytest.raises(InputError, match="keys of one"):
            read_documents(paths, keys=tmp_path / "keys")
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="no such file of keys"):
            list(read_documents([path], keys=missing))


# .npz


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_npz(save: Any, tmp_path: Path, read: Read) -> None:
    path = tmp_path / "v.npz"
    save(path, x=NUMBERS, id=np.array(KEYS), names=np.arange(6), note="a word")
    documents, rejected = read(path)
    assert rejected == [] and [d.key for d in documents] == KEYS
    assert np.array_equal(rows(documents), NUMBERS)
    assert documents[4].source == f"{path}: row 4"
    assert [d.key for d in read(path, key_field="names")[0]] == [*"012345"]
    save(path, x=NUMBERS, y=NUMBERS + 1)
    assert "has 2 two-dimensional arrays" in read(path)[1][0].reason
    documents, rejected = read(path, vector_field="y")
    assert rejected == [] and np.array_equal(rows(documents), NUMBERS + 1)
    assert [d.key for d in documents] == [*"012345"]


@pytest.mark.parametrize(
    ("arrays", "options", "words"),
    [
        ({"x": NUMBERS}, {"vector_field": "y"}, "has no array 'y'; the arrays are: 'x'"),
        ({"x": NUMBERS}, {"key_field": "y"}, "has no array 'y'"),
        ({"x": NUMBERS, "id": np.arange(5)}, {}, "5 keys in 'id', but there are 6 vectors"),
        ({"x": NUMBERS, "id": NUMBERS[0]}, {}, "array 'id' holds float64"),
        ({"x": NUMBERS.astype(int)}, {}, "array 'x' holds int64"),
        ({"x": NUMBERS[0]}, {}, "has 0 two-dimensional arrays"),
        ({}, {}, "has 0 two-dimensional arrays, expected one; the arrays are: none"),
    ],
)
def test_npz_files_without_vectors(
    arrays: Any, options: Any, words: str, tmp_path: Path, read: Read
) -> None:
    np.savez(tmp_path / "v.npz", **arrays)
    documents, (rejected,) = read(tmp_path / "v.npz", **options)
    assert documents == [] and words in rejected.reason


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_npz(save: Any, tmp_path: Path, read: Read) -> None:
    path = tmp_path / "v.npz"
    array = np.random.default_rng(1).random((60_000, 2))
    save(path, array)
    content = bytearray(path.read_bytes())
    content[len(content) - 100_000] ^= 1
    path.write_bytes(content)
    documents, (rejected,) = read(path)
    assert 30_000 < len(documents) < 60_000
    assert f"in row {len(documents):,}" in rejected.reason
    path.write_bytes(content[:-1000])
    documents, (rejected,) = read(path)
    assert documents == [] and "cannot be read as .npz" in rejected.reason


def test_an_npz_is_read_from_a_file_only(tmp_path: Path, read: Read, read_bytes: Read) -> None:
    np.savez(tmp_path / "v.npz", NUMBERS)
    content = (tmp_path / "v.npz").read_bytes()
    assert "is a pipe" in read_bytes(content, input_format="npz")[1][0].reason
    (tmp_path / "v.npz.gz").write_bytes(gzip.compress(content))
    assert "is compressed, but this format" in read(tmp_path / "v.npz.gz")[1][0].reason
    with zipfile.ZipFile(tmp_path / "w.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.write(saved(tmp_path / "x.npy", NUMBERS), "x.npy")
    assert np.array_equal(rows(read(tmp_path / "w.npz")[0]), NUMBERS)


def test_fortran_order_in_an_npz(tmp_path: Path, read: Read) -> None:
    np.savez(tmp_path / "v.npz", NUMBERS.copy(order="F"))
    assert np.array_equal(rows(read(tmp_path / "v.npz")[0]), NUMBERS)


# JSON Lines and tables, and what goes with what


def test_vectors_bits_and_weights_in_json_lines(read_bytes: Read) -> None:
    content = b'{"id": 1, "vector": [1, 2.5]}\n{"id": 2, "vector": "0110"}\n{"id": 3}\n'
    documents, (rejected,) = read_bytes(content, body="vector")
    assert [(d.key, d.body) for d in documents] == [("1", [1, 2.5]), ("2", "0110")]
    assert documents[1].source == "<stdin>:2"
    assert (rejected.source, rejected.reason) == (
        "<stdin>:3", "no field 'vector'; the fields are: 'id'; give --vector-field NAME",
    )  # fmt: skip
    assert read_bytes(content.replace(b"vector", b"v"), vector_field="v")[0] == documents
    content = b'{"id": 1, "weights": {"a": 2}}\n{"id": 2, "text": "a b"}\n{"id": 3, "weights": 1}\n'
    documents, (rejected,) = read_bytes(content, body="weights")
    assert [d.body for d in documents] == [{"a": 2}, "a b"]
    assert "body 'weights' is an integer, expected an array, a string or an object" in (
        rejected.reason
    )
    assert [d.key for d in read_bytes(content, body="weights", text_field="text")[0]] == ["2"]


def test_bits_in_a_table(read_bytes: Read) -> None:
    documents, _ = read_bytes(b"id,vector\na,0110\n", body="bits", input_format="csv")
    assert documents[0].body == "0110"


def test_texts_take_no_vectors(tmp_path: Path, read: Read, read_bytes: Read) -> None:
    saved(tmp_path / "v.npy", NUMBERS)
    np.savez(tmp_path / "w.npz", NUMBERS)
    for body in ("text", "weights"):
        documents, rejected = read(tmp_path, body=body)
        assert documents == [] and len(rejected) == 2
        assert "the index holds texts" in rejected[0].reason
    documents, (rejected,) = read_bytes(b'{"id": 1, "text": [1, 2]}')
    assert documents == [] and "token 1 is of type int" in rejected.reason


@pytest.mark.parametrize(
    "options",
    [
        {"body": "text", "vector_field": "v"},
        {"body": "vector", "text_field": "t"},
        {"text_field": "t", "vector_field": "v"},
        {"body": "dense"},
    ],
)
def test_fields_that_do_not_go_together(options: Any) -> None:
    with pytest.raises(ParameterError):
        read_documents([], **options)


# A look beforehand


@pytest.mark.parametrize(
    ("dtype", "body", "dim", "kept"),
    [
        ("<f4", "vector", 4, "float32"), (">f2", "vector", 4, "float16"),
        ("u1", "vector", 4, "uint8"), ("?", "vector", 4, None),
        ("u1", "bits", 32, None), ("?", "bits", 4, None),
    ],
)  # fmt: skip
def test_dimension_and_type_are_seen(
    dtype: str, body: str, dim: int, kept: str | None, tmp_path: Path
) -> None:
    array = np.arange(4000).astype("u1").astype(dtype).reshape(1000, 4)
    peek, items = peek_documents([saved(tmp_path / "v.npy", array)], body=body, sample=10)
    assert (peek.dim, peek.dtype) == (dim, kept)
    assert np.array_equal(np.array(peek.bodies), array[::100])  # spread over all rows
    assert len(list(items)) == 1000


@pytest.mark.parametrize("kind", ["gz", "F", "npz"])
def test_of_other_files_the_first_are_seen_and_given_again(kind: str, tmp_path: Path) -> None:
    array = np.arange(4000.0, dtype="f4").reshape(1000, 4)
    path = tmp_path / "v.npy"
    if kind == "npz":
        path = tmp_path / "v.npz"
        np.savez(path, array)
    else:
        saved(path, array.copy(order="F" if kind == "F" else "C"))
    if kind == "gz":
        path = tmp_path / "v.npy.gz"
        path.write_bytes(gzip.compress((tmp_path / "v.npy").read_bytes()))
    peek, items = peek_documents([path], body="vector", sample=10)
    assert (peek.dim, peek.dtype) == (4, "float32")
    assert np.array_equal(np.array(peek.bodies), array[:10])
    assert np.array_equal(np.array([item.body for item in items]), array)


def test_a_stream_is_seen_and_given_again() -> None:
    content = b'no JSON\n{"id": "a", "vector": "0f"}\n{"id": "b", "vector": "01"}\n'
    peek, items = peek_documents(["-"], body="bits", stdin=io.BytesIO(content))
    assert (peek.dim, peek.dtype, peek.bodies) == (8, None, ["0f", "01"])
    assert [item.source for item in items] == ["<stdin>:1", "<stdin>:2", "<stdin>:3"]
    peek, _ = peek_documents(["-"], body="vector", stdin=io.BytesIO(b""))
    assert (peek.dim, peek.dtype, peek.bodies) == (None, None, [])


def test_a_look_holds_a_bounded_number_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.documents.read._HELD_BYTES", 100)
    path = saved(tmp_path / "v.npy", NUMBERS)
    assert len(peek_documents([path], body="vector")[0].bodies) == 3
    path.rename(tmp_path / "v")
    peek, items = peek_documents([tmp_path / "v"], body="vector", input_format="npy")
    assert len(peek.bodies) == 3 and len(list(items)) == 6
    lines = io.BytesIO(b'{"id": 1, "vector": [1, 2]}\n' * 9)
    peek, items = peek_documents(["-"], body="vector", stdin=lines)
    assert len(peek.bodies) == 2 and len(list(items)) == 9


# Memory and any bytes


@pytest.mark.parametrize("kind", ["C", "F", "npz"])
def test_memory_does_not_grow_with_the_file(kind: str, tmp_path: Path) -> None:
    path, small = tmp_path / "large.npy", tmp_path / "small.npy"
    if kind == "npz":
        path, small = path.with_suffix(".npz"), small.with_suffix(".npz")
        np.savez(small, np.zeros((10, 4000), dtype="f4"))
        np.savez(path, np.zeros((10_000, 4000), dtype="f4"))
    else:
        for file, n in ((small, 10), (path, 10_000)):
            with open(file, "wb") as out:
                out.write(headed((n, 4000), order=kind == "F"))
                out.truncate(out.tell() + n * 16_000)  # 160 MB, a hole in the file
    bound = 4 * array_rows.SCATTERED_BYTES if kind == "F" else 16 * 2**20
    assert peak(path, 10_000) - peak(small, 10) < bound


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("messes")


def _packed(array: Any, extension: str) -> bytes:
    file = io.BytesIO()
    if extension == "npy":
        np.save(file, array)
    else:
        np.savez(file, x=array, id=np.arange(len(array)))
    return file.getvalue()


GOOD = [NUMBERS, NUMBERS.astype("f4").copy(order="F"), NUMBERS > 0, NUMBERS.astype("U9"), KEYS]


@st.composite
def messes(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file of arrays, some bytes of it changed, cut out or put in."""
    extension = draw(st.sampled_from(["npy", "npz"]))
    content = bytearray(_packed(np.asarray(draw(st.sampled_from(GOOD))), extension))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 10)))
        content[start:end] = draw(st.binary(max_size=10))
    return extension, bytes(content)


@given(st.one_of(messes(), st.tuples(st.sampled_from(["npy", "npz"]), st.binary(max_size=99))))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes(read: Read, directory: Path, mess: tuple[str, bytes]) -> None:
    extension, content = mess
    path = directory / f"mess.{extension}"
    path.write_bytes(content)
    try:
        documents, rejected = read(path)
        read(saved(directory / "good.npy", NUMBERS), keys=path)
    except InputError as error:
        assert "keys" in error.message or "mess" in error.message
        return
    assert len(documents) + len(rejected) <= 7
