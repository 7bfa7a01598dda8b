"""``lshdb check``: is what is on disk what was written?"""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._errors import DAMAGED
from lshdb.cli._interrupts import prompt_interrupts
from lshdb.cli._options import index_argument, listing_options
from lshdb.cli._output import Column, note, print_listing

__all__ = ["command"]


@click.command("check", short_help="Compare everything on disk with what was written.")
@index_argument
@listing_options
@click.pass_context
def command(ctx: click.Context, index_path: str, *, output_format: str | None) -> None:
    """Read all of INDEX and list what is not as it was written.

    The exit code is 4 if there is anything to list. Nothing is changed.
    """
    with Index.open(index_path) as index, prompt_interrupts():
        findings = index.check()
    columns = (Column("where", "text"), Column("what", "prose"))
    print_listing(columns, ((one.where, one.what) for one in findings), output_format)
    if not findings:
        note("no findings")
        return
    note(f"{len(findings):,} {'findings' if len(findings) > 1 else 'finding'}")
    ctx.exit(DAMAGED)
