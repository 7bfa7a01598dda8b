"""``lshdb pairs``: list all near-duplicate pairs, or those since a batch."""

from __future__ import annotations

import click

from lshdb import Index, PairSearch
from lshdb.arguments import Verify
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import (
    Command,
    agreement_options,
    index_argument,
    listing_options,
    max_bucket_option,
    memory_option,
    search_options,
    since_option,
)
from lshdb.cli._output import Column, note, print_listing
from lshdb.cli._words import loss_in_words, measured, note_unfinished, note_unverified
from lshdb.cli.cursors import advance_option, advancing

__all__ = ["COLUMNS", "command"]

COLUMNS = (
    Column("key1"),
    Column("key2"),
    Column("similarity", "similarity"),
    Column("method"),
)


@click.command("pairs", cls=Command)
@index_argument
@since_option("List only pairs with a document that came in since then.")
@advance_option
@max_bucket_option(
    "Leave out buckets, and groups of exact copies, of more documents than this; a note says how "
    "much that is.  [default: leave out none]"
)
@agreement_options
@memory_option
@search_options
@listing_options
def command(
    index_path: str,
    *,
    since: int | str | None,
    advance: bool,
    threshold: float | None,
    verify: Verify | None,
    max_bucket: int | str | None,
    memory: int,
    agree: tuple[str, ...],
    differ: tuple[str, ...],
    output_format: str | None,
) -> None:
    """List all pairs of near-duplicate documents of INDEX, in no particular order.

    Pairs are written as they are found. Exact copies are pairs at similarity 1.

    \b
    lshdb pairs news.lshdb
    lshdb pairs news.lshdb --since last --format jsonl
    lshdb pairs news.lshdb --since @press --advance > new.tsv
    lshdb pairs references.lshdb --agree doi,year
    """
    with (
        Index.open(index_path) as index,
        prompt_interrupts(),
        advancing(index, since, advance=advance) as answered,
    ):
        found = index.pairs(
            threshold=threshold, verify=verify, since=since, max_bucket=max_bucket, memory=memory,
            agree=agree, differ=differ,
        )  # fmt: skip
        note_unverified(index, threshold, verify)
        note_unfinished(index, since)
        rows = ((pair.key1, pair.key2, pair.similarity, pair.method) for pair in found)
        print_listing(
            *measured(index.params, COLUMNS, rows),
            output_format,
            empty="no pairs",
            count=("pair", "pairs"),
        )
        _note_left_out(found)
        answered(found)


def _note_left_out(found: PairSearch) -> None:
    left_out = found.left_out
    if left_out.buckets:
        note(
            f"left out: {left_out.buckets:,} buckets of more than {left_out.max_bucket:,} "
            f"documents, with {left_out.pairs:,} candidate pairs"
        )
    if left_out.copy_groups:
        note(
            f"left out: {left_out.copy_groups:,} groups of more than {left_out.max_bucket:,} exact "
            f"copies, with {left_out.copy_pairs:,} pairs"
        )
    if left_out.buckets or left_out.copy_groups:
        note(loss_in_words(found.loss))
