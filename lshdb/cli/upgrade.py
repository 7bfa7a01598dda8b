"""``lshdb upgrade``: bring an index of an older version up to date."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._options import Command, index_argument, lock_option
from lshdb.cli._output import note

__all__ = ["command"]


@click.command("upgrade", cls=Command)
@index_argument
@lock_option
def command(index_path: str, *, lock_timeout: float) -> None:
    """Bring the schema of INDEX up to date in one transaction: all of it, or nothing."""
    before, after = Index.upgrade(index_path, lock_timeout=lock_timeout)
    if before == after:
        note(f"the schema is current: revision {after}")
    else:
        note(f"upgraded the schema from revision {before} to {after}")
