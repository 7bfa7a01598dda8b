"""What listings of similar documents share: similarity or distance, and their notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lshdb import Index, IndexParams, Loss
from lshdb.cli._output import Column, note
from lshdb.params.index_params import check_threshold

if TYPE_CHECKING:
    from lshdb.storage.tables.records import StoredBatch

__all__ = ["in_words", "measured", "note_unfinished", "note_unverified", "unfinished_last"]

Row = Sequence[Any] | None


def measured(
    params: IndexParams, columns: Sequence[Column], rows: Iterable[Row]
) -> tuple[Sequence[Column], Iterable[Row]]:
    """Replace similarity by distance in columns and rows, if the metric is a distance."""
    if not params.kind.is_distance:
        return columns, rows
    place = [column.name for column in columns].index("similarity")
    named = [*columns[:place], Column("distance", "similarity"), *columns[place + 1 :]]
    value = params.curve.value

    def converted() -> Iterator[Row]:
        for row in rows:
            if row is None or row[place] is None:
                yield row
            else:
                yield (*row[:place], value(row[place]), *row[place + 1 :])

    return named, converted()


def note_unverified(index: Index, threshold: float | None, verify: str | None) -> None:
    """Say that a threshold does not apply to candidates that are not verified."""
    params = index.params
    if threshold is None:
        return
    check_threshold(params.metric, threshold)  # no note about a question that is refused
    needs_files = not params.store_text or params.keeps_vectors
    is_unverified = verify is None and needs_files and not index.has_signatures
    if verify == "none" or is_unverified:
        note("--threshold does not apply with --verify none, which gives every candidate")


def note_unfinished(index: Index, since: int | str | None) -> None:
    """Say so if the last add, which the question asks for, did not end."""
    if since != "last":
        return
    batch = unfinished_last(index.batches())
    if batch is not None:
        note(
            f"the last add ({batch.source}, begun {batch.started_at[:16]} UTC) has not ended; "
            "only what it brought so far counts as new; add the same input again for the rest"
        )


def unfinished_last(batches: Sequence[StoredBatch]) -> StoredBatch | None:
    """Return the last of these batches that changed something, if its add has not ended."""
    for batch in reversed(batches):
        if batch.n_added or batch.n_replaced:
            return None if batch.has_ended else batch
    return None


def in_words(loss: Loss | None) -> str:
    """Say what large buckets cost, as the end of a sentence."""
    if loss is None:
        return "how many near-duplicate pairs that loses is unknown"
    if loss.is_exact:
        what = "near-duplicate pair" + "s" * (loss.pairs != 1)
        return f"that loses {loss.pairs:,.0f} {what}, {loss.share:.2%} of all (counted)"
    return (
        f"that loses an estimated {loss.share:.2%} of the near-duplicate pairs "
        f"(99 % interval {loss.low:.2%} to {loss.high:.2%})"
    )
