"""``lshdb import``: an index of what ``lshdb export`` wrote."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._options import Command, database_options
from lshdb.cli._output import note
from lshdb.cli._progress import TaskProgress

__all__ = ["command"]


@click.command("import", cls=Command, short_help="Make an index of an export.")
@click.argument("folder", metavar="DIR")
@click.argument("path", metavar="INDEX")
@database_options
def command(folder: str, path: str, *, database: str | None, schema: str | None) -> None:
    """Make INDEX, where nothing must be yet, of the files that lshdb export wrote to DIR.

    Every file is compared with its checksum first. Nothing is signed again: documents, signatures,
    batches and clusters are as they were, and so is every answer. INDEX is there when it is whole,
    and not at all if the command is killed before.

    \b
    lshdb import news-export news.lshdb
    """
    with TaskProgress("importing") as progress:
        index = Index.from_export(
            folder, path, database=database, schema=schema, on_progress=progress.reached
        )
    with index:
        documents = index.stats().documents
    note(f"imported {documents:,} documents into {path}")
