"""Everything that the command line writes goes through here.

Data goes to standard output as UTF-8 bytes whatever the locale; a table takes the terminal's
encoding. Notes go to standard error, one line each, without anything that a terminal would act on.

Decided: a listing is a stream in every format, and memory does not grow with its rows; Parquet is
written in row groups. With ``--output`` a file gets its name when it is whole. Output is written in
pieces, at least five times a second while rows come, so that ``| head`` answers at once and a
million rows are not a million writes. A row ``None`` means that nothing more is ready for now: what
is buffered is written.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

import click

from lshdb import LshdbError
from lshdb.cli._cells import (
    csv_line,
    harmless,
    harmless_json,
    json_line,
    text_of,
    tsv_line,
    tsv_lines,
    tsv_pattern,
)
from lshdb.cli._column import Column
from lshdb.cli._delivery import delivered, end_answer, named_output
from lshdb.cli._status import erase, status_line
from lshdb.errors import hide_credentials, install_command
from lshdb.phases.bars import Share
from lshdb.phases.phase import telling

__all__ = [
    "FORMATS",
    "Blocks",
    "Column",
    "RowBlock",
    "agrees",
    "be_quiet",
    "chosen_format",
    "complain",
    "discard_output",
    "flush_output",
    "is_page_named",
    "is_quiet",
    "is_terminal",
    "is_written_to_file",
    "lines_of",
    "named_place",
    "note",
    "one_by_one",
    "print_bytes",
    "print_drawn",
    "print_listing",
    "print_record",
    "say",
    "show_page",
    "table_width",
    "tsv_file",
    "working",
    "write_header",
    "write_to",
    "write_to_either",
]

FORMATS = ("table", "tsv", "csv", "jsonl", "json", "parquet")

_QUIET, _HEADER, _NAMED = "lshdb.quiet", "lshdb.header", "lshdb.named"
_TO, _FILE = "lshdb.to", "lshdb.file"
"""What the options of a command line say about its output, in the context of click."""
_FORMAT_OF_ENDING = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".json": "json", ".parquet": "parquet", ".txt": "table",
}  # fmt: skip
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_PAGES = (".html", ".htm")
_SECONDS = 0.2
_PIECES = 500
_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows as columns of texts and numbers; a column of one value may be endless.

    Attributes
    ----------
    columns : sequence of iterables
        In the order of the columns of the listing; those of kind similarity hold floats, the others
        texts or whole numbers.
    n_rows : int
        Rows of the block; an endless column has as many.
    """

    columns: Sequence[Iterable[Any]]
    n_rows: int


Rows = Iterable[Sequence[Any] | None]
Blocks = Iterable[Sequence[Any] | RowBlock | None]


# Standard error


