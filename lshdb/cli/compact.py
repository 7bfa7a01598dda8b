"""``lshdb compact``: free the space of removed documents."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._long_work import TaskProgress, prompt_interrupts
from lshdb.cli._options import Command, index_argument, lock_option
from lshdb.cli._output import note
from lshdb.cli._words import counted
from lshdb.cli.stats import readable_size

__all__ = ["command"]


@click.command("compact", cls=Command)
@index_argument
@lock_option
def command(index_path: str, *, lock_timeout: float) -> None:
    """Free the space that removed and replaced documents of INDEX still take.

    Documents, clusters and every answer stay the same. 'lshdb stats' shows how much space this
    frees. Others may read meanwhile. It needs space for a second copy of the index. If it is killed
    at any moment, the index is as before or as after: run it again.

    \b
    lshdb compact news.lshdb
    lshdb compact news.lshdb --lock-timeout 600
    lshdb compact news.lshdb --quiet
    """
    with (
        Index.open(index_path) as index,
        TaskProgress("compacting"),
        prompt_interrupts(),
    ):
        result = index.compact(lock_timeout=lock_timeout)
    note(
        f"{result.bytes_before:,} bytes before ({readable_size(result.bytes_before)}), "
        f"{result.bytes_after:,} after ({readable_size(result.bytes_after)}); "
        f"{counted(result.dropped, 'unused signature')} dropped, {result.signatures:,} kept"
    )
