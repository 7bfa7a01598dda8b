"""Check each request before its route: who asks and how much is sent. Count and log it.

Decided: without a token only names of this machine are answered. A page of another site can make
your browser ask ``localhost`` by pointing a name of its own there, but then the request carries
that name. A browser also says from which site a request comes; what another site makes it ask is
refused, with a token too, because a browser sends a password that it knows along. Only a link to a
page works from elsewhere. A token is compared in constant time, read from a header alone, and never
logged: of a request the log has the method, the path without its query, the status and the time.

A body is read here, before the application is asked, and the application is cancelled when the
client goes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lshdb.errors import ParameterError
from lshdb.serve.answers import ErrorAnswer

if TYPE_CHECKING:
    from lshdb.serve.request_counts import Metrics

__all__ = ["Guard", "Limits", "answered_names"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Coroutine[Any, Any, None]]

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_NAME = re.compile(rb"[\w-][\w.-]*")

_log = logging.getLogger("lshdb.serve")

_HEADERS = (
    (b"content-security-policy",
     b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
     b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # without one, a browser calls its own form foreign
)  # fmt: skip
_NO_STORE = (b"cache-control", b"no-store")
"""Of every answer with what the index holds; style and script say how long they may be kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server.

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
    connections : int
        Connections at once. For the next, one is closed that waits for a request.
    """

    body_bytes: int = 16 * 2**20
    seconds: float = 30.0
    threads: int = 8
    waiting: int = 64
    connections: int = 256

    @property
    def all_bodies_bytes(self) -> int:
        """Bytes of all longer bodies at once; the next one is refused with status 503."""
        return self.threads * self.body_bytes


_SHORT_BODY = 2**16
"""Bytes of a body that is always read: a few long ones keep nobody from asking."""

_PIECE = 2**18
"""Bytes of an answer that are handed over at once, so that a long one holds up no other."""

LONGEST_ADDRESS = 2**16
"""Bytes of a path and its query; a connection may refuse a longer one before it is here."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_PAGES = ("/api/", "/assets/", "/health", "/metrics", "/openapi.json")


