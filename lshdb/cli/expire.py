"""``lshdb expire``: remove documents that no add has seen for long."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from lshdb import Index, ParameterError
from lshdb.arguments import parse_moment
from lshdb.cli._command import option
from lshdb.cli._options import Command, index_argument, lock_option
from lshdb.cli._output import agrees, note

__all__ = ["command"]

_NOT_AGREED = 1


@click.command("expire", cls=Command)
@index_argument
@option(
    "--not-seen-since",
    metavar="DATE",
    help="Remove documents that were last added before this time in UTC: YYYY-MM-DD, or with "
    "HH:MM:SS.",
)
@option(
    "--older-than",
    metavar="AGE",
    help="Remove documents that were last added longer ago than this: 90d, 12h; s, m, h, d or w.",
)
@option("--dry-run", is_flag=True, help="Only count the documents.")
@lock_option
@click.pass_context
def command(
    ctx: click.Context,
    index_path: str,
    *,
    not_seen_since: str | None,
    older_than: str | None,
    dry_run: bool,
    lock_timeout: float,
) -> None:
    """Remove the documents of INDEX that no add has brought since a date.

    A document counts as seen each time an add brings it, changed or not. On a terminal, it asks
    before it removes all documents.

    \b
    lshdb expire news.lshdb --older-than 90d
    lshdb expire news.lshdb --not-seen-since 2026-01-01 --dry-run
    lshdb expire news.lshdb --older-than 12h --lock-timeout 600
    """
    if (not_seen_since is None) == (older_than is None):
        raise click.UsageError("give either --not-seen-since or --older-than")
    since = _moment(not_seen_since, older_than or "")
    with Index.open(index_path) as index:

        def question() -> str:
            n_gone = index.expire(since, dry_run=True).removed
            is_all = 0 < n_gone == len(index)
            return f"these are all {n_gone:,} documents of {index_path}; remove them?" * is_all

        if not dry_run and not agrees(question):
            note("nothing was removed")
            ctx.exit(_NOT_AGREED)
        result = index.expire(since, dry_run=dry_run, lock_timeout=lock_timeout)
    would = "would be removed" if dry_run else "removed"
    note(f"{result.removed:,} {would}: not seen since {since:%Y-%m-%d %H:%M:%S} UTC")


def _moment(not_seen_since: str | None, older_than: str) -> datetime:
    """Return the moment that the option names: a date, or a time ago."""
    try:
        if not_seen_since is not None:
            form = "a date such as 2026-01-31 or 2026-01-31T12:00:00"
            return parse_moment("--not-seen-since", not_seen_since, form, now=None)
        form, now = "an age such as 90d, 12h or 2w", datetime.now(UTC)
        return parse_moment("--older-than", older_than, form, now=now, dates=False)
    except ParameterError as error:
        raise click.UsageError(error.message) from None
