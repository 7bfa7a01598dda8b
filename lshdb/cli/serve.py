"""``lshdb serve``: answer questions over HTTP."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import click

from lshdb import Index, InputError, LshdbError, ParameterError, RecallWarning
from lshdb.cli._command import option
from lshdb.cli._options import Command, index_argument
from lshdb.cli._output import complain, flush_output, say
from lshdb.errors import install_command

__all__ = ["command"]

_TOKEN = "LSHDB_TOKEN"
_SHORTEST = 16


@click.command("serve", cls=Command)
@index_argument
@option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. Any but this machine's own needs a token.",
)
@option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 for any free one.",
)
@option(
    "--token-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Answer only requests with the token in this file.  [default: the environment variable "
    f"{_TOKEN}]",
)
@option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Without a token, also answer requests to this host name, as of a proxy. Repeatable.",
)
@option(
    "--threads",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="N",
    help="Answer this many questions at once.",
)
@option(
    "--timeout",
    type=click.FloatRange(min=0.001),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for a request to arrive, and for its answer.",
)
@option(
    "--max-body",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    metavar="MIB",
    help="Largest body of a request.",
)
def command(
    index_path: str,
    *,
    host: str,
    port: int,
    token_file: str | None,
    names: tuple[str, ...],
    threads: int,
    timeout: float,
    max_body: int,
) -> None:  # fmt: skip
    """Serve INDEX over HTTP, read-only, until you press Ctrl-C.

    Open the address in a browser to search, and to look at clusters, pairs and buckets. Programs
    get query, explain, clusters, documents and stats as JSON, /health, and /metrics for Prometheus;
    /openapi.json describes all of them. Others may write to the index meanwhile: each answer sees
    their last commit, and another index at the same path is opened. Needs the extra lshdb[serve].

    \b
    lshdb serve news.lshdb
    lshdb serve news.lshdb --port 9000
    lshdb serve news.lshdb --host 0.0.0.0 --token-file token.txt
    curl http://127.0.0.1:8080/api/query --json '{"text": "the council voted to close"}'
    LSHDB_TOKEN=$(cat token) lshdb serve news.lshdb --host 0.0.0.0
    """
    try:
        from lshdb.serve import Limits, is_loopback, make_application, run_server
    except ImportError as error:
        raise LshdbError(
            f"serving needs {error.name}, which is not installed", hint=install_command("serve")
        ) from error
    token = _token(token_file)
    if token is None and not is_loopback(host):
        raise ParameterError(
            f"{host} can be reached from other machines, and there is no token",
            hint="give --token-file FILE, or listen on 127.0.0.1 alone",
        )
    limits = Limits(body_bytes=max_body * 2**20, seconds=timeout, threads=threads)
    with Index.open(index_path) as index, warnings.catch_warnings(), _log_as_notes():
        warnings.simplefilter("ignore", RecallWarning)  # who asks is elsewhere
        application = make_application(index, token=token, names=names, limits=limits)
        try:
            run_server(
                application, host=host, port=port, limits=limits,
                on_start=lambda url: _announce(f"serving {index_path} at {url}"),
            )  # fmt: skip
        except OSError as error:
            raise LshdbError(
                f"cannot listen on {host}, port {port}: {error.strerror or error}",
                hint="choose another --port, or 0 for any free one",
            ) from error


def _token(path: str | None) -> str | None:
    """Return the token of a file or of the environment, if there is one.

    Raises
    ------
    InputError, ParameterError
        It cannot be read, or is easily guessed.
    """
    if path is None:
        token, where = os.environ.get(_TOKEN), f"the environment variable {_TOKEN}"
    else:
        where = path
        try:
            token = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise InputError(
                f"{path}: the token cannot be read: {reason}",
                hint="name a file with the token, which the server may read",
            ) from error
    if token is not None and len(token) < _SHORTEST:
        raise ParameterError(
            f"the token in {where} has {len(token)} characters, fewer than {_SHORTEST}",
            hint="make one: python -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return token


def _announce(line: str) -> None:
    say(line)
    flush_output()


@contextlib.contextmanager
def _log_as_notes() -> Iterator[None]:
    """Write errors of the server to standard error; ``-v`` also writes a line for each request."""

    class ServerNotes(logging.Handler):
        """Log records as lines of the command."""

        def emit(self, record: logging.LogRecord) -> None:
            complain(record.getMessage())

    logger, handler = logging.getLogger("lshdb.serve"), ServerNotes(logging.WARNING)
    if logger.isEnabledFor(logging.INFO):  # somebody writes all of it already
        yield
        return
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
