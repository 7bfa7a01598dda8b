"""``lshdb pairs``: all near-duplicate pairs, or those that came in since a batch."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._interrupts import prompt_interrupts
from lshdb.cli._options import index_argument, listing_options, search_options
from lshdb.cli._output import Column, print_listing
from lshdb.cli._searching import note_recall

__all__ = ["COLUMNS", "command"]

COLUMNS = (
    Column("key1"),
    Column("key2"),
    Column("similarity", "similarity"),
    Column("method"),
)


def _batch(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "last":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a batch's number nor 'last'") from None


@click.command("pairs", short_help="List all near-duplicate pairs.")
@index_argument
@click.option(
    "--since",
    callback=_batch,
    metavar="BATCH",
    help="Only pairs with a document of this batch or a later one; 'last' is the last add.",
)
@search_options
@listing_options
def command(
    index_path: str,
    *,
    since: int | str | None,
    threshold: float | None,
    verify: str | None,
    output_format: str | None,
) -> None:
    """All pairs of documents of INDEX that are near-duplicates, in no particular order.

    Pairs are written as they are found. Exact copies are pairs at similarity 1.

    \b
    lshdb pairs news.lshdb
    lshdb pairs news.lshdb --since last --format jsonl
    """
    with Index.open(index_path) as index, prompt_interrupts():
        found = index.pairs(threshold=threshold, verify=verify, since=since)
        note_recall(index, threshold, verify)
        print_listing(
            COLUMNS,
            ((pair.key1, pair.key2, pair.similarity, pair.method) for pair in found),
            output_format,
            empty="no pairs",
            count=("pair", "pairs"),
        )
