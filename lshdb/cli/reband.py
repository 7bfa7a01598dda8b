"""``lshdb reband``: other bands from the signatures that are stored."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._interrupts import prompt_interrupts
from lshdb.cli._options import Command, index_argument, lock_option
from lshdb.cli._output import note
from lshdb.cli._progress import TaskProgress
from lshdb.cli.stats import readable_size

__all__ = ["command"]


@click.command("reband", cls=Command, short_help="Change threshold, recall or bands.")
@index_argument
@click.option("--threshold", type=float, help="Similarity, or distance, of near documents.")
@click.option("--recall", type=float, help="Probability of finding a pair at the threshold.")
@click.option("--bands", type=int, help="Number of bands; with --rows, in place of --recall.")
@click.option("--rows", type=int, help="Slots a band.")
@lock_option
def command(
    index_path: str,
    *,
    threshold: float | None,
    recall: float | None,
    bands: int | None,
    rows: int | None,
    lock_timeout: float,
) -> None:
    """Cut the signatures of INDEX into other bands, for another threshold or recall.

    From the signatures as they are stored, without the documents. What is not given stays as it
    is; bands and rows are chosen by threshold and recall unless they are given. Clusters are found
    anew when they are asked for next. Others may read meanwhile, and open the index again
    afterwards. Killed at any moment, the index is as it was before or as it is after.

    \b
    lshdb reband news.lshdb --threshold 0.6
    lshdb reband news.lshdb --recall 0.999
    lshdb reband news.lshdb --bands 32 --rows 4
    """
    with TaskProgress("cutting signatures into bands"), prompt_interrupts():
        result = Index.reband(
            index_path,
            threshold=threshold,
            recall=recall,
            bands=bands,
            rows=rows,
            lock_timeout=lock_timeout,
        )
    params = result.params
    note(
        f"{params.bands} bands of {params.rows} rows: a pair at threshold {params.threshold:g} is "
        f"found with probability {params.recall:.4g}; {result.signatures:,} signatures, "
        f"{readable_size(result.bytes_after)} on disk"
    )
