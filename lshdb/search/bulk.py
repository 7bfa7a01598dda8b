"""Many queries by their bodies: signed in threads, looked up together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lshdb.documents import Document, validate_body
from lshdb.errors import InputError, LshdbError
from lshdb.params import IndexParams
from lshdb.search.query import Hit, Searcher
from lshdb.shingling import Content, Shingler
from lshdb.signatures import canonical_contents, compare_contents, shingle_content, sign
from lshdb.threads import in_chunks, work_ahead
from lshdb.tokenizers import UnsplitTextError

__all__ = ["QueryMaker", "search_documents"]

_QUERIES_A_CHUNK = 64

Shingles = NDArray[np.uint64]


class QueryMaker:
    """Bodies -> what a searcher asks with; knows nothing of storage, and may run in threads."""

    def __init__(self, shingler: Shingler, params: IndexParams) -> None:
        self._shingler = shingler
        self._params = params

    def shingles(self, bodies: list[Content]) -> list[Shingles]:
        """Sorted shingle hashes of each body.

        Raises
        ------
        InputError
            A body is no text that could be a document's.
        """
        _check(bodies)
        params = self._params
        return [
            shingle_content(content, unit=params.unit, k=params.k, bag=params.bag)
            for content in canonical_contents(self._shingler, bodies)
        ]

    def shingles_or_errors(self, bodies: list[Content]) -> list[Shingles | LshdbError]:
        """The same, with the error of a body in the place of its hashes."""
        try:
            return list(self.shingles(bodies))
        except LshdbError as error:
            if len(bodies) == 1:
                return [error]
            return [found for body in bodies for found in self.shingles_or_errors([body])]

    def similarity(self, left: Content, right: Content) -> float:
        """Exact Jaccard similarity of two bodies; 0 where neither has a shingle."""
        _check([left, right])
        params = self._params
        common, n_left, n_right = compare_contents(
            *canonical_contents(self._shingler, [left, right]),
            unit=params.unit, k=params.k, bag=params.bag,
        )  # fmt: skip
        either = n_left + n_right - common
        return common / either if either else 0.0

    def signatures(self, shingles: list[Shingles]) -> NDArray[np.uint32]:
        """One row for each set, none of them empty."""
        params = self._params
        return sign(shingles, scheme=params.scheme, num_perm=params.num_perm, seed=params.seed)


def _check(bodies: Sequence[Content]) -> None:
    for body in bodies:
        reason = validate_body(body)
        if reason is not None:
            raise InputError(f"the query cannot be used: {reason}")


def search_documents(
    searcher: Searcher, maker: QueryMaker, documents: Iterable[Document], *, workers: int
) -> Iterator[tuple[str, list[Hit]]]:
    """(query key, answer) for each document, in order.

    With one worker each document is answered before the next one is taken, as a pipe wants it;
    with more, documents are taken and signed ahead, some at a time. The answers are the same, and
    an error, which names the query, comes after those before it.
    """

    def work(chunk: list[Document]) -> tuple[list[str], list[Shingles | LshdbError]]:
        keys = [document.key for document in chunk]
        return keys, maker.shingles_or_errors([document.body for document in chunk])

    chunks = in_chunks(documents, 1 if workers == 1 else _QUERIES_A_CHUNK)
    for keys, shingles in work_ahead(work, chunks, workers=workers):
        filled = [each for each in shingles if not isinstance(each, LshdbError) and len(each)]
        found = iter(searcher.search(maker.signatures(filled), filled) if filled else [])
        for key, each in zip(keys, shingles, strict=True):
            if isinstance(each, LshdbError):
                if key and isinstance(each, InputError | UnsplitTextError):
                    each.message = f"query {key!r}: {each.message}"
                    each.args = (each.message,)
                raise each
            yield key, next(found) if len(each) else []
