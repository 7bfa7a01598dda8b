"""CSV and TSV: records, quoting, line numbers, and what a bad record takes with it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lshdb.documents.document import Document

Read = Callable[..., tuple[list, list]]


@pytest.fixture
def read_csv(read_bytes: Read) -> Read:
    def read(content: bytes, **options: object) -> tuple[list, list]:
        return read_bytes(content, **{"input_format": "csv", **options})

    return read


def test_columns_by_header_in_any_order(read_csv: Read) -> None:
    documents, rejected = read_csv(b"url,text,id\nu,one,a\nv,two,b\n")
    assert documents == [Document("a", "one", "<stdin>:2"), Document("b", "two", "<stdin>:3")]
    assert rejected == []


def test_tsv_by_extension_follows_the_same_quoting(tmp_path, read: Read) -> None:
    for name in ("a.tsv", "b.tab", "C.TSV"):
        path = tmp_path / name
        path.write_bytes(b'id\ttext\na\tone, two\nb\t"tab\there ""q"""\n')
        documents, rejected = read(path)
        assert [d.body for d in documents] == ["one, two", 'tab\there "q"']
        assert rejected == []


def test_bom_crlf_blank_lines_and_missing_last_line_feed(read_csv: Read) -> None:
    documents, rejected = read_csv(b"\xef\xbb\xbfid,text\r\n\r\na,one\r\n\n\nb,two")
    assert [(d.key, d.body, d.source) for d in documents] == [
        ("a", "one", "<stdin>:3"),
        ("b", "two", "<stdin>:6"),
    ]
    assert rejected == []


def test_quoted_line_feeds_and_the_line_numbers_after_them(read_csv: Read) -> None:
    content = b'id,text\na,"one\ntwo\r\nthree ""x"""\nb,four\nc,"five\n"\nd\ne,six\n'
    documents, rejected = read_csv(content)
    assert [(d.key, d.body, d.source) for d in documents] == [
        ("a", 'one\ntwo\r\nthree "x"', "<stdin>:2"),
        ("b", "four", "<stdin>:5"),
        ("c", "five\n", "<stdin>:6"),
        ("e", "six", "<stdin>:9"),
    ]
    assert [r.source for r in rejected] == ["<stdin>:8"]


def test_integer_keys_stay_as_they_are_written(read_csv: Read) -> None:
    documents, _ = read_csv(b"id,text\n007,x\n")
    assert documents[0].key == "007"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"x,\xff\xfe", "not valid UTF-8 at byte 3 of line 3"),
        (b"\xffx,y", "not valid UTF-8 at byte 1 of line 3"),
        (b"x,\xed\xa0\x80", "not valid UTF-8"),
        (b"x,a\0b", "NUL at character 4 of line 3"),
        (b"x", "1 cells, the header has 2"),
        (b"x,y,z", "3 cells, the header has 2"),
        (b",y", "the key is empty"),
        (b"k" * 1025 + b",y", "1,025 bytes"),
        (b'x,"y"z', "a closing quote is followed by something other than ','"),
        (b"x,y\rz,w", "carriage return"),
        (b"   ", "1 cells"),
    ],
)
def test_a_bad_record_is_rejected_alone(line: bytes, word: str, read_csv: Read) -> None:
    documents, rejected = read_csv(b"id,text\na,one\n" + line + b"\nb,two\n")
    assert [(d.key, d.source) for d in documents] == [("a", "<stdin>:2"), ("b", "<stdin>:4")]
    assert [r.source for r in rejected] == ["<stdin>:3"]
    assert word in rejected[0].reason


def test_bad_bytes_inside_a_quoted_record_reject_that_record(read_csv: Read) -> None:
    documents, rejected = read_csv(b'id,text\na,"one\n\xff\nthree"\nb,two\n')
    assert [d.key for d in documents] == ["b"]
    assert rejected[0].source == "<stdin>:2"
    assert rejected[0].reason == (
        "not valid UTF-8 at byte 1 of line 3; if it is in another encoding, give --encoding latin-1"
        " (lines 2 to 4)"
    )


def test_a_quote_that_is_never_closed_is_told(read_csv: Read) -> None:
    documents, rejected = read_csv(b'id,text\na,one\nb,"two\nc,three\nd,four\n')
    assert [d.key for d in documents] == ["a"]
    assert rejected[0].source == "<stdin>:3"
    assert "never closed" in rejected[0].reason
    assert "(lines 3 to 5)" in rejected[0].reason


