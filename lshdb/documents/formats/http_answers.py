"""What a web server answered: header, body without its transfer and content encodings, and text.

Decided: a page is whole or rejected, never cut without a word. Crawlers take encodings off and
leave the header as it was. So a body is taken as chunks only if it is chunks from its first to its
last byte, and as gzip only if it begins so. One that begins as chunks and goes on otherwise, or
ends early, is rejected, and so is compressed data that ends early.

The text is decoded as browsers do (WHATWG, Encoding and HTML standards): a byte order mark wins,
then the header, then what the page says in its first kilobyte, outside of comments and other
elements; else it is UTF-8. Labels are the standard's (webencodings), so ``gb2312`` is GB 18030 and
``iso-8859-1`` is windows-1252. Unlike a browser's, a text that cannot be decoded is rejected.
"""

from __future__ import annotations

import codecs
import functools
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from lshdb.arguments import printable
from lshdb.documents.formats.objects import NoDocumentError
from lshdb.documents.io.streams import load_decompressor

__all__ = ["HTML_TYPES", "HttpAnswer", "header_fields", "media_type", "page_text", "shown"]

HTML_TYPES = ("text/html", "application/xhtml+xml")

_STATUS = re.compile(rb"\s*HTTP/\S+\s+(\d{3})")
_HEAD_END = re.compile(rb"\n\r?\n")
_LISTED = (b"transfer-encoding", b"content-encoding")
"""Fields that are lists, so that several of them are one."""

_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?\r?\n")
_TRAILER = re.compile(rb"(?:[!-9;-~]+:[^\r\n]*\r?\n)*\s*")
_ENCODINGS = {b"gzip", b"x-gzip", b"deflate", b"zstd", b"br", b"compress", b"x-compress"}
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_HEAD_BYTES = 1024

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_CHARSET = re.compile(rb"charset[\t\n\f\r ]*=[\t\n\f\r ]*([\"']?)([^\"';\s]+)", re.IGNORECASE)
_PARAMETER = re.compile(rb";[^;=\"]*(?:=(?:\"[^\"]*\"|[^;]*))?")
_XML = re.compile(rb"<\?xml\b[^>]*?\bencoding\s*=\s*([\"'])([^\"'>]+)\1", re.IGNORECASE)
_SKIPPED = re.compile(rb"<(?:!--.*?--!?>|[!/?][^>]*>)", re.DOTALL)
_TAG = re.compile(rb"<([a-zA-Z][^\s/>]*)")
_ATTRIBUTE = re.compile(
    rb"[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)))?"
)
_CODECS = {
    "gbk": ("gb18030",),
    "big5": ("big5hkscs", "cp950"),
    "euc-jp": ("euc_jp", "euc_jis_2004"),
    "iso-2022-jp": ("iso2022_jp", "iso2022_jp_ext", "iso2022_jp_2004"),
    "replacement": (),
}
"""Python's codecs that together come nearest to an encoding of the standard, in order."""
_OLD = {"hz-gb-2312": ("hz",), "iso-2022-kr": ("iso2022_kr",), "csiso2022kr": ("iso2022_kr",)}
"""Encodings that browsers have given up, and that old archives have."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of a server.

    Attributes
    ----------
    fields : dict of bytes to bytes
        Of the header, by their names in lower case.
    body : bytes
        As it was sent.
    """

    status: int
    fields: dict[bytes, bytes]
    body: bytes

    @classmethod
    def of(cls, block: bytes) -> HttpAnswer | None:
        """Take an answer apart; None if it is none. Those before the final one are passed over."""
        while True:
            status_line = _STATUS.match(block)
            if status_line is None:
                return None
            end = _HEAD_END.search(block)
            head, body = (block, b"") if end is None else (block[: end.start()], block[end.end() :])
            status = int(status_line[1])
            if status // 100 != 1 or not body:
                return cls(status, header_fields(head), body)
            block = body

    def content(self, limit: int) -> bytes:
        """Return the body without the encodings that it was sent in.

        Raises
        ------
        NoDocumentError
            It is cut or damaged, is in an encoding that is not decoded here, or has more bytes than
            the limit.
        """
        body = self.body
        transfer = _names(self.fields.get(b"transfer-encoding", b""))
        content = _names(self.fields.get(b"content-encoding", b""))
        length = self.fields.get(b"content-length", b"")
        if not transfer and not content and length.isdigit() and len(body) < int(length[:18]):
            whole = f"{int(length):,}" if len(length) <= 18 else "more than 10^17"
            raise NoDocumentError(f"the page is cut: {len(body):,} of {whole} bytes")
        unknown: bytes | None = None
        for name in (*reversed(transfer), *reversed(content)):
            if name == b"chunked":
                body = _joined_chunks(body)
            elif name in _ENCODINGS:
                body = _decoded(name, body, limit)
            elif name != b"identity":  # mostly a character set, or none
                unknown = name
        if unknown is not None and _NOT_TEXT.search(body[:_HEAD_BYTES]):
            raise _undecoded(unknown)
        return body


