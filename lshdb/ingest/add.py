"""Documents -> batches: the way of every document into the index.

The stream of documents is cut into batches that fit in memory, and unacceptable items are reported
on the way. The bodies of a batch are hashed. Those that are new are normalised, hashed and signed
when the batch is committed (``pipeline.py``).

All documents of one add carry the same time, later than that of any add before, which is how a key
that comes twice in one add is told from one that was there before, in whichever batches they fall.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np

from lshdb.arguments import check_items, check_name, check_whole
from lshdb.documents import (
    Block,
    Document,
    DocumentStream,
    Given,
    Rejected,
    given_document,
    json_fields,
    validate_key,
)
from lshdb.errors import AllRejectedError, InputError, LockedError, TooManyRejectedError
from lshdb.ingest.ahead import PART_CHARACTERS, PART_DOCUMENTS, Ahead, Part
from lshdb.ingest.batch import Batch, Contents, hash_bodies
from lshdb.ingest.cut_documents import cut_document
from lshdb.ingest.pipeline import (
    ON_CONFLICT,
    AddResult,
    Run,
    Source,
    check_on_conflict,
    commit_batches,
)
from lshdb.ingest.unite import check_unites
from lshdb.params.index_params import IndexParams
from lshdb.shingling import URL_UNITS
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.transactions.diagnosis import callers_function, callers_items
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers

__all__ = [
    "REPEATED",
    "AddResult",
    "Rejections",
    "add_documents",
    "has_order",
    "has_same_tokens",
    "in_batches",
    "n_chars_of",
    "source_of_bodies",
]

BATCH_DOCUMENTS = 20_000
"""No more than may be read ahead: all of a batch is signed while the one before is written."""
BATCH_CHARACTERS = 32 * 2**20
FIRST_DOCUMENTS = 5_000
"""The first batch of a new index is no larger, and each other one at most twice the one before:
until a first one is read and signed, nothing is written."""
_AHEAD_DOCUMENTS = 20_000
_AHEAD_CHARACTERS = 8 * 2**20
"""So much of the next batch may be signed while a full one is written."""
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
    check_on_conflict(on_conflict, ways=(*ON_CONFLICT, "unite"))
    if on_conflict == "unite":
        check_unites(family.params)
    check_items(
        "documents", items, "an iterable of (key, text) pairs or documents",
        hint="put one document into a list; a dict gives its pairs by .items(); files are read by "
        "lshdb.read_documents([path])",
    )  # fmt: skip
    workers = choose_workers(workers)
    begun = time.perf_counter()
    result = AddResult()
    rejections = Rejections(result, on_reject=on_reject, max_errors=max_errors)
    waiting = callers_function(on_wait)
    with (
        Writer(store, lock_timeout=lock_timeout, on_wait=waiting) as writer,
        Ahead(family, writer.codec, workers=workers, expects_new=writer.began_empty) as ahead,
    ):
        given = items.by_blocks() if isinstance(items, DocumentStream) else items
        batches = in_batches(
            callers_items(given), family, rejections.add, ahead, window=family.params.window
        )
        is_at_hand = (
            items.is_at_hand if isinstance(items, DocumentStream) else isinstance(items, Sized)
        )
        bodies = source_of_bodies(source, batches, family, rejections, ahead, is_at_hand=is_at_hand)
        run = Run(writer, family.params, result, on_conflict=on_conflict, night=night)
        try:
            commit_batches(run, [bodies], workers=workers, on_commit=callers_function(on_commit))
        except TooManyRejectedError as error:
            committed = f"{error.message}, with {result.documents} documents committed before"
            raise TooManyRejectedError(committed, hint=error.hint) from None
    result.seconds = time.perf_counter() - begun
    if result.rejected and not result.documents:
        raise _all_rejected(result)
    return result


def source_of_bodies(
    name: str,
    batches: Iterable[Batch],
    family: Family,
    rejections: Rejections,
    ahead: Ahead,
    *,
    is_at_hand: bool,
) -> Source:
    """Return a source whose documents are signed by a family, on some threads.

    With ``is_at_hand``, nobody is waited for when documents are read. A commit then takes batches
    for as long as they are signed as fast as they are written. Where they are not, a commit of one
    batch is short enough for the threads to have something to do meanwhile.
    """
    return Source(
        name,
        batches,
        sign=ahead.sign,
        vectors=np.stack,
        contents=ahead.contents,
        is_same=None if has_order(family.params) else has_same_tokens,
        on_repeat=rejections.add_repeat,
        is_at_hand=lambda: is_at_hand and ahead.waits,
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
                f"stopped at {rejection.source}",
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
    items: Iterable[Given | Block],
    family: Family,
    reject: Callable[[Rejected], None],
    ahead: Ahead,
    *,
    times: Times | None = None,
    window: tuple[int, int] | None = None,
) -> Iterator[Batch]:
    """Yield batches that fit in memory; unacceptable items are left out and reported.

    Vectors and bits come out as their contents: a list of numbers takes eight times the memory. A
    full batch is given out once another item has come, so that the last batch is known as the last;
    and where blocks of files come, once some of the next batch is being signed by other threads.
    Rejections, and errors of ``items``, come after the batches before them.

    With ``window``, documents are cut, and the windows of one are in one batch, however large.
    """
    full: _Filling | None = None
    sizes = _batch_sizes(FIRST_DOCUMENTS if ahead.expects_new else BATCH_DOCUMENTS)
    filling = _Filling(family, ahead, next(sizes))
    try:
        for item in items:
            if isinstance(item, Block) and ahead.takes_texts and window is None:
                done = 0
                while done < len(item):
                    if filling.is_full:
                        full, filling = filling, _Filling(family, ahead, next(sizes))
                    done = filling.add_block(item, done)
                    if full is not None and not (item.is_of_file and filling.may_wait):
                        yield full.completed()
                        full = None
                continue
            if full is not None:
                yield full.completed()
                full = None
            for given in item.documents() if isinstance(item, Block) else (item,):
                if filling.is_full:
                    yield filling.completed()
                    filling = _Filling(family, ahead, next(sizes))
                if isinstance(given, Rejected):
                    reject(given)
                    continue
                document = given_document(given)
                seen = None if times is None else times(document)
                if window is None:
                    reason = filling.add(document, seen)
                else:
                    reason = filling.add_windows(document, seen, window)
                if reason is not None:
                    reject(Rejected(document.source or f"key {document.key!r}"[:200], reason))
    except Exception:
        for one in (full, filling):
            if one is not None and one.is_full:
                yield one.completed()  # whatever became of the items after it
        raise
    if full is not None:
        full.batch.is_last = not filling.batch.keys
        yield full.completed()
    if filling.batch.keys:
        filling.batch.is_last = True
        yield filling.completed()


def _batch_sizes(size: int) -> Iterator[int]:
    """Yield the most documents of the first batch, of the second, and so on."""
    while True:
        yield min(size, BATCH_DOCUMENTS)
        size = min(2 * size, BATCH_DOCUMENTS)


class _Filling:
    """A batch that is being filled, a part at a time."""

    def __init__(self, family: Family, ahead: Ahead, most_documents: int) -> None:
        self.batch = Batch()
        self._most_documents = most_documents
        self.is_full = False
        self._family = family
        self._ahead = ahead
        self._is_dense = family.params.kind.is_dense
        self._most = _CONVERTED if self._is_dense else PART_DOCUMENTS
        self._most_ahead = _AHEAD_CHARACTERS if ahead.has_threads else 0
        self._parts: list[Part] = []
        self._is_of_blocks = True
        self._begun = 0
        self._size = self._whole_size = 0

    @property
    def may_wait(self) -> bool:
        """Whether a full batch before this one may wait for more of it."""
        size, n = self._whole_size + self._size, len(self.batch.keys)
        return size < self._most_ahead and n < _AHEAD_DOCUMENTS and not self.is_full

    def add(self, document: Document, times: tuple[str, str] | None) -> str | None:
        """Add a document, or return the reason why it cannot be added."""
        batch, body = self.batch, document.body
        reason = validate_key(document.key) or self._family.refusal(body)
        if document.fields and reason is None:
            try:
                batch.fields[len(batch.keys)] = json_fields(document.fields)
            except InputError as error:
                reason = error.message
        if reason is not None:
            return reason
        batch.keys.append(document.key)
        batch.sources.append(document.source)
        batch.bodies.append(body)
        if times is not None:
            batch.times.append(times)
        if not self._is_dense:
            batch.sizes.append(n_chars_of(body))
        self._is_of_blocks = False
        self._grow(_weight(body))
        return None

    def add_windows(
        self, document: Document, times: tuple[str, str] | None, window: tuple[int, int]
    ) -> str | None:
        """Add the windows of a text, or return the reason why it cannot be added."""
        if not isinstance(document.body, str):
            return "the body is not a text, and an index of passages cuts texts"
        reason = validate_key(document.key) or self._family.refusal(document.body)
        if reason is not None:
            return reason
        windows = cut_document(document, window)
        reason = validate_key(windows[-1].key)  # the longest one
        if reason is not None:
            return f"with the place of a window behind it, {reason}"
        for one in windows:
            reason = self._family.refusal(one.body)
            if reason is not None:
                return reason
        for one in windows:
            reason = self.add(one, times)
            if reason is not None:  # of its fields, so of the first window and all others
                return reason
        self.batch.cut.append((document.key, len(windows)))
        return None

    def add_block(self, block: Block, start: int) -> int:
        """Add documents of a block from `start` on; return the place of the first that is left."""
        batch = self.batch
        sizes = list(map(len, block.texts[start:] if start else block.texts))
        del sizes[self._most_documents - len(batch.keys) :]
        room = BATCH_CHARACTERS - self._whole_size - self._size
        if sum(sizes) > room:
            sums = itertools.accumulate(sizes)
            del sizes[next(place for place, size in enumerate(sums, 1) if size >= room) :]
        end = start + len(sizes)
        some = slice(start, end)
        batch.keys += block.keys[some]
        batch.sources += block.sources[some]
        batch.bodies += block.texts[some]
        batch.sizes += sizes
        self._grow(sum(sizes))
        return end

    def _grow(self, size: int) -> None:
        self._size += size
        n = len(self.batch.bodies)
        if self._size >= PART_CHARACTERS or n - self._begun >= self._most:
            self._end_part()
        self.is_full = (
            n >= self._most_documents or self._whole_size + self._size >= BATCH_CHARACTERS
        )

    def completed(self) -> Batch:
        """Fill the columns that follow from the bodies, and return the batch; once."""
        batch = self.batch
        self.is_full = False
        self._end_part()
        if self._is_dense:  # whose bodies are their contents
            hashed = hash_bodies(batch.bodies)
            batch.body_hashes = hashed.hashes
            batch.sizes = [self._family.params.dim] * len(hashed.hashes)
            batch.contents = Contents(batch.bodies, hashed.hashes, [0] * len(hashed.hashes))
        else:
            parts, self._parts = self._parts, []
            self._ahead.complete(batch, parts)
        return batch

    def _end_part(self) -> None:
        bodies, begun = self.batch.bodies, self._begun
        if len(bodies) == begun:
            return
        if self._is_dense:
            bodies[begun:] = self._family.contents(bodies[begun:])
        else:
            part = self._ahead.begin(bodies[begun:], are_of_blocks=self._is_of_blocks)
            self._parts.append(part)
            self._is_of_blocks = True
        self._whole_size += self._size
        self._begun, self._size = len(bodies), 0


def has_order(params: IndexParams) -> bool:
    """Return whether tokens in another order are another document, or cannot be compared."""
    return params.k > 1 or params.unit in URL_UNITS or not params.keeps_texts


def has_same_tokens(body: Any, stored: Callable[[], Any]) -> bool:
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
    return n_chars_of(body) + 64 * len(body)


def n_chars_of(body: Any) -> int:
    """Return the characters of a text, or of all tokens."""
    if isinstance(body, str):
        return len(body)
    return sum(len(token) for token in body if isinstance(token, str))
