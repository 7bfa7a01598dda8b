"""What stands before every route: who may ask, how much may be sent, what is counted and logged.

Decided: without a token only names of this machine are answered. A page of another site can make
your browser ask ``localhost`` by pointing a name of its own there, but then the request carries
that name. A token is compared in constant time, read from a header alone, and never logged: of a
request the log has the method, the path without its query, the status and the time.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lshdb.serve.answers import ErrorAnswer

if TYPE_CHECKING:
    from lshdb.serve.request_counts import Metrics

__all__ = ["LOCAL_NAMES", "Guard", "Limits"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

_log = logging.getLogger("lshdb.serve")

_HEADERS = (
    (b"content-security-policy",
     b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
     b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server takes on.

    Attributes
    ----------
    body_bytes : int
        The longest body of a request.
    seconds : float
        The longest that a request may take to arrive, and its question to be answered.
    threads : int
        Questions that are worked on at once.
    waiting : int
        Questions that wait for a thread; the next is refused with status 503.
    """

    body_bytes: int = 16 * 2**20
    seconds: float = 30.0
    threads: int = 8
    waiting: int = 64


class _BodyError(Exception):
    """A body is longer than it may be, or did not arrive in time."""


class Guard:
    """An ASGI application that stands before another.

    Parameters
    ----------
    app : ASGI application
    token : str or None
        What ``Authorization`` must carry: ``Bearer TOKEN``, or as the password of ``Basic``.
    names : set of str
        Names in ``Host`` that are answered without a token.
    limits : Limits
    metrics : Metrics
    """

    def __init__(
        self,
        app: App,
        *,
        token: str | None,
        names: frozenset[str],
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self._app, self._names, self._limits, self._metrics = app, names, limits, metrics
        self._digest = None if token is None else _digest(token.encode())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        self._metrics.begin()
        try:
            await self._checked(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - begun
            self._metrics.end(_route(scope), scope["method"], status, seconds)
            _log.info(
                "%s %s %d %.1f ms",
                scope["method"],
                ascii(scope["path"])[1:-1],
                status,
                seconds * 1e3,
            )

    async def _checked(self, scope: Message, receive: Receive, answer: Send) -> None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(answer, *refusal)
            return
        body = _Body(receive, self._limits)
        has_begun = False

        async def once(message: Message) -> None:
            nonlocal has_begun
            if body.refusal is None or has_begun:
                has_begun = True
                await answer(message)

        with contextlib.suppress(_BodyError):
            await self._app(scope, body.receive, once)
        if body.refusal is not None and not has_begun:
            await _refuse(answer, *body.refusal)

    def _refusal(
        self, scope: Message, headers: dict[bytes, bytes]
    ) -> tuple[int, ErrorAnswer] | None:
        """Return why a request is not answered, from its head alone."""
        if self._digest is None:
            name = _host(headers.get(b"host", b""))
            if name not in self._names:
                return 421, ErrorAnswer(
                    error="UnknownHost",
                    message="this server does not answer under the name of this request",
                    hint="start it with --allow-host NAME, or with a token",
                )
        elif scope["path"] != "/health" and not self._is_known(headers.get(b"authorization", b"")):
            return 401, ErrorAnswer(
                error="Unauthorized",
                message="this server answers only with its token",
                hint="send the header 'Authorization: Bearer TOKEN'",
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            return 413, _too_large(self._limits)
        return None

    def _is_known(self, authorization: bytes) -> bool:
        """Return whether a header has the token; as slow for a wrong one as for the right one."""
        kind, _, given = authorization.partition(b" ")
        given = given.strip()
        if kind.lower() == b"basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(_digest(given), self._digest or b"")


class _Body:
    """The body of one request, of limited length and in limited time.

    Attributes
    ----------
    refusal : tuple or None
        Status and reason once a limit was passed. The application that reads the body may answer
        with an error of its own then, which is not sent.
    """

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive, self._limits, self._left = receive, limits, limits.body_bytes
        self._end, self._is_whole = asyncio.get_running_loop().time() + limits.seconds, False
        self.refusal: tuple[int, ErrorAnswer] | None = None

    async def receive(self) -> Message:
        """Return the next part.

        Raises
        ------
        _BodyError
        """
        if self._is_whole:  # what comes now is the end of the connection
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._end):
                message = await self._receive()
        except TimeoutError:
            self.refusal = (
                408,
                ErrorAnswer(
                    error="RequestTimeout",
                    message=f"the request did not arrive within {self._limits.seconds:g} seconds",
                ),
            )
            raise _BodyError from None
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.refusal = 413, _too_large(self._limits)
            raise _BodyError
        self._is_whole = not message.get("more_body", False)
        return message


def _too_large(limits: Limits) -> ErrorAnswer:
    return ErrorAnswer(
        error="BodyTooLarge",
        message=f"the body is longer than {limits.body_bytes:,} bytes",
        hint="send less, or start the server with a larger --max-body",
    )


def _digest(secret: bytes) -> bytes:
    """Return bytes of equal length for every secret, so that comparing them tells nothing."""
    return hashlib.sha256(secret).digest()


def _host(value: bytes) -> str:
    """Return the name in a header ``Host``, without the port."""
    name = value.decode("latin-1").strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _route(scope: Message) -> str:
    """Return the pattern of the route that answered, so that keys make no new labels."""
    path: str = getattr(scope.get("route"), "path", "")
    return path or "none"


async def _refuse(send: Send, status: int, reason: ErrorAnswer) -> None:
    body = reason.model_dump_json().encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="lshdb", charset="UTF-8"'))
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
