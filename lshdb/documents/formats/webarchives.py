"""Read pages from web archives: WARC, and the extracted texts of WET.

A document is a ``response`` with a status of 200 to 299, or a ``resource`` or ``conversion``, whose
type is ``text/plain`` or ``text/html``. All other records are passed over: requests, images, pages
that were moved, metadata. The text is the body as it was sent, tags included: to extract what is to
be read from a page is the work of other tools. The key is the address and the date of the record.

Decided: this is no library's reader. One in Rust ends the process's thread over a stream without
``tell``, and one in Python holds a header line of any length, takes half a record for a whole one
and writes to standard error. Here a record over the limit is skipped as it streams by, and nothing
is decompressed beyond the limit.

The character set is the one that the answer's header names, or the page in its first kilobyte;
else UTF-8. A page that cannot be decoded is rejected.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from lshdb.documents.document import BrokenSourceError, Document, Rejected, printable
from lshdb.documents.formats.objects import NoDocumentError, Records
from lshdb.documents.io.encodings import find_encoding
from lshdb.documents.io.streams import OpenFile
from lshdb.errors import ParameterError

__all__ = ["read_warc"]

_MAX_HEADER = 2**16
_TYPES = ("text/plain", "text/html")
_KINDS = ("response", "resource", "conversion")
_VERSION = re.compile(rb"WARC/\d+\.\d+\s")
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/\S+\s+(\d{3})")
_HEADER_END = re.compile(rb"\n\r?\n")
_NOT_BLANK = re.compile(rb"[^\r\n]")
_META_BYTES = 1024


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
    records = Records(file)
    number = 0
    try:
        for number, (header, block, size) in enumerate(_split(file), start=1):
            kind = header.get(b"warc-type", b"").decode("latin-1").lower()
            if kind not in _KINDS:
                continue
            source = f"{file.name}: record {number}"
            if block is None:
                limit = f"more than the limit of {file.limit:,}"
                yield Rejected(source, f"the record has {size:,} bytes, {limit}")
                continue
            try:
                page = _page(kind, header, block, file.limit)
                if page is not None:
                    yield records.document(page, number, source)
            except NoDocumentError as error:
                yield Rejected(source, str(error))
    except BrokenSourceError as error:
        raise BrokenSourceError(f"{error.reason}, after record {number:,}") from error


class _Bytes:
    """Takes bytes from chunks, up to a mark or by number."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = bytearray()

    def _more(self) -> bool:
        chunk = next(self._chunks, b"")
        self._held += chunk
        return bool(chunk)

    def skip_blank(self) -> bool:
        """Skip line ends; return whether anything follows."""
        while True:
            found = _NOT_BLANK.search(self._held)
            del self._held[: len(self._held) if found is None else found.start()]
            if found is not None:
                return True
            if not self._more():
                return False

    def header(self) -> bytes:
        """Return what comes before the next empty line."""
        while True:
            end = _HEADER_END.search(self._held)
            if end is not None:
                header = bytes(self._held[: end.start()]).rstrip(b"\r")
                del self._held[: end.end()]
                return header
            if len(self._held) > _MAX_HEADER:
                raise BrokenSourceError(f"has a header of more than {_MAX_HEADER:,} bytes")
            if not self._more():
                raise BrokenSourceError("ends within a header")

    def take(self, size: int, *, is_kept: bool) -> bytes | None:
        """Return the next bytes; None if they are not to be kept."""
        kept = bytearray()
        while size:
            if not self._held and not self._more():
                raise BrokenSourceError("ends within a record")
            piece = self._held[:size]
            del self._held[: len(piece)]
            size -= len(piece)
            if is_kept:
                kept += piece
        return bytes(kept) if is_kept else None


