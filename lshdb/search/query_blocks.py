"""Many queries at a time, as arrays from text to hit.

A block of queries is normalised and signed together. One call of the kernel looks their buckets up
and compares their candidates; one statement reads the documents of these; each text is shingled
once for all queries that are compared with it. What is found stays in columns
(:class:`HitColumns`); objects are made of them when they are asked for. Several threads work on
blocks, each with a snapshot of its own of one state, for most of the time without the interpreter's
lock.

Decided: a block has up to 1,024 queries, and fewer long ones. Where buckets are so large, or
documents have so many copies, that the hits of a block do not fit, it is answered in pieces, and
what threads cannot hold ready is answered when it is asked for. So memory is that of some hundred
thousand hits, or of the hits of one query.

The answers are those of :class:`~lshdb.search.query.Searcher`, to the digit.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.errors import LshdbError
from lshdb.search.pair_columns import SignatureDocuments
from lshdb.search.verification import (
    Hit,
    Hits,
    band_levels,
    least_equal,
    missing_text,
    named_error,
    usable_contents,
)
from lshdb.signatures.banding import bucket_keys
from lshdb.signatures.family import Family
from lshdb.storage.transactions.index_state import IndexState
from lshdb.threads import Lent, work_ahead

__all__ = ["BlockSearcher", "HitColumns", "QueryBlock", "answer_blocks"]

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_QUERIES = 1024
_CHARACTERS = 4 * 2**20
"""Queries of a block, and their characters, or elements."""
_MOST_HITS = 2**18
"""Candidates, or hits, of several queries that are held together."""
_VECTORS = 1024
_TEXT_BYTES = 2**20
"""Vectors of candidates, or bytes of their texts as they are stored, that are held at a time."""
_LOOKED_UP = 64
"""Queries that share their look-ups where SQL answers."""


@dataclass(frozen=True, slots=True)
class HitColumns:
    """The answers to some queries as columns.

    Attributes
    ----------
    queries : list of str
        The keys of the queries.
    truncated : ndarray of int64, shape (len(queries),)
        For each query, how many more documents were found that ``top`` left out.
    numbers : ndarray of int64, shape (n,)
        For each hit the place of its query in ``queries``, in order.
    keys : list of str
        For each hit its document; the best hit of a query comes first.
    similarities : ndarray of float64, shape (n,)
        For a distance metric, minus the distance.
    method : {"none", "signature", "exact"}
        How the similarities were found.
    is_distance : bool
        Whether the metric is a distance.
    """

    queries: list[str]
    truncated: Ids
    numbers: Ids
    keys: list[str]
    similarities: Floats
    method: str
    is_distance: bool = False

    def __len__(self) -> int:
        """Return the number of hits."""
        return len(self.keys)

    def answers(self) -> Iterator[tuple[str, Hits]]:
        """Yield (query key, answer) for each query, in order."""
        similarities = self.similarities.tolist()
        distances: Iterable[float | None] = repeat(None)
        if self.is_distance:
            distances = [0.0 - similarity for similarity in similarities]
        hits = list(map(Hit, self.keys, similarities, repeat(self.method), distances))
        ends = np.searchsorted(self.numbers, np.arange(len(self.queries)), side="right").tolist()
        start = 0
        for query, end, truncated in zip(self.queries, ends, self.truncated.tolist(), strict=True):
            yield query, Hits(hits[start:end], truncated=truncated)
            start = end

    @classmethod
    def of(cls, query: str, hits: Hits, method: str, *, is_distance: bool) -> HitColumns:
        """Return the answer to one query as columns."""
        return cls(
            [query],
            np.array([hits.truncated], dtype=np.int64),
            np.zeros(len(hits), dtype=np.int64),
            [hit.key for hit in hits],
            np.array([hit.similarity for hit in hits], dtype=np.float64),
            method,
            is_distance,
        )


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """Signed queries.

    Attributes
    ----------
    keys : list of str
    contents : list
        Their canonical contents.
    rows : ndarray of uint16, shape (n, row_words)
    is_filled : ndarray of bool, shape (n,)
        Whether a query has elements, and so a row.
    """

    keys: list[str]
    contents: list[Any]
    rows: NDArray[np.uint16]
    is_filled: NDArray[np.bool_]

    def after(self, n: int) -> QueryBlock:
        """Return it without the first queries."""
        return QueryBlock(self.keys[n:], self.contents[n:], self.rows[n:], self.is_filled[n:])


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Queries and signatures, side by side, in order of query.

    Attributes
    ----------
    numbers, ids : ndarray of int64, shape (n,)
        Places of queries in their block, and signatures.
    levels : ndarray of float64, shape (n,)
    """

    numbers: Ids
    ids: Ids
    levels: Floats

    def where(self, keep: NDArray[np.bool_]) -> _Candidates:
        return _Candidates(self.numbers[keep], self.ids[keep], self.levels[keep])


