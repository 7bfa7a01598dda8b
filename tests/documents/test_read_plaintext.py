"""Plain text: one file, one document."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from lshdb.documents.document import Document

Read = Callable[..., tuple[list, list]]


def test_the_key_is_the_path_as_given_normalised(tmp_path, read: Read, monkeypatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("one")
    monkeypatch.chdir(tmp_path)
    assert read(".//sub/../sub/a.txt")[0] == [Document("sub/a.txt", "one", ".//sub/../sub/a.txt")]
    assert read("sub/a.txt")[0] == [Document("sub/a.txt", "one", "sub/a.txt")]
    assert read(".")[0][0].key == "sub/a.txt"
    assert read(tmp_path / "sub" / "a.txt")[0][0].key == f"{tmp_path}/sub/a.txt"


@pytest.mark.parametrize("name", ["a", "a.txt", "a.md", "a.jsonl.bak", "jsonl"])
def test_any_other_extension_is_text(name: str, tmp_path, read: Read) -> None:
    (tmp_path / name).write_bytes(b'id: 1, text: "x"\r\n\0')
    documents, _ = read(tmp_path / name)
    assert [d.body for d in documents] == ['id: 1, text: "x"\r\n\0']


def test_standard_input_as_text_has_the_key_dash(read_bytes: Read) -> None:
    documents, _ = read_bytes(b"one\ntwo", input_format="text")
    assert documents == [Document("-", "one\ntwo", "<stdin>")]


def test_bom_is_skipped_and_empty_is_empty(read_bytes: Read) -> None:
    for content, text in ((b"\xef\xbb\xbfone", "one"), (b"", ""), (b"\xef\xbb\xbf", "")):
        documents, rejected = read_bytes(content, input_format="text")
        assert [d.body for d in documents] == [text] and rejected == []


@pytest.mark.parametrize(
    ("content", "offset"),
    [
        (b"\xff", "0"),
        (b"abc\xffdef", "3"),
        (b"\xef\xbb\xbfabc\xff", "6"),
        (b"abc\xe2\x82", "3"),
        (b"x" * 300_000 + b"\xed\xa0\x80", "300,000"),
    ],
)
def test_no_utf_8_says_at_which_offset(content: bytes, offset: str, read_bytes: Read) -> None:
    documents, rejected = read_bytes(content, input_format="text")
    assert documents == []
    place = f"not valid UTF-8 at byte offset {offset} of the file; "
    assert rejected[0].reason.startswith(place)


def test_a_text_of_the_limit_is_read_and_one_byte_more_is_not(read_bytes: Read) -> None:
    for bom in (b"", b"\xef\xbb\xbf"):
        options = {"input_format": "text", "max_document_bytes": 1000}
        documents, rejected = read_bytes(bom + b"x" * 1000, **options)
        assert len(documents) == 1 and rejected == []
        documents, rejected = read_bytes(bom + b"x" * 1001, **options)
        assert documents == [] and "limit of 1,000" in rejected[0].reason


def test_a_path_too_long_for_a_key_is_rejected(tmp_path, read: Read, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    deep = "/".join(["d" * 200] * 5)
    os.makedirs(deep)
    room = 1024 - len(deep) - 1
    for length in (room, room + 1):
        with open(f"{deep}/{'f' * length}", "w") as file:
            file.write("x")
    documents, rejected = read(deep)
    assert [len(d.key) for d in documents] == [1024]
    assert "1,025 bytes" in rejected[0].reason
