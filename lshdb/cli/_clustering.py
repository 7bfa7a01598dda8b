"""What commands that rest on stored edges share: options, and bringing edges up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lshdb import Index
from lshdb.cli._options import lock_option, max_bucket_option, memory_option
from lshdb.cli._output import note
from lshdb.cli._searching import in_words

__all__ = ["linkage_option", "linking_options", "update_edges"]

MAX_BUCKET = 1000
"""The cap where none was ever given."""

Function = TypeVar("Function", bound=Callable[..., Any])


def linkage_option(function: Function) -> Function:
    """What becomes of a chain."""
    return click.option(
        "--linkage",
        type=click.Choice(["component", "representative"]),
        default="component",
        show_default=True,
        help="Keep a chain of similar documents together, or cut it so that every member is "
        "similar to the one that the cluster is called after.",
    )(function)


def linking_options(function: Function) -> Function:
    """How similar, how verified, and whether what is stored is brought up to date first."""
    options = (
        click.option(
            "--threshold",
            type=float,
            metavar="T",
            help="Lowest similarity, or largest distance.  [default: the index's]",
        ),
        click.option(
            "--verify",
            type=click.Choice(["signature", "exact"]),
            help="How pairs are verified; another way than before finds all of them anew.  "
            "[default: as before; exact where texts are stored]",
        ),
        max_bucket_option(
            "Link larger buckets through leaders and do not compare all their pairs; none compares "
            "all. What is given holds until another is given, which finds all pairs anew.  "
            "[default: as before; 1000]"
        ),
        memory_option,
        click.option(
            "--no-update",
            is_flag=True,
            help="Answer from the pairs that were found before, and write nothing.",
        ),
        lock_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def update_edges(
    index: Index,
    *,
    threshold: float | None,
    verify: str | None,
    max_bucket: int | str | None,
    memory: int,
    no_update: bool,
    lock_timeout: float,
) -> None:
    """Bring verified pairs and clusters up to date, and say what was not compared."""
    if no_update:
        if verify is not None or max_bucket is not None:
            raise click.UsageError(
                "--verify and --max-bucket find pairs anew; --no-update does not"
            )
        state = index.edge_state()
    else:
        state = index.update_clusters(
            threshold=threshold,
            verify=verify,
            max_bucket=max_bucket,
            memory=memory,
            lock_timeout=lock_timeout,
        )
    if state is None:
        return
    if max_bucket is None and state.max_bucket != MAX_BUCKET:
        cap = "none" if state.max_bucket is None else f"{state.max_bucket}"
        note(
            f"an earlier --max-bucket {cap} is still in force; "
            f"give --max-bucket {MAX_BUCKET} for the default, or another number or none"
        )
    if state.hot_buckets:
        note(
            f"{state.hot_buckets:,} buckets of more than {state.max_bucket:,} documents were "
            f"linked through leaders: {state.hot_pairs:,} of their pairs were not compared there; "
            f"{in_words(index.loss(threshold=threshold))}"
        )
        curve = index.params.curve
        if threshold is not None and curve.level(threshold) > state.threshold:
            note(
                f"documents of those buckets were linked at {curve.value(state.threshold):g}; at "
                f"{threshold:g} they may fall into more clusters than they should"
            )