class BlockSearcher:
    """Answers blocks of queries; several threads may use it.

    Parameters
    ----------
    family : Family
    threshold : float
        Lowest level of an answer; does not apply to method ``none``.
    below : float or None
        Level that answers stay below.
    top : int or None
        Maximum number of answers per query.
    method : {"none", "signature", "exact"}
    """

    def __init__(
        self, family: Family, *, threshold: float, below: float | None, top: int | None, method: str
    ) -> None:
        self._family, self._params = family, family.params
        self._threshold, self._below, self._top, self._method = threshold, below, top, method

    def answers(self, snapshot: IndexState, block: QueryBlock) -> Iterator[HitColumns]:
        """Yield the answers to a block in order, in pieces of some hundred thousand hits."""
        filled = np.flatnonzero(block.is_filled)
        begin = 0
        for n_done, candidates in self._candidates(snapshot, block.rows[filled]):
            end = len(block.keys) if n_done == len(filled) else int(filled[n_done])
            numbered = _Candidates(filled[candidates.numbers], candidates.ids, candidates.levels)
            yield from self._ranked(snapshot, block, numbered, begin, end)
            begin = end

    def _candidates(
        self, snapshot: IndexState, rows: NDArray[np.uint16]
    ) -> Iterator[tuple[int, _Candidates]]:
        """Yield candidates that suffice by bands or slots, and how many queries are done."""
        params, n_done = self._params, 0
        keys = bucket_keys(rows, **params.cut)
        while n_done < len(rows) or not len(rows):
            if not snapshot.has_signatures:
                n, numbers, ids, shared = self._shared(snapshot, keys[n_done:])
                levels = band_levels(shared, params)
            else:
                n, agreeing = self._agreeing(snapshot, keys[n_done:], rows[n_done:])
                numbers, ids, equal, matched = agreeing.T
                if self._method == "none":
                    levels = band_levels(matched, params)
                else:
                    levels = params.curve.levels(equal / params.num_perm)
            yield n_done + n, _Candidates(n_done + numbers, ids, levels)
            if not len(rows):
                return
            n_done += n

    def _agreeing(
        self, snapshot: IndexState, keys: Ids, rows: NDArray[np.uint16]
    ) -> tuple[int, Ids]:
        """Return how many queries are done, and (query, signature, equal slots, bands)."""
        least = least_equal(self._params, self._method, self._threshold)
        agreeing = snapshot.agreeing(keys, rows, most=_MOST_HITS, least=least)
        if agreeing is not None:
            return agreeing
        numbers: list[tuple[int, int, int, int]] = []
        n_done = 0
        for row, members in zip(rows, snapshot.members_of(keys[:_LOOKED_UP]), strict=False):
            query = self._family.query_of_row(row.tobytes())
            compared = snapshot.signatures.read_in_place(
                functools.partial(self._family.agreeing, query, members, least), len(members)
            )
            numbers += [(n_done, *one) for one in compared]
            n_done += 1
            if len(numbers) > _MOST_HITS:
                break
        return n_done, np.array(numbers, dtype=np.int64).reshape(-1, 4)

    def _shared(self, snapshot: IndexState, keys: Ids) -> tuple[int, Ids, Ids, Ids]:
        """Return how many queries are done, and queries, signatures and the buckets they share."""
        columns: list[list[Ids]] = [[], [], []]
        n_done = n_found = 0
        for members in snapshot.members_of(keys[:_LOOKED_UP]):
            ids, shared = np.unique(members, return_counts=True)
            for column, values in zip(
                columns, (np.full(len(ids), n_done), ids, shared), strict=True
            ):
                column.append(values)
            n_done, n_found = n_done + 1, n_found + len(ids)
            if n_found > _MOST_HITS:
                break
        empty = np.empty(0, dtype=np.int64)
        numbers, ids, shared = (np.concatenate([empty, *column]) for column in columns)
        return n_done, numbers, ids, shared

    def _ranked(
        self, snapshot: IndexState, block: QueryBlock, candidates: _Candidates, begin: int, end: int
    ) -> Iterator[HitColumns]:
        """Yield the answers to the queries from one to another, from their candidates."""
        documents = SignatureDocuments(snapshot, candidates.ids)
        _, counts = documents.of(candidates.ids)
        candidates = candidates.where(counts > 0)
        if self._method == "exact":
            levels = self._exact_levels(snapshot, block, candidates, documents)
            candidates = _Candidates(candidates.numbers, candidates.ids, levels)
            candidates = candidates.where(levels >= self._threshold)
        if self._below is not None:
            candidates = candidates.where(candidates.levels < self._below)
        _, counts = documents.of(candidates.ids)
        n_queries = end - begin
        of_query = np.bincount(candidates.numbers - begin, counts, n_queries).astype(np.int64)
        bounds = np.searchsorted(candidates.numbers, np.arange(begin, end + 1))
        of_listing = of_query
        if self._top is not None:  # equally similar copies are listed by key, for every query
            documents = documents.first_by_key(self._top)
            _, counts = documents.of(candidates.ids)
            of_listing = np.bincount(candidates.numbers - begin, counts, n_queries).astype(np.int64)
        first = 0
        for last in _cut(of_listing):
            part = slice(int(bounds[first]), int(bounds[last]))
            candidate, place = documents.places(candidates.ids[part])
            numbers = candidates.numbers[part][candidate] - begin - first
            levels = candidates.levels[part][candidate]
            order = np.lexsort((-levels, numbers))
            _break_ties(order, numbers, levels, place, documents.keys)
            numbers = numbers[order]
            if self._top is not None:
                rank = np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
                order, numbers = order[rank < self._top], numbers[rank < self._top]
            listed = np.bincount(numbers, minlength=last - first)
            yield HitColumns(
                block.keys[begin + first : begin + last],
                of_query[first:last] - listed,
                numbers,
                [*map(documents.keys.__getitem__, place[order].tolist())],
                levels[order],
                self._method,
                self._params.kind.is_distance,
            )
            first = last

    def _exact_levels(
        self,
        snapshot: IndexState,
        block: QueryBlock,
        candidates: _Candidates,
        documents: SignatureDocuments,
    ) -> Floats:
        """Return the exact levels of candidates, each of which has a document."""
        family = self._family
        levels = np.empty(len(candidates.ids))
        if not len(levels):
            return levels
        asking = distinct(candidates.numbers)
        queries = family.gather([block.contents[number] for number in asking.tolist()])
        of_query = np.searchsorted(asking, candidates.numbers)
        ids = distinct(candidates.ids)
        by_id = np.argsort(candidates.ids, kind="stable")
        in_order = candidates.ids[by_id]
        for chosen, contents in self._contents(snapshot, ids, documents):
            lefts = np.searchsorted(in_order, chosen, side="left")
            sizes = np.searchsorted(in_order, chosen, side="right") - lefts
            behind = np.cumsum(sizes)
            places = by_id[np.repeat(lefts - behind + sizes, sizes) + np.arange(behind[-1])]
            levels[places] = family.levels_among(
                queries, of_query[places], family.gather(contents),
                np.repeat(np.arange(len(chosen)), sizes),
            )  # fmt: skip
        return levels

    def _contents(
        self, snapshot: IndexState, ids: Ids, documents: SignatureDocuments
    ) -> Iterator[tuple[Ids, list[Any]]]:
        """Yield signatures and the contents of their texts, or vectors, some at a time.

        Raises
        ------
        DamageError
            A text is missing, or is not what was written.
        """
        if self._params.keeps_vectors:
            for start in range(0, len(ids), _VECTORS):
                chosen = ids[start : start + _VECTORS]
                yield chosen, list(snapshot.vectors[chosen])
            return
        starts, _ = documents.of(ids)
        doc_ids = documents.doc_ids[starts]
        by_document = np.argsort(doc_ids)
        doc_ids = doc_ids[by_document]
        is_missing = np.ones(len(ids), dtype=np.bool_)
        for read, bodies in snapshot.bodies_in_groups(doc_ids.tolist(), n_bytes=_TEXT_BYTES):
            places = by_document[np.searchsorted(doc_ids, read)]
            is_missing[places] = False
            yield ids[places], self._family.contents(bodies)
        if is_missing.any():
            raise missing_text(int(ids[is_missing][0]))


