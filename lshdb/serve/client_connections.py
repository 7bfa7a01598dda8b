"""One connection: how long its next request may take, and when it is closed to make room.

uvicorn's connection waits for ever for the rest of a head, and for a client that takes no answer.
A few hundred sockets that send half a line would keep everybody out. Here a request must arrive
within the time that it may take, and a client must go on taking its answer. Where all connections
are taken, those whose clients have gone make room, and then the one that has waited longest for a
request, or is taking its answer. A request that lies unread at the socket, because the server is
slow to come to it, is not late.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import socket
import sys
import termios
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from lshdb.serve.guard import Limits

__all__ = ["ClientConnection", "close_overdue"]

_SETTLED = 0.2
"""Seconds after which a connection makes room: its client has had time to send a request."""

_GRACE = 1.0
"""Seconds after which a body that is late is cut off here; the guard answers before."""


def _plain_answer(status: str, message: str) -> bytes:
    """Return the bytes of an answer after which the connection ends."""
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(message) + 1}\r\nconnection: close\r\n\r\n{message}\n"
    ).encode()


_LATE = _plain_answer("408 Request Timeout", "The request did not arrive yet.")
_LONG_ADDRESS = _plain_answer(
    "414 URI Too Long",
    "The address of this request is longer than 65,536 bytes. Send the text as a body: by POST to "
    "/api/query, or by the second button of the search, which needs no script.",
)
_LONG_HEAD = _plain_answer(
    "431 Request Header Fields Too Large", "The head of this request is longer than 65,536 bytes."
)
_HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class ClientConnection(H11Protocol):
    """A connection that ends when its client is late.

    Parameters
    ----------
    limits : Limits
        Number of connections, and how long each may wait.
    *args, **options
        Of uvicorn.
    """

    def __init__(self, limits: Limits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._since = self._taken_at = self.loop.time()
        self._has_begun = self._is_refused = False
        self._unsent = 0

    def connection_made(self, transport: Any) -> None:
        """Close connections that wait if there are too many."""
        super().connection_made(transport)
        n_over = len(self.connections) - self._limits.connections
        if n_over > 0:
            now = self.loop.time()
            least = 0.0 if n_over > self._limits.connections else _SETTLED
            candidates = [
                connection
                for connection in self.connections
                if isinstance(connection, ClientConnection)
                and connection is not self
                and connection.may_make_room
                and now - connection._since >= least
            ]
            candidates.sort(
                key=lambda connection: (
                    not connection.has_hung_up(), connection.is_arriving, connection._since
                )
            )  # fmt: skip
            for connection in candidates[:n_over]:
                connection.cut()

    def data_received(self, data: bytes) -> None:
        """Note when a request begins to arrive; pass over the rest of one that was refused."""
        if self._is_refused:
            return
        if not self._has_begun and self.conn.their_state is h11.IDLE:
            self._has_begun, self._since = True, self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._has_begun, self._since = False, self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that a request is not HTTP, or that its head is too long, if no answer has begun."""
        error = sys.exc_info()[1]
        if getattr(error, "error_status_hint", 0) == 431 and self.conn.our_state is h11.IDLE:
            is_address = b"\n" not in self.conn.trailing_data[0]
            self.transport.write(_LONG_ADDRESS if is_address else _LONG_HEAD)
            self.transport.write_eof()
            self._is_refused = True  # closed now, what is on its way would take the answer along
            return
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.cut()

    @property
    def is_arriving(self) -> bool:
        """Whether the head has arrived, and the body has not."""
        return self.conn.their_state is h11.SEND_BODY

    @property
    def is_asking(self) -> bool:
        """Whether a request has arrived, or arrives, and no answer to it has begun."""
        return self.cycle is not None and not self.cycle.response_started

    @property
    def may_make_room(self) -> bool:
        """Whether no whole request waits for its answer, and none waits to be read."""
        return self.is_arriving or not (self.is_asking or self._has_unread_request())

    def cut(self) -> None:
        """End the connection at once, even if an answer has not been sent yet."""
        self.transport.abort()

    def close_if_overdue(self, now: float) -> None:
        """End the connection if the client is late, takes nothing, or has gone."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent or not unsent:  # more is written only when some was taken
            self._taken_at = now
        self._unsent = unsent
        waited = now - self._since
        if self.conn.their_state is h11.IDLE and waited > self._limits.seconds and not unsent:
            if self._has_unread_request():
                return
            if self._has_begun and not self.transport.is_closing():
                self.transport.write(_LATE)
            self.transport.close()
        elif (
            (self.is_arriving and waited > self._limits.seconds + _GRACE)
            or (self._is_refused and waited > self._limits.seconds)
            or now - self._taken_at > self._limits.seconds
            or (self.is_asking and not self.transport.is_reading() and self.has_hung_up())
        ):
            self.cut()

    def has_hung_up(self) -> bool:
        """Return whether the client sends no more, though the loop may not have seen it."""
        if (descriptor := self._descriptor()) is None:
            return False
        poll = select.poll()
        poll.register(descriptor, _HUNG_UP)
        return bool(poll.poll(0))

    def _has_unread_request(self) -> bool:
        """Return whether bytes of the next request have come that the loop has not read."""
        descriptor = self._descriptor()
        if descriptor is None or self.conn.their_state is not h11.IDLE:
            return False
        with contextlib.suppress(OSError):
            n_bytes = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
            return int.from_bytes(n_bytes, sys.byteorder) > 0
        return False

    def _descriptor(self) -> int | None:
        """Return the socket's descriptor, ``None`` if the connection is closed already."""
        place: socket.socket | None = self.transport.get_extra_info("socket")
        if place is None or self.transport.is_closing() or place.fileno() < 0:
            return None
        return place.fileno()


def close_overdue(connections: Iterable[object], now: float) -> None:
    """End those connections whose clients are late.

    Parameters
    ----------
    connections : iterable of ClientConnection
        Open connections of the server.
    now : float
        The event loop's time.
    """
    for connection in list(connections):
        if isinstance(connection, ClientConnection):
            with contextlib.suppress(OSError):
                connection.close_if_overdue(now)
