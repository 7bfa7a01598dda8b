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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lshdb.arguments import MEASURES, check_choice, check_items, check_key, check_whole
from lshdb.arrays import distinct, np
from lshdb.documents import Body, Document, given_document
from lshdb.errors import InputError, LshdbError, ParameterError, SignaturesElsewhereError
from lshdb.handle import Handle, Listing
from lshdb.params.index_params import IndexParams, check_recall
from lshdb.search.verification import (
    Hit,
    Hits,
    Points,
    asked_level,
    band_levels,
    below_level,
    choose_method,
    estimate,
    grouped_bodies,
    least_equal,
    level_of,
    missing_text,
    points_of,
    signed_anew,
)
from lshdb.signatures.banding import bucket_keys, compare_rows
from lshdb.signatures.family import Agreeing, Family, Point, SignedQuery
from lshdb.storage.store import Store
from lshdb.storage.tables.records import Documents, StoredDocument
from lshdb.storage.transactions.diagnosis import callers_items
from lshdb.storage.transactions.snapshot import QuerySnapshot, Snapshot
from lshdb.threads import choose_workers, in_chunks, work_ahead
from lshdb.tokenizers import UnsplitTextError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.search.all_texts import AllTextsSearch
    from lshdb.search.nearest import NearestSearch

__all__ = [
    "QueryAnswers",
    "Searcher",
    "count_shingles",
    "query_index",
    "query_points",
    "similarity",
]


@dataclass(frozen=True, slots=True)
class Wanted:
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
        store: Store,
        top: int | None,
        threshold: float | None,
        verify: str | None,
        recall: float | None,
        probe_limit: int | bool,
        below: float | None,
        measure: str,
    ) -> Wanted:
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
        self, snapshot: Snapshot, family: Family, *, workers: int = 1
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
    below: float | None,
    measure: str,
) -> Hits:
    """Return the documents most similar to one; see :meth:`lshdb.Index.query`."""
    if (body is None) == (key is None):
        raise ParameterError("a query has either a body or a key")
    wanted = Wanted.of(store, top, threshold, verify, recall, probe_limit, below, measure)
    if body is None:
        key = check_key("key", key)
        with store.reading() as snapshot:
            return wanted.searcher(snapshot, family).search_document(snapshot.document(key))
    contents = _contents(family, [body])
    asks_at_once = store.database.answers_at_once
    query = None if wanted.is_nearest or asks_at_once else family.sign_query(contents[0])
    if query is not None:
        with store.reading() as snapshot:
            return wanted.bucket_searcher(snapshot, family).answer(query)
    points = family.points(contents)
    if not family.size(points[0]):
        with store.reading() as snapshot:
            return wanted.searcher(snapshot, family).nothing()
    row = family.sign(points)
    if wanted.is_nearest or not asks_at_once:
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
    contents = _contents(family, [body])
    query = family.sign_query(contents[0])
    return family.size(family.points(contents)[0]) if query is None else len(query.point) // 8


def _contents(family: Family, bodies: Sequence[Any]) -> list[Any]:
    for body in bodies:
        reason = family.refusal(body)
        if reason is not None:
            raise InputError(f"the query cannot be used: {reason}")
    return family.contents(bodies)


_QUERIES_A_CHUNK = 64


class QueryAnswers(Listing[tuple[str, Hits]]):
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
        self._documents = documents
        self._options = top, threshold, verify, recall, probe_limit, below, measure
        self._wanted = Wanted.of(store, *self._options)
        self._of = store

    def _items(self, store: Store, family: Family) -> Iterator[tuple[str, Hits]]:
        """Yield the answers from one snapshot."""
        wanted = self._wanted if store is self._of else Wanted.of(store, *self._options)
        with store.reading() as snapshot:
            queries = map(_given_query, itertools.count(), callers_items(self._documents))
            searcher = wanted.searcher(snapshot, family, workers=self._workers)
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
    searcher: Searcher | NearestSearch | AllTextsSearch,
    family: Family,
    documents: Iterable[Document],
    *,
    workers: int,
) -> Iterator[tuple[str, Hits]]:
    """Yield (query key, answer) for each document, in order.

    One worker answers each document before it takes the next, as a pipe needs. Several take and
    sign documents ahead, some at a time. The answers are the same. An error names its query and
    comes after the answers before it.
    """
    is_signed = isinstance(searcher, Searcher)

    def made_or_errors(bodies: Sequence[Any]) -> list[SignedQuery | Point | LshdbError]:
        """Return what is searched for; the error of a body takes its place."""
        try:
            contents = _contents(family, bodies)
            return _signed(family, contents) if is_signed else family.points(contents)
        except LshdbError as error:
            if len(bodies) == 1:
                return [error]
            return [found for body in bodies for found in made_or_errors([body])]

    def work(chunk: list[Document]) -> tuple[list[str], list[SignedQuery | Point | LshdbError]]:
        keys = [document.key for document in chunk]
        return keys, made_or_errors([document.body for document in chunk])

    chunks = in_chunks(documents, 1 if workers == 1 else _QUERIES_A_CHUNK)
    for keys, made in work_ahead(work, chunks, workers=workers):
        answers = _answers(searcher, family, made)
        for key, each in zip(keys, made, strict=True):
            if isinstance(each, LshdbError):
                if key and isinstance(each, InputError | UnsplitTextError):
                    each.message = f"query {key!r}: {each.message}"
                    each.args = (each.message,)
                raise each
            yield key, next(answers)


