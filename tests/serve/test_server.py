"""``lshdb serve`` as a process: its start, its end, and many who ask while somebody writes."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lshdb import Index
from lshdb.serve.workers import QuestionThreads
from tests.children.databases import child_path
from tests.children.waiting import join_all, killed_late

WORDS = [a + b for a in ("ba", "ke", "lo", "mi", "nu") for b in ("d", "f", "g", "st", "x")]


def text(seed: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=60))


@contextlib.contextmanager
def server(path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server; give its process and its host and port."""
    command = [sys.executable, "-m", "lshdb", "serve", str(path), "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={"PYTHONPATH": child_path(), "PATH": ""},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        with killed_late(process.pid):
            line = process.stdout.readline()
        assert line.startswith(f"serving {path} at http://"), process.communicate(timeout=10)
        yield process, urlsplit(line.split()[-1]).netloc
    finally:
        process.kill()
        process.communicate(timeout=10)


def post(connection: http.client.HTTPConnection, asked: Any) -> tuple[int, Any]:
    body = json.dumps(asked)
    connection.request("POST", "/api/query", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_eight_connections_ask_while_documents_come_in(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add((f"d{n}", text(n)) for n in range(300))
    failures: list[Any] = []
    with server(path) as (_process, place):

        def ask(first: int) -> None:
            connection = http.client.HTTPConnection(place, timeout=60)
            for n in range(first, first + 25):
                status, answer = post(connection, {"text": text(n % 300), "top": 1})
                if status != 200 or answer["hits"][0]["key"] != f"d{n % 300}":
                    failures.append((n, status, answer))
            connection.close()

        threads = [threading.Thread(target=ask, args=(37 * n,), daemon=True) for n in range(8)]
        for thread in threads:
            thread.start()
        n = 1000
        while any(thread.is_alive() for thread in threads):
            with Index.open(path) as index:
                index.add((f"d{each}", text(each)) for each in range(n, n + 200))
            n += 200
        join_all(threads)
        assert failures == []
        connection = http.client.HTTPConnection(place, timeout=60)
        _, answer = post(connection, {"text": text(n - 1), "top": 1})
        assert answer["hits"][0]["key"] == f"d{n - 1}"
        connection.close()
    with Index.open(path) as index:
        assert index.check() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_an_error(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "x.lshdb"
    Index.create(path).close()
    with server(path, "-v") as (process, place):
        connection = http.client.HTTPConnection(place, timeout=60)
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "ok", "documents": 0}
        connection.close()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.startswith("log: GET /health 200 ") and errors.count("\n") == 1


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lshdb", "serve", *map(str, arguments)],
        capture_output=True, text=True, timeout=60,
        env={"PYTHONPATH": child_path(), "PATH": "", **environment},
    )  # fmt: skip


def test_it_is_not_open_to_others_without_a_token(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    Index.create(path).close()
    ended = run(path, "--host", "0.0.0.0")
    assert ended.returncode == 2
    assert "0.0.0.0 can be reached from other machines, and there is no token" in ended.stderr
    short = run(path, LSHDB_TOKEN="short")
    assert short.returncode == 2 and "fewer than 16" in short.stderr and "secrets" in short.stderr
    assert "short" not in short.stderr.replace("fewer", "")
    missing = run(path, "--token-file", tmp_path / "nothing")
    assert (
        missing.returncode == 1 and f"{tmp_path / 'nothing'}: the token cannot be" in missing.stderr
    )


def test_a_token_from_a_file(tmp_path: Path) -> None:
    path, file = tmp_path / "x.lshdb", tmp_path / "token"
    Index.create(path).close()
    file.write_text("0123456789abcdefgh\n")
    with server(path, "--token-file", str(file)) as (_process, place):
        connection = http.client.HTTPConnection(place, timeout=60)
        for headers, status in (({}, 401), ({"Authorization": "Bearer 0123456789abcdefgh"}, 200)):
            connection.request("GET", "/api/stats", headers=headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
        connection.close()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    Index.create(path).close()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(path, "--port", port)
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1, port {port}: " in ended.stderr
    assert "choose another --port" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize("most", [0, 1, 3])
def test_questions_are_answered_with_fewer_threads_and_with_none(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[threading.Thread] = []
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if sum(each.is_alive() for each in begun) >= most:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    questions = QuestionThreads(threads=4, waiting=100, seconds=60, before=lambda: None)

    async def ask_all() -> list[int]:
        return await asyncio.gather(*(questions.ask(lambda n=n: n * n) for n in range(50)))

    def fails() -> None:
        raise ValueError("the question's own")

    assert asyncio.run(ask_all()) == [n * n for n in range(50)]
    with pytest.raises(ValueError, match="own"):
        asyncio.run(questions.ask(fails))
    assert asyncio.run(ask_all()) == [n * n for n in range(50)]  # no place stayed taken
    questions.close()
