"""What is no plain text is told by its first bytes, and no file of records becomes one document."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lshdb import InputError
from lshdb.documents import registry
from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.io.folders import WalkCounts
from lshdb.documents.read import (
    peek_documents,
    read_documents,
)
from lshdb.documents.registry import FORMATS, by_name, is_delimited, look_at


def zipped(*members: str, content: str = "x") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for member in members:
            archive.writestr(member, content)
    return data.getvalue()


def office(part: str) -> bytes:
    return zipped("[Content_Types].xml", f"{part}/document.xml")


def parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    data = io.BytesIO()
    parquet.write_table(pyarrow.table({"id": ["a"]}), data)
    return data.getvalue()


def arrow(kind: str) -> bytes:
    import pyarrow

    data, table = io.BytesIO(), pyarrow.table({"id": ["a"]})
    make = pyarrow.ipc.new_file if kind == "file" else pyarrow.ipc.new_stream
    with make(data, table.schema) as writer:
        writer.write_table(table)
    return data.getvalue()


def saved(array: object, *, packed: bool = False) -> bytes:
    data = io.BytesIO()
    np.savez(data, rows=array) if packed else np.save(data, array)
    return data.getvalue()


def tar() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("one"))
    return data.getvalue()


def sqlite() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as database, database:
        database.execute("CREATE TABLE a (b)")
        return database.serialize()


RECORD = '{"id": "a", "text": "b"}'
BINARY = {
    "a Feather file of version 1": lambda: b"FEA1\x00\x00\x00\x00",
    "a DOCX file": lambda: office("word"),
    "an XLSX file": lambda: office("xl"),
    "an ODS file": lambda: zipped(
        "mimetype", content="application/vnd.oasis.opendocument.spreadsheet"
    ),
    "an OpenDocument file": lambda: zipped(
        "mimetype", content="application/vnd.oasis.opendocument.text"
    ),
    "an EPUB file": lambda: zipped("mimetype", content="application/epub+zip"),
    "a ZIP archive": lambda: zipped("one.txt"),
    "a PPTX file": lambda: office("ppt"),
    "LZMA data": lambda: lzma.compress(b"text", lzma.FORMAT_ALONE),
    "compress data": lambda: b"\x1f\x9d\x90a\n",
    "lzip data": lambda: b"LZIP\x01\x0c",
    "Snappy data": lambda: b"\xff\x06\x00\x00sNaPpY",
    "a NumPy archive": lambda: saved(np.zeros((2, 2)), packed=True),
    "a NumPy array": lambda: saved(np.zeros((2, 2))),
    "a Python pickle": lambda: pickle.dumps({"a": 1}),
    "a tar archive": tar,
    "an SQLite database": sqlite,
    "a PDF file": lambda: b"%PDF-1.7\n1 0 obj",
    "an old Office file": lambda: bytes.fromhex("d0cf11e0a1b11ae1") + bytes(20),
    "an image": lambda: b"\x89PNG\r\n\x1a\n" + bytes(20),
    "a program": lambda: b"\x7fELF\x02",
    "an HDF5 file": lambda: b"\x89HDF\r\n\x1a\n",
    "an Avro file": lambda: b"Obj\x01\x04",
}
RECORDS = {
    "an EndNote XML file": '<?xml version="1.0" encoding="UTF-8"?><xml><records><record>',
    "an XML file": '<?xml version="1.0"?>\n<feed/>',
    "an HTML page": "\n<!DOCTYPE html>\n<html><p>text",
    "an RTF file": r"{\rtf1\ansi text}",
    "JSON Lines": f"{RECORD}\n{RECORD}\n",
    "a JSON object": '{\n  "cells": [1, 2]\n}',
    "a JSON array of objects": f"[\n  {RECORD},\n  {RECORD}\n]",
    "an RIS file of references": "TY  - JOUR\nAU  - A, B\nER  - \n",
    "a PubMed file of references": "PMID- 12345\nOWN - NLM\n",
    "an EndNote file of references": "%0 Journal Article\n%A B, C\n",
    "a Web of Science file of references": "FN Clarivate Analytics\nVR 1.0\nPT J\n",
    "a BibTeX file of references": "% by hand\n\n@article{key,\n  title = {A}\n}\n",
    "an mbox file of mails": "From a@b.example Mon Nov 22 10:00:00 2026\nSubject: a\n\nb\n",
    "a WARC file of pages": "WARC/1.0\r\nWARC-Type: response\r\n",
    "an SQL dump": "-- MySQL dump 10.13\n--\nCREATE TABLE a (b int);\n",
    "a vCard or iCalendar file": "BEGIN:VCARD\r\nFN:A\r\n",
}
TEXTS = [
    "", "Plain text.", "[1] A reference, and [2] another.", '["Hello," she said.]',
    "{braces} in text",
    "{\"quoted\"} and more", "From here to there\nand back: again", "PK is short for public key",
    "LZIP is", "] closes", "TY - JOUR is how it begins",
    "PAR1 of the course", "ORC and elf", "BZh is not bzip2", "%PDF without a version", "%0 of it",
    "<b>bold</b> begins this text", "<template>\n  <p/>\n</template>", "<?php echo 1;",
    "@media print {",
    "@article of faith", "-- a comment\nSELECT 1;", "GIF89a is a format", "Rar! he cried", "RIFFs",
    "FN stands for\nVR and more", "TY for asking", "MZ", "7z is an archiver", "Obj", "\x80\x04 odd",
    "From me, 10:30\nDear all: no", "#!/bin/sh\necho", "日本語の文章", "---\ntitle: yaml\n---\n",
]  # fmt: skip


@pytest.mark.parametrize("what", BINARY)
@pytest.mark.parametrize("name", ["x", "x.txt", "x.jsonl", "x.csv", "x.md"])
def test_no_text_at_all_is_refused_under_any_name(tmp_path: Path, what: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(BINARY[what]())
    with pytest.raises(InputError) as caught:
        read_documents([path])
    assert caught.value.message == f"{path} looks like {what}"
    assert caught.value.hint
    with pytest.raises(InputError):
        read_documents([path], input_format="text")


TWICE = {
    "gzip data": lambda: gzip.compress(gzip.compress(b"text")),
    "Zstandard data": lambda: gzip.compress(b"\x28\xb5\x2f\xfd\x04\x00"),
    "xz data": lambda: gzip.compress(lzma.compress(b"text")),
    "bzip2 data": lambda: gzip.compress(bz2.compress(b"text")),
}


@pytest.mark.parametrize("what", TWICE)
def test_what_is_compressed_twice_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(TWICE[what]())
    with pytest.raises(InputError) as caught:
        read_documents([path])
    assert caught.value.message == f"{path} looks like {what}"
    assert caught.value.hint == "it is compressed twice: decompress it once"


@pytest.mark.parametrize("kind", ["Parquet", "file", "stream"])
def test_tables_are_refused_where_another_format_is_asked_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(parquet() if kind == "Parquet" else arrow(kind))
    with pytest.raises(InputError) as caught:
        read_documents([path], input_format="text")
    what = "a Parquet file" if kind == "Parquet" else "an Arrow file"
    assert caught.value.message == f"{path} looks like {what}"
    documents, rejected = [], []
    for one in read_documents([path], text_field="id", row_keys=True):
        (documents if isinstance(one, Document) else rejected).append(one)
    assert [one.body for one in documents] == ["a"] and rejected == []


def test_a_stream_is_recognised_however_long_its_schema_is() -> None:
    """The length is a multiple of 8, so of 32 schemas one has a length that ends in a zero byte."""
    pa = pytest.importorskip("pyarrow")
    lengths = set()
    for n in range(40):
        fields = [pa.field("id", pa.string()), pa.field("x" * 8 * n, pa.string())]
        head = pa.schema(fields).serialize().to_pybytes()
        lengths.add(head[4])
        assert look_at(head) == look_at(b"ARROW1\0\0")
    assert 0 in lengths


@pytest.mark.parametrize("what", RECORDS)
@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n"])
def test_records_and_markup_are_refused_and_can_be_forced(
    tmp_path: Path, what: str, start: str
) -> None:
    path = tmp_path / "x.txt"
    path.write_text(start + RECORDS[what])
    for read in (read_documents, lambda paths: peek_documents(paths, body="text")):
        with pytest.raises(InputError) as caught:
            read([path])
        assert caught.value.message == f"{path} looks like {what}"
    assert "--input text" in (caught.value.hint or "")
    if what not in ("JSON Lines", "a JSON object"):
        ended = gzip.compress(RECORDS[what].encode())
        (tmp_path / "x.txt.gz").write_bytes(ended)
        with pytest.raises(InputError, match=what):
            read_documents([tmp_path / "x.txt.gz"])
    (found,) = read_documents([path], input_format="text")
    assert isinstance(found, Document)
    assert found.body == start.removeprefix("\ufeff") + RECORDS[what]


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_texts(tmp_path: Path, text: str) -> None:
    assert look_at(text.encode()) is None
    path = tmp_path / "note.txt"
    path.write_text(text)
    assert [type(one) for one in read_documents([path])] == [Document]


@pytest.mark.parametrize(
    "name",
    ["data.json", "state.JSON", "a.html", "a.htm", "feed.xml", "a.mbox", "a.json.gz"],
)  # fmt: skip
def test_a_name_says_it_where_the_beginning_does_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"[1, 2]") if name.endswith("gz") else b"[1, 2]")
    with pytest.raises(InputError, match="looks like"):
        read_documents([path])
    assert [type(one) for one in read_documents([path], input_format="text")] == [Document]
    assert by_name(name) is not None and by_name("a.txt") is None


def test_what_is_found_in_a_folder_is_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text")
    (tmp_path / "dataset_info.json").write_text(json.dumps({"splits": {}}))
    (tmp_path / "page.html").write_text("<p>text")
    (tmp_path / "refs.xml").write_text(RECORDS["an XML file"])
    (tmp_path / "w.txt").write_bytes(BINARY["a PDF file"]())
    (tmp_path / "x.jsonl").write_bytes(BINARY["a PDF file"]())
    (tmp_path / "y.jsonl").write_text(RECORD)
    for given in (tmp_path, tmp_path / "*"):
        counts = WalkCounts()
        found = list(read_documents([given], counts=counts))
        assert [one.key for one in found if isinstance(one, Document)] == [
            str(tmp_path / "a.txt"), "a",
        ]  # fmt: skip
        rejected = {Path(one.source).name: one.reason for one in found if isinstance(one, Rejected)}
        assert rejected.keys() == {"dataset_info.json", "refs.xml", "x.jsonl"}
        assert "looks like a PDF file" in rejected["x.jsonl"]
        assert counts.left_out == {"other": 1, "binary": 1}
        assert counts.endings["other"] == {".html": 1}


def test_standard_input_too() -> None:
    (found,) = read_documents(["-"], stdin=io.BytesIO(parquet()))
    assert isinstance(found, Rejected)
    assert (found.source, found.reason[:25]) == ("<stdin>", "looks like a Parquet file")


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"id,text\na,b\n", "CSV"), (b"id\ttext\na\tb\nc\td\n", "TSV"),
        (b"id;text\na;b\n", "CSV with semicolons"),
        (b"id,text\na\n", None), (b"a text\nof lines\n", None), (b"", None), (b"a,b", None),
    ],
)  # fmt: skip
def test_delimited_lines(head: bytes, what: str | None) -> None:
    look = is_delimited(head)
    assert (look and look.what) == what


def test_every_format_has_an_entry_and_a_reader() -> None:
    for name, one in FORMATS.items():
        assert callable(one.load(one.reads)), name
    modules = {path.stem for path in (Path(registry.__file__).parent / "formats").glob("*.py")}
    read = {one.reads.partition(".")[0] for one in FORMATS.values()}
    assert read == modules - {
        "__init__", "rows", "objects", "columns", "passed_columns", "passthrough",
        "json_arrays", "quotes", "http_answers", "column_values", "json_text", "arrow_pieces",
        "column_sizes", "parquet_pages",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "members", "what", "hint"),
    [
        # openpyxl, LibreOffice, Google, a program that writes its parts first
        ("a", ("docProps/app.xml", "docProps/core.xml", "xl/theme/theme1.xml"), "XLSX", "CSV"),
        ("a", ("_rels/.rels", "docProps/core.xml", "word/document.xml"), "DOCX", "text"),
        ("a", ("word/numbering.xml", "_rels/.rels"), "DOCX", "text"),
        ("a", ("xl/drawings/drawing1.xml",), "XLSX", "CSV"),
        ("a.docx", ("docProps/app.xml",), "DOCX", "text"),
        ("a.docx", ("odd.xml",), "DOCX", "text"),
        ("a.XLSX", ("odd.xml",), "XLSX", "CSV"),
        ("a.xlsm", ("odd.xml",), "XLSX", "CSV"),
        ("a.pptx", ("odd.xml",), "PPTX", "text"),
        ("a.odt", ("odd.xml",), "OpenDocument", "text"),
        ("a.ods", ("odd.xml",), "ODS", "CSV"),
        ("a.zip", ("odd.xml",), "ZIP", "unpack"),
        ("a", ("docProps/app.xml",), "Office", "text"),
    ],
)
def test_office_files_by_any_program(
    name: str, members: tuple[str, ...], what: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(zipped(*members))
    with pytest.raises(InputError, match=what) as caught:
        read_documents([tmp_path / name])
    assert hint in str(caught.value.hint)
    assert ("unpack" in str(caught.value.hint)) == (what == "ZIP")


def test_old_excel_is_told_from_other_old_files(tmp_path: Path) -> None:
    (tmp_path / "a.xls").write_bytes(BINARY["an old Office file"]())
    with pytest.raises(InputError, match="old Excel") as caught:
        read_documents([tmp_path / "a.xls"])
    assert "CSV" in str(caught.value.hint)


def test_no_extension_means_two_formats() -> None:
    extensions = [extension for one in FORMATS.values() for extension in one.extensions]
    assert len(extensions) == len(set(extensions))
