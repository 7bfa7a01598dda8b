"""``lshdb copy``: copy an index consistently while others write to it."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._command import Argument, complete_folders
from lshdb.cli._creation_options import database_options
from lshdb.cli._long_work import TaskProgress
from lshdb.cli._options import Command, index_argument
from lshdb.cli._output import note
from lshdb.cli._words import counted

__all__ = ["command"]


@click.command("copy", cls=Command)
@index_argument
@click.argument(
    "path",
    metavar="DEST",
    cls=Argument,
    missing="the folder of the new index",
    shell_complete=complete_folders,
)
@database_options
def command(index_path: str, path: str, *, database: str | None, schema: str | None) -> None:
    """Copy INDEX, as of its last commit, to DEST, a new or empty folder.

    Others may read and write INDEX meanwhile. DEST is complete and synced when the command ends; if
    the command is killed before, DEST does not exist. The copy keeps the uuid of INDEX: it is the
    same index at one moment. If you write to both afterwards, never exchange files between them.

    The database of the copy lies in DEST, wherever that of INDEX lies, unless you give --database.

    \b
    lshdb copy news.lshdb /backup/news-monday.lshdb
    lshdb copy news.lshdb server.lshdb --database postgresql+psycopg://db/news
    lshdb copy server.lshdb local.lshdb
    """
    with Index.open(index_path) as index:
        with TaskProgress("copying"):
            index.copy(path, database=database, schema=schema)
        with Index.open(path) as copy:
            stats = copy.stats()
    size = stats.signature_bytes + stats.database_bytes
    note(f"copied {counted(stats.documents, 'document')}, {size / 2**20:,.1f} MiB, to {path}")
