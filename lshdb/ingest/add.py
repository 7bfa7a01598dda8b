"""Documents -> batches: the way of every document into the index.

The stream of documents is cut into batches that fit in memory, and unacceptable items are reported
on the way. The bodies of a batch are hashed. Those that are new are normalised, hashed and signed
when the batch is committed (``pipeline.py``).

All documents of one add carry the same time, later than that of any add before, which is how a key
that comes twice in one add is told from one that was there before, in whichever batches they fall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from lshdb.arguments import check_items, check_name, check_whole
from lshdb.documents import Given, Rejected, given_document, json_fields, validate_key
from lshdb.errors import AllRejectedError, InputError, LockedError, TooManyRejectedError
from lshdb.ingest.batch import Batch, Contents, hash_bodies, hash_contents, sign_in_threads
from lshdb.ingest.pipeline import AddResult, Run, Source, check_on_conflict, commit_batches
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.tables.bodies import pack_body
from lshdb.storage.transactions.diagnosis import callers_function, callers_items
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers

__all__ = ["REPEATED", "AddResult", "Rejections", "add_documents", "in_batches", "source_of_bodies"]

BATCH_DOCUMENTS = 40_000
BATCH_CHARACTERS = 32 * 2**20
REPEATED = "came before in this input; the first one counts"
"""How the reason ends for a document whose key came before."""
_REJECTIONS_KEPT = 100
_CONVERTED = 256
"""Vectors that are brought into the index's type together."""

Times = Callable[[Any], tuple[str, str]]
"""When a document first and last came in."""


def add_documents(
    store: Store,
    items: Iterable[Given],
    *,
    family: Family,
    source: str,
    on_conflict: str,
    max_errors: int | None,
    night: str = "",
    lock_timeout: float,
    workers: int | None,
    on_reject: Callable[[Rejected], None] | None,
    on_commit: Callable[[AddResult], None] | None,
    on_wait: Callable[[LockedError], None] | None = None,
) -> AddResult:
    """Add documents; see :meth:`lshdb.Index.add`."""
    if night:
        check_name("night", night)
    if max_errors is not None:
        check_whole("max_errors", max_errors, 0)
    check_on_conflict(on_conflict)
    check_items(
        "documents", items, "an iterable of (key, text) pairs or documents",
        hint="put one document into a list; a dict gives its pairs by .items()",
    )  # fmt: skip
    workers = choose_workers(workers)
    begun = time.perf_counter()
    result = AddResult()
    rejections = Rejections(result, on_reject=on_reject, max_errors=max_errors)
    batches = in_batches(callers_items(items), family, rejections.add)
    bodies = source_of_bodies(source, batches, family, rejections, workers=workers)
    waiting = callers_function(on_wait)
    with Writer(store, lock_timeout=lock_timeout, on_wait=waiting) as writer:
        run = Run(writer, family.params, result, on_conflict=on_conflict, night=night)
        commit_batches(run, [bodies], on_commit=callers_function(on_commit))
    result.seconds = time.perf_counter() - begun
    if result.rejected and not result.documents:
        raise _all_rejected(result)
    return result


def source_of_bodies(
    name: str, batches: Iterable[Batch], family: Family, rejections: Rejections, *, workers: int
) -> Source:
    """Return a source whose documents are signed by a family, on some threads."""
    params = family.params
    is_ordered = params.k > 1 or params.unit == "url" or not params.keeps_texts
    return Source(
        name,
        batches,
        sign=lambda contents: sign_in_threads(contents, family, workers=workers),
        vectors=np.stack,
        pack=pack_body,
        contents=partial(hash_contents, family),
        is_same=None if is_ordered else _has_same_tokens,
        on_repeat=rejections.add_repeat,
    )


