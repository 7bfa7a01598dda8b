"""Lines that the kernel reads: the same documents, rejections and messages as by the parser."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb import Document, Index, Rejected, read_documents
from lshdb.documents.blocks import (
    DocumentBlock,
    DocumentStream,
)
from lshdb.documents.formats import jsonl
from lshdb.documents.io import streams
from lshdb.kernel import compiled
from lshdb.signatures.sets import SetFamily
from tests.sizes import set_sizes

pytestmark = pytest.mark.skipif(compiled is None, reason="no compiled kernel")

Items = list[Document | Rejected]


class Stdin(io.RawIOBase):
    """A pipe that gives its bytes in pieces of one size."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data = io.BytesIO(data)
        self._piece = piece

    def read1(self, _: int = -1) -> bytes:
        return self._data.read(self._piece)

    read = read1  # type: ignore[assignment]


def by_kernel(data: bytes, piece: int = 2**18, **options: Any) -> Items:
    return list(read_documents(["-"], stdin=Stdin(data, piece), **options))  # type: ignore[arg-type]


def by_parser(data: bytes, piece: int = 2**18, **options: Any) -> Items:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_scanner", lambda file: None)
        return by_kernel(data, piece, **options)


def blocks(data: bytes, **options: Any) -> list[Any]:
    stream = read_documents(["-"], stdin=io.BytesIO(data), **options)
    assert isinstance(stream, DocumentStream)
    return list(stream.by_blocks())


def check_same(data: bytes, **options: Any) -> None:
    expected = by_parser(data, **options)
    assert by_kernel(data, **options) == expected
    taken: Items = []
    for item in blocks(data, **options):
        taken += item.documents() if isinstance(item, DocumentBlock) else [item]
    assert taken == expected


ODD_LINES = [
    "",
    "   ",
    "\t\r",
    "{}",
    "[]",
    "[1]",
    "null",
    "5",
    '"x"',
    "{",
    "}",
    '{"id"',
    '{"id":',
    "{,}",
    '{"id":"a","text":"b"}',
    ' {"id" : "a" ,\t"text":"b" } ',
    '{"id":"a","text":"b"} x',
    '{"id":"a","text":"b",}',
    '{"id":"a" "text":"b"}',
    '{"id":"a","text":"b"}\r',
    '{"id":"a","text":"b"}{"id":"c","text":"d"}',
    '{"id":"","text":"b"}',
    '{"id":"a","text":""}',
    '{"id":5,"text":"b"}',
    '{"id":-5,"text":"b"}',
    '{"id":-0,"text":"b"}',
    '{"id":0,"text":"b"}',
    '{"id":05,"text":"b"}',
    '{"id":5.0,"text":"b"}',
    '{"id":5e1,"text":"b"}',
    '{"id":+5,"text":"b"}',
    '{"id":9223372036854775807,"text":"b"}',
    '{"id":18446744073709551616,"text":"b"}',
    '{"id":999999999999999999,"text":"b"}',
    '{"id":9999999999999999999,"text":"b"}',
    '{"id":true,"text":"b"}',
    '{"id":null,"text":"b"}',
    '{"id":["a"],"text":"b"}',
    '{"id":"a"}',
    '{"text":"b"}',
    '{"id":"a","text":null}',
    '{"id":"a","text":5}',
    '{"id":"a","text":["b","c"]}',
    '{"id":"a","text":{"set":["b"]}}',
    '{"id":"a","text":"b","id":"c"}',
    '{"id":"a","text":"b","text":"c"}',
    '{"id":"a","text":"b","x":1,"x":2}',
    '{"i\\u0064":"a","text":"b"}',
    '{"id":"a","te\\u0078t":"b"}',
    '{"id":"a\\u0000","text":"b"}',
    '{"id":"a","text":"b\\u0000"}',
    '{"id":"a\0","text":"b"}',
    '{"id":"a","text":"b\0"}',
    '{"id":"\\ud83d\\ude00","text":"\\u00e9\\n\\t\\"\\\\\\/\\b\\f\\r"}',
    '{"id":"a","text":"\\ud83d"}',
    '{"id":"a","text":"\\ude00"}',
    '{"id":"a","text":"\\ud83dx"}',
    '{"id":"a","text":"\\ud83d\\u0041"}',
    '{"id":"a","text":"\\ud83d\\ud83d\\ude00"}',
    '{"id":"a","text":"\\uD83D\\uDE00\\uABCD"}',
    '{"id":"a","text":"\\x"}',
    '{"id":"a","text":"\\u12"}',
    '{"id":"a","text":"\\u12g4"}',
    '{"id":"a","text":"b\\',
    '{"id":"a","text":"b',
    '{"id":"a","text":"tab\there"}',
    '{"id":"a","text":"\x7f\x1f"}',
    '{"id":"é","text":"中\U0001f600"}',
    '\ufeff{"id":"a","text":"b"}',
    '{"id":"a","text":"b","x":[1,-2.5,{"y":[]},{},[[]],true,false,null,"\\n"]}',
    '{"id":"a","text":"b","x":1e5}',
    '{"id":"a","text":"b","x":1e999}',
    '{"id":"a","text":"b","x":NaN}',
    '{"id":"a","text":"b","x":.5}',
    '{"id":"a","text":"b","x":1.}',
    '{"id":"a","text":"b","x":-}',
    '{"id":"a","text":"b","x":[1,]}',
    '{"id":"a","text":"b","x":[,1]}',
    '{"id":"a","text":"b","x":[1 2]}',
    '{"id":"a","text":"b","x":{"y"}}',
    '{"id":"a","text":"b","x":{"y":}}',
    '{"id":"a","text":"b","x":{1:2}}',
    '{"id":"a","text":"b","x":tru}',
    '{"id":"a","text":"b","x":[1}}',
    '{"id":"a","text":"b","x":}',
    '{"id":"a","text":"b","x":"é中\U0001f600"}',
    '{"id":"a","text":"b","x":' + "[" * 40 + "]" * 40 + "}",
    '{"id":"a","text":"b","x":' + "[" * 31 + "]" * 31 + "}",
    '{"id":"a","text":"b"}\x0b',
    '{"id":"a","text":"b","x":0.1234567890123456789012}',
    '{"id":"a","text":"b","x":12345678901234567890123}',
    '{"id":"' + "k" * 1024 + '","text":"b"}',
    '{"id":"' + "k" * 1025 + '","text":"b"}',
    '{"id":"' + "é" * 512 + '","text":"b"}',
    '{"id":"' + "é" * 513 + '","text":"b"}',
    '{"id":"' + "\\u00e9" * 512 + '","text":"b"}',
    '{"id":"' + "\\u00e9" * 513 + '","text":"b"}',
    '{"":"a","id":"b","text":"c"}',
    '{"id":"a","text":"b","":{"":""}}',
    '{"id":"a","text":"b" , "c" : "d" }\t ',
    "\x0c",
    "\xa0",
    '{"id" "a"}',
    '{"id":"a":"b","text":"c"}',
]


