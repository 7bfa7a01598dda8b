"""``lshdb recall``: which share of the near-duplicate pairs an index finds, measured."""

from __future__ import annotations

from typing import Any

import click

from lshdb import Index, MeasuredRecall, RecallSlice
from lshdb.cli._command import option
from lshdb.cli._errors import BROKEN_PROMISE, DAMAGED
from lshdb.cli._long_work import TaskProgress, prompt_interrupts
from lshdb.cli._options import (
    Command,
    index_argument,
    listing_options,
    max_bucket_option,
    memory_option,
)
from lshdb.cli._output import Column, chosen_format, complain, note, print_listing
from lshdb.cli._words import counted

__all__ = ["command"]

_IN_TABLES = (
    "low", "high", "pairs", "found", "recall", "lower", "upper", "expected", "promise",
)  # fmt: skip
"""The columns that people look at; programs get all of a slice."""
_SHARES = ("recall", "lower", "upper", "expected", "promise")


def _sample(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    if value == "all":
        return None
    if not value.isascii() or not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is not 'all' or a number from 1 on")
    return int(value)


@click.command("recall", cls=Command)
@index_argument
@option(
    "--sample",
    callback=_sample,
    default="1000",
    show_default=True,
    metavar="N|all",
    help="Compare this many documents with all others, or all if there are fewer.",
)
@option(
    "--threshold",
    type=float,
    metavar="T",
    help="Judge pairs of at least this similarity, or at most this distance.  [default: the "
    "index's]",
)
@option(
    "--furthest",
    type=float,
    metavar="S",
    help="Also measure pairs down to this similarity, or up to this distance.  [default: 0.3 "
    "below the threshold, or twice the distance]",
)
@max_bucket_option(
    "Count what lshdb pairs leaves out with this cap as missed.  [default: leave out none]"
)
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Draw other documents with another seed.",
)
@memory_option
@listing_options
@click.pass_context
def command(
    ctx: click.Context, /, index_path: str, *, output_format: str | None, **options: Any
) -> None:
    """Measure which share of the near-duplicate pairs INDEX finds.

    Documents are drawn, and each is compared exactly with all others. Then the index is asked for
    the same pairs. Each line is a slice of similarities: the pairs that there are, those that are
    found, the recall with its 99 % interval, what 1 - (1 - p^r)^b expects for these pairs, and the
    recall that the index promises from its threshold on.

    The exit code is 0 if the promise is kept. It is 6 if the interval of all pairs within the
    threshold, or of one slice of them, lies below the promise, and 4 if the index lost pairs that
    share a bucket, because it is damaged.

    \b
    lshdb recall news.lshdb
    lshdb recall news.lshdb --sample all --furthest 0.5
    lshdb recall news.lshdb --max-bucket 1000 --json
    """
    with Index.open(index_path) as index, prompt_interrupts():
        with TaskProgress("comparing with all others"):
            measured = index.recall(**options)
        names = _IN_TABLES if chosen_format(output_format) == "table" else tuple(measured.rows()[0])
        columns = [Column(name, "similarity" if name in _SHARES else "number") for name in names]
        print_listing(
            columns,
            ([getattr(part, name) for name in names] for part in measured.slices),
            output_format,
        )
    _judge(ctx, measured)


def _judge(ctx: click.Context, measured: MeasuredRecall) -> None:
    """Say how many pairs the index finds, and whether that keeps the promise."""
    total, params = measured.total, measured.params
    where = f"up to distance {measured.threshold:g}"
    if not params.kind.is_distance:
        where = f"of similarity {measured.threshold:g} and more"
    drawn = "all" if measured.is_exact else f"{measured.sampled:,} of {measured.documents:,}"
    note(f"compared {drawn} documents with all others")
    if total.recall is None:
        note(f"there is no pair {where}, so nothing says whether the promise is kept")
    else:
        note(
            f"found {total.found:,} of {counted(total.pairs, 'pair')} {where}: {total.recall:.4f} "
            f"(99 % interval {total.lower:.4f} to {total.upper:.4f})"
        )
    for text in _reasons(total):
        note(text)
    if measured.lost:
        complain(
            f"error: the index lost {counted(measured.lost, 'pair')} that share a bucket; run "
            "lshdb check"
        )
        ctx.exit(DAMAGED)
    if measured.is_kept is False:
        complain(f"the promise, {measured.promise:.4g}, is not kept{_why(measured)}")
        ctx.exit(BROKEN_PROMISE)
    if measured.is_kept:
        note(f"nothing speaks against the promise, {measured.promise:.4g}")


def _reasons(total: RecallSlice) -> list[str]:
    """Say why pairs were missed, but for damage."""
    said = []
    if total.no_band:
        said.append(f"{counted(total.no_band, 'pair')} missed because no band agrees, by chance")
    if total.too_few_slots:
        said.append(f"{counted(total.too_few_slots, 'pair')} missed by too few equal slots")
    if total.left_out:
        said.append(f"{counted(total.left_out, 'pair')} missed through --max-bucket")
    return said


def _why(measured: MeasuredRecall) -> str:
    params = measured.params
    if measured.at_threshold < measured.promise - 1e-6:
        return (
            f": {params.bands} bands of {params.rows} rows find a pair at {measured.threshold:g} "
            f"with probability {measured.at_threshold:.4g}"
        )
    if measured.total.is_kept is not False:
        parts = [part for part in measured.slices if part.is_kept is False]
        return " between " + ", ".join(f"{part.low:g} and {part.high:g}" for part in parts)
    return ""
