"""Who is answered, how much may be sent, how long it may take, and what the log says."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lshdb import Index
from lshdb.cancel import stop_if_told
from lshdb.serve import Limits, is_loopback, make_application
from tests.asgi import ask, call

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    path = tmp_path_factory.mktemp("guard") / "x.lshdb"
    with Index.create(path) as index:
        index.add([("a", "one two three four five six seven")])
        yield index


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"user:{password}".encode()).decode()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (basic(TOKEN), 200),
        (None, 401),
        ("", 401),
        ("Bearer", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Digest {TOKEN}", 401),
        (TOKEN, 401),
        (basic(TOKEN[:-1]), 401),
        ("Basic !!!", 401),
        ("Bearer \xff\xfe", 401),
    ],
)
def test_a_token_is_asked_for(index: Index, authorization: str | None, status: int) -> None:
    app = make_application(index, token=TOKEN)
    headers = {} if authorization is None else {"authorization": authorization}
    answer = call(app, "GET", "/api/stats", headers=headers)
    assert answer.status == status
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert answer.json["hint"] == "send the header 'Authorization: Bearer TOKEN'"


def test_a_token_in_the_address_is_no_token(index: Index) -> None:
    app = make_application(index, token=TOKEN)
    assert call(app, "GET", f"/api/stats?token={TOKEN}").status == 401
    assert call(app, "GET", "/metrics").status == 401
    assert call(app, "GET", "/openapi.json").status == 401
    assert call(app, "GET", "/health").status == 200  # for whoever watches the server


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200), ("localhost", 200), ("LOCALHOST:1", 200), ("[::1]:80", 200),
        ("near.example", 200), ("evil.example:8080", 421), ("localhost.evil.example", 421),
        ("", 421), ("[::2]", 421), ("127.0.0.1.evil.example", 421),
    ],
)  # fmt: skip
def test_only_names_of_this_machine_are_answered_without_a_token(
    index: Index, host: str, status: int
) -> None:
    app = make_application(index, names=["near.example"])
    assert call(app, "GET", "/api/stats", headers={"host": host}).status == status
    if status == 421:
        guarded = make_application(index, token=TOKEN)
        headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
        assert call(guarded, "GET", "/api/stats", headers=headers).status == 200


def test_a_body_has_a_largest_size_whether_it_says_so_or_not(index: Index) -> None:
    app = make_application(index, limits=Limits(body_bytes=1000))
    small, large = b'{"text": "%s"}' % (b"a" * 900), b'{"text": "%s"}' % (b"a" * 1000)
    assert call(app, "POST", "/api/query", small).status == 200
    answer = call(app, "POST", "/api/query", large)
    assert (answer.status, answer.json["error"]) == (413, "BodyTooLarge")
    pieces = [large[i : i + 100] for i in range(0, len(large), 100)]
    assert call(app, "POST", "/api/query", b"", parts=pieces).status == 413
    wrong = {"content-length": "-5"}
    assert call(app, "POST", "/api/query", small, headers=wrong).status == 413


def test_a_body_that_never_ends_is_given_up(index: Index) -> None:
    app = make_application(index, limits=Limits(seconds=0.05))
    answer = call(app, "POST", "/api/query", b'{"text": ', stalls=True)
    assert (answer.status, answer.json["error"]) == (408, "RequestTimeout")


def test_a_question_that_takes_too_long_is_given_up_and_told_to_end(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def slow(_self: Index, _key: str) -> None:
        try:
            while True:
                stop_if_told()
        finally:
            ended.set()

    monkeypatch.setattr(Index, "show", slow)
    app = make_application(index, limits=Limits(seconds=0.05, threads=1, waiting=0))
    answer = call(app, "GET", "/api/documents/a")
    assert (answer.status, answer.json["error"]) == (503, "TooSlow")
    assert ended.wait(20)


def test_more_questions_than_may_wait_are_refused(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def held(_self: Index) -> int:
        assert go.wait(20)
        return 1

    app = make_application(index, limits=Limits(threads=1, waiting=1))
    with monkeypatch.context() as patched:
        patched.setattr(Index, "__len__", held)

        async def many() -> list[int]:
            asked = [asyncio.create_task(ask(app, "GET", "/health")) for _ in range(5)]
            done: set[Any] = set()
            while len(done) < 3:  # one works, one waits
                done, _ = await asyncio.wait(asked, timeout=0.01)
            assert {one.result().headers["retry-after"] for one in done} == {"1"}
            go.set()
            return sorted(answer.status for answer in await asyncio.gather(*asked))

        assert asyncio.run(many()) == [200, 200, 503, 503, 503]
    assert call(app, "GET", "/health").status == 200  # all places were given back


def test_the_log_has_no_token_no_query_and_no_line_break(
    index: Index, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_application(index, token=TOKEN)
    with caplog.at_level(logging.INFO, "lshdb.serve"):
        for authorization in (f"Bearer {TOKEN}", f"Bearer {TOKEN}2", basic(TOKEN)):
            headers = {"authorization": authorization}
            call(app, "GET", f"/api/documents/a%0Ab%1B[2J?token={TOKEN}", headers=headers)
    assert len(caplog.messages) == 3
    for message in caplog.messages:
        assert message.isprintable() and "GET /api/documents/a\\nb\\x1b[2J 40" in message
        assert TOKEN not in message and basic(TOKEN) not in message


def test_every_answer_forbids_what_a_page_must_not_do(index: Index) -> None:
    app = make_application(index)
    for path in ("/health", "/nothing", "/openapi.json"):
        headers = call(app, "GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; ")
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.2", False), ("example.org", False)],
)  # fmt: skip
def test_addresses_of_this_machine(host: str, is_local: bool) -> None:
    assert is_loopback(host) == is_local
