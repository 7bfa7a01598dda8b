"""``lshdb serve`` on a socket, and clients that mean it no good.

All of it goes to 127.0.0.1, with a few hundred sockets at most. ``benchmarks/server_attacks.py``
measures the same attacks for longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from uvicorn.server import ServerState

from lshdb import Index
from lshdb.serve.client_connections import ClientConnection, close_overdue
from lshdb.serve.guard import Limits
from tests.children.waiting import join_all
from tests.serve.test_server import server, text

SECONDS = 1.5
KEYS = ("line\nfeed", "cr\r", "\n", "a//b", "/", "//", "tab\t", "x?y#z%41&", "\u2028é", "\x01", " ",
        "a/../b", "trailing/", ".", "..", "\U0001f389")  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    path = tmp_path_factory.mktemp("hostile") / "x.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add((f"d{n}", text(n)) for n in range(200))
        index.add((key, text(1000 + n)) for n, key in enumerate(KEYS))
    with server(path, "--timeout", str(SECONDS)) as (process, netloc):
        host, _, port = netloc.partition(":")
        yield host, int(port)
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors and "Error" not in errors, errors


def health(place: tuple[str, int]) -> float:
    """Ask /health over a new connection; return the seconds that it took."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(*place, timeout=30)
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()
    return time.perf_counter() - begun


def connect(place: tuple[str, int], sent: bytes = b"") -> socket.socket:
    sock = socket.create_connection(place, timeout=30)
    sock.sendall(sent)
    return sock


def answer_to(place: tuple[str, int], sent: bytes) -> bytes:
    """Return all that the server says until it closes the connection."""
    with connect(place) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(sent)
        return rest(sock)


def rest(sock: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            received += piece
    return received


def head(method: str, path: str, *lines: str, close: bool = True) -> bytes:
    all_lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines]
    if close:
        all_lines.append("Connection: close")
    return ("\r\n".join(all_lines) + "\r\n\r\n").encode("latin-1")


JSON = "Content-Type: application/json"
FORM = "Content-Type: application/x-www-form-urlencoded"


def test_half_open_sockets_keep_nobody_out(place: tuple[str, int]) -> None:
    with contextlib.ExitStack() as opened:
        sockets = []
        for n in range(400):
            sockets.append(opened.enter_context(connect(place, (b"GET / HT", b"", b"G")[n % 3])))
            if n % 50 == 49:
                assert health(place) < 5
        assert rest(sockets[0])[:12] in (b"", b"HTTP/1.1 408")  # made room, or was late
        for _ in range(10):
            assert health(place) < 5
        begun = time.perf_counter()
        assert rest(sockets[399]).startswith(b"HTTP/1.1 408 ")
        assert rest(sockets[397]) == b""  # it never began
        assert time.perf_counter() - begun < SECONDS + 5


@pytest.mark.parametrize("n", [70_000, 3_000_000])
def test_an_address_or_a_head_that_is_too_long(place: tuple[str, int], n: int) -> None:
    said = answer_to(place, head("GET", "/?text=" + "a" * n))
    assert said.startswith(b"HTTP/1.1 414 ")
    assert b"end the text as a body" in said
    assert answer_to(place, head("GET", "/?text=" + "a" * 65_000)).startswith(b"HTTP/1.1 200 ")
    said = answer_to(place, head("GET", "/", "X: " + "a" * n))
    assert said.startswith((b"HTTP/1.1 200 " if n < 2**18 else b"HTTP/1.1 431 ", b"HTTP/1.1 431 "))


def test_a_head_that_trickles_is_given_up(place: tuple[str, int]) -> None:
    begun = time.perf_counter()
    with connect(place, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n") as sock:
        sock.settimeout(0.1)
        received = b"none"
        with contextlib.suppress(ConnectionError):
            while time.perf_counter() - begun < 20:
                sock.sendall(b"X: y\r\n")
                with contextlib.suppress(TimeoutError):
                    received = sock.recv(1000)
                    break
    assert received.startswith((b"HTTP/1.1 408 ", b"none"))
    assert SECONDS - 0.5 < time.perf_counter() - begun < SECONDS + 5


def test_idle_connections_are_closed(place: tuple[str, int]) -> None:
    with connect(place, head("GET", "/health", close=False)) as sock:
        begun = time.perf_counter()
        assert rest(sock).endswith(b"}")
        assert time.perf_counter() - begun < SECONDS + 5


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_body_that_never_ends_is_given_up(place: tuple[str, int], is_begun: bool) -> None:
    sent = head("POST", "/api/query", JSON, "Transfer-Encoding: chunked", close=False)
    with connect(place, sent + (b"4\r\n{   \r\n" if is_begun else b"")) as sock:
        begun = time.perf_counter()
        assert b" 408 " in rest(sock).split(b"\r\n")[0]
        assert time.perf_counter() - begun < SECONDS + 5


def test_chunks_without_end_are_too_long(place: tuple[str, int]) -> None:
    begun = time.perf_counter()
    with connect(place, head("POST", "/api/query", JSON, "Transfer-Encoding: chunked")) as sock:
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        n_sent = 0
        with contextlib.suppress(ConnectionError):
            while time.perf_counter() - begun < 20:
                sock.sendall(chunk)
                n_sent += 1
    assert n_sent < 400  # 16 MiB, and what lies in buffers
    assert health(place) < 5


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"-1\r\n\r\n", b"5\r\nabcdefgh\r\n", b"1" * 100 + b"\r\n"]
)
def test_wrong_chunks(place: tuple[str, int], body: bytes) -> None:
    sent = head("POST", "/api/query", JSON, "Transfer-Encoding: chunked")
    assert b" 400 " in answer_to(place, sent + body).split(b"\r\n")[0]


