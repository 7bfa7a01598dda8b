"""A query, or many, as a caller gives them -> the most similar documents, ranked.

Arguments are checked when the question is asked. A query's buckets are looked up, and the
candidates in them checked and ranked. Many queries are signed in threads, and looked up together on
one state of the index.

If the signature file is on another host, the search counts the buckets that a candidate shares
instead of the bands that agree; the two differ by chance collisions of 32-bit hashes.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.arguments import MEASURES, check_choice, check_items, check_key, check_whole
from lshdb.arrays import np
from lshdb.documents.document import Body, Document, given_document
from lshdb.errors import LshdbError, ParameterError, SignaturesElsewhereError
from lshdb.handle import ColumnListing, Handle
from lshdb.params.index_params import IndexParams, check_recall
from lshdb.phases.phase import counting
from lshdb.result_tables import Columns, ResultTable, blocks_of, columns_of
from lshdb.search.verification import (
    Hit,
    Hits,
    asked_level,
    band_levels,
    below_level,
    choose_method,
    contents_of,
    least_equal,
    level_of,
    named_error,
    signed_anew,
    usable_contents,
)
from lshdb.signatures.family import Family, Point, SignedQuery
from lshdb.storage.rows.row_reader import Documents, RowReader
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.diagnosis import callers_items
from lshdb.storage.transactions.index_state import (
    IndexState,
    OpenIndex,
    QuerySnapshot,
    while_open,
)
from lshdb.threads import choose_workers, in_chunks, work_ahead

if TYPE_CHECKING:
    from lshdb.search.all_texts import AllTextsSearch
    from lshdb.search.nearest import NearestSearch
    from lshdb.search.query_blocks import HitColumns

__all__ = [
    "Query",
    "QueryAnswers",
    "Searcher",
    "count_shingles",
    "query_index",
    "query_points",
    "similarity",
]

Query: TypeAlias = tuple[str, Any]
"""A key, which only names it, and a body."""


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The checked options of a query."""

    top: int | None
    level: float | None
    below: float | None
    verify: str | None
    recall: float | None
    limit: int | None
    is_nearest: bool
    measure: str

    @classmethod
    def of(
        cls,
        store: OpenIndex,
        top: int | None,
        threshold: float | None,
        verify: str | None,
        recall: float | None,
        probe_limit: int | bool,
        below: float | None,
        measure: str,
    ) -> QueryOptions:
        """Check the options of :meth:`lshdb.Index.query`.

        Raises
        ------
        ParameterError, TextNotStoredError
        """
        params = store.params
        check_choice("measure", measure, MEASURES)
        is_part = measure == "containment"
        if is_part:
            from lshdb.search.all_texts import check_containment

            check_containment(params, verify, recall, probe_limit)
            recall, threshold = 1.0, params.threshold if threshold is None else threshold
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
        nearest_to = -math.inf if level is None else level
        most = below_level(store, below, level=nearest_to, verify=verify)
        return cls(top, level, most, verify, recall, limit, is_nearest, measure)

    def searcher(
        self, snapshot: IndexState, family: Family, *, workers: int = 1
    ) -> Searcher | NearestSearch | AllTextsSearch:
        """Make the searcher that answers such queries from a snapshot, some steps in threads.

        Raises
        ------
        SignaturesElsewhereError
            It needs signatures, which are on another host.
        """
        if not self.is_nearest:
            return self.bucket_searcher(snapshot, family)
        if self.recall == 1:
            from lshdb.search.all_texts import AllTextsSearch

            return AllTextsSearch(
                snapshot, family,
                top=self.top, threshold=self.level, below=self.below,
                is_part=self.measure == "containment", workers=choose_workers(None),
            )  # fmt: skip
        from lshdb.search.nearest import NearestSearch

        snapshot.require_signatures()
        return NearestSearch(
            snapshot, family,
            top=self.top, threshold=self.level, below=self.below, recall=self.recall,
            limit=self.limit, method=choose_method(self.verify, family.params), workers=workers,
        )  # fmt: skip

    def answers(
        self,
        snapshot: IndexState,
        family: Family,
        queries: Iterable[Query],
        *,
        workers: int,
        are_there: bool = True,
    ) -> Iterator[tuple[str, Hits]]:
        """Yield (query key, answer) for each of many queries, in order.

        An error names its query and comes after the answers before it.

        Parameters
        ----------
        snapshot : IndexState
        family : Family
        queries : iterable of (str, any)
            The key and the body of each.
        workers : int
            Threads. One answers each query before it takes the next, as a pipe needs, unless all
            ``are_there``; several take some thousand ahead.
        are_there : bool
            Whether taking a query waits for nobody.
        """
        if self.is_nearest or (workers == 1 and not are_there):
            searcher = self.searcher(snapshot, family, workers=workers)
            yield from search_documents(searcher, family, queries, workers=workers)
            return
        with closing(self.answer_blocks(snapshot, family, queries, workers=workers)) as blocks:
            for columns in blocks:
                yield from columns.answers()

    def answer_blocks(
        self, snapshot: IndexState, family: Family, queries: Iterable[Query], *, workers: int
    ) -> Generator[HitColumns]:
        """Yield the answers of many queries by their own buckets, as columns."""
        from lshdb.search.query_blocks import BlockSearcher, answer_blocks

        searcher = BlockSearcher(
            family,
            threshold=family.params.level if self.level is None else self.level,
            below=self.below,
            top=self.top,
            method=choose_method(
                self.verify, family.params, has_signatures=snapshot.has_signatures
            ),
        )
        return answer_blocks(searcher, snapshot, family, queries, workers=workers)

    def bucket_searcher(self, snapshot: QuerySnapshot, family: Family) -> Searcher:
        """Make the searcher that answers from a query's own buckets only.

        Raises
        ------
        SignaturesElsewhereError
            It needs signatures, which are on another host.
        """
        method = choose_method(self.verify, family.params, has_signatures=snapshot.has_signatures)
        level = family.params.level if self.level is None else self.level
        return Searcher(
            snapshot, family, threshold=level, below=self.below, top=self.top, method=method
        )


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
        check_recall(recall, may_be_1=True)
    if recall == 1:
        _check_all(params, method, probe_limit)
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


