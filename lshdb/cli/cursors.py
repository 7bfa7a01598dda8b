"""``lshdb cursors``: how far each reader of new pairs has come; setting and removing them.

Here is also what commands with ``--since @NAME --advance`` share. A cursor moves when the answer
has been delivered (``_delivery.py``): a reader that fails before, or that wanted less, gets the
same pairs again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from lshdb import Index
from lshdb.cli._command import option
from lshdb.cli._completion import complete_cursors
from lshdb.cli._delivery import output_delivered
from lshdb.cli._options import Command, index_argument, listing_options, lock_option
from lshdb.cli._output import Column, note, print_listing

if TYPE_CHECKING:
    from lshdb import TransientIndex

__all__ = ["advance_option", "advancing", "command", "cursor_named"]

COLUMNS = (
    Column("cursor"),
    Column("batch_id", "number", "seen up to batch"),
    Column("newest_batch", "number", "of"),
    Column("advanced_at", "number", "set (UTC)"),
)

BEGINNING = "start"


@click.command("cursors", cls=Command)
@index_argument
@click.argument("name", required=False, shell_complete=complete_cursors)
@option(
    "--set",
    "position",
    metavar="BATCH",
    help="Say which batch the cursor NAME has seen last: its number, start or now.",
)
@option("--remove", is_flag=True, help="Remove the cursor NAME.")
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
    empty = "no cursors" if name is None else f"no cursor {name!r}; lshdb cursors lists all"
    print_listing(COLUMNS, rows, output_format, empty=empty)


def _batch(position: str) -> int | None:
    if position == "now":
        return None
    if position == BEGINNING:
        return 0
    try:
        return int(position)
    except ValueError:
        raise click.UsageError(
            f"--set is {position!r}; expected a batch's number, {BEGINNING} or now",
            click.get_current_context(),
        ) from None


advance_option = option(
    "--advance",
    is_flag=True,
    help="With @NAME, move the cursor NAME once the whole answer is on disk, or has been "
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
    with output_delivered():
        yield answers.append
    for answer in answers:
        index.advance(name, answer, lock_timeout=lock_timeout)
