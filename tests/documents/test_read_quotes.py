"""Quotes in TSV and CSV: read where the file shows them, and never where it does not."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lshdb import ParameterError
from lshdb.documents.formats.quotes import BLOCK, shows_quotes

Read = Callable[..., tuple[list, list]]

HEADER = b"id\ttext\n"


def cells(documents: list) -> list[tuple[str, str]]:
    return [(one.key, one.body) for one in documents]


BARE = {
    "an inch mark": b'1\tA 12" board\n2\ta 7"\n3\tplain\n',
    "a quoted word at the front": b'1\t"Yes" she said\n2\tnothing else\n',
    "a quote that stays open": b'1\t"Once upon a time\n2\tthe end\n',
    "open, and closed by another record": b'1\t"Once upon a time\n2\tthe end"\n3\tplain\n',
    "two that open": b'1\t"Once upon\n2\t"a time\n3\tplain\n',
    "open, closed, open": b'1\t"Once\n2\ta time"\n3\t"there\n4\twas"\n',
    "quotes twice at both ends": b'1\t""Once upon a time""\n2\tplain\n',
    "a quote around keys": b'"1\tOnce upon\n2"\ta time\n3\tplain\n',
    "one title in quotes": b'1\t"Once upon a time"\n2\tplain\n',
    "a quote alone": b'1\t"\n2\t"\n3\tplain\n',
    "an empty one": b'1\t""\n2\tplain\n',
    "open over a bad line": b'1\t"Once\n2\ta\n3\tb\n4\tc\n5\td"\n6\tplain\n',
    "carriage returns inside": b'1\ta\rb\n2\tc "d"\n',
    "backslashes": b'1\t\\"Once\\" upon\n2\tplain\n',
    "quoted with a comma, others bare with one": b'1\t"a, b"\n2\tc, d\n',
    "single quotes": b"1\t'Once\n2\tupon'\n",
}


@pytest.mark.fast
@pytest.mark.parametrize("name", BARE)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_tsv_without_quotes_has_a_document_a_line(
    name: str, end: bytes, tmp_path: Path, read: Read, read_bytes: Read
) -> None:
    lines = BARE[name].splitlines() if b"\r" not in BARE[name] else BARE[name][:-1].split(b"\n")
    expected = [tuple(line.decode().split("\t")) for line in lines]
    content = (HEADER + BARE[name]).replace(b"\n", end)
    (tmp_path / "a.tsv").write_bytes(content)
    for documents, rejected in (
        read(tmp_path / "a.tsv"),
        read_bytes(content, input_format="tsv"),
        read(tmp_path / "a.tsv", quote="none"),
    ):
        assert rejected == []
        assert cells(documents) == expected


QUOTED = {
    "header": b'"id"\t"text"\n"1"\t"one"\n2\ttwo\n',
    "tab": b'id\ttext\n1\t"on\te"\n2\ttwo\n',
    "line end": b'id\ttext\n1\t"on\ne"\n2\ttwo\n',
    "line ends": b'id\ttext\n1\t"on\n\nin\ne"\n2\ttwo\n',
    "line end in the first column": b'id\ttext\n"on\ne"\tone\n2\ttwo\n',
    "line end in the middle": b'id\ttext\tdate\n1\t"on\ne"\t2020\n2\ttwo\t2021\n',
    "carriage return": b'id\ttext\n1\t"on\re"\n2\ttwo\n',
    "doubled": b'id\ttext\n1\t"the ""one"""\n2\ttwo\n',
    "all of a column": b'id\ttext\n1\t"one"\n2\t"two"\n',
    "one record": b'id\ttext\n1\t"one"\n',
    "as Excel writes it": b'id\ttext\n1\t"one, two"\n2\ttwo\n3\t"three, four"\n',
    "no line end": b'id\ttext\n1\t"one"\n2\t"two"',
    "byte order mark": b'\xef\xbb\xbf"id"\t"text"\n1\tone\n',
}


@pytest.mark.fast
@pytest.mark.parametrize("name", QUOTED)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_tsv_with_quotes_is_read_as_csv_is(
    name: str, end: bytes, tmp_path: Path, read: Read, read_bytes: Read
) -> None:
    content = QUOTED[name].replace(b"\n", end)
    text = content.removeprefix(b"\xef\xbb\xbf").decode()
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))[1:]
    (tmp_path / "a.tsv").write_bytes(content)
    for documents, rejected in (
        read(tmp_path / "a.tsv"),
        read_bytes(content, input_format="tsv"),
        read(tmp_path / "a.tsv", quote='"'),
    ):
        assert rejected == []
        assert cells(documents) == [(row[0], row[1]) for row in rows]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 99).map(str), st.text('ab ,"\t\n', max_size=8), st.text('ab,"', max_size=4)
    ),
    max_size=8,
)