@pytest.mark.parametrize("line", ODD_LINES)
def test_each_line_between_two_others(line: str) -> None:
    data = b'{"id":"before","text":"one"}\n' + line.encode() + b'\n{"id":"after","text":"two"}\n'
    check_same(data)
    assert [item.key for item in by_kernel(data) if isinstance(item, Document)][-1:] == ["after"]
    check_same(line.encode())  # alone, and without a line feed


@pytest.mark.parametrize(
    "tail",
    [
        b"\xff",
        b"\xc3",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf0\x90\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\x80",
        b"\xbf",
        b"\xc2",
        b"\xc2\x41",
        b"\xe1\x80",
        b"\xe1\x80\x41",
        b"\xf1\x80\x80",
        b"\xf1\x80\x80\x41",
        b"\xf8\x88\x80\x80\x80",
        b"\xfe",
        b"\xc1\xbf",
    ],
)
@pytest.mark.parametrize("field", [b"id", b"text", b"other"])
@pytest.mark.parametrize("after", [b"", b"more of it"])
def test_bytes_that_may_be_no_utf8(tail: bytes, field: bytes, after: bytes) -> None:
    values = {b"id": b"a", b"text": b"b", b"other": b"c"}
    values[field] += tail + after
    members = b",".join(b'"%s":"%s"' % pair for pair in values.items())
    check_same(b'{"id":"first","text":"t"}\n{' + members + b'}\n{"id":"last","text":"t"}\n')


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=30) | st.integers() | VALUES,
        "text": st.text(max_size=60) | VALUES,
        "more": VALUES,
        "": VALUES,
    },
)


@settings(max_examples=400, deadline=None)
@given(
    records=st.lists(RECORDS, max_size=12),
    ascii_only=st.booleans(),
    ends=st.sampled_from(["\n", "\r\n", "\n\n", " \n"]),
    piece=st.sampled_from([1, 7, 64, 2**18]),
    last=st.booleans(),
)
def test_records_of_every_kind(
    records: list[dict[str, Any]], ascii_only: bool, ends: str, piece: int, last: bool
) -> None:
    lines = [json.dumps(record, ensure_ascii=ascii_only) for record in records]
    data = (ends.join(lines) + (ends if last else "")).encode("utf-8", "surrogatepass")
    assert by_kernel(data, piece) == by_parser(data, piece)


