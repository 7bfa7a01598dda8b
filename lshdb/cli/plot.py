"""``lshdb plot``: an index as a picture."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index
from lshdb.cli._command import complete_files, option
from lshdb.cli._long_work import TaskProgress, prompt_interrupts
from lshdb.cli._options import Command, index_argument
from lshdb.cli._output import note

__all__ = ["command"]

_TAKES = {"threshold": ("similarity", "clusters", "recall"), "sample": ("recall",)}


@click.command("plot", cls=Command)
@click.argument(
    "what",
    metavar="PICTURE",
    type=click.Choice(["s-curve", "similarity", "buckets", "clusters", "batches", "recall"]),
)
@index_argument
@option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    shell_complete=complete_files,
    help="Where to draw; FILE ends in .svg, .png or .pdf.",
)
@option(
    "--threshold",
    type=float,
    metavar="T",
    help="For similarity, clusters and recall, the lowest similarity, or largest distance, that "
    "counts.  [default: the index's]",
)
@option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="For recall, compare this many documents with all others.  [default: 1000]",
)
@option("--overwrite", is_flag=True, help="Replace a file that is there.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    what: str,
    index_path: str,
    *,
    output: str,
    overwrite: bool,
    **values: Any,
) -> None:
    """Draw INDEX as a picture.

    PICTURE is s-curve, how probably a pair of each similarity is found; similarity, the
    near-duplicate pairs by similarity; buckets and clusters, how many there are of each size;
    batches, what each add brought; or recall, which share of the pairs is found, measured. Needs
    the extra lshdb[plot].

    \b
    lshdb plot s-curve news.lshdb -o curve.svg
    lshdb plot clusters news.lshdb -o clusters.png
    lshdb plot recall news.lshdb --sample 2000 -o recall.png
    """
    from lshdb.plot import FIGURES, check_place, save

    options = {name: value for name, value in values.items() if value is not None}
    for name in options:
        if what not in _TAKES[name]:
            raise click.UsageError(f"--{name} makes no difference to {what}", ctx)
    check_place(output, overwrite=overwrite)
    with (
        Index.open(index_path) as index,
        prompt_interrupts(),
        TaskProgress("drawing"),
    ):
        figure = FIGURES[what](index, **options)
    save(figure, output, overwrite=overwrite)
    note(f"wrote {output}")
