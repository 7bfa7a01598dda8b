"""Read pages from web archives: WARC, and the extracted texts of WET.

A document is a ``response`` with a status of 200 to 299, or a ``resource`` or ``conversion``, whose
type is ``text/plain``, ``text/html`` or ``application/xhtml+xml``. All other records are passed
over: requests, images, pages that were moved, metadata. The text is the body as it was sent, tags
included: to extract what is to be read from a page is the work of other tools. The key is the
address and the date of the record.

Decided: this is no library's reader. One in Rust ends the process's thread over a stream without
``tell``, and one in Python holds a header line of any length, takes half a record for a whole one
and writes to standard error. Here a record over the limit is skipped as it streams by, and nothing
is decompressed beyond the limit.

Where each record is a gzip member of its own, as is the rule, a damaged member costs its record. So
a page is given only when its member has ended well. What a server answered is taken apart and
decoded in ``http_answers.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lshdb.documents.document import BrokenSourceError, DamagedDataError, Document, Rejected
from lshdb.documents.formats.http_answers import (
    HTML_TYPES,
    HttpAnswer,
    header_fields,
    media_type,
    page_text,
    shown,
)
from lshdb.documents.formats.objects import NoDocumentError, Records
from lshdb.documents.io.streams import Damage, MemberEnd, OpenFile

__all__ = ["read_warc"]

_MAX_HEADER = 2**16
_TYPES = ("text/plain", *HTML_TYPES)
_KINDS = ("response", "resource", "conversion")
_VERSION = re.compile(rb"WARC/\d+\.\d+\s")
_HEADER_END = re.compile(rb"\n\r?\n")
_NOT_BLANK = re.compile(rb"[^\r\n]")


def read_warc(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read the pages of a web archive.

    Yields
    ------
    Document or Rejected
        One for each page, in order; ``file: record 17`` counts all records, from 1.

    Raises
    ------
    BrokenSourceError
        The file is no WARC, ends within a record, or cannot be read.
    """
    records = Records.of_file(file)
    number = 0
    try:
        for number, record in enumerate(_split(file), start=1):
            source = f"{file.name}: record {number}"
            if isinstance(record, str):
                yield Rejected(source, f"its gzip member {record}")
                continue
            kind = record.header.get(b"warc-type", b"").decode("latin-1").lower()
            if kind not in _KINDS:
                continue
            if record.block is None:
                limit = f"more than the limit of {file.limit:,}"
                yield Rejected(source, f"the record has {record.size:,} bytes, {limit}")
                continue
            try:
                page = _page(kind, record.header, record.block, file.limit)
                if page is not None:
                    yield records.document(page, number, source)
            except NoDocumentError as error:
                yield Rejected(source, str(error))
    except BrokenSourceError as error:
        raise BrokenSourceError(f"{error.reason}, after record {number:,}") from error


class _ArchiveRecord(NamedTuple):
    """A record: its header, and its block, unless that is over the limit."""

    header: dict[bytes, bytes]
    block: bytes | None
    size: int


class _NoRecordError(BrokenSourceError):
    """No record begins where one must."""


class _DamagedMemberError(Exception):
    """Data is missing here; the next member follows."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _ArchiveBytes:
    """Takes bytes from chunks, up to a mark or by number."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = bytearray()
        self.n_ends = 0
        """Members that have ended well."""

    def _more(self) -> bool:
        while isinstance(chunk := next(self._chunks, b""), MemberEnd):
            self.n_ends += 1
        if isinstance(chunk, Damage):
            self._held.clear()
            raise _DamagedMemberError(chunk.reason)
        self._held += chunk
        return bool(chunk)

    def skip_member(self) -> None:
        """Skip the rest of a member."""
        n_ends = self.n_ends
        self._held.clear()
        while self._more() and self.n_ends == n_ends:
            self._held.clear()

    def skip_blank(self) -> bool:
        """Skip line ends; return whether anything follows."""
        while True:
            match = _NOT_BLANK.search(self._held)
            del self._held[: len(self._held) if match is None else match.start()]
            if match is not None:
                return True
            if not self._more():
                return False

    def header(self) -> bytes:
        """Return the bytes before the next empty line."""
        while True:
            end = _HEADER_END.search(self._held)
            if end is not None:
                header = bytes(self._held[: end.start()]).rstrip(b"\r")
                del self._held[: end.end()]
                return header
            if len(self._held) > _MAX_HEADER:
                raise _NoRecordError(f"has a header of more than {_MAX_HEADER:,} bytes")
            if not self._more():
                raise BrokenSourceError("ends within a header")

    def take(self, size: int, *, is_kept: bool) -> bytes | None:
        """Return the next bytes; None if they are not to be kept."""
        content = bytearray()
        while size:
            if not self._held and not self._more():
                raise BrokenSourceError("ends within a record")
            piece = self._held[:size]
            del self._held[: len(piece)]
            size -= len(piece)
            if is_kept:
                content += piece
        return bytes(content) if is_kept else None


