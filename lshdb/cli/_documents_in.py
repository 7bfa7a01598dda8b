"""Make an index if there is none, and add with progress; ``add``, ``demo`` and ``dedup`` do so."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from lshdb import (
    AllRejectedError,
    Document,
    Index,
    IndexNotFoundError,
    InputError,
    LockedError,
    LshdbError,
    Rejected,
    read_documents,
)
from lshdb.arguments import OnConflictOfAdd
from lshdb.cli._errors import interruption
from lshdb.cli._long_work import AddProgress, TaskProgress
from lshdb.cli._output import complain, is_quiet, note
from lshdb.cli._words import counted, described, unfinished_last, units_in_words
from lshdb.documents.read import peek_documents
from lshdb.params.metrics import DEFAULT_METRIC, METRICS
from lshdb.shingling import URL_UNITS

if TYPE_CHECKING:
    from lshdb.documents.blocks import DocumentStream
    from lshdb.documents.read import Peek
    from lshdb.ingest.add_result import AddResult
    from lshdb.params.index_params import IndexParams
    from lshdb.transient.transient_index import TransientIndex

__all__ = [
    "add_watched",
    "advice_for",
    "committing",
    "create_and_say",
    "documents_for",
    "note_resumed",
    "note_short",
    "note_slow",
    "open_if_there",
    "require_metric",
    "summary",
]

_ARRAYS = ("npy", "npz")
_SUFFIXES = (".npy", ".npz")


def advice_for(paths: Iterable[str]) -> str:
    """Return what to check if no document of some files was accepted."""
    if all(os.path.isfile(path) and not os.path.getsize(path) for path in paths):
        return "the input is empty: check the program that wrote it"
    if not all(path.isprintable() for path in paths):  # bytes that are not UTF-8 are surrogates
        return "documents are named after their files: give the files names of letters in UTF-8"
    return (
        "check the input and the options for reading it: --key-field, --text-field and --row-keys "
        "for records (lshdb guide input)"
    )


def require_metric(paths: Iterable[str], parameters: Mapping[str, Any], input_format: str) -> None:
    """Refuse vectors for a new index without a metric: its default metric compares texts.

    Raises
    ------
    InputError
    """
    for path in paths:
        is_array = input_format in _ARRAYS or os.path.splitext(path)[1].lower() in _SUFFIXES
        if "metric" not in parameters and is_array:
            raise InputError(
                f"{path} holds vectors, and no metric is given to compare them by",
                hint="give --metric: cosine, l2 or l1; for bits, hamming or jaccard-bits",
            )


def _seen_parameters(peek: Peek, *, is_dim_given: bool) -> dict[str, Any]:
    """Return the parameters that a new index takes from the input because none were given.

    Raises
    ------
    InputError
        The input has no vector.
    """
    if not is_dim_given and peek.dim is None:
        raise InputError(
            "the input has no vector to take the dimension from",
            hint="check the input, or give --dim",
        )
    values = {"dim": peek.dim, "dtype": peek.dtype, "sample": peek.bodies or None}
    return {name: value for name, value in values.items() if value is not None}


def documents_for(
    index: Index | None,
    paths: Sequence[str],
    reading: Mapping[str, Any],
    parameters: Mapping[str, Any],
    progress: AddProgress,
) -> tuple[DocumentStream, dict[str, Any]]:
    """Open files for an index, or for a new one; also return the parameters that they show.

    Parameters
    ----------
    index : Index or None
        None if it is to be made with the parameters.
    paths : sequence of str
    reading : mapping
        Arguments of ``read_documents``.
    parameters : mapping
        Parameters of a new index.
    progress : AddProgress

    Raises
    ------
    InputError, ParameterError
    """
    if index is None:
        unit, dim = parameters.get("unit"), parameters.get("dim")
        kind = METRICS[parameters.get("metric", DEFAULT_METRIC)]
    else:
        unit, dim, kind = index.params.unit, index.params.dim or None, index.params.kind
    how: dict[str, Any] = {
        "body": kind.body,
        "dim": dim,
        "fallback": "urls" if unit in URL_UNITS else None,
        "on_note": progress.line,
    }
    if index is None and kind.is_dense:
        peek, items = peek_documents(paths, **reading, **how)
        if dim is None and peek.dim is None:
            with progress:  # why there is no vector
                for item in items:
                    if isinstance(item, Rejected):
                        progress.rejected(item)
        return items, _seen_parameters(peek, is_dim_given=dim is not None)
    return read_documents(paths, **reading, **how), {}


def open_if_there(path: str, **parameters: Any) -> Index | None:
    """Open an index; return None for an empty folder or nothing, where one can be made.

    Raises
    ------
    IndexNotFoundError
        Something else is at that path.
    ParameterMismatchError
        It was made with parameters other than those given.
    """
    try:
        return Index.open(path, **parameters)
    except IndexNotFoundError:
        if os.path.isdir(path) and not os.listdir(path):
            return None
        if os.path.lexists(path):
            raise
        return None


@contextlib.contextmanager
def create_and_say(
    path: str,
    *,
    lock_timeout: float = 60.0,
    from_peek: dict[str, Any] | None = None,
    **parameters: Any,
) -> Iterator[Index]:
    """Make an index with the given parameters, say so, and close it at the end.

    It appears at its place with its first commit. If another process is making it, wait for that
    and open the result. ``from_peek`` holds what the input showed. It is for a new index only; an
    existing one may differ.
    """
    try:
        index, is_new = _create(path, lock_timeout, **{**(from_peek or {}), **parameters}), True
    except LshdbError as error:
        try:
            index, is_new = Index.open(path, **parameters), False
        except IndexNotFoundError:
            raise error from None
    with index:
        if is_new:
            how = "" if parameters else " with the defaults"
            note(f"making the index {path}{how}: {described(index.params)}")
            note_slow(index.params)
        yield index


def _create(path: str, lock_timeout: float, **parameters: Any) -> Index:
    try:
        return Index.create(path, deferred=True, lock_timeout=0.0, **parameters)
    except LockedError as error:
        if lock_timeout == 0:
            raise
        note(_waiting(error, lock_timeout, "which is making that index"))
    return Index.create(path, deferred=True, lock_timeout=lock_timeout, **parameters)


def _waiting(error: LockedError, timeout: float, what: str) -> str:
    holder = f"process {error.pid}" if error.pid else "another process"
    return f"waiting up to {timeout:g} s for {holder}, {what}"


def add_watched(
    index: Index | TransientIndex,
    items: Iterable[Document | Rejected],
    progress: AddProgress,
    *,
    source: str,
    lock_timeout: float,
    on_conflict: OnConflictOfAdd = "replace",
    max_errors: int | None = None,
    night: str = "",
    workers: int | None = None,
    report_rejected: bool = True,
    stays: bool = True,
) -> AddResult:
    """Add with progress; say what it waits for and, after Ctrl-C, what is committed.

    An index that does not stay is removed after Ctrl-C, so nothing is said of it.
    """
    watched = progress.watch(items)

    def say_waiting(error: LockedError) -> None:
        if not is_quiet():
            progress.line(_waiting(error, lock_timeout, "which is writing to the index"))

    lasting: dict[str, Any] = {}
    if isinstance(index, Index):
        lasting = {"on_conflict": on_conflict, "source": source, "night": night}
        lasting |= {"lock_timeout": lock_timeout, "on_wait": say_waiting}
    try:
        with progress:
            return index.add(
                watched,
                max_errors=max_errors,
                workers=workers,
                on_reject=progress.rejected if report_rejected else None,
                on_commit=progress.committed,
                **lasting,
            )
    except AllRejectedError as error:  # each was reported, and the exit code says so
        return error.result
    except KeyboardInterrupt as error:
        if not stays:
            raise
        word, code = interruption(error)
        complain(f"{word}; {_kept(progress.result, 'adding the same input')}")
        raise click.exceptions.Exit(code) from None


@contextlib.contextmanager
def committing(words: str) -> Iterator[TaskProgress]:
    """Show what is being committed and, after Ctrl-C, say what is in the index."""
    progress = TaskProgress(words)
    try:
        with progress:
            yield progress
    except KeyboardInterrupt as error:
        word, code = interruption(error)
        complain(f"{word}; {_kept(progress.result, words)}")
        raise click.exceptions.Exit(code) from None


def summary(result: AddResult) -> str:
    """Describe in one line what an add did; what did not happen is left out."""
    counts = {
        "added": f"{result.added:,}",
        "replaced": f"{result.replaced:,}" + f" ({result.united:,} united)" * bool(result.united),
        "removed": f"{result.stale:,}",
        "unchanged": f"{result.unchanged:,}",
        "exact copies": f"{result.copies:,}",
        "rejected": f"{result.rejected:,}",
    }
    said = [f"{name} {n}" for name, n in counts.items() if n != "0" or name == "added"]
    cut = f"cut {counted(result.cut, 'document')} into passages; " if result.cut else ""
    rate = result.documents / result.seconds if result.seconds else 0.0
    unit = counted(round(rate), "passage" if result.cut else "document")
    return f"{cut}{', '.join(said)}; {unit}/s; {_batches(result)}"


_MANY_SHORT = 100
"""Short texts are said from one new document in so many on."""


def note_short(params: IndexParams, result: AddResult) -> None:
    """Say so if many of the new texts are too short to be similar to others."""
    if params.k == 1 or result.short * _MANY_SHORT < max(result.added + result.replaced, 1):
        return
    note(
        f"{counted(result.short, 'new document has', 'new documents have')} one shingle at most "
        f"({counted(params.k, *units_in_words(params))} or fewer): nothing but the same text is "
        "similar; an index with a smaller --k compares shorter texts (lshdb guide choosing)"
    )


def note_slow(params: IndexParams) -> None:
    """Say so if bands of one row will compare most documents with each other."""
    if params.rows == 1:
        note(
            f"threshold {params.threshold:g} at recall {params.recall:g} makes bands of one row: "
            "documents that agree in a single slot are compared, so pairs and queries take long in "
            "a large index; a higher --threshold, a lower --recall or a larger --num-perm helps"
        )


def note_resumed(index: Index, result: AddResult) -> None:
    """Say what an unfinished add had brought, and warn if the add before this one has not ended."""
    if result.resumed:
        note(
            f"{result.resumed:,} of the unchanged documents came in with an add that did not end; "
            "they count as new with this one"
        )
    first = result.batches[0] if result.batches else 0
    left = unfinished_last([batch for batch in index.batches() if batch.batch_id < first])
    if left is not None:
        note(
            f"the add before this one ({left.source}, begun {left.started_at[:16]} UTC) did not "
            "end; add its input again, or --since last will never show what it brought"
        )


def _batches(result: AddResult) -> str:
    if not result.batches:
        return "no batch"
    first, last = result.batches[0], result.batches[-1]
    return f"batch {first}" if first == last else f"batches {first}-{last}"


def _kept(result: AddResult | None, what: str) -> str:
    if result is None or not result.batches:
        return "nothing was committed"
    return (
        f"{counted(result.documents, 'document is', 'documents are')} committed and stay "
        f"({_batches(result)}); "
        f"{what} again adds the rest"
    )
