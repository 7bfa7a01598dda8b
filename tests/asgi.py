"""One request to an ASGI application, without a server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def call(
    app: Any,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: dict[str, str] | None = None,
    parts: Sequence[bytes] | None = None,
    stalls: bool = False,
    fails: type[Exception] | None = None,
) -> Answer:
    """Send a request and return the answer.

    The body is sent as it is if it is bytes, else as JSON; in ``parts`` without its length. With
    ``stalls`` its end never comes. The application may raise ``fails`` after it has answered.
    """
    return asyncio.run(ask(app, method, path, body, headers, parts, stalls, fails))


async def ask(
    app: Any,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    parts: Sequence[bytes] | None = None,
    stalls: bool = False,
    fails: type[Exception] | None = None,
    leaves: asyncio.Event | None = None,
) -> Answer:
    """Send a request; the client goes when ``leaves`` is set. Status 0 is no answer."""
    raw, _, query = path.partition("?")
    given = {"host": "127.0.0.1:8080", **(headers or {})}
    if parts is None:
        parts = [
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        ]
        given.setdefault("content-length", str(len(parts[0])))
    if body is not None:
        given.setdefault("content-type", "application/json")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": unquote_to_bytes(raw).decode(), "raw_path": raw.encode(),
        "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 1), "state": {},
        "server": ("127.0.0.1", 8080),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }  # fmt: skip
    waiting, sent = list(parts), []

    async def receive() -> dict[str, Any]:
        if waiting:
            piece = waiting.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(waiting) or stalls}
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    with contextlib.suppress(*([fails] if fails else [])):
        await app(scope, receive, send)
    starts = [message for message in sent if message["type"] == "http.response.start"]
    if not starts and leaves is not None:
        return Answer(0, {}, b"")
    assert len(starts) == 1, sent
    answer = {name.decode(): value.decode() for name, value in starts[0]["headers"]}
    return Answer(starts[0]["status"], answer, b"".join(m.get("body", b"") for m in sent))
