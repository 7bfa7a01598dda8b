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
from lshdb.arrays import np
from lshdb.documents import Body, Document, given_document
from lshdb.errors import InputError, LshdbError, ParameterError, SignaturesElsewhereError
from lshdb.handle import Handle, Listing
from lshdb.params.index_params import IndexParams, check_recall
from lshdb.search.verification import (
    Hit,
    Hits,
    asked_level,
    band_levels,
    below_level,
    choose_method,
    grouped_bodies,
    least_equal,
    level_of,
    missing_text,
    signed_anew,
)
from lshdb.signatures.family import Family, Point, SignedQuery
from lshdb.storage.rows.row_reader import Documents
from lshdb.storage.tables.records import StoredDocument
from lshdb.storage.transactions.diagnosis import callers_items
from lshdb.storage.transactions.index_state import QuerySnapshot
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import choose_workers, in_chunks, work_ahead
from lshdb.tokenizers import UnsplitTextError

if TYPE_CHECKING:
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
    (query,) = family.sign_queries(_contents(family, [body]))
    if not query.row or wanted.is_nearest or not store.database.answers_at_once:
        with store.reading() as snapshot:
            return _answers(wanted.searcher(snapshot, family), family, [query])[0]
    is_exact = verify == "exact" or (verify is None and family.params.keeps_texts)
    with store.answering(np.frombuffer(query.keys, np.int64), with_bodies=is_exact) as snapshot:
        return wanted.bucket_searcher(snapshot, family).answer_many([query])[0]


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
    (query,) = family.sign_queries(_contents(family, [body]))
    return family.size(query.point)


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

    def sign(bodies: Sequence[Any]) -> list[SignedQuery]:
        return family.sign_queries(_contents(family, bodies))

    def work(chunk: list[Document]) -> tuple[list[str], list[SignedQuery], LshdbError | None]:
        """Sign queries; up to the first that cannot be, with its error."""
        keys = [document.key for document in chunk]
        queries: list[SignedQuery] = []
        try:
            return keys, sign([document.body for document in chunk]), None
        except LshdbError as error:
            if len(chunk) == 1:
                return keys, [], error
        for document in chunk:
            try:
                queries += sign([document.body])
            except LshdbError as error:
                return keys, queries, error
        return keys, queries, None

    chunks = in_chunks(documents, 1 if workers == 1 else _QUERIES_A_CHUNK)
    for keys, queries, error in work_ahead(work, chunks, workers=workers):
        yield from zip(keys, _answers(searcher, family, queries), strict=False)
        if error is not None:
            key = keys[len(queries)]
            if key and isinstance(error, InputError | UnsplitTextError):
                error.message = f"query {key!r}: {error.message}"
                error.args = (error.message,)
            raise error


