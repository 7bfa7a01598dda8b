"""References to literature: RIS, PubMed, EndNote XML and BibTeX.

A record becomes a document. Its text is the title, a blank line and the abstract, or what there is
of them. Its key is the record's own: RIS ``ID`` or ``AN``, PMID, rec-number, BibTeX's key; without
one, the path, a colon and the record's number. The rest is kept: ``title``, ``authors``, ``year``,
``journal``, ``volume``, ``issue``, ``pages``, ``doi``, ``database``.

Decided: files are cut into records here, and each record is handed to the library that knows its
format. So memory holds one record, a bad record ends with itself, and its place is known. A record
is cut where the next one begins, even if it has no end: a brace that is never closed swallows
nothing. A record that the library takes for something else than its author meant (a field without
a comma before it) is rejected, as far as that can be seen.

XML that declares a document type is refused before any parser sees it, so that there are no
entities; EndNote writes none. Each record is parsed by defusedxml nevertheless.

A DOI is in lower case and without the address of a resolver. A year is a whole number. Pages of RIS
are joined (``123-129``); otherwise values are as they stand, with single blanks.

Lines end in LF, CRLF or, as on old Macs, in CR alone. RIS with one blank before the dash, and
indented RIS, is read; a record's first line says how its tags are written.

Limits: UTF-8 only. A line within a BibTeX entry that begins like another entry cuts it. Definitions
(``@string``) count from their place on, and together have at most the size of one record.
"""

from __future__ import annotations

import functools
import logging
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lshdb.arguments import printable
from lshdb.documents.document import (
    REFERENCE_FIELDS,
    BrokenSourceError,
    Document,
    Rejected,
)
from lshdb.documents.formats.objects import JOINT, NoDocumentError, Records
from lshdb.documents.io.encodings import undecodable
from lshdb.documents.io.streams import OpenFile, TooLong, split_lines
from lshdb.documents.registry import ENDNOTE_ROOT, HEAD

__all__ = ["read_bibtex", "read_endnote", "read_pubmed", "read_ris"]

_YEAR = re.compile(r"(?<!\d)(?:1[4-9]|20)\d\d(?!\d)")
_RESOLVER = re.compile(r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)+", re.IGNORECASE)
_DOI = re.compile(r"10\.\d{4,9}/\S+")
_LONGEST_REASON = 200

Parse = Callable[[str], dict[str, Any]]


class _Piece:
    """One record on its way out of a file.

    Parameters
    ----------
    place : str
        Where it begins, for messages.
    file : OpenFile
        Its limit is the bytes that are held at most.
    is_xml : bool
        Whether it is in UTF-8 whatever the caller says.
    """

    def __init__(self, place: str, file: OpenFile, *, is_xml: bool = False) -> None:
        self.place = place
        self.reason: str | None = None
        self._limit, self._encoding, self._is_xml = file.limit, file.encoding, is_xml
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, line: bytes | TooLong) -> None:
        """Take another line; nothing is held once the limit is passed."""
        self._size += line.size if isinstance(line, TooLong) else len(line) + 1
        if isinstance(line, TooLong) or self._size > self._limit:
            self._parts.clear()
        else:
            self._parts.append(line.rstrip(b"\r"))

    def text(self) -> str:
        """Return the record.

        Raises
        ------
        NoDocumentError
            It is too long, not UTF-8, or known to be bad.
        """
        if self._size > self._limit:
            raise NoDocumentError(
                f"the record has {self._size:,} bytes, more than the limit of {self._limit:,}"
            )
        if self.reason is not None:
            raise NoDocumentError(self.reason)
        for number, line in enumerate(self._parts):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"at byte {error.start + 1} of line {number + 1} of the record"
                raise NoDocumentError(
                    f"not valid UTF-8 {where}"
                    if self._is_xml
                    else undecodable(where, self._encoding)
                ) from None
        return b"\n".join(self._parts).decode("utf-8")


def _file_lines(file: OpenFile) -> Iterator[bytes | TooLong]:
    """Yield the lines of a file, with any line ending."""
    return split_lines(_with_line_feeds(file.chunks), file.limit)


