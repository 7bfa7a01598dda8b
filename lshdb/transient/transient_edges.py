"""Edges and clusters of an index that lasts for one question: what SQL tables hold elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lshdb.storage.rows.edges import Edges, EdgeState, Holders

__all__ = ["TransientEdges"]

Ids: TypeAlias = NDArray[np.int64]
_NONE = np.empty(0, dtype=np.int64)


class TransientEdges:
    """Edges and clusters as arrays; a signature always has a document.

    Parameters
    ----------
    holders : callable
        Takes sorted signatures, or None for all, and yields their documents.
    """

    def __init__(self, holders: Callable[[Ids | None], Iterator[Holders]]) -> None:
        self._holders = holders
        self._state: EdgeState | None = None
        self._blocks: list[Edges] = []
        self._is_sorted = False
        self._members = _NONE
        self._labels = _NONE

    def state(self) -> EdgeState | None:
        """Return what the edges cover; None before they are made."""
        return self._state

    def last_release(self) -> int:
        """Return 0: no document leaves its signature."""
        return 0

    def dead(self) -> Ids:
        """Return the signatures that no document has: none."""
        return _NONE

    def holders(self, signature_ids: Ids | None = None) -> Iterator[Holders]:
        """Yield the documents of some signatures, or of all."""
        return self._holders(signature_ids)

    def edges(self, threshold: float) -> Iterator[Edges]:
        """Yield all edges of at least that similarity, in order of both ids."""
        if self._blocks:
            edges = self._sorted()
            chosen = edges.similarities >= threshold
            yield Edges(edges.left[chosen], edges.right[chosen], edges.similarities[chosen])

    def edges_between(self, first: int, last: int, threshold: float) -> Iterator[Edges]:
        """Yield the edges of signatures from first to last, with these on the left."""
        for edges in self.edges(threshold):
            for left, right in ((edges.left, edges.right), (edges.right, edges.left)):
                chosen = (left >= first) & (left <= last)
                yield Edges(left[chosen], right[chosen], edges.similarities[chosen])

    def contain(self, left: Ids, right: Ids, threshold: float) -> NDArray[np.bool_]:
        """Return which pairs are edges of at least that similarity."""
        contained = np.zeros(len(left), dtype=bool)
        for edges in self.edges(threshold):
            contained |= np.isin(left << 32 | right, edges.left << 32 | edges.right)
        return contained

    def labels_by_signature(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return (signature ids, labels) of those of some signatures in a cluster, sorted."""
        if not len(self._members):
            return _NONE, _NONE
        places = np.searchsorted(self._members, signature_ids)
        places[places == len(self._members)] = 0
        hits = self._members[places] == signature_ids
        return signature_ids[hits], self._labels[places[hits]]

    def astray(self, labels: Ids) -> dict[int, int]:
        """Return clusters whose label's document has left: none."""
        return {}

    def members(self) -> Iterator[tuple[Ids, Ids]]:
        """Yield (signature ids, labels) of all clusters, in order of signature."""
        if len(self._members):
            yield self._members, self._labels

    def put_edges(self, edges: Edges, method: str) -> None:
        """Take edges; one that comes again counts once."""
        self._blocks.append(edges)
        self._is_sorted = False

    def put_members(self, signature_ids: Ids, labels: Ids) -> None:
        """Take the members of all clusters."""
        order = np.argsort(signature_ids, kind="stable")
        self._members, self._labels = signature_ids[order], labels[order]

    def clear(self) -> None:
        """Forget all edges and clusters."""
        self._state, self._blocks = None, []
        self._members = self._labels = _NONE

    def put_state(self, state: EdgeState) -> None:
        """Note what the edges cover."""
        self._state = state

    def _sorted(self) -> Edges:
        if not self._is_sorted:
            left = np.concatenate([block.left for block in self._blocks])
            right = np.concatenate([block.right for block in self._blocks])
            similarities = np.concatenate([block.similarities for block in self._blocks])
            order = np.lexsort((right, left))
            is_first = np.ones(len(order), dtype=bool)
            is_first[1:] = (np.diff(left[order]) != 0) | (np.diff(right[order]) != 0)
            order = order[is_first]
            self._blocks = [Edges(left[order], right[order], similarities[order])]
            self._is_sorted = True
        return self._blocks[0]
