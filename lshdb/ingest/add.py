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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lshdb.arguments import check_items, check_name, check_whole
from lshdb.documents.blocks import (
    DocumentBlock,
    DocumentStream,
    Item,
    body_weight,
    in_blocks,
)
from lshdb.documents.document import (
    Document,
    Given,
    Rejected,
    given_document,
    json_fields,
    validate_key,
    validate_source_and_fields,
)
from lshdb.errors import (
    AllRejectedError,
    InputError,
    LockedError,
    ParameterError,
    TooManyRejectedError,
)
from lshdb.ingest import add_sizes
from lshdb.ingest.add_result import AddResult
from lshdb.ingest.ahead import Ahead, BatchPart
from lshdb.ingest.batch import Batch, Contents, hash_bodies
from lshdb.ingest.cut_documents import cut_document
from lshdb.ingest.pipeline import (
    ON_CONFLICT,
    AddRun,
    BatchSource,
    check_on_conflict,
    commit_batches,
)
from lshdb.ingest.unite import check_unites
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import Phase, Total
from lshdb.shingling import URL_UNITS
from lshdb.signatures.family import Family
from lshdb.storage.transactions.diagnosis import callers_function, callers_items
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer
from lshdb.threads import choose_workers

if TYPE_CHECKING:
    from lshdb.documents.io.streams import Progress

__all__ = [
    "REPEATED",
    "InputShare",
    "Rejections",
    "add_documents",
    "all_rejected",
    "check_documents",
    "given_blocks",
    "has_order",
    "has_same_tokens",
    "in_batches",
    "n_chars_of",
    "source_of_bodies",
]

REPEATED = "came before in this input; the first one counts"
"""How the reason ends for a document whose key came before."""
_REJECTIONS_KEPT = 100


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
    if not isinstance(source, str) or "\0" in source:
        raise ParameterError(f"source is {source!r:.80}; expected a string without NUL")
    if night:
        check_name("night", night)
    if max_errors is not None:
        check_whole("max_errors", max_errors, 0)
    check_on_conflict(on_conflict, ways=(*ON_CONFLICT, "unite"))
    if on_conflict == "unite":
        check_unites(family.params)
    check_documents(items)
    workers = choose_workers(workers)
    started = time.perf_counter()
    result = AddResult()
    rejections = Rejections(result, on_reject=on_reject, max_errors=max_errors)
    waiting, share = callers_function(on_wait), InputShare.of(items)
    with (
        share.phase,
        Writer(store, lock_timeout=lock_timeout, on_wait=waiting) as writer,
        Ahead(family, writer.codec, workers=workers, expects_new=writer.began_empty) as ahead,
    ):
        blocks, is_at_hand = given_blocks(items)
        batches = in_batches(
            share.watched(blocks),
            family,
            rejections.add,
            ahead,
            is_at_hand=is_at_hand,
            window=family.params.window,
        )
        bodies = source_of_bodies(source, batches, family, rejections, ahead, is_at_hand=is_at_hand)
        run = AddRun(writer, family.params, result, on_conflict=on_conflict, night=night)
        try:
            commit_batches(run, [bodies], workers=workers, on_commit=share.then(on_commit))
        except TooManyRejectedError as error:
            committed = f"{error.message}, with {result.documents} documents committed before"
            raise TooManyRejectedError(committed, hint=error.hint) from None
    result.seconds = time.perf_counter() - started
    if result.rejected and not result.documents:
        raise all_rejected(result)
    return result


def check_documents(items: Any) -> None:
    """Raise ParameterError for what holds no documents."""
    check_items(
        "documents", items, "an iterable of (key, text) pairs or documents",
        hint="put one document into a list; a dict gives its pairs by .items(); files are read by "
        "lshdb.read_documents([path])",
    )  # fmt: skip


def given_blocks(items: Iterable[Given]) -> tuple[Iterator[Item], bool]:
    """Return documents as blocks, and whether they come without waiting."""
    if isinstance(items, DocumentStream):
        return callers_items(items.by_blocks()), items.is_at_hand
    is_at_hand = isinstance(items, Sized)
    return in_blocks(map(_document, callers_items(items)), is_at_hand=is_at_hand), is_at_hand


def _document(item: Given) -> Document | Rejected:
    if not isinstance(item, Document):
        return item if isinstance(item, Rejected) else given_document(item)
    reason = validate_source_and_fields(item)
    return item if reason is None else Rejected(f"key {item.key!r}"[:200], reason)


def source_of_bodies(
    name: str,
    batches: Iterable[Batch],
    family: Family,
    rejections: Rejections,
    ahead: Ahead,
    *,
    is_at_hand: bool,
) -> BatchSource:
    """Return a source whose documents a family signs, in several threads.

    If input never blocks (``is_at_hand``), one commit takes as many batches as the signing threads
    keep ready.
    """
    return BatchSource(
        name,
        batches,
        sign=ahead.sign,
        vectors=np.stack,
        contents=ahead.contents,
        is_same=None if has_order(family.params) else has_same_tokens,
        on_repeat=rejections.add_repeat,
        is_at_hand=lambda: is_at_hand and ahead.waits,
    )


