"""Whatever the bytes: documents and rejections, never an exception, never a lost good line."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb import InputError
from lshdb.documents.document import (
    Document,
    validate_body,
    validate_key,
)
from lshdb.documents.io.streams import TooLong, split_lines
from lshdb.documents.read import read_documents

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Read = Callable[..., tuple[list, list]]

PIECES = [
    b'{"id":"a","text":"b"}',
    b'{"id":1,"text":["b",2]}',
    b'{"text":',
    b"id,text",
    b"id\ttext",
    b'a,"b',
    b'c","d"',
    b"\n",
    b"\r\n",
    b"\r",
    b'"',
    b'""',
    b",",
    b"\t",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"x" * 90,
    "é".encode(),
]
MESSES = st.one_of(
    st.binary(max_size=300),
    st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join),
    st.lists(st.sampled_from(PIECES), max_size=30).map(lambda p: b"id,text\n" + b"".join(p)),
)
LIMITS = st.sampled_from([1, 20, 100, 2**26])


@given(MESSES, st.sampled_from(["jsonl", "csv", "tsv", "text"]), LIMITS)
@settings(max_examples=400)
def test_any_bytes_in_any_format(
    read_bytes: Read, content: bytes, input_format: str, limit: int
) -> None:
    documents, rejected = read_bytes(content, input_format=input_format, max_document_bytes=limit)
    for document in documents:
        assert validate_key(document.key) is None
        assert validate_body(document.body) is None
    assert len(documents) + len(rejected) <= content.count(b"\n") + 1


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("messes")


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A compressed mess, some bytes of it changed, cut out or put in."""
    kind = draw(st.sampled_from(["gz", "zst"]))
    compress = gzip.compress if kind == "gz" else zstd.compress
    parts = draw(st.lists(MESSES, min_size=1, max_size=3))
    content = bytearray(b"".join(compress(part) for part in parts))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 10)))
        content[start:end] = draw(st.binary(max_size=10))
    return kind, bytes(content)


@given(
    st.one_of(damaged(), st.tuples(st.sampled_from(["gz", "zst"]), st.binary(max_size=100))),
    st.sampled_from(["jsonl", "csv", "tsv", "txt"]),
    LIMITS,
)
@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_as_compressed_files(
    read: Read, directory: Path, mess: tuple[str, bytes], extension: str, limit: int
) -> None:
    kind, content = mess
    path = directory / f"mess.{extension}.{kind}"
    path.write_bytes(content)
    with contextlib.suppress(InputError):  # it looks like a format that is not read
        read(path, max_document_bytes=limit)


def _is_no_document(line: bytes) -> bool:
    items = list(read_documents(["-"], stdin=io.BytesIO(line)))
    return not any(isinstance(item, Document) for item in items)


BAD_LINES = (
    st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join))
    .map(lambda line: line.replace(b"\n", b""))
    .filter(_is_no_document)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
KEYS = TEXTS.filter(lambda key: validate_key(key) is None)


@given(st.lists(st.one_of(BAD_LINES, st.tuples(KEYS, TEXTS))), st.sampled_from([b"\n", b"\r\n"]))
def test_good_lines_among_bad_ones_all_come_out(
    read_bytes: Read, lines: list[bytes | tuple[str, str]], end: bytes
) -> None:
    expected = []
    content = b"\n"  # so that a byte order mark in the first bad line is not at the beginning
    for number, line in enumerate(lines, start=2):
        if isinstance(line, tuple):
            expected.append(Document(line[0], line[1], f"<stdin>:{number}"))
            line = json.dumps({"text": line[1], "id": line[0]}).encode()
        content += line + end
    documents, _ = read_bytes(content)
    assert documents == expected


BAD_RECORDS = st.one_of(
    st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join)
).map(lambda line: line.translate(None, b'\n",'))


@given(st.lists(st.one_of(BAD_RECORDS, st.integers(0, 99))))
def test_good_records_among_bad_ones_all_come_out(
    read_bytes: Read, lines: list[bytes | int]
) -> None:
    expected = []
    content = b"id,text\n"
    for number, line in enumerate(lines, start=2):
        if isinstance(line, int):
            expected.append(Document(str(line), f"text {line}", f"<stdin>:{number}"))
            line = b'%d,"text %d"' % (line, line)
        content += line + b"\n"
    documents, _ = read_bytes(content, input_format="csv")
    assert documents == expected


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"ab", b"\xef\xbb\xbf", b'"', b"x" * 9])).map(
        b"".join
    ),
    st.lists(st.integers(0, 60)),
    st.integers(1, 12),
)
def test_lines_do_not_depend_on_how_the_content_is_cut(
    content: bytes, cuts: list[int], limit: int
) -> None:
    bounds = sorted({0, *(min(cut, len(content)) for cut in cuts), len(content)})
    chunks = [content[a:b] for a, b in pairwise(bounds)]
    expected = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert list(split_lines(chunks, limit)) == [
        line if len(line) <= limit else TooLong(len(line), line.count(b'"')) for line in expected
    ]
