"""``lshdb clusters``: groups of near-duplicates."""

from __future__ import annotations

from typing import Any

import click

from lshdb.arguments import Linkage
from lshdb.cli._command import option
from lshdb.cli._contents import Named, contents_options, with_contents
from lshdb.cli._index_or_files import file_options, index_or_files, opened_index
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import (
    LINKING,
    Command,
    agreement_options,
    linkage_option,
    linking_options,
    listing_options,
    since_option,
    update_edges,
    workers_option,
)
from lshdb.cli._output import Column, print_listing
from lshdb.cli._words import note_unfinished
from lshdb.cli.cursors import advance_option, advancing

__all__ = ["command"]

COLUMNS = (Column("cluster"), Column("size", "number"), Column("key"))
NAMED = (Named("key", "text", "fields"),)


@click.command(
    "clusters",
    cls=Command,
    short="min-size threshold linkage since advance agree text-field "
    "row-keys no-update with-text json output",
)
@index_or_files
@option(
    "--min-size",
    type=int,
    default=2,
    show_default=True,
    metavar="N",
    help="List only clusters of at least N documents.",
)
@linkage_option
@since_option("List only clusters with a document that came in since WHEN.")
@advance_option
@agreement_options
@linking_options
@contents_options
@listing_options
@workers_option
@file_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    places: tuple[str, ...],
    *,
    min_size: int,
    linkage: Linkage,
    since: int | str | None,
    advance: bool,
    agree: tuple[str, ...],
    differ: tuple[str, ...],
    with_text: bool,
    with_fields: bool,
    workers: int | None,
    output_format: str | None,
    **options: Any,
) -> None:
    """List groups of documents of INDEX, or of FILEs, that near-duplicate pairs join.

    The largest come first, with one line per document. Each cluster is named after its oldest
    member, so its name is the same in every run. Documents that were added to an index since the
    last run are compared with the rest first, and the pairs found are kept in the index.

    Files, folders, patterns, URLs and - for standard input need no index: temporary files stand in
    for one, with the same answer. The options under Input and New index are those of lshdb add, and
    --threshold is the index's. Files of records without a field id have path and row number as
    keys.

    \b
    lshdb clusters news.jsonl
    lshdb clusters news.lshdb
    lshdb clusters news.lshdb --threshold 0.9 --min-size 5 --format jsonl
    lshdb clusters news.lshdb --since last --with-text
    """
    linking = {name: options.pop(name) for name in LINKING}
    with (
        prompt_interrupts(),
        opened_index(
            ctx,
            places,
            options,
            threshold=linking["threshold"],
            workers=workers,
            lasting=("since", "advance", "no_update", "lock_timeout"),
        ) as (index, code),
        advancing(index, since, advance=advance) as answered,
    ):
        update_edges(index, workers=workers, **linking)
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
    if code:
        ctx.exit(code)
