"""A way to a PostgreSQL that is cut where it is told: between any two messages, either way.

It listens on a Unix socket and hands on what the protocol calls messages, one by one: each a letter
and a length, but for a client's first. A cut closes both ends at once, as a server's crash, a
firewall or a network does; with ``stays_away`` nobody gets through any more until ``back``.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from tests.children.waiting import join_all
from tests.postgres import LIBPQ, SOCKET, PostgresUrl

__all__ = ["Cut", "Proxy"]

CLIENT, SERVER = "client", "server"


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the connection ends.

    Attributes
    ----------
    sender : {"client", "server"}
        Whose messages count.
    nth : int
        The message, counted over all connections from 1 on.
    is_sent : bool
        Whether it still arrives.
    stays_away : bool
        Whether the server is not to be had after that.
    saying : bytes
        Only messages that hold this count.
    """

    sender: str
    nth: int
    is_sent: bool
    stays_away: bool = False
    saying: bytes = b""


class Proxy:
    """Between clients and a server; a context manager.

    Parameters
    ----------
    url : PostgresUrl
        Of a server on a Unix socket.

    Attributes
    ----------
    counts : dict
        Messages of "client" and "server" since :meth:`arm`.
    happened : bool
        Whether the cut was made.
    """

    def __init__(self, url: PostgresUrl) -> None:
        folder = re.search(r"host=([^&]*)", url.psycopg)
        assert folder, "the server is not on a Unix socket"
        self._server = str(Path(unquote(folder[1])) / SOCKET)
        self._folder = tempfile.TemporaryDirectory(prefix="lshdb-proxy-")
        self._listener = socket.socket(socket.AF_UNIX)
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._guard = threading.RLock()
        self._is_away = False
        self._cut: Cut | None = None
        self.counts = {CLIENT: 0, SERVER: 0}
        self.happened = False

    @property
    def url(self) -> PostgresUrl:
        """The same database by this way."""
        folder = quote(self._folder.name, safe="/")
        return PostgresUrl(f"{LIBPQ}postgres@/postgres?host={folder}&port=5432")

    def __enter__(self) -> Proxy:
        self._listener.bind(str(Path(self._folder.name) / SOCKET))
        self._listener.listen(64)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        join_all([self._accepting])
        self._listener.close()
        self.cut_all()
        join_all(self._threads)
        self._folder.cleanup()

    def arm(self, cut: Cut | None) -> None:
        """Count from now on, and cut there; None for nowhere."""
        with self._guard:
            self.counts = {CLIENT: 0, SERVER: 0}
            self._cut = cut
            self.happened = self._is_away = False

    def back(self) -> None:
        """Let everybody through again."""
        self.arm(None)

    def cut_all(self) -> None:
        """Cut every connection now."""
        with self._guard:
            for pair in self._pairs:
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._guard:
                server = socket.socket(socket.AF_UNIX)
                try:
                    if self._is_away:
                        raise ConnectionRefusedError
                    server.connect(self._server)
                except OSError:
                    client.close()
                    server.close()
                    continue
                self._pairs.append((client, server))
            back = threading.Thread(target=self._hand_on, args=(server, client, SERVER))
            forth = threading.Thread(target=self._serve, args=(client, server, back))
            back.daemon = forth.daemon = True
            self._threads = [one for one in self._threads if one.is_alive()]
            for thread in (back, forth):
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket, server: socket.socket, back: threading.Thread) -> None:
        """Hand on what the client sends; in the end close both, when the other way has ended."""
        self._hand_on(client, server, CLIENT)
        join_all([back])
        with self._guard:
            if (client, server) in self._pairs:
                self._pairs.remove((client, server))
            client.close()
            server.close()

    def _hand_on(self, one: socket.socket, other: socket.socket, sender: str) -> None:
        try:
            for message in _messages(one, has_first=sender == CLIENT):
                if not self._passes(message, sender, other):
                    break
        except OSError:
            pass
        finally:
            for end in (one, other):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _passes(self, message: bytes, sender: str, other: socket.socket) -> bool:
        """Hand a message on, unless the way ends before it; whether it goes on after it."""
        with self._guard:
            cut = self._cut
            counts = cut is None or cut.saying in message
            if counts:
                self.counts[sender] += 1
            is_here = (
                cut is not None
                and counts
                and not self.happened
                and (cut.sender, cut.nth) == (sender, self.counts[sender])
            )
            if is_here and cut is not None:
                self.happened = True
                self._is_away = cut.stays_away
                if cut.is_sent:
                    other.sendall(message)
                self.cut_all()
                return False
        other.sendall(message)
        return True


def _messages(source: socket.socket, *, has_first: bool) -> Iterator[bytes]:
    """Whole messages, until the sender is gone."""
    held = b""
    head = 0 if has_first else 1
    while True:
        while len(held) >= head + 4:
            (length,) = struct.unpack_from("!I", held, head)
            if len(held) < head + length:
                break
            yield held[: head + length]
            held, head = held[head + length :], 1
        data = source.recv(1 << 16)
        if not data:
            return
        held += data
