"""Inputs from elsewhere: a server that lies, archives of a stranger's, and passwords in URLs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.server
import io
import json
import logging
import tarfile
import threading
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb import Document, Index, InputError, LshdbError, Rejected, read_documents
from lshdb.documents.io import remote
from lshdb.errors import hide_credentials
from tests.cli.conftest import Run, run

__all__ = ["run"]  # a fixture of the command line's

ROWS = [{"id": f"k{number:03d}", "text": f"some words in text {number}"} for number in range(200)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
KEYS = [row["id"] for row in ROWS]
SECRET = "s3cr3t"

Answer = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each path as the test says."""

    answers: dict[str, Answer]
    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        """Answer, and take no offence at a client that goes away."""
        self.asked.append((self.command, self.path))
        with contextlib.suppress(ConnectionError):
            self.answers[self.path.partition("?")[0].strip("/").partition("/")[0]](self)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *given: Any) -> None:
        """Say nothing."""

    def reply(self, body: bytes, status: int = 200, **headers: object) -> None:
        """Send a body; ``Content_Length`` and others may lie."""
        self.send_response(status)
        for name, value in {"Content_Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def web() -> Iterator[tuple[type[Handler], str]]:
    """A web server whose answers the test sets, and its address."""
    pytest.importorskip("aiohttp")
    kind = type("OwnHandler", (Handler,), {"answers": {}, "asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield kind, f"127.0.0.1:{server.server_port}"
        server.shutdown()


def read(url: str, **how: Any) -> tuple[list[str], list[str]]:
    """The keys, and the reasons of rejections."""
    items = list(read_documents([url], **how))
    return (
        [item.key for item in items if isinstance(item, Document)],
        [item.reason for item in items if isinstance(item, Rejected)],
    )


def to(target: str, status: int = 302) -> Answer:
    return lambda handler: handler.reply(b"", status, Location=target)


def lying(body: bytes = LINES, **headers: object) -> Answer:
    """Say something of a file that its bytes do not bear out."""
    return lambda handler: handler.reply(body, **headers)


AWAY = ["file:///etc/passwd", "ftp://127.0.0.1/a", "data:,x", "HTTPX://127.0.0.1/"]


@pytest.mark.parametrize("target", AWAY)
def test_a_redirect_to_another_scheme_is_refused(
    target: str, web: tuple[type[Handler], str]
) -> None:
    handler, place = web
    handler.answers["away"] = to(target)
    with pytest.raises(InputError, match="the server sends on from http to "):
        read(f"http://{place}/away/a.jsonl")
    handler.answers["late"] = lambda asked: (
        lying(b"")(asked) if asked.command == "HEAD" else to(target)(asked)
    )
    keys, [reason] = read(f"http://{place}/late/a.jsonl")
    assert not keys and "the server sends on from http to " in reason


def test_a_redirect_from_https_to_http_is_refused() -> None:
    def check(own: str, target: str) -> None:
        response = SimpleNamespace(headers={"Location": target}, url=SimpleNamespace(scheme=own))
        asyncio.run(remote._check_redirect(None, None, SimpleNamespace(response=response)))

    with pytest.raises(OSError, match="from https to http"):
        check("https", "http://host/a")
    for target in ("/a", "//host/a?b:c", "https://host/a"):
        check("https", target)
    check("http", "https://host/a")


def test_redirects_within_http_are_followed_but_not_for_ever(
    web: tuple[type[Handler], str],
) -> None:
    handler, place = web
    handler.answers |= {"a": to("/b/a.jsonl"), "b": lying(), "ring": to("/ring/a.jsonl")}
    assert read(f"http://{place}/a/a.jsonl") == (KEYS, [])
    with pytest.raises(InputError):
        read(f"http://{place}/ring/a.jsonl")


def head_says(size: int) -> Answer:
    """Say another length to HEAD than to GET."""
    return lambda asked: asked.reply(
        LINES, **({"Content_Length": size} if asked.command == "HEAD" else {})
    )


@pytest.mark.parametrize("size", [0, 1, len(LINES) // 2, len(LINES) - 1, 10 * len(LINES), 2**62])
def test_the_length_that_head_says_decides_nothing(
    size: int, web: tuple[type[Handler], str]
) -> None:
    handler, place = web
    handler.answers["lie"] = head_says(size)
    assert read(f"http://{place}/lie/a.jsonl") == (KEYS, [])


def test_a_body_that_breaks_off_or_goes_on_is_a_rejection(web: tuple[type[Handler], str]) -> None:
    handler, place = web
    handler.answers |= {
        "long": lying(Content_Length=2 * len(LINES), Connection="close"),
        "short": lying(Content_Length=len(LINES) - 9),
    }
    keys, reasons = read(f"http://{place}/long/a.jsonl")
    assert keys == KEYS[: len(keys)] and len(reasons) == 1, reasons
    keys, reasons = read(f"http://{place}/short/a.jsonl")
    assert keys == KEYS[: len(keys)] and len(keys) < len(KEYS) and len(reasons) == 1


def test_a_large_file_needs_no_ranges(web: tuple[type[Handler], str]) -> None:
    handler, place = web
    lines = b"".join(b'{"id": "%d", "text": "%s"}\n' % (i, b"w " * 2**19) for i in range(5))
    handler.answers["large"] = lying(lines)
    assert read(f"http://{place}/large/a.jsonl") == ([*"01234"], [])
    assert [command for command, _ in handler.asked].count("GET") == 1


def test_slow_bytes_are_waited_for_and_silence_is_not(
    web: tuple[type[Handler], str], monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    handler, place = web
    monkeypatch.setattr(remote, "_WEB_SECONDS", 0.4)

    def slow(asked: Handler) -> None:
        asked.reply(b"", Content_Length=len(LINES))
        for at in range(len(LINES) if asked.command == "GET" else 0):
            asked.wfile.write(LINES[at : at + 1])
            if at % 1000 == 0:
                time.sleep(0.3 if is_long else 0.02)

    def silent(asked: Handler) -> None:
        asked.reply(LINES[:1000], Content_Length=len(LINES))
        time.sleep(0.5 if asked.command == "GET" else 0)

    handler.answers |= {"slow": slow, "silent": silent}
    assert read(f"http://{place}/slow/a.jsonl?own") == (KEYS, [])
    keys, reasons = read(f"http://{place}/silent/a.jsonl?own")
    assert keys == KEYS[: len(keys)] and len(reasons) == 1, reasons


def parquet(tmp_path: Path) -> bytes:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=20)
    return (tmp_path / "a.parquet").read_bytes()


def ranged(body: bytes, shift: int = 0, cut: int = 0) -> Answer:
    """Answer ranges: the one that was asked for, or one further on, or not all of it."""

    def answer(asked: Handler) -> None:
        first, _, last = asked.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if not last:
            asked.reply(body)
            return
        start, end = int(first), min(int(last) + 1, len(body))
        piece = body[start + shift : end + shift - cut]
        asked.reply(piece, 206, Content_Range=f"bytes {start}-{end - 1}/{len(body)}")

    return answer


def test_parquet_in_pieces_that_are_not_those_asked_for(
    web: tuple[type[Handler], str], tmp_path: Path
) -> None:
    handler, place = web
    body = parquet(tmp_path)
    handler.answers |= {
        "right": ranged(body), "whole": lying(body), "shifted": ranged(body, shift=7),
        "cut": ranged(body, cut=5), "empty": ranged(body, cut=len(body)),
        "none": lambda asked: asked.reply(b"", 206),
        "size": lambda asked: asked.reply(body, Content_Length=len(body) - 3),
    }  # fmt: skip
    for name in ("right", "whole"):
        assert read(f"http://{place}/{name}/a.parquet") == (KEYS, [])
    for name in ("shifted", "cut", "empty", "none", "size"):
        keys, reasons = read(f"http://{place}/{name}/a.parquet")
        assert keys == KEYS[: len(keys)] and len(reasons) == 1, (name, keys, reasons)


def line(key: str) -> bytes:
    return json.dumps({"id": key, "text": f"words of {key}"}).encode() + b"\n"


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``a.zip`` and ``a.tar`` of a stranger's, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside.jsonl").write_bytes(line("outside"))
    with zipfile.ZipFile("a.zip", "w") as archive:
        for name in ("x.jsonl", "../outside.jsonl", "/outside.jsonl", "dir/../../y.jsonl"):
            archive.writestr(name, line(f"zip {name}"))
    with tarfile.open("a.tar", "w") as archive:
        for name in ("x.jsonl", "../outside.jsonl"):
            member = tarfile.TarInfo(name)
            member.size = len(line(f"tar {name}"))
            archive.addfile(member, io.BytesIO(line(f"tar {name}")))
        for name, kind, target in (
            ("link.jsonl", tarfile.SYMTYPE, str(tmp_path / "outside.jsonl")),
            ("up.jsonl", tarfile.SYMTYPE, "../outside.jsonl"),
            ("self.jsonl", tarfile.SYMTYPE, "self.jsonl"),
            ("hard.jsonl", tarfile.LNKTYPE, "x.jsonl"),
            ("device.jsonl", tarfile.CHRTYPE, ""),
            ("pipe.jsonl", tarfile.FIFOTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            archive.addfile(member)


def test_members_of_an_archive_are_read_and_nothing_outside_is(
    archives: None, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert read("zip://x.jsonl::a.zip") == (["zip x.jsonl"], [])
    assert read("zip://../outside.jsonl::a.zip") == (["zip ../outside.jsonl"], [])
    assert read("tar://x.jsonl::a.tar") == (["tar x.jsonl"], [])
    for pattern in ("zip://*.jsonl::a.zip", "zip://**.jsonl::a.zip", "zip://dir::a.zip"):
        with contextlib.suppress(InputError):
            assert "outside" not in read(pattern)[0]
    keys, reasons = read("tar://*.jsonl::a.tar")
    assert set(keys) <= {"tar x.jsonl", "tar ../outside.jsonl"} and len(reasons) >= 3
    for name in ("link", "self", "device", "pipe"):
        keys, [reason] = read(f"tar://{name}.jsonl::a.tar")
        assert keys == [] and "cannot be opened" in reason
    assert sorted(tmp_path.rglob("*")) == before


URLS = [
    ("https://me:s3cr3t@host/a.jsonl", "https://***@host/a.jsonl"),
    ("HTTPS://s3cr3t@host:80/a@b", "HTTPS://***@host:80/a@b"),
    ("https://me:s3cr3t@me@host/a", "https://***@host/a"),
    ("https://me:s3/cr?3t@host/a", "https://***@host/a"),
    ("https://me:s3 cr3t@host/a", "https://***@host/a"),
    ("https://me:@host/a", "https://***@host/a"),
    ("sftp://me:s3cr3t@[::1]:22/a", "sftp://me:***@[::1]:22/a"),
    ("s3://KEY:s3cr3t@bucket/a", "s3://KEY:***@bucket/a"),
    ("zip://a.csv::https://me:s3cr3t@host/a.zip", "zip://a.csv::https://***@host/a.zip"),
    ("https://h/a?X-Amz-Signature=s3cr3t&b=1", "https://h/a?X-Amz-Signature=***&b=1"),
    ("https://h/a?b=1&sig=s3cr3t%3D", "https://h/a?b=1&sig=***"),
    ("https://h/a?AWSAccessKeyId=s3cr3t&Expires=1", "https://h/a?AWSAccessKeyId=***&Expires=1"),
    ("https://h/a?access%5Ftoken=s3cr3t#x", "https://h/a?access%5Ftoken=***#x"),
    ("https://h/a?api_key=s3cr3t", "https://h/a?api_key=***"),
    ("https:/me:s3cr3t@host/a.jsonl", "https:/***@host/a.jsonl"),
    ("open 'https://me:s3cr3t@h/a': no, me@h says", "open 'https://***@h/a': no, me@h says"),
    *((url, url) for url in (
        "abfs://container@account.dfs.core.windows.net/a", "hf://datasets/me/set@main/a:b.csv",
        "https://host:8080/a/@b.txt", "http://[::1]:80/a@b", "https://h/a?page=1&key=a.txt",
        "me@host:/a", "a?token=b", "sftp://me@host/a",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_credentials_of_a_url_are_hidden(url: str, shown: str) -> None:
    assert hide_credentials(url) == shown
    assert hide_credentials(shown) == shown
    assert str(LshdbError(f"{url}: no")) == f"{shown}: no"


def test_credentials_are_neither_shown_nor_stored(
    web: tuple[type[Handler], str],
    tmp_path: Path,
    run: Run,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But they do reach the server."""
    handler, place = web
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    authorization = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()

    def guarded(body: bytes) -> Answer:
        def answer(asked: Handler) -> None:
            is_known = asked.headers["Authorization"] == authorization
            asked.reply(*((body,) if is_known and f"sig={SECRET}" in asked.path else (b"", 401)))

        return answer

    bad = b'{"id": "bad"}\n'
    handler.answers |= {
        "good": guarded(LINES + bad),
        "text": guarded(b"some words of a text"),
        "status": lambda asked: asked.reply(b"", 500),
    }
    url = f"http://me:{SECRET}@{place}/NAME?sig={SECRET}"
    good, text = url.replace("NAME", "good/a.jsonl"), url.replace("NAME", "text/a.txt")
    outputs = [
        run("add", "x.lshdb", good, text, "--rejects", "rejected.jsonl", code=5),
        run("show", "x.lshdb", "k003"),
        run("batches", "x.lshdb"),
        run("export", "x.lshdb", "--output", "exported"),
        run("pairs", good, "--threshold", "0.9", code=5),
        run("dedup", good, "--output", "out", code=1),
        run("query", "x.lshdb", good, code=5),
        run("report", "x.lshdb", "--output", "report.html"),
        *(
            run(*command, failing, code=code)
            for failing in (
                url.replace("NAME", "status/a.jsonl"),
                url.replace(place, "127.0.0.1:9"),
                good.replace(f"me:{SECRET}", f"me:{SECRET}x"),
                good.replace("http:", "nosuch:"),
            )
            for command, code in ((("add", "x.lshdb"), 1), (("stats",), 1), (("add",), 2))
        ),
    ]
    with Index.open("x.lshdb") as index:
        key = f"http://***@{place}/text/a.txt?sig=***"
        assert index.show(key).document.source == key
    for output in outputs:
        assert SECRET not in output.stdout + output.stderr
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in caplog.text
    try:
        read_documents([url.replace("NAME", "status/a.jsonl")])
    except InputError:
        assert SECRET not in traceback.format_exc()
