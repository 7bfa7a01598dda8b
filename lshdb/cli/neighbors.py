"""``lshdb neighbors``: list for every document its most similar ones."""

from __future__ import annotations

import itertools
from typing import Any

import click

from lshdb import Index, NearestNeighbors
from lshdb.cli._command import option
from lshdb.cli._contents import Named, contents_options, with_contents
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import (
    LINKING,
    Command,
    below_option,
    index_argument,
    linking_options,
    listing_options,
    since_option,
    update_edges,
)
from lshdb.cli._output import Column, RowBlock, note, print_listing
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


@click.command(
    "neighbors",
    cls=Command,
    short="top recall threshold below since advance no-update with-text with-fields json output",
)
@index_argument
@option(
    "--top",
    type=int,
    default=10,
    show_default=True,
    metavar="N",
    help="List at most N neighbors of each document.",
)
@option(
    "--recall",
    type=float,
    metavar="P",
    help="Find each of the nearest documents with this probability, however far they are. Where "
    "texts are stored, all are compared, and all are found.  [default: only near-duplicates, which "
    "are kept in the index]",
)
@since_option("List only the neighbors of documents that came in since WHEN.")
@advance_option
@below_option
@linking_options
@contents_options
@listing_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    index_path: str,
    *,
    top: int,
    recall: float | None,
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

    With --recall, list the most similar documents whether they are near-duplicates or not. All
    texts are compared; vectors and the like are searched as query does. Nothing is written.

    \b
    lshdb neighbors news.lshdb --top 3
    lshdb neighbors news.lshdb --top 10 --recall 1
    lshdb neighbors news.lshdb --since last --with-text
    """
    if recall is not None:
        _refuse_linking(ctx)
    with (
        Index.open(index_path) as index,
        prompt_interrupts(),
        advancing(index, since, advance=advance) as answered,
    ):
        if recall is None:
            update_edges(index, **linking)
        neighbors = index.neighbors(
            top=top, threshold=linking["threshold"], below=below, recall=recall, since=since,
            update=False,
        )  # fmt: skip
        note_unfinished(index, since)
        rows = (
            RowBlock(
                (
                    block.keys, block.ranks, block.neighbor_keys, block.similarities,
                    itertools.repeat(block.method),
                ),
                len(block),
            )
            for block in neighbors.columns()
        )  # fmt: skip
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
        if (
            isinstance(neighbors, NearestNeighbors)
            and recall is not None
            and neighbors.reached < recall
        ):
            note(
                f"recall {recall:g} was not reached for every document, but {neighbors.reached:.3f}"
            )
        answered(neighbors)


def _refuse_linking(ctx: click.Context) -> None:
    """Raise UsageError for an option about stored pairs, which --recall does not use."""
    for name in sorted(set(LINKING) - {"threshold"}):
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--recall uses no pairs found before; leave out --{option}",
                ctx,
            )