class InputShare:
    """How much of an input is stored: bytes of its files, or documents.

    Parameters
    ----------
    n_documents : int or callable, optional
        How many documents there are.
    files : Progress, optional
        How much of the files of the input was read, if their sizes are known.

    Attributes
    ----------
    phase : Phase
    """

    def __init__(self, n_documents: Total = None, files: Progress | None = None) -> None:
        self._files = files
        self.phase = Phase("documents", n_documents)
        if files is not None:
            self.phase = Phase("bytes", files.total)
        self._n = 0
        # How many documents and rejections were taken up to where, of those not stored yet.
        self._taken: deque[tuple[int, int]] = deque()

    @classmethod
    def of(cls, items: Iterable[Given]) -> InputShare:
        """Return that of what a caller gave; the total is known for files, and for a length."""
        if not isinstance(items, DocumentStream):
            return cls(len(items) if isinstance(items, Sized) else None)
        files = items.progress
        return cls(files=files) if files is not None and files.total else cls(items.n_documents)

    def watched(self, blocks: Iterable[Item]) -> Iterator[Item]:
        """Yield the same blocks, and take note of what was read."""
        for item in blocks:
            self._n += len(item) if isinstance(item, DocumentBlock) else 1
            if self._files is not None:
                if self._taken and self._taken[-1][1] == self._files.position:
                    self._taken.pop()
                self._taken.append((self._n, self._files.position))
            self.phase.add(0)
            yield item

    def then(self, on_commit: Callable[[AddResult], None] | None) -> Callable[[AddResult], None]:
        """Return a function that takes note of a commit, and calls the caller's."""
        on_commit = callers_function(on_commit)

        def committed(result: AddResult) -> None:
            if on_commit is not None:
                on_commit(result)
            n_stored = (result.cut or result.documents) + result.rejected
            place = n_stored if self._files is None else self.phase.n_done
            while self._taken and self._taken[0][0] <= n_stored:
                place = self._taken.popleft()[1]
            self.phase.reached(place)

        return committed


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


def all_rejected(result: AddResult) -> AllRejectedError:
    """Return the error for an input of which nothing was accepted."""
    first, n = result.rejections[0], result.rejected
    return AllRejectedError(
        f"{first.source}: {first.reason}"
        + (f"; nor was any of the other {n - 1:,} inputs accepted" if n > 1 else ""),
        result=result,
        hint="the error's result.rejections has the reason of each; see lshdb guide input for "
        "what is accepted",
    )


def in_batches(
    blocks: Iterable[Item],
    family: Family,
    reject: Callable[[Rejected], None],
    ahead: Ahead,
    *,
    is_at_hand: bool,
    window: tuple[int, int] | None = None,
) -> Iterator[Batch]:
    """Yield batches that fit in memory; unacceptable documents are left out and reported.

    Vectors and bits come out as their contents: a list of numbers takes eight times the memory. A
    full batch is given out once another document has come, so that the last batch is known as the
    last; with ``is_at_hand``, once some of the next batch is being signed by other threads.
    Rejections, and errors of ``blocks``, come after the batches before them.

    With ``window``, documents are cut, and the windows of one are in one batch, however large.
    """
    full: _Filling | None = None
    sizes = _batch_sizes(ahead.expects_new)
    filling = _Filling(family, ahead, next(sizes))
    try:
        for item in itertools.chain.from_iterable(
            _accepted(block, family, window) for block in blocks
        ):
            if isinstance(item, Rejected):
                if full is not None:
                    yield full.completed()
                    full = None
                if filling.is_full:
                    yield filling.completed()
                    filling = _Filling(family, ahead, next(sizes))
                reject(item)
                continue
            start = 0
            while start < len(item):
                if filling.is_full:
                    full, filling = filling, _Filling(family, ahead, next(sizes))
                start = filling.take(item, start)
                if full is not None and not (is_at_hand and filling.may_wait):
                    yield full.completed()
                    full = None
    except Exception:
        for whole in (full, filling):
            if whole is not None and whole.is_full:
                yield whole.completed()  # whatever became of the documents after it
        raise
    if full is not None:
        full.batch.is_last = not filling.batch.keys
        yield full.completed()
    if filling.batch.keys:
        filling.batch.is_last = True
        yield filling.completed()


def _batch_sizes(expects_new: bool) -> Iterator[int]:
    """Yield the most documents of the first batch, of the second, and so on."""
    most = add_sizes.SIZES.batch_documents
    size = add_sizes.SIZES.first_documents if expects_new else most
    while True:
        yield min(size, most)
        size = min(2 * size, most)


