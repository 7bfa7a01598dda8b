"""Run an ASGI application on a socket until a signal ends it."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

from lshdb.serve.client_connections import ClientConnection, close_overdue
from lshdb.serve.guard import Limits
from lshdb.threads import give_memory_back_at_once

__all__ = ["is_loopback", "run_server"]

_SWITCH_INTERVAL = 0.001
"""Seconds for which a thread that computes keeps the loop that listens from its turn."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run_server(
    application: Any,
    *,
    host: str,
    port: int,
    limits: Limits | None = None,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, and then finish the requests in progress.

    Parameters
    ----------
    application : ASGI application
        Answers the requests.
    host : str
        Name or address to listen on.
    port : int
        0 for any free one.
    limits : Limits, optional
        Those of the application: how many connections there may be, and for how long a request may
        arrive.
    on_start : callable, optional
        Called with the URL once connections are accepted.

    Raises
    ------
    OSError
        The address cannot be listened on.
    """
    limits = limits or Limits()
    give_memory_back_at_once()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    backlog = min(limits.connections, 1024)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=backlog) as place:
        # Connections inherit this. Without it, the second part of an answer waits 40 ms.
        place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound_port = place.getsockname()[1]
        name = f"[{host}]" if family == socket.AF_INET6 else host
        config = uvicorn.Config(
            application, access_log=False, log_config=None, log_level="error", server_header=False,
            http=functools.partial(ClientConnection, limits), ws="none",  # type: ignore[arg-type]
            backlog=backlog, timeout_graceful_shutdown=5,
        )  # fmt: skip
        server = _Server(config, on_start, f"http://{name}:{bound_port}")
        try:
            server.run(sockets=[place])
        except KeyboardInterrupt:
            if not server.should_exit:
                raise
            # the signal that ended the server, which it raises again once all is closed


class _Server(uvicorn.Server):
    """A server that says when it accepts connections."""

    def __init__(
        self, config: uvicorn.Config, on_start: Callable[[str], None] | None, url: str
    ) -> None:
        super().__init__(config)
        self._on_start, self._url = on_start, url

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: end connections whose clients are late."""
        close_overdue(self.server_state.connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started and self._on_start is not None:
            self._on_start(self._url)
