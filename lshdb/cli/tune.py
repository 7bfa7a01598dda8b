"""``lshdb tune``: what an index would find and cost, before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import click

from lshdb import (
    Advice,
    Index,
    IndexEstimate,
    Rejected,
    advise,
    aims,
    estimate,
    read_documents,
    read_labels,
)
from lshdb.cli._command import complete_files, is_index, option, options
from lshdb.cli._creation_options import creation_options, given_parameters
from lshdb.cli._documents_in import require_metric
from lshdb.cli._errors import REJECTED
from lshdb.cli._long_work import TaskProgress, prompt_interrupts
from lshdb.cli._options import (
    FOLDERS,
    READING,
    Command,
    folder_options,
    input_options,
    memory_option,
    record_options,
)
from lshdb.cli._output import chosen_format, note, print_drawn, print_record
from lshdb.cli._rejections import RejectionNotes
from lshdb.cli.stats import readable_size
from lshdb.documents.read import peek_documents
from lshdb.params.metrics import DEFAULT_METRIC, METRICS
from lshdb.shingling import URL_UNITS

__all__ = ["command"]


@click.command(
    "tune",
    cls=Command,
    short="aim labels sample plot text-field key-field metric threshold recall json",
    see="Next: lshdb add INDEX FILE --threshold T.",
)
@click.argument("files", metavar="[FILE...|INDEX]", nargs=-1, shell_complete=complete_files)
@option(
    "--aim",
    type=click.Choice([*aims()]),
    metavar="AIM",
    help="What to find, of texts: {choices}. "
    + "; ".join(f"{name}, {aim.purpose}" for name, aim in aims().items())
    + ".  [default: each of them]",
)
@option(
    "--labels",
    metavar="FILE",
    shell_complete=complete_files,
    help="Propose the threshold that agrees best with these judgements. FILE has lines of KEY1, "
    "KEY2 and yes or no, with tabs between, as lshdb report saves them.",
)
@option(
    "--sample",
    type=click.IntRange(min=2),
    metavar="N",
    help="Draw this many texts, and compare them with each other.  [default: 100000]",
)
@memory_option
@option(
    "--far",
    type=float,
    metavar="D",
    help="Without texts, the similarity or distance at which documents count as far apart.  "
    "[default: twice as far as the threshold]",
)
@option(
    "--documents",
    type=int,
    metavar="N",
    help="Without texts, the number of documents of the index.  [default: 1000000]",
)
@option(
    "--plot",
    "picture",
    metavar="FILE",
    shell_complete=complete_files,
    help="Also draw the pairs of texts by similarity, or without texts the S-curve. FILE ends in "
    ".svg, .png or .pdf and is replaced.",
)
@input_options
@folder_options
@record_options
@options(creation_options, without=["passages", "database", "schema"])
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    *,
    aim: str | None,
    labels: str | None,
    sample: int | None,
    memory: int,
    far: float | None,
    documents: int | None,
    picture: str | None,
    input_format: str,
    output_format: str | None,
    **options: Any,
) -> None:
    """Show which threshold to take, and what an index would find and cost; none is made.

    Given FILE... of texts, or an INDEX that stores its texts, documents are drawn and each is
    compared exactly with each other. Shown are the number of pairs at each similarity (counts, or
    estimates with a 99 % interval where not all documents were drawn), example pairs from 0.5 to
    0.9 with what differs, and for each aim a shingle and a threshold with what they would find and
    cost.

    Given FILE... of vectors or bits, dimension, bands and width are chosen for a sample of them, as
    lshdb add does. Without FILE, only the parameters count.

    Times are estimates for one core of 2 GHz and files in memory, to a factor of two or three.

    \b
    lshdb tune news.jsonl
    lshdb tune news.jsonl --aim editions --json
    lshdb tune news.lshdb --labels labels.tsv
    lshdb tune --metric cosine --dim 100 --threshold 0.8
    lshdb tune vectors.npy --metric l2 --threshold 10 --documents 20000000
    """
    if picture is not None:
        from lshdb.plot import check_place

        check_place(picture, overwrite=True)
    reading = {name: options.pop(name) for name in (*READING, *FOLDERS)}
    parameters = given_parameters(options)
    metric = parameters.get("metric", DEFAULT_METRIC)
    if files:
        require_metric(files, parameters, input_format)
    if not files or METRICS[metric].is_dense:
        _refuse(
            "for texts, which are compared with each other", aim=aim, labels=labels, sample=sample
        )
        estimated = _estimate(
            files,
            far,
            documents,
            parameters,
            {"input_format": input_format, **reading},
            output_format,
        )
        _draw(picture, estimated)
        return
    if METRICS[metric].body != "text":
        raise click.UsageError(
            f"a sample of FILE makes no difference to an index of metric {metric}; leave "
            "out the files (they are used for texts, vectors and bits)"
        )
    _refuse("for vectors and bits, and for parameters without files", far=far, documents=documents)
    question: dict[str, Any] = {
        "aim": aim,
        "labels": None if labels is None else read_labels(labels),
        "memory": memory,
    }
    if sample is not None:
        question["sample"] = sample
    index_path = next((path for path in files if is_index(path)), None)
    rejections = RejectionNotes()
    with prompt_interrupts(), TaskProgress("comparing", reading="reading"):
        if index_path is not None:
            _refuse_beside_index(files, index_path, parameters)
            with Index.open(index_path) as index:
                advice = index.advise(**question)
        else:
            items = read_documents(
                files, body="text", input_format=input_format, on_note=note,
                fallback="urls" if parameters.get("unit") in URL_UNITS else None, **reading,
            )  # fmt: skip
            advice = advise(
                items,
                on_reject=rejections.add,
                **question,
                **parameters,
            )
    rejections.end()
    if chosen_format(output_format, elsewhere="table") == "table":
        from lshdb.cli._advice import draw_advice

        print_drawn(partial(draw_advice, advice))
    else:
        print_record(advice.record(), output_format)
    _draw(picture, advice)
    if rejections.count:
        ctx.exit(REJECTED)


def _draw(picture: str | None, result: Advice | IndexEstimate) -> None:
    """Write the picture of ``--plot``, if there is one."""
    if picture is not None:
        from lshdb.plot import advice, s_curve, save

        drawn = s_curve(result.params) if isinstance(result, IndexEstimate) else advice(result)
        save(drawn, picture, overwrite=True)


def _refuse(what: str, **options: Any) -> None:
    """Raise UsageError for options that would have no effect."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"--{name} is {what}; leave it out")