def test_a_form_bomb_stops_nobody(place: tuple[str, int]) -> None:
    form = b"text=x" + b"&a=1" * (4 * 2**20 - 64)
    sent = head("POST", "/", FORM, f"Content-Length: {len(form)}")
    with connect(place) as sock:
        sock.sendall(sent + form)
        for _ in range(5):
            assert health(place) < 3
        assert b"more than 16 fields" in rest(sock)


def test_clients_that_go_free_their_places(place: tuple[str, int]) -> None:
    body = json.dumps({"text": " ".join(text(n) for n in range(20_000))}).encode()
    sent = head("POST", "/api/query", JSON, f"Content-Length: {len(body)}")
    for n in range(100):
        with connect(place, sent + body) as sock:
            if n % 2:  # a reset, not an end
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert health(place) < 5
    begun = time.perf_counter()
    while b"200" not in answer_to(place, head("GET", "/api/stats")).split(b"\r\n")[0]:
        assert time.perf_counter() - begun < 10
        time.sleep(0.1)


def test_a_client_that_has_sent_more_and_goes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add((f"d{n}", text(n)) for n in range(100))
    body = json.dumps({"text": " ".join(text(n) for n in range(60_000))}).encode()
    sent = head("POST", "/api/query", JSON, f"Content-Length: {len(body)}", close=False)
    with server(path, "-v") as (process, netloc):
        host, _, port = netloc.partition(":")
        # The server reads no more than the next request while it answers this one.
        connect((host, int(port)), sent + body + 15_000 * head("GET", "/", close=False)).close()
        time.sleep(3)
        assert health((host, int(port))) < 5
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert errors.startswith("log: POST /api/query 499 "), errors


def test_a_client_that_takes_no_answer_is_cut_off(place: tuple[str, int]) -> None:
    body = b"text=" + b"word+" * 1_000_000
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(place)
        sock.sendall(head("POST", "/", FORM, f"Content-Length: {len(body)}", close=False) + body)
        time.sleep(2 * SECONDS + 2)
        sock.settimeout(10)
        assert len(rest(sock)) < 4_900_000
    assert health(place) < 5