def _cut(sizes: Ids) -> Iterator[int]:
    """Yield where parts end, none of them of more than ``_MOST_HITS`` hits, or of one query."""
    total = 0
    for place, size in enumerate(sizes.tolist() if sizes.sum() > _MOST_HITS else ()):
        if total and total + size > _MOST_HITS:
            yield place
            total = 0
        total += size
    yield len(sizes)


def _break_ties(order: Ids, numbers: Ids, levels: Floats, place: Ids, keys: list[str]) -> None:
    """Put equal levels of one query in order of key."""
    left, right = order[:-1], order[1:]
    is_tied = (numbers[left] == numbers[right]) & (levels[left] == levels[right])
    if not is_tied.any():
        return
    edges = np.flatnonzero(np.diff(is_tied.astype(np.int8), prepend=0, append=0))
    for first, last in zip(edges[::2].tolist(), (edges[1::2] + 1).tolist(), strict=True):
        tied = order[first:last].tolist()
        tied.sort(key=lambda hit: keys[place[hit]])
        order[first:last] = tied


def answer_blocks(
    searcher: BlockSearcher,
    snapshot: IndexState,
    family: Family,
    queries: Iterable[tuple[str, Any]],
    *,
    workers: int,
) -> Generator[HitColumns]:
    """Yield the answers to queries in order; an error comes after the answers before it.

    Parameters
    ----------
    searcher : BlockSearcher
    snapshot : IndexState
    family : Family
        Accepts the bodies.
    queries : iterable of (str, any)
        The key and the body of each.
    workers : int
        Threads; with one, the caller's.

    Raises
    ------
    InputError, TokenizerError
        A body cannot be used; the error names the query.
    """
    with ExitStack() as stack:
        twins = stack.enter_context(snapshot.twins(workers if workers > 1 else 0))
        readers = Lent(twins or [snapshot])

        def work(
            chunk: list[tuple[str, Any]],
        ) -> tuple[list[HitColumns], QueryBlock, LshdbError | None, str]:
            """Answer queries; return what is ready, and what is not."""
            block, error = _signed(family, chunk)
            ready: list[HitColumns] = []
            n_answered = n_hits = 0
            with readers.one() as reader:
                for columns in searcher.answers(reader, block):
                    ready.append(columns)
                    n_answered, n_hits = n_answered + len(columns.queries), n_hits + len(columns)
                    if n_hits > _MOST_HITS:
                        break
            unusable = "" if error is None else chunk[len(block.keys)][0]
            return ready, block.after(n_answered), error, unusable

        workers = workers if len(twins) > 1 else 1
        blocks = work_ahead(work, _chunked(queries), workers=workers)
        for ready, left, error, key in stack.enter_context(closing(blocks)):
            yield from ready
            if left.keys:
                yield from searcher.answers(snapshot, left)
            if error is not None:
                raise named_error(error, key)