class _RefusedError(Exception):
    """The request is refused.

    Attributes
    ----------
    status : int
        HTTP status code.
    answer : ErrorAnswer
        Body of the response.
    """

    def __init__(self, status: int, error: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.answer = status, ErrorAnswer(error=error, message=message, hint=hint)


class _GoneError(Exception):
    """The client has closed the connection."""


class Guard:
    """An ASGI application that wraps another.

    Parameters
    ----------
    app : ASGI application
        The application that answers what passes.
    token : str or None
        What ``Authorization`` must carry: ``Bearer TOKEN``, or as the password of ``Basic``.
    names : set of str
        Names in ``Host`` that are answered without a token.
    limits : Limits
        Sizes and times that a request must keep to.
    metrics : Metrics
        Counts requests as they begin and end.
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
        self._bodies_bytes = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), *_HEADERS]
                if all(name != b"cache-control" for name, _ in headers):
                    headers.append(_NO_STORE)
                message["headers"] = headers
            body = message.get("body", b"")
            if len(body) <= _PIECE:
                await send(message)
                return
            for start in range(0, len(body), _PIECE):  # waits until the client has taken the last
                piece = body[start : start + _PIECE]
                has_more = start + _PIECE < len(body) or message.get("more_body", False)
                await send({**message, "body": piece, "more_body": has_more})
                await asyncio.sleep(0)

        # The server leaves out the body of an answer to HEAD.
        routed = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        self._metrics.begin()
        try:
            await self._checked(routed, receive, answer)
        except _GoneError:
            status = 499  # as nginx counts them
        except _RefusedError as refusal:
            await _refuse(answer, refusal)
        finally:
            seconds = time.perf_counter() - start
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.end(_route(routed), method, status, seconds)
            _log.info(
                "%s %s %d %.1f ms",
                scope["method"],
                ascii(scope["path"])[1:-1],
                status,
                seconds * 1e3,
            )

    async def _checked(self, scope: Message, receive: Receive, answer: Send) -> None:
        """Answer a request.

        Raises
        ------
        _RefusedError
        _GoneError
            The client went before the answer was complete.
        """
        headers = {name.lower(): value for name, value in scope["headers"]}
        self._check_head(scope, headers)
        body = await self._read(receive)
        try:
            await self._answer(scope, body, receive, answer)
        finally:
            self._bodies_bytes -= _counted(len(body))

    async def _answer(self, scope: Message, body: bytes, receive: Receive, answer: Send) -> None:
        """Let the application answer, until the client goes."""
        is_read = is_complete = False
        gone = asyncio.create_task(_gone(receive))

        async def send(message: Message) -> None:
            nonlocal is_complete
            is_complete = message["type"] == "http.response.body" and not message.get("more_body")
            await answer(message)

        async def receive_body() -> Message:
            nonlocal is_read
            if is_read:
                await asyncio.wait([gone])
                return {"type": "http.disconnect"}
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        task = asyncio.create_task(self._app(scope, receive_body, send))
        try:
            await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not is_complete:
                task.cancel()
                await asyncio.wait([task])
            if task.cancelled():
                raise _GoneError
            await task
        finally:
            task.cancel()
            gone.cancel()

    def _check_head(self, scope: Message, headers: dict[bytes, bytes]) -> None:
        """Refuse a request by its head alone.

        Raises
        ------
        _RefusedError
        """
        if self._digest is None:
            name = _host(headers.get(b"host", b""))
            if name not in self._names:
                raise _RefusedError(
                    421,
                    "UnknownHost",
                    "this server does not answer under the name of this request",
                    "start it with --allow-host NAME, or with a token",
                )
        if self._is_foreign(headers) and not _is_link(scope, headers):
            raise _RefusedError(
                403,
                "ForeignOrigin",
                "a page of another site made this request",
                "other sites may only link to pages; if this is your own, behind a proxy, start "
                "the server with --allow-host NAME",
            )
        if (
            self._digest is not None
            and scope["path"] != "/health"
            and not self._is_known(headers.get(b"authorization", b""))
        ):
            raise _RefusedError(
                401,
                "Unauthorized",
                "this server answers only with its token",
                "send the header 'Authorization: Bearer TOKEN'",
            )
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_ADDRESS:
            raise _RefusedError(
                414,
                "AddressTooLong",
                f"the address of this request is longer than {LONGEST_ADDRESS:,} bytes",
                "send the text as a body: by POST to /api/query, or by the second button of the "
                "search, which needs no script",
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > self._limits.body_bytes:
            raise _too_large(self._limits)
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise _RefusedError(
                415,
                "UnsupportedType",
                "the body is compressed",
                "send it without Content-Encoding",
            )

    def _is_foreign(self, headers: dict[bytes, bytes]) -> bool:
        """Return whether a browser sent the request for a page of another site.

        A page of another port of this machine is another site, too. Programs other than browsers
        send neither header.
        """
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
        if site is not None:
            return site.strip().lower() not in (b"same-origin", b"none")
        if origin is None:
            return False
        scheme, _, place = origin.strip().lower().partition(b"://")
        if _host(place) in self._names - LOCAL_NAMES:
            return False
        port = {b"http": b":80", b"https": b":443"}.get(scheme, b"none")
        host = headers.get(b"host", b"").strip().lower()
        return not place or place.removesuffix(port) != host.removesuffix(port)

    async def _read(self, receive: Receive) -> bytes:
        """Read the body of a request.

        Raises
        ------
        _RefusedError
            It is too long, too late, or too much with those of others.
        _GoneError
        """
        limits = self._limits
        pieces: list[bytes] = []
        n_bytes, is_whole = 0, False
        try:
            async with asyncio.timeout(limits.seconds):
                while not is_whole:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _GoneError
                    pieces.append(message.get("body", b""))
                    is_whole = not message.get("more_body", False)
                    before, n_bytes = n_bytes, n_bytes + len(pieces[-1])
                    self._bodies_bytes += _counted(n_bytes) - _counted(before)
                    if n_bytes > limits.body_bytes:
                        raise _too_large(limits)
                    if _counted(n_bytes) and self._bodies_bytes > limits.all_bodies_bytes:
                        raise _RefusedError(
                            503, "Busy", "too many long requests are being read", "ask again"
                        )
            return b"".join(pieces)
        except BaseException as error:
            self._bodies_bytes -= _counted(n_bytes)
            if not isinstance(error, TimeoutError):
                raise
            message_ = f"the request did not arrive within {limits.seconds:g} seconds"
            raise _RefusedError(408, "RequestTimeout", message_) from None

    def _is_known(self, authorization: bytes) -> bool:
        """Return whether a header has the token; as slow for a wrong one as for the right one."""
        kind, _, token = authorization.partition(b" ")
        token = token.strip()
        if kind.lower() == b"basic":
            try:
                token = base64.b64decode(token, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif kind.lower() != b"bearer":
            return False
        return hmac.compare_digest(_digest(token), self._digest or b"")


async def _gone(receive: Receive) -> None:
    """Return when the connection of a request that has been read has ended."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _counted(n_bytes: int) -> int:
    """Return the bytes of a body that count towards the limit for longer bodies."""
    return n_bytes if n_bytes > _SHORT_BODY else 0


def _is_link(scope: Message, headers: dict[bytes, bytes]) -> bool:
    """Return whether a request can come from following a link to a page."""
    return (
        scope["method"] == "GET"
        and not scope["path"].startswith(_NO_PAGES)
        and headers.get(b"sec-fetch-mode", b"navigate") == b"navigate"
        and headers.get(b"sec-fetch-dest", b"document") == b"document"
    )


def _too_large(limits: Limits) -> _RefusedError:
    return _RefusedError(
        413,
        "BodyTooLarge",
        f"the body is longer than {limits.body_bytes:,} bytes",
        "send less, or start the server with a larger --max-body",
    )


def _digest(secret: bytes) -> bytes:
    """Return bytes of equal length for every secret, so that comparing them tells nothing."""
    return hashlib.sha256(secret).digest()


def answered_names(names: Iterable[str]) -> frozenset[str]:
    """Return the host names that are answered without a token, written as `_host` reads them.

    Raises
    ------
    ParameterError
        One is more or less than a name, such as a URL: no request would ever carry it.
    """
    return LOCAL_NAMES.union(map(_answered_name, names))


def _answered_name(name: str) -> str:
    header = name.encode("ascii", "replace")
    if _NAME.fullmatch(header):
        return _host(header)
    with contextlib.suppress(ValueError):
        return str(ipaddress.IPv6Address(name.removeprefix("[").removesuffix("]")))
    raise ParameterError(
        f"{name!r} is not a host name",
        hint="give the name alone, such as near.example, without scheme, port and path; letters "
        "beyond ASCII are written as xn--...",
    )


def _host(value: bytes) -> str:
    """Return the name in a header ``Host``, without the port."""
    name = value.decode("latin-1").strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _route(scope: Message) -> str:
    """Return the pattern of the route that answered, so that keys make no new labels."""
    path: str = getattr(scope.get("route"), "path", "")
    return re.sub(r":\w+}", "}", path) or "none"


async def _refuse(send: Send, refusal: _RefusedError) -> None:
    body = refusal.answer.model_dump_json().encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="lshdb", charset="UTF-8"'))
    if refusal.status == 503:
        headers.append((b"retry-after", b"1"))
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
