"""``lshdb export``: an index as files in open formats."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._options import Command, index_argument
from lshdb.cli._output import note
from lshdb.cli._progress import TaskProgress

__all__ = ["command"]


@click.command("export", cls=Command, short_help="Write an index to files in open formats.")
@index_argument
@click.argument("path", metavar="DIR")
@click.option(
    "--format",
    "tables",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="Of the tables; parquet needs the extra lshdb[parquet].",
)
def command(index_path: str, path: str, *, tables: str) -> None:
    """Write INDEX to files in DIR, where nothing must be yet: the state of the last commit.

    Documents with their texts, batches, signatures, postings, edges and clusters, described in
    docs/export.md: all that lshdb import needs to make the index again, and other engines to join
    the postings. Writers of INDEX go on meanwhile. DIR is there, whole and synced, when the command
    ends, and not at all if it is killed before.

    \b
    lshdb export news.lshdb news-export
    lshdb export news.lshdb news-parquet --format parquet
    """
    with Index.open(index_path) as index, TaskProgress("exporting") as progress:
        index.export(path, format=tables, on_progress=progress.reached)
    note(f"exported to {path}")