def _check_all(params: IndexParams, method: str, probe_limit: int | bool) -> None:
    """Raise ParameterError if not all texts can be compared, or shall not."""
    from lshdb.search.all_texts import require_texts

    require_texts(params, "recall 1")
    if method != "exact":
        raise ParameterError(
            f"recall 1 compares all texts exactly, and verify is {method!r}",
            hint="leave out one of the two, or give a recall below 1",
        )
    if probe_limit is not False:
        raise ParameterError(
            "recall 1 compares all texts, and probe_limit would end that",
            hint="leave out one of the two, or give a recall below 1",
        )


def query_index(
    store: OpenIndex,
    family: Family,
    body: Body | None,
    *,
    key: str | None,
    top: int | None,
    threshold: float | None,
    verify: str | None,
    recall: float | None,
    probe_limit: int | bool,
    below: float | None,
    measure: str,
) -> Hits:
    """Return the documents most similar to one; see :meth:`lshdb.Index.query`."""
    if (body is None) == (key is None):
        raise ParameterError("a query has either a body or a key")
    options = QueryOptions.of(store, top, threshold, verify, recall, probe_limit, below, measure)
    if body is None:
        key = check_key("key", key)
        with store.reading() as snapshot:
            if isinstance(snapshot, RowReader) and family.params.window is not None:
                from lshdb.ingest.cut_documents import refuse_cut_document

                refuse_cut_document(snapshot, key)
            return options.searcher(snapshot, family).search_document(snapshot.document(key))
    (query,) = family.sign_queries(usable_contents(family, [body]))
    if query.row and not options.is_nearest:
        is_exact = verify == "exact" or (verify is None and family.params.keeps_texts)
        with store.answering(query.keys, with_bodies=is_exact) as snapshot:
            hits = options.bucket_searcher(snapshot, family).answer(query)
    else:
        with store.reading() as state:
            hits = _answers(options.searcher(state, family), family, [query])[0]
    hits.n_shingles = family.size(query.point)
    return hits