def _signed(family: Family, chunk: list[tuple[str, Any]]) -> tuple[QueryBlock, LshdbError | None]:
    """Sign queries: up to the first that cannot be, with its error."""
    if not chunk:
        rows = np.empty((0, family.params.row_words), dtype=np.uint16)
        return QueryBlock([], [], rows, np.empty(0, dtype=np.bool_)), None
    try:
        contents = usable_contents(family, [body for _, body in chunk])
        rows, sizes = family.sign_contents(contents)
        return QueryBlock([key for key, _ in chunk], contents, rows, sizes > 0), None
    except LshdbError as error:
        if len(chunk) == 1:
            return _signed(family, [])[0], error
        for n_signed, query in enumerate(chunk):
            _, own_error = _signed(family, [query])
            if own_error is not None:
                return _signed(family, chunk[:n_signed])[0], own_error
        raise


def _chunked(queries: Iterable[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    """Yield queries in lists; the last, or one before an error of ``queries``, is shorter."""
    chunk: list[tuple[str, Any]] = []
    room = _CHARACTERS
    try:
        for query in queries:
            body = query[1]
            room -= len(body) if type(body) is str else _size(body)
            chunk.append(query)
            if room <= 0 or len(chunk) == _QUERIES:
                yield chunk
                chunk, room = [], _CHARACTERS
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _size(body: Any) -> int:
    """Return about how many characters or numbers a body has; any object may be one."""
    if isinstance(body, list | tuple | frozenset | set) and body:
        return sum(len(part) if isinstance(part, str) else 1 for part in body)
    if isinstance(body, np.ndarray):
        return body.size
    return len(body) if isinstance(body, dict) else 1
