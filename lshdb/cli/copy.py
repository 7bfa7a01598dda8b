"""``lshdb copy``: a consistent copy of an index while others write to it."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._options import Command, database_options, index_argument
from lshdb.cli._output import note
from lshdb.cli._progress import TaskProgress

__all__ = ["command"]


@click.command("copy", cls=Command, short_help="Copy an index while others write to it.")
@index_argument
@click.argument("path", metavar="DEST")
@database_options
def command(index_path: str, path: str, *, database: str | None, schema: str | None) -> None:
    """Copy INDEX to DEST, where nothing must be yet: the state of the last commit.

    Writers and readers of INDEX go on meanwhile. DEST is there, whole and synced, when the command
    ends, and not at all if it is killed before. It keeps the uuid of INDEX: it is the same index at
    one moment. If both are written to afterwards, never exchange files between them.

    The database of the copy lies in DEST, wherever that of INDEX lies, unless --database says
    otherwise.

    \b
    lshdb copy news.lshdb /backup/news-monday.lshdb
    """
    with Index.open(index_path) as index:
        with TaskProgress("copying"):
            index.copy(path, database=database, schema=schema)
        with Index.open(path) as copy:
            stats = copy.stats()
    size = stats.signature_bytes + stats.database_bytes
    note(f"copied {stats.documents:,} documents, {size / 2**20:,.1f} MiB, to {path}")
