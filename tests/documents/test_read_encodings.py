"""Other encodings, other delimiters, and files that are not what their names say."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import InputError, ParameterError
from lshdb.documents.document import Document
from lshdb.documents.io.encodings import find_encoding, recoded
from lshdb.documents.io.streams import CHUNK
from lshdb.documents.read import read_documents

pytestmark = pytest.mark.fast

Read = Callable[..., tuple[list, list]]
WORDS = "fünf Ärzte, ½ Maß"
LINE = f'{{"id": "é", "text": "{WORDS}"}}\n'
COMPRESS = {"gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-be", "utf-32", "UTF8"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv", "a.txt", "a.jsonl.gz"])
def test_an_encoding_that_is_named(name: str, encoding: str, tmp_path: Path, read: Read) -> None:
    content = {
        ".json": f"[{LINE}]", ".csv": f'id,text\né,"{WORDS}"\n',
        ".tsv": f"id\ttext\né\t{WORDS}\n", ".txt": WORDS,
    }.get(Path(name).suffix, LINE)  # fmt: skip
    path = tmp_path / name
    data = content.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    documents, rejected = read(path, encoding=encoding)
    key = str(path) if name == "a.txt" else "é"
    assert [(d.key, d.body) for d in documents] == [(key, WORDS)] and rejected == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_byte_order_mark_shows_the_encoding(
    encoding: str, tmp_path: Path, read: Read, read_bytes: Read
) -> None:
    said: list[str] = []
    path = tmp_path / "a.csv"
    path.write_bytes(f"id,text\na,{WORDS[:5]}\n".encode(encoding))
    documents, rejected = read(path, on_note=said.append)
    assert [(d.key, d.body) for d in documents] == [("a", WORDS[:5])] and rejected == []
    assert said == [f"{path} is {encoding.upper()}; reading it as such"]
    assert read_bytes(LINE.encode(encoding))[0][0].body == WORDS
    for name, text in (("a.json", f"[{LINE}]"), ("b.json", LINE * 2), ("c.json", '{"id": 1}')):
        (tmp_path / name).write_bytes(text.encode(encoding))
    assert read(tmp_path / "a.json")[0][0].body == read(tmp_path / "b.json")[0][0].body == WORDS
    (rejected,) = read(tmp_path / "c.json")[1]
    assert rejected.reason.startswith("looks like a JSON object")


@pytest.mark.parametrize(
    ("encoding", "bad", "reason"),
    [
        ("cp1252", b'{"id": 2, "text": "\x81"}\n', "not valid cp1252 at byte 20 of the line"),
        ("utf-16-le", '{"id": 2, "text": "\ud800"}\n'.encode("utf-16-le", "surrogatepass"),
         "not valid utf-16-le at byte 20 of the line"),
        ("shift_jis", b'{"id": 2, "text": "\xff"}\n', "not valid shift_jis at byte 20"),
    ],
)  # fmt: skip
def test_what_the_encoding_does_not_have_costs_a_line(
    encoding: str, bad: bytes, reason: str, read_bytes: Read
) -> None:
    good = b"".join(f'{{"id": {n}, "text": "x"}}\n'.encode(encoding) + bad for n in (1, 3))
    documents, rejected = read_bytes(good, encoding=encoding)
    assert [d.key for d in documents] == ["1", "3"]
    assert [r.source for r in rejected] == ["<stdin>:2", "<stdin>:4"]
    assert rejected[0].reason.startswith(reason)


def test_a_text_that_ends_within_a_character(read_bytes: Read) -> None:
    content = '{"id": 1, "text": "x"}\n{"id'.encode("utf-16-le")[:-1]
    documents, (rejected,) = read_bytes(content, encoding="utf-16-le")
    assert [d.key for d in documents] == ["1"]
    assert "is not valid utf-16-le: truncated data, at about line 2" in rejected.reason


@pytest.mark.parametrize("input_format", ["jsonl", "csv", "text"])
def test_what_is_not_utf_8_is_told_what_to_do(input_format: str, read_bytes: Read) -> None:
    content = {"csv": b"id,text\na,\xe9\n", "jsonl": b'{"id": 1, "text": "\xe9"}'}
    _, (rejected,) = read_bytes(content.get(input_format, b"\xe9"), input_format=input_format)
    assert rejected.reason.startswith("not valid UTF-8 at byte ")
    assert "if it is in another encoding, give --encoding latin-1" in rejected.reason


@pytest.mark.parametrize(
    "name", ["nope", "", "zlib", "hex", "idna", "utf-7", "unicode_escape", "a\0"]
)
def test_no_encodings(name: str) -> None:
    with pytest.raises(ParameterError, match="no encoding of text files"):
        find_encoding(name)


def test_recoding_is_bounded_and_cut_anywhere() -> None:
    text = "aé½\U0001f600" * 1000
    for encoding in ("utf-16", "utf-8", "gb18030"):
        data = text.encode(encoding)
        for step in (1, 3, 1000):
            pieces = (data[at : at + step] for at in range(0, len(data), step))
            assert b"".join(recoded(pieces, encoding)).decode() == text
    assert max(map(len, recoded([b"\xe9" * CHUNK] * 3, "latin-1"))) == 2 * CHUNK


@pytest.mark.parametrize(("delimiter", "shown"), [(";", "';'"), ("|", "'|'"), ("\t", "tab")])
def test_another_delimiter(delimiter: str, shown: str, tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f'id{delimiter}text\na{delimiter}"one{delimiter} two, three"\n')
    documents, rejected = read(path, delimiter=delimiter)
    assert [d.body for d in documents] == [f"one{delimiter} two, three"] and rejected == []
    _, (rejected,) = read(path)
    assert f"which looks like columns between {shown}: give --delimiter {shown}" in rejected.reason


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "\r", "\0"])
def test_no_delimiters(delimiter: str) -> None:
    with pytest.raises(ParameterError, match="expected one character"):
        read_documents(["-"], input_format="csv", delimiter=delimiter)


def test_options_that_do_nothing_are_refused(tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "a.npy", np.ones((1, 2)))
    with pytest.raises(ParameterError, match="no file of the input is text, CSV"):
        read_documents([tmp_path / "a.npy"], encoding="latin-1")
    with pytest.raises(ParameterError, match="no file of the input is CSV"):
        read_documents(["-"], delimiter=";")


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.zst", "a"])
def test_what_is_compressed_is_told_by_its_beginning(
    kind: str, name: str, tmp_path: Path, read: Read, read_bytes: Read
) -> None:
    said: list[str] = []
    path = tmp_path / name
    path.write_bytes(COMPRESS[kind](LINE.encode()))
    how: dict[str, Any] = {"input_format": "jsonl"} if name == "a" else {}
    for given in (path, tmp_path):  # named, and found
        said.clear()
        documents, rejected = read(given, on_note=said.append, **how)
        assert [d.body for d in documents] == [WORDS] and rejected == []
        assert said == [f"{path} is {kind}-compressed; reading it as such"]
    said.clear()
    assert read_bytes(COMPRESS[kind](LINE.encode()), on_note=said.append)[0][0].body == WORDS
    assert said == [f"<stdin> is {kind}-compressed; reading it as such"]


def test_texts_that_begin_almost_so_are_texts(tmp_path: Path, read: Read) -> None:
    for number, text in enumerate(["BZh is no", "BZh91AY", "BZh", "\x1f", "B"]):
        path = tmp_path / f"{number}.txt"
        path.write_text(text)
        assert read(path)[0] == [Document(str(path), text, str(path))]


def test_a_pipe_in_single_bytes(tmp_path: Path) -> None:
    class Slow(io.RawIOBase):
        def __init__(self, content: bytes) -> None:
            self.rest = content

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            count = min(1, len(self.rest))
            buffer[:count], self.rest = self.rest[:count], self.rest[count:]
            return count

    for content in (LINE.encode(), gzip.compress(LINE.encode()), b"\x1f\x8b"):
        found = list(read_documents(["-"], stdin=io.BufferedReader(Slow(content))))
        assert len(found) == 1 and isinstance(found[0], Document) == (len(content) > 2)


def test_the_first_line_of_a_pipe_comes_before_the_second() -> None:
    """Whoever asks question by question gets an answer to each."""
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as stdin, open(write_end, "wb", buffering=0) as writer:
        items: Iterator[Any] = read_documents(["-"], stdin=stdin)
        writer.write(b'{"id":1,"text":""}\n')
        watch = threading.Timer(10, writer.close)  # so that a failure ends
        watch.start()
        assert next(items).key == "1" and not writer.closed
        watch.cancel()


def test_many_wrong_names_are_said_in_short(tmp_path: Path, read: Read) -> None:
    said: list[str] = []
    for number in range(8):
        (tmp_path / f"{number}.jsonl").write_bytes(gzip.compress(LINE.encode()))
    read(tmp_path, on_note=said.append)
    assert len(said) == 6 and said[0].startswith(f"{tmp_path / '0.jsonl'} is gzip-compressed")
    assert said[-1] == "3 more files are read as what they are, not by their names"


def test_parquet_under_another_name(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.jsonl"
    table = arrow.table({"id": ["a"], "text": ["x"]})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    for given in (path, tmp_path):
        said: list[str] = []
        documents, rejected = read(given, on_note=said.append)
        assert [(d.key, d.body) for d in documents] == [("a", "x")] and rejected == []
        assert said == [f"{path} is a Parquet file; reading it as such"]
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match="needs pyarrow") as caught:
        read_documents([path])
    assert "[parquet]" in (caught.value.hint or "")