def _with_line_feeds(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield chunks in which LF ends each line; CRs before it are one line end with it."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        body = data.rstrip(b"\r")
        n_held = min(len(data) - len(body), 2)
        rest = data[len(data) - n_held :]
        data = data[: len(data) - n_held]
        if b"\r" in data:
            data = _LINE_ENDS.sub(b"\n", data).replace(b"\r", b"\n")
        if data:
            yield data
    if rest:
        yield b"\n"


_LINE_ENDS = re.compile(rb"\r{1,2}\n")


def _documents(
    file: OpenFile, pieces: Iterable[_Piece | Rejected], parse: Parse
) -> Iterator[Document | Rejected]:
    """Yield a document, or a rejection, for each record."""
    records = Records.of_file(file)
    number = 0
    for piece in pieces:
        if isinstance(piece, Rejected):
            yield piece
            continue
        number += 1
        try:
            text = piece.text()
            if "\0" in text:
                raise NoDocumentError("the record holds a NUL")
            yield _document(records, file, parse(text), number, piece.place)
        except NoDocumentError as error:
            yield Rejected(piece.place, str(error))


def _document(
    records: Records, file: OpenFile, raw: dict[str, Any], number: int, place: str
) -> Document:
    record = _cleaned(raw)
    text = JOINT.join(record[field] for field in ("title", "abstract") if field in record)
    if not text:
        raise NoDocumentError("the record has neither a title nor an abstract")
    record = {"id": raw.get("id") or f"{file.key}:{number}", "text": text, **record}
    document = records.document(record, number, place)
    if file.fields.keep:
        return document
    kept_fields = {name: record[name] for name in REFERENCE_FIELDS if name in record}
    return Document(document.key, document.body, document.source, kept_fields or None)


def _cleaned(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value, in one form for all formats."""
    record: dict[str, Any] = {}
    for name in (*REFERENCE_FIELDS, "abstract"):
        value = raw.get(name)
        if name == "authors":
            value = [line for line in map(_line, value or []) if line]
        elif name == "year":
            year = _YEAR.search(str(value or ""))
            value = int(year[0]) if year else None
        elif name == "doi":
            value = _RESOLVER.sub("", _line(value)).lower()
        else:
            value = _line(value)
        if value:
            record[name] = value
    return record


def _line(value: object) -> str:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return " ".join(str(value or "").split())


def _first(record: dict[str, Any], *names: str) -> Any:
    return next((record[name] for name in names if record.get(name)), None)


def _found_doi(values: Iterable[str]) -> str | None:
    """Return the first DOI among addresses and numbers."""
    doi = next(filter(None, map(_DOI.search, values)), None)
    return doi[0] if doi else None


# RIS


_RIS_NUMBER = re.compile(rb"\s*\d+\.?\s*")
_RIS_BEGIN = re.compile(rb"TY  -|[ \t]*TY[ \t]{0,3}-[ \t]*[A-Z]{3,8}\s*$")
_RIS_END = re.compile(rb"ER  -|[ \t]*ER[ \t]{0,3}-\s*$")
_RIS_FIRST = re.compile(r"([ \t]*)TY([ \t]*)-([ \t]?)")


def read_ris(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read RIS: a record from each ``TY  - `` to its ``ER  - ``."""
    return _documents(file, _ris_pieces(file), _parse_ris)


def _ris_pieces(file: OpenFile) -> Iterator[_Piece | Rejected]:
    piece: _Piece | None = None
    is_outside = False
    for number, line in enumerate(_file_lines(file), start=1):
        if not isinstance(line, TooLong) and _RIS_BEGIN.match(line):
            if piece is not None:
                piece.reason = f"the record has no line 'ER  - ' before the next one, line {number}"
                yield piece
            piece, is_outside = _Piece(f"{file.name}:{number}", file), False
        if piece is not None:
            piece.add(line)
            if not isinstance(line, TooLong) and _RIS_END.match(line):
                yield piece
                piece = None
        elif isinstance(line, TooLong) or not (not line.strip() or _RIS_NUMBER.fullmatch(line)):
            if not is_outside:
                reason = "the line is not in a record; a record begins with 'TY  - '"
                yield Rejected(f"{file.name}:{number}", reason)
            is_outside = True
    if piece is not None:
        piece.reason = "the record has no line 'ER  - ' at its end"
        yield piece


def _as_rispy_reads(text: str) -> str:
    """Return a record with its tags as the library knows them, and a line for each value.

    The library adds lines that continue a value one by one, which takes quadratic time. Where a tag
    has several values, a line without a tag is another one.
    """
    from rispy.config import DELIMITED_TAG_MAPPING, LIST_TYPE_TAGS, TAG_KEY_MAPPING

    first = _RIS_FIRST.match(text)
    if first is None:
        raise NoDocumentError("the record does not begin with a line 'TY  - '")
    indent, gap, blank = first.groups()
    rest = r"[ \t]?(.*)" if gap == "  " or not blank else r"(?:[ \t](.*)|$)"
    tag = re.compile(rf"{indent}([A-Z][A-Z0-9]){gap}-{rest}")
    lines: list[list[str]] = []
    continues = False
    for line in text.split("\n"):
        match = tag.fullmatch(line)
        if match or not continues:
            lines.append([f"{match[1]}  - {match[2] or ''}" if match else line])
        else:
            lines[-1].append(line.strip())
        if match:
            name = match[1]
            is_single = name not in LIST_TYPE_TAGS and name not in DELIMITED_TAG_MAPPING
            continues = is_single and name in TAG_KEY_MAPPING and name != "TY"
    return "\n".join(map(" ".join, lines))


def _parse_ris(text: str) -> dict[str, Any]:
    import rispy

    try:
        (record,) = rispy.loads(_as_rispy_reads(text))
    except NoDocumentError:
        raise
    except Exception as error:  # the library raises whatever a record makes it stumble over
        raise NoDocumentError(f"the record cannot be read as RIS: {_said(error)}") from error
    start, end = _line(record.get("start_page")), _line(record.get("end_page"))
    return {
        "id": _line(_first(record, "id", "accession_number")),
        "title": _first(record, "title", "primary_title", "short_title"),
        "abstract": _first(record, "abstract", "notes_abstract"),
        "authors": _first(record, "authors", "first_authors"),
        "year": _first(record, "year", "publication_year", "date"),
        "journal": _first(
            record, "journal_name", "secondary_title", "alternate_title3", "alternate_title2",
            "alternate_title1",
        ),
        "volume": record.get("volume"),
        "issue": record.get("number"),
        "pages": f"{start}-{end}" if start and end and "-" not in start else start or end,
        "doi": record.get("doi") or _found_doi(record.get("urls", [])),
        "database": _first(record, "name_of_database", "database_provider"),
    }  # fmt: skip


# PubMed


_TAG = re.compile(r"([A-Z][A-Z0-9]{0,3}) *- ?(.*)")


def read_pubmed(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read PubMed's format: lines with tags, and a blank line between records."""
    return _documents(file, _pubmed_pieces(file), _parse_pubmed)


def _pubmed_pieces(file: OpenFile) -> Iterator[_Piece]:
    piece: _Piece | None = None
    for number, line in enumerate(_file_lines(file), start=1):
        start = b"..." if isinstance(line, TooLong) else line.strip()[:5]
        if piece is not None and start in (b"", b"PMID-"):
            yield piece
            piece = None
        if start:
            piece = piece or _Piece(f"{file.name}:{number}", file)
            piece.add(line)
    if piece is not None:
        yield piece


def _parse_pubmed(text: str) -> dict[str, Any]:
    parts: dict[str, list[list[str]]] = {}
    last: list[list[str]] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        match = _TAG.fullmatch(line)
        if match:
            last = parts.setdefault(match[1], [])
            last.append([match[2]])
        elif line.startswith(" ") and last is not None:
            last[-1].append(line.strip())
        else:
            raise NoDocumentError(
                f"line {number} of the record is neither 'TAG - value' nor the rest of one: "
                f"{printable(line)[:40]!r}"
            )

    values = {tag: list(map(" ".join, several)) for tag, several in parts.items()}

    def one(*tags: str) -> str | None:
        return next((values[tag][0] for tag in tags if tag in values), None)

    marked = [value for tag in ("LID", "AID") for value in values.get(tag, []) if "[doi]" in value]
    return {
        "id": one("PMID"),
        "title": one("TI", "BTI", "TT"),
        "abstract": one("AB"),
        "authors": values.get("FAU") or values.get("AU"),
        "year": one("DP", "EDAT"),
        "journal": one("JT", "TA"),
        "volume": one("VI"),
        "issue": one("IP"),
        "pages": one("PG"),
        "doi": _found_doi(marked),
        "database": "PubMed",
    }


# BibTeX


_ENTRY = re.compile(rb"\s*@\s*([a-zA-Z]+)\s*[{(]")
_STRING = re.compile(r"\s*@\s*string\s*[{(]\s*([^\s=]+)\s*=", re.IGNORECASE)
_PART = re.compile(r'"[^"]*"|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}|[^\s#{}",=]+')
_CONCATENATED = re.compile(rf"\s*(?:{_PART.pattern})(?:\s*#\s*(?:{_PART.pattern}))*\s*")
"""A value that the library leaves as it is: parts with ``#`` between them, or one word."""
_NO_ENTRIES = {b"comment", b"preamble"}


def read_bibtex(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read BibTeX: an entry from each ``@type{`` to the next one."""
    strings = _Strings(file.limit)
    pieces = _bibtex_pieces(file, strings)
    return _documents(file, pieces, functools.partial(_parse_bibtex, strings))


class _Strings:
    """The definitions of a file so far.

    Parameters
    ----------
    limit : int
        Characters of all together; further ones are dropped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._texts: dict[str, tuple[int, str]] = {}

    def add(self, name: str, text: str) -> None:
        """Take a definition; it replaces one of the same name."""
        place, before = self._texts.get(name, (len(self._texts), ""))
        size = self._size + len(text) - len(before)
        if size <= self._limit:
            self._texts[name], self._size = (place, text), size

    def used_in(self, text: str) -> list[str]:
        """Return the definitions whose names occur in a text, in order."""
        names = set(re.findall(r"[^\s={}#\",()]+", text.lower())) if self._texts else set()
        return [
            text for _, text in sorted(map(self._texts.__getitem__, names & self._texts.keys()))
        ]


def _bibtex_pieces(file: OpenFile, strings: _Strings) -> Iterator[_Piece | Rejected]:
    """Yield the entries; put definitions into ``strings``."""
    piece: _Piece | None = None
    kind = b""
    number = 0
    for number, line in enumerate(_file_lines(file), start=1):
        match = None if isinstance(line, TooLong) else _ENTRY.match(line)
        if match:
            yield from _finished(piece, kind, strings)
            piece, kind = _Piece(f"{file.name}:{number}", file), match[1].lower()
        if piece is not None:
            piece.add(line)
    if piece is None and number:
        yield Rejected(file.name, "no entry of BibTeX, such as '@article{key, title = {...}}'")
    yield from _finished(piece, kind, strings)


def _finished(piece: _Piece | None, kind: bytes, strings: _Strings) -> Iterator[_Piece]:
    if piece is None or kind in _NO_ENTRIES:
        return
    if kind != b"string":
        yield piece
        return
    try:
        text = piece.text()
    except NoDocumentError as error:
        piece.reason = str(error)
        yield piece
        return
    match = _STRING.match(text)
    if match is not None:
        strings.add(match[1].lower(), text)


@functools.cache
def _latex() -> Any:
    from bibtexparser.middlewares import LatexDecodingMiddleware

    # Without a handler of its own, its warnings go to standard error.
    logging.getLogger("bibtexparser").addHandler(logging.NullHandler())
    return LatexDecodingMiddleware()


def _parse_bibtex(strings: _Strings, text: str) -> dict[str, Any]:
    from bibtexparser.entrypoint import parse_string

    text = "\n".join([*strings.used_in(text), text])
    latex = _latex()
    try:
        library = _sound(parse_string(text))
        for field in library.entries[0].fields:
            if field.enclosing == "no-enclosing":
                field.value = _put_together(field.key, str(field.value), library.strings_dict)
        # Decoding takes 5 ms an entry, so only those with LaTeX in them go through it.
        if any(sign in text for sign in ("\\", "$", "~")):
            library = _sound(latex.transform(library))
    except NoDocumentError:
        raise
    except Exception as error:  # the library raises whatever a record makes it stumble over
        raise NoDocumentError(f"the entry cannot be read as BibTeX: {_said(error)}") from error
    entry = library.entries[0]
    fields = {field.key.lower(): re.sub(r"[{}]", "", str(field.value)) for field in entry.fields}
    return {
        **fields,
        "id": entry.key.strip(),
        "authors": _line(fields["author"]).split(" and ") if fields.get("author") else None,
        "year": _first(fields, "year", "date"),
        "journal": _first(fields, "journal", "journaltitle", "booktitle"),
        "issue": _first(fields, "number", "issue"),
        "pages": re.sub(r" ?(?:--+|–) ?", "-", _line(fields.get("pages"))),
        "doi": fields.get("doi") or _found_doi([str(fields.get("url") or "")]),
        "database": fields.get("database"),
    }


def _sound(library: Any) -> Any:
    """Return a library with one entry; raise NoDocumentError if it has none, or faults."""
    failed = library.failed_blocks
    if failed or not library.entries:
        wrong = failed[0].error if failed else "it is not closed"
        reason = _said(getattr(wrong, "abort_reason", wrong)).partition(" Note: ")[0]
        raise NoDocumentError(f"the entry cannot be read as BibTeX: {reason}")
    return library


def _put_together(name: str, value: str, strings: dict[str, Any]) -> str:
    """Return a value of parts with ``#`` between them, which the library leaves as it is."""
    if not _CONCATENATED.fullmatch(value):
        raise NoDocumentError(
            f"the field {name!r} of the entry cannot be told from the next one: a comma or a brace "
            "is missing"
        )
    words = {name.lower(): str(string.value) for name, string in strings.items()}
    parts = (part[0] for part in _PART.finditer(value))
    return "".join(words.get(part.lower(), part).strip('"') for part in parts)


# EndNote


_BEGIN = re.compile(rb"<record[\s>]")
_END = b"</record>"
_ENCODING = re.compile(rb"<\?xml[^>]*encoding\s*=\s*[\"']([^\"']+)")


def read_endnote(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read EndNote's XML: the elements ``record`` in ``<xml><records>``.

    Raises
    ------
    BrokenSourceError
        The file is another kind of XML, declares a document type, or is not UTF-8.
    """
    return _documents(file, _xml_pieces(file), _parse_endnote)


def _xml_pieces(file: OpenFile) -> Iterator[_Piece]:
    buffer = bytearray()
    piece: _Piece | None = None
    number = searched = 0
    has_root = False
    for chunk in file.chunks:
        buffer += chunk
        while True:
            if piece is None:
                begin = _BEGIN.search(buffer)
                if not has_root:
                    if begin is None and len(buffer) < HEAD:
                        break
                    _check_root(bytes(buffer[: begin.start() if begin else len(buffer)]))
                    has_root = True
                if begin is None:
                    del buffer[: -len(_END)]
                    break
                del buffer[: begin.start()]
                number += 1
                piece, searched = _Piece(f"{file.name}: record {number}", file, is_xml=True), 1
            end = buffer.find(_END, searched)
            following = _BEGIN.search(buffer, searched)
            if following is not None and (end < 0 or following.start() < end):
                piece.reason = "the record is not closed before the next one begins"
                end, length = following.start(), 0
            elif end >= 0:
                length = len(_END)
            else:
                if len(buffer) > file.limit + len(_END):
                    piece.add(TooLong(len(buffer) - len(_END), 0))
                    del buffer[: -len(_END)]
                searched = max(1, len(buffer) - len(_END))  # not at its own beginning
                break
            piece.add(bytes(buffer[: end + length]))
            del buffer[: end + length]
            yield piece
            piece = None
    if not has_root:
        _check_root(bytes(buffer))
    if piece is not None:
        piece.reason = "the record is not closed; the file ends within it"
        yield piece


def _check_root(head: bytes) -> None:
    """Refuse a file whose beginning, before the first record, EndNote does not write.

    Raises
    ------
    BrokenSourceError
    """
    head = head.removeprefix(BOM_UTF8)
    if b"<!DOCTYPE" in head.upper() or b"<!ENTITY" in head.upper():
        raise BrokenSourceError(
            "declares a document type, which may hold hostile entities; nothing of it was read: "
            "export the library from EndNote again, as XML"
        )
    if not ENDNOTE_ROOT.match(head.lstrip()):
        raise BrokenSourceError("is not EndNote's XML: expected the elements <xml><records>")
    encoding = _ENCODING.match(head.lstrip())
    if encoding is not None and encoding[1].lower() not in (b"utf-8", b"utf8"):
        name = printable(encoding[1].decode("ascii", "replace"))
        raise BrokenSourceError(f"is XML in {name}, expected UTF-8: convert it (iconv)")


def _parse_endnote(text: str) -> dict[str, Any]:
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        record = fromstring(text, forbid_dtd=True)
    except ParseError as error:
        raise NoDocumentError(f"the record is not well-formed XML: {_said(error)}") from error
    except DefusedXmlException as error:
        raise NoDocumentError(f"the record declares entities: {_said(error)}") from error

    def one(*paths: str) -> str | None:
        texts = ("".join(element.itertext()) for path in paths for element in record.iterfind(path))
        return next(filter(None, map(str.strip, texts)), None)

    authors = record.iterfind("contributors/authors/author")
    return {
        "id": one("rec-number"),
        "title": one("titles/title"),
        "abstract": one("abstract"),
        "authors": ["".join(author.itertext()) for author in authors],
        "year": one("dates/year"),
        "journal": one("periodical/full-title", "titles/secondary-title"),
        "volume": one("volume"),
        "issue": one("number", "issue"),
        "pages": one("pages"),
        "doi": one("electronic-resource-num"),
        "database": one("remote-database-name"),
    }  # fmt: skip


def _said(error: object) -> str:
    text = printable(" ".join(str(error).split()))
    return text[:_LONGEST_REASON] or type(error).__name__
