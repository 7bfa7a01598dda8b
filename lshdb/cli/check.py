"""``lshdb check``: is what is on disk what was written?"""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._errors import DAMAGED
from lshdb.cli._interrupts import prompt_interrupts
from lshdb.cli._options import index_argument, listing_options
from lshdb.cli._output import Column, chosen_format, flush_output, note, print_listing

__all__ = ["command"]

NAMES = ("kind", "where", "what", "affected", "advice")
IN_TABLE = (Column("kind"), Column("affected"), Column("found", "prose"))
"""A table has one column for place and finding, and the advice below it, once a kind."""


@click.command("check", short_help="Compare everything on disk with what was written.")
@index_argument
@click.option(
    "--quick",
    is_flag=True,
    help="Look at headers and counts alone: no signature row, posting or text is read.",
)
@listing_options
@click.pass_context
def command(ctx: click.Context, index_path: str, *, quick: bool, output_format: str | None) -> None:
    """Read all of INDEX and list what is not as it was written.

    Each finding says what is damaged, where, which documents are affected, and what to do. The exit
    code is 4 if there is anything to list. Nothing is changed.
    """
    notes: list[str] = []
    with Index.open(index_path) as index, prompt_interrupts():
        findings = index.check(quick=quick, on_note=notes.append)
    is_table = chosen_format(output_format) == "table"
    if is_table:
        in_table = ((one.kind, one.affected, f"{one.where}: {one.what}") for one in findings)
        print_listing(IN_TABLE, in_table, "table")
    else:
        rows = (tuple(getattr(one, name) for name in NAMES) for one in findings)
        print_listing([Column(name) for name in NAMES], rows, output_format)
    flush_output()
    for text in notes:
        note(f"note: {text}")
    if not findings:
        note("no findings" + " in headers and counts" * quick)
        return
    note(f"{len(findings):,} {'findings' if len(findings) > 1 else 'finding'}")
    if is_table:
        for advice in dict.fromkeys(one.advice for one in findings):
            kinds = dict.fromkeys(one.kind for one in findings if one.advice == advice)
            note(f"hint ({', '.join(kinds)}): {advice}")
    ctx.exit(DAMAGED)