def test_a_flood_of_connections_keeps_nobody_out(place: tuple[str, int]) -> None:
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                connect(place).close()

    threads = [threading.Thread(target=flood, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert health(place) < 5
    finally:
        stop.set()
        join_all(threads)


def test_a_request_that_lies_at_its_socket_is_neither_late_nor_in_the_way() -> None:
    """A loop that was kept from its turn finds requests, new connections and time together."""

    async def ends(n_new: int, opened: contextlib.ExitStack) -> list[bool]:
        loop, limits, state = asyncio.get_running_loop(), Limits(connections=4), ServerState()
        config = uvicorn.Config(_no_answer, lifespan="off")

        def pair() -> list[socket.socket]:
            return [opened.enter_context(place) for place in socket.socketpair()]

        def connection() -> ClientConnection:
            return ClientConnection(limits, config=config, server_state=state, app_state={})

        clients, transports = [], []
        for _ in range(4):
            client, place = pair()
            transport, _ = await loop.connect_accepted_socket(connection, place)
            clients.append(client)
            transports.append(transport)
        clients[0].sendall(head("GET", "/"))
        clients[2].close()
        time.sleep(0.3)  # the loop has no turn
        for _ in range(n_new):
            connection().connection_made(_SocketOf(pair()[1]))
        if not n_new:
            close_overdue(state.connections, loop.time() + limits.seconds + 1)
        ended = [transport.is_closing() for transport in transports]
        for transport in transports:
            transport.abort()
        await asyncio.sleep(0)
        return ended

    for n_new, expected in [
        (0, [False, True, True, True]),
        (1, [False, False, True, False]),
        (2, [False, True, True, False]),
        (9, [False, True, True, True]),
    ]:
        with contextlib.ExitStack() as opened:
            assert asyncio.run(ends(n_new, opened)) == expected, n_new


async def _no_answer(scope: Any, receive: Any, send: Any) -> None:
    """Take requests and say nothing."""


class _SocketOf(asyncio.Transport):
    """As much of a transport as a connection asks of one."""

    def __init__(self, place: socket.socket) -> None:
        super().__init__({"socket": place})

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


def test_long_answers_that_nobody_takes_make_room(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add([("long", " ".join(text(n) for n in range(8_000)))])
    with server(path) as (process, netloc), contextlib.ExitStack() as opened:
        host, _, port = netloc.partition(":")
        place = host, int(port)
        whole = answer_to(place, head("GET", "/api/documents/long"))
        assert len(json.loads(whole.partition(b"\r\n\r\n")[2])["body"]) > 1_600_000
        before = memory(process.pid)
        for n in range(300):
            sock = opened.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(place)
            sock.sendall(head("GET", "/api/documents/long", close=False))
            if n % 50 == 49:
                time.sleep(1)
                assert health(place) < 15
        assert health(place) < 15
        assert memory(process.pid) < before + 300 * 4


def memory(pid: int) -> int:
    """Return the MiB that a process has; 0 where nobody says so."""
    with contextlib.suppress(OSError):
        (line,) = [
            line
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        ]
        return int(line.split()[1]) // 1024
    return 0


def test_pipelined_requests_are_answered_one_after_the_other(place: tuple[str, int]) -> None:
    received = answer_to(place, 500 * head("GET", "/health", close=False) + head("GET", "/health"))
    assert received.count(b"HTTP/1.1 200 ") == 501
    assert health(place) < 5


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 300_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: a\r\n" * 100_000 + b"\r\n", 431),
        (b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"\r\n\r\n\r\nGET / HTTP/9.9\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (head("POST", "/", "Content-Length: 5", "Content-Length: 6"), 400),
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n", 400),
        (head("POST", "/", "Content-Length: 99999999999999999999"), 413),
        (b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
    ],
)  # fmt: skip
def test_heads_that_are_none(place: tuple[str, int], sent: bytes, status: int) -> None:
    line = answer_to(place, sent).split(b"\r\n")[0]
    # A client that still sends when the server closes may not see the answer.
    assert b" %d " % status in line or (not line and len(sent) > 100_000), line
    assert health(place) < 5


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/../../etc/passwd", 404), ("GET", "/assets/../../environment.py", 404),
        ("GET", "/assets/%2e%2e%2fenvironment.py", 404), ("GET", "//evil.example/", 404),
        ("GET", "/assets/..%5c..%5cserver.py", 404), ("GET", "http://evil.example/", 404),
        ("GET", "/%00", 404), ("GET", "/document?key=%00", 404), ("GET", "/document?key=%ff", 404),
        ("GET", "/document?key=%ED%A0%80", 404), ("GET", "/document?key=", 404),
        ("GET", "/api/documents/", 404), ("GET", "/api/documents/%ff%00", 404),
        ("GET", "/api/documents/" + "a" * 10_000, 404),
        ("GET", "/similar?key=" + "%0A" * 3000, 404),
        ("GET", "/api/clusters?offset=9223372036854775807", 400),
        ("GET", "/api/clusters?offset=9223372036854775808", 400),
        ("GET", "/api/clusters?offset=" + "9" * 5000, 400), ("GET", "/api/clusters?offset=-1", 400),
        ("GET", "/api/clusters?offset=1e400", 400), ("GET", "/api/clusters?limit=0", 400),
        ("GET", "/api/clusters?limit=100000000000000000000", 400),
        ("GET", "/api/clusters?min_size=9223372036854775808", 400),
        ("GET", "/api/clusters?threshold=nan", 400), ("GET", "/api/clusters?threshold=1e308", 400),
        ("GET", "/api/clusters/d1?members=99999999999999999999", 400),
        ("GET", "/clusters?offset=9223372036854775807", 400),
        ("GET", "/clusters?offset=" + "9" * 5000, 400), ("GET", "/clusters?offset=x", 400),
        ("GET", "/bucket?band=0&bucket=" + "9" * 5000, 400),
        ("GET", "/bucket?band=0&bucket=x", 400),
        ("GET", "/bucket?band=0&bucket=-9223372036854775809", 400),
        ("GET", "/pair?key1=d1", 400), ("GET", "/document?key=d1&key=d2" + "&a=b" * 2000, 200),
        ("OPTIONS", "/", 405), ("OPTIONS", "*", 404), ("TRACE", "/", 405), ("DELETE", "/", 405),
        ("HEAD", "/health", 200), ("HEAD", "/none", 404), ("PROPFIND", "/", 405),
    ],
)  # fmt: skip
def test_odd_questions_get_plain_answers(
    place: tuple[str, int], method: str, path: str, status: int
) -> None:
    line, _, rest_ = answer_to(place, head(method, path)).partition(b"\r\n")
    assert b" %d " % status in line, line + rest_
    if method == "HEAD":
        assert rest_.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_documents_by_keys_that_are_odd(place: tuple[str, int], key: str) -> None:
    quoted = quote(key, safe="")
    for path in (f"/api/documents/{quoted}", f"/api/documents?key={quoted}",
                 f"/document?key={quoted}", f"/similar?key={quoted}"):  # fmt: skip
        received = answer_to(place, head("GET", path))
        assert received.startswith(b"HTTP/1.1 200 "), received
    asked = json.dumps({"key": key, "threshold": 0.9}).encode()
    sent = head("POST", "/api/query", JSON, f"Content-Length: {len(asked)}") + asked
    assert answer_to(place, sent).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"text": "\ud800"}, 400), ({"key": "\ud800"}, 404), ({"key": "\x00"}, 404),
        ({"text": "\x00" * 100}, 200), ({"key": ""}, 404), ({"text": ""}, 200),
        ({"text": "a", "threshold": 1e308}, 400), ({"text": "a", "below": -1e308}, 400),
        ({"text": "a", "top": 10**400}, 400), ({"vector": {"a": 1}}, 400), ({"vector": []}, 400),
        ({"vector": "2" * 100_000}, 400), ({"text": []}, 200), ({"text": {"set": []}}, 200),
        ({"text": ["\ud800"]}, 400),
    ],
)  # fmt: skip
def test_odd_bodies_get_plain_answers(place: tuple[str, int], asked: Any, status: int) -> None:
    body = json.dumps(asked).encode()
    sent = head("POST", "/api/query", JSON, f"Content-Length: {len(body)}") + body
    received = answer_to(place, sent)
    assert received.startswith(b"HTTP/1.1 %d " % status), received
    if asked.keys() & {"text", "vector"}:
        body = json.dumps({"key1": "d1"} | {n: asked[n] for n in asked if n in ("text", "vector")})
        sent = head("POST", "/api/explain", JSON, f"Content-Length: {len(body)}") + body.encode()
        line = answer_to(place, sent).split(b"\r\n")[0]
        assert b" 200 " in line or b" 400 " in line, line


