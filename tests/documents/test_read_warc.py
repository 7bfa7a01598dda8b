"""Web archives: which records are pages, how they are decoded, and damage."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb.documents import Document, read_documents

pytestmark = pytest.mark.fast

Read = Callable[..., tuple[list, list]]
DATE = "2026-11-22T01:02:03Z"


def record(kind: str, number: int, block: bytes, content_type: str = "application/http") -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a.example/{number}\r\n"
        f"WARC-Date: {DATE}\r\nContent-Type: {content_type}\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def page(number: int, body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *fields]
    return record("response", number, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)


HTML = "Content-Type: text/html; charset=utf-8"
WORDS = "<p>fünf</p>"
RECORDS = [
    record("warcinfo", 0, b"software: x\r\n", "application/warc-fields"),
    record("request", 1, b"GET / HTTP/1.1\r\n\r\n"),
    page(1, WORDS.encode(), HTML),
    page(2, b"\x89PNG", "Content-Type: image/png"),
    page(3, WORDS.encode(), HTML, status="404 Not Found"),
    page(4, WORDS.encode("latin-1"), "Content-Type: text/plain;charset=ISO-8859-1"),
    record("conversion", 5, WORDS.encode(), "text/plain"),
    record("metadata", 6, b"a: b", "text/plain"),
]
KEYS = [f"http://a.example/{number} {DATE}" for number in (1, 4, 5)]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "a.warc.wet.gz"])
def test_pages_are_documents_and_the_rest_is_passed_over(
    name: str, tmp_path: Path, read: Read
) -> None:
    path = tmp_path / name
    pack = gzip.compress if name.endswith("gz") else bytes
    path.write_bytes(b"".join(map(pack, RECORDS)))
    documents, rejected = read(path)
    assert [(d.key, d.body) for d in documents] == [(key, WORDS) for key in KEYS]
    assert [d.source for d in documents] == [f"{path}: record {n}" for n in (3, 6, 7)]
    assert rejected == []
    documents, _ = read(path, row_keys=True, keep_fields=["url", "date", "status"])
    assert [d.key for d in documents] == [f"{path}:{n}" for n in (3, 6, 7)]
    assert documents[0].fields == {"url": "http://a.example/1", "date": DATE, "status": 200}


@pytest.mark.parametrize(
    ("body", "fields", "text"),
    [
        (gzip.compress(b"one", mtime=0), (HTML, "Content-Encoding: gzip"), "one"),
        (b"one", (HTML, "Content-Encoding: gzip"), "one"),  # decoded by the crawler
        (zlib.compress(b"one"), (HTML, "content-encoding: deflate"), "one"),
        (b"3\r\none\r\n4;x\r\n two\r\n0\r\n\r\n", (HTML, "Transfer-Encoding: chunked"), "one two"),
        (b"one", (HTML, "Transfer-Encoding: chunked"), "one"),
        (b'<meta charset="cp1252">\x80', ("Content-Type: text/html",), '<meta charset="cp1252">€'),
        ("\ufeffü".encode(), ("Content-Type: TEXT/HTML; charset=nope",), "ü"),
    ],
)
def test_bodies_are_decoded(
    body: bytes, fields: tuple[str, ...], text: str, read_bytes: Read
) -> None:
    documents, rejected = read_bytes(page(1, body, *fields), input_format="warc")
    assert [d.body for d in documents] == [text] and rejected == []


@pytest.mark.parametrize(
    ("body", "fields", "reason"),
    [
        (b"\xff", (HTML,), "the page is not valid utf-8"),
        (b"x", (HTML, "Content-Encoding: br"), "the page is encoded as 'br', which is not decoded"),
        (b"\x1f\x8bxxxxxxxxxxxxxx", (HTML, "Content-Encoding: gzip"), "cannot be decompressed"),
        (gzip.compress(bytes(10**6), mtime=0), (HTML, "Content-Encoding: gzip"), "limit of 5,000"),
        (b"x" * 6000, (HTML,), "bytes, more than the limit of 5,000"),
    ],
)
def test_a_bad_page_costs_itself(
    body: bytes, fields: tuple[str, ...], reason: str, read_bytes: Read
) -> None:
    content = page(1, body, *fields) + page(2, b"good", HTML)
    documents, (rejected,) = read_bytes(content, input_format="warc", max_document_bytes=5000)
    assert [d.body for d in documents] == ["good"]
    assert rejected.source == "<stdin>: record 1" and reason in rejected.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"WARC/1.0\r\nWARC-Type: response\r\n", "ends within a header"),
        (page(2, b"x" * 99, HTML)[:-30], "ends within a record"),
        (b"nonsense\r\n\r\n", "has no WARC record where one begins, but 'nonsense'"),
        (b"WARC/1.0\r\nContent-Length: -1\r\n\r\n", "whose Content-Length is '-1'"),
        (b"WARC/1.0\r\n" + b"x" * 400_000, "a header of more than 65,536 bytes"),
    ],
)
def test_damage_is_named_after_what_came_before(
    content: bytes, reason: str, read_bytes: Read
) -> None:
    documents, (rejected,) = read_bytes(page(1, b"good", HTML) + content, input_format="warc")
    assert [d.body for d in documents] == ["good"]
    assert reason in rejected.reason and rejected.reason.endswith(", after record 1")


def test_a_large_record_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    bomb = page(3, gzip.compress(bytes(50_000_000)), HTML, "Content-Encoding: gzip")
    content = page(1, bytes(50_000_000), HTML) + bomb + page(2, b"good", HTML)
    path.write_bytes(gzip.compress(content, 1))
    list(read_documents([path], max_document_bytes=100_000))
    tracemalloc.start()
    try:
        found = list(read_documents([path], max_document_bytes=100_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 3 and isinstance(found[2], Document)
    assert peak < 4 * 2**20


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(read_bytes: Read, data: st.DataObject) -> None:
    content = bytearray(b"".join(RECORDS))
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(content)))
        content[start : start + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    documents, rejected = read_bytes(bytes(content), input_format="warc")
    assert len(documents) + len(rejected) <= len(RECORDS)
