"""``lshdb export``: write an index to files in open formats."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.arguments import TableFormat
from lshdb.cli._command import complete_folders, option
from lshdb.cli._long_work import TaskProgress
from lshdb.cli._options import Command, index_argument
from lshdb.cli._output import note

__all__ = ["command"]


@click.command("export", cls=Command)
@index_argument
@option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    shell_complete=complete_folders,
    help="The folder to write: a new one, or an empty one that is there.",
)
@option(
    "--format",
    "tables",
    type=click.Choice(["jsonl", "parquet", "delta"]),
    metavar="FORMAT",
    default="jsonl",
    show_default=True,
    help="Format of the tables: {choices}. parquet needs lshdb[parquet]. delta, a dataset for "
    "other engines, needs lshdb[spark].",
)
def command(index_path: str, *, output: str, tables: TableFormat) -> None:
    """Write INDEX, as of its last commit, to files in the folder DIR.

    Writes documents with their texts, batches, signatures, postings, edges and clusters. That is
    all that lshdb import needs to make the index again, and other engines need to join the
    postings; see lshdb guide export for the files. Others may write INDEX meanwhile. DIR is
    complete and synced when the command ends; if it fails or is killed before, DIR does not exist.

    \b
    lshdb export news.lshdb -o news-export
    lshdb export news.lshdb -o news-parquet --format parquet
    lshdb export news.lshdb -o news-dataset --format delta
    """
    with Index.open(index_path) as index, TaskProgress("exporting"):
        index.export(output, format=tables)
    note(f"exported to {output}")
