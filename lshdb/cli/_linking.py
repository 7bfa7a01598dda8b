"""What commands that rest on stored edges share: options, and bringing edges up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lshdb import Index
from lshdb.cli._options import lock_option, max_bucket_option, memory_option
from lshdb.cli._output import note

__all__ = ["linkage_option", "linking_options", "update_edges"]

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
            "Link larger buckets through leaders and do not compare all their pairs; another "
            "number than before finds all pairs anew.  [default: as before; 1000]"
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
    max_bucket: int | None,
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
    if state is not None and state.hot_buckets:
        note(
            f"{state.hot_buckets:,} buckets of more than {state.max_bucket:,} documents were "
            f"linked through leaders: {state.hot_pairs:,} of their pairs were not compared there; "
            f"a pair is found less often by at most {state.recall_lost:.4f}, as estimated"
        )
        curve = index.params.curve
        if threshold is not None and curve.level(threshold) > state.threshold:
            note(
                f"documents of those buckets were linked at {curve.value(state.threshold):g}; at "
                f"{threshold:g} they may fall into more clusters than they should"
            )
