"""``lshdb import``: make an index from what ``lshdb export`` wrote."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._command import Argument, complete_folders
from lshdb.cli._creation_options import database_options
from lshdb.cli._long_work import TaskProgress
from lshdb.cli._options import Command
from lshdb.cli._output import note
from lshdb.cli._words import counted

__all__ = ["command"]


@click.command("import", cls=Command)
@click.argument(
    "folder",
    metavar="DIR",
    cls=Argument,
    missing="the folder that lshdb export wrote",
    shell_complete=complete_folders,
)
@click.argument(
    "path",
    metavar="INDEX",
    cls=Argument,
    missing="the folder of the new index",
    shell_complete=complete_folders,
)
@database_options
def command(folder: str, path: str, *, database: str | None, schema: str | None) -> None:
    """Make INDEX, a new or empty folder, from the files that lshdb export wrote to DIR.

    Every file is compared with its checksum first; those of a dataset (--format delta) carry
    checksums of their own. Nothing is signed again: documents, signatures, batches and clusters are
    as they were, and so is every answer. INDEX appears when it is complete; if the command is
    killed before, INDEX does not exist. A dataset may be elsewhere, at a URL such as s3://bucket/news;
    credentials come from the environment.

    \b
    lshdb import news-export news.lshdb
    lshdb import news-export news.lshdb --database postgresql+psycopg://db/news
    lshdb import s3://bucket/news-delta news.lshdb
    """
    with TaskProgress("importing"):
        index = Index.from_export(folder, path, database=database, schema=schema)
    with index:
        documents = index.stats().documents
    note(f"imported {counted(documents, 'document')} into {path}")
