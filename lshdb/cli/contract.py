"""``lshdb contract``: fold a graph by the clusters of its nodes."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import click

from lshdb import Index
from lshdb.arguments import Linkage
from lshdb.cli._command import Argument, complete_files, option
from lshdb.cli._errors import REJECTED
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import (
    Command,
    index_argument,
    linkage_option,
    linking_options,
    listing_options,
    update_edges,
)
from lshdb.cli._output import Column, is_terminal, lines_of, note, print_listing, tsv_file
from lshdb.cli._words import counted

__all__ = ["command"]

COLUMNS = (Column("source"), Column("target"), Column("count", "number"))


@click.command(
    "contract",
    cls=Command,
    short="repeat drop-loops mapping linkage threshold max-bucket no-update json output",
)
@index_argument
@click.argument(
    "edges",
    metavar="EDGES",
    cls=Argument,
    shell_complete=complete_files,
    missing="a file of links: source, target and perhaps a count, separated by tabs",
)
@option(
    "--repeat",
    is_flag=True,
    help="Fold until nothing changes, for an index of --unit token --k 1. After each round, the "
    "links of each host are its document, and hosts that have become alike are merged.",
)
@option("--drop-loops", is_flag=True, help="Leave out links of a node to itself.")
@option(
    "--mapping",
    metavar="FILE",
    callback=lines_of("tsv"),
    help="Write each replaced node and its replacement to this file.",
)
@linkage_option
@linking_options
@listing_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    index_path: str,
    edges: str,
    *,
    repeat: bool,
    drop_loops: bool,
    mapping: str | None,
    linkage: Linkage,
    output_format: str | None,
    **linking: Any,
) -> None:
    """Replace each end of the links of EDGES by the document that names its cluster in INDEX.

    Links that become equal are merged, and their counts added. EDGES is a file, also compressed, or
    - for standard input. Each line holds a source, a target and optionally a count, separated by
    tabs. Sources and targets are keys of INDEX; a node that is not a key or is in no cluster stands
    for itself. A line that is not a link is reported, counted and skipped; the exit code is then 5.

    \b
    lshdb contract hosts.lshdb links.tsv > folded.tsv
    lshdb contract hosts.lshdb links.tsv.gz --repeat --drop-loops --mapping mirrors.tsv
    lshdb contract hosts.lshdb links.tsv --threshold 0.9 -o folded.tsv
    """
    if mapping is not None and _is_taken(mapping, edges):
        raise click.UsageError(f"--mapping {mapping} is in use; name another file", ctx)
    with contextlib.ExitStack() as opened:
        index = opened.enter_context(Index.open(index_path))
        put_mapping = opened.enter_context(tsv_file(mapping)) if mapping is not None else None
        if not repeat:  # which has folders to clean up
            opened.enter_context(prompt_interrupts())
        update_edges(index, **linking)
        if edges == "-" and is_terminal(sys.stdin):
            note("reading from the terminal; Ctrl-D ends the input")
        links = opened.enter_context(
            index.contract(
                edges,
                threshold=linking["threshold"],
                linkage=linkage,
                repeat=repeat,
                drop_loops=drop_loops,
                update=False,
                on_reject=lambda rejection: note(f"{rejection.source}: {rejection.reason}"),
            )
        )
        if put_mapping is not None:
            put_mapping(links.mapping)
        n_links = print_listing(COLUMNS, links, output_format, empty="no links")
    note(
        f"{counted(links.n_read, 'link')} read, "
        f"{counted(links.rejected, 'line')} rejected, "
        f"{counted(n_links, 'link')} left; {counted(len(links.merged), 'round')}, "
        f"nodes merged: {', '.join(f'{number:,}' for number in links.merged)}"
    )
    if links.rejected:
        ctx.exit(REJECTED)


def _is_taken(mapping: str, edges: str) -> bool:
    """Return whether the mapping would overwrite the links that are read or written."""
    try:
        return mapping == "-" or os.path.samefile(mapping, edges)
    except OSError:
        return False
