"""Queries as a caller gives them -> answers: one, or many on one state of the index.

Arguments are checked when the question is asked. Many queries are signed in threads and looked up
together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lshdb.arguments import check_items, check_key, check_whole
from lshdb.documents import Body, Document, given_document
from lshdb.errors import InputError, LshdbError, ParameterError
from lshdb.params.index_params import IndexParams, check_recall
from lshdb.search.handle import Handle, Listing
from lshdb.search.query import Hit, Searcher
from lshdb.search.verification import asked_level, choose_method, level_of
from lshdb.signatures.banding import bucket_keys
from lshdb.signatures.family import Family, Point
from lshdb.storage.store import Store
from lshdb.storage.transactions.diagnosis import callers_items
from lshdb.storage.transactions.snapshot import QuerySnapshot, Snapshot
from lshdb.threads import choose_workers, in_chunks, work_ahead
from lshdb.tokenizers import UnsplitTextError

if TYPE_CHECKING:
    from lshdb.search.nearest import NearestSearch

__all__ = ["QueryAnswers", "count_shingles", "query_index", "query_points", "similarity"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The checked options of a query."""

    top: int | None
    level: float | None
    verify: str | None
    recall: float | None
    limit: int | None
    is_nearest: bool

    @classmethod
    def of(
        cls,
        store: Store,
        top: int | None,
        threshold: float | None,
        verify: str | None,
        recall: float | None,
        probe_limit: int | bool,
    ) -> Wanted:
        """Check the options of :meth:`lshdb.Index.query`.

        Raises
        ------
        ParameterError, TextNotStoredError
        """
        params = store.params
        is_nearest = recall is not None or probe_limit is not False
        if recall is None:
            level: float | None = asked_level(store, threshold, verify)
        else:
            level = None if threshold is None else level_of(params, threshold)
        if top is not None:
            check_whole("top", top, 1)
        method = choose_method(verify, params)
        limit: int | None = None
        if is_nearest:
            limit = _checked_limit(params, top, level, method, recall, probe_limit)
        return cls(top, level, verify, recall, limit, is_nearest)

    def searcher(self, snapshot: Snapshot, family: Family) -> Searcher | NearestSearch:
        """Make the searcher that answers such queries from a snapshot.

        Raises
        ------
        SignaturesElsewhereError
            It needs signatures, which are on another host.
        """
        if not self.is_nearest:
            return self.bucket_searcher(snapshot, family)
        from lshdb.search.nearest import NearestSearch

        snapshot.require_signatures()
        return NearestSearch(
            snapshot, family,
            top=self.top, threshold=self.level, recall=self.recall, limit=self.limit,
            method=choose_method(self.verify, family.params),
        )  # fmt: skip

    def bucket_searcher(self, snapshot: QuerySnapshot, family: Family) -> Searcher:
        """Make the searcher that answers from a query's own buckets only.

        Raises
        ------
        SignaturesElsewhereError
            It needs signatures, which are on another host.
        """
        method = choose_method(self.verify, family.params, has_signatures=snapshot.has_signatures)
        level = family.params.level if self.level is None else self.level
        return Searcher(snapshot, family, threshold=level, top=self.top, method=method)


def _checked_limit(
    params: IndexParams,
    top: int | None,
    level: float | None,
    method: str,
    recall: float | None,
    probe_limit: int | bool,
) -> int | None:
    """Check a search for the nearest; return how many candidates it may compare."""
    if recall is not None:
        check_recall(recall)
    limit: int | None = None
    if probe_limit is True:
        limit = 2 * params.bands
    elif probe_limit is not False:
        limit = check_whole("probe_limit", probe_limit, 1)
    if level is None and top is None:
        raise ParameterError(
            "neither top nor threshold says which documents are wanted",
            hint="give one of the two",
        )
    if method == "none":
        raise ParameterError(
            "the nearest are found by comparing candidates, which verify 'none' does not",
            hint="use 'signature' or 'exact'",
        )
    return limit


def query_index(
    store: Store,
    family: Family,
    body: Body | None,
    *,
    key: str | None,
    top: int | None,
    threshold: float | None,
    verify: str | None,
    recall: float | None,
    probe_limit: int | bool,
) -> list[Hit]:
    """Return the documents most similar to one; see :meth:`lshdb.Index.query`."""
    if (body is None) == (key is None):
        raise ParameterError("a query has either a body or a key")
    wanted = Wanted.of(store, top, threshold, verify, recall, probe_limit)
    if body is None:
        key = check_key("key", key)
        with store.reading() as snapshot:
            return wanted.searcher(snapshot, family).search_document(snapshot.document(key))
    points = query_points(family, [body])
    if not family.size(points[0]):
        with store.reading() as snapshot:
            return wanted.searcher(snapshot, family).nothing()
    row = family.sign(points)
    if wanted.is_nearest or not store.database.answers_at_once:
        with store.reading() as snapshot:
            return wanted.searcher(snapshot, family).search(row, points)[0]
    keys = bucket_keys(row, **family.params.cut).reshape(-1)
    is_exact = verify == "exact" or (verify is None and family.params.keeps_texts)
    with store.answering(keys, with_bodies=is_exact) as snapshot:
        return wanted.bucket_searcher(snapshot, family).search(row, points)[0]


