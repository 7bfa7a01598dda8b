"""``lshdb tune``: what an index would find and cost, before it is made."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from lshdb import Tuning, tune
from lshdb.cli._command import completed
from lshdb.cli._documents_in import require_metric
from lshdb.cli._options import (
    READING,
    Command,
    creation_options,
    given_parameters,
    input_options,
    listing_options,
    without,
)
from lshdb.cli._output import note, print_record
from lshdb.cli.stats import readable_size
from lshdb.documents import peek_documents
from lshdb.params.metrics import METRICS

__all__ = ["command"]


@click.command("tune", cls=Command)
@click.argument("files", metavar="[FILE...]", nargs=-1, shell_complete=completed("file"))
@click.option(
    "--far",
    type=float,
    metavar="D",
    help="Similarity or distance of documents that count as far from each other.  [default: twice "
    "as far as the threshold]",
)
@click.option(
    "--documents",
    type=int,
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Number of documents in the index.",
)
@input_options
@listing_options
@without(creation_options, "passages")
def command(
    files: tuple[str, ...],
    *,
    far: float | None,
    documents: int,
    input_format: str,
    output_format: str | None,
    **options: Any,
) -> None:
    """Show what an index with these parameters would find and cost; no index is made.

    Given FILE... of vectors or bits, dimension, bands and width are chosen for a sample of them, as
    lshdb add does. For texts, files are neither needed nor accepted.

    Times are estimates for one core of 2 GHz and files in memory, to a factor of two or three.

    \b
    lshdb tune --metric cosine --dim 100 --threshold 0.8
    lshdb tune vectors.npy --metric l2 --threshold 10 --documents 20000000
    """
    reading = {name: options.pop(name) for name in READING}
    given = given_parameters(options)
    for name in ("database", "schema"):
        given.pop(name, None)
    if files:
        require_metric(files, given, input_format)
        kind = METRICS[given.get("metric", "jaccard")]
        if not kind.is_dense:
            raise click.UsageError(
                f"a sample of FILE makes no difference to an index of metric "
                f"{given.get('metric', 'jaccard')}; leave "
                "out the files (they are used for vectors and bits, with --metric)"
            )
        peek, _ = peek_documents(
            files, body=kind.body, input_format=input_format, on_note=note, **reading
        )
        given = {"dim": peek.dim, "dtype": peek.dtype, **given, "sample": peek.bodies}
    found = tune(far=far, documents=documents, **given)
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    params = values.pop("params")
    chosen = ("metric", "scheme", "num_perm", "bands", "rows", "width", "recall")
    record = {name: getattr(params, name) for name in chosen} | values
    if not params.width:
        del record["width"]
    print_record(record, output_format, shown=_shown(found))


def _shown(found: Tuning) -> dict[str, str]:
    """Return what a table shows instead of bare numbers."""
    params = found.params
    what = "distance" if params.kind.is_distance else "similarity"
    n = f"{found.documents:,}"
    shown = {
        "near": f"{what} {found.near:g}",
        "far": f"{what} {found.far:g}",
        "documents": n,
        "p1": f"{found.p1:.6f}, probability of an equal slot at {what} {found.near:g}",
        "p2": f"{found.p2:.6f}, at {found.far:g}",
        "rho": f"{found.rho:.4f} = ln(1 / p1) / ln(1 / p2); tables grow as n^rho",
        "k": f"{found.k} rows leave one far document of {n} in a table",
        "tables": f"{found.tables:,}, with which one at {found.near:g} is found with probability "
        f"{params.recall:.4g}",
        "least_tables": f"{found.least_tables:,} = n^rho, for about 0.63",
        "probe_limit": f"{found.probe_limit:,} candidates, twice the tables",
        "near_found": f"{found.near_found:.6f}, with bands and rows as above",
        "far_found": f"{found.far_found:.3g}",
        "most_candidates": f"{found.most_candidates:,.0f} per query, if all {n} are that far",
        "add_seconds": f"about {found.add_seconds:,.0f} s to add them",
        "query_seconds": f"about {found.query_seconds * 1e3:,.2f} ms per query",
    }
    for name in ("signature_bytes", "posting_bytes", "vector_bytes", "document_bytes"):
        shown[name] = readable_size(getattr(found, name))
    if not params.keeps_vectors:
        shown["vector_bytes"] = ""
    return shown