def header_fields(header: bytes) -> dict[bytes, bytes]:
    """Return the fields of a header, by their names in lower case; of equal names the first."""
    fields: dict[bytes, bytes] = {}
    lines = re.sub(rb"\r?\n[ \t]+", b" ", header).split(b"\n")
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        name, value = name.strip().lower(), value.strip()
        if name in _LISTED and name in fields:
            value = fields.pop(name) + b"," + value
        fields.setdefault(name, value)
    return fields


def media_type(content_type: bytes) -> str:
    """Return the type of a value of Content-Type, without parameters."""
    return content_type.partition(b";")[0].strip().lower().decode("latin-1")


def _names(value: bytes) -> list[bytes]:
    return [name.strip().lower() for name in value.split(b",") if name.strip()]


def _joined_chunks(body: bytes) -> bytes:
    """Return a body without the marks of its chunks; as it is if it does not consist of chunks.

    Raises
    ------
    NoDocumentError
        It begins with a chunk, and does not go on so to a last one.
    """
    parts: list[bytes] = []
    at = 0
    while (size := _SIZE.match(body, at)) is not None:
        n_bytes, begin = int(size[1], 16), size.end()
        end = begin + n_bytes
        if not n_bytes:
            if parts or _TRAILER.fullmatch(body, begin):
                return b"".join(parts)
            break
        line_end = 2 if body[end : end + 2] == b"\r\n" else body[end : end + 1] == b"\n"
        if end > len(body) or not line_end:
            break
        parts.append(body[begin:end])
        at = end + line_end
    if parts:
        raise NoDocumentError("the page is cut or damaged: its chunks do not go on to a last one")
    return body


def _decoded(name: bytes, body: bytes, limit: int) -> bytes:
    """Return a body without one encoding; as it is, where a crawler has taken it off before."""
    if name in (b"gzip", b"x-gzip"):
        return _inflated(body, 31, limit) if body.startswith(b"\x1f\x8b") else body
    if name == b"deflate":
        is_zlib = len(body) > 1 and body[0] & 15 == 8 and not (body[0] << 8 | body[1]) % 31
        try:
            return _inflated(body, 15 if is_zlib else -15, limit)
        except NoDocumentError:
            if is_zlib or _NOT_TEXT.search(body[:_HEAD_BYTES]):
                raise
            return body
    if name == b"zstd":
        return _unpacked(body, limit) if body.startswith(b"\x28\xb5\x2f\xfd") else body
    raise _undecoded(name)


def _inflated(body: bytes, wbits: int, limit: int) -> bytes:
    """Decompress all members; bytes behind them that begin no member are ignored."""
    parts: list[bytes] = []
    room = limit
    while not parts or body.startswith(b"\x1f\x8b"):
        inflater = zlib.decompressobj(wbits)
        try:
            part = inflater.decompress(body, room + 1)
        except zlib.error as error:
            raise NoDocumentError("the page cannot be decompressed") from error
        if len(part) > room:
            raise _too_long(limit)
        if not inflater.eof:
            raise NoDocumentError("the page is cut: its compressed data ends early")
        parts.append(part)
        room -= len(part)
        body = inflater.unused_data.lstrip(b"\0") if wbits == 31 else b""
    return b"".join(parts)


def _unpacked(body: bytes, limit: int) -> bytes:
    """Decompress Zstandard's frames."""
    new_frame, decoder_error = load_decompressor("zst")
    parts: list[bytes] = []
    room = limit
    while body:
        frame = new_frame()
        while not frame.eof:
            try:
                part = frame.decompress(body, room + 1)
            except decoder_error as error:
                raise NoDocumentError("the page cannot be decompressed") from error
            if len(part) > room:
                raise _too_long(limit)
            parts.append(part)
            room -= len(part)
            if frame.needs_input and not frame.eof:
                raise NoDocumentError("the page is cut: its compressed data ends early")
            body = b""
        body = frame.unused_data
    return b"".join(parts)


def _undecoded(name: bytes) -> NoDocumentError:
    return NoDocumentError(f"the page is encoded as {shown(name)}, which is not decoded")


def _too_long(limit: int) -> NoDocumentError:
    return NoDocumentError(f"the page has more bytes than the limit of {limit:,}")


