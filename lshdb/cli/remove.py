"""``lshdb remove``: remove documents from an index."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from lshdb import Index
from lshdb.cli._command import Command, completed
from lshdb.cli._options import lock_option
from lshdb.cli._output import complain, note
from lshdb.documents import MAX_KEY_BYTES

__all__ = ["command"]

_MISSING_SHOWN = 10
_SOME_MISSING = 1
_LINE_BYTES = MAX_KEY_BYTES + len("\r\n")


@click.command("remove", cls=Command)
@click.argument("index_path", metavar="INDEX", shell_complete=completed("dir"))
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@lock_option
@click.pass_context
def command(
    ctx: click.Context, index_path: str, keys: tuple[str, ...], *, lock_timeout: float
) -> None:
    """Remove the documents of INDEX with these keys; - reads keys from standard input.

    Standard input has one key per line. The exit code is 1 if a key was not there; the others are
    removed anyway.
    """
    with Index.open(index_path) as index:
        result = index.remove(_keys(keys), lock_timeout=lock_timeout)
    note(f"{result.removed:,} removed")
    if result.missing:
        shown = ", ".join(map(repr, result.missing[:_MISSING_SHOWN]))
        more = len(result.missing) - _MISSING_SHOWN
        complain(
            f"{len(result.missing):,} of the keys have no document: {shown}"
            + (f" and {more:,} more" if more > 0 else "")
        )
        ctx.exit(_SOME_MISSING)


def _keys(given: tuple[str, ...]) -> Iterator[str]:
    for key in given:
        if key != "-":
            yield key
            continue
        lines = iter(lambda: sys.stdin.buffer.readline(_LINE_BYTES + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > _LINE_BYTES:
                raise click.UsageError(
                    f"line {number} of standard input is longer than any key ({MAX_KEY_BYTES:,} "
                    "bytes)"
                )
            try:
                text = line.rstrip(b"\r\n").decode("utf-8")
            except UnicodeDecodeError as error:
                raise click.UsageError(
                    f"line {number} of standard input is not valid UTF-8 at byte {error.start + 1}"
                ) from error
            if text:
                yield text
