"""Lists of URLs: one document a host, whatever the order, the number of lists and their packing."""

from __future__ import annotations

import gzip
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import lshdb.disksort.sorted_rows as scratch
from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.read import read_documents
from lshdb.errors import DatabaseError, ParameterError

Read = Callable[..., tuple[list[Document], list[Rejected]]]


def test_urls_are_put_together_by_host(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.txt").write_text("http://b.org/2\nhttp://a.com/1\n\n  http://b.org/1 \r\n")
    (tmp_path / "b.gz").write_bytes(
        gzip.compress(b"\xef\xbb\xbfhttp://a.com/1\nHTTP://A.com/0\nhttp://a.com/9")
    )
    (tmp_path / "c.csv").write_text("id,text\nkey,http://c.net/\n")
    paths = [tmp_path / "a.txt", tmp_path / "c.csv", tmp_path / "b.gz"]
    documents, rejected = read(paths, fallback="urls")
    assert rejected == []
    assert documents == [
        Document("key", "http://c.net/", f"{tmp_path}/c.csv:2"),
        Document("a.com", "HTTP://A.com/0\nhttp://a.com/1\nhttp://a.com/9", f"{tmp_path}/a.txt"),
        Document("b.org", "http://b.org/1\nhttp://b.org/2", f"{tmp_path}/a.txt"),
    ]
    forced, bad = read(paths, input_format="urls")
    assert [document.key for document in forced] == ["a.com", "b.org"]
    assert [each.source for each in bad] == [f"{tmp_path}/c.csv:1", f"{tmp_path}/c.csv:2"]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://Example.COM/a", "example.com"),
        ("http://example.com:80/", "example.com"),
        ("https://example.com:443", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("https://example.com:80/", "example.com:80"),
        ("http://example.com:/", "example.com"),
        ("ftp://u:p@example.com:21/x", "example.com"),
        ("http://u@b:p@example.com:8080/x", "example.com:8080"),
        ("//example.com/x", "example.com"),
        ("example.com/x", "example.com"),
        ("example.com", "example.com"),
        ("example.com:8080/x?y=http://z.org", "example.com:8080"),
        ("http://localhost/x", "localhost"),
        ("example.com:80/x", "example.com"),
        ("example.com:443/x", "example.com"),
        ("http://example.com:080/x", "example.com"),
        ("http://example.com:08080/x", "example.com:8080"),
        ("http://[::1]:8080/x", "[::1]:8080"),
        ("http://[::1]/x", "[::1]"),
        ("http://b\xfccher.example/x", "b\xfccher.example"),
    ],
)
def test_hosts(read_bytes: Read, url: str, key: str) -> None:
    documents, rejected = read_bytes(url.encode(), input_format="urls")
    assert rejected == []
    assert documents == [Document(key, url, "<stdin>")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"/only/a/path", "no host"),
        (b"http://example.com:80:80/x", "a stray bracket or colon"),
        (b"http://[2001:DB8::1/a", "a stray bracket or colon"),
        (b"http://example.com:65536/", "not a number up to 65535"),
        (b"localhost/x", "no host"),
        (b"some words. and more", "no host"),
        (b"mailto:joe@example.com", "no host"),
        (b"http:///x", "no host"),
        (b"http://user@/x", "no host"),
        (b"http://:80/x", "no host"),
        (b"http://a b.com/x", "white space"),
        (b"http://example.com:http/x", "port 'http'"),
        ("http://example.com:\u0663/x".encode(), "port"),
        (b"http://a\0b.com/x", "NUL"),
        (b"http://" + b"a" * 1025 + b"/x", "1,025 bytes"),
        (b"http://a.com/\xe9", "not valid UTF-8 at byte 14"),
        (b"http://a.com/" + b"x" * 2000, "more than the limit of 1,500"),
    ],
)
def test_a_line_without_a_host_is_rejected_with_its_place(
    read_bytes: Read, line: bytes, words: str
) -> None:
    content = b"http://good.org/a\n\n" + line + b"\nhttp://good.org/b\n"
    documents, rejected = read_bytes(content, input_format="urls", max_document_bytes=1500)
    assert [document.body for document in documents] == ["http://good.org/a\nhttp://good.org/b"]
    (rejection,) = rejected
    assert rejection.source == "<stdin>:3" and words in rejection.reason