def query_points(family: Family, bodies: Sequence[Any]) -> list[Point]:
    """Return the point of each body, which is what comparisons use.

    Raises
    ------
    InputError
        The index does not accept one of the bodies.
    """
    return family.points(_contents(family, bodies))


def similarity(store: Store, family: Family, left: Body, right: Body) -> float:
    """Return the exact level of two bodies; for sets 0 if neither has an element."""
    return family.compare(*_contents(family, [left, right]))


def count_shingles(store: Store, family: Family, body: Body) -> int:
    """Return how many elements the point of a body has."""
    return family.size(query_points(family, [body])[0])


def _contents(family: Family, bodies: Sequence[Any]) -> list[Any]:
    for body in bodies:
        reason = family.refusal(body)
        if reason is not None:
            raise InputError(f"the query cannot be used: {reason}")
    return family.contents(bodies)


_QUERIES_A_CHUNK = 64


class QueryAnswers(Listing[tuple[str, list[Hit]]]):
    """(query key, answer) for each of many queries, in their order.

    Queries are read as they are answered. So they can be answered again only if they can be read
    again: from a list, but not from a generator.
    """

    def __init__(
        self,
        store: Store,
        family: Family,
        handle: Handle,
        documents: Iterable[Document | tuple[str, Body] | Body],
        *,
        top: int | None,
        threshold: float | None,
        verify: str | None,
        recall: float | None,
        probe_limit: int | bool,
        workers: int | None,
    ) -> None:
        super().__init__(handle, top=top, threshold=threshold, verify=verify, recall=recall)
        self._workers = choose_workers(workers)
        check_items(
            "documents", documents, "an iterable of (key, text) pairs or documents",
            hint="Index.query answers one text; a dict gives its pairs by .items()",
        )  # fmt: skip
        self._documents = documents
        self._options = top, threshold, verify, recall, probe_limit
        self._wanted = Wanted.of(store, *self._options)
        self._of = store

    def _items(self, store: Store, family: Family) -> Iterator[tuple[str, list[Hit]]]:
        """Yield the answers from one snapshot."""
        wanted = self._wanted if store is self._of else Wanted.of(store, *self._options)
        with store.reading() as snapshot:
            queries = map(_given_query, itertools.count(), callers_items(self._documents))
            searcher = wanted.searcher(snapshot, family)
            yield from store.while_open(
                search_documents(searcher, family, queries, workers=self._workers)
            )


def _given_query(number: int, item: Any) -> Document:
    """Return a query with its key; the key of a body alone is its position.

    A tuple is a key and a body, and so is a list of two items if the first is a string.
    """
    is_pair = isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)
    if not is_pair and isinstance(item, str | list | AbstractSet | Mapping | np.ndarray):
        return Document(str(number), item)
    return given_document(item)


def search_documents(
    searcher: Searcher | NearestSearch,
    family: Family,
    documents: Iterable[Document],
    *,
    workers: int,
) -> Iterator[tuple[str, list[Hit]]]:
    """Yield (query key, answer) for each document, in order.

    One worker answers each document before it takes the next, as a pipe needs. Several take and
    sign documents ahead, some at a time. The answers are the same. An error names its query and
    comes after the answers before it.
    """

    def points_or_errors(bodies: Sequence[Any]) -> list[Point | LshdbError]:
        """Return the points of the bodies; the error of a body takes the place of its point."""
        try:
            return list(query_points(family, bodies))
        except LshdbError as error:
            if len(bodies) == 1:
                return [error]
            return [found for body in bodies for found in points_or_errors([body])]

    def work(chunk: list[Document]) -> tuple[list[str], list[Point | LshdbError]]:
        keys = [document.key for document in chunk]
        return keys, points_or_errors([document.body for document in chunk])

    chunks = in_chunks(documents, 1 if workers == 1 else _QUERIES_A_CHUNK)
    for keys, points in work_ahead(work, chunks, workers=workers):
        filled = [one for one in points if not isinstance(one, LshdbError) and family.size(one)]
        found = iter(searcher.search(family.sign(filled), filled) if filled else [])
        for key, each in zip(keys, points, strict=True):
            if isinstance(each, LshdbError):
                if key and isinstance(each, InputError | UnsplitTextError):
                    each.message = f"query {key!r}: {each.message}"
                    each.args = (each.message,)
                raise each
            yield key, next(found) if family.size(each) else []
