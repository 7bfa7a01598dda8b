"""Which format a file has: an entry for each format that is read, and what else is recognised.

To read another format, write a module with its reader here, and add an entry to ``FORMATS``. A
reader takes an :class:`~lshdb.documents.io.streams.OpenFile` and yields documents and rejections.
It is imported by name when the first file of its format is read, so that nobody pays for the other
formats.

A file with an unknown extension is one text. Without the tables of beginnings, a file of records,
markup or binary data would silently become one document. They name each format that they recognise
and what to do with it. They hold only beginnings that no plain text has: a wrong answer costs a
document that the user meant, so a doubtful file counts as text.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "BY_COMPRESSION",
    "BY_EXTENSION",
    "COMPRESSIONS",
    "FORMATS",
    "HEAD",
    "INPUT_FORMATS",
    "PASSED_FORMATS",
    "Compression",
    "Format",
    "Look",
    "by_name",
    "is_delimited",
    "look_at",
]


@dataclass(frozen=True, slots=True)
class Format:
    """A format that documents are read from.

    Attributes
    ----------
    reads : str
        Module, in this folder, and name of its reader.
    extensions : tuple of str
        In lower case.
    has_rows : bool
        Whether it holds rows of arrays or columns, whose keys may come from a side file.
    is_numbered : bool
        Whether row numbers serve as keys where no others are given.
    from_end : bool
        Whether it is read from its end, and so neither compressed nor through a pipe.
    needs_arrow : bool
        Whether pyarrow reads it.
    library : str
        A module that it needs besides, from the extra ``bib``.
    begins : pattern, optional
        How its files begin; one of its extension that does not is of another format.
    is_decoded : bool
        Whether it is text without an encoding of its own, so that the caller may name one.
    is_gathered : bool
        Whether documents come after the last file, from all files together. Then the reader is a
        context manager, made with the limit, with the methods ``read`` and ``documents``.
    members : bytes
        What each gzip member of a file holds first, if it is a record of its own; then a damaged
        one costs no more than that.
    passes : str
        Module and name of what writes its records again; empty if nothing does.
    """

    reads: str
    extensions: tuple[str, ...] = ()
    has_rows: bool = False
    is_numbered: bool = False
    from_end: bool = False
    needs_arrow: bool = False
    library: str = ""
    begins: re.Pattern[bytes] | None = None
    is_decoded: bool = False
    is_gathered: bool = False
    members: bytes = b""
    passes: str = ""

    def load(self, dotted: str) -> Any:
        """Import what :attr:`reads` or :attr:`passes` names."""
        module, _, name = dotted.partition(".")
        return getattr(importlib.import_module(f"lshdb.documents.formats.{module}"), name)

    def lacks_library(self) -> bool:
        """Return whether the library that reads it is not installed."""
        try:
            return bool(self.library) and importlib.import_module(self.library) is None
        except ImportError:
            return True


ENDNOTE_ROOT = re.compile(rb"(?:<\?xml[^>]*>\s*)?<xml>\s*<records>", re.IGNORECASE)

JSON_RECORDS = re.compile(
    rb"\[\s*(?:[{\]]|\Z)|\{(?:[^\n]*\}[ \t\r]*\n\s*\{|[^\n]{3000,}(?:\n\s*)?\Z)"
)
"""An array, lines, or a line so long that the beginning of a file does not show its end."""


FORMATS = {
    "jsonl": Format(
        "jsonl.read_jsonl", (".jsonl", ".ndjson"), is_decoded=True, passes="passthrough.JsonLines"
    ),
    "json": Format("jsonl.read_json", (".json",), is_decoded=True, begins=JSON_RECORDS),
    "csv": Format("delimited.read_csv", (".csv",), is_decoded=True, passes="passthrough.Delimited"),
    "tsv": Format(
        "delimited.read_tsv", (".tsv", ".tab"), is_decoded=True, passes="passthrough.Delimited"
    ),
    "text": Format("plaintext.read_plaintext", is_decoded=True),
    "urls": Format("hosts.UrlGroups", is_gathered=True, is_decoded=True),
    "npy": Format("vectors.read_npy", (".npy",), has_rows=True, is_numbered=True),
    "npz": Format("vectors.read_npz", (".npz",), has_rows=True, is_numbered=True, from_end=True),
    "parquet": Format(
        "parquet.read_parquet",
        (".parquet",),
        has_rows=True,
        from_end=True,
        needs_arrow=True,
        passes="passed_columns.open_parquet",
    ),
    "arrow": Format(
        "arrow.read_arrow",
        (".arrow", ".feather", ".ipc"),
        passes="passed_columns.open_arrow",
        has_rows=True,
        from_end=True,
        needs_arrow=True,
    ),
    "warc": Format("webarchives.read_warc", (".warc", ".wet"), members=b"WARC/"),
    "ris": Format("references.read_ris", (".ris",), library="rispy", is_decoded=True),
    "nbib": Format("references.read_pubmed", (".nbib",), is_decoded=True),
    "bibtex": Format("references.read_bibtex", (".bib",), library="bibtexparser", is_decoded=True),
    "endnote": Format(
        "references.read_endnote", (".xml",), library="defusedxml", begins=ENDNOTE_ROOT
    ),
}
"""Every format that documents are read from, by its name as an option."""
INPUT_FORMATS = ("auto", *FORMATS)
PASSED_FORMATS = tuple(name for name, entry in FORMATS.items() if entry.passes)
BY_EXTENSION = {
    extension: name for name, entry in FORMATS.items() for extension in entry.extensions
}


class Compression(NamedTuple):
    """How a file is compressed.

    Attributes
    ----------
    magic : bytes
        Its first bytes.
    title : str
        Its name.
    """

    extension: str
    magic: bytes
    title: str

    def begins(self, head: bytes) -> bool:
        """Return whether a file with these first bytes, ten or more, is compressed so."""
        if not head.startswith(self.magic):
            return False
        return self.extension != ".bz2" or _BZIP2.match(head) is not None


_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")  # the latter where nothing is in it
COMPRESSIONS = {
    "gz": Compression(".gz", b"\x1f\x8b\x08", "gzip"),
    "zst": Compression(".zst", b"\x28\xb5\x2f\xfd", "Zstandard"),
    "xz": Compression(".xz", b"\xfd7zXZ\0", "xz"),
    "bz2": Compression(".bz2", b"BZh", "bzip2"),
}
"""Every compression that is undone."""
BY_COMPRESSION = {entry.extension: name for name, entry in COMPRESSIONS.items()}

HEAD = 4096
"""Bytes at the beginning that are examined."""

_TO_JSON_LINES = "convert it to JSON Lines, one object a line"
_TO_TEXT = "extract its text first"
_TO_CSV = "save the sheet as CSV"
_UNPACK = "unpack it first"
_AS = "give it a name that ends in {}, or pass --input {}"


class Look(NamedTuple):
    """The form of a file by its first bytes.

    Attributes
    ----------
    what : str
        With its article: "a PDF file".
    advice : str
        What to do with it.
    is_binary : bool
        Whether it is binary data, which no text format can read.
    reads : str
        The format that reads it under any name, if there is one.
    """

    what: str
    advice: str
    is_binary: bool = False
    reads: str = ""

    @property
    def reason(self) -> str:
        """For messages, after the name of the file."""
        return f"looks like {self.what}, which cannot be read directly; {self.hint}"

    @property
    def hint(self) -> str:
        """What to do, and for a text how to read it as plain text nevertheless."""
        return self.advice if self.is_binary else f"{self.advice}, or pass --input text"


_binary = functools.partial(Look, is_binary=True)

_UNPACK_TWICE = "it is compressed twice: decompress it once"
_TO_PARQUET = "convert it to Parquet (.parquet) or JSON Lines"
_PARQUET = _binary(
    "a Parquet file",
    "for add and query, give it a name that ends in .parquet or pass --input parquet; for other "
    "commands, convert it to JSON Lines",
    reads="parquet",
)
_ARROW = _binary(
    "an Arrow file",
    "for add and query, give it a name that ends in .arrow or pass --input arrow; for other "
    "commands, convert it to JSON Lines",
    reads="arrow",
)

_DOCX = _binary("a DOCX file", _TO_TEXT)
_XLSX = _binary("an XLSX file", _TO_CSV)
_PPTX = _binary("a PPTX file", _TO_TEXT)
_ODS = _binary("an ODS file", _TO_CSV)
_OFFICE = rb"PK\x03\x04.{26}(?=\[Content_Types\]\.xml|_rels/|docProps/|customXml/|word/|xl/|ppt/)"
"""A ZIP archive that begins with a name of Office Open XML; which one differs by program."""

# fmt: off
# Compiled by ``re`` when a file is looked at: a query reads none, and begins 7 ms sooner.
_MAGIC: tuple[tuple[bytes, Look], ...] = (
        (rb"PAR1[\x00-\x1f\x80-\xff]", _PARQUET),
        (rb"ARROW1\0\0", _ARROW),
        (rb"FEA1[\x00-\x1f]", _binary("a Feather file of version 1", _TO_PARQUET)),
        (rb"\xff\xff\xff\xff(?!\0{4}).{3}\0[\x10\x14]\0\0\0", _ARROW),
        (rb"Obj\x01", _binary("an Avro file", _TO_JSON_LINES)),
        (rb"ORC[\x00-\x1f\x80-\xff]", _binary("an ORC file", _TO_PARQUET)),
        (rb"\x1f\x8b\x08", _binary("gzip data", _UNPACK_TWICE)),
        (rb"\x28\xb5\x2f\xfd", _binary("Zstandard data", _UNPACK_TWICE)),
        (rb"\xfd7zXZ\0", _binary("xz data", _UNPACK_TWICE)),
        (rb"BZh[1-9]1AY&SY", _binary("bzip2 data", _UNPACK_TWICE)),
        (rb"\x04\x22\x4d\x18", _binary("LZ4 data", "decompress it first (lz4 -d)")),
        (rb"\]\0\0.{2}(?:\xff{8}|.{5}\0{3})", _binary("LZMA data", "decompress it first (xz -d)")),
        (rb"\x1f\x9d[\x80-\x9f]", _binary("compress data", "decompress it first (gzip -d)")),
        (rb"LZIP[\0\x01]", _binary("lzip data", "decompress it first (lzip -d)")),
        (rb"\x89LZO\0\r\n\x1a\n", _binary("LZO data", "decompress it first (lzop -d)")),
        (rb"\xff\x06\0\0sNaPpY", _binary("Snappy data", "decompress it first")),
        (_OFFICE + rb".*?word/", _DOCX),
        (_OFFICE + rb".*?xl/", _XLSX),
        (_OFFICE + rb".*?ppt/", _PPTX),
        (_OFFICE, _binary("an Office file", _TO_TEXT)),
        (rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.spreadsheet", _ODS),
        (rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument",
         _binary("an OpenDocument file", _TO_TEXT)),
        (rb"PK\x03\x04.{26}mimetypeapplication/epub", _binary("an EPUB file", _TO_TEXT)),
        (rb"PK\x03\x04.{26}[^/\0]{1,80}\.npy",
         _binary("a NumPy archive", "give it a name that ends in .npz")),
        (rb"PK(?:\x03\x04|\x05\x06)", _binary("a ZIP archive", _UNPACK)),
        (rb".{257}ustar", _binary("a tar archive", _UNPACK)),
        (rb"7z\xbc\xaf\x27\x1c", _binary("a 7z archive", _UNPACK)),
        (rb"Rar!\x1a\x07", _binary("a RAR archive", _UNPACK)),
        (rb"\x93NUMPY", _binary("a NumPy array", "give it a name that ends in .npy")),
        (rb"\x80[\x02-\x05](?:\x95.{8}|[\]})(cX])",
         _binary("a Python pickle", "save it as .npy or JSON Lines; pickles are never loaded")),
        (rb"\x89HDF\r\n\x1a\n", _binary("an HDF5 file", "save the array as .npy")),
        (rb"SQLite format 3\0", _binary("an SQLite database", _TO_JSON_LINES)),
        (rb"%PDF-\d", _binary("a PDF file", _TO_TEXT)),
        (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _binary("an old Office file", _TO_TEXT)),
        (rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a[^ -~]|RIFF.{4}WEBP",
         _binary("an image", "leave it out")),
        (rb"\x7fELF", _binary("a program", "leave it out")),
)
_RECORDS: tuple[tuple[bytes, Look], ...] = (
        (ENDNOTE_ROOT.pattern, Look("an EndNote XML file", _AS.format(".xml", "endnote"))),
        (rb"(?:<\?xml[^>]*>\s*)?(?:<!doctype html|<html[\s>])", Look("an HTML page", _TO_TEXT)),
        (rb"<\?xml[\s?]|<xml[\s>]|<!doctype\s",
         Look("an XML file", f"{_TO_JSON_LINES}, or {_TO_TEXT}")),
        (rb"\{\\rtf\d", Look("an RTF file", _TO_TEXT)),
        (rb"\{\s*\"[^\"\n]*\"\s*:[^\n]*\}[ \r]*\n\s*\{\s*\"",
         Look("JSON Lines", "give it a name that ends in .jsonl, or pass --input jsonl")),
        (rb"\{\s*\"[^\"\n]*\"\s*:", Look("a JSON object", _TO_JSON_LINES)),
        (rb"\[\s*\{\s*\"[^\"\n]*\"\s*:",
         Look("a JSON array of objects", _AS.format(".json", "json"))),
        (rb"TY  - [A-Z]|TY {0,3}- ?[A-Z]{3,8}\s*[\r\n][A-Z][A-Z0-9] {0,3}-",
         Look("an RIS file of references", _AS.format(".ris", "ris"))),
        (rb"PMID- ?\d", Look("a PubMed file of references", _AS.format(".nbib", "nbib"))),
        (rb"%0 [A-Z][a-z ]+\r?\n%[A-Z0-9] ", Look("an EndNote file of references", _TO_JSON_LINES)),
        (rb"FN [^\n]+\nVR \d", Look("a Web of Science file of references", _TO_JSON_LINES)),
        (rb"(?:%[^\n]*\n\s*)*@(?:article|book|booklet|comment|conference|inbook|incollection|"
         rb"inproceedings|manual|mastersthesis|misc|online|phdthesis|preamble|proceedings|report|"
         rb"string|techreport|unpublished)\s*[{(]",
         Look("a BibTeX file of references", _AS.format(".bib", "bibtex"))),
        (rb"From \S+ [^\n]*\d\d:\d\d[^\n]*\n[!-9;-~]+:",
         Look("an mbox file of mails", _TO_JSON_LINES)),
        (rb"WARC/\d\.\d\r?\n", Look("a WARC file of pages", _AS.format(".warc", "warc"))),
        (rb"(?:--[^\n]*\n)*?-- (?:(?:MySQL|MariaDB|PostgreSQL database(?: cluster)?) dump|"
         rb"phpMyAdmin SQL Dump)|PRAGMA foreign_keys=OFF;\s*BEGIN TRANSACTION;",
         Look("an SQL dump", _TO_JSON_LINES)),
        (rb"BEGIN:V(?:CARD|CALENDAR)\r?\n", Look("a vCard or iCalendar file", _TO_JSON_LINES)),
)
# fmt: on

_BY_NAME = {
    ".json": Look("JSON, but is neither an array of objects nor JSON Lines", _TO_JSON_LINES),
    ".geojson": Look("JSON, but is not JSON Lines", _TO_JSON_LINES),
    ".xml": Look("an XML file", f"{_TO_JSON_LINES}, or {_TO_TEXT}"),
    ".html": Look("an HTML page", _TO_TEXT),
    ".htm": Look("an HTML page", _TO_TEXT),
    ".xhtml": Look("an HTML page", _TO_TEXT),
    ".mbox": Look("an mbox file of mails", _TO_JSON_LINES),
}
"""Extensions of text formats that the beginning of a file may not show."""


_BY_ARCHIVED_NAME = {
    ".docx": _DOCX, ".docm": _DOCX, ".dotx": _DOCX, ".xlsx": _XLSX, ".xlsm": _XLSX,
    ".xlsb": _XLSX, ".pptx": _PPTX, ".pptm": _PPTX, ".ods": _ODS,
    ".odt": _binary("an OpenDocument file", _TO_TEXT),
    ".epub": _binary("an EPUB file", _TO_TEXT),
    ".xls": _binary("an old Excel file", _TO_CSV),
}  # fmt: skip
"""Archives and old Office files by their extension, where the beginning says too little."""
_OPEN_LOOKS = {"a ZIP archive", "an Office file", "an old Office file"}


def look_at(head: bytes, path: str = "") -> Look | None:
    """Return the format that the first bytes show; None if they may be plain text.

    Parameters
    ----------
    head : bytes
        The first ``HEAD`` bytes, decompressed; fewer if the file is shorter.
    path : str
        Its name, which tells one kind of archive from another.
    """
    for pattern, look in _MAGIC:
        if re.match(pattern, head, re.DOTALL):
            if look.what in _OPEN_LOOKS:
                return _BY_ARCHIVED_NAME.get(os.path.splitext(path.lower())[1], look)
            return look
    start = head.removeprefix(BOM_UTF8).lstrip()
    for pattern, look in _RECORDS:
        if re.match(pattern, start, re.IGNORECASE):
            return look
    return None


def by_name(path: str) -> Look | None:
    """Return the format that the extension shows, ignoring that of a compression."""
    stem, extension = os.path.splitext(path.lower())
    if extension in BY_COMPRESSION:
        extension = os.path.splitext(stem)[1]
    return _BY_NAME.get(extension)


def is_delimited(head: bytes) -> Look | None:
    """Recognise CSV or TSV: the first lines have the same number of delimiters, at least one."""
    lines = [line for line in head.splitlines()[:5] if line.strip() and b"\0" not in head]
    if len(lines) > 2:
        lines.pop()  # the last line may be cut
    for delimiter, name in ((b"\t", "TSV"), (b",", "CSV"), (b";", "CSV with semicolons")):
        counts = {line.count(delimiter) for line in lines}
        if len(lines) > 1 and len(counts) == 1 and counts != {0}:
            return Look(name, _TO_JSON_LINES)
    return None