def mutated(rng: random.Random, line: bytes) -> bytes:
    """The line with a few bytes changed, taken out, put in, or said twice."""
    piece = bytearray(line)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.randrange(len(piece) + 1)
        what = rng.randrange(5)
        if what == 0:
            piece[at : at + 1] = bytes(
                [rng.choice(b'"\\{}[],:u0 \t\r\nde\x00\x1f\x80\xc3\xed\xf4\xff')]
            )
        elif what == 1:
            piece[at:at] = rng.choice(
                [
                    b"\\ud83d",
                    b"\\ude00",
                    b"\\n",
                    b'"',
                    b"1e5",
                    b"-0",
                    b'"id":',
                    b"null,",
                    b"\xc3\xa9",
                ]
            )
        elif what == 2:
            del piece[at : at + rng.randrange(1, 4)]
        elif what == 3:
            end = rng.randrange(at, min(at + 30, len(piece)) + 1)
            piece[end:end] = piece[at:end]
        else:
            piece[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(piece)


def test_mutated_lines() -> None:
    rng = random.Random(11)
    lines = [line.encode() for line in ODD_LINES]
    lines += [
        json.dumps(
            {"id": f"k{n}", "text": "som\u00e9 t\u4e2dxt " * n, "n": [n, {"x": n / 7}]}
        ).encode()
        for n in range(12)
    ]
    for _ in range(400):
        some = [mutated(rng, rng.choice(lines)) for _ in range(20)]
        data = rng.choice((b"\n", b"\r\n")).join(some)
        piece = rng.choice((5, 100, 2**18))
        assert by_kernel(data, piece) == by_parser(data, piece), data


def test_chunks_cut_anywhere() -> None:
    lines = [json.dumps({"id": n, "text": f"té{n} " * n}, ensure_ascii=False) for n in range(30)]
    data = "\n".join(lines).encode()
    for piece in range(1, 200):
        assert by_kernel(data, piece) == by_parser(data, piece)


@pytest.mark.parametrize("limit", [30, 31, 200])
@pytest.mark.parametrize("piece", [1, 20, 64, 2**18])
def test_lines_over_the_limit(limit: int, piece: int) -> None:
    lines = [f'{{"id":"{n}","text":"{"x" * n}"}}' for n in range(40)]
    data = "\n".join(lines).encode() + b"\n" + b"y" * 300
    found = by_kernel(data, piece, max_document_bytes=limit)
    assert found == by_parser(data, piece, max_document_bytes=limit)
    assert any(isinstance(item, Rejected) for item in found)


def test_long_lines_are_left_to_the_parser() -> None:
    lines = [
        {"id": n, "text": "x" * size} for n, size in enumerate((5, 2**20, 5, 2**19, 3 * 2**18))
    ]
    check_same("\n".join(map(json.dumps, lines)).encode())


def test_a_file_that_breaks_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import gzip

    lines = "".join(f'{{"id":"{n}","text":"words {n}"}}\n' for n in range(5000))
    whole = gzip.compress(lines.encode())
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    found = list(read_documents([path]))
    monkeypatch.setattr(jsonl, "_scanner", lambda file: None)
    assert found == list(read_documents([path]))
    assert isinstance(found[-1], Rejected) and "at about line" in found[-1].reason


def test_plain_lines_come_in_blocks_and_odd_ones_between_them() -> None:
    plain = b'{"id":"%d","text":"t"}\n'
    data = (
        b"".join(plain % n for n in range(5)) + b"no\n" + b"".join(plain % n for n in range(5, 9))
    )
    kinds = [
        (type(item), len(item) if isinstance(item, DocumentBlock) else 1) for item in blocks(data)
    ]
    assert kinds == [(DocumentBlock, 5), (Rejected, 1), (DocumentBlock, 4)]


@pytest.mark.parametrize(
    "options",
    [
        {"keep_fields": ["n"]},
        {"row_keys": True},
        {"text_field": ["title", "text"]},
        {"body": "weights"},
    ],
)
def test_what_needs_more_than_key_and_text_is_left_to_the_parser(options: dict[str, Any]) -> None:
    data = b'{"id":"a","title":"b","text":"c","n":1}\n' * 3
    assert not any(item.is_plain for item in blocks(data, **options))
    assert by_kernel(data, **options) == by_parser(data, **options)


@pytest.mark.parametrize(
    "names", [("id", "text"), ("url", "größe"), ("text", "text"), ("", "text")]
)
def test_fields_by_any_name(names: tuple[str, str]) -> None:
    key, text = names
    records = [{"id": "1", "url": "u", "größe": "g", "text": "t", "": "e"}, {key: "a"}, {text: "b"}]
    data = "\n".join(json.dumps(one, ensure_ascii=False) for one in records).encode()
    check_same(data, key_field=key, text_field=text)


def test_names_of_files_that_are_not_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("é中.jsonl").write_bytes(b'{"id":"a","text":"b"}\n' * 12)
    assert [item.source for item in read_documents(["é中.jsonl"])][-1] == "é中.jsonl:12"


def test_one_by_one_and_then_by_blocks() -> None:
    data = b"".join(b'{"id":"%d","text":"t"}\n' % n for n in range(9))
    stream = read_documents(["-"], stdin=io.BytesIO(data))
    assert isinstance(stream, DocumentStream)
    keys = [next(stream).key, next(stream).key]  # type: ignore[union-attr]
    for item in stream.by_blocks():
        keys += item.keys if isinstance(item, DocumentBlock) else [item.key]  # type: ignore[union-attr]
    assert keys == [str(n) for n in range(9)]
    assert list(stream) == []


def test_batches_are_cut_as_they_are_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By documents and by characters, in one file whose blocks are larger and smaller."""
    rng = random.Random(4)
    lines = [json.dumps({"id": n, "text": "word " * rng.choice((1, 5, 60))}) for n in range(900)]
    for at in range(0, 900, 61):
        tokens = json.dumps({"id": f"tokens{at}", "text": ["a", "b"]})
        lines[at:at] = ["no", tokens][: 1 + at % 2]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    monkeypatch.setattr(streams, "CHUNK", 4096)

    def added(name: str, workers: int) -> tuple[Any, ...]:
        events: list[Any] = []
        with Index.create(tmp_path / name) as index:
            index.add(
                read_documents([path]),
                workers=workers,
                on_reject=events.append,
                on_commit=lambda result: events.append((result.documents, result.rejected)),
            )
            rows = list(index.sql("SELECT key, batch_id, n_chars, source FROM document").rows)
            sizes = list(index.sql("SELECT n_added, n_rejected FROM batch").rows)
            assert index.check() == []
        return events, rows, sizes

    for documents, characters in ((100, 2**25), (10_000, 5_000), (70, 7_000)):
        set_sizes(monkeypatch, batch_documents=documents, batch_characters=characters)
        with monkeypatch.context() as patch:
            patch.setattr(jsonl, "_scanner", lambda file: None)
            expected = added(f"single{documents}", 1)
        assert added(f"one{documents}", 1) == expected
        assert added(f"several{documents}", 3) == expected


def test_a_full_batch_of_a_pipe_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is committed once the next document has come, and not the whole next batch."""
    set_sizes(monkeypatch, batch_documents=10)
    seen: list[tuple[int, int]] = []
    with Index.create(tmp_path / "index") as index:

        class Pipe(Stdin):
            given = 0

            def read1(self, _: int = -1) -> bytes:
                seen.append((self.given, index.stats().documents if self.given else 0))
                self.given += 1
                return b'{"id":%d,"text":"t"}\n' % self.given if self.given <= 35 else b""

            read = read1  # type: ignore[assignment]

        index.add(read_documents(["-"], stdin=Pipe(b"", 1)))  # type: ignore[arg-type]
    assert [stored for given, stored in seen if given % 10 == 2 and given > 10] == [10, 20, 30]


def test_an_error_in_a_part_leaves_whole_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=100)
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"id": n, "text": f"text {n}"}) + "\n" for n in range(450)))
    sign, signed = SetFamily.sign_texts, []

    def failing(family: SetFamily, texts: list[str], person: bytes) -> Any:
        signed.append(len(texts))
        if len(signed) == 4:
            raise MemoryError
        return sign(family, texts, person)

    monkeypatch.setattr(SetFamily, "sign_texts", failing)
    for workers in (1, 3):
        signed.clear()
        with Index.create(tmp_path / f"index{workers}") as index:
            with pytest.raises(MemoryError):
                index.add(read_documents([path]), workers=workers)
            assert index.stats().documents == 300
            assert index.check() == []


@pytest.mark.parametrize(
    ("at", "longest", "message"), [(-1, 5, "at or longest"), (9, 5, "at or longest"), (0, -1, "at")]
)
def test_calls_that_cannot_be_right(at: int, longest: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compiled.scan_lines(b"12345678", at, 0, "f:", "id", "text", longest, [], [], [])
