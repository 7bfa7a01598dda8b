"""Verified pairs of signatures -> near-duplicate pairs of documents, streamed.

Documents with one content share a signature; they are pairs at 1.0, and each of them is in every
pair of their signature. Both are spelt out here, at the very end, and nowhere before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lshdb.search.candidates import LeftOut
from lshdb.search.loss import Loss, PairCount, loss_of
from lshdb.search.verified_pairs import MEMORY, find_links
from lshdb.signatures.family import Family
from lshdb.storage.tables.edges import Edges
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["Pair", "PairSearch", "find_pairs"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two documents and how similar they are.

    Attributes
    ----------
    key1, key2 : str
        The one that came in first, and the other.
    similarity : float
        Minus the distance where the metric is one.
    method : {"none", "signature", "exact"}
        What gave the similarity.
    """

    key1: str
    key2: str
    similarity: float
    method: str


class PairSearch(Iterator[Pair]):
    """Pairs as they are found, and what was left out on the way.

    Attributes
    ----------
    left_out : LeftOut
        Complete when the last pair has been given.
    """

    def __init__(self, pairs: Iterator[Pair], left_out: LeftOut) -> None:
        self._pairs = pairs
        self._n_found = 0
        self.left_out = left_out
        self.lost: PairCount | None = None
        """Pairs that ``max_bucket`` loses; known when the last pair has been given."""

    def __next__(self) -> Pair:
        pair = next(self._pairs)
        self._n_found += 1
        return pair

    @property
    def loss(self) -> Loss | None:
        """What ``max_bucket`` costs; None before the last pair, and where nothing can tell."""
        found = PairCount(self._n_found, self._n_found, self._n_found, True, 0)
        return None if self.lost is None else loss_of(self.lost, found)

    @property
    def recall_lost(self) -> float | None:
        """The share of all pairs that ``max_bucket`` loses: ``loss.share``."""
        loss = self.loss
        return None if loss is None else loss.share


def find_pairs(
    snapshot: Snapshot,
    family: Family,
    *,
    threshold: float,
    method: str,
    since: int | None = None,
    most: int | None = None,
    left_out: LeftOut | None = None,
    memory: int = MEMORY,
    workers: int = 1,
) -> Iterator[Pair]:
    """All pairs at or above the threshold, each once, as they are found.

    Parameters
    ----------
    snapshot : Snapshot
        Open for as long as the iteration lasts.
    family : Family
    threshold : float
        Does not apply to method ``none``.
    method : {"none", "signature", "exact"}
    since : int, optional
        Only pairs with a document of this batch or a later one.
    most : int, optional
        Leave out larger buckets, and larger groups of exact copies.
    left_out : LeftOut, optional
        Filled on the way.
    memory, workers : int
        See :func:`~lshdb.search.verified_pairs.find_links`.
    """
    left_out = LeftOut() if left_out is None else left_out
    for key1, key2 in _copies(snapshot, since, most, left_out):
        yield Pair(key1, key2, family.params.curve.best, method)
    found = find_links(
        snapshot,
        family,
        threshold=threshold,
        method=method,
        new=None if since is None else snapshot.new_signatures(since),
        most=most,
        left_out=left_out,
        memory=memory,
        workers=workers,
    )
    for links in found:
        yield from _documents(snapshot, links, method, since)


def _copies(
    snapshot: Snapshot, since: int | None, most: int | None, left_out: LeftOut
) -> Iterator[tuple[str, str]]:
    """Keys of documents that share a signature."""
    groups = itertools.groupby(snapshot.copies(since), key=lambda row: row[0])
    for _, group in groups:
        members = [row[1:] for row in group]
        if most is not None and len(members) > most:
            n_old = 0 if since is None else sum(batch < since for _, _, batch in members)
            left_out.copy_groups += 1
            left_out.copy_pairs += _n_pairs(len(members)) - _n_pairs(n_old)
            continue
        for place, (_, key1, batch1) in enumerate(members):
            for _, key2, batch2 in members[place + 1 :]:
                if since is None or batch1 >= since or batch2 >= since:
                    yield key1, key2


def _n_pairs(size: int) -> int:
    return size * (size - 1) // 2


def _documents(snapshot: Snapshot, found: Edges, method: str, since: int | None) -> Iterator[Pair]:
    """Pairs of signatures -> pairs of the documents that have them."""
    ids = np.unique(np.concatenate([found.left, found.right])).tolist()
    documents = snapshot.documents_of_signatures(ids)
    for one, other, similarity in zip(
        found.left.tolist(), found.right.tolist(), found.similarities.tolist(), strict=True
    ):
        for doc1, key1, batch1 in documents.get(one, ()):
            for doc2, key2, batch2 in documents.get(other, ()):
                if since is not None and batch1 < since and batch2 < since:
                    continue
                if doc1 < doc2:
                    yield Pair(key1, key2, similarity, method)
                else:
                    yield Pair(key2, key1, similarity, method)