def query_points(family: Family, bodies: Sequence[Any]) -> list[Point]:
    """Return the point of each body, which is what comparisons use.

    Raises
    ------
    InputError
        The index does not accept one of the bodies.
    """
    return family.points(usable_contents(family, bodies))


def similarity(store: OpenIndex, family: Family, left: Body, right: Body) -> float:
    """Return the exact level of two bodies; for sets 0 if neither has an element."""
    return family.compare(*usable_contents(family, [left, right]))


def count_shingles(store: OpenIndex, family: Family, body: Body) -> int:
    """Return how many elements the point of a body has."""
    (query,) = family.sign_queries(usable_contents(family, [body]))
    return family.size(query.point)


_QUERIES_A_CHUNK = 64


class QueryAnswers(ColumnListing[tuple[str, Hits], "HitColumns"], ResultTable):
    """(query key, answer) for each of many queries, in their order.

    Queries are read as they are answered. So they can be answered again only if they can be read
    again: from a list, but not from a generator.
    """

    def _table(self) -> tuple[Columns, Iterator[list[Sequence[Any]]]]:
        of_hit = columns_of(Hit, is_distance=self._handle.now[1].params.kind.is_distance)
        values = operator.attrgetter(*(name for name, _ in of_hit))
        rows = ((query, *values(hit)) for query, hits in self._iterate() for hit in hits)
        return [("query", "str"), *of_hit], blocks_of(rows)

    def __init__(
        self,
        store: OpenIndex,
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
        below: float | None,
        measure: str,
    ) -> None:
        super().__init__(
            handle, top=top, threshold=threshold, below=below, verify=verify, recall=recall,
            measure=measure,
        )  # fmt: skip
        self._workers = choose_workers(workers)
        check_items(
            "documents", documents, "an iterable of (key, text) pairs or documents",
            hint="Index.query answers one text; a dict gives its pairs by .items()",
        )  # fmt: skip
        if any(parent.__name__ == "DataFrame" for parent in type(documents).__mro__):
            raise ParameterError(  # what it yields are names of columns, or columns
                "documents is a table; expected an iterable of (key, text) pairs or documents",
                hint="give pairs of two columns, such as zip(table['id'], table['text'])",
            )
        self._documents = documents
        self._given = top, threshold, verify, recall, probe_limit, below, measure
        self._options = QueryOptions.of(store, *self._given)
        self._of = store

    def _columns(self, store: OpenIndex, family: Family) -> Iterator[HitColumns]:
        """Yield the answers from one snapshot as columns."""
        from lshdb.search.query_blocks import HitColumns

        options = self._options_of(store)
        with store.reading() as snapshot:
            if options.is_nearest:
                method = choose_method(options.verify, family.params)
                is_distance = family.params.kind.is_distance
                for key, hits in while_open(store, self._answers(snapshot, family, options)):
                    yield HitColumns.of(key, hits, method, is_distance=is_distance)
            else:
                yield from while_open(
                    store,
                    options.answer_blocks(snapshot, family, self._queries(), workers=self._workers),
                )

    def _items(self, store: OpenIndex, family: Family) -> Iterator[tuple[str, Hits]]:
        """Yield the answers from one snapshot."""
        options = self._options_of(store)
        with store.reading() as snapshot:
            yield from while_open(store, self._answers(snapshot, family, options))

    def _answers(
        self, snapshot: IndexState, family: Family, options: QueryOptions
    ) -> Iterator[tuple[str, Hits]]:
        """Yield the answers; only queries that may come from a pipe are answered one by one."""
        are_there = isinstance(self._documents, list | tuple)
        return options.answers(
            snapshot, family, self._queries(), workers=self._workers, are_there=are_there
        )

    def _options_of(self, store: OpenIndex) -> QueryOptions:
        return self._options if store is self._of else QueryOptions.of(store, *self._given)

    def _queries(self) -> Iterator[Query]:
        documents = self._documents
        total = len(documents) if isinstance(documents, Sized) else None
        queries = counting(callers_items(documents), "queries", total)
        return map(_given_query, itertools.count(), queries)