@given(ROWS, st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]), st.sampled_from("\r\n"))
def test_what_quotes_every_cell_comes_back(
    read_bytes: Read, rows: list[tuple[str, str, str]], quoting: int, end: str
) -> None:
    file = io.StringIO(newline="")
    ends = "\r\n" if end == "\r" else "\n"
    writer = csv.writer(file, delimiter="\t", quoting=quoting, lineterminator=ends)
    writer.writerows([("id", "text", "note"), *rows])
    documents, rejected = read_bytes(file.getvalue().encode(), input_format="tsv")
    assert rejected == []
    assert [(d.key, d.body) for d in documents] == [row[:2] for row in rows]


@given(ROWS)
@example([("0", "\t\n\t", "")])
@example([("0", "\t\na\t", "")])  # each line is a record of its own, too
@example([("0", "\t\n\na\t", "")])  # and so without the empty one
def test_what_quotes_where_needed_comes_back_or_is_told_of(
    read_bytes: Read, rows: list[tuple[str, str, str]]
) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter="\t", lineterminator="\n")
    writer.writerows([("id", "text", "note"), *rows])
    notes: list[str] = []
    documents, rejected = read_bytes(
        file.getvalue().encode(), input_format="tsv", on_note=notes.append
    )
    has_lines = any("\t" in text and "\n" in text for _, text, _ in rows)
    cells = [(d.key, d.body) for d in documents]
    if rejected:  # a cell whose lines look like records
        assert has_lines
    elif any(not {*text, *note}.isdisjoint('"\t\n') for _, text, note in rows):
        full = [line for line in file.getvalue().split("\n")[1:-1] if line]
        lines = [tuple(line.split("\t")[:2]) for line in full]
        is_told_of = has_lines and any("could be one cell" in note for note in notes)
        assert cells == [row[:2] for row in rows] or (is_told_of and cells == lines)


def test_lines_that_could_be_a_cell_are_told_of(tmp_path: Path, read: Read) -> None:
    notes: list[str] = []
    before = "".join(f"{number}\tplain\n" for number in range(3))
    doubtful = '7\t"one\n8\ttwo\n9\tthree"\n10\tfour\n'
    (tmp_path / "a.tsv").write_bytes(HEADER + (before + doubtful).encode())
    documents, rejected = read(tmp_path / "a.tsv", on_note=notes.append)
    assert [d.key for d in documents][-4:] == ["7", "8", "9", "10"] and rejected == []
    (note,) = notes
    assert note.startswith(f"{tmp_path / 'a.tsv'}:5: lines were read as records that could be")
    for quote, n in (("none", 7), ('"', 5)):
        notes.clear()
        assert len(read(tmp_path / "a.tsv", on_note=notes.append, quote=quote)[0]) == n
        assert notes == []
    (tmp_path / "a.tsv").write_bytes(HEADER + (before + doubtful + '11\t5" wide\n').encode())
    read(tmp_path / "a.tsv", on_note=notes.append)
    assert notes == [], "an inch mark: no cell is in quotes"


@given(st.lists(st.text('ab ,"', max_size=8), max_size=8))
def test_no_line_is_lost_where_a_quote_is_a_character(read_bytes: Read, texts: list[str]) -> None:
    """A text in TSV holds no line end, so there are as many documents as lines."""
    content = "".join(f"{number}\t{text}\n" for number, text in enumerate(texts))
    documents, rejected = read_bytes(HEADER + content.encode(), input_format="tsv")
    if shows_quotes(HEADER + content.encode(), is_whole=True):
        assert len(documents) + len(rejected) <= len(texts)
    else:
        assert rejected == []
        assert [d.body for d in documents] == texts


def test_the_first_quote_may_come_late(tmp_path: Path, read: Read) -> None:
    plain = b"".join(b"%d\tword word word\n" % number for number in range(60_000))
    for tail, n_more in (
        (b'x\t"a\nb"\ny\t"c ""d"""\n', 2),
        (b'x\t"a\ny\tb"\nz\tc\n', 3),
        (b'x\t12"\ny\t"b\nz\tc\n', 3),
    ):
        (tmp_path / "a.tsv").write_bytes(HEADER + plain + tail)
        documents, rejected = read(tmp_path / "a.tsv")
        assert len(documents) == 60_000 + n_more and rejected == []
        assert documents[-1].source.endswith(":60004")


