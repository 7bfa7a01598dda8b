"""``lshdb sql``: run your own SELECT on the tables and views of the index, read-only."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._command import Argument, option
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import Command, index_argument, listing_options, seconds
from lshdb.cli._output import Column, print_listing, working

__all__ = ["command"]


@click.command("sql", cls=Command)
@index_argument
@click.argument("statement", metavar="SELECT", cls=Argument, missing="one statement, in quotes")
@option(
    "--timeout",
    type=seconds,
    metavar="SECONDS",
    help="Stop the statement when it has run for this long.  [default: never]",
)
@listing_options
def command(
    index_path: str, statement: str, *, timeout: float | None, output_format: str | None
) -> None:
    """Run one SELECT on the tables and views of INDEX; nothing else is allowed.

    A statement runs until it is done, because a question over a large index may take long; Ctrl-C
    ends it. Give a --timeout where nobody watches, as under cron.

    On SQLite, text(doc_id) gives the stored text of a document.

    \b
    lshdb sql news.lshdb "SELECT key, text(doc_id) FROM new_document"
    lshdb sql news.lshdb "SELECT count(*) FROM document"
    lshdb sql news.lshdb "SELECT band, bucket, size FROM bucket ORDER BY size DESC LIMIT 10"
    """
    with Index.open(index_path) as index, prompt_interrupts():
        with working("running the statement"):
            result = index.sql(statement, timeout=timeout)
        columns = [Column(name, "auto") for name in _distinct(result.columns)]
        print_listing(columns, result.rows, output_format, empty="no rows", count=("row", "rows"))


def _distinct(names: tuple[str, ...]) -> list[str]:
    """Return names of columns; number those that occur twice."""
    distinct: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in distinct:
            number += 1
            candidate = f"{name}_{number}"
        distinct.append(candidate)
    return distinct