def test_a_host_over_the_limit_is_rejected(read_bytes: Read) -> None:
    content = "".join(f"a.com/{n:03}\nb.org/{n % 3}\n" for n in range(10)).encode()
    assert len(read_bytes(content, input_format="urls", max_document_bytes=99)[0]) == 2
    documents, rejected = read_bytes(content, input_format="urls", max_document_bytes=98)
    assert [document.key for document in documents] == ["b.org"]
    assert rejected[0].reason == "the URLs of a.com have more bytes than the limit of 98"


def test_many_urls_in_any_order(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_CHUNK", 7)
    lines = [f"http://h{n % 13}.example/{n % 50}" for n in range(1000)]
    random.Random(1).shuffle(lines)
    expected: dict[str, set[str]] = {}
    for line in lines:
        expected.setdefault(line.split("/")[2], set()).add(line)
    for part in range(4):
        (tmp_path / f"{part}.txt").write_text("\n".join(lines[part::4]))
    documents, rejected = read(tmp_path, fallback="urls")
    assert rejected == []
    assert [(document.key, document.body) for document in documents] == [
        (host, "\n".join(sorted(urls))) for host, urls in sorted(expected.items())
    ]


def test_a_damaged_list_keeps_what_came_before(tmp_path: Path, read: Read) -> None:
    whole = gzip.compress(b"http://a.com/1\nhttp://b.org/1\n")
    (tmp_path / "a.txt.gz").write_bytes(whole[:-6])
    documents, rejected = read(tmp_path / "a.txt.gz", fallback="urls")
    assert [document.key for document in documents] == ["a.com", "b.org"]
    assert len(rejected) == 1 and rejected[0].source.startswith(str(tmp_path / "a.txt.gz"))


def test_no_list_no_database(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_open", lambda: 1 / 0)
    (tmp_path / "a.txt").write_text("\n \n/no/host\n")
    documents, rejected = read(tmp_path / "a.txt", input_format="urls")
    assert documents == [] and len(rejected) == 1


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(scratch, "_CHUNK", 1)
    opened: list[Path] = []
    connect = scratch.sqlite3.connect

    def watched(path: Path, **options: object) -> object:
        opened.append(path)
        return connect(path, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(scratch.sqlite3, "connect", watched)
    (tmp_path / "a.txt").write_text("http://a.com/1\nnone\nhttp://b.org/1\n")
    list(read_documents([tmp_path / "a.txt"], input_format="urls"))
    stream = read_documents([tmp_path / "a.txt"], input_format="urls")
    next(stream)  # the rejection, when a row is on disk
    assert os.listdir(folder) == []
    stream.close()  # type: ignore[attr-defined]
    assert len(opened) == 2 and all(path.is_relative_to(folder) for path in opened)
    assert os.listdir(folder) == []


def test_a_full_or_absent_folder_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("http://a.com/1\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(DatabaseError, match="temporary database") as caught:
        list(read_documents([tmp_path / "a.txt"], input_format="urls"))
    assert "TMPDIR" in (caught.value.hint or "")


def test_the_fallback_is_only_a_fallback(tmp_path: Path, read: Read, read_bytes: Read) -> None:
    assert read_bytes(b'{"id": 1, "text": "x"}')[0][0].key == "1"
    assert read_bytes(b"http://a.com/x", fallback="urls")[0][0].key == "a.com"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1, "text": "x"}'))
    assert read(tmp_path / "a.jsonl.gz", fallback="urls")[0][0].key == "1"
    (tmp_path / "a.txt").write_text("http://a.com/x")
    assert read(tmp_path / "a.txt", input_format="text", fallback="urls")[0][0].key.endswith("txt")
    for wrong in ("auto", "arow"):
        with pytest.raises(ParameterError, match="fallback"):
            read_documents([], fallback=wrong)