def _accepted(item: Item, family: Family, window: tuple[int, int] | None) -> Iterator[Item]:
    """Yield the documents of a block that the index can hold, and a rejection for each other.

    Kept fields come out as JSON. In an index of passages, each document comes out as a block of its
    windows.
    """
    is_good = isinstance(item, DocumentBlock) and item.is_plain and family.takes_texts
    if isinstance(item, Rejected) or (is_good and not item.fields and window is None):
        yield item
        return
    reasons = [
        None if is_good else validate_key(key) or family.refusal(body)
        for key, body in zip(item.keys, item.bodies, strict=True)
    ]
    if window is not None:
        for place, body in enumerate(item.bodies):
            if not isinstance(body, str):
                reasons[place] = "the body is not a text, and an index of passages cuts texts"
    fields = list(item.fields)
    for place, values in enumerate(fields):
        if values and not isinstance(values, str) and reasons[place] is None:
            try:
                fields[place] = json_fields(values)
            except InputError as error:
                reasons[place] = error.message
    accepted = replace(item, fields=fields).without_rejected(reasons)
    if window is None:
        yield from accepted
        return
    for part in accepted:
        if isinstance(part, Rejected):
            yield part
            continue
        for place in range(len(part)):
            yield _windows(part.part(place, place + 1), family, window)


def _windows(block: DocumentBlock, family: Family, window: tuple[int, int]) -> Item:
    """Return the windows of one document, or why it cannot be cut."""
    [document] = block.documents()
    windows = cut_document(document, window)
    reason = validate_key(windows[-1].key)  # the longest one
    if reason is not None:
        reason = f"with the place of a window behind it, {reason}"
    else:
        reason = next(filter(None, (family.refusal(piece.body) for piece in windows)), None)
    if reason is not None:
        return next(block.without_rejected([reason]))
    return replace(
        DocumentBlock.of(windows),
        times=[*block.times] * len(windows),
        cut_from=document.key,
    )


class _Filling:
    """A batch that is being filled, a part at a time."""

    def __init__(self, family: Family, ahead: Ahead, most_documents: int) -> None:
        self.batch = Batch()
        self.is_full = False
        self._most_documents = most_documents
        self._family = family
        self._ahead = ahead
        self._is_dense = family.params.kind.is_dense
        self._parts: list[BatchPart] = []
        self._part_start = 0
        self._part_weight = self._weight = 0
        self._is_plain = True

    @property
    def may_wait(self) -> bool:
        """Whether a full batch before this one may wait for more of it."""
        return self._weight < self._ahead.most_characters and not self.is_full

    def take(self, block: DocumentBlock, start: int) -> int:
        """Take documents of a block from ``start`` on; return the place of the first that is left.

        All windows of a document are taken.
        """
        sizes, batch = add_sizes.SIZES, self.batch
        bodies = block.bodies[start:] if start else block.bodies
        weights = list(map(len if block.is_plain else body_weight, bodies))
        if block.cut_from is None:
            del weights[self._most_documents - len(batch.keys) :]
            room = sizes.batch_characters - self._weight
            if sum(weights) > room:
                ends = itertools.accumulate(weights)
                del weights[next(place for place, end in enumerate(ends, 1) if end >= room) :]
        else:
            batch.cut.append((block.cut_from, len(block)))
        part = block.part(start, start + len(weights))
        batch.fields.update(
            (place, values)
            for place, values in enumerate(part.fields, len(batch.keys))
            if isinstance(values, str)
        )
        batch.keys += part.keys
        batch.sources += part.sources
        batch.bodies += part.bodies
        batch.times += part.times
        if not self._is_dense:
            batch.sizes += weights if block.is_plain else map(n_chars_of, part.bodies)
        weight, n = sum(weights), len(batch.keys)
        self._weight += weight
        self._part_weight += weight
        self._is_plain &= block.is_plain
        most = sizes.part_vectors if self._is_dense else sizes.part_documents
        if self._part_weight >= sizes.part_characters or n - self._part_start >= most:
            self._end_part()
        self.is_full = n >= self._most_documents or self._weight >= sizes.batch_characters
        return start + len(weights)

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
        bodies, start = self.batch.bodies, self._part_start
        if len(bodies) == start:
            return
        if self._is_dense:
            bodies[start:] = self._family.contents(bodies[start:])
        else:
            self._parts.append(self._ahead.begin(bodies[start:], are_plain=self._is_plain))
        self._part_start, self._part_weight, self._is_plain = len(bodies), 0, True


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


def n_chars_of(body: Any) -> int:
    """Return the characters of a text, or of all tokens."""
    if isinstance(body, str):
        return len(body)
    return sum(len(token) for token in body if isinstance(token, str))