def _split(file: OpenFile) -> Iterator[_ArchiveRecord | str]:
    """Yield each record, without a block over the limit; for a damaged one, the reason.

    A record counts when its gzip member has ended well, or another record follows in it: what a
    damaged member holds may be anything.
    """
    data = _ArchiveBytes(file.chunks)
    record: _ArchiveRecord | None = None
    n_ends = 0
    while True:
        try:
            n_ends = data.n_ends
            goes_on = data.skip_blank()
            if record is not None and (data.n_ends > n_ends or not goes_on):
                yield record
                record = None
            if not goes_on:
                return
            try:
                header, size = _next_header(data)
            except _NoRecordError as error:
                if not file.has_members:
                    raise
                data.skip_member()
                if record is not None:
                    yield record
                    record = None
                if not data.skip_blank():
                    raise
                yield error.reason
                continue
            if record is not None:
                yield record
                record = None
            record = _ArchiveRecord(header, data.take(size, is_kept=size <= file.limit), size)
        except _DamagedMemberError as damage:
            if record is not None and data.n_ends > n_ends:
                yield record
            record = None
            yield damage.reason.removeprefix("the compressed file ")
        except BrokenSourceError as error:
            is_doubtful = isinstance(error, DamagedDataError) and error.is_corrupt
            if record is not None and (data.n_ends > n_ends or not is_doubtful):
                yield record
            raise


def _next_header(data: _ArchiveBytes) -> tuple[dict[bytes, bytes], int]:
    """Return the header of the next record, and the bytes of its block."""
    text = data.header()
    if not _VERSION.match(text + b"\n"):
        raise _NoRecordError(f"has no WARC record where one begins, but {shown(text)}")
    header = header_fields(text)
    length = header.get(b"content-length", b"")
    if not length.isdigit() or len(length) > 15:
        raise _NoRecordError(f"has a record whose Content-Length is {shown(length)}")
    return header, int(length)


def _page(
    kind: str, header: dict[bytes, bytes], block: bytes, limit: int
) -> dict[str, object] | None:
    """Return a page as a record; None if the record holds none."""
    content_type, status = header.get(b"content-type", b""), None
    answer = HttpAnswer.of(block) if kind == "response" else None
    if answer is not None:
        content_type, status = answer.fields.get(b"content-type", b""), answer.status
    elif kind == "response":
        return None
    media = media_type(content_type)
    if media not in _TYPES or (status is not None and status // 100 != 2):
        return None
    truncated = header.get(b"warc-truncated")
    if truncated is not None:
        raise NoDocumentError(f"the page is cut: WARC-Truncated is {shown(truncated)}")
    body = block if answer is None else answer.content(limit)
    uri = header.get(b"warc-target-uri", b"").strip(b"<>").decode("utf-8", "replace")
    date = header.get(b"warc-date", b"").decode("utf-8", "replace")
    return {
        # Without both, pages would have one key, and each would replace the one before.
        "id": f"{uri} {date}" if uri and date else None,
        "text": page_text(content_type, body),
        "url": uri or None,
        "date": date or None,
        "status": status,
        "content_type": media,
    }
