"""``lshdb upgrade``: bring an index of an older version up to date."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._long_work import TaskProgress
from lshdb.cli._options import Command, index_argument, lock_option, workers_option
from lshdb.cli._output import note

__all__ = ["command"]


@click.command("upgrade", cls=Command)
@index_argument
@workers_option
@lock_option
def command(index_path: str, *, workers: int | None, lock_timeout: float) -> None:
    """Bring INDEX up to date in one transaction: all of it, or nothing.

    An index of format 1 is signed anew from its stored texts. That takes as long as adding them,
    and room for a second index.

    \b
    lshdb upgrade news.lshdb
    lshdb upgrade news.lshdb --workers 4
    lshdb upgrade news.lshdb --lock-timeout 600
    """
    with TaskProgress("upgrading"):
        before, after = Index.upgrade(
            index_path,
            workers=workers,
            lock_timeout=lock_timeout,
        )
    if before == after:
        note(f"the schema is current: revision {after}")
    else:
        note(f"upgraded the schema from revision {before} to {after}")
