"""``lshdb init``: make an empty index and say what its parameters promise."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index, IndexParams
from lshdb.cli._describing import shingles_in_words, texts_in_words
from lshdb.cli._options import creation_options, given_parameters, index_argument
from lshdb.cli._output import say

__all__ = ["command"]


@click.command("init", short_help="Make an empty index.")
@index_argument
@creation_options
def command(index_path: str, **options: Any) -> None:
    """Make an empty index at INDEX, where nothing must be yet.

    Parameters are fixed from here on. The bands and rows that are chosen find a pair at the
    threshold with the probability asked for, at the lowest cost.

    \b
    lshdb init news.lshdb
    lshdb init verses.lshdb --threshold 0.5 --unit char --k 5
    lshdb init hosts.lshdb --unit url
    """
    with Index.create(index_path, **given_parameters(options)) as index:
        params = index.params
        database = index.stats().database if options["database"] is not None else None
    say(f"made the index {index_path}")
    if database is not None:
        say(f"  database     {database}")
    for line in _description(params):
        say(line)


def _description(params: IndexParams) -> list[str]:
    used = params.bands * params.rows
    texts = "stored; similarities are exact"
    if not params.store_text:
        texts = "not stored; similarities are estimates"
    around = (params.threshold - 0.1, params.threshold, params.threshold + 0.1)
    points = sorted({round(min(s, 1.0), 10) for s in around if s > 1e-9})
    normalised = texts_in_words(params)
    return [
        f"  shingles     {shingles_in_words(params)}",
        *([] if normalised is None else [f"               {normalised}"]),
        f"  signatures   {params.num_perm} slots by scheme {params.scheme}, seed {params.seed}",
        f"  bands        {params.bands} of {params.rows} rows each, "
        f"which use {used} of the {params.num_perm} slots",
        f"  texts        {texts}",
        f"  threshold    {params.threshold:g}",
        "  a pair is found with probability",
        *(
            f"    {_probability(params.recall_at(s))}  at similarity {s:g}"
            + ("  (the threshold)" if s == params.threshold else "")
            for s in points
        ),
    ]


def _probability(p: float) -> str:
    """Four decimals, and never rounded to certainty or to nothing."""
    if 0.99995 <= p < 1.0:
        return "> 0.9999"
    if 0.0 < p < 0.00005:
        return "< 0.0001"
    return f"  {p:.4f}"