def _given_query(number: int, item: Any) -> Query:
    """Return the key and the body of a query; the key of a body alone is its position.

    A tuple is a key and a body, and so is a list of two items if the first is a string.
    """
    if type(item) is str:
        return str(number), item
    is_pair = isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)
    if not is_pair and isinstance(item, str | list | AbstractSet | Mapping | np.ndarray):
        return str(number), item
    document = given_document(item)
    return document.key, document.body


def search_documents(
    searcher: Searcher | NearestSearch | AllTextsSearch,
    family: Family,
    queries: Iterable[Query],
    *,
    workers: int,
) -> Iterator[tuple[str, Hits]]:
    """Yield (query key, answer) for each query, in order.

    One worker answers each query before it takes the next. Several take and sign queries ahead,
    some at a time.
    """

    def sign(bodies: Sequence[Any]) -> list[SignedQuery]:
        return family.sign_queries(usable_contents(family, bodies))

    def work(chunk: list[Query]) -> tuple[list[str], list[SignedQuery], LshdbError | None]:
        """Sign queries; up to the first that cannot be, with its error."""
        keys = [key for key, _ in chunk]
        signed: list[SignedQuery] = []
        try:
            return keys, sign([body for _, body in chunk]), None
        except LshdbError as error:
            if len(chunk) == 1:
                return keys, [], error
        for _, body in chunk:
            try:
                signed += sign([body])
            except LshdbError as error:
                return keys, signed, error
        return keys, signed, None

    chunks = in_chunks(queries, 1 if workers == 1 else _QUERIES_A_CHUNK)
    for keys, signed, error in work_ahead(work, chunks, workers=workers):
        yield from zip(keys, _answers(searcher, family, signed), strict=False)
        if error is not None:
            raise named_error(error, keys[len(signed)])


def _answers(
    searcher: Searcher | NearestSearch | AllTextsSearch,
    family: Family,
    queries: Sequence[SignedQuery],
) -> list[Hits]:
    """Return the answers to queries, which share their look-ups."""
    if isinstance(searcher, Searcher):
        return list(map(searcher.answer, queries))
    filled = [query for query in queries if query.row]
    points = [family.point_of(query) for query in filled]
    answers = iter(searcher.search(family.rows_of(filled), points) if filled else ())
    return [next(answers) if query.row else searcher.nothing() for query in queries]


