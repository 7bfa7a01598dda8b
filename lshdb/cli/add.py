"""``lshdb add``: documents from files and standard input, in batches committed as they fill.

Decided: the input is opened before an index is made, so that a mistyped path leaves nothing behind.
The index's own files are never input: naming them is a mistake, and a folder that holds the index
is read without them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from lshdb import AddResult, InputError
from lshdb.arguments import OnConflictOfAdd, check_name
from lshdb.cli._cells import harmless
from lshdb.cli._command import Argument, complete_files, option
from lshdb.cli._creation_options import creation_options, given_parameters
from lshdb.cli._documents_in import (
    add_watched,
    advice_for,
    create_and_say,
    documents_for,
    note_resumed,
    note_short,
    open_if_there,
    require_metric,
    summary,
)
from lshdb.cli._errors import REJECTED
from lshdb.cli._long_work import AddProgress
from lshdb.cli._options import (
    FOLDERS,
    READING,
    Command,
    conflict_option,
    folder_options,
    index_argument,
    input_options,
    keep_fields_option,
    lock_option,
    new_pairs_options,
    since_option,
    workers_option,
)
from lshdb.cli._output import is_terminal, named_place, note, print_record
from lshdb.cli._rejections import rejects_file, rejects_option
from lshdb.cli.cursors import advance_option, cursor_named
from lshdb.errors import hide_credentials

__all__ = ["command"]

_SOURCE_WIDTH = 200


def _refuse_nameless(ctx: click.Context, param: click.Parameter, name: str) -> str:
    """Refuse ``--night ''``, which a variable of a job that is not set leaves."""
    if not name and ctx.get_parameter_source(str(param.name)) is not ParameterSource.DEFAULT:
        raise click.BadParameter("a night needs a name, such as 2026-01-31")
    return name


@click.command(
    "add",
    cls=Command,
    short="key-field text-field row-keys keep-fields metric threshold recall night pairs rejects",
    see="Then: lshdb pairs INDEX.",
)
@index_argument
@click.argument(
    "paths",
    metavar="PATH...",
    nargs=-1,
    required=True,
    cls=Argument,
    missing="files, folders, patterns or URLs to add, or - for standard input",
    shell_complete=complete_files,
)
@input_options
@folder_options
@keep_fields_option
@conflict_option(
    "unite",
    text=" unite, for units url and url-host, keeps the URLs of a host and adds the new ones.",
)
@option(
    "--max-errors",
    type=click.IntRange(min=0),
    metavar="N",
    help="Stop once more than N inputs are rejected.  [default: never]",
)
@rejects_option
@option(
    "--night",
    default="",
    callback=_refuse_nameless,
    metavar="NAME",
    help="Count all adds with this name as one for --since last, as the feeds of a night.",
)
@since_option(
    "When all is added, list the pairs with a document that came in since WHEN, as lshdb pairs "
    "--since does.",
    "--pairs",
    "since",
)
@advance_option
@workers_option
@lock_option
@creation_options
@new_pairs_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    index_path: str,
    paths: tuple[str, ...],
    *,
    input_format: str,
    on_conflict: OnConflictOfAdd,
    max_errors: int | None,
    rejects: str | None,
    night: str,
    since: int | str | None,
    advance: bool,
    workers: int | None,
    lock_timeout: float,
    output_format: str | None,
    **options: Any,
) -> None:
    """Add documents of files, folders, URLs or standard input to INDEX; make it if there is none.

    PATH is a file, a folder, a pattern in quotes, a URL (s3://, https://, with lshdb[remote]), or -
    for standard input (JSON Lines). Files are JSON, JSON Lines, CSV or TSV by extension (also .gz,
    .zst, .xz or .bz2), .parquet, .arrow, or vectors in .npy and .npz. Any other file is one text
    with its path as key, unless it looks like records, markup or binary data. With unit url or
    url-host, any other file and standard input are lists of URLs.

    In a folder whose files are mostly plain texts, such as a source tree, every file is one text.
    Left out of folders, and counted: hidden files, what .gitignore files name, binary files, links
    to files of the same folder, and folders such as .git and node_modules.

    The options of New index are those of lshdb init. They set the parameters of a new index; an
    existing index must have been made with the same values. An index of vectors or bits takes its
    dimension from the input and chooses its bands for a sample of it.

    A key that is already there with the same text is left as it is, so adding twice changes
    nothing. After an interruption, add the same input again: both runs then count as one add for
    --since last. Input that is not a document is reported with file, line and reason, counted and
    skipped; the exit code is then 5. At most ten lines of each kind are shown; --rejects FILE takes
    all. If no document is accepted, no index is made.

    \b
    lshdb add news.lshdb news.jsonl.gz
    lshdb add notes.lshdb notes/ 'letters/**/*.txt'
    lshdb add code.lshdb src/ --include '*.py' --exclude tests/
    lshdb add papers.lshdb papers.csv --row-keys --text-field title --text-field abstract
    zcat dump.jsonl.gz | lshdb add news.lshdb - --key-field url
    lshdb add news.lshdb tonight.jsonl --pairs @press --advance -o new.tsv
    lshdb add hosts.lshdb urls.txt --unit url
    lshdb add words.lshdb vectors.npy --keys words.txt --metric cosine --threshold 0.7
    """
    reading = {name: options.pop(name) for name in (*READING, *FOLDERS, "keep_fields")}
    reading["input_format"] = input_format
    parameters = given_parameters(options)
    if advance:
        check_name("--advance: a cursor", cursor_named(since, "--pairs"))
    if rejects == "-" and since is not None:
        raise click.UsageError(
            "--rejects - and --pairs both write to standard output; give --rejects a file", ctx
        )
    with contextlib.ExitStack() as opened:
        index = open_if_there(index_path, **parameters)
        if index is not None:
            opened.enter_context(index)
        _refuse_own_files(index_path, paths)
        if index is None:
            require_metric(paths, parameters, input_format)
        progress = AddProgress()
        written = (path for path in (rejects, named_place()) if path not in (None, "-"))
        reading["leave_out"] = [index_path, *written]
        if "-" in paths and is_terminal(sys.stdin):
            note("reading from the terminal; Ctrl-D ends the input")
        items, from_peek = documents_for(index, paths, reading, parameters, progress)
        if index is None:
            created = create_and_say(
                index_path, lock_timeout=lock_timeout, from_peek=from_peek, **parameters
            )
            index = opened.enter_context(created)
        if isinstance(since, str) and not advance:
            index.pairs(since=since)  # a mistake shows before anything is added
        progress.write_rejected = opened.enter_context(rejects_file(rejects, paths))
        source = harmless(" ".join(map(hide_credentials, paths)))
        result = add_watched(
            index,
            items,
            progress,
            source=source if len(source) <= _SOURCE_WIDTH else f"{source[: _SOURCE_WIDTH - 1]}…",
            lock_timeout=lock_timeout,
            on_conflict=on_conflict,
            max_errors=max_errors,
            night=night,
            workers=workers,
        )
        if not result.batches:
            rejected, hint = "", "lshdb init makes an empty index"
            if result.rejected:
                were = "was" if result.rejected == 1 else "were"
                rejected = f", and {result.rejected:,} {were} rejected"
                hint = f"{advice_for(paths)}; {hint}"
            elif paths == ("-",):
                hint = f"check the command before the pipe; {hint}"
            raise InputError(
                f"no document was accepted{rejected}; the index {index_path} was not made",
                hint=hint,
            )
        note_resumed(index, result)
        note_short(index.params, result)
        if since is not None:
            from lshdb.cli.pairs import list_new_pairs

            note(_line(result, paths, night))
            list_new_pairs(index, since, output_format, advance=advance, lock_timeout=lock_timeout)
    if since is None:
        if output_format is None and named_place() is None:
            note(_line(result, paths, night))
        else:
            print_record(_fields(result), output_format)
    if result.rejected:
        ctx.exit(REJECTED)


def _line(result: AddResult, paths: Sequence[str], night: str) -> str:
    """Return what an add did, and of which input; a log also has the time and the night."""
    first = "standard input" if paths[0] == "-" else harmless(hide_credentials(paths[0]))
    source = first if len(paths) == 1 else f"{first} and {len(paths) - 1:,} more"
    when = (
        "" if is_terminal(sys.stderr) else f"{time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime())} "
    )
    return f"{when}{source}: {summary(result)}" + (f"; night {night}" if night else "")


def _fields(result: AddResult) -> dict[str, Any]:
    names = (
        "added", "replaced", "unchanged", "copies", "resumed", "united", "cut", "stale", "short",
        "rejected", "seconds",
    )  # fmt: skip
    return {name: getattr(result, name) for name in names} | {"batches": tuple(result.batches)}


def _refuse_own_files(index_path: str, paths: Sequence[str]) -> None:
    home = os.path.realpath(index_path)
    for path in paths:
        place = os.path.realpath(path)
        if path != "-" and (place == home or place.startswith(home.rstrip(os.sep) + os.sep)):
            where = "the index itself" if place == home else "inside the index"
            raise click.UsageError(
                f"{path} is {where}, whose files are not documents", click.get_current_context()
            )
