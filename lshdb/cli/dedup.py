"""``lshdb dedup``: which documents to keep, or the lines of a file that survive."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index, PairCount
from lshdb.arguments import Only
from lshdb.cli._errors import REJECTED
from lshdb.cli._long_work import prompt_interrupts
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
@click.option(
    "--keep",
    default="first",
    show_default=True,
    metavar="WHICH",
    help="Which of several similar documents to keep: first, last, longest, shortest, or "
    "field:NAME (field:-NAME) for the largest (smallest) value of a column of the index, or of a "
    "field of the filtered lines.",
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
    default="id",
    show_default=True,
    metavar="NAME",
    help="With --filter: the field that holds a document's key.",
)
@document_limit_option
@linking_options
@listing_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    index_path: str,
    *,
    keep: str,
    against: bool,
    since: int | str | None,
    advance: bool,
    only: Only,
    filtered: str | None,
    key_field: str,
    max_document_bytes: int,
    output_format: str | None,
    **linking: Any,
) -> None:
    """Decide for each document of INDEX whether to keep it; if not, name the one it repeats.

    A document is dropped only for a kept one that is verified to be similar. No two kept documents
    form a pair that the index finds, that is, one that shares a bucket and is verified. Where large
    buckets have too many pairs to compare, a note estimates how many remain.

    With --filter, a file without any document of the index is refused and nothing is written. Exit
    code 5 means that less than one line in a hundred has its document in the index.

    \b
    lshdb dedup news.lshdb --keep longest --only drop
    lshdb dedup news.lshdb --filter news.jsonl > unique.jsonl
    """
    if filtered is not None and (only != "all" or output_format is not None):
        raise click.UsageError("--filter writes lines unchanged; --only and --format do not apply")
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
        if filtered is None:
            found = index.dedup(only=only, **how)
            rows = (
                (
                    one.key,
                    "keep" if one.keep else "drop",
                    one.kept_key,
                    one.similarity,
                    one.method,
                )
                for one in found
            )
            print_listing(
                *measured(index.params, COLUMNS, rows),
                output_format,
                empty="no documents",
                count=("document", "documents"),
            )
            _note_unchecked(found.unchecked)
            answered(found)
            return
        lines = index.filter(
            filtered, key_field=key_field, max_document_bytes=max_document_bytes, **how
        )
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
        if counts.is_doubtful:
            note("less than one line in a hundred has a document in the index: is it the file?")
            ctx.exit(REJECTED)


def _note_unchecked(unchecked: PairCount | None) -> None:
    if unchecked is not None:
        note(
            "large buckets made too many pairs of kept documents to compare: an estimated "
            f"{unchecked.value:,.0f} of them are near-duplicates (99 % interval "
            f"{unchecked.low:,.0f} to {unchecked.high:,.0f})"
        )
