"""What a query asks of one state of an index, and the state that answers it in one statement.

A query needs the signatures in its buckets, their documents, their rows, and their texts or
vectors. A ``Snapshot`` gives them, with a look-up for each. Where the database is a server, that is
a way there and back each time; so one statement asks for all of it (``Reader.ask``), and a
:class:`QueryAnswer` gives them out of what came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import TextNotStoredError
from lshdb.storage.dialects.reader import Answer
from lshdb.storage.place.remote import OutlyingFile
from lshdb.storage.rowfiles.committed_rows import Rows
from lshdb.storage.rowfiles.generations import Generation
from lshdb.storage.runs.postings import check_ids
from lshdb.storage.tables.bodies import unpack_body

__all__ = ["QueryAnswer", "QuerySnapshot"]

Ids = NDArray[np.int64]
StoredText = str | list[str] | frozenset[str]


class QuerySnapshot(Protocol):
    """One state of an index, as far as a query goes."""

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
        """For each query the signatures of its buckets, in no order, once for each bucket.

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
    """The state that one query was answered from; there is no transaction to ask for more.

    Parameters
    ----------
    answer : Answer
        To the bucket keys of the query.
    generation : Generation
        The row files of that state, which have been recognised, or lie on another host.
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
        """The committed rows of the vector file; TextNotStoredError where vectors are not kept."""
        file = self._generation.vectors
        if file is None:
            raise TextNotStoredError(
                "this needs the vectors, and the index keeps none",
                hint="add them to an index that keeps them",
            )
        return file.rows(self._n_signatures)

    def members_of(self, keys: Ids) -> Iterator[Ids]:
        """The candidates, once for each bucket; the keys are those of the answer."""
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
        """(doc_id, key, batch_id) of every document with one of the candidates."""
        found = self._answer.documents
        return {one: found[one] for one in signature_ids if found[one]}

    def bodies_of_signatures(
        self, signature_ids: Sequence[int]
    ) -> Iterator[tuple[int, StoredText]]:
        """One body for each of the candidates that a document has: (signature_id, body)."""
        bodies = self._answer.bodies
        for one in signature_ids:
            if one in bodies:
                form, packed, n_chars, doc_id = bodies[one]
                yield one, unpack_body(form, packed, n_chars=n_chars, doc_id=doc_id)