class Searcher:
    """Answers queries from one snapshot.

    Parameters
    ----------
    snapshot : QuerySnapshot
    family : Family
    threshold : float
        Lowest level of an answer; does not apply to method ``none``.
    below : float or None
        Level that answers stay below.
    top : int or None
        Maximum number of answers per query.
    method : {"none", "signature", "exact"}

    Attributes
    ----------
    snapshot : QuerySnapshot
    """

    def __init__(
        self,
        snapshot: QuerySnapshot,
        family: Family,
        *,
        threshold: float,
        below: float | None,
        top: int | None,
        method: str,
    ) -> None:
        self.snapshot = snapshot
        self._params = family.params
        self._family = family
        self._threshold = threshold
        self._below = below
        self._top = top
        self._method = method

    def answer(self, query: SignedQuery) -> Hits:
        """Return the documents most similar to a query, best first; ties in order of key.

        Memory is that of the signatures in its buckets, and of some texts.

        Parameters
        ----------
        query : SignedQuery
            With its point for method ``exact``.
        """
        if not query.row:
            return Hits()
        numbers, levels = self._candidates(query, self.snapshot.members(query.keys))
        texts: dict[int, Any] = {}
        if self._method == "exact" and self._params.keeps_texts:
            documents, texts = self.snapshot.documents_and_texts(numbers)
        else:
            documents = self.snapshot.documents_of_signatures(numbers)
        if self._method == "exact":
            used = [number for number in numbers if number in documents]
            return self._ranked(self._compared(query, used, documents, texts), documents)
        return self._ranked(zip(numbers, levels, strict=True), documents)

    def search_document(self, document: StoredDocument) -> Hits:
        """Return the documents most similar to one in the index, without itself.

        Its own text is read only where it is compared with another.

        Raises
        ------
        SignaturesElsewhereError
            Its signature is on another host, and there is no text to sign again.
        """
        number = document.signature_id
        if number is None:
            return Hits()
        query = self._family.query_of_row(self._row(number))
        numbers, levels = self._candidates(query, self.snapshot.members(query.keys))
        documents = self.snapshot.documents_of_signatures(numbers)
        if self._method != "exact":
            return self._ranked(zip(numbers, levels, strict=True), documents, document.doc_id)
        compared = [(number, self._params.curve.best)] if number in documents else []
        others = [other for other in numbers if other in documents and other != number]
        if others:
            ((_, contents),) = contents_of(self.snapshot, self._family, [number], documents)
            with_point = self._family.query_of_row(query.row, contents[0])
            compared += self._compared(with_point, others, documents)
        return self._ranked(compared, documents, document.doc_id)

    def nothing(self) -> Hits:
        """Return the answer to a query without elements."""
        return Hits()

    def _row(self, signature_id: int) -> bytes:
        if self.snapshot.has_signatures:
            return self.snapshot.signatures.row(signature_id)
        if not self._params.keeps_texts:
            raise SignaturesElsewhereError(
                "a query by key needs the document's signature, which lies on the host that "
                "writes the index, or its text, and this index has none",
                hint="query by the text or vector itself, or run it on that host",
            )
        return signed_anew(self.snapshot, self._family, np.array([signature_id])).tobytes()

    def _candidates(self, query: SignedQuery, members: bytes) -> tuple[list[int], list[float]]:
        """Return the candidates that suffice by bands or slots, and their levels by that.

        What is compared exactly has no use for these levels.
        """
        params, snapshot = self._params, self.snapshot
        if not snapshot.has_signatures:
            ids, shared = np.unique(np.frombuffer(members, np.int64), return_counts=True)
            return ids.tolist(), band_levels(shared, params).tolist()
        least = least_equal(params, self._method, self._threshold)
        # A bucket shared only by a collision of its hash is not an agreement.
        agreeing = snapshot.signatures.read_in_place(
            functools.partial(self._family.agreeing, query, members, least), len(members) // 8
        )
        levels: list[float] = []
        if self._method == "none":
            matched = np.array([matched for _, _, matched in agreeing], dtype=np.int64)
            levels = band_levels(matched, params).tolist()
        elif self._method == "signature":
            levels = params.curve.at_shares([equal / params.num_perm for _, equal, _ in agreeing])
        return [signature_id for signature_id, _, _ in agreeing], levels

    def _compared(
        self,
        query: SignedQuery,
        ids: list[int],
        documents: Documents,
        texts: Mapping[int, Any] = MappingProxyType({}),
    ) -> list[tuple[int, float]]:
        """Return (signature, exact level) of those whose texts suffice; texts may be there."""
        levels: list[tuple[int, float]] = []
        groups: Iterable[tuple[list[int], list[Any]]]
        if len(texts) == len(ids):
            groups = (
                [(ids, self._family.contents([texts[number] for number in ids]))] if ids else ()
            )
        else:
            groups = contents_of(self.snapshot, self._family, ids, documents)
        for chosen, contents in groups:
            exact = zip(chosen, self._family.levels_with(query, contents), strict=True)
            levels += [level for level in exact if level[1] >= self._threshold]
        return levels

    def _ranked(
        self,
        levels: Iterable[tuple[int, float]],
        documents: Documents,
        leave_out: int | None = None,
    ) -> Hits:
        """Return the best documents of some signatures."""
        ranked = [
            (-level, key)
            for signature_id, level in levels
            if self._below is None or level < self._below
            for doc_id, key, _ in documents.get(signature_id, ())
            if doc_id != leave_out
        ]
        ranked.sort()
        is_distance = self._params.kind.is_distance
        hits = [
            Hit(key, -negative, self._method, 0.0 + negative if is_distance else None)
            for negative, key in ranked[: self._top]
        ]
        return Hits(hits, truncated=len(ranked) - len(hits))
