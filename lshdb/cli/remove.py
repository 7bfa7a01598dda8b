"""``lshdb remove``: remove documents from an index."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

import click

from lshdb import Index
from lshdb.cli._command import Argument, Command, complete_folders, option
from lshdb.cli._options import lock_option
from lshdb.cli._output import complain, note
from lshdb.cli._words import counted
from lshdb.documents.document import MAX_KEY_BYTES
from lshdb.documents.written_keys import (
    LONGEST_KEY_LINES,
    json_key,
    unescaped,
)

__all__ = ["command"]

_MISSING_SHOWN = 10
_SOME_MISSING = 1
_KEPT = re.compile(rb'"decision":\s*"keep"')


@click.command("remove", cls=Command)
@click.argument(
    "index_path",
    metavar="INDEX",
    cls=Argument,
    missing="the folder of an index, such as news.lshdb",
    shell_complete=complete_folders,
)
@click.argument(
    "keys",
    metavar="KEY...",
    nargs=-1,
    required=True,
    cls=Argument,
    missing="keys of documents, or - to read them from standard input",
)
@option(
    "--input",
    "input_format",
    type=click.Choice(("tsv", "jsonl", "lines")),
    metavar="FORMAT",
    default="tsv",
    show_default=True,
    help="What a line of standard input is: {choices}. tsv is a key with a backslash as \\\\ and a "
    "tab, line feed or carriage return as \\t, \\n or \\r; jsonl a JSON string or an object with "
    "key; lines a key as it stands.",
)
@lock_option
@click.pass_context
def command(
    ctx: click.Context,
    index_path: str,
    keys: tuple[str, ...],
    *,
    input_format: str,
    lock_timeout: float,
) -> None:
    """Remove the documents of INDEX with these keys; - reads keys from standard input.

    Standard input has one key per line, as listings write it. The exit code is 1 if a key was not
    there; the others are removed anyway.

    \b
    lshdb remove news.lshdb article-17 article-18
    lshdb dedup news.lshdb --only drop | cut -f1 | lshdb remove news.lshdb -
    lshdb dedup news.lshdb --only drop --format jsonl | lshdb remove news.lshdb - --input jsonl
    """
    with Index.open(index_path) as index:
        result = index.remove(_keys(keys, input_format), lock_timeout=lock_timeout)
    note(f"{result.removed:,} removed")
    if result.missing:
        shown = ", ".join(map(repr, result.missing[:_MISSING_SHOWN]))
        more = len(result.missing) - _MISSING_SHOWN
        complain(
            f"{counted(len(result.missing), 'key has', 'keys have')} no document: {shown}"
            + (f" and {more:,} more" if more > 0 else "")
        )
        ctx.exit(_SOME_MISSING)


def _keys(arguments: tuple[str, ...], input_format: str) -> Iterator[str]:
    read, longest = _READERS[input_format], LONGEST_KEY_LINES[input_format] + len("\r\n")
    for key in arguments:
        if key != "-":
            yield key
            continue
        lines = iter(lambda: sys.stdin.buffer.readline(longest + 1), b"")
        for number, line in enumerate(lines, start=1):
            where = f"line {number} of standard input"
            if len(line) > longest:
                raise click.UsageError(f"{where} is longer than any key ({MAX_KEY_BYTES:,} bytes)")
            try:
                text = read(line.rstrip(b"\r\n"))
            except UnicodeDecodeError as error:
                raise click.UsageError(
                    f"{where} is not valid UTF-8 at byte {error.start + 1}"
                ) from error
            except ValueError as error:
                raise click.UsageError(f"{where}: {error}") from error
            if text:
                yield text


def _listed_key(line: bytes) -> str:
    if b"\t" in line:
        raise ValueError("it has several cells; give keys alone, as by cut -f1")
    try:
        return unescaped(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise ValueError(f"{error}, or give --input lines for keys as they stand") from None


def _json_key(line: bytes) -> str:
    if _KEPT.search(line):
        raise ValueError("it is about a document that is kept; list the others by --only drop")
    return json_key(line) if line.strip() else ""


_READERS: dict[str, Callable[[bytes], str]] = {
    "tsv": _listed_key,
    "jsonl": _json_key,
    "lines": bytes.decode,
}
