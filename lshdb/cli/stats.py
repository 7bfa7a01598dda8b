"""``lshdb stats``: parameters, counts and sizes of an index."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from lshdb import Index
from lshdb.cli._command import option
from lshdb.cli._long_work import prompt_interrupts
from lshdb.cli._options import Command, index_argument, max_bucket_option, record_options
from lshdb.cli._output import print_record

__all__ = ["command", "readable_size"]

_COUNTED = (
    "shared_buckets", "largest_bucket", "bucket_pairs", "edges", "clusters", "clustered_documents",
)  # fmt: skip
_PAYS = 5
"""A compaction rewrites the index; it pays if it frees at least one part in this many."""


@click.command("stats", cls=Command)
@index_argument
@max_bucket_option("Also show what lshdb pairs leaves out with this cap, and what that costs.")
@option(
    "--count/--no-count",
    default=None,
    help="Count buckets, stored pairs and clusters, which reads all of them.  [default: up to "
    "250,000 signatures]",
)
@record_options
def command(
    index_path: str, *, max_bucket: int | str | None, count: bool | None, output_format: str | None
) -> None:
    """Show the parameters of INDEX, how much is in it, and how much disk space it takes.

    \b
    lshdb stats news.lshdb
    lshdb stats news.lshdb --max-bucket 1000
    lshdb stats news.lshdb --json
    """
    with Index.open(index_path) as index, prompt_interrupts():
        stats = index.stats(max_bucket=max_bucket, count=count)
    values: dict[str, Any] = {}
    for field in fields(stats):
        if field.name == "params":
            values |= stats.params.items()
        elif field.name == "path":
            values["path"] = str(stats.path)
        else:
            values[field.name] = getattr(stats, field.name)
    shown = {
        name: f"{value:,} bytes ({readable_size(value)})"
        if name.endswith("_bytes")
        else f"{value:,}"
        for name, value in values.items()
        if type(value) is int and name != "seed"
    }
    if stats.shared_buckets is None:
        for name in _COUNTED:
            shown[name] = "not counted; --count counts them"
    if stats.edges_threshold is None:
        shown["edges_threshold"] = shown["edges_batch"] = "none found yet; run lshdb clusters"
    disk = stats.signature_bytes + stats.vector_bytes + stats.order_bytes + stats.database_bytes
    if stats.reclaimable_bytes * _PAYS >= disk:
        shown["reclaimable_bytes"] += "; lshdb compact frees it"
    if stats.ordered_signatures < stats.signatures:
        shown["ordered_signatures"] += "; the next add, or lshdb compact, sorts the others"
    if not stats.params.keeps_vectors:
        shown["vector_bytes"] = ""
    if stats.max_bucket is None:
        for name in ("max_bucket", "buckets_left_out", "pairs_left_out", "recall_lost",
                     "recall_lost_low", "recall_lost_high"):  # fmt: skip
            shown[name] = ""
    if stats.edges_threshold is None:
        shown["edges_max_bucket"] = shown["edges_recall_lost"] = ""
    elif stats.edges_max_bucket is None:
        shown["edges_max_bucket"] = "none"
    print_record(values, output_format, shown=shown)


def readable_size(n_bytes: int) -> str:
    """Write bytes in the largest unit that leaves at least one: 12.3 MB."""
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