def page_text(content_type: bytes, body: bytes) -> str:
    """Decode a page.

    Raises
    ------
    NoDocumentError
        It is not in the encoding that it says, or in UTF-8 if it says none.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return _text(name, _codecs_of(name), body[len(mark) :])
    for label in _labels(content_type, body):
        codecs_ = _OLD.get(label.lower()) or _codecs_of(label)
        if codecs_ is not None:
            return _text(label, codecs_, body)
    return _text("utf-8", ("utf-8",), body)


def _labels(content_type: bytes, body: bytes) -> Iterator[str]:
    """Yield what header and page say, in the order in which it counts."""
    for parameter in _PARAMETER.finditer(content_type):
        name, _, value = parameter[0][1:].partition(b"=")
        if name.strip().lower() == b"charset":
            yield value.strip(b"\"' \t").decode("latin-1")
    if media_type(content_type) in HTML_TYPES:
        head = body[:_HEAD_BYTES]
        named = _meta_label(head)
        if named is not None:
            yield _meant(named)
        declaration = _XML.match(head)
        if declaration is not None:
            yield _meant(declaration[2].decode("latin-1"))


def _meant(label: str) -> str:
    """Return the encoding of a label within the page, which could be read as ASCII."""
    import webencodings

    encoding = webencodings.lookup(label)
    name = "" if encoding is None else encoding.name
    if name.startswith("utf-16"):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else label


def _meta_label(head: bytes) -> str | None:
    """Return the label in a page's first known META element (HTML standard, "prescan")."""
    at = 0
    while (at := head.find(b"<", at)) >= 0:
        skipped = _SKIPPED.match(head, at)
        tag = _TAG.match(head, at)
        if skipped is not None:
            at = skipped.end()
        elif head.startswith(b"<!--", at):
            return None
        elif tag is not None:
            at, attributes = _attributes(head, tag.end())
            label = _label_of(attributes) if tag[1].lower() == b"meta" else None
            if label is not None and (label.lower() in _OLD or _codecs_of(label) is not None):
                return label
        else:
            at += 1
    return None


def _attributes(head: bytes, at: int) -> tuple[int, dict[bytes, bytes]]:
    """Return where the attributes of a tag end, and their values; of equal names the first."""
    attributes: dict[bytes, bytes] = {}
    while (attribute := _ATTRIBUTE.match(head, at)) is not None:
        value = attribute[2] or attribute[3] or attribute[4] or b""
        attributes.setdefault(attribute[1].lower(), value)
        at = attribute.end()
    return at, attributes


def _label_of(attributes: dict[bytes, bytes]) -> str | None:
    label = attributes.get(b"charset")
    if label is None and attributes.get(b"http-equiv", b"").strip().lower() == b"content-type":
        charset = _CHARSET.search(attributes.get(b"content", b""))
        label = None if charset is None else charset[2]
    return None if label is None else label.strip().decode("latin-1")


@functools.lru_cache(maxsize=256)
def _codecs_of(label: str) -> tuple[str, ...] | None:
    """Return Python's codecs for a label of the standard; None for an unknown label."""
    import webencodings

    encoding = webencodings.lookup(label)
    if encoding is None:
        return None
    name = encoding.name
    if name.startswith("windows-"):
        return (name,)
    return _CODECS.get(name) or (() if name == "replacement" else (encoding.codec_info.name,))


def _text(label: str, names: tuple[str, ...] | None, body: bytes) -> str:
    for name in names or ():
        try:
            if name.startswith("windows-"):
                text, _ = codecs.charmap_decode(body, "strict", _windows_table(name))
            elif name == "x-user-defined":
                import webencodings

                text, _ = webencodings.lookup(name).codec_info.decode(body, "strict")
            else:
                text = body.decode(name)
        except UnicodeError:
            continue
        return text.removeprefix("\ufeff")
    raise NoDocumentError(f"the page is not valid {printable(label)[:40]}")


@functools.lru_cache
def _windows_table(name: str) -> str:
    """Return the characters of a code page, in which C1 controls fill the gaps, as browsers do."""
    codec = "cp874" if name == "windows-874" else name
    characters = []
    for byte in range(256):
        character = bytes([byte]).decode(codec, "replace")
        gap = chr(byte) if 0x80 <= byte <= 0x9F else "\ufffe"  # which charmap_decode refuses
        characters.append(gap if character == "\ufffd" else character)
    return "".join(characters)


def shown(value: bytes) -> str:
    """Return a value of a header for a message."""
    return repr(printable(value[:60].decode("latin-1")))
