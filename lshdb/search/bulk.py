"""Many queries by their bodies: signed in threads, looked up together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.documents import Document
from lshdb.errors import InputError, LshdbError
from lshdb.search.query import Hit, Searcher
from lshdb.signatures.family import Family, Point
from lshdb.threads import in_chunks, work_ahead
from lshdb.tokenizers import UnsplitTextError

if TYPE_CHECKING:
    from lshdb.search.nearest import NearestSearch

__all__ = ["QueryMaker", "search_documents"]

_QUERIES_A_CHUNK = 64


class QueryMaker:
    """Bodies -> what a searcher asks with; knows nothing of storage, and may run in threads."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def points(self, bodies: Sequence[Any]) -> list[Point]:
        """What is compared of each body.

        Raises
        ------
        InputError
            A body could be no document's.
        """
        return self._family.points(self._contents(bodies))

    def points_or_errors(self, bodies: Sequence[Any]) -> list[Point | LshdbError]:
        """The same, with the error of a body in the place of its point."""
        try:
            return list(self.points(bodies))
        except LshdbError as error:
            if len(bodies) == 1:
                return [error]
            return [found for body in bodies for found in self.points_or_errors([body])]

    def size(self, point: Point) -> int:
        """Elements of a point; of 0 nothing is similar."""
        return self._family.size(point)

    def similarity(self, left: Any, right: Any) -> float:
        """Exact level of two bodies; for sets 0 where neither has an element."""
        return self._family.compare(*self._contents([left, right]))

    def signatures(self, points: Sequence[Point]) -> NDArray[np.uint32]:
        """One row for each point, none of them empty."""
        return self._family.sign(points)

    def _contents(self, bodies: Sequence[Any]) -> list[Any]:
        for body in bodies:
            reason = self._family.refusal(body)
            if reason is not None:
                raise InputError(f"the query cannot be used: {reason}")
        return self._family.contents(bodies)


def search_documents(
    searcher: Searcher | NearestSearch,
    maker: QueryMaker,
    documents: Iterable[Document],
    *,
    workers: int,
) -> Iterator[tuple[str, list[Hit]]]:
    """(query key, answer) for each document, in order.

    With one worker each document is answered before the next one is taken, as a pipe wants it;
    with more, documents are taken and signed ahead, some at a time. The answers are the same, and
    an error, which names the query, comes after those before it.
    """

    def work(chunk: list[Document]) -> tuple[list[str], list[Point | LshdbError]]:
        keys = [document.key for document in chunk]
        return keys, maker.points_or_errors([document.body for document in chunk])

    chunks = in_chunks(documents, 1 if workers == 1 else _QUERIES_A_CHUNK)
    for keys, points in work_ahead(work, chunks, workers=workers):
        filled = [one for one in points if not isinstance(one, LshdbError) and maker.size(one)]
        found = iter(searcher.search(maker.signatures(filled), filled) if filled else [])
        for key, each in zip(keys, points, strict=True):
            if isinstance(each, LshdbError):
                if key and isinstance(each, InputError | UnsplitTextError):
                    each.message = f"query {key!r}: {each.message}"
                    each.args = (each.message,)
                raise each
            yield key, next(found) if maker.size(each) else []