class Rejections:
    """The rejected items of an input: counts them, and reports them to the caller.

    Parameters
    ----------
    result : AddResult
        Counted up.
    on_reject : callable, optional
        Called with each.
    max_errors : int, optional
        Stop when there are more.
    """

    def __init__(
        self,
        result: AddResult,
        *,
        on_reject: Callable[[Rejected], None] | None,
        max_errors: int | None,
    ) -> None:
        self._result = result
        self._on_reject = callers_function(on_reject)
        self._max_errors = max_errors

    def add(self, rejection: Rejected) -> None:
        """Count and report one rejected input.

        Raises
        ------
        TooManyRejectedError
            That was one more than max_errors.
        """
        result = self._result
        result.rejected += 1
        if len(result.rejections) < _REJECTIONS_KEPT:
            result.rejections.append(rejection)
        if self._on_reject is not None:
            self._on_reject(rejection)
        if self._max_errors is not None and result.rejected > self._max_errors:
            raise TooManyRejectedError(
                f"{result.rejected} inputs were rejected and {self._max_errors} are allowed; "
                f"stopped at {rejection.source}, with {result.documents} documents committed "
                "before",
                hint="mend the input, or allow more with --max-errors; "
                "adding it again leaves what is in unchanged",
            )

    def add_repeat(self, key: str, source: str) -> None:
        """Count and report a document whose key came before."""
        reason = f"the key {key!r} {REPEATED}"
        self.add(Rejected(source or f"key {key!r}", reason))


def _all_rejected(result: AddResult) -> AllRejectedError:
    first, n = result.rejections[0], result.rejected
    return AllRejectedError(
        f"{first.source}: {first.reason}"
        + (f"; nor was any of the other {n - 1:,} inputs accepted" if n > 1 else ""),
        result=result,
        hint="the error's result.rejections has the reason of each; see lshdb guide input for "
        "what is accepted",
    )


def in_batches(
    items: Iterable[Given],
    family: Family,
    reject: Callable[[Rejected], None],
    *,
    times: Times | None = None,
) -> Iterator[Batch]:
    """Yield batches that fit in memory; unacceptable items are left out and reported.

    Vectors and bits come out as their contents: a list of numbers takes eight times the memory. A
    full batch is given out once another item has come, so that the last batch is known as the last.
    """
    is_dense = family.params.kind.is_dense
    batch = Batch()
    characters = done = 0
    is_full = False
    try:
        for item in items:
            if is_full:
                yield _completed(batch, family)
                batch, characters, done, is_full = Batch(), 0, 0, False
            if isinstance(item, Rejected):
                reject(item)
                continue
            document = given_document(item)
            reason = validate_key(document.key) or family.refusal(document.body)
            if document.fields and reason is None:
                try:
                    batch.fields[len(batch.keys)] = json_fields(document.fields)
                except InputError as error:
                    reason = error.message
            if reason is not None:
                reject(Rejected(document.source or f"key {document.key!r}"[:200], reason))
                continue
            bodies = batch.bodies
            bodies.append(document.body)
            batch.keys.append(document.key)
            batch.sources.append(document.source)
            if times is not None:
                batch.times.append(times(document))
            characters += _weight(document.body)
            is_full = len(bodies) >= BATCH_DOCUMENTS or characters >= BATCH_CHARACTERS
            if is_dense and (is_full or len(bodies) - done >= _CONVERTED):
                bodies[done:] = family.contents(bodies[done:])
                done = len(bodies)
    except Exception:
        if is_full:
            yield _completed(batch, family)  # whatever became of the items after it
        raise
    if batch.keys:
        if is_dense:
            batch.bodies[done:] = family.contents(batch.bodies[done:])
        batch.is_last = True
        yield _completed(batch, family)


def _completed(batch: Batch, family: Family) -> Batch:
    """Fill the columns that follow from the bodies of a batch, and return it."""
    params = family.params
    forms, raw_bodies, hashes = hash_bodies(batch.bodies)
    batch.body_hashes = hashes
    if params.kind.is_dense:  # whose bodies are their contents
        batch.sizes = [params.dim] * len(hashes)
        batch.contents = Contents(batch.bodies, hashes, [0] * len(hashes))
    else:
        batch.sizes = [_n_chars(body) for body in batch.bodies]
    if params.keeps_texts:
        batch.forms, batch.raw_bodies = forms, raw_bodies
    return batch


def _has_same_tokens(body: Any, stored: Callable[[], Any]) -> bool:
    """Whether two lists of single tokens differ in their order alone, which does not count.

    An index does not grow by a set that comes in as a list, in a new order each night.
    """
    if not isinstance(body, list | tuple):
        return False
    before = stored()
    return isinstance(before, list) and sorted(before) == sorted(body)


def _weight(body: Any) -> int:
    """Return characters, plus 64 for each token; for vectors, bytes."""
    if isinstance(body, str):
        return len(body)
    if isinstance(body, np.ndarray):
        return int(body.nbytes)
    return _n_chars(body) + 64 * len(body)


def _n_chars(body: Any) -> int:
    if isinstance(body, str):
        return len(body)
    return sum(len(token) for token in body if isinstance(token, str))