def _signed(family: Family, contents: Sequence[Any]) -> list[SignedQuery | Point]:
    """Return contents signed in one step each, or the points of all."""
    queries = [family.sign_query(content) for content in contents]
    return family.points(contents) if None in queries else list(queries)


def _answers(
    searcher: Searcher | NearestSearch | AllTextsSearch,
    family: Family,
    made: Sequence[SignedQuery | Point | LshdbError],
) -> Iterator[Hits]:
    """Yield the answers to what is no error, in order; those of one kind share their look-ups."""
    queries = [one for one in made if not isinstance(one, LshdbError)]
    signed: Iterator[Hits] = iter(())
    if isinstance(searcher, Searcher):
        some = [one for one in queries if isinstance(one, SignedQuery)]
        signed = iter(searcher.answer_many(some))
    filled = [one for one in queries if not isinstance(one, SignedQuery) and family.size(one)]
    others = iter(searcher.search(family.sign(filled), filled) if filled else ())
    for one in queries:
        if isinstance(one, SignedQuery):
            yield next(signed)
        else:
            yield next(others) if family.size(one) else searcher.nothing()


_CANDIDATES = 16_384
"""Candidates of a query compared at a time; bounds the memory for their rows."""
_CHECKED = 64
"""Texts of candidates held at a time, whatever memory they take."""


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
        self._cut = family.params.cut
        self._family = family
        self._threshold = threshold
        self._below = below
        self._top = top
        self._method = method
        self._points: Points = points_of(snapshot, family)

    def answer(self, query: SignedQuery, *, leave_out: int | None = None) -> Hits:
        """Return what :meth:`search` returns for one query, in a fifth of the time.

        Parameters
        ----------
        query : SignedQuery
            With its point for method ``exact``.
        leave_out : int, optional
            As for :meth:`search`.
        """
        if not query.row:
            return self.nothing()
        if not self._compares_rows:
            return self._searched(query, leave_out)
        agreeing = self._agreeing(query, self.snapshot.members(query.keys))
        documents = self.snapshot.documents_of_signatures([one for one, _, _ in agreeing])
        # A signature whose documents were all replaced has postings but no document.
        there = [found for found in agreeing if found[0] in documents]
        if self._method == "exact":
            found = self._compared(query, [one for one, _, _ in there], documents)
        else:
            found = self._by_slots(there)
        return self._ranked(found, documents, leave_out)

    def answer_many(self, queries: Sequence[SignedQuery]) -> list[Hits]:
        """Return what :meth:`answer` returns for each query; they share their look-ups.

        Memory is that of the signatures in their buckets, and of some texts.
        """
        if len(queries) < 2 or not self._compares_rows:
            return [self.answer(query) for query in queries]
        keys = np.frombuffer(b"".join(query.keys for query in queries), np.int64)
        members = iter(self.snapshot.members_of(keys.reshape(-1, self._params.bands)))
        agreeing = [
            self._agreeing(query, next(members).tobytes()) if query.row else [] for query in queries
        ]
        documents = self.snapshot.documents_of_signatures(
            _all_candidates([one for one, _, _ in found] for found in agreeing)
        )
        there = [[one for one in found if one[0] in documents] for found in agreeing]
        levels: Iterable[Iterable[tuple[int, float]]] = map(self._by_slots, there)
        if self._method == "exact":
            levels = self._compared_together(queries, there, documents)
        return [self._ranked(found, documents) for found in levels]

    @property
    def _compares_rows(self) -> bool:
        """Whether candidates are compared by their rows first."""
        return self._method != "none" and self.snapshot.has_signatures

    def _searched(self, query: SignedQuery, leave_out: int | None) -> Hits:
        """Answer a query step by step."""
        row = np.frombuffer(query.row, np.uint32).reshape(1, -1)
        point = np.sort(np.frombuffer(query.point, np.uint64))
        return self.search(row, [point], leave_out=leave_out)[0]

    def _agreeing(self, query: SignedQuery, members: bytes) -> Agreeing:
        """Return the candidates of a query that suffice by their equal slots."""
        least = least_equal(self._params, self._method, self._threshold)
        return self.snapshot.signatures.read_in_place(
            functools.partial(self._family.agreeing, query, members, least), len(members) // 8
        )

    def _by_slots(self, agreeing: Agreeing) -> Iterator[tuple[int, float]]:
        """Return (signature, estimated level) of candidates."""
        at_share, num_perm = self._params.curve.at_share, self._params.num_perm
        return ((one, at_share(equal / num_perm)) for one, equal, _ in agreeing)

    def _compared(
        self, query: SignedQuery, ids: list[int], documents: Documents
    ) -> Iterator[tuple[int, float]]:
        """Yield (signature, exact level) of the signatures whose texts suffice."""
        for some, contents in self._contents(ids, documents):
            levels = self._family.levels_with(query, contents)
            for one, level in zip(some, levels, strict=True):
                if level >= self._threshold:
                    yield one, level

    def _compared_together(
        self, queries: Sequence[SignedQuery], found: Sequence[Agreeing], documents: Documents
    ) -> list[list[tuple[int, float]]]:
        """Return the same for the candidates of each query; a text is read once for all."""
        asking: dict[int, list[int]] = {}
        for number, agreeing in enumerate(found):
            for one, _, _ in agreeing:
                asking.setdefault(one, []).append(number)
        levels: list[list[tuple[int, float]]] = [[] for _ in queries]
        for ids, contents in self._contents(sorted(asking), documents):
            of_query: dict[int, list[tuple[int, Any]]] = {}
            for one, content in zip(ids, contents, strict=True):
                for number in asking[one]:
                    of_query.setdefault(number, []).append((one, content))
            for number, some in of_query.items():
                made = self._family.levels_with(queries[number], [text for _, text in some])
                for (one, _), level in zip(some, made, strict=True):
                    if level >= self._threshold:
                        levels[number].append((one, level))
        return levels

    def _contents(
        self, ids: list[int], documents: Documents
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield some signatures and the contents of their texts, until all are read.

        Raises
        ------
        DamageError
            A text is missing.
        """
        n_read = 0
        bodies = self.snapshot.bodies_of_signatures(ids, documents)
        for group in grouped_bodies(bodies, most=_CHECKED):
            n_read += len(group)
            yield (
                [one for one, _ in group],
                self._family.contents([body for _, body in group]),
            )
        if n_read < len(ids):
            there = {one for one, _ in self.snapshot.bodies_of_signatures(ids, documents)}
            raise missing_text(min(set(ids) - there))

    def _ranked(
        self,
        found: Iterable[tuple[int, float]],
        documents: Documents,
        leave_out: int | None = None,
    ) -> Hits:
        """Return the best documents of some signatures."""
        return self._answer(
            [
                (-level, key)
                for one, level in found
                for doc_id, key, _ in documents[one]
                if doc_id != leave_out
            ]
        )

    def search(
        self,
        signatures: NDArray[np.uint32],
        points: Sequence[Point | None],
        *,
        keys: NDArray[np.int64] | None = None,
        leave_out: int | None = None,
    ) -> list[Hits]:
        """Return the documents most similar to each query, best first; ties in order of key.

        Queries given together share their look-ups; the answers do not depend on it.

        Parameters
        ----------
        signatures : ndarray of uint32, shape (n, row_words)
            One row per query.
        points : sequence, length n
            The points of the queries; needed for method ``exact``.
        keys : ndarray of int64, shape (n, bands), optional
            Their bucket keys, if already computed.
        leave_out : int, optional
            doc_id of the document that asks, if it is in the index.
        """
        if keys is None:
            keys = bucket_keys(signatures, **self._cut)
        found = list(self._estimated(signatures, keys))
        documents = self.snapshot.documents_of_signatures(
            _all_candidates(candidates for candidates, _ in found)
        )
        if self._method == "exact" and len(documents) > 1:
            self._points.prepare(list(documents), documents)
        answers = []
        for (candidates, estimates), query in zip(found, points, strict=True):
            # A signature whose documents were all replaced has postings but no document.
            there = [one for one in zip(candidates, estimates, strict=True) if one[0] in documents]
            checked = self._checked(there, query, documents)
            answers.append(self._ranked(checked, documents, leave_out))
        return answers

    def _answer(self, found: list[tuple[float, str]]) -> Hits:
        """Return the best of some documents, given by minus their level and by key."""
        if self._below is not None:
            found = [(negative, key) for negative, key in found if -negative < self._below]
        found.sort()
        is_distance = self._params.kind.is_distance
        hits = [
            Hit(key, -negative, self._method, 0.0 + negative if is_distance else None)
            for negative, key in found[: self._top]
        ]
        return Hits(hits, truncated=len(found) - len(hits))

    def _estimated(
        self, signatures: NDArray[np.uint32], keys: NDArray[np.int64]
    ) -> Iterator[tuple[list[int], list[float]]]:
        """Yield for each query its promising candidates, with their levels by bands or slots."""
        for number, members in enumerate(self.snapshot.members_of(keys)):
            if not self.snapshot.has_signatures:
                candidates, shared = np.unique(members, return_counts=True)
                yield candidates.tolist(), band_levels(shared, self._params).tolist()
                continue
            candidates = distinct(members)
            ids: list[int] = []
            levels: list[float] = []
            for start in range(0, len(candidates), _CANDIDATES):
                some = self._worth_it(signatures, number, candidates[start : start + _CANDIDATES])
                ids += some[0].tolist()
                levels += some[1].tolist()
            yield ids, levels

    def _worth_it(
        self, signatures: NDArray[np.uint32], number: int, candidates: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the promising ones of some candidates, with their levels by bands or slots."""
        params = self._params
        rows, places = self.snapshot.signatures.among(candidates)
        agreement = compare_rows(
            signatures,
            np.full(len(candidates), number),
            rows,
            places,
            **self._cut,
        )
        # A bucket shared only by a hash collision is not an agreement.
        keep = agreement.matched > 0
        estimates, suffices = estimate(
            agreement, params, method=self._method, threshold=self._threshold
        )
        keep &= suffices
        return candidates[keep], estimates[keep]

    def _checked(
        self, candidates: list[tuple[int, float]], query: Point | None, documents: Documents
    ) -> list[tuple[int, float]]:
        """Return (signature, level by the wanted method) of the candidates that suffice."""
        if self._method != "exact" or query is None:
            return candidates
        checked: list[tuple[int, float]] = []
        for start in range(0, len(candidates), _CHECKED):
            ids = [one for one, _ in candidates[start : start + _CHECKED]]
            found = self._points.get(ids, documents)
            levels = self._family.levels([query] * len(ids), [found[one] for one in ids])
            pairs = zip(ids, levels.tolist(), strict=True)
            checked += [(one, level) for one, level in pairs if level >= self._threshold]
        return checked

    def nothing(self) -> Hits:
        """Return the answer to a query without elements."""
        return Hits()

    def search_document(self, document: StoredDocument) -> Hits:
        """Return the documents most similar to one in the index, without itself.

        Raises
        ------
        SignaturesElsewhereError
            Its signature is on another host, and there is no text to sign again.
        """
        number, doc_id = document.signature_id, document.doc_id
        if number is None:
            return Hits()
        if self.snapshot.has_signatures and self._method != "none":
            query = self._family.query_of_row(self.snapshot.signatures.row(number))
            if query is not None and self._method == "signature":
                return self.answer(query, leave_out=doc_id)
            if query is not None and self._params.keeps_texts:
                answer = self._answer_stored(query, number, doc_id)
                if answer is not None:
                    return answer
        point = self._points.get([number])[number] if self._method == "exact" else None
        return self.search(self._row(number), [point], leave_out=doc_id)[0]

    def _answer_stored(self, query: SignedQuery, number: int, doc_id: int) -> Hits | None:
        """Answer the query of a stored text exactly; None for tokens.

        Its own text is read only where it is compared with another.
        """
        agreeing = self._agreeing(query, self.snapshot.members(query.keys))
        documents = self.snapshot.documents_of_signatures([one for one, _, _ in agreeing])
        others = [one for one, _, _ in agreeing if one in documents and one != number]
        found = [(number, self._params.curve.best)] if number in documents else []
        if others:
            for _, contents in self._contents([number], documents):
                with_point = self._family.query_of_row(query.row, contents[0])
            if with_point is None:
                return None
            found += self._compared(with_point, others, documents)
        return self._ranked(found, documents, doc_id)

    def _row(self, signature_id: int) -> NDArray[np.uint32]:
        if self.snapshot.has_signatures:
            return self.snapshot.signatures[signature_id : signature_id + 1]
        if not self._params.keeps_texts:
            raise SignaturesElsewhereError(
                "a query by key needs the document's signature, which lies on the host that "
                "writes the index, or its text, and this index has none",
                hint="query by the text or vector itself, or run it on that host",
            )
        wanted = np.array([signature_id])
        return signed_anew(self.snapshot, self._family, wanted)


def _all_candidates(found: Iterable[list[int]]) -> list[int]:
    """Return the candidates of all queries, sorted, each once."""
    return sorted(set(itertools.chain.from_iterable(found)))
