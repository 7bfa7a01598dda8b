"""Who is answered, how much may be sent, how long it may take, and what the log says."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lshdb import Index, ParameterError
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


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("near.example", "near.example:8443"), ("NEAR.example.", "near.example"),
        ("fd00:0::5", "[fd00::5]:80"), ("[fd00::5]", "[fd00::5]"), ("10.0.0.5", "10.0.0.5:1"),
        ("xn--n-eha9g.example", "xn--n-eha9g.example"), ("my_proxy", "my_proxy"),
    ],
)  # fmt: skip
def test_an_allowed_name_is_compared_as_a_request_carries_it(
    index: Index, name: str, host: str
) -> None:
    app = make_application(index, names=[name])
    assert call(app, "GET", "/api/stats", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "name",
    ["near.example:8443", "http://near.example/", "near.example/", "ünï.example", "", ".",
     "10.0.0.5:8080", "[fd00::5]:80", "near.example,far.example", "*.example"],
)  # fmt: skip
def test_a_name_that_no_request_carries_is_refused(index: Index, name: str) -> None:
    with pytest.raises(ParameterError, match="is not a host name"):
        make_application(index, names=[name])


PAGES = ["/", "/clusters", "/document?key=a", "/similar?key=a", "/buckets", "/index", "/docs"]
NO_PAGES = ["/health", "/metrics", "/api/stats", "/api/documents/a", "/openapi.json",
            "/assets/style.css"]  # fmt: skip
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:3000"},
        {"origin": "http://127.0.0.1"}, {"origin": "http://127.0.0.1:8080.evil.example"},
        {"origin": "http://evil.example:8080"}, {"origin": ""}, {"origin": "127.0.0.1:8080"},
        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8080"},
        {"sec-fetch-site": "anything"}, {"sec-fetch-site": "CROSS-SITE"},
    ],
)  # fmt: skip
def test_other_sites_may_only_link_to_pages(index: Index, headers: dict[str, str]) -> None:
    open_, guarded = make_application(index), make_application(index, token=TOKEN)
    known = {**headers, "authorization": basic(TOKEN)}
    for app, sent in ((open_, headers), (guarded, known)):
        for path in PAGES:
            assert call(app, "GET", path, headers=sent).status in (200, 400), path
        for path in NO_PAGES:
            answer = call(app, "GET", path, headers=sent)
            assert (answer.status, answer.json["error"]) == (403, "ForeignOrigin"), path
        for method, path in (("POST", "/"), ("POST", "/api/query"), ("POST", "/api/explain"),
                             ("HEAD", "/health"), ("OPTIONS", "/api/query"), ("PUT", "/"),
                             ):  # fmt: skip
            answer = call(app, method, path, b"text=a", headers={**sent, **FORM})
            assert answer.status == 403, (method, path)
            assert "access-control-allow-origin" not in answer.headers
    for more in ({"sec-fetch-mode": "no-cors"}, {"sec-fetch-dest": "image"},
                 {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}):  # fmt: skip
        assert call(open_, "GET", "/pair?key1=a&key2=a", headers={**headers, **more}).status == 403
    link = {**headers, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert call(open_, "GET", "/document?key=a", headers=link).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"origin": "http://127.0.0.1:8080"}, {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"}, {"sec-fetch-site": "same-origin", "origin": "null"},
        {"host": "localhost", "origin": "http://localhost:80"},
        {"host": "[::1]:80", "origin": "http://[::1]"},
        {"origin": "https://near.example"},
        {"host": "near.example", "origin": "https://near.example"},
        {"host": "LOCALHOST:8080", "origin": "http://localhost:8080"},
    ],
)  # fmt: skip
def test_its_own_pages_and_programs_are_answered(index: Index, headers: dict[str, str]) -> None:
    app = make_application(index, names=["near.example"])
    assert call(app, "POST", "/", b"text=a", headers={**headers, **FORM}).status == 200
    assert call(app, "POST", "/api/query", {"text": "a"}, headers=headers).status == 200
    assert call(app, "GET", "/health", headers=headers).status == 200
    assert call(app, "GET", "/", headers=headers).headers["referrer-policy"] == "same-origin"


def test_head_is_answered_like_get_and_options_with_what_may_be(index: Index) -> None:
    app = make_application(index)
    for path in ("/", "/health", "/api/stats", "/document?key=a", "/assets/style.css"):
        assert call(app, "HEAD", path).status == 200
    assert call(app, "HEAD", "/document?key=none").status == 404
    answer = call(app, "OPTIONS", "/api/query")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("/api/query", "application/json", 200), ("/api/query", "Application/JSON; charset=x", 200),
        ("/api/query", "application/problem+json", 200), ("/api/query", "text/plain", 415),
        ("/api/query", "", 415), ("/api/query", "application/x-www-form-urlencoded", 415),
        ("/api/explain", "multipart/form-data; boundary=x", 415), ("/", "multipart/form-data", 415),
        ("/", "text/plain", 415), ("/", "application/json", 415),
    ],
)  # fmt: skip
def test_a_body_of_another_type(index: Index, path: str, kind: str, status: int) -> None:
    app = make_application(index)
    answer = call(app, "POST", path, b'{"text": "a"}', headers={"content-type": kind})
    assert answer.status == status
    if status == 415:
        assert "the body has another type than application/" in answer.json["message"]


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip", "x"])
def test_a_compressed_body_is_refused(index: Index, encoding: str) -> None:
    app = make_application(index)
    headers = {"content-encoding": encoding}
    answer = call(app, "POST", "/api/query", {"text": "a"}, headers=headers)
    assert (answer.status, answer.json["message"]) == (415, "the body is compressed")
    headers = {"content-encoding": "identity"}
    assert call(app, "POST", "/api/query", {"text": "a"}, headers=headers).status == 200


def test_invented_methods_and_paths_make_no_new_counts(index: Index) -> None:
    app = make_application(index)
    for n in range(20):
        assert call(app, f"GET{n}", f"/none{n}").status in (404, 405)
    text = call(app, "GET", "/metrics").body.decode()
    assert 'lshdb_requests_total{method="other",route="none",status="404"} 20.0' in text
    assert "GET1" not in text and "none1" not in text


def test_long_bodies_are_bounded_together_and_short_ones_are_always_read(index: Index) -> None:
    app = make_application(index, limits=Limits(body_bytes=200_000, threads=2, seconds=5))
    start, large = b'{"text": "', b"a" * 190_000

    async def many() -> None:
        stalled = [
            asyncio.create_task(ask(app, "POST", "/api/query", None, None, [start + large], True))
            for _ in range(2)
        ]
        await asyncio.sleep(0.1)
        refused = await ask(app, "POST", "/api/query", start + large + b'"}')
        assert (refused.status, refused.json["error"]) == (503, "Busy")
        assert refused.headers["retry-after"] == "1"
        short = await ask(app, "POST", "/api/query", {"text": "a" * 50_000})
        assert short.status == 200
        for one in stalled:
            one.cancel()
        await asyncio.wait(stalled)
        answered = await ask(app, "POST", "/api/query", start + large + b'"}')
        assert answered.status == 200

    asyncio.run(many())


def test_a_question_of_a_client_that_has_gone_is_cancelled(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = [threading.Event() for _ in range(2)]
    begun: list[int] = []

    def slow(_self: Index, key: str) -> None:
        begun.append(int(key))
        try:
            while True:
                stop_if_told()
        finally:
            ended[int(key)].set()

    monkeypatch.setattr(Index, "show", slow)
    app = make_application(index, limits=Limits(threads=2, waiting=2))

    async def leave() -> None:
        left = asyncio.Event()
        asked = [
            asyncio.create_task(ask(app, "GET", f"/api/documents/{n}", leaves=left))
            for n in range(2)
        ]
        async with asyncio.timeout(20):
            while len(begun) < 2:
                await asyncio.sleep(0.01)
        asked += [
            asyncio.create_task(ask(app, "GET", "/api/documents/9", leaves=left)) for _ in range(2)
        ]
        await asyncio.sleep(0.05)
        assert (await ask(app, "GET", "/api/stats")).status == 503
        left.set()
        for answer in await asyncio.gather(*asked):
            assert answer.status == 0
        assert (await ask(app, "GET", "/api/stats")).status == 200

    asyncio.run(leave())
    assert all(one.wait(20) for one in ended)
    assert sorted(begun) == [0, 1]  # those that waited never began
    text = call(app, "GET", "/metrics").body.decode()
    assert 'route="/api/documents/{key}",status="499"} 4.0' in text


def test_whoever_watches_the_server_waits_for_no_question(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    monkeypatch.setattr(Index, "show", lambda _self, _key: go.wait(20))
    app = make_application(index, limits=Limits(threads=1, waiting=0))

    async def watch() -> None:
        asked = asyncio.create_task(ask(app, "GET", "/api/documents/a", fails=Exception))
        await asyncio.sleep(0.05)
        assert (await ask(app, "GET", "/api/stats")).status == 503
        assert (await ask(app, "GET", "/health")).status == 200
        assert (await ask(app, "GET", "/metrics")).status == 200
        go.set()
        await asyncio.wait([asked])

    asyncio.run(watch())


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
            async with asyncio.timeout(20):
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