def be_quiet(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    """Write no notes until the command of this context ends, if the option is set."""
    if is_set:
        ctx.meta[_QUIET] = True


def is_quiet() -> bool:
    """Return whether notes and progress are switched off."""
    return _asked_for(_QUIET) is not None


def write_to(
    ctx: click.Context,
    _param: click.Parameter | None,
    path: str | None,
    *,
    formats: Sequence[str] = FORMATS,
) -> None:
    """Write listings to a file instead of standard output; - is standard output.

    Parameters
    ----------
    ctx : click.Context
        Its end closes the file. Its ``output_format`` is the format that is asked for by name.
    path : str or None
        An ending such as ``.csv`` says the format, and one such as ``.gz`` after it how to
        compress.
    formats : sequence of str
        Those that can be written; ``html`` may be one.

    Raises
    ------
    click.UsageError
        The name asks for a format that cannot be written.
    LshdbError, OSError
        No file can be written there.
    """
    if path is None:
        return
    ctx.meta[_NAMED] = path
    # Opened by its name, a file that the shell opened would begin anew.
    if path in _STANDARD_OUTPUT:
        return
    if not _is_stream(path):
        from lshdb.files.whole_files import check_file_place

        check_file_place(path, overwrite=True)
        if os.path.exists(os.path.join(os.path.dirname(path), "index.toml")):
            raise click.UsageError(f"{path} is inside an index; name a file elsewhere", ctx)
    _check_endings(ctx, path, ctx.params.get("output_format"), formats)
    ctx.meta[_TO] = path


def write_to_either(
    ctx: click.Context, param: click.Parameter | None, path: str | None, *, formats: Sequence[str]
) -> str | None:
    """Return a path that names a folder; write listings to any other, as :func:`write_to`."""
    if path is None or path in _STANDARD_OUTPUT or ("://" not in path and _is_named_file(path)):
        write_to(ctx, param, path, formats=formats)
        return None
    return path


def _is_named_file(path: str) -> bool:
    if path.endswith("/") or os.path.isdir(path):
        return False
    return bool(_endings(path)[0]) or os.path.exists(path)


def _check_endings(
    ctx: click.Context, path: str, output_format: str | None, formats: Sequence[str]
) -> None:
    ending, compression = _endings(path)
    if ending in _PAGES:
        named: str | None = "html"
    else:
        named = _FORMAT_OF_ENDING.get(ending)
    if compression and "parquet" in (named, output_format):
        raise click.UsageError(
            f"{path}: Parquet is compressed inside, so no reader expects it in .{compression}; "
            "leave that ending out",
            ctx,
        )
    if output_format is not None or named in formats or not re.match(r"\.[a-z]", ending):
        return
    first = {
        name: ending for ending, name in reversed(_FORMAT_OF_ENDING.items()) if name in formats
    }
    endings = [first[name] for name in formats if name in first]
    expected = f"{', '.join(endings[:-1])} or {endings[-1]}" if len(endings) > 1 else endings[0]
    raise click.UsageError(
        f"{path}: a {ending} file is not written; give a name that ends in {expected}"
        + (", or a --format" if len(endings) > 1 else "")
        + ("; a spreadsheet opens .csv" if ending in _SPREADSHEETS and "csv" in formats else ""),
        ctx,
    )


def lines_of(output_format: str) -> Callable[..., str | None]:
    """Return the callback of an option that names a file of lines in one format."""

    def check(ctx: click.Context, _param: click.Parameter, path: str | None) -> str | None:
        if path is None or path == "-":
            return path
        if _endings(path)[0] not in (".txt", ".log", ".json"):
            _check_endings(ctx, path, None, (output_format,))
        if compression := _endings(path)[1]:
            raise click.UsageError(
                f"{path}: this file is not compressed; leave out .{compression}", ctx
            )
        return path

    return check


def _endings(path: str) -> tuple[str, str]:
    """Return the endings of a name for format and compression; empty if there is none."""
    stem, ending = os.path.splitext(path.lower())
    compression = ending.removeprefix(".") if ending in (".gz", ".zst", ".xz", ".bz2") else ""
    return (os.path.splitext(stem)[1], compression) if compression else (ending, "")


def is_page_named() -> bool:
    """Return whether the file for listings is named like a page of HTML."""
    return is_written_to_file() and _endings(_asked_for(_TO))[0] in _PAGES


def is_written_to_file() -> bool:
    """Return whether listings go to a file."""
    return _asked_for(_TO) is not None


def named_place() -> str | None:
    """Return the file for listings that the command line names; - is standard output."""
    place: str | None = _asked_for(_NAMED)
    return place


def write_header(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    """Begin TSV with a line of names, if the option is set."""
    if is_set:
        ctx.meta[_HEADER] = True


def note(text: str) -> None:
    """Write one line to standard error, unless ``-q`` was given."""
    if not is_quiet():
        complain(text)


def complain(text: str) -> None:
    """Write one line to standard error, about an error or what was rejected; also with ``-q``."""
    erase()
    if sys.stderr is not None:
        sys.stderr.write(harmless(hide_credentials(text)) + "\n")
        sys.stderr.flush()


@contextlib.contextmanager
def working(words: str, count: Callable[[], str] | None = None) -> Iterator[None]:
    """Show on a terminal what is being done, after a second; nothing with ``-q``."""
    if is_terminal(sys.stderr) and not is_quiet():
        share = Share()

        def so_far() -> str:
            return ", ".join(filter(None, (count() if count is not None else "", share.words)))

        with status_line(words, so_far), telling(share):
            yield
    else:
        yield


def agrees(question: Callable[[], str]) -> bool:
    """Ask somebody at a terminal, unless there is nothing to ask; elsewhere nobody waits."""
    if not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
        return True
    text = question()
    return not text or click.confirm(harmless(text), err=True)


# Standard output


def say(text: str = "") -> None:
    """Write one line to standard output."""
    _write((text + "\n").encode(_encoding(), "replace"))


def print_bytes(pieces: Iterable[bytes]) -> None:
    """Write bytes as they are, also to a terminal: they are the user's file."""
    with _to_file():
        _write_all(pieces)


def print_listing(
    columns: Sequence[Column],
    rows: Blocks,
    output_format: str | None,
    *,
    empty: str = "",
    count: tuple[str, str] | None = None,
    says_count: bool = False,
) -> int:
    """Write rows as they come.

    Parameters
    ----------
    columns : sequence of Column
        Names and kinds of the cells of a row.
    rows : iterable of sequences, of RowBlock, or of None
        Values in the order of the columns; a block holds many rows, and is written faster.
    output_format : str or None
        One of ``FORMATS``; None for a table on a terminal and TSV elsewhere.
    empty : str
        Note on standard error if there are no rows.
    count : (str, str), optional
        Words for one row and for several; a table ends with the count on standard error.
    says_count : bool
        Write the count for every format.

    Returns
    -------
    int
        Rows written.
    """
    output_format = chosen_format(output_format)
    counted = _CountedRows(rows)
    with _to_file(), working("listing", counted.so_far):
        if output_format == "table":
            from lshdb.cli._table import draw_table

            pieces = draw_table(
                columns, counted.rows(), width=table_width(), bold=_is_bold(), encoding=_encoding()
            )
            _write_all(pieces, _encoding())
        elif output_format in ("jsonl", "json"):
            names = [column.name for column in columns]
            lines = _jsonl(names, counted)
            _write_all(lines if output_format == "jsonl" else _array(lines))
        elif output_format == "parquet":
            _write_parquet(columns, counted.rows())
        else:
            _write_all(_delimited(columns, counted, output_format))
    if not counted.n and empty:
        note(empty)
    elif counted.n and count and (says_count or output_format == "table"):
        note(f"{counted.n:,} {count[counted.n > 1]}")
    return counted.n


def print_record(
    fields: Mapping[str, Any],
    output_format: str | None,
    *,
    shown: Mapping[str, str] | None = None,
    below: Callable[[bool], Iterable[str]] | None = None,
) -> None:
    """Write one record: two columns of names and values, an object in JSON, a row in Parquet.

    People read a record, also by ``less`` or in a log; programs ask for a format.

    Parameters
    ----------
    fields : mapping
        Values by name. A list takes one row an item, except in JSON.
    output_format : str or None
        One of ``FORMATS``; None for a table, wherever it goes.
    shown : mapping, optional
        What a table shows instead of a value. Line feeds are kept; an empty text hides the field.
    below : callable, optional
        Given whether the output understands colours, it returns lines to show below a table.
    """
    output_format = chosen_format(output_format, elsewhere="table")
    if output_format in ("jsonl", "json"):
        with _to_file():
            _write_all(_jsonl(list(fields), [list(fields.values())]))
    elif output_format == "table":
        from lshdb.cli._table import draw_record

        texts = {name: text_of(value) for name, value in fields.items()} | dict(shown or {})
        lines = draw_record({name: text for name, text in texts.items() if text}, table_width())
        more = () if below is None else below(_is_bold())
        with _to_file():
            _write_all((line + "\n" for line in chain(lines, more)), _encoding())
    elif output_format == "parquet":
        columns = [Column(name, "auto") for name in fields]
        print_listing(columns, [list(fields.values())], output_format)
    else:
        rows = (
            (name, item)
            for name, value in fields.items()
            for item in (value if isinstance(value, tuple) else (value,))
        )
        print_listing([Column("field"), Column("value")], rows, output_format)


def print_drawn(draw: Callable[..., Iterable[str]]) -> None:
    """Write lines drawn for the terminal, or for the file of ``--output``.

    Parameters
    ----------
    draw : callable
        Takes by name ``width``, the columns or None, ``bold`` and ``encoding``, as
        :func:`lshdb.cli._table.draw_table` does; yields lines with their ends.
    """
    lines = draw(width=table_width(), bold=_is_bold(), encoding=_encoding())
    with _to_file():
        _write_all(lines, _encoding())


def show_page(text: str, draw: Callable[..., str]) -> None:
    """Write a page of text: drawn and in a pager on a terminal, unchanged elsewhere.

    Parameters
    ----------
    text : str
        Markdown.
    draw : callable
        Takes the text, and by name ``width``, the columns of the terminal, and ``styled``, whether
        it understands colours and bold type; returns what to show.
    """
    if not is_terminal(sys.stdout):
        say(text.rstrip("\n"))
        return
    flush_output()
    drawn = draw(text, width=table_width() or 80, styled=_is_bold())
    click.echo_via_pager(drawn, color=_is_bold())


@contextlib.contextmanager
def tsv_file(path: str) -> Iterator[Callable[[Rows], None]]:
    """Open a file to be written later, so that a mistake in its name shows before the work.

    The old contents stay until there are rows: call the yielded function with them.
    """
    from lshdb.files.whole_files import appended

    with appended(path) as file:

        def put(rows: Rows) -> None:
            if file.seekable():
                file.truncate(0)
            for row in rows:
                if row is not None:
                    file.write(tsv_line([*map(text_of, row)]).encode() + b"\n")
            file.flush()

        yield put


def chosen_format(name: str | None, *, elsewhere: str = "tsv") -> str:
    """Return the format asked for.

    By default that of the name of ``--output``, a table on a terminal, and another one elsewhere.
    """
    if name is not None:
        return name
    path = _asked_for(_TO)
    if path is not None:
        return _FORMAT_OF_ENDING.get(_endings(path)[0], "tsv")
    return "table" if is_terminal(sys.stdout) else elsewhere


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether the stream is a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def table_width() -> int | None:
    """Return the columns of the terminal; None, for no limit, if the output is not a terminal.

    The environment variable ``COLUMNS`` overrides both.
    """
    columns = os.environ.get("COLUMNS", "")
    if _asked_for(_TO) is None and columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if not _is_on_terminal():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def flush_output() -> None:
    """Write the buffer; errors of the reader or the disk are raised here."""
    if sys.stdout is not None and not sys.stdout.closed:
        with named_output():
            sys.stdout.flush()


def discard_output() -> None:
    """Discard what is still unwritten: its reader has gone."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        streams = [sys.stdout.fileno(), sys.stderr.fileno()]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in streams:
            os.dup2(nowhere, stream)
        os.close(nowhere)


# Inside


class _CountedRows:
    """Rows, counted as they pass; ``None`` does not count."""

    def __init__(self, rows: Blocks) -> None:
        self._rows = rows
        self.n = 0

    def so_far(self) -> str:
        return f"{self.n:,} so far"

    def __iter__(self) -> Iterator[Sequence[Any] | RowBlock | None]:
        """Yield rows and blocks as they are."""
        for row in self._rows:
            self.n += row.n_rows if isinstance(row, RowBlock) else row is not None
            yield row

    def rows(self) -> Iterator[Sequence[Any] | None]:
        """Yield all rows one by one."""
        return one_by_one(self)


def one_by_one(rows: Blocks) -> Iterator[Sequence[Any] | None]:
    """Yield rows as they are, and those of blocks one by one."""
    for row in rows:
        if isinstance(row, RowBlock):
            yield from zip(*row.columns, strict=False)
        else:
            yield row


def _delimited(columns: Sequence[Column], rows: Blocks, output_format: str) -> Iterator[str | None]:
    line = tsv_line if output_format == "tsv" else csv_line
    decimals = [6 if column.kind == "similarity" else None for column in columns]
    # A terminal must not act on what is in a cell; a program must get it unchanged.
    safe = harmless if _is_on_terminal() else str
    if output_format == "csv" or _asked_for(_HEADER):
        yield line([column.name for column in columns]) + "\n"
    pattern = tsv_pattern(decimals)
    for row in rows if line is tsv_line and safe is str else one_by_one(rows):
        if row is None:
            yield None
        elif isinstance(row, RowBlock):
            yield tsv_lines(pattern, row.columns)
        else:
            yield safe(line([*map(text_of, row, decimals)])) + "\n"


def _jsonl(names: Sequence[str], rows: Blocks) -> Iterator[bytes | None]:
    on_terminal = _is_on_terminal()
    for row in one_by_one(rows):
        if row is None:
            yield None
            continue
        line = json_line(names, row)
        yield (harmless_json(line.decode()).encode() if on_terminal else line) + b"\n"


def _array(lines: Iterable[bytes | None]) -> Iterator[bytes | None]:
    """Put lines of JSON into one array, an item a line."""
    before = b"[\n"
    for line in lines:
        if line is None:
            yield None
        else:
            yield before + line.rstrip(b"\n")
            before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


def _write_parquet(columns: Sequence[Column], rows: Rows) -> None:
    if _is_on_terminal():
        raise click.UsageError(
            "Parquet is nothing for a terminal: give --output FILE, or redirect the output",
            click.get_current_context(silent=True),
        )
    try:
        from lshdb.cli._parquet import write_parquet
    except ImportError as error:
        raise LshdbError(
            f"Parquet needs the package pyarrow: {error}",
            hint=f"{install_command('parquet')}, or give another --format",
        ) from error
    write_parquet(columns, rows, _write)
    end_answer()


def _write_all(pieces: Iterable[str | bytes | None], encoding: str = "utf-8") -> None:
    unwritten: list[bytes] = []
    size, written_at = 0, 0.0
    for piece in pieces:
        if piece is not None:
            data = piece.encode(encoding, "replace") if isinstance(piece, str) else piece
            unwritten.append(data)
            size += len(data)
        is_due = piece is None or len(unwritten) >= _PIECES or size >= _BYTES
        if is_due or time.monotonic() - written_at > _SECONDS:
            _write(b"".join(unwritten))
            flush_output()
            unwritten.clear()
            size, written_at = 0, time.monotonic()
    _write(b"".join(unwritten))
    end_answer()  # before the notes about it, in case both outputs go to one place


def _write(data: bytes) -> None:
    file = _asked_for(_FILE)
    if file is not None:
        file.write(data)
        return
    if sys.stdout is None:
        raise OSError("standard output is closed")
    if data:
        if is_terminal(sys.stdout):
            erase()
        with named_output():
            sys.stdout.flush()
            sys.stdout.buffer.write(data)


@contextlib.contextmanager
def _to_file() -> Iterator[None]:
    """Write to the file of ``--output``, if there is one; it gets its name when it is whole."""
    path = _asked_for(_TO)
    if path is None:
        yield
        return
    meta = click.get_current_context().meta
    try:
        with _opened(path) as file:
            meta[_FILE] = file
            yield
    finally:
        meta.pop(_FILE, None)


def _is_stream(path: str) -> bool:
    if path.startswith(("/dev/std", "/dev/fd/", "/proc/")):  # may be files; not /dev/shm
        return True
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _opened(path: str) -> AbstractContextManager[IO[bytes]]:
    """Open a device, a pipe or the like; anything else becomes a file when it is whole."""
    if _is_stream(path):
        return _opened_stream(path)
    from lshdb.files.whole_files import whole_file

    return whole_file(path, compression=_endings(path)[1], overwrite=True)


@contextlib.contextmanager
def _opened_stream(path: str) -> Iterator[IO[bytes]]:
    from lshdb.files.whole_files import appended

    with appended(path) as file:  # /dev/stderr may be a file, which must not begin anew
        if click.get_current_context().params.get("advance"):
            with delivered(file) as delivery:
                yield delivery
        else:
            yield file


def _asked_for(name: str) -> Any:
    """Return a setting of the output that the command line made, or None."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(name)


def _is_on_terminal() -> bool:
    return _asked_for(_TO) is None and is_terminal(sys.stdout)


def _encoding() -> str:
    if _asked_for(_TO) is not None:
        return "utf-8"
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _is_bold() -> bool:
    """Return whether the output understands bold type and the user has not asked for plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return _is_on_terminal() and not plain