def pieces(content: bytes, size: int) -> io.RawIOBase:
    """Give a file whose reads return few bytes, as a pipe's do."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.parts = (content[at : at + size] for at in range(0, len(content), size))

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            part = next(self.parts, b"")
            buffer[: len(part)] = part
            return len(part)

    return Pipe()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_reading_does_not_depend_on_how_a_stream_is_cut(size: int, read: Read) -> None:
    for content in [*QUOTED.values(), *(HEADER + each for each in BARE.values())]:
        whole = read(["-"], stdin=io.BytesIO(content), input_format="tsv")
        assert read(["-"], stdin=pieces(content, size), input_format="tsv") == whole


def test_lines_before_the_first_quote_are_not_held() -> None:
    from lshdb import read_documents

    taken = []

    class Slow(io.RawIOBase):
        parts = iter([HEADER, b"1\tone\n", b"2\ttwo\n", b'3\t5" disk\n', b"4\tfour\n"])

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            part = next(self.parts, b"")
            taken.append(part)
            buffer[: len(part)] = part
            return len(part)

    for number, one in enumerate(read_documents(["-"], stdin=Slow(), input_format="tsv"), start=1):
        assert one.key == str(number)
        assert len(taken) <= number + 1, "a document waits for what comes after it"


def test_a_block_that_ends_within_a_cell(tmp_path: Path, read: Read) -> None:
    long = b"word " * (BLOCK // 5)
    cell = b'1\t"a\tb"\n2\t"' + long + b"\n" + long + b'"\n3\tc\n'
    (tmp_path / "a.tsv").write_bytes(HEADER + cell)
    documents, rejected = read(tmp_path / "a.tsv")
    assert [d.key for d in documents] == ["1", "2", "3"] and rejected == []
    (tmp_path / "a.tsv").write_bytes(HEADER + cell[:-6] + b"\n3\tc\n")
    assert len(read(tmp_path / "a.tsv")[1]) == 1


def test_a_wrong_guess_is_told_of_and_overruled(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(HEADER + b'1\t"a\tb"\n2\t"c" d\n3\te\n')  # not consistent: no quotes
    documents, rejected = read(path)
    assert [d.key for d in documents] == ["2", "3"]
    assert "--quote '\"'" in rejected[0].reason
    documents, rejected = read(path, quote='"')
    assert cells(documents) == [("1", "a\tb"), ("3", "e")] and len(rejected) == 1
    path.write_bytes(HEADER + b'1\t"one"\n2\t"two"\n')
    assert cells(read(path, quote="none")[0]) == [("1", '"one"'), ("2", '"two"')]
    path.write_bytes(HEADER + b"1\t'o\tne'\n2\t'it''s'\n")
    assert cells(read(path, quote="'")[0]) == [("1", "o\tne"), ("2", "it's")]


def test_csv_without_quotes(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.psv").write_bytes(b'id|text\n1|"Once upon\n2|a time"\n3|plain\n')
    how = {"input_format": "csv", "delimiter": "|"}
    assert len(read(tmp_path / "a.psv", **how)[0]) == 2
    documents, rejected = read(tmp_path / "a.psv", **how, quote="none")
    assert cells(documents) == [("1", '"Once upon'), ("2", 'a time"'), ("3", "plain")]
    assert rejected == []


@pytest.mark.parametrize("quote", ["", "ab", "\n", "\0", "«", ",", "None"])
def test_a_quote_that_cannot_be(quote: str, tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,text\n1,2\n")
    with pytest.raises(ParameterError, match="quote is"):
        read(tmp_path / "a.csv", quote=quote)


def test_quotes_are_for_delimited_files(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id": "1", "text": "x"}\n')
    with pytest.raises(ParameterError, match="no file of the input is CSV or TSV"):
        read(tmp_path / "a.jsonl", quote="none")


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("limit", [100, 5000])
def test_an_oversize_record_by_any_quote(quote: str, limit: int, read_bytes: Read) -> None:
    long = f"1\t{quote}a\n" + "x" * 300 + f"\n2\tnone{quote}\n"
    content = f"id\ttext\n{long}3\tlast\n".encode()
    documents, rejected = read_bytes(
        content, input_format="tsv", quote=quote, max_document_bytes=limit
    )
    assert [d.key for d in documents] == (["3"] if limit == 100 else ["1", "3"])
    assert len(rejected) == (limit == 100)
    bare = f"id\ttext\n1\t{quote}a{'x' * 300}\n2\tb{quote}\n3\tlast\n".encode()
    documents, rejected = read_bytes(bare, input_format="tsv", max_document_bytes=100)
    assert [d.key for d in documents] == ["2", "3"] and len(rejected) == 1


def test_a_note_tells_of_a_cell_of_many_lines(tmp_path: Path, read: Read) -> None:
    notes: list[str] = []
    lines = "".join(f"{number},word\n" for number in range(50))
    (tmp_path / "a.csv").write_text(f'id,text\na,"open\n{lines}z,closed"\ny,"short\none"\n')
    documents, rejected = read(tmp_path / "a.csv", on_note=notes.append)
    assert len(documents) == 2 and rejected == []
    [note] = notes
    assert "a.csv:2: a quoted cell spans 52 lines" in note and "--quote none" in note
    notes.clear()
    (tmp_path / "a.csv").write_text('id,text\na,"one\ntwo\nthree"\nb,four\n')
    read(tmp_path / "a.csv", on_note=notes.append)
    (tmp_path / "b.csv").write_text('id,text\na,"one\ntwo\nthree\nfour"\nb,four\n')
    read(tmp_path / "b.csv", on_note=notes.append, quote='"')
    assert notes == []
    for number in range(8):
        (tmp_path / f"{number}.csv").write_text(f'id,text\na{number},"one\n2\n3\n4"\nb,four\n')
    read(str(tmp_path / "?.csv"), on_note=notes.append)
    assert len(notes) == 6 and "4 more files" in notes[-1]
