"""``lshdb init``: make an empty index and say what its parameters promise."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index, IndexParams
from lshdb.cli._command import option
from lshdb.cli._creation_options import creation_options, given_parameters
from lshdb.cli._documents_in import note_slow
from lshdb.cli._options import Command, index_argument
from lshdb.cli._output import note
from lshdb.cli._words import contents_in_words, counted, texts_in_words

__all__ = ["command"]


@click.command(
    "init",
    cls=Command,
    short="metric threshold recall unit k dim no-text passages database index-bands",
)
@index_argument
@creation_options
@option(
    "--index-bands",
    is_flag=True,
    help="Make an index of SQLite on each column of the table band, for SQL of your own that looks "
    "for buckets. Postgres always has these indexes.",
)
def command(index_path: str, *, index_bands: bool, **options: Any) -> None:
    """Make an empty index at INDEX, a new or empty folder.

    Its parameters are fixed from then on. The chosen bands and rows find a pair at the threshold
    with the wanted probability, at the lowest cost.

    \b
    lshdb init news.lshdb
    lshdb init verses.lshdb --threshold 0.5 --unit char --k 5
    lshdb init hosts.lshdb --unit url
    lshdb init points.lshdb --metric l2 --dim 64 --threshold 12
    """
    with Index.create(index_path, index_bands=index_bands, **given_parameters(options)) as index:
        params = index.params
        database = index.stats().database if options["database"] is not None else None
    note(f"made the index {index_path}")
    if database is not None:
        note(f"  database     {database}")
    for line in _description(params):
        note(line)
    note_slow(params)


def _description(params: IndexParams) -> list[str]:
    used = params.bands * params.rows
    name, contents = contents_in_words(params)
    stored, is_distance = "bodies" if params.kind.is_dense else "texts", params.kind.is_distance
    measure, measures = ("distance", "distances") if is_distance else ("similarity", "similarities")
    storing = (
        f"stored; {measures} are exact"
        if params.store_text
        else f"not stored; {measures} are estimates"
    )
    normalised = texts_in_words(params)
    return [
        f"  {name:<12} {contents}",
        *([] if normalised is None else [f"               {normalised}"]),
        f"  signatures   {params.num_perm} slots by scheme {params.scheme}, seed {params.seed}",
        f"  bands        {params.bands} of {counted(params.rows, 'row')} each, "
        f"which use {used} of the {params.num_perm} slots",
        f"  {stored:<12} {storing}",
        f"  threshold    {params.threshold:g}",
        "  a pair is found with probability",
        *(
            f"    {_probability(params.recall_at(s))}  at {measure} {s:g}"
            + ("  (the threshold)" if s == params.threshold else "")
            for s in _points(params)
        ),
    ]


def _points(params: IndexParams) -> list[float]:
    """Return similarities or distances around the threshold."""
    if params.kind.is_distance:
        distances = [params.threshold * share for share in (0.5, 1.0, 1.5, 2.0)]
        if params.kind.body == "bits":
            distances = [float(min(int(distance), params.dim)) for distance in distances]
        return sorted({*distances, params.threshold})
    around = (params.threshold - 0.1, params.threshold + 0.1)
    return sorted(
        {
            params.threshold,
            *(round(min(s, 1.0), 10) for s in around if s > params.kind.lowest + 1e-9),
        }
    )


def _probability(p: float) -> str:
    """Write four decimals, never rounded to certain or impossible."""
    if 0.99995 <= p < 1.0:
        return "> 0.9999"
    if 0.0 < p < 0.00005:
        return "< 0.0001"
    return f"  {p:.4f}"
