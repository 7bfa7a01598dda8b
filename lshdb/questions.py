"""What can be asked of an open index about one document or a few; ``Index`` inherits it.

Each method is one question: it opens a snapshot and hands it to the room that knows the answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_items, check_key, check_whole, plain_number
from lshdb.documents import Body, Document, given_document
from lshdb.errors import ParameterError, RecallWarning, warn_caller
from lshdb.params.index_params import IndexParams, check_threshold
from lshdb.search.explain import Explanation, explain_pair
from lshdb.search.query import Hit, QueryMaker, Searcher, search_documents
from lshdb.search.verification import choose_method
from lshdb.signatures.banding import bucket_keys
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.transactions.query_answer import QuerySnapshot
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.threads import choose_workers

if TYPE_CHECKING:
    from lshdb.search.nearest import NearestSearch

__all__ = ["Questions"]


class Questions:
    """Questions about one document or a few."""

    def __init__(self, store: Store, family: Family) -> None:
        self._store = store
        self._family = family
        self._maker = QueryMaker(family)

    @property
    def params(self) -> IndexParams:
        """The parameters it was made with."""
        return self._store.params

    def query(
        self,
        body: Body | None = None,
        *,
        key: str | None = None,
        top: int | None = 10,
        threshold: float | None = None,
        verify: str | None = None,
        recall: float | None = None,
        probe_limit: int | bool = False,
    ) -> list[Hit]:
        """The documents most similar to a text, to ready tokens, or to a document of the index.

        Parameters
        ----------
        body : str, list, tuple or set of str, or other, optional
            As for :meth:`add`.
        key : str, optional
            Instead of a body: a document of the index, which is left out of the answer itself.
        top : int or None
            Most answers; None for all.
        threshold : float, optional
            Lowest similarity, or largest distance; the index's own by default, but with ``recall``
            none.
        verify : {"none", "signature", "exact"}, optional
            How candidates are checked; exact by default where texts are stored, else signature,
            or none where the signatures lie on another host (``docs/elsewhere.md``).
        recall : float, optional
            Look also into buckets next to the query's own, until each of the ``top`` nearest
            documents was to be found with this probability. The answer says what was reached: of
            sets no bucket is next to another, so there its own buckets have to suffice.
        probe_limit : int or bool
            Compare so many candidates at most, far ones included; with True twice as many as there
            are bands.

        Returns
        -------
        list of Hit
            Best first. A document of similarity s is found with probability
            ``params.recall_at(s)``. With ``recall`` or ``probe_limit`` an :class:`~lshdb.Answer`.

        Raises
        ------
        KeyNotFoundError, ParameterError, TextNotStoredError, TokenizerError, DamageError
        SignaturesElsewhereError
            By signature, or by key without texts, where the signatures lie on another host.
        """
        if (body is None) == (key is None):
            raise ParameterError("a query has either a body or a key")
        asked = top, self._query_level(threshold, verify, recall), verify
        if body is None:
            key = check_key("key", key)
            if recall is not None or probe_limit is not False:
                with self._nearest(*asked, recall, probe_limit) as nearest:
                    return nearest.search_key(key)
            with (
                self._store.reading() as snapshot,
                self._searcher(contextlib.nullcontext(snapshot), *asked) as searcher,
            ):
                return _query_key(searcher, snapshot, key)
        points = self._maker.points([body])
        signatures = self._maker.signatures(points) if self._maker.size(points[0]) else None
        if recall is not None or probe_limit is not False:
            from lshdb.search.nearest import Answer

            with self._nearest(*asked, recall, probe_limit) as nearest:
                return Answer() if signatures is None else nearest.near(signatures, points[0])
        is_exact = verify == "exact" or (verify is None and self.params.keeps_texts)
        keys = self._keys(signatures)
        answering = self._store.answering(keys.reshape(-1), with_bodies=is_exact)
        with self._searcher(answering, *asked) as searcher:
            if signatures is None:
                return []
            return searcher.search(signatures, points, keys=keys)[0]

    def query_many(
        self,
        documents: Iterable[Document | tuple[str, Body]],
        *,
        top: int | None = 10,
        threshold: float | None = None,
        verify: str | None = None,
        recall: float | None = None,
        probe_limit: int | bool = False,
        workers: int | None = 1,
    ) -> Iterator[tuple[str, list[Hit]]]:
        """Many queries on one state of the index: (query key, answer) for each, streamed.

        Parameters
        ----------
        documents : iterable
            As for :meth:`add`; their keys only name the queries.
        top, threshold, verify, recall, probe_limit
            As for :meth:`query`.
        workers : int or None
            Threads; None is one a core. With one, each query is answered before the next is taken;
            with more, some hundred are taken ahead. The answers are the same.

        Raises
        ------
        ParameterError
            At once; all else while answers are taken, as for :meth:`query`.
        """
        workers = choose_workers(workers)
        check_items(
            "documents", documents, "an iterable of (key, text) pairs or documents",
            hint="Index.query answers one text; a dict gives its pairs by .items()",
        )  # fmt: skip
        asked = top, self._query_level(threshold, verify, recall), verify

        def found() -> Iterator[tuple[str, list[Hit]]]:
            taken = map(given_document, documents)
            is_nearest = recall is not None or probe_limit is not False
            with (
                self._nearest(*asked, recall, probe_limit)
                if is_nearest
                else self._searcher(self._store.reading(), *asked)
            ) as searcher:
                answers = search_documents(searcher, self._maker, taken, workers=workers)
                yield from self._store.while_open(answers)

        return found()

    def explain(
        self, key1: str, key2: str | None = None, *, body: Body | None = None
    ) -> Explanation:
        """Why a document and another one, or a text, are a near-duplicate pair or are none.

        Parameters
        ----------
        key1 : str
        key2 : str, optional
        body : str, list or set of str, or other, optional
            As for :meth:`add`, instead of a second key; not added.

        Raises
        ------
        KeyNotFoundError, ParameterError, InputError, TokenizerError, DamageError
        SignaturesElsewhereError
            Signatures lie on another host, and there are no texts to sign anew.
        """
        if (key2 is None) == (body is None):
            raise ParameterError("a document is compared with either a second key or a body")
        check_key("key1", key1)
        if key2 is not None:
            check_key("key2", key2)
        with self._store.reading() as snapshot:
            return explain_pair(snapshot, self._family, key1, key2, body)

    @property
    def has_signatures(self) -> bool:
        """Whether the signature file is here; else it lies on another host."""
        with self._store.reading() as snapshot:
            return snapshot.has_signatures

    def similarity(self, left: Body, right: Body) -> float:
        """Exact similarity of two bodies as this index would compare them; O(their length).

        Minus the distance where the metric is one. Neither need be in the index. 0 where neither
        has a shingle.

        Raises
        ------
        InputError
            One of them could be no document's body.
        """
        return self._maker.similarity(left, right)

    def refusal(self, body: object) -> str | None:
        """Why a body can be no document's here, and no query, in one line; None where it can."""
        return self._family.refusal(body)

    def count_shingles(self, body: Body) -> int:
        """How many shingles a text, or ready tokens, would have here; of 0 nothing is similar.

        Of a vector its numbers, of bits for ``jaccard-bits`` those that are set, of weights the
        tokens with one.
        """
        return self._maker.size(self._maker.points([body])[0])

    @contextlib.contextmanager
    def _searcher(
        self,
        reading: AbstractContextManager[QuerySnapshot],
        top: int | None,
        level: float | None,
        verify: str | None,
    ) -> Iterator[Searcher]:
        if top is not None:
            check_whole("top", top, 1)
        with reading as snapshot:
            method = choose_method(verify, self.params, has_signatures=snapshot.has_signatures)
            searcher = Searcher(
                snapshot,
                self._family,
                threshold=self.params.level if level is None else level,
                top=top,
                method=method,
            )
            yield searcher

    @contextlib.contextmanager
    def _nearest(
        self,
        top: int | None,
        level: float | None,
        verify: str | None,
        recall: float | None,
        probe_limit: int | bool,
    ) -> Iterator[NearestSearch]:
        from lshdb.params.options import check_recall
        from lshdb.search.nearest import NearestSearch

        if top is not None:
            check_whole("top", top, 1)
        if recall is not None:
            check_recall(recall)
        limit: int | None = None
        if probe_limit is True:
            limit = 2 * self.params.bands
        elif probe_limit is not False:
            limit = check_whole("probe_limit", probe_limit, 1)
        if level is None and top is None:
            raise ParameterError(
                "neither top nor threshold says which documents are wanted",
                hint="give one of the two",
            )
        with self._store.reading() as snapshot:
            snapshot.require_signatures()
            method = choose_method(verify, self.params)
            if method == "none":
                raise ParameterError(
                    "the nearest are found by comparing candidates, which verify 'none' does not",
                    hint="use 'signature' or 'exact'",
                )
            yield NearestSearch(
                snapshot, self._family,
                top=top, threshold=level, recall=recall, limit=limit, method=method,
            )  # fmt: skip

    def _threshold(self, threshold: float | None) -> float:
        """The level of a threshold, the index's own where none is given."""
        if threshold is None:
            return self.params.level
        threshold = plain_number(threshold)
        check_threshold(self.params.metric, threshold)
        return self.params.curve.level(float(threshold))

    def _asked_level(self, threshold: float | None, verify: str | None = None) -> float:
        """The same of a threshold as the caller gives it.

        Warns where it lets in what the index was not made for, and finds less often than it was
        promised, unless candidates are not verified and no threshold applies.
        """
        level, params = self._threshold(threshold), self.params
        if level < params.level:
            value = params.curve.value(level)
            is_less = round(params.recall_at(value), 4) < round(params.recall, 4)
            if is_less and not self._is_unverified(verify):
                warn_caller(RecallWarning(_recall_below(params, value)))
        return level

    def _query_level(
        self, threshold: float | None, verify: str | None, recall: float | None
    ) -> float | None:
        """The level of a query; None where a recall is asked for, which has one of its own."""
        if recall is None:
            return self._asked_level(threshold, verify)
        return None if threshold is None else self._threshold(threshold)

    def _is_unverified(self, verify: str | None) -> bool:
        """Whether candidates are taken as they are."""
        if verify is None and not self.params.keeps_texts:  # by files that may lie elsewhere
            return not self.has_signatures
        return verify == "none"

    def _keys(self, signatures: NDArray[np.uint32] | None) -> NDArray[np.int64]:
        if signatures is None:
            return np.empty((0, self.params.bands), dtype=np.int64)
        return bucket_keys(signatures, **self.params.cut)


def _query_key(searcher: Searcher, snapshot: Snapshot, key: str) -> list[Hit]:
    document = snapshot.document(key)
    if document.signature_id is None:
        return []
    return searcher.search_stored(document.signature_id, leave_out=document.doc_id)


def _recall_below(params: IndexParams, value: float) -> str:
    """What is found beyond the threshold of an index, in words."""
    what, where = ("distance", "above") if params.kind.is_distance else ("similarity", "below")
    recall = params.recall_at(value)
    return (
        f"a pair at {what} {value:g}, {where} this index's threshold of {params.threshold:g}, is "
        f"found with probability {recall:{'.4f' if recall >= 0.00005 else '.1e'}}; an index made, "
        f"or rebanded, with threshold {value:g} finds more"
    )