def _refuse_beside_index(
    files: Sequence[str], index_path: str, parameters: Mapping[str, Any]
) -> None:
    if len(files) > 1:
        raise click.UsageError(f"{index_path} is an index; give it alone, or give files")
    if parameters:
        name = next(iter(parameters)).replace("_", "-")
        raise click.UsageError(
            f"{index_path} has its own parameters, and --{name} is for a new index; leave it out"
        )


def _estimate(
    files: Sequence[str],
    far: float | None,
    documents: int | None,
    parameters: dict[str, Any],
    reading: dict[str, Any],
    output_format: str | None,
) -> IndexEstimate:
    """Show what parameters find and cost, alone or with a sample of vectors."""
    if files:
        kind = METRICS[parameters["metric"]]
        peek, items = peek_documents(files, body=kind.body, on_note=note, **reading)
        if peek.dim is None:
            rejections = RejectionNotes()
            for item in items:
                if isinstance(item, Rejected):
                    rejections.add(item)
            rejections.end()
        parameters = {"dim": peek.dim, "dtype": peek.dtype, **parameters, "sample": peek.bodies}
    estimated = estimate(
        far=far, documents=1_000_000 if documents is None else documents, **parameters
    )
    values = {field.name: getattr(estimated, field.name) for field in fields(estimated)}
    params = values.pop("params")
    chosen = ("metric", "scheme", "num_perm", "bands", "rows", "width", "recall")
    record = {name: getattr(params, name) for name in chosen} | values
    if not params.width:
        del record["width"]
    print_record(record, output_format, shown=_shown(estimated))
    return estimated


def _shown(estimated: IndexEstimate) -> dict[str, str]:
    """Return the cells that a table shows instead of bare numbers."""
    params = estimated.params
    what = "distance" if params.kind.is_distance else "similarity"
    n = f"{estimated.documents:,}"
    shown = {
        "near": f"{what} {estimated.near:g}",
        "far": f"{what} {estimated.far:g}",
        "documents": n,
        "p1": f"{estimated.p1:.6f}, probability of an equal slot at {what} {estimated.near:g}",
        "p2": f"{estimated.p2:.6f}, at {estimated.far:g}",
        "rho": f"{estimated.rho:.4f} = ln(1 / p1) / ln(1 / p2); tables grow as n^rho",
        "k": f"{estimated.k} rows leave one far document of {n} in a table",
        "tables": f"{estimated.tables:,}, with which one at {estimated.near:g} is found with "
        f"probability {params.recall:.4g}",
        "least_tables": f"{estimated.least_tables:,} = n^rho, for about 0.63",
        "probe_limit": f"{estimated.probe_limit:,} candidates, twice the tables",
        "near_found": f"{estimated.near_found:.6f}, with bands and rows as above",
        "far_found": f"{estimated.far_found:.3g}",
        "most_candidates": f"{estimated.most_candidates:,.0f} per query, if all {n} are that far",
        "add_seconds": f"about {estimated.add_seconds:,.0f} s to add them",
        "query_seconds": f"about {estimated.query_seconds * 1e3:,.2f} ms per query",
    }
    for name in ("signature_bytes", "posting_bytes", "vector_bytes", "document_bytes"):
        shown[name] = readable_size(getattr(estimated, name))
    if not params.keeps_vectors:
        shown["vector_bytes"] = ""
    return shown
