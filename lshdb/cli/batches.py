"""``lshdb batches``: what was added and when."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from lshdb import Index
from lshdb.cli._options import Command, index_argument, listing_options
from lshdb.cli._output import Column, chosen_format, note, print_listing

if TYPE_CHECKING:
    from lshdb.storage.tables.records import StoredBatch

__all__ = ["command"]

NAMES = (
    "batch_id",
    "add_id",
    "started_at",
    "finished_at",
    "source",
    "n_added",
    "n_replaced",
    "n_unchanged",
    "n_copies",
    "n_rejected",
    "n_removed",
    "has_ended",
    "night",
)
IN_TABLE = (
    Column("batch_id", "number", "batch"),
    Column("finished_at", "number", "finished (UTC)"),
    Column("n_added", "number", "added"),
    Column("n_replaced", "number", "replaced"),
    Column("n_unchanged", "number", "same"),
    Column("n_copies", "number", "copies"),
    Column("n_rejected", "number", "rejected"),
    Column("n_removed", "number", "removed"),
    Column("has_ended", "number", "done"),
    Column("night"),
    Column("source"),
)
"""A table leaves out when a batch began and its add, for lack of room, and counts that are 0 in all
rows. A note below it names the adds that have not ended."""


@click.command("batches", cls=Command)
@index_argument
@listing_options
def command(index_path: str, *, output_format: str | None) -> None:
    """List the batches of INDEX, oldest first.

    An add is one batch or more. has_ended is false for the batches of an add that was interrupted
    or is still running.

    \b
    lshdb batches news.lshdb
    lshdb batches news.lshdb --json
    lshdb batches news.lshdb -o batches.csv
    """
    with Index.open(index_path) as index:
        batches = index.batches()
    if chosen_format(output_format) == "table":
        columns = [
            column
            for column in IN_TABLE
            if column.name in ("n_added", "night")
            or any(getattr(batch, column.name) != 0 for batch in batches)
        ]
        rows = (tuple(_cell(batch, column.name) for column in columns) for batch in batches)
        print_listing(columns, rows, "table", empty="nothing was added yet")
        for add_id, of_add in itertools.groupby(batches, key=lambda batch: batch.add_id):
            ids = [batch.batch_id for batch in of_add if not batch.has_ended]
            if ids:
                named = f"batch {add_id}" if len(ids) == 1 else f"batches {add_id}-{ids[-1]}"
                note(f"the add of {named} has not ended")
    else:
        columns = [Column(name) for name in NAMES]
        rows = (tuple(getattr(batch, name) for name in NAMES) for batch in batches)
        print_listing(columns, rows, output_format)


def _cell(batch: StoredBatch, name: str) -> Any:
    """Return a value as a table shows it."""
    value = getattr(batch, name)
    if name == "has_ended":
        return "yes" if value else "no"
    return value[:16] if name == "finished_at" else value