def _split(file: OpenFile) -> Iterator[tuple[dict[bytes, bytes], bytes | None, int]]:
    """Yield the header, the block and its size of each record; no block over the limit."""
    data = _Bytes(file.chunks)
    while data.skip_blank():
        text = data.header()
        if not _VERSION.match(text + b"\n"):
            raise BrokenSourceError(f"has no WARC record where one begins, but {_shown(text)}")
        header = _fields(text)
        length = header.get(b"content-length", b"")
        if not length.isdigit() or len(length) > 15:
            raise BrokenSourceError(f"has a record whose Content-Length is {_shown(length)}")
        size = int(length)
        yield header, data.take(size, is_kept=size <= file.limit), size


def _fields(header: bytes) -> dict[bytes, bytes]:
    """Return the fields of a header, by their names in lower case."""
    fields: dict[bytes, bytes] = {}
    for line in header.splitlines()[1:]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _page(
    kind: str, header: dict[bytes, bytes], block: bytes, limit: int
) -> dict[str, object] | None:
    """Return a page as a record; None if the record holds none."""
    answer, body, status = header, block, None
    if kind == "response":
        found = _STATUS.match(block)
        if found is None or not found[1].startswith(b"2"):
            return None
        status = int(found[1])
        head, mark, body = block.partition(b"\r\n\r\n")
        if not mark:
            head, _, body = block.partition(b"\n\n")
        answer = _fields(head)
    content_type = answer.get(b"content-type", b"")
    media = content_type.partition(b";")[0].strip().lower().decode("latin-1")
    if media not in _TYPES:
        return None
    if kind == "response":
        body = _decoded(answer, body, limit)
    uri = header.get(b"warc-target-uri", b"").strip(b"<>").decode("utf-8", "replace")
    date = header.get(b"warc-date", b"").decode("utf-8", "replace")
    return {
        "id": f"{uri} {date}",
        "text": _text(content_type, body, is_html=media == "text/html"),
        "url": uri,
        "date": date,
        "status": status,
        "content_type": media,
    }


def _decoded(answer: dict[bytes, bytes], body: bytes, limit: int) -> bytes:
    """Return a body without the encodings that it was sent in."""
    if b"chunked" in answer.get(b"transfer-encoding", b"").lower():
        body = _joined_chunks(body)
    encoding = answer.get(b"content-encoding", b"").lower()
    if encoding in (b"", b"identity"):
        return body
    if encoding not in (b"gzip", b"x-gzip", b"deflate"):
        raise NoDocumentError(f"the page is encoded as {_shown(encoding)}, which is not decoded")
    if not body.startswith(b"\x1f\x8b") and encoding != b"deflate":
        return body  # crawlers decode it, and leave the header as it was
    try:
        wbits = 15 if body[:1] == b"\x78" else -15
        inflater = zlib.decompressobj(31 if encoding != b"deflate" else wbits)
        found = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise NoDocumentError("the page cannot be decompressed") from error
    if len(found) > limit:
        raise NoDocumentError(f"the page has more bytes than the limit of {limit:,}")
    return found


def _joined_chunks(body: bytes) -> bytes:
    """Return a body without the marks of its chunks; as it is, where there are none."""
    parts: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\n", at, at + 100)
        size = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
            return b"".join(parts) if parts else body
        n_bytes = int(size, 16)
        if not n_bytes:
            return b"".join(parts)
        parts.append(body[end + 1 : end + 1 + n_bytes])
        at = end + 1 + n_bytes
        at += 2 if body[at : at + 2] == b"\r\n" else 1


def _text(content_type: bytes, body: bytes, *, is_html: bool) -> str:
    named = _CHARSET.search(content_type)
    if named is None and is_html:
        named = _CHARSET.search(body[:_META_BYTES])
    name = named[1].decode("latin-1") if named else "utf-8"
    try:
        encoding = find_encoding(name) or "utf-8-sig"
    except ParameterError:
        encoding = "utf-8-sig"
    try:
        return body.decode(encoding)
    except UnicodeError as error:
        raise NoDocumentError(f"the page is not valid {encoding.removesuffix('-sig')}") from error


def _shown(value: bytes) -> str:
    return repr(printable(value[:60].decode("latin-1")))
