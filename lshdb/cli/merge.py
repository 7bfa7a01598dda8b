"""``lshdb merge``: copy documents of other indexes into one, without signing them again."""

from __future__ import annotations

import contextlib

import click

from lshdb import Index
from lshdb.arguments import OnConflict
from lshdb.cli._command import Argument, complete_folders
from lshdb.cli._documents_in import committing, summary
from lshdb.cli._options import Command, conflict_option, lock_option
from lshdb.cli._output import note

__all__ = ["command"]


@click.command("merge", cls=Command)
@click.argument(
    "index_path",
    metavar="INTO",
    cls=Argument,
    missing="the index that gets the documents",
    shell_complete=complete_folders,
)
@click.argument(
    "paths",
    metavar="FROM...",
    nargs=-1,
    required=True,
    cls=Argument,
    missing="the indexes whose documents are copied",
    shell_complete=complete_folders,
)
@conflict_option()
@lock_option
def command(
    index_path: str, paths: tuple[str, ...], *, on_conflict: OnConflict, lock_timeout: float
) -> None:
    """Copy the documents of the indexes FROM into INTO, without signing any of them again.

    All must have been made with the same parameters; bands, rows, threshold and recall may differ.
    INTO may store no texts even if FROM does. The indexes FROM are not changed, and others may
    write to them meanwhile; each is read as it is when the merge begins.

    Batches are committed as they fill. If you merge again, documents already there stay unchanged
    and the rest are added.

    \b
    lshdb merge year.lshdb january.lshdb february.lshdb
    lshdb merge year.lshdb march.lshdb --on-conflict skip
    lshdb merge year.lshdb april.lshdb --lock-timeout 600
    """
    with contextlib.ExitStack() as opened:
        index = opened.enter_context(Index.open(index_path))
        sources = [opened.enter_context(Index.open(path)) for path in paths]
        with committing("merging") as progress:
            result = index.merge(
                *sources,
                on_conflict=on_conflict,
                lock_timeout=lock_timeout,
                on_commit=progress.committed,
            )
    note(summary(result))
