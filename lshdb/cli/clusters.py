"""``lshdb clusters``: groups of near-duplicates."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index
from lshdb.arguments import Linkage
from lshdb.cli._contents import Named, contents_options, with_contents
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import (
    Command,
    agreement_options,
    index_argument,
    linkage_option,
    linking_options,
    listing_options,
    since_option,
    update_edges,
)
from lshdb.cli._output import Column, print_listing
from lshdb.cli._words import note_unfinished
from lshdb.cli.cursors import advance_option, advancing

__all__ = ["command"]

COLUMNS = (Column("cluster"), Column("size", "number"), Column("key"))
NAMED = (Named("key", "text", "fields"),)


@click.command("clusters", cls=Command)
@index_argument
@click.option(
    "--min-size", type=int, default=2, show_default=True, metavar="N", help="Fewest documents."
)
@linkage_option
@since_option("List only clusters with a document that came in since then.")
@advance_option
@agreement_options
@linking_options
@contents_options
@listing_options
def command(
    index_path: str,
    *,
    min_size: int,
    linkage: Linkage,
    since: int | str | None,
    advance: bool,
    agree: tuple[str, ...],
    differ: tuple[str, ...],
    with_text: bool,
    with_fields: bool,
    output_format: str | None,
    **linking: Any,
) -> None:
    """List groups of documents of INDEX that near-duplicate pairs join, the largest first.

    One line per document. Each cluster is named after its oldest member, so its name is the same in
    every run. Documents added since the last run are compared with the rest first, and the pairs
    found are kept in the index.

    \b
    lshdb clusters news.lshdb
    lshdb clusters news.lshdb --threshold 0.9 --min-size 5 --format jsonl
    """
    with (
        Index.open(index_path) as index,
        prompt_interrupts(),
        advancing(index, since, advance=advance) as answered,
    ):
        update_edges(index, **linking)
        listing = index.clusters(
            threshold=linking["threshold"],
            min_size=min_size,
            linkage=linkage,
            since=since,
            agree=agree,
            differ=differ,
            update=False,
        )
        note_unfinished(index, since)
        rows = (
            (cluster.label, len(cluster.keys), key) for cluster in listing for key in cluster.keys
        )
        print_listing(
            *with_contents(
                index, COLUMNS, rows, NAMED, with_text=with_text, with_fields=with_fields
            ),
            output_format,
            empty="no clusters",
            count=("document", "documents"),
        )
        answered(listing)
