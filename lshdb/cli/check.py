"""``lshdb check``: compare what is on disk with what was written; repair what can be proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lshdb import Index
from lshdb.cli._command import option
from lshdb.cli._errors import DAMAGED
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import Command, index_argument, listing_options, lock_option
from lshdb.cli._output import (
    Column,
    chosen_format,
    complain,
    flush_output,
    note,
    print_listing,
    working,
)
from lshdb.cli._words import counted

if TYPE_CHECKING:
    from lshdb.maintain.check import Finding

__all__ = ["command"]

_KEYS_NAMED = 10
NAMES = ("kind", "where", "what", "affected", "advice")
IN_TABLE = (Column("kind"), Column("affected"), Column("found", "prose"))
"""A table has one column for place and finding. The advice follows below it, once per kind."""


@click.command("check", cls=Command)
@index_argument
@option(
    "--quick",
    is_flag=True,
    help="Check only headers and counts: read no signature row, posting or text.",
)
@option(
    "--repair",
    is_flag=True,
    help="If anything is damaged, rebuild INDEX from all that can be proved; other documents go "
    "into a file beside it. Needs space for a second index.",
)
@option(
    "--mend-times",
    is_flag=True,
    help="Check nothing. Correct times later than now, or out of order, which a wrong "
    "clock has given.",
)
@lock_option
@listing_options
@click.pass_context
def command(
    ctx: click.Context,
    index_path: str,
    *,
    quick: bool,
    repair: bool,
    mend_times: bool,
    lock_timeout: float,
    output_format: str | None,
) -> None:
    """Read all of INDEX, and list everything that is not as it was written.

    Each finding says what is damaged, where, which documents are affected, and what to do. The exit
    code is 4 if there are findings; with --repair, if a document or its kept fields were lost.
    Without --repair nothing is changed, and writers need not wait.

    \b
    lshdb check news.lshdb
    lshdb check news.lshdb --quick
    lshdb check news.lshdb --repair
    """
    if quick and repair:
        raise click.UsageError("--repair checks everything; leave out --quick")
    if mend_times:
        if quick or repair:
            raise click.UsageError("--mend-times checks nothing; give it alone")
        _mend_times(index_path, lock_timeout)
        return
    if repair:
        _repair(ctx, index_path, lock_timeout, output_format)
        return
    notes: list[str] = []
    with Index.open(index_path) as index, prompt_interrupts(), working("checking"):
        findings = index.check(quick=quick, on_note=notes.append)
    _list(findings, output_format)
    for text in notes:
        note(f"note: {text}")
    if not findings:
        note("no findings" + " in headers and counts" * quick)
        return
    note(counted(len(findings), "finding"))
    if chosen_format(output_format) == "table":
        for advice in dict.fromkeys(finding.advice for finding in findings):
            kinds = dict.fromkeys(finding.kind for finding in findings if finding.advice == advice)
            note(f"hint ({', '.join(kinds)}): {advice}")
    ctx.exit(DAMAGED)


def _mend_times(index_path: str, lock_timeout: float) -> None:
    with Index.open(index_path) as index:
        mended = index.mend_times(lock_timeout=lock_timeout)
    numbers = ", ".join(map(str, mended.batches))
    batches = counted(len(mended.batches), "batch", "batches") + f" ({numbers})" * bool(numbers)
    note(f"dated {batches} and {counted(mended.documents, 'document')}")


def _repair(
    ctx: click.Context, index_path: str, lock_timeout: float, output_format: str | None
) -> None:
    with prompt_interrupts(), working("checking and repairing"):
        result = Index.repair(index_path, lock_timeout=lock_timeout)
    _list(result.findings, output_format)
    if not result.findings:
        note("no findings; nothing was changed")
        return
    findings = counted(len(result.findings), "finding")
    note(f"{findings}; repaired: {counted(result.documents, 'document')} in the index, all proved")
    if result.signed:
        note(f"{counted(result.signed, 'signature')} made again from stored texts")
    if result.vouched:
        note(f"{counted(result.vouched, 'signature')} proved by their postings")
    if result.batches:
        numbers = ", ".join(map(str, result.batches))
        note(f"figures of batch {numbers} were worked out from the documents and may be wrong")
    if result.lost:
        names = ", ".join(result.lost[:_KEYS_NAMED]) + ", ..." * (len(result.lost) > _KEYS_NAMED)
        complain(f"lost: {counted(len(result.lost), 'document')}: {names}")
    if result.has_lost_fields:
        complain("lost: kept fields that are not proved")
    if result.quarantine:
        complain(f"what is known of what was lost is in {result.quarantine}")
    if result.quarantine or result.has_lost_fields:
        ctx.exit(DAMAGED)


def _list(findings: list[Finding], output_format: str | None) -> None:
    if chosen_format(output_format) == "table":
        in_table = (
            (finding.kind, finding.affected, f"{finding.where}: {finding.what}")
            for finding in findings
        )
        print_listing(IN_TABLE, in_table, "table")
    else:
        rows = (tuple(getattr(finding, name) for name in NAMES) for finding in findings)
        print_listing([Column(name) for name in NAMES], rows, output_format)
    flush_output()
