"""Listen: an ASGI application -> a server on a socket, until it is told to end."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

__all__ = ["is_loopback", "run_server"]


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone."""
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
    connections: int = 256,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests that are being answered are finished first.

    Parameters
    ----------
    application : ASGI application
    host : str
    port : int
        0 for any free one.
    connections : int
        Connections at once; a request on any further one is answered with status 503.
    on_start : callable, optional
        Called with the URL once connections are accepted.

    Raises
    ------
    OSError
        The address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=min(connections, 1024)) as place:
        # Connections inherit this. Without it, the second part of an answer waits 40 ms.
        place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken = place.getsockname()[1]
        name = f"[{host}]" if family == socket.AF_INET6 else host
        config = uvicorn.Config(
            application, access_log=False, log_config=None, server_header=False,
            limit_concurrency=connections, timeout_graceful_shutdown=5,
        )  # fmt: skip
        server = _Server(config, on_start, f"http://{name}:{taken}")
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started and self._on_start is not None:
            self._on_start(self._url)
