"""A snapshot of what one statement has answered: all that one query asks of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lshdb.storage.bodies import unpack_body
from lshdb.storage.dialects.reading import Answer
from lshdb.storage.generations import Generation
from lshdb.storage.postings import Postings
from lshdb.storage.snapshot import Snapshot

__all__ = ["AnsweredSnapshot"]

Ids = NDArray[np.int64]


class AnsweredSnapshot(Snapshot):
    """The state that a query was answered from. There is no transaction, and no more to be asked.

    Parameters
    ----------
    answer : Answer
    generation : callable
        Row files by the name of the signature file.
    """

    def __init__(self, answer: Answer, generation: Callable[[str], Generation]) -> None:
        self._answer = answer
        self._take_state(answer.state, generation)

    @property
    def postings(self) -> Postings:
        """The postings that were asked for."""
        return _AnsweredPostings(self._answer, self.n_signatures)

    def documents_of_signatures(
        self, signature_ids: Iterable[int]
    ) -> dict[int, list[tuple[int, str, int]]]:
        """(doc_id, key, batch_id) of every document with one of the candidates."""
        found = self._answer.documents
        return {one: found[one] for one in signature_ids if found[one]}

    def bodies_of_signatures(
        self, signature_ids: Sequence[int]
    ) -> Iterator[tuple[int, str | list[str] | frozenset[str]]]:
        """One body for each of the candidates that a document has: (signature_id, body)."""
        bodies = self._answer.bodies
        for one in signature_ids:
            if one in bodies:
                form, packed, n_chars, doc_id = bodies[one]
                yield one, unpack_body(form, packed, n_chars=n_chars, doc_id=doc_id)


class _AnsweredPostings(Postings):
    """Postings of the buckets that were asked for: there is one question, and its answer."""

    def __init__(self, answer: Answer, n_signatures: int) -> None:
        self._answer = answer
        self._n_signatures = n_signatures

    def members(self, keys: Ids) -> Ids:
        """The signatures of the buckets; the keys are those of the answer."""
        found = self._answer.postings
        members = np.repeat(
            np.fromiter(found.keys(), dtype=np.int64, count=len(found)),
            np.fromiter(found.values(), dtype=np.int64, count=len(found)),
        )
        self._check_ids(members)
        return members
