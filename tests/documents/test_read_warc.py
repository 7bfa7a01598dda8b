"""Web archives: which records are pages, how they are decoded, and damage."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb.documents.document import Document
from lshdb.documents.read import read_documents

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


@pytest.mark.parametrize("field", ["Target-URI: http://a.example/1", f"Date: {DATE}"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_page_without_address_or_date_has_no_key(
    field: str, is_there: bool, tmp_path: Path, read: Read
) -> None:
    line = f"WARC-{field}\r\n".encode()
    left = line.partition(b":")[0] + b":\r\n" if is_there else b""
    path = tmp_path / "a.warc"
    path.write_bytes(page(1, WORDS.encode(), HTML).replace(line, left) * 2)
    documents, rejected = read(path)
    assert documents == [] and len(rejected) == 2
    documents, _ = read(path, row_keys=True)
    assert [d.key for d in documents] == [f"{path}:1", f"{path}:2"]


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


def members(*bodies: bytes) -> list[bytes]:
    """Gzip members of a record each."""
    return [gzip.compress(page(n, body, HTML), mtime=0) for n, body in enumerate(bodies)]


BODIES = [b"%d " % n + bytes(range(32, 127)) * 3 for n in range(9)]
PLACES = {
    "its data": lambda member: member[:60] + bytes([member[60] ^ 255]) + member[61:],
    "its checksum": lambda member: member[:-5] + bytes([member[-5] ^ 1]) + member[-4:],
    "its beginning": lambda member: b"\0" + member[1:],
    "its method": lambda member: member[:2] + b"\x07" + member[3:],
    "its end is missing": lambda member: member[:-20],
    "its middle is missing": lambda member: member[:40] + member[90:],
    "nearly all is missing": lambda member: member[:12],
    "zeros": lambda member: member[:30] + bytes(len(member) - 30),
    "more behind it": lambda member: member + b"nonsense",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [0, 1, 4, 7])
@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_damaged_member_costs_its_record(
    tmp_path: Path, read: Read, read_bytes: Read, place: str, number: int, is_pipe: bool
) -> None:
    packed = members(*BODIES)
    packed[number] = PLACES[place](packed[number])
    if is_pipe and not packed[0].startswith(b"\x1f\x8b\x08"):
        return  # nothing says that it is gzip
    if is_pipe:
        documents, rejected = read_bytes(b"".join(packed), input_format="warc")
    else:
        (tmp_path / "a.warc.gz").write_bytes(b"".join(packed))
        documents, rejected = read(tmp_path / "a.warc.gz")
    left = [body.decode() for n, body in enumerate(BODIES) if n != number]
    if place == "more behind it":
        left.insert(number, BODIES[number].decode())
    assert [document.body for document in documents] == left
    (one,) = rejected
    at = number + 1 + (place == "more behind it")
    assert one.source.endswith(f": record {at}") and "its gzip member is corrupt (" in one.reason


@pytest.mark.parametrize("place", ["its data", "its checksum", "its end is missing"])
def test_damage_of_the_last_member_is_said_of_the_file(
    tmp_path: Path, read: Read, place: str
) -> None:
    packed = members(*BODIES)
    packed[-1] = PLACES[place](packed[-1])
    (tmp_path / "a.warc.gz").write_bytes(b"".join(packed))
    documents, (rejected,) = read(tmp_path / "a.warc.gz")
    assert [document.body for document in documents] == [body.decode() for body in BODIES[:-1]]
    assert rejected.reason.startswith("the compressed file is")
    assert rejected.reason.endswith(", after record 8")


def test_several_damaged_members(tmp_path: Path, read: Read) -> None:
    packed = members(*BODIES)
    for number, place in (
        (0, "its beginning"),
        (1, "its checksum"),
        (2, "its checksum"),
        (6, "its data"),
    ):
        packed[number] = PLACES[place](packed[number])
    (tmp_path / "a.warc.gz").write_bytes(b"".join(packed))
    documents, rejected = read(tmp_path / "a.warc.gz")
    assert [document.body[0] for document in documents] == list("34578")
    assert [one.source.rpartition(" ")[2] for one in rejected] == ["1", "2", "3", "7"]


def test_a_magic_within_the_data_is_no_member(tmp_path: Path, read: Read) -> None:
    """Stored data shows the bytes with which members begin, and whole members."""
    inner = b"\x1f\x8b\x08" * 5 + gzip.compress(b"not a record")
    block = record("resource", 1, inner * 3, "image/png")
    stored = gzip.compress(block, 0, mtime=0)
    packed = [*members(b"one"), stored[:-9] + b"\xff" + stored[-8:], *members(b"two")]
    (tmp_path / "a.warc.gz").write_bytes(b"".join(packed))
    documents, rejected = read(tmp_path / "a.warc.gz")
    assert [document.body for document in documents] == ["one", "two"] and len(rejected) == 1


def test_one_member_of_all_records_is_read_up_to_its_damage(tmp_path: Path, read: Read) -> None:
    rng = random.Random(1)
    bodies = [rng.randbytes(300).hex().encode() for _ in range(40)]
    data = gzip.compress(b"".join(page(n, body, HTML) for n, body in enumerate(bodies)), mtime=0)
    half = len(data) // 2
    (tmp_path / "a.warc.gz").write_bytes(data[:half] + b"\xff" * 40 + data[half + 40 :])
    documents, (rejected,) = read(tmp_path / "a.warc.gz")
    assert 17 <= len(documents) <= 20 and rejected.reason.endswith(f"after record {len(documents)}")
    right = [body.decode() for body in bodies[: len(documents) - 1]]
    assert [document.body for document in documents][:-1] == right  # the last may be damaged


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_byte_costs_one_record(read_bytes: Read, data: st.DataObject) -> None:
    packed = members(*BODIES)
    content = bytearray(b"".join(packed))
    place = data.draw(st.integers(3, len(content) - len(packed[-1]) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    documents, rejected = read_bytes(bytes(content), input_format="warc")
    texts = [body.decode() for body in BODIES]
    assert {document.body for document in documents} <= set(texts)
    assert len(documents) >= len(BODIES) - 1 and len(documents) + len(rejected) <= len(BODIES)


def test_a_page_that_the_archive_says_is_cut_is_rejected(read_bytes: Read) -> None:
    cut = page(1, b"a page that goes on", HTML).replace(
        b"WARC-Date", b"WARC-Truncated: length\r\nWARC-Date"
    )
    documents, (rejected,) = read_bytes(cut + page(2, b"good", HTML), input_format="warc")
    assert [document.body for document in documents] == ["good"]
    assert "the page is cut: WARC-Truncated is 'length'" in rejected.reason


@pytest.mark.parametrize(
    "header",
    [b"WARC-Target-URI:\r\n http://a.example/1", b"WARC-Target-URI: <http://a.example/1>"],
)
def test_headers_may_be_folded(read_bytes: Read, header: bytes) -> None:
    folded = page(1, b"text", "Content-Type:", "\ttext/plain;", " charset=utf-8")
    folded = folded.replace(b"WARC-Target-URI: http://a.example/1", header)
    (document,), rejected = read_bytes(folded, input_format="warc")
    assert document.key == f"http://a.example/1 {DATE}" and not rejected


def test_a_member_that_holds_no_record_costs_itself(tmp_path: Path, read: Read) -> None:
    packed = members(*BODIES)
    packed[2] = gzip.compress(b"nonsense\r\n\r\n" + bytes(300_000))
    packed[5] = gzip.compress(b"WARC/1.0\r\nContent-Length: many\r\n\r\n")
    (tmp_path / "a.warc.gz").write_bytes(b"".join(packed))
    documents, rejected = read(tmp_path / "a.warc.gz")
    assert [document.body[0] for document in documents] == list("0134678")
    assert [one.source.rpartition(" ")[2] for one in rejected] == ["3", "6"]
    assert "its gzip member has no WARC record where one begins" in rejected[0].reason


def test_records_need_not_be_members(tmp_path: Path, read: Read) -> None:
    """As of a file that was packed block by block, or with many records to a member."""
    content = b"".join(page(n, body, HTML) for n, body in enumerate(BODIES))
    for size in (100, 1000, len(content)):
        blocks = [content[at : at + size] for at in range(0, len(content), size)]
        (tmp_path / "a.warc.gz").write_bytes(b"".join(map(gzip.compress, blocks)) + bytes(50))
        documents, rejected = read(tmp_path / "a.warc.gz")
        assert [document.body for document in documents] == [body.decode() for body in BODIES]
        assert rejected == []
