"""Which signature each document has; memory grows with copies, and not with documents.

A signature is numbered as its first document comes. So the first documents of signatures are in the
order of these, and all of them follow from the rows of the other documents: copies of an earlier
one, and documents without a signature.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["DocumentSignatures"]

Ids: TypeAlias = NDArray[np.int64]


class DocumentSignatures:
    """Signatures by row, and rows by signature."""

    def __init__(self) -> None:
        self._blocks = [np.empty((2, 0), dtype=np.int64)]
        self._n = self.n_signatures = 0

    def __len__(self) -> int:
        return self._n

    def append(self, signature_ids: Ids) -> None:
        """Take the signatures of the next documents, -1 for none; a new one is the next number."""
        highest = np.maximum.accumulate(np.append(self.n_signatures - 1, signature_ids))
        others = np.flatnonzero(signature_ids <= highest[:-1])
        self._blocks.append(np.stack([others + self._n, signature_ids[others]]))
        self._n += len(signature_ids)
        self.n_signatures = int(highest[-1]) + 1

    @functools.cached_property
    def _others(self) -> tuple[Ids, Ids]:
        """Rows of the documents that are not the first of a signature, and their signatures."""
        rows, signature_ids = np.concatenate(self._blocks, axis=1)
        self._blocks = []
        return rows, signature_ids

    @functools.cached_property
    def _n_before(self) -> Ids:
        """How many first documents come before each of the others."""
        rows, _ = self._others
        return rows - np.arange(len(rows))

    @functools.cached_property
    def _copies(self) -> tuple[Ids, Ids]:
        """Rows of copies in the order of their signatures, and these."""
        rows, signature_ids = self._others
        order = np.argsort(signature_ids, kind="stable")
        order = order[np.searchsorted(signature_ids[order], 0) :]
        return rows[order], signature_ids[order]

    @property
    def copied(self) -> Ids:
        """The signature of each copy, in order."""
        return self._copies[1]

    @property
    def n_without(self) -> int:
        """How many documents have no signature."""
        return len(self._others[0]) - len(self.copied)

    def of(self, rows: Ids) -> Ids:
        """Return the signatures of some documents, -1 for none."""
        others, signatures = self._others
        places = np.searchsorted(others, rows)
        signature_ids = rows - places
        if len(others):
            near = np.minimum(places, len(others) - 1)
            is_other = others[near] == rows
            signature_ids[is_other] = signatures[near[is_other]]
        return signature_ids

    def first_rows(self, signature_ids: Ids) -> Ids:
        """Return the row of the first document with each signature."""
        return signature_ids + np.searchsorted(self._n_before, signature_ids, side="right")

    def counts(self, signature_ids: Ids) -> Ids:
        """Return how many documents have each signature."""
        starts, ends = self._spans(signature_ids)
        return 1 + ends - starts

    def rows_of(self, signature_ids: Ids) -> Ids:
        """Return the rows of the documents with some sorted signatures, in order of these."""
        starts, ends = self._spans(signature_ids)
        counts = ends - starts
        places = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        rows = np.concatenate([self.first_rows(signature_ids), self._copies[0][places]])
        whose = np.concatenate([np.arange(len(counts)), np.repeat(np.arange(len(counts)), counts)])
        return rows[np.argsort(whose, kind="stable")]

    def shared(self) -> tuple[Ids, Ids]:
        """Return the signatures that several documents have, and how many these are."""
        signature_ids, counts = np.unique(self.copied, return_counts=True)
        return signature_ids, counts + 1

    def _spans(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        copied = self.copied
        return (
            np.searchsorted(copied, signature_ids, side="left"),
            np.searchsorted(copied, signature_ids, side="right"),
        )
