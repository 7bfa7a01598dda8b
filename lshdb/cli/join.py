"""``lshdb join``: list near-duplicate pairs across two indexes."""

from __future__ import annotations

import os

import click

from lshdb import Index
from lshdb.arguments import Verify
from lshdb.cli._command import Argument, complete_folders
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import Command, listing_options, search_options
from lshdb.cli._output import print_listing
from lshdb.cli._words import measured, note_unverified, pair_rows
from lshdb.cli.pairs import COLUMNS

__all__ = ["command"]


@click.command("join", cls=Command)
@click.argument(
    "path_a",
    metavar="INDEX_A",
    cls=Argument,
    missing="the folder of an index",
    shell_complete=complete_folders,
)
@click.argument(
    "path_b",
    metavar="INDEX_B",
    cls=Argument,
    missing="the folder of the other index",
    shell_complete=complete_folders,
)
@search_options
@listing_options
def command(
    path_a: str,
    path_b: str,
    *,
    threshold: float | None,
    verify: Verify | None,
    output_format: str | None,
) -> None:
    """List all near-duplicate pairs of a document of INDEX_A and one of INDEX_B.

    Both must have been made with the same parameters; only threshold, recall and whether texts are
    stored may differ. The threshold is that of INDEX_A unless you give --threshold. Pairs are
    written as they are found, in no particular order, the key in INDEX_A first.

    \b
    lshdb join tonight.lshdb archive.lshdb
    lshdb join tonight.lshdb archive.lshdb --threshold 0.9 -o pairs.csv
    lshdb join tonight.lshdb archive.lshdb --json
    """
    if os.path.exists(path_a) and os.path.exists(path_b) and os.path.samefile(path_a, path_b):
        raise click.UsageError(
            f"both are the index {path_a}: lshdb pairs {path_a} lists the pairs within one index",
            click.get_current_context(),
        )
    with Index.open(path_a) as index, Index.open(path_b) as index_b, prompt_interrupts():
        pairs = index.join(index_b, threshold=threshold, verify=verify)
        note_unverified(index, threshold, verify)
        print_listing(
            *measured(index.params, COLUMNS, pair_rows(pairs)),
            output_format,
            empty="no pairs",
            count=("pair", "pairs"),
        )
