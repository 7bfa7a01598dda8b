"""``lshdb dedup``: which documents to keep, or files with only the records that are kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lshdb import Index, PairCount
from lshdb.arguments import Only
from lshdb.cli._errors import REJECTED
from lshdb.cli._long_work import TaskProgress, prompt_interrupts
from lshdb.cli._options import (
    Command,
    document_limit_option,
    index_argument,
    linking_options,
    listing_options,
    since_option,
    update_edges,
)
from lshdb.cli._output import Column, note, print_bytes, print_listing
from lshdb.cli._words import measured, note_unfinished
from lshdb.cli.cursors import advance_option, advancing
from lshdb.documents import PASSED_FORMATS

if TYPE_CHECKING:
    from lshdb import Deduplication

__all__ = ["command"]

COLUMNS = (
    Column("key"),
    Column("decision"),
    Column("kept_key"),
    Column("similarity", "similarity"),
    Column("method"),
)


@click.command("dedup", cls=Command)
@index_argument
@click.argument("paths", metavar="[FILE]...", nargs=-1)
@click.option(
    "--output",
    metavar="PATH",
    help="Write each FILE again in its own format, with only the records of the documents that "
    "are kept: a folder, or for one FILE a file.",
)
@click.option(
    "--mark",
    is_flag=True,
    help="With --output: write all records, each with the fields lshdb_keep (whether it is kept), "
    "lshdb_cluster (the label of its cluster), lshdb_kept_as (the key that is kept instead) and "
    "lshdb_similarity.",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="With --output: replace files that exist.",
)
@click.option(
    "--keep",
    default="first",
    show_default=True,
    metavar="WHICH",
    help="Which of several similar documents to keep: first, last, longest, shortest, or "
    "field:NAME (field:-NAME) for the largest (smallest) value of a kept field or a column of the "
    "index, or of a field of the filtered lines or written records.",
)
@click.option(
    "--against",
    is_flag=True,
    help="Drop only documents of the last add, and only where they repeat older ones.",
)
@since_option("With --against: documents that came in since then are new.  [default: last]")
@advance_option
@click.option(
    "--only",
    type=click.Choice(["all", "keep", "drop"]),
    default="all",
    show_default=True,
    help="Which decisions to list.",
)
@click.option(
    "--filter",
    "filtered",
    metavar="FILE",
    help="Write the lines of this JSON Lines file whose documents are kept, byte for byte, and "
    "lines whose document is not in the index.",
)
@click.option(
    "--key-field",
    metavar="NAME",
    help="With --filter and --output: the field that holds a document's key.  [default: id]",
)
@click.option(
    "--row-keys",
    is_flag=True,
    help="With --output: a document's key is its file and row, as add --row-keys gives it.",
)
@click.option(
    "--input",
    "input_format",
    type=click.Choice(["auto", *PASSED_FORMATS]),
    default="auto",
    show_default=True,
    help="With --output: the format of the files; auto goes by their names.",
)
@document_limit_option
@linking_options
@listing_options
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
    key_field: str | None,
    row_keys: bool,
    input_format: str,
    max_document_bytes: int,
    **linking: Any,
) -> None:
    """Decide for each document of INDEX whether to keep it; if not, name the one it repeats.

    A document is dropped only for a kept one that is verified to be similar. No two kept documents
    form a pair that the index finds, that is, one that shares a bucket and is verified. Where large
    buckets have too many pairs to compare, a note estimates how many remain.

    With --output, each FILE is written again with only the records that are kept, in its own
    format: JSON Lines, CSV and TSV byte for byte, also .gz or .zst, and Parquet with its schema.
    FILE may be a folder or a pattern. An output appears when it is whole. Records without a
    document in INDEX are kept.

    With --filter and --output, a file without any document of the index is refused and nothing is
    written. Exit code 5 means that less than one record in a hundred has its document in the index.

    \b
    lshdb dedup news.lshdb --keep longest --only drop
    lshdb dedup news.lshdb --filter news.jsonl > unique.jsonl
    lshdb dedup news.lshdb news/*.parquet --output clean/
    lshdb dedup news.lshdb news.csv --output marked.csv --mark
    """
    passing = {
        "mark": mark,
        "overwrite": overwrite,
        "row_keys": row_keys,
        "input_format": input_format,
    }
    _check_usage(paths, output, filtered, passing, key_field)
    if (filtered or output) is not None and (only != "all" or output_format is not None):
        raise click.UsageError(
            "--filter and --output write records as they are; --only and --format do not apply"
        )
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
            "update": False,
        }
        if output is not None:
            how |= {"key_field": key_field, "max_document_bytes": max_document_bytes, **passing}
            code = _write(index, paths, output, answered, **how)
        elif filtered is not None:
            how |= {"key_field": key_field or "id", "max_document_bytes": max_document_bytes}
            code = _filter(index, filtered, answered, **how)
        else:
            found = index.dedup(only=only, **how)
            _list(index, found, output_format)
            answered(found)
            code = 0
    if code:
        note("less than one record in a hundred has a document in the index: is it the file?")
        ctx.exit(code)


def _check_usage(
    paths: tuple[str, ...],
    output: str | None,
    filtered: str | None,
    passing: dict[str, Any],
    key_field: str | None,
) -> None:
    """Raise UsageError for arguments that do not go together."""
    if output is None and paths:
        raise click.UsageError(
            f"{paths[0]} is a file to write again, and --output says where; to decide about an "
            "index alone, name it alone"
        )
    if output is not None and not paths:
        raise click.UsageError("--output writes files again: name them after the index")
    if output is not None and filtered is not None:
        raise click.UsageError("give either --filter or --output")
    if output is None:
        for name, value in passing.items():
            if value not in (False, "auto"):
                option = {"input_format": "input"}.get(name, name).replace("_", "-")
                raise click.UsageError(f"--{option} is for --output")
        if filtered is None and key_field is not None:
            raise click.UsageError("--key-field is for --filter and --output")


def _list(index: Index, found: Deduplication, output_format: str | None) -> None:
    rows = (
        (one.key, "keep" if one.keep else "drop", one.kept_key, one.similarity, one.method)
        for one in found
    )
    print_listing(
        *measured(index.params, COLUMNS, rows),
        output_format,
        empty="no documents",
        count=("document", "documents"),
    )
    _note_unchecked(found.unchecked)


def _filter(
    index: Index,
    path: str,
    answered: Callable[[Any], None],
    *,
    max_document_bytes: int,
    **how: Any,
) -> int:
    """Write the lines of a file that are kept; return the exit code."""
    lines = index.filter(path, max_document_bytes=max_document_bytes, **how)
    print_bytes(lines)
    counts = lines.counts
    note(f"{counts.kept:,} lines kept, {counts.dropped:,} dropped")
    if counts.unknown:
        note(f"{counts.unknown:,} of the kept lines have no document in the index")
    if counts.too_long:
        note(
            f"{counts.too_long:,} of those are longer than --max-document-bytes "
            f"({max_document_bytes:,}) and were passed on unread"
        )
    _note_unchecked(lines.unchecked)
    answered(lines)
    return REJECTED if counts.is_doubtful else 0


def _write(
    index: Index, paths: tuple[str, ...], output: str, answered: Callable[[Any], None], **how: Any
) -> int:
    """Write files again; return the exit code."""
    begun = time.monotonic()
    with TaskProgress("writing") as progress:
        done = index.dedup_files(paths, output, on_file=progress.wrote, **how)
    n_files = len(done.files)
    note(
        f"{done.kept + done.dropped:,} records read, {done.kept:,} kept, {done.dropped:,} dropped; "
        f"{n_files:,} {'file' if n_files == 1 else 'files'} written to {output} in "
        f"{time.monotonic() - begun:.1f} s"
    )
    if done.left_out:
        note(f"{done.left_out:,} other files, of other formats, were left out")
    if done.unknown:
        note(f"{done.unknown:,} of the kept records have no document in the index")
    if done.repeated:
        note(
            f"{done.repeated:,} records have the key of an earlier record; all records of one key "
            "are kept or dropped together"
        )
    _note_unchecked(done.unchecked)
    answered(done.newest_batch)
    return REJECTED if done.is_doubtful else 0


def _note_unchecked(unchecked: PairCount | None) -> None:
    if unchecked is not None:
        note(
            "large buckets made too many pairs of kept documents to compare: an estimated "
            f"{unchecked.value:,.0f} of them are near-duplicates (99 % interval "
            f"{unchecked.low:,.0f} to {unchecked.high:,.0f})"
        )
