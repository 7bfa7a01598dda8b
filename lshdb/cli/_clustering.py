"""What commands on stored verified pairs share: their options, and updating those pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lshdb import Index
from lshdb.arguments import Verify
from lshdb.cli._options import lock_option, max_bucket_option, memory_option
from lshdb.cli._output import note
from lshdb.cli._searching import in_words

__all__ = ["linkage_option", "linking_options", "update_edges"]

MAX_BUCKET = 1000
"""The cap if none was ever given."""

Function = TypeVar("Function", bound=Callable[..., Any])


def linkage_option(function: Function) -> Function:
    """Add the option that decides about chains of similar documents."""
    return click.option(
        "--linkage",
        type=click.Choice(["component", "representative"]),
        default="component",
        show_default=True,
        help="component keeps chains of similar documents together; representative cuts them so "
        "that every member is similar to the document that names the cluster.",
    )(function)


def linking_options(function: Function) -> Function:
    """Add the options for threshold and verification, and for whether to update first."""
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
            help="How to verify pairs. A method other than the last one finds all pairs again.  "
            "[default: as before; exact where texts are stored]",
        ),
        max_bucket_option(
            "Join the documents of larger buckets through leaders instead of comparing all their "
            "pairs; none compares all. The value holds until you give another, which finds all "
            "pairs again.  [default: as before; 1000]"
        ),
        memory_option,
        click.option(
            "--no-update",
            is_flag=True,
            help="Answer from the pairs found before, and write nothing.",
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
    verify: Verify | None,
    max_bucket: int | str | None,
    memory: int,
    no_update: bool,
    lock_timeout: float,
) -> None:
    """Update verified pairs and clusters, and say what was not compared."""
    if no_update:
        if verify is not None or max_bucket is not None:
            raise click.UsageError(
                "--verify and --max-bucket find pairs again; --no-update does not"
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
            f"joined through leaders; {state.hot_pairs:,} of their pairs were not compared there; "
            f"{in_words(index.loss(threshold=threshold))}"
        )
        curve = index.params.curve
        if threshold is not None and curve.level(threshold) > state.threshold:
            note(
                f"documents of those buckets were joined at {curve.value(state.threshold):g}; at "
                f"{threshold:g} they may fall into more clusters than they should"
            )
