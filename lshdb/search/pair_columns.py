"""Verified pairs of signatures -> pairs of documents, as columns of some thousand at a time.

An object for each pair, and a step of Python for each of its documents, took as long as finding
the pairs. Here the documents of a block are looked up once, and arrays say which of them stand
side by side. A pair of signatures with many documents each is cut like any other lines, so a block
takes the same memory however many copies there are.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.handle import ColumnTable
from lshdb.storage.transactions.index_state import IndexState

__all__ = [
    "LINES",
    "Pair",
    "PairColumns",
    "PairListing",
    "SignatureDocuments",
    "SignaturePairs",
    "columns_of",
]

LINES = 4096
"""Pairs of documents in one block, at most."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two documents and how similar they are.

    Attributes
    ----------
    key1, key2 : str
        The older document and the other.
    similarity : float
        For a distance metric, minus the distance.
    method : {"none", "signature", "exact"}
        How the similarity was found.
    distance : float or None
        The distance if the metric is one; else None.
    """

    key1: str
    key2: str
    similarity: float
    method: str
    distance: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Some pairs as columns: place i of each list is of one pair.

    Attributes
    ----------
    keys1, keys2 : list of str
        The older document of each pair and the other.
    similarities : list of float
        For a distance metric, minus the distance.
    method : {"none", "signature", "exact"}
        How the similarities were found.
    is_distance : bool
        Whether the metric is a distance.
    """

    keys1: list[str]
    keys2: list[str]
    similarities: list[float]
    method: str
    is_distance: bool = False

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.keys1)

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs one by one."""
        distances: Iterable[float | None] = repeat(None)
        if self.is_distance:
            distances = [0.0 - similarity for similarity in self.similarities]
        return map(Pair, self.keys1, self.keys2, self.similarities, repeat(self.method), distances)

    def values(self) -> list[Sequence[Any]]:
        """Return the columns of a table of the pairs, in the order of the fields of a pair."""
        columns: list[Sequence[Any]] = [self.keys1, self.keys2, self.similarities]
        columns.append([self.method] * len(self))
        if self.is_distance:
            columns.append([0.0 - similarity for similarity in self.similarities])
        return columns

    def with_pairs(self, pairs: Iterable[Pair]) -> PairColumns:
        """Return other pairs of the same search as columns."""
        held_pairs = list(pairs)
        return PairColumns(
            [pair.key1 for pair in held_pairs],
            [pair.key2 for pair in held_pairs],
            [pair.similarity for pair in held_pairs],
            self.method,
            self.is_distance,
        )

    def first(self, n: int) -> PairColumns:
        """Return the first pairs, up to so many."""
        if n >= len(self):
            return self
        return PairColumns(
            self.keys1[:n], self.keys2[:n], self.similarities[:n], self.method, self.is_distance
        )


class PairListing(ColumnTable[Pair, PairColumns]):
    """Pairs as they are found, one by one or as columns."""

    ITEM = Pair
    EACH = PairColumns.pairs


class SignaturePairs(Protocol):
    """Pairs of signatures: their ids (int64) and similarities (float64), shape (n,) each."""

    @property
    def left(self) -> Ids:
        """The first signature of each pair."""

    @property
    def right(self) -> Ids:
        """The second signature of each pair."""

    @property
    def similarities(self) -> NDArray[np.float64]:
        """Their similarities."""


class SignatureDocuments:
    """The documents of some signatures, in order of signature and of age."""

    def __init__(self, snapshot: IndexState, signature_ids: Ids) -> None:
        self._signatures, self.doc_ids, self.batches, self.keys = snapshot.document_columns(
            distinct(signature_ids).tolist()
        )

    def of(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return for each signature the place of its first document, and how many it has."""
        starts = np.searchsorted(self._signatures, signature_ids, side="left")
        return starts, np.searchsorted(self._signatures, signature_ids, side="right") - starts

    def first_by_key(self, most: int) -> SignatureDocuments:
        """Return them with at most so many documents of each signature: the first by key."""
        starts = np.flatnonzero(np.diff(self._signatures, prepend=-1))
        sizes = np.diff(starts, append=len(self._signatures))
        is_kept = np.ones(len(self._signatures), dtype=bool)
        for large in np.flatnonzero(sizes > most).tolist():
            copies = range(int(starts[large]), int(starts[large] + sizes[large]))
            is_kept[copies.start : copies.stop] = False
            is_kept[heapq.nsmallest(most, copies, key=self.keys.__getitem__)] = True
        if is_kept.all():
            return self
        fewer = copy.copy(self)
        fewer._signatures, fewer.doc_ids, fewer.batches = (
            column[is_kept] for column in (self._signatures, self.doc_ids, self.batches)
        )
        fewer.keys = list(itertools.compress(self.keys, is_kept.tolist()))
        return fewer

    def places(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return for each document of each signature which of these that is, and its place."""
        starts, counts = self.of(signature_ids)
        behind = np.cumsum(counts)
        total = int(behind[-1]) if len(behind) else 0
        numbers = np.repeat(np.arange(len(counts)), counts)
        return numbers, np.repeat(starts - behind + counts, counts) + np.arange(total)


def columns_of(
    here: IndexState,
    pairs: SignaturePairs,
    method: str,
    *,
    beside: IndexState | None = None,
    since: int | None = None,
    is_distance: bool = False,
) -> Iterator[PairColumns]:
    """Turn pairs of signatures into pairs of the documents that have them.

    Parameters
    ----------
    here : IndexState
    pairs : SignaturePairs
    method : str
    beside : IndexState, optional
        The signatures on the right are those of this state, and a pair keeps its order. Without it
        both are of ``here``, and the older document of a pair comes first.
    since : int, optional
        Only pairs with a document of this batch or a later one.
    is_distance : bool

    Yields
    ------
    PairColumns
        In the order of the pairs of signatures, and in each of them by age.

    Raises
    ------
    DatabaseError
    """
    if not len(pairs.left):
        return
    if beside is None:
        mine = theirs = SignatureDocuments(here, np.concatenate([pairs.left, pairs.right]))
    else:
        mine, theirs = SignatureDocuments(here, pairs.left), SignatureDocuments(beside, pairs.right)
    (left, n_left), (right, n_right) = mine.of(pairs.left), theirs.of(pairs.right)
    counts = n_left * n_right
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), LINES):
        numbers = np.arange(start, min(start + LINES, int(ends[-1])))
        pair = np.searchsorted(ends, numbers, side="right")
        row, column = np.divmod(numbers - (ends - counts)[pair], n_right[pair])
        document1, document2 = left[pair] + row, right[pair] + column
        if since is not None:
            is_new = (mine.batches[document1] >= since) | (theirs.batches[document2] >= since)
            document1, document2, pair = document1[is_new], document2[is_new], pair[is_new]
        if beside is None:
            is_older = mine.doc_ids[document1] < mine.doc_ids[document2]
            document1, document2 = (
                np.where(is_older, document1, document2),
                np.where(is_older, document2, document1),
            )
        if len(document1):
            yield PairColumns(
                [*map(mine.keys.__getitem__, document1.tolist())],
                [*map(theirs.keys.__getitem__, document2.tolist())],
                pairs.similarities[pair].tolist(),
                method,
                is_distance,
            )
