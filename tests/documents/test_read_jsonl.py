"""JSON Lines: each line stands for itself."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from lshdb import InputError
from lshdb.documents.document import (
    Document,
    json_fields,
)

pytestmark = pytest.mark.fast

Read = Callable[..., tuple[list, list]]

GOOD = b'{"id": "a", "text": "one"}'


def test_documents_in_order_with_their_lines(read_bytes: Read) -> None:
    documents, rejected = read_bytes(b'{"id":"a","text":"x"}\n{"id":"b","text":"y"}')
    assert documents == [Document("a", "x", "<stdin>:1"), Document("b", "y", "<stdin>:2")]
    assert rejected == []


def test_source_is_file_and_line(tmp_path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD + b"\n\n" + GOOD + b"\nnope\n")
    documents, rejected = read(path)
    assert [d.source for d in documents] == [f"{path}:1", f"{path}:3"]
    assert rejected[0].source == f"{path}:4"


def test_blank_lines_crlf_bom_and_missing_last_line_feed(read_bytes: Read) -> None:
    content = b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n  \t\n" + GOOD + b"\r\n" + GOOD
    documents, rejected = read_bytes(content)
    assert [d.source for d in documents] == ["<stdin>:1", "<stdin>:4", "<stdin>:5"]
    assert rejected == []


def test_bom_is_skipped_only_at_the_beginning(read_bytes: Read) -> None:
    documents, rejected = read_bytes(GOOD + b"\n\xef\xbb\xbf" + GOOD + b"\n")
    assert len(documents) == 1 and rejected[0].source == "<stdin>:2"


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_nothing_in_it(content: bytes, read_bytes: Read) -> None:
    assert read_bytes(content) == ([], [])


def test_only_a_line_feed_ends_a_line(read_bytes: Read) -> None:
    content = '{"id":"a","text":"x\u2028y\u0085z"}\n'.encode()
    documents, _ = read_bytes(content)
    assert documents[0].body == "x\u2028y\u0085z"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("7", "7"),
        ("-7", "-7"),
        ("0", "0"),
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ('"007"', "007"),
        ('" a "', " a "),
    ],
)
def test_a_key_is_a_string_or_an_integer(key: str, expected: str, read_bytes: Read) -> None:
    documents, _ = read_bytes(f'{{"id":{key},"text":"x"}}'.encode())
    assert [d.key for d in documents] == [expected]


def test_other_names_of_fields(read_bytes: Read) -> None:
    documents, _ = read_bytes(b'{"k":1,"t":"x"}', key_field="k", text_field="t")
    assert documents == [Document("1", "x", "<stdin>:1")]


def test_ready_tokens_empty_text_and_nul_in_text(read_bytes: Read) -> None:
    content = rb"""{"id":1,"text":["a","b c",""]}
{"id":2,"text":[]}
{"id":3,"text":""}
{"id":4,"text":"a\u0000b"}"""
    documents, rejected = read_bytes(content)
    assert [d.body for d in documents] == [["a", "b c", ""], [], "", "a\0b"]
    assert rejected == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b'{"id":"a","text":"\xff"}', "not valid UTF-8 at byte 19 of the line"),
        (b"nope", "not valid JSON: "),
        (b'{"id":"a","text":x}', "(column 18)"),
        (b'{"id":"a","text":"x"', "not valid JSON"),
        (b'{"id":"a","text":"x"} {}', "not valid JSON"),
        (b'{"id":"a","text":NaN}', "text 'text' is a number"),
        (b'{"id":"a","text":"\0"}', "not valid JSON"),
        (b"\0\0\0", "not valid JSON"),
        (b"[" * 5000, "not valid JSON"),
        (b'["id","text"]', "the line is an array, expected an object"),
        (b'"id"', "the line is a string"),
        (b"null", "the line is null"),
        (b"1", "the line is an integer"),
        (b"{}", "no fields 'id' and 'text'; the fields are: none"),
        (b'{"text":"x","url":1}', "no field 'id'; the fields are: 'text', 'url'"),
        (b'{"id":"a","body":"x"}', "no field 'text'; the fields are: 'id', 'body'"),
        (b'{"id":true,"text":"x"}', "key 'id' is a boolean"),
        (b'{"id":null,"text":"x"}', "key 'id' is null"),
        (b'{"id":1.5,"text":"x"}', "key 'id' is a number that is not a 64-bit integer"),
        (b'{"id":1.0,"text":"x"}', "key 'id' is a number"),
        (b'{"id":18446744073709551616,"text":"x"}', "key 'id' is a number that is not a 64-bit"),
        (b'{"id":["a"],"text":"x"}', "key 'id' is an array"),
        (b'{"id":{},"text":"x"}', "key 'id' is an object"),
        (b'{"id":"","text":"x"}', "the key is empty"),
        (b'{"id":"a\\u0000","text":"x"}', "NUL"),
        (b'{"id":"' + b"k" * 1025 + b'","text":"x"}', "1,025 bytes"),
        (b'{"id":"a","text":null}', "text 'text' is null"),
        (b'{"id":"a","text":1}', "text 'text' is an integer"),
        (b'{"id":"a","text":{}}', "text 'text' is an object"),
        (b'{"id":"a","text":["x",1]}', "token 2 is of type int"),
        (b'{"id":"a","text":[["x"]]}', "token 1 is of type list"),
        (b'{"id":"a","text":"\\ud800"}', "lone surrogate"),
        (b'{"id":"\\ud800","text":"x"}', "lone surrogate"),
        (b'{"id":"a","text":"\\udc00 x"}', "lone surrogate"),
    ],
)
def test_a_bad_line_is_rejected_alone(line: bytes, word: str, read_bytes: Read) -> None:
    documents, rejected = read_bytes(GOOD + b"\n" + line + b"\n" + GOOD + b"\n")
    assert [d.source for d in documents] == ["<stdin>:1", "<stdin>:3"]
    assert [r.source for r in rejected] == ["<stdin>:2"]
    assert word in rejected[0].reason


def test_a_key_of_exactly_1024_bytes(read_bytes: Read) -> None:
    documents, rejected = read_bytes(b'{"id":"' + b"k" * 1024 + b'","text":"x"}')
    assert len(documents) == 1 and rejected == []


def test_many_long_and_odd_field_names_are_shortened(read_bytes: Read) -> None:
    fields = ",".join(f'"{i}{"n" * 500}\\n":{i}' for i in range(500))
    _, rejected = read_bytes(f"{{{fields}}}".encode())
    assert "and 492 more" in rejected[0].reason
    assert len(rejected[0].reason) < 600


def test_a_line_of_the_limit_is_read_and_one_byte_more_is_not(read_bytes: Read) -> None:
    line = b'{"id":"a","text":"%s"}' % (b"x" * 100)
    content = line + b"\n" + GOOD + b"\n"
    documents, rejected = read_bytes(content, max_document_bytes=len(line))
    assert len(documents) == 2 and rejected == []
    documents, rejected = read_bytes(content, max_document_bytes=len(line) - 1)
    assert [d.source for d in documents] == ["<stdin>:2"]
    assert rejected[0].source == "<stdin>:1"
    assert f"limit of {len(line) - 1:,}" in rejected[0].reason


@pytest.mark.parametrize("end", [b"", b"\n", b"\n" + GOOD])
def test_a_huge_line_is_skipped_to_its_end(end: bytes, read_bytes: Read) -> None:
    content = GOOD + b"\n" + b"x" * 3_000_000 + end
    documents, rejected = read_bytes(content, max_document_bytes=1000)
    assert [d.source for d in documents] == ["<stdin>:1", "<stdin>:3"][: 1 + end.endswith(GOOD)]
    assert [r.source for r in rejected] == ["<stdin>:2"]
    assert "3,000,000 bytes" in rejected[0].reason


ODD = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 30, "9" * 5_000, '"\\ud83d"']
"""Values that are no JSON, or that strict parsers refuse."""


@pytest.mark.parametrize("odd", [*ODD, '{"a": [NaN, "\\udc00"]}', '{"\\ud800": 1}'], ids=repr)
@pytest.mark.parametrize("is_array", [False, True])
def test_an_odd_value_in_a_field_that_is_not_needed_costs_nothing(
    odd: str, is_array: bool, read_bytes: Read
) -> None:
    line = f'{{"id": "a", "x": {odd}, "text": "w \u00e9 \\u00e9"}}'
    data = f"[{line},\n{line}]" if is_array else f"{line}\n{line}\n"
    documents, rejected = read_bytes(data.encode(), input_format="json" if is_array else "jsonl")
    assert [(d.key, d.body) for d in documents] == [("a", "w \u00e9 \u00e9")] * 2
    assert rejected == []


@pytest.mark.parametrize(
    ("odd", "value"),
    [
        ("NaN", None), ("Infinity", "Infinity"), ("-Infinity", "-Infinity"), ("1e400", "1E+400"),
        ("18446744073709551615", 2**64 - 1), ("18446744073709551616", "18446744073709551616"),
        ("-9223372036854775809", "-9223372036854775809"), ('"a\\ud83d"', "a\ufffd"),
        ("[1e400, 1e300]", ["1E+400", 1e300]), ('{"a": NaN}', {"a": None}), ("9" * 400, "9" * 400),
        ("1e" + "9" * 30, "Infinity"), ("-1e" + "9" * 30, "-Infinity"), ("1e-" + "9" * 30, 0.0),
    ],
)  # fmt: skip
def test_an_odd_value_of_a_field_to_keep(odd: str, value: object, read_bytes: Read) -> None:
    line = f'{{"id": "a", "text": "x", "v": {odd}}}'
    (document,), rejected = read_bytes(line.encode(), keep_fields="v")
    assert not rejected and document.fields is not None
    assert json.loads(json_fields(document.fields)) == {"v": value}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('{"id": NaN, "text": "x"}', "key 'id' is a number"),
        ('{"id": 1e400, "text": "x"}', "key 'id' is a number"),
        ('{"id": 18446744073709551616, "text": "x", "v": NaN}', "key 'id' is a number"),
        ('{"id": "\\ud800", "text": "x", "v": NaN}', "the key holds a lone surrogate"),
        ('{"id": "a", "text": "\\ud800", "v": NaN}', "the text holds a lone surrogate"),
        ('{"id": "a", "text": ["x", "\\ud800"]}', "token 2 holds a lone surrogate"),
        ('{"id": "a", "text": "x", "v": nan}', "not valid JSON"),
        ('{"id": "a", "text": "x", "v": NaN', "not valid JSON"),
        ('{"id": "a", "text": "x", "v": 01}', "not valid JSON"),
        ("NaN", "the line is a number"),
        ('{"id": "a", "text": "x", "v": ' + "[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_needed_must_be_sound(line: str, word: str, read_bytes: Read) -> None:
    documents, (rejected,) = read_bytes(line.encode(), input_format="jsonl")
    assert documents == [] and word in rejected.reason


@pytest.mark.parametrize("depth", [250, 500, 990, 1_020])
def test_a_value_to_keep_that_is_nested_deeply(depth: int, read_bytes: Read) -> None:
    good = '{"id": "b", "text": "y", "v": 1e400}'
    deep = f'{{"id": "a", "text": "x", "v": {"[" * depth}1e300{"]" * depth}}}'
    documents, rejected = read_bytes(f"{deep}\n{good}\n".encode(), keep_fields="v")
    assert documents[-1].fields == {"v": "1E+400"}
    assert len(documents) + len(rejected) == 2
    if depth > 250 and not rejected:
        with pytest.raises(InputError, match="cannot be stored"):
            json_fields(documents[0].fields or {})
