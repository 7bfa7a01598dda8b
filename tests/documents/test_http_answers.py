"""Web pages: bodies are whole or rejected, and texts are decoded as browsers do."""

# ruff: noqa: E501

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from functools import partial

import pytest
import webencodings
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from lshdb.documents.formats.http_answers import HttpAnswer, page_text
from lshdb.documents.formats.objects import NoDocumentError

pytestmark = pytest.mark.fast

TEXT = b"The mill by the river grinds rye in autumn\r\n\r\nand wheat in spring\r\n"
gzipped = partial(gzip.compress, mtime=0)
"""Without the time, so that every process collects the same tests."""
PACKED = gzipped(TEXT)
RAW = zlib.compress(TEXT, wbits=-15)
CHUNKS = b"10;x=y\r\n%s\r\n%x\r\n%s\r\n" % (TEXT[:16], len(TEXT) - 16, TEXT[16:])


def content(body: bytes, *fields: bytes, limit: int = 10_000, end: bytes = b"\r\n") -> bytes:
    answer = HttpAnswer.of(end.join([b"HTTP/1.1 200 OK", *fields, b""]) + end + body)
    assert answer is not None and answer.status == 200
    return answer.content(limit)


CHUNKED, GZIP = b"Transfer-Encoding: chunked", b"Content-Encoding: gzip"
DEFLATE = b"Content-Encoding: deflate"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (CHUNKS + b"0\r\n\r\n", [CHUNKED]),
        (CHUNKS + b"000000\r\nExpires: never\r\nX: y\r\n\r\n", [CHUNKED]),
        (CHUNKS + b"0\r\n", [CHUNKED]), (CHUNKS + b"0; last\r\n\r\n\r\n", [b"transfer-ENCODING: Chunked "]),
        ((CHUNKS + b"0\r\n\r\n").replace(b"10;x=y\r\n", b"0010 \t\n"), [CHUNKED]),
        (b"%x\n%s\n0\n\n" % (len(TEXT), TEXT), [CHUNKED]),
        (TEXT, [CHUNKED]), (TEXT, [GZIP]), (TEXT, [CHUNKED, GZIP]), (TEXT, [DEFLATE]),
        (PACKED, [GZIP]), (PACKED, [b"Content-Encoding: X-GZip"]),
        (gzipped(TEXT[:20]) + gzipped(TEXT[20:]), [GZIP]),
        (gzipped(b"") + PACKED + bytes(9), [GZIP]), (PACKED + b"\r\n", [GZIP]),
        (b"%x\r\n%s\r\n0\r\n\r\n" % (len(PACKED), PACKED), [CHUNKED, GZIP]),
        (b"%x\r\n%s\r\n0\r\n\r\n" % (len(PACKED), PACKED), [b"Transfer-Encoding: gzip, chunked"]),
        (PACKED, [b"Transfer-Encoding: gzip"]),
        (PACKED, [b"Content-Encoding: gzip, identity"]), (PACKED, [b"Content-Encoding: identity", GZIP]),
        (gzipped(PACKED), [b"Content-Encoding: gzip,gzip"]), (gzipped(PACKED), [GZIP, GZIP]),
        (gzipped(RAW), [DEFLATE, GZIP]), (RAW, [DEFLATE]),
        *((zlib.compress(TEXT, level), [DEFLATE]) for level in (1, 6, 9)),
        (zlib.compress(TEXT, wbits=10), [DEFLATE]),
        (zstd.compress(TEXT), [b"Content-Encoding: zstd"]),
        (zstd.compress(TEXT[:9]) + zstd.compress(TEXT[9:]), [b"Content-Encoding: zstd"]),
        (TEXT, [b"Content-Encoding: zstd"]),
        (TEXT, [b"Content-Encoding: utf-8"]), (TEXT, [b"Content-Encoding: none"]), (TEXT, [b"Content-Encoding:"]),
        (PACKED, [b"Content-Encoding: utf-8, gzip"]),
        (TEXT, [b"Content-Length: %d" % len(TEXT)]), (TEXT, [b"Content-Length: 1"]),
        (TEXT, [b"Content-Length: many"]), (TEXT, [b"Content-Length: 9999", GZIP]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_body_is_whole(body: bytes, fields: list[bytes], end: bytes) -> None:
    assert content(body, *fields, end=end) == TEXT


@pytest.mark.parametrize(
    "body",
    [b"2024\r\nannual report", b"CAFE\nmenu of the day", b"0\r\npoints for the home side", b"0", b"",
     b"face\n", b"ffffffffffffffffffffff\r\nx", b"-1\r\nx", b"10 green bottles\r\n", b"a\r\nb\r\nc", b"0\r\n\r\nx"],
)  # fmt: skip
def test_a_body_that_only_looks_like_chunks_stays(body: bytes) -> None:
    assert content(body, CHUNKED) == body


@pytest.mark.parametrize(
    ("body", "fields", "reason"),
    [
        (CHUNKS, [CHUNKED], "its chunks do not go on"),
        (CHUNKS[:-9], [CHUNKED], "its chunks do not go on"),
        (CHUNKS + b"no number\r\n", [CHUNKED], "its chunks do not go on"),
        (PACKED[:-1], [GZIP], "ends early"), (PACKED[:30], [GZIP], "ends early"), (PACKED[:2], [GZIP], "ends early"),
        (PACKED + PACKED[:-1], [GZIP], "ends early"),
        (PACKED + PACKED[:20] + b"\xff" * 30, [GZIP], "the page"),
        (PACKED[:-8] + bytes(8), [GZIP], "cannot be decompressed"),
        (zlib.compress(TEXT)[:-3], [DEFLATE], "ends early"), (RAW[:-3], [DEFLATE], "ends early"),
        (zlib.compress(TEXT)[:-4] + bytes(4), [DEFLATE], "cannot be decompressed"),
        (zstd.compress(TEXT)[:-3], [b"Content-Encoding: zstd"], "ends early"),
        (zstd.compress(TEXT)[:9] + b"\xff" * 30, [b"Content-Encoding: zstd"], "the page"),
        (gzipped(bytes(10_001)), [GZIP], "limit of 10,000"),
        (gzipped(bytes(5_001)) * 2, [GZIP], "limit of 10,000"),
        (gzipped(gzipped(bytes(10**6))), [GZIP, GZIP], "limit of 10,000"),
        (zstd.compress(bytes(10_001)), [b"Content-Encoding: zstd"], "limit of 10,000"),
        (b"\x0b\x02\x80text\x03", [b"Content-Encoding: br"], "encoded as 'br', which is not decoded"),
        (b"\x00\x01\x02", [b"Content-Encoding: new"], "encoded as 'new', which is not decoded"),
        (TEXT, [b"Content-Length: 9999"], "the page is cut: 67 of 9,999 bytes"),
        (TEXT, [b"Content-Length: " + b"9" * 5_000], "the page is cut: 67 of more than"),
    ],
)  # fmt: skip
def test_a_body_that_is_not_whole_is_rejected(
    body: bytes, fields: list[bytes], reason: str
) -> None:
    with pytest.raises(NoDocumentError, match=reason):
        content(body, *fields)


@given(
    st.binary(max_size=60),
    st.lists(st.sampled_from(["chunked", "gzip", "deflate", "zstd"]), max_size=3),
)
def test_what_was_packed_comes_out(body: bytes, encodings: list[str]) -> None:
    sent = body
    for name in encodings:
        if name == "chunked":
            sent = b"%x\r\n%s\r\n" % (len(sent), sent) if sent else b""
            sent += b"0\r\n\r\n"
        else:
            pack = {"gzip": gzipped, "deflate": zlib.compress, "zstd": zstd.compress}[name]
            sent = pack(sent)
    fields = [f"Transfer-Encoding: {name}".encode() for name in encodings]
    assert content(sent, *fields) == body
    if encodings and encodings[-1] != "chunked":
        with pytest.raises(NoDocumentError):
            content(sent[:-1], *fields)


@pytest.mark.parametrize(
    ("block", "status", "body"),
    [
        (b"HTTP/1.0 200 OK\nContent-Type: text/html\n\none\r\n\r\ntwo", 200, b"one\r\n\r\ntwo"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\none\n\ntwo", 200, b"one\n\ntwo"),
        (b"HTTP/1.1 200\r\nContent-Type: text/html\n\r\none", 200, b"one"),
        (b"HTTP/2 203\r\nContent-type:\r\n text/html;\r\n\tcharset=x\r\n\r\n", 203, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\none", 200, b"one"),
        (b"\r\nHTTP/1.1 404 No\r\nContent-Type:text/html", 404, b""),
    ],
)  # fmt: skip
def test_an_answer_is_taken_apart(block: bytes, status: int, body: bytes) -> None:
    answer = HttpAnswer.of(block)
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)
    assert answer.fields[b"content-type"].startswith(b"text/html")
    assert HttpAnswer.of(b"ICY 200 OK\r\n\r\n") is None


SAMPLES = {
    "gb2312": ("镕基同志出席会议", "gbk"), "gbk": ("镕基", "gbk"), "gb18030": ("𠀀镕", "gb18030"), "chinese": ("市议会", "gbk"),
    "big5": ("市議會投票", "big5"), "big5-hkscs": ("啲嘢", "big5hkscs"), "x-x-big5": ("市議會", "big5"),
    "shift_jis": ("①市議会は橋を", "cp932"), "x-sjis": ("～市", "cp932"), "windows-31j": ("髙", "cp932"),
    "euc-jp": ("市議会は橋を", "euc_jp"), "x-euc-jp": ("①", "euc_jis_2004"), "iso-2022-jp": ("市議会", "iso2022_jp"),
    "csISO2022JP": ("ｱｲｳ", "iso2022_jp_ext"),
    "euc-kr": ("똠방각하 펲시콜라", "cp949"), "ks_c_5601-1987": ("시의회", "cp949"), "windows-949": ("펲", "cp949"),
    "iso-8859-1": ("“council” – don’t €", "cp1252"), "latin1": ("“é”", "cp1252"), "us-ascii": ("é", "cp1252"),
    "ascii": ("’", "cp1252"), "iso-8859-9": ("ışĞ€", "cp1254"), "iso-8859-11": ("ไทย…", "cp874"), "tis-620": ("ไทย", "cp874"),
    "windows-1251": ("Совет", "cp1251"), "koi8-r": ("Совет", "koi8-r"), "koi8-ru": ("Ґанок", "koi8-u"), "cp866": ("Совет", "cp866"),
    "x-mac-cyrillic": ("Совет", "mac-cyrillic"), "macintosh": ("€é", "mac-roman"), "iso-8859-8-i": ("מועצה", "iso8859-8"),
    "logical": ("מועצה", "iso8859-8"), "visual": ("מועצה", "iso8859-8"), "arabic": ("مجلس", "iso8859-6"),
    "utf-16": ("市é", "utf-16-le"), "unicodefffe": ("市é", "utf-16-be"), "unicode": ("市", "utf-16-le"),
    "utf8": ("市é", "utf-8"), "unicode-1-1-utf-8": ("é", "utf-8"), "x-user-defined": ("abc", "ascii"),
    "hz-gb-2312": ("市议会", "hz"), "iso-2022-kr": ("시의회", "iso2022_kr"),
}  # fmt: skip


@pytest.mark.parametrize("label", SAMPLES)
def test_labels_are_the_webs(label: str) -> None:
    text, codec = SAMPLES[label]
    body = text.encode(codec)
    for form in (f"text/plain; charset={label}", f'text/html;a=b; Charset="{label.upper()}" ;x'):
        assert page_text(form.encode(), body) == text
    if not webencodings.lookup(label).name.startswith("utf-16") and label != "x-user-defined":
        page = f'<meta charset="{label}">{text}'
        assert page_text(b"text/html", page.encode(codec)) == page


@pytest.mark.parametrize("label", sorted(webencodings.LABELS))
def test_every_label_of_the_standard_is_known(label: str) -> None:
    name = webencodings.LABELS[label]
    content_type = b"text/plain; charset=" + label.encode()
    if name == "replacement" and label not in ("hz-gb-2312", "iso-2022-kr", "csiso2022kr"):
        with pytest.raises(NoDocumentError, match=f"the page is not valid {re.escape(label)}"):
            page_text(content_type, b"text")
    else:
        body = "text".encode(name) if name.startswith("utf-16") else b"text"
        assert page_text(content_type, body) == "text"


def test_gaps_of_code_pages_are_control_characters() -> None:
    assert page_text(b"text/plain; charset=latin1", b"a\x81\x8d\x90b") == "a\x81\x8d\x90b"
    assert page_text(b"text/plain; charset=windows-874", b"\xa1\x82") == "ก\x82"
    with pytest.raises(NoDocumentError):
        page_text(b"text/plain; charset=windows-1253", b"\xff")


C = "<meta charset=windows-1252>"


@pytest.mark.parametrize(
    ("head", "is_utf8"),
    [
        (C, False), ("<META CHARSET = 'windows-1252' >", False), ("<meta/charset=cp1252 />", False),
        ("<html><head><title>x</title>" + C, False), ("<?php x ?>" + C, False), ("<!doctype html>" + C, False),
        ('<meta http-equiv="Content-Type" content="text/html; charset=cp1252">', False),
        ("<meta content='text/html;charset = \"cp1252\"' HTTP-EQUIV=content-type>", False),
        ('<meta content="text/html; charset=cp1252">', True),
        ('<meta name="x" content="charset=cp1252">', True),
        (f"<!-- {C} -->", True), (f"<!-- {C}", True), (f"<!-- a --> <!-- > {C} --> <meta charset=utf-8>", True),
        ('<script src="a.js" charset="windows-1252"></script>', True),
        ('<link href="?charset=windows-1252">', True), ('<a href=x?charset=windows-1252>', True),
        (f'<a title="{C}">', True), (f"<a title='{C}'><meta charset=utf-8>", True), (f'</a title="x">{C}', False),
        ("<metadata charset=windows-1252>", True), ("<p>charset=windows-1252", True), ("x < y" + C, False),
        ("<meta charset=nonsense>" + C, False), ("<meta charset=nonsense>", True), ("<meta charset>" + C, False),
        ("<meta charset=utf-8>" + C, True), (C + "<meta charset=utf-8>", False),
        ("<meta charset=utf-16>", True), ("<meta charset=utf-16be>" + C, True), ("<meta charset=x-user-defined>", False),
        ('<?xml version="1.0" encoding="iso-8859-1"?>', False), ("<?xml encoding='utf-16'?>", True),
        ('<?xml encoding="iso-8859-1"?><meta charset=utf-8>', True), (" " * 1024 + C, True),
        ("<meta charset=utf-7>" + C, False), ('<meta a="b>c" charset=cp1252>', False), ("<meta a=b>c charset=cp1252>", True),
    ],
)  # fmt: skip
def test_a_page_says_its_encoding_in_meta_alone(head: str, is_utf8: bool) -> None:
    text = head + "<body>fünf</body>"
    encoding = "utf-8" if is_utf8 else "cp1252"
    assert page_text(b"text/html", text.encode(encoding)) == text
    assert page_text(b"application/xhtml+xml; q=1", text.encode(encoding)) == text
    assert page_text(b"text/html; charset=utf-8", text.encode()) == text  # the header wins
    assert page_text(b"text/plain", text.encode()) == text


@pytest.mark.parametrize("label", ["gb2312", "utf-8", "nope", "utf-16be"])
def test_a_byte_order_mark_wins(label: str) -> None:
    for codec in ("utf-8", "utf-16-le", "utf-16-be"):
        body = "\ufeff<meta charset=big5>市".encode(codec)
        assert page_text(f"text/html; charset={label}".encode(), body) == "<meta charset=big5>市"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(b"text/html", b"caf\xe9"), (b"text/html; charset=utf-8", b"caf\xe9"), (b"text/plain; charset=gbk", b"\xff"),
     (b"text/plain; charset=utf-16", b"abc"), (b"text/html; charset=big5", b"\x81"), (b"text/plain", b"\xff\xfea")],
)  # fmt: skip
def test_a_page_in_another_encoding_is_rejected(content_type: bytes, body: bytes) -> None:
    with pytest.raises(NoDocumentError, match="the page is not valid"):
        page_text(content_type, body)


@given(
    st.binary(max_size=80),
    st.sampled_from([b"text/html", b"text/html; charset=", b"text/plain;charset='x"]),
)
def test_any_bytes_are_decoded_or_rejected(body: bytes, content_type: bytes) -> None:
    for head in (b"", b"<meta ", b"<a b='", b"<!-- "):
        with contextlib.suppress(NoDocumentError):
            assert isinstance(page_text(content_type, head + body), str)
