"""PgBouncer in front of a PostgreSQL of the tests, where it is installed.

It speaks by a socket in a folder of its own, as the server does, and ends with this process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

from tests.postgres import LIBPQ, PostgresServer, PostgresUrl, ServerError, process_account

__all__ = ["Pooler", "program"]

STARTING_SECONDS = 20
_CONFIGURATION = """
[databases]
postgres = host={server} port=5432 dbname=postgres user=postgres

[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
server_reset_query = DISCARD ALL
logfile = {folder}/log
"""


def program() -> str | None:
    """The path of PgBouncer, if it is installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


class Pooler:
    """A running PgBouncer.

    Parameters
    ----------
    server : PostgresServer
    mode : {"transaction", "session"}
    size : int
        Connections to the server.
    """

    def __init__(self, server: PostgresServer, mode: str, *, size: int = 1) -> None:
        path = program()
        if path is None:
            raise ServerError("there is no PgBouncer here")
        self._folder = Path(tempfile.mkdtemp(prefix="lshdb-"))
        self._folder.chmod(0o777)
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            _CONFIGURATION.format(
                server=server.directory, folder=self._folder, mode=mode, size=size
            )
        )
        self._process = subprocess.Popen(
            [path, "-q", configuration],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sys.stderr,
            **process_account(),
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> PostgresUrl:
        folder = quote(str(self._folder), safe="/")
        return PostgresUrl(f"{LIBPQ}postgres@/postgres?host={folder}&port=6432")

    def _wait(self) -> None:
        deadline = time.monotonic() + STARTING_SECONDS
        while True:
            try:
                psycopg.connect(self.url.psycopg).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    log = self._folder / "log"
                    said = log.read_text() if log.exists() else ""
                    raise ServerError(f"PgBouncer does not answer: {error}{said}") from error
            time.sleep(0.05)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
