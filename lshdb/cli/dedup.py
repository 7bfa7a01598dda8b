"""``lshdb dedup``: which documents to keep, or files with only the records that are kept."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from lshdb import Index, InputError, Rejected, TransientIndex
from lshdb.arguments import Only
from lshdb.cli._command import IndexArgument, complete_files, is_index, option, options
from lshdb.cli._completion import complete_keep
from lshdb.cli._creation_options import creation_options, given_parameters
from lshdb.cli._delivery import end_answer
from lshdb.cli._documents_in import add_watched, advice_for, documents_for, open_if_there
from lshdb.cli._errors import REJECTED
from lshdb.cli._index_or_files import read_into, row_keys_for
from lshdb.cli._long_work import AddProgress, TaskProgress, prompt_interrupts
from lshdb.cli._options import (
    FOLDERS,
    LINKING,
    READING,
    Command,
    agreement_options,
    decisions_options,
    folder_options,
    input_options,
    linking_options,
    since_option,
    update_edges,
    workers_option,
)
from lshdb.cli._output import Column, named_place, note, print_bytes, print_listing, write_to
from lshdb.cli._words import counted, measured, note_unfinished
from lshdb.cli.cursors import advance_option, advancing

if TYPE_CHECKING:
    from lshdb import Decision, RewrittenFiles, Survivors

__all__ = ["command"]

COLUMNS = (
    Column("key"),
    Column("decision"),
    Column("kept_key"),
    Column("similarity", "similarity"),
    Column("method"),
)


REWRITING = (
    "key_field", "row_keys", "delimiter", "encoding", "quote", "input_format", "max_document_bytes",
    *FOLDERS,
)  # fmt: skip
"""Arguments of ``Index.dedup_files`` that say how to read."""


@click.command(
    "dedup",
    cls=Command,
    short="output threshold keep mark overwrite only "
    "decisions against agree key-field text-field row-keys",
    see="First see examples at each threshold: lshdb tune FILE.",
)
@click.argument(
    "index_path",
    metavar="INDEX|FILE",
    cls=IndexArgument,
    missing="the folder of an index, such as news.lshdb, or files to write again",
    shell_complete=complete_files,
)
@click.argument("paths", metavar="[FILE]...", nargs=-1, shell_complete=complete_files)
@option(
    "-o",
    "--output",
    metavar="PATH",
    help="Write each FILE again without what is dropped, in its own format: a folder, or for one "
    "FILE a file, or - for standard output. With --filter, the file for the lines.",
)
@option(
    "--mark",
    is_flag=True,
    help="With --output, write all records, with lshdb_keep, lshdb_cluster, lshdb_kept_as and "
    "lshdb_similarity added. They say whether a record is kept, the label of its cluster, and the "
    "key that is kept instead.",
)
@option(
    "--overwrite",
    is_flag=True,
    help="With --output, replace files that are there.",
)
@option(
    "--keep",
    default="first",
    show_default=True,
    metavar="WHICH",
    shell_complete=complete_keep,
    help="Which of several similar documents to keep: first, last, longest, shortest, field:NAME "
    "for the largest value, field:-NAME for the smallest. NAME is a kept field or a column of the "
    "index, or a field of the filtered lines or written records.",
)
@option(
    "--against",
    is_flag=True,
    help="Drop only documents of the last add, if they repeat older ones.",
)
@since_option(
    "With --against, documents that came in since WHEN are new.", default="  [default: last]"
)
@advance_option
@option(
    "--only",
    type=click.Choice(["all", "keep", "drop"]),
    metavar="WHICH",
    default="all",
    show_default=True,
    help="Which decisions to list: {choices}.",
)
@option(
    "--filter",
    "filtered",
    metavar="FILE",
    help="Write the lines of this JSON Lines file, byte for byte, without those whose document is "
    "dropped. A line stays if its document is not in the index.",
)
@option(
    "--index",
    "kept_index",
    metavar="PATH",
    help="Without INDEX, make an index of the files here, which stays.  [default: temporary files "
    "in TMPDIR]",
)
@options(input_options, without=["keys"])
@folder_options
@options(creation_options, without=["threshold", "database", "schema", "passages"])
@workers_option
@agreement_options
@linking_options
@decisions_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    index_path: str,
    paths: tuple[str, ...],
    *,
    output: str | None,
    keep: str,
    against: bool,
    since: int | str | None,
    advance: bool,
    only: Only,
    filtered: str | None,
    output_format: str | None,
    mark: bool,
    overwrite: bool,
    kept_index: str | None,
    workers: int | None,
    agree: tuple[str, ...],
    differ: tuple[str, ...],
    **options: Any,
) -> None:
    """Keep one of several similar documents, and say which one the others repeat.

    A document is dropped only for a kept one that is verified to be similar. No two kept documents
    form a pair that the index finds, that is, one that shares a bucket and is verified. Where large
    buckets have too many pairs to compare, a note estimates how many remain.

    With --output, each FILE is written again with only the records that are kept, in its own
    format: JSON Lines, CSV and TSV byte for byte, also compressed, and Parquet with its schema.
    FILE may be a folder or a pattern. An output appears when it is whole. Records without a
    document in INDEX are kept.

    With --output, INDEX may be left out: the first argument is INDEX if it is an index, or is
    called *.lshdb. Then temporary files stand in for an index, with the same answer. The options
    under Input and New index are those of lshdb add, and --threshold is the index's. Without a key
    field, path and row number are the keys.

    --decisions FILE writes the list of decisions to a file, also of files that are written again.

    With --filter and --output, a file without any document of the index is refused and nothing is
    written. Exit code 5 means that less than one record in a hundred has its document in the index,
    or, without INDEX, that some records are no documents; these are kept.

    \b
    lshdb dedup data/ --output clean/
    lshdb dedup news.csv --output unique.csv --keep longest --threshold 0.7
    lshdb dedup news.lshdb --only drop --decisions dropped.csv
    lshdb dedup news.lshdb --filter news.jsonl -o unique.jsonl
    lshdb dedup news.lshdb news/*.parquet -o clean/
    lshdb dedup news.lshdb news.csv -o marked.csv --mark
    lshdb dedup news/*.parquet -o clean/ --threshold 0.8 --decisions decisions.csv
    """
    linking = {name: options.pop(name) for name in LINKING}
    reading = {
        name: options.pop(name) for name in (*READING, *FOLDERS, "input_format") if name in options
    }
    parameters = given_parameters(options)
    passing: dict[str, Any] = {"mark": mark, "overwrite": overwrite}
    has_index = is_index(index_path)
    if not has_index:
        paths = (index_path, *paths)
    _check_usage(paths, output, filtered, has_index, only, output_format)
    if output is not None and filtered is not None:
        write_to(ctx, None, output, formats=("jsonl",))
    making = parameters | {"workers": workers, "index": kept_index}
    making |= {name: reading[name] for name in ("text_field", "vector_field")}
    if has_index:
        _refuse(making, "is for files without an index: leave out INDEX, or the option")
    if output is None or filtered is not None:
        _refuse(passing, "is for files that are written again")
        apart = ("max_document_bytes", "text_field", *(["key_field"] if filtered else []))
        _refuse(
            {name: value for name, value in reading.items() if name not in apart}
            | {"gitignore": not reading["gitignore"]},
            "is for --filter and --output" if filtered is None else "is for --output",
        )
    if not has_index and output is not None:
        _refuse(
            {"against": against, "since": since, "no_update": linking["no_update"]}
            | {"agree": agree, "differ": differ}
            | {name: reading[name] for name in ("relative", "strip_prefix")},
            "is for an index with documents: name it before the files",
        )
        code = _write_without_index(
            paths, output, kept_index, reading, parameters, output_format,
            linking=linking, workers=workers, keep=keep, only=only, **passing,
        )  # fmt: skip
        ctx.exit(code)
    with (
        Index.open(index_path) as index,
        prompt_interrupts(),
        advancing(index, since, advance=advance) as answered,
    ):
        update_edges(index, **linking)
        if against:
            note_unfinished(index, since or "last")
        how: dict[str, Any] = {
            "keep": keep,
            "threshold": linking["threshold"],
            "against": against,
            "since": since,
            "agree": agree,
            "differ": differ,
            "update": False,
        }
        if output is not None and filtered is None:
            result = _write(
                index, paths, output, reading, only, output_format,
                start=time.monotonic(), **how, **passing,
            )  # fmt: skip
            answered(result.newest_batch)
            is_doubtful = result.is_doubtful
        elif filtered is not None:
            how["key_field"] = reading["key_field"] or "id"
            lines = index.filter(filtered, max_document_bytes=reading["max_document_bytes"], **how)
            _filter(lines, reading["max_document_bytes"])
            answered(lines)
            is_doubtful = lines.counts.is_doubtful
        else:
            decisions = index.dedup(only=only, **how)
            _list(index, decisions, output_format)
            answered(decisions)
            is_doubtful = False
    if is_doubtful:
        note("less than one record in a hundred has a document in the index: is it the file?")
        ctx.exit(REJECTED)


def _check_usage(
    paths: tuple[str, ...],
    output: str | None,
    filtered: str | None,
    has_index: bool,
    only: Only,
    output_format: str | None,
) -> None:
    """Raise UsageError for arguments that contradict each other."""
    if "-" in paths:
        raise click.UsageError(
            "files are read twice, which standard input cannot be: write it to a file first"
        )
    if output is None and paths and (has_index or len(paths) > 1 or _is_input(paths[0])):
        *files, last = paths
        is_output = bool(files) and not _is_input(last)
        where = (
            "-o FILE, -o FOLDER/, or -o - for standard output"
            if paths == (last,) and os.path.isfile(last)
            else "-o FOLDER/"
        )
        if is_output:
            where = f"-o {last}"
        raise click.UsageError(
            f"{paths[0]} is not an index; to write {'it' if len(paths) == 1 else 'files'} again "
            f"without what repeats, say where with --output: {where}"
        )
    if output is not None and not paths and filtered is None:
        raise click.UsageError(
            "--output writes files again: name them after the index; the list of decisions goes to "
            "--decisions FILE"
        )
    index_path = next((path for path in paths if os.path.isdir(path) and is_index(path)), None)
    if index_path is not None:
        raise click.UsageError(f"{index_path} is an index; name one index, before the files")
    if paths and filtered is not None:
        raise click.UsageError("give either --filter FILE, or files to write again")
    is_about_list = only != "all" or output_format is not None
    if filtered is not None and (is_about_list or named_place() is not None):
        raise click.UsageError(
            "--filter writes lines as they are, and no list of decisions: --decisions, --only and "
            "--format do not apply"
        )
    if output is not None and output == named_place():
        raise click.UsageError(
            f"--output and --decisions are both {output}: name two places",
            click.get_current_context(),
        )
    if output is not None and is_about_list and named_place() is None:
        raise click.UsageError(
            "--output writes records as they are: --only and --format are for the list of "
            "decisions, and --decisions FILE names a file for it"
        )


def _is_input(path: str) -> bool:
    """Return whether a path can be an input file; it is not an index."""
    return os.path.exists(path) or "://" in path or not {*"*?["}.isdisjoint(path)


def _refuse(values: dict[str, Any], why: str) -> None:
    """Raise UsageError for the first of some options that was given."""
    ctx = click.get_current_context()
    for name, value in values.items():
        if value in (None, False, (), "auto"):
            continue
        option = f"--{name.replace('_', '-')}"
        param = next(p for p in ctx.command.params if p.name == name or option in p.opts)
        raise click.UsageError(f"{max(param.opts, key=len)} {why}")


def _write_without_index(
    paths: tuple[str, ...],
    output: str,
    kept_index: str | None,
    reading: dict[str, Any],
    parameters: dict[str, Any],
    output_format: str | None,
    *,
    linking: dict[str, Any],
    workers: int | None,
    only: Only,
    **how: Any,
) -> int:
    """Make an index of files and write them again; return the exit code."""
    from lshdb.groups.rewrite_plan import find_files, plan_outputs

    start = time.monotonic()
    finding = {
        "input_format": reading["input_format"],
        "folders": {name: reading[name] for name in FOLDERS},
    }
    plan_outputs(paths, output, overwrite=how["overwrite"], **finding)
    sources, _ = find_files(paths, **finding)
    files = [source.path for source, _ in sources if not source.is_empty]
    reading["row_keys"] = row_keys_for([source for source, _ in sources], reading)
    if linking["threshold"] is not None:
        parameters["threshold"] = linking["threshold"]
    progress = AddProgress("1 of 3 reading")
    progress.write_rejected = _refuse_repeated
    how_to_read = {name: value for name, value in reading.items() if name not in FOLDERS}
    with contextlib.ExitStack() as opened:
        index: Index | TransientIndex
        if kept_index is None:
            index, result = opened.enter_context(
                read_into(files, how_to_read, parameters, workers=workers, progress=progress)
            )
            is_new = True
        else:
            kept = open_if_there(kept_index, **parameters)
            is_new = kept is None
            items, from_peek = documents_for(kept, files, how_to_read, parameters, progress)
            index = kept or Index.create(
                kept_index,
                deferred=True,
                lock_timeout=linking["lock_timeout"],
                **(from_peek | parameters),
            )
            opened.enter_context(index)
            note(f"{'making' if is_new else 'adding to'} the index {kept_index}")
            result = add_watched(
                index,
                items,
                progress,
                source="dedup",
                lock_timeout=linking["lock_timeout"],
                workers=workers,
            )
        if not result.batches and is_new:
            n_files = len(sources)
            named = sources[0][0].name if n_files == 1 else f"the {n_files:,} files"
            raise InputError(
                f"no record of {named} was accepted as a document, so nothing was written"
                if result.rejected
                else f"no record in {named}, so nothing was written",
                hint=advice_for(files) if result.rejected else "check the input",
            )
        update_edges(index, words="2 of 3 comparing", **linking)
        _write(
            index, paths, output, reading, only, output_format,
            start=start, threshold=linking["threshold"], update=False, needs_documents=False,
            words="3 of 3 writing", **how,
        )  # fmt: skip
    return REJECTED if result.rejected else 0


def _list(
    index: Index | TransientIndex, decisions: Iterable[Decision], output_format: str | None
) -> None:
    rows = (
        (decision.key, _word(decision), decision.kept_key, decision.similarity, decision.method)
        for decision in decisions
    )
    print_listing(
        *measured(index.params, COLUMNS, rows),
        output_format,
        empty="no documents",
        count=("document", "documents"),
    )


def _word(decision: Decision) -> str:
    return "keep" if decision.keep else "drop"


def _refuse_repeated(rejection: Rejected) -> None:
    """Raise InputError for a record with the key of an earlier one.

    Both would be one document, and the later record would stay or go with the first.
    """
    from lshdb.ingest.add import REPEATED

    if rejection.reason.endswith(REPEATED):
        raise InputError(
            f"{rejection.source}: {rejection.reason.removesuffix(REPEATED)}came before, so it does "
            "not tell which record is which",
            hint="pass --row-keys, so that path and row number are the keys, or name another field "
            "with --key-field",
        )


def _filter(lines: Survivors, max_document_bytes: int) -> None:
    """Write the lines of a file that are kept, and note their number."""
    print_bytes(lines)
    counts = lines.counts
    note(f"{counted(counts.kept, 'line')} kept, {counts.dropped:,} dropped")
    if counts.unknown:
        note(f"{counts.unknown:,} of the kept lines have no document in the index")
    if counts.too_long:
        note(
            f"{counts.too_long:,} of those are longer than --max-document-bytes "
            f"({max_document_bytes:,}) and were passed on unread"
        )


def _write(
    index: Index | TransientIndex,
    paths: tuple[str, ...],
    output: str,
    reading: dict[str, Any],
    only: Only,
    output_format: str | None,
    *,
    start: float,
    words: str = "writing",
    **how: Any,
) -> RewrittenFiles:
    """Write files again, and note how many records were kept and dropped."""
    how |= {name: reading[name] for name in REWRITING if name in reading}
    if named_place() is not None:

        def list_decisions(decisions: Iterator[Decision]) -> None:
            _list(
                index,
                (decision for decision in decisions if only in ("all", _word(decision))),
                output_format,
            )

        how["on_decisions"] = list_decisions
    progress = TaskProgress(words)
    with progress if output != "-" else contextlib.nullcontext():
        result = index.dedup_files(paths, output, on_file=progress.wrote, **how)
    end_answer()
    n_read, n_files = result.kept + result.dropped, len(result.files)
    place = "standard output" if output == "-" else output
    note(
        f"{counted(n_read, 'record')} read, {result.kept:,} kept, {result.dropped:,} dropped; "
        f"{counted(n_files, 'file')} written to {place} in {time.monotonic() - start:.1f} s"
    )
    if result.left_out:
        were = "was" if result.left_out == 1 else "were"
        note(
            f"{counted(result.left_out, 'other file')} {were} left out: of another format, hidden "
            "or ignored"
        )
    if result.unknown:
        has = "has" if result.unknown == 1 else "have"
        note(f"{result.unknown:,} of the kept records {has} no document in the index")
    if result.repeated:
        has = "has" if result.repeated == 1 else "have"
        note(
            f"{counted(result.repeated, 'record')} {has} the key of an earlier record; all records "
            "of one key are kept or dropped together"
        )
    return result
