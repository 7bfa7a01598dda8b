"""What a query asks of one state of an index, and the state that answers it in one statement.

A query needs the signatures in its buckets, their documents, their rows, and their texts or
vectors. A ``Snapshot`` looks up each of them. On a database server each look-up is a round trip; so
one statement asks for all of it (``Reader.ask``), and a :class:`QueryAnswer` holds the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import TextNotStoredError
from lshdb.storage.dialects.base import Answer
from lshdb.storage.place.remote import OutlyingFile
from lshdb.storage.rowfiles.committed_rows import Rows
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.runs.postings import check_ids
from lshdb.storage.tables.bodies import unpack_body

__all__ = ["QueryAnswer", "QuerySnapshot"]

Ids = NDArray[np.int64]
StoredText = str | list[str] | frozenset[str]


class QuerySnapshot(Protocol):
    """The part of one state of an index that a query needs."""

    @property
    def has_signatures(self) -> bool:
        """Whether the row files are here and not on another host."""

    @property
    def signatures(self) -> Rows:
        """The committed signature rows."""

    @property
    def vectors(self) -> Rows:
        """The committed rows of the vector file, where vectors are kept."""

    def members_of(self, keys: Ids) -> Iterator[Ids]:
        """Return for each query the signatures in its buckets, unordered, once per bucket.

        Parameters
        ----------
        keys : ndarray of int64, shape (n, bands)
            The bucket keys of a query in each row.
        """

    def documents_of_signatures(
        self, signature_ids: Iterable[int]
    ) -> dict[int, list[tuple[int, str, int]]]:
        """(doc_id, key, batch_id) of every document with one of the signatures, by signature."""

    def bodies_of_signatures(
        self, signature_ids: Sequence[int]
    ) -> Iterator[tuple[int, StoredText]]:
        """One body for each signature that a document has: (signature_id, body)."""


class QueryAnswer:
    """The state that answered one query; there is no transaction to ask for more.

    Parameters
    ----------
    answer : Answer
        The answer for the bucket keys of the query.
    generation : Generation
        The row files of that state; they have been recognised, or are on another host.
    """

    def __init__(self, answer: Answer, generation: Generation) -> None:
        self._answer = answer
        self._generation = generation
        self._n_signatures = answer.state[1]

    @property
    def has_signatures(self) -> bool:
        """Whether the row files are here and not on another host."""
        file = self._generation.signatures
        return not isinstance(file, OutlyingFile) or file.is_here()

    @property
    def signatures(self) -> Rows:
        """The committed signature rows."""
        return self._generation.signatures.rows(self._n_signatures)

    @property
    def vectors(self) -> Rows:
        """The committed rows of the vector file; TextNotStoredError if vectors are not stored."""
        file = self._generation.vectors
        if file is None:
            raise TextNotStoredError(
                "this needs the vectors, and the index keeps none",
                hint="add them to an index that keeps them",
            )
        return file.rows(self._n_signatures)

    def members_of(self, keys: Ids) -> Iterator[Ids]:
        """Return the candidates, once per bucket; the keys must be those of the answer."""
        found = self._answer.postings
        members = np.repeat(
            np.fromiter(found.keys(), dtype=np.int64, count=len(found)),
            np.fromiter(found.values(), dtype=np.int64, count=len(found)),
        )
        check_ids(members, self._n_signatures)
        yield members

    def documents_of_signatures(
        self, signature_ids: Iterable[int]
    ) -> dict[int, list[tuple[int, str, int]]]:
        """Return (doc_id, key, batch_id) of every document with one of the candidates."""
        found = self._answer.documents
        return {one: found[one] for one in signature_ids if found[one]}

    def bodies_of_signatures(
        self, signature_ids: Sequence[int]
    ) -> Iterator[tuple[int, StoredText]]:
        """Yield (signature_id, body) for each candidate that a document has."""
        bodies = self._answer.bodies
        for one in signature_ids:
            if one in bodies:
                form, packed, n_chars, doc_id = bodies[one]
                yield one, unpack_body(form, packed, n_chars=n_chars, doc_id=doc_id)
