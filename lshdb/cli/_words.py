"""Wording that commands share: parameters, similarities, losses, and notes about them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lshdb import Index
from lshdb.cli._output import Column, RowBlock, note
from lshdb.params.index_params import IndexParams, check_threshold

if TYPE_CHECKING:
    from lshdb import JoinedPairs, Loss, PairSearch, TransientIndex
    from lshdb.storage.tables.records import StoredBatch
from lshdb.shingling import NORMALISATION, URL_UNITS

__all__ = [
    "UNIT_NAMES",
    "contents_in_words",
    "counted",
    "described",
    "element_in_words",
    "loss_in_words",
    "measured",
    "note_unfinished",
    "note_unverified",
    "pair_rows",
    "texts_in_words",
    "unfinished_last",
    "units_in_words",
]

Row = Sequence[Any] | None

UNIT_NAMES = {
    "word": "word",
    "char": "character",
    "byte": "byte",
    "line": "line",
    "token": "token",
    "url": "URL token",
    "url-host": "URL token",
    "tokenizer": "token",
}
"""The name of one unit; the choices of ``--unit``."""

_STEPS = {
    "accents": "accents dropped",
    "digits": "numbers as 0",
    "punctuation": "punctuation as blanks",
}


def contents_in_words(params: IndexParams) -> tuple[str, str]:
    """Describe the contents that are compared, as a name and details."""
    if params.kind.body == "vector":
        return "vectors", f"{params.dim:,} numbers as {params.dtype}, by {params.metric}"
    if params.kind.body == "bits":
        return "bits", f"{params.dim:,}, by {params.metric}"
    if params.kind.body == "weights":
        return "weights", f"of tokens, or of {_shingles_in_words(params)}, by {params.metric}"
    return "shingles", _shingles_in_words(params)


def _shingles_in_words(params: IndexParams) -> str:
    """Describe a shingle, and say whether repeats count."""
    plural = f"{UNIT_NAMES[params.unit]}{'s' * (params.k > 1)}"
    by = f" by {params.tokenizer}" if params.tokenizer else ""
    place = " with their place in the path" if params.unit in URL_UNITS else ""
    if params.unit == "url-host":
        place += ", and each token of the host"
    is_counted = params.bag or params.kind.body == "weights"
    repeats = "counted again where they repeat" if is_counted else "as a set"
    return f"{params.k} {plural}{by}{place}, {repeats}{_stop_words_in_words(params)}"


def _stop_words_in_words(params: IndexParams) -> str:
    """Say how many stop words are left out; nothing if there are none."""
    n = len(params.stop_tokens.split()) if params.unit == "word" else 0
    return f", without {counted(n, 'stop word')}" if n else ""


def element_in_words(params: IndexParams) -> str:
    """Name the element; a body without any is compared with nothing."""
    return "bit that is set" if params.kind.is_dense else UNIT_NAMES[params.unit]


def texts_in_words(params: IndexParams) -> str | None:
    """Describe how texts are normalised; None for the usual way, or if there are no texts."""
    if params.kind.is_dense:
        return None
    steps = params.normalisation.split("-")
    if params.normalisation == NORMALISATION:
        return None
    if steps == ["none"]:
        return "used as they are"
    said = ["letter case folded" if "casefold" in steps else "letter case kept"]
    said += [_STEPS[step] for step in steps if step in _STEPS]
    return ", ".join(said)


def counted(n: int, singular: str, several: str | None = None) -> str:
    """Return a number with the word for it: 1 pair, 2 pairs; by default several have an s."""
    return f"{n:,} {singular if n == 1 else several or f'{singular}s'}"


def units_in_words(params: IndexParams) -> tuple[str, str]:
    """Return the words for one unit of a shingle and for several."""
    return UNIT_NAMES[params.unit], f"{UNIT_NAMES[params.unit]}s"


def described(params: IndexParams) -> str:
    """Describe threshold and contents in a few words, for a note."""
    if params.kind.is_dense:
        what = "bits" if params.kind.body == "bits" else params.dtype
        said = "distance" if params.kind.is_distance else "threshold"
        return f"{params.metric}, {said} {params.threshold:g}, {params.dim:,} {what}"
    by = f" by {params.tokenizer}" if params.tokenizer else ""
    names = {"tokenizer": "token", "url": "token URL", "url-host": "token URL-and-host"}
    unit = names.get(params.unit, params.unit)
    metric = f"{params.metric}, " if params.kind.body == "weights" else ""
    shingles = f"{params.k}-{unit} shingles{by}{_stop_words_in_words(params)}"
    windows = ""
    if params.window is not None:
        words, step = params.window
        windows = f", windows of {words:,} words, one every {step:,}"
    return f"{metric}threshold {params.threshold:g}, {shingles}{windows}"


def pair_rows(pairs: PairSearch | JoinedPairs) -> Iterator[RowBlock]:
    """Yield pairs for a listing: keys, similarity and method."""
    for block in pairs.columns():
        columns = block.keys1, block.keys2, block.similarities, itertools.repeat(block.method)
        yield RowBlock(columns, len(block))


def measured(
    params: IndexParams,
    columns: Sequence[Column],
    rows: Iterable[Row | RowBlock],
    measure: str = "similarity",
) -> tuple[Sequence[Column], Iterable[Row | RowBlock]]:
    """Name the column of similarities or distances, and convert its levels."""
    name = "distance" if params.kind.is_distance else measure
    place = [column.name for column in columns].index("similarity")
    named = [*columns[:place], Column(name, "similarity"), *columns[place + 1 :]]
    if not params.kind.is_distance:
        return named, rows
    value = params.curve.value

    def converted() -> Iterator[Row | RowBlock]:
        for row in rows:
            if isinstance(row, RowBlock):
                columns = [*row.columns]
                columns[place] = [value(level) for level in columns[place]]
                yield RowBlock(columns, row.n_rows)
            elif row is None or row[place] is None:
                yield row
            else:
                yield (*row[:place], value(row[place]), *row[place + 1 :])

    return named, converted()


def note_unverified(
    index: Index | TransientIndex, threshold: float | None, verify: str | None
) -> None:
    """Say that a threshold does not apply to candidates that are not verified."""
    params = index.params
    if threshold is None:
        return
    check_threshold(params.metric, threshold)  # no note about a question that is refused
    needs_files = not params.store_text or params.keeps_vectors
    is_unverified = verify is None and needs_files and not index.has_signatures
    if verify == "none" or is_unverified:
        note("--threshold does not apply with --verify none, which gives every candidate")


def note_unfinished(index: Index | TransientIndex, since: int | str | None) -> None:
    """Say so if the question is about the last add, and that add has not ended."""
    if since != "last" or not isinstance(index, Index):
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


def loss_in_words(loss: Loss | None) -> str:
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
