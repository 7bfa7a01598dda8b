"""``lshdb cursors``: how far each reader of new pairs has come; setting and removing them.

Here is also what commands with ``--since @NAME --advance`` share. A cursor moves when the answer
has been written to its end, and to disk if standard output is a file. If it is a pipe or a socket,
its reader must have taken everything and still be there a moment later: a reader that fails before,
or that wanted less, gets the same pairs again. What the reader does with them cannot be known.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import stat
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any

import click

from lshdb import Index, TransientIndex
from lshdb.cli._options import Command, index_argument, listing_options, lock_option
from lshdb.cli._output import Column, flush_output, note, print_listing
from lshdb.files.descriptors import sync_file

__all__ = ["advance_option", "advancing", "command", "cursor_named"]

COLUMNS = (
    Column("cursor"),
    Column("batch_id", "number", "seen up to batch"),
    Column("newest_batch", "number", "of"),
    Column("advanced_at", "number", "set (UTC)"),
)

BEGINNING = "start"
_POLL_MS = 20
_GOING_MS = 250
"""How long a reader that has taken everything may need to go away; most take a few."""


@click.command("cursors", cls=Command)
@index_argument
@click.argument("name", required=False)
@click.option(
    "--set",
    "position",
    metavar="BATCH",
    help="Set the cursor NAME to this batch, the newest that it has seen: a number, start or now.",
)
@click.option("--remove", is_flag=True, help="Remove the cursor NAME.")
@lock_option
@listing_options
def command(
    index_path: str,
    *,
    name: str | None,
    position: str | None,
    remove: bool,
    lock_timeout: float,
    output_format: str | None,
) -> None:
    """List the cursors of INDEX: how far each reader of new pairs has come.

    A cursor remembers the newest batch that a reader has seen. --since @NAME asks for what came
    later, and --advance moves the cursor once the answer has been written.

    \b
    lshdb pairs news.lshdb --since @press --advance > new.tsv
    lshdb cursors news.lshdb
    lshdb cursors news.lshdb press --set now
    """
    if (position is not None or remove) and name is None:
        raise click.UsageError("--set and --remove need the NAME of a cursor")
    if position is not None and remove:
        raise click.UsageError("give either --set or --remove")
    with Index.open(index_path) as index:
        if position is not None and name is not None:
            cursor = index.advance(name, _batch(position), lock_timeout=lock_timeout)
            note(f"the cursor {cursor.name} has seen everything up to batch {cursor.batch_id}")
            return
        if remove and name is not None:
            if not index.remove_cursor(name, lock_timeout=lock_timeout):
                raise click.UsageError(f"there is no cursor {name!r}; lshdb cursors lists them")
            note(f"the cursor {name} is removed")
            return
        batches = index.batches()
        newest = batches[-1].batch_id if batches else 0
        rows = [
            (cursor.name, cursor.batch_id, newest, cursor.advanced_at[:16])
            for cursor in index.cursors()
            if name in (None, cursor.name)
        ]
    print_listing(COLUMNS, rows, output_format, empty="no cursors")


def _batch(position: str) -> int | None:
    if position == "now":
        return None
    if position == BEGINNING:
        return 0
    try:
        return int(position)
    except ValueError:
        raise click.BadParameter(
            f"{position!r} is neither a batch's number nor {BEGINNING} or now"
        ) from None


advance_option = click.option(
    "--advance",
    is_flag=True,
    help="With @CURSOR: move the cursor when the whole answer is on disk, or has been "
    "read from a pipe. A new cursor begins with everything.",
)


def cursor_named(since: object, option: str = "--since") -> str:
    """Return the name of the cursor that ``--advance`` moves.

    Raises
    ------
    UsageError
        The option names none.
    """
    if not isinstance(since, str) or not since.startswith("@"):
        raise click.UsageError(f"--advance moves a cursor: name it with {option} @NAME")
    return since.removeprefix("@")


@contextlib.contextmanager
def advancing(
    index: Index | TransientIndex,
    since: object,
    *,
    advance: bool,
    lock_timeout: float = 60.0,
) -> Iterator[Callable[[Any], None]]:
    """Yield a function that takes the answer; the cursor moves if the block ends without an error.

    Raises
    ------
    UsageError
        ``--advance`` without a cursor.
    """
    answers: list[Any] = []
    if not advance or not isinstance(index, Index):
        yield answers.append
        return
    name = cursor_named(since)
    if name not in {cursor.name for cursor in index.cursors()}:
        index.advance(name, 0, lock_timeout=lock_timeout)
        note(f"the cursor {name} is new and begins with everything")
    yield answers.append
    flush_output()
    _deliver_output()
    for answer in answers:
        index.advance(name, answer, lock_timeout=lock_timeout)


def _deliver_output() -> None:
    """Bring the answer to disk or to its reader: sync a file, wait until a pipe has been read.

    Raises
    ------
    OSError
        The disk is full or failed, or the reader has closed the pipe.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (ValueError, AttributeError, OSError):  # closed, or not a file of the system
        return
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        sync_file(descriptor)
    elif stat.S_ISFIFO(mode):
        _wait_for_reader(descriptor, termios.FIONREAD)
    elif stat.S_ISSOCK(mode):
        _wait_for_reader(descriptor, termios.TIOCOUTQ)


def _wait_for_reader(descriptor: int, count: int) -> None:
    """Wait until nothing is left in a pipe or socket, and then see whether its reader goes away.

    ``head -n 1`` may take all of a short answer, and pass on one line of it. But it ends then,
    while others wait for the end of the answer.

    Parameters
    ----------
    descriptor : int
    count : int
        The request by which the system counts the bytes that are left.

    Raises
    ------
    BrokenPipeError
        The reader has closed it.
    """
    reader = select.poll()
    reader.register(descriptor, 0)  # closing alone is reported
    while True:
        is_left = _bytes_left(descriptor, count) > 0
        if reader.poll(_POLL_MS if is_left else _GOING_MS):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if not is_left:
            return


def _bytes_left(descriptor: int, count: int) -> int:
    """Return the bytes that nobody has read; 0 if the system does not count them."""
    try:
        left = fcntl.ioctl(descriptor, count, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(left, sys.byteorder)