def test_many_files_in_multipart(place: tuple[str, int]) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nb\r\n'
    body = part * 100_000 + b"--x--\r\n"
    sent = head("POST", "/", "Content-Type: multipart/form-data; boundary=x",
                f"Content-Length: {len(body)}")  # fmt: skip
    assert b" 415 " in answer_to(place, sent + body).split(b"\r\n")[0]


def test_upgrades_and_expectations(place: tuple[str, int]) -> None:
    upgrade = head("GET", "/health", "Upgrade: websocket", "Connection: Upgrade",
                   "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
                   close=False)  # fmt: skip
    with connect(place, upgrade) as sock:
        assert rest(sock).startswith(b"HTTP/1.1 200 ")
    expects = head("POST", "/api/query", JSON, "Content-Length: 13", "Expect: 100-continue")
    with connect(place, expects) as sock:
        assert sock.recv(1000).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b'{"text": "a"}')
        assert rest(sock).startswith(b"HTTP/1.1 200 ")


def test_two_long_texts_side_by_side_hold_up_nobody(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    words = [text(n) for n in range(12_000)]
    with Index.create(path, threshold=0.3) as index:
        index.add([("a", " ".join(words)), ("b", " ".join(words[6_000:] + words[:5_000]))])
    with server(path) as (_process, netloc):
        host, _, port = netloc.partition(":")
        place = host, int(port)
        body = json.dumps({"key1": "a", "key2": "b"}).encode()
        for sent in (head("GET", "/pair?key1=a&key2=b"),
                     head("POST", "/api/explain", JSON, f"Content-Length: {len(body)}") + body,
                     ):  # fmt: skip
            with connect(place, sent) as sock:
                for _ in range(5):
                    assert health(place) < 3
                received = rest(sock)
            assert received.startswith(b"HTTP/1.1 200 ")
            assert len(received) < 3_000_000
        explained = json.loads(received.partition(b"\r\n\r\n")[2])
        assert explained["shared"] is None and 0.8 < explained["similarity"] < 1
