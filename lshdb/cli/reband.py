"""``lshdb reband``: cut the stored signatures into other bands."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._command import option
from lshdb.cli._long_work import TaskProgress, prompt_interrupts
from lshdb.cli._options import Command, index_argument, lock_option
from lshdb.cli._output import note
from lshdb.cli.stats import readable_size

__all__ = ["command"]


@click.command("reband", cls=Command)
@index_argument
@option(
    "--threshold",
    type=float,
    metavar="T",
    help="Lowest similarity of near-duplicates, above 0 up to 1, or largest distance.",
)
@option(
    "--recall",
    type=float,
    metavar="P",
    help="Share of the pairs at the threshold that the index must find.",
)
@option("--bands", type=int, metavar="B", help="Number of bands; with --rows, instead of --recall.")
@option("--rows", type=int, metavar="R", help="Slots in a band.")
@option(
    "--index-bands/--no-index-bands",
    default=None,
    help="Make or drop an index of SQLite on each column of the table band, for SQL of your own "
    "that looks for buckets. Postgres always has them.",
)
@lock_option
def command(
    index_path: str,
    *,
    threshold: float | None,
    recall: float | None,
    bands: int | None,
    rows: int | None,
    index_bands: bool | None,
    lock_timeout: float,
) -> None:
    """Cut the signatures of INDEX into other bands, for another threshold or recall.

    Works from the stored signatures, without the documents. What you do not give stays as it is;
    threshold and recall choose bands and rows unless you give them. Clusters are found again when
    you next ask for them. Others may read meanwhile and afterwards; their next question sees the
    new bands. If it is killed at any moment, the index is as before or as after.

    \b
    lshdb reband news.lshdb --threshold 0.6
    lshdb reband news.lshdb --recall 0.999
    lshdb reband news.lshdb --bands 32 --rows 4
    lshdb reband news.lshdb --index-bands
    """
    with TaskProgress("cutting signatures into bands"), prompt_interrupts():
        result = Index.reband(
            index_path,
            threshold=threshold,
            recall=recall,
            bands=bands,
            rows=rows,
            index_bands=index_bands,
            lock_timeout=lock_timeout,
        )
    params = result.params
    note(
        f"{params.bands} bands of {params.rows} rows: a pair at threshold {params.threshold:g} is "
        f"found with probability {params.recall:.4g}; {result.signatures:,} signatures, "
        f"{readable_size(result.bytes_after)} on disk"
    )
