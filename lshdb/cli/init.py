"""``lshdb init``: make an empty index and say what its parameters promise."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index, IndexParams
from lshdb.cli._options import index_argument
from lshdb.cli._output import say

__all__ = ["command"]


@click.command("init", short_help="Make an empty index.")
@index_argument
@click.option(
    "--threshold",
    type=float,
    default=0.8,
    show_default=True,
    metavar="T",
    help="Similarity from which on documents are near-duplicates.",
)
@click.option(
    "--recall",
    type=float,
    metavar="P",
    help="Probability of finding a pair at the threshold; chooses bands and rows.  [default: 0.99]",
)
@click.option("--bands", type=int, metavar="B", help="Bands, with --rows in place of --recall.")
@click.option("--rows", type=int, metavar="R", help="Rows of a band.")
@click.option(
    "--num-perm", type=int, default=128, show_default=True, metavar="N", help="Signature slots."
)
@click.option(
    "--scheme",
    type=click.Choice(["fss", "universal"]),
    default="fss",
    show_default=True,
    help="Min-hash scheme.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Of the hash functions."
)
@click.option(
    "--unit",
    type=click.Choice(["word", "char"]),
    default="word",
    show_default=True,
    help="What shingles are made of.",
)
@click.option(
    "--k", type=int, metavar="K", help="Units of a shingle.  [default: 5 words, 9 characters]"
)
@click.option("--bag", is_flag=True, help="Count repeated shingles.")
@click.option(
    "--no-text",
    is_flag=True,
    help="Do not store texts: a smaller index, whose similarities are estimates.",
)
@click.option(
    "--database",
    metavar="URL",
    help="Where the database lies, if not in the index: sqlite:///PATH.",
)
def command(index_path: str, *, no_text: bool, **parameters: Any) -> None:
    """Make an empty index at INDEX, where nothing must be yet.

    Parameters are fixed from here on. The bands and rows that are chosen find a pair at the
    threshold with the probability asked for, at the lowest cost.

    \b
    lshdb init news.lshdb
    lshdb init verses.lshdb --threshold 0.5 --unit char --k 5
    """
    with Index.create(index_path, store_text=not no_text, **parameters) as index:
        params = index.params
    say(f"made the index {index_path}")
    for line in _description(params):
        say(line)


def _description(params: IndexParams) -> list[str]:
    units = {"word": "words", "char": "characters"}[params.unit]
    repeats = "counted again where they repeat" if params.bag else "as a set"
    used = params.bands * params.rows
    texts = "stored; similarities are exact" if params.store_text else "not stored; similarities "
    around = (params.threshold - 0.1, params.threshold, params.threshold + 0.1)
    points = sorted({round(min(s, 1.0), 10) for s in around if s > 1e-9})
    return [
        f"  shingles     {params.k} {units}, {repeats}",
        f"  signatures   {params.num_perm} slots by scheme {params.scheme}, seed {params.seed}",
        f"  bands        {params.bands} of {params.rows} rows each, "
        f"which use {used} of the {params.num_perm} slots",
        f"  texts        {texts if params.store_text else texts + 'are estimates'}",
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