def _answers(
    searcher: Searcher | NearestSearch | AllTextsSearch,
    family: Family,
    queries: Sequence[SignedQuery],
) -> list[Hits]:
    """Return the answers to queries, which share their look-ups."""
    if isinstance(searcher, Searcher):
        return searcher.answer_many(queries)
    filled = [query for query in queries if query.row]
    points = [family.point_of(query) for query in filled]
    answers = iter(searcher.search(family.rows_of(filled), points) if filled else ())
    return [next(answers) if query.row else searcher.nothing() for query in queries]


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
        self._family = family
        self._threshold = threshold
        self._below = below
        self._top = top
        self._method = method

    def answer_many(self, queries: Sequence[SignedQuery]) -> list[Hits]:
        """Return the documents most similar to each query, best first; ties in order of key.

        Queries given together share their look-ups; the answers do not depend on it. Memory is that
        of the signatures in their buckets, and of some texts.

        Parameters
        ----------
        queries : sequence of SignedQuery
            With their points for method ``exact``.
        """
        members = self._members([query for query in queries if query.row])
        candidates = [
            self._candidates(query, next(members)) if query.row else [] for query in queries
        ]
        documents = self._documents(candidates)
        levels = [[one for one in each if one[0] in documents] for each in candidates]
        if self._method == "exact":
            ids = [[signature_id for signature_id, _ in each] for each in levels]
            levels = self._compared(queries, ids, documents)
        return [self._ranked(each, documents) for each in levels]

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
        candidates = self._candidates(query, self.snapshot.members(query.keys))
        documents = self._documents([candidates])
        levels = [one for one in candidates if one[0] in documents]
        if self._method == "exact":
            others = [signature_id for signature_id, _ in levels if signature_id != number]
            levels = [(number, self._params.curve.best)] if number in documents else []
            if others:
                ((_, contents),) = self._contents([number], documents)
                with_point = self._family.query_of_row(query.row, contents[0])
                levels += self._compared([with_point], [others], documents)[0]
        return self._ranked(levels, documents, document.doc_id)

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

    def _members(self, queries: Sequence[SignedQuery]) -> Iterator[bytes]:
        """Yield the signatures in the buckets of each query, once per bucket."""
        if len(queries) == 1:
            yield self.snapshot.members(queries[0].keys)
        elif queries:
            keys = np.frombuffer(b"".join([query.keys for query in queries]), np.int64)
            for members in self.snapshot.members_of(keys.reshape(len(queries), -1)):
                yield members.tobytes()

    def _candidates(self, query: SignedQuery, members: bytes) -> list[tuple[int, float]]:
        """Return (signature, level by bands or slots) of the candidates that suffice by that."""
        params, snapshot = self._params, self.snapshot
        if not snapshot.has_signatures:
            ids, shared = np.unique(np.frombuffer(members, np.int64), return_counts=True)
            return list(zip(ids.tolist(), band_levels(shared, params).tolist(), strict=True))
        least = least_equal(params, self._method, self._threshold)
        # A bucket shared only by a collision of its hash is not an agreement.
        agreeing = snapshot.signatures.read_in_place(
            functools.partial(self._family.agreeing, query, members, least), len(members) // 8
        )
        if self._method == "none":
            matched = np.array([matched for _, _, matched in agreeing], dtype=np.int64)
            levels = band_levels(matched, params).tolist()
        else:
            levels = params.curve.at_shares([equal / params.num_perm for _, equal, _ in agreeing])
        return list(zip([signature_id for signature_id, _, _ in agreeing], levels, strict=True))

    def _documents(self, candidates: Sequence[list[tuple[int, float]]]) -> Documents:
        """Return the documents of candidates; one whose documents were all replaced has none."""
        ids = [signature_id for each in candidates for signature_id, _ in each]
        if len(candidates) > 1:
            ids = sorted(set(ids))
        return self.snapshot.documents_of_signatures(ids)

    def _compared(
        self, queries: Sequence[SignedQuery], ids: Sequence[list[int]], documents: Documents
    ) -> list[list[tuple[int, float]]]:
        """Return (signature, exact level) of those whose texts suffice, each read once for all."""
        threshold, levels_with = self._threshold, self._family.levels_with
        levels: list[list[tuple[int, float]]] = [[] for _ in queries]
        if len(queries) == 1:
            for some, contents in self._contents(ids[0], documents):
                of_texts = zip(some, levels_with(queries[0], contents), strict=True)
                levels[0] += [each for each in of_texts if each[1] >= threshold]
            return levels
        asking: dict[int, list[int]] = {}
        for number, of_query in enumerate(ids):
            for signature_id in of_query:
                asking.setdefault(signature_id, []).append(number)
        for some, contents in self._contents(sorted(asking), documents):
            asked: dict[int, list[tuple[int, Any]]] = {}
            for pair in zip(some, contents, strict=True):
                for number in asking[pair[0]]:
                    asked.setdefault(number, []).append(pair)
            for number, pairs in asked.items():
                exact = levels_with(queries[number], [content for _, content in pairs])
                for (signature_id, _), level in zip(pairs, exact, strict=True):
                    if level >= threshold:
                        levels[number].append((signature_id, level))
        return levels

    def _contents(
        self, ids: list[int], documents: Documents
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield some signatures and the contents of their texts, or vectors, until all are read.

        Raises
        ------
        DamageError
            A text is missing.
        """
        if self._params.keeps_vectors:
            for start in range(0, len(ids), _CHECKED):
                some = ids[start : start + _CHECKED]
                yield some, list(self.snapshot.vectors[np.array(some, dtype=np.int64)])
            return
        n_read = 0
        bodies = self.snapshot.bodies_of_signatures(ids, documents)
        for group in grouped_bodies(bodies, most=_CHECKED):
            n_read += len(group)
            yield (
                [signature_id for signature_id, _ in group],
                self._family.contents([body for _, body in group]),
            )
        if n_read < len(ids):
            read = {number for number, _ in self.snapshot.bodies_of_signatures(ids, documents)}
            raise missing_text(min(set(ids) - read))

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
            for doc_id, key, _ in documents[signature_id]
            if doc_id != leave_out
        ]
        ranked.sort()
        is_distance = self._params.kind.is_distance
        hits = [
            Hit(key, -negative, self._method, 0.0 + negative if is_distance else None)
            for negative, key in ranked[: self._top]
        ]
        return Hits(hits, truncated=len(ranked) - len(hits))
