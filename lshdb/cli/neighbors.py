"""``lshdb neighbors``: list for every document its most similar ones."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index
from lshdb.cli._contents import Named, contents_options, with_contents
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import (
    Command,
    below_option,
    index_argument,
    linking_options,
    listing_options,
    since_option,
    update_edges,
)
from lshdb.cli._output import Column, print_listing
from lshdb.cli._words import measured, note_unfinished
from lshdb.cli.cursors import advance_option, advancing

__all__ = ["command"]

COLUMNS = (
    Column("key"),
    Column("rank", "number"),
    Column("neighbor"),
    Column("similarity", "similarity"),
    Column("method"),
)
NAMED = (Named("key", "text", "fields"), Named("neighbor", "neighbor_text", "neighbor_fields"))


@click.command("neighbors", cls=Command)
@index_argument
@click.option(
    "--top", type=int, default=10, show_default=True, metavar="N", help="Most per document."
)
@since_option("List only the neighbors of documents that came in since then.")
@advance_option
@below_option
@linking_options
@contents_options
@listing_options
def command(
    index_path: str,
    *,
    top: int,
    since: int | str | None,
    advance: bool,
    below: float | None,
    with_text: bool,
    with_fields: bool,
    output_format: str | None,
    **linking: Any,
) -> None:
    """List for every document of INDEX its most similar near-duplicates.

    Documents added since the last run are compared with the rest first, and the pairs found are
    kept in the index. In SQL, the view neighbor holds all of them.
    """
    with (
        Index.open(index_path) as index,
        prompt_interrupts(),
        advancing(index, since, advance=advance) as answered,
    ):
        update_edges(index, **linking)
        found = index.neighbors(
            top=top, threshold=linking["threshold"], below=below, since=since, update=False
        )
        note_unfinished(index, since)
        rows = ((one.key, one.rank, one.neighbor, one.similarity, one.method) for one in found)
        print_listing(
            *with_contents(
                index,
                *measured(index.params, COLUMNS, rows),
                NAMED,
                with_text=with_text,
                with_fields=with_fields,
            ),
            output_format,
            empty="no document has a neighbor",
            count=("neighbor", "neighbors"),
        )
        answered(found)