def test_a_stray_quote_takes_no_more_than_the_lines_it_names(read_csv: Read) -> None:
    documents, rejected = read_csv(b'id,text\nb,"two\nc,"three"\nd,four\n')
    assert [d.key for d in documents] == ["d"]
    assert [r.source for r in rejected] == ["<stdin>:2"]
    assert "(lines 2 to 3)" in rejected[0].reason


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"key,body\na,b\n", "no columns 'id' and 'text'; the columns are: 'key', 'body'"),
        (b"id,body\na,b\nc,d\n", "no column 'text'; the columns are: 'id', 'body'"),
        (b"id,text,id\na,b,c\n", "more than one column 'id'"),
        (b"id,text,\xff\na,b,c\n", "not valid UTF-8 at byte 9 of line 1"),
        (b'id,"text\n', "never closed"),
        (b"id,text" + b"x" * 200 + b"\na,b\n", "more bytes than the limit"),
    ],
)
def test_without_a_header_the_file_is_one_rejection(
    content: bytes, word: str, read_csv: Read
) -> None:
    documents, rejected = read_csv(content, max_document_bytes=100)
    assert documents == []
    assert [r.source for r in rejected] == ["<stdin>"]
    assert rejected[0].reason.startswith("no usable header: ")
    assert word in rejected[0].reason


def test_other_names_of_columns(read_csv: Read) -> None:
    documents, _ = read_csv(b"k,t\na,b\n", key_field="k", text_field="t")
    assert documents == [Document("a", "b", "<stdin>:2")]


def test_a_cell_larger_than_the_parsers_own_limit(read_csv: Read) -> None:
    csv.field_size_limit(1000)
    documents, rejected = read_csv(b"id,text\na," + b"x" * 300_000 + b"\n")
    assert len(documents[0].body) == 300_000 and rejected == []
    assert csv.field_size_limit() == 2**31 - 1


def test_a_record_of_the_limit_is_read_and_one_byte_more_is_not(read_csv: Read) -> None:
    record = b'a,"' + b"x" * 50 + b"\n" + b"y" * 50 + b'"'
    content = b"id,text\n" + record + b"\nb,two\n"
    documents, rejected = read_csv(content, max_document_bytes=len(record))
    assert [d.key for d in documents] == ["a", "b"] and rejected == []
    documents, rejected = read_csv(content, max_document_bytes=len(record) - 1)
    assert [(d.key, d.source) for d in documents] == [("b", "<stdin>:4")]
    assert [r.source for r in rejected] == ["<stdin>:2"]
    assert f"limit of {len(record) - 1:,} (lines 2 to 3)" in rejected[0].reason


@pytest.mark.parametrize(
    ("record", "n_lines"),
    [
        (b"a," + b"x" * 500, 1),
        (b'a,"' + b"x" * 500 + b'"', 1),
        (b'a,"' + b"x" * 500 + b'\nb,no ""document""\nc,none\n"', 4),
        (b'a,"' + b"x\n" * 200 + b'"', 201),
        (b'a,"' + b"x\n" * 20 + b"y" * 500 + b'\nb,none\n"', 23),
    ],
)
def test_an_oversize_record_is_skipped_to_its_end(
    record: bytes, n_lines: int, read_csv: Read
) -> None:
    documents, rejected = read_csv(b"id,text\n" + record + b"\nz,last\n", max_document_bytes=100)
    assert [(d.key, d.source) for d in documents] == [("z", f"<stdin>:{2 + n_lines}")]
    assert [r.source for r in rejected] == ["<stdin>:2"]
    assert "limit of 100" in rejected[0].reason


def test_an_oversize_record_without_end(read_csv: Read) -> None:
    documents, rejected = read_csv(b'id,text\na,"' + b"x\n" * 100_000, max_document_bytes=100)
    assert documents == []
    assert len(rejected) == 1 and "(lines 2 to 100001)" in rejected[0].reason


CELLS = st.text(
    st.one_of(st.sampled_from('",\t\r\n a\ufeff'), st.characters(exclude_categories=["Cs"])).filter(
        lambda c: c != "\0"
    ),
    max_size=20,
)


@given(
    st.lists(st.tuples(CELLS.filter(bool), CELLS)),
    # A writer that ends lines in LF alone may leave a carriage return unquoted.
    st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
    st.sampled_from([("csv", ","), ("tsv", "\t")]),
)
def test_what_the_csv_module_writes_comes_back(
    read_bytes: Read, rows: list[tuple[str, str]], style: tuple[str, int], kind: tuple[str, str]
) -> None:
    input_format, delimiter = kind
    # Lines of a cell of TSV with a tab could be records; the reader takes them so, and says it.
    cells = [{*cell} for row in rows for cell in row]
    assume(input_format == "csv" or not any("\t" in cell and cell & {*"\r\n"} for cell in cells))
    file = io.StringIO(newline="")
    end, quoting = style
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["id", "text"])
    lines = []
    for row in rows:
        lines.append(file.getvalue().count("\n") + 1)
        writer.writerow(row)
    content = file.getvalue().encode()
    documents, rejected = read_bytes(content, input_format=input_format)
    assert rejected == []
    assert [(d.key, d.body) for d in documents] == rows
    assert [d.source for d in documents] == [f"<stdin>:{line}" for line in lines]
