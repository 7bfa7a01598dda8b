"""``lshdb report``: pages of HTML about an index."""

from __future__ import annotations

import click

from lshdb import Index
from lshdb.cli._command import option
from lshdb.cli._keys import document_key
from lshdb.cli._long_work import TaskProgress
from lshdb.cli._options import Command, index_argument, lock_option, since_option
from lshdb.cli._output import note
from lshdb.cli._words import counted
from lshdb.threads import give_memory_back_at_once

__all__ = ["command"]


@click.command("report", cls=Command)
@index_argument
@option(
    "-o",
    "--output",
    required=True,
    type=click.Path(),
    metavar="FILE|FOLDER",
    help="Where to write: FILE.html for one page of up to 8 MiB with the largest clusters, or a "
    "folder for pages of all clusters. - is standard output.",
)
@since_option("Show only clusters and pairs with a document that came in since WHEN.")
@option("--cluster", metavar="KEY", help="Show only the cluster of this document.")
@option(
    "--threshold",
    type=float,
    metavar="T",
    help="Lowest similarity, or largest distance, that counts.  [default: the index's]",
)
@option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Show at most N clusters, and N pairs near the threshold.  [default: as many clusters as "
    "there is room for, 20 pairs]",
)
@option(
    "--sample",
    type=click.IntRange(min=0),
    metavar="N",
    help="Measure recall on N documents; 0 for none.  [default: 500, or none where the texts have "
    "more than 200 million characters]",
)
@option(
    "--no-update", is_flag=True, help="Show the pairs found before, and write nothing to INDEX."
)
@option("--overwrite", is_flag=True, help="Replace a report that is there.")
@lock_option
def command(
    index_path: str,
    *,
    output: str,
    since: int | str | None,
    cluster: str | None,
    threshold: float | None,
    limit: int | None,
    sample: int | None,
    no_update: bool,
    overwrite: bool,
    lock_timeout: float,
) -> None:
    """Write a report on INDEX as pages of HTML, to open in a browser.

    It shows what is duplicated and what lshdb dedup would drop: all clusters with their documents
    side by side, which add repeated which, pairs near the threshold that you judge for lshdb tune
    --labels, what is found and what is missed, the buckets that cost most, and what was added when.
    The pages need neither a server nor a network. Needs the extra lshdb[report].

    \b
    lshdb report news.lshdb -o report.html
    lshdb report news.lshdb -o report/ --since last
    lshdb report news.lshdb -o cluster.html --cluster mon-17
    """
    path = "/dev/stdout" if output == "-" else output
    give_memory_back_at_once()
    with (
        Index.open(index_path) as index,
        TaskProgress("writing the report"),
    ):
        result = index.report(
            path, since=since, cluster=document_key(index, cluster), threshold=threshold,
            limit=limit, sample=sample, update=not no_update, overwrite=overwrite,
            lock_timeout=lock_timeout,
        )  # fmt: skip
    pages = "" if result.pages == 1 else f" on {result.pages:,} pages"
    note(f"wrote {result.path}: {counted(result.clusters, 'cluster')}{pages}")
    if result.clusters_left:
        note(f"{counted(result.clusters_left, 'smaller cluster')} not shown")
