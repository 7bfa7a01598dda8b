"""Verified pairs of signatures -> near-duplicate pairs of documents, streamed.

Documents with one content share a signature: they are pairs at 1.0, and each is in every pair of
their signature. Only this last step expands signatures into documents.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from lshdb.errors import ParameterError
from lshdb.search.candidates import LeftOut
from lshdb.search.handle import Handle, Listing
from lshdb.search.loss import DocumentCounts, Loss, PairCount, PairFrame, loss_of, lost_by
from lshdb.search.verification import (
    MEMORY,
    asked_level,
    check_limits,
    choose_method,
    level_of,
)
from lshdb.search.verified_pairs import find_links
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.tables.edges import Edges
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.threads import choose_workers

__all__ = ["Pair", "PairSearch", "batch_of", "check_since", "find_pairs"]


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
        The distance if the metric is one (``hamming``, ``l1``, ``l2``); else None.
    """

    key1: str
    key2: str
    similarity: float
    method: str
    distance: float | None = field(default=None, compare=False)


class PairSearch(Listing[Pair]):
    """Pairs as they are found, and what was left out on the way.

    Attributes
    ----------
    left_out : LeftOut
        For the last iteration that has begun; complete after its last pair.
    lost : PairCount or None
        Pairs that ``max_bucket`` loses; known after the last pair.
    """

    def __init__(
        self,
        store: Store,
        family: Family,
        handle: Handle,
        *,
        threshold: float | None,
        verify: str | None,
        since: int | str | None,
        max_bucket: int | str | None,
        memory: int,
        workers: int | None,
    ) -> None:
        super().__init__(
            handle, threshold=threshold, verify=verify, since=since, max_bucket=max_bucket
        )
        asked_level(store, threshold, verify)
        choose_method(verify, store.params)
        check_limits(max_bucket, memory)
        check_since(store, since)
        self._threshold, self._verify, self._since = threshold, verify, since
        self._most = max_bucket if isinstance(max_bucket, int) else None
        self._memory, self._workers = memory, choose_workers(workers)
        self._n_found = 0
        self.left_out = LeftOut(self._most)
        self.lost: PairCount | None = None

    def _items(self, store: Store, family: Family) -> Iterator[Pair]:
        """Yield the pairs of one state, then work out what was lost."""
        level, most, n_found = level_of(store.params, self._threshold), self._most, 0
        self.lost, self.left_out = None, LeftOut(most)
        left_out = self.left_out
        with store.reading() as snapshot:
            method = choose_method(
                self._verify, store.params, has_signatures=snapshot.has_signatures
            )
            since, large = batch_of(snapshot, self._since), None
            if most is not None:
                large = PairFrame(DocumentCounts.of(snapshot, since=since))
                left_out.large = large
            pairs = find_pairs(
                snapshot,
                family,
                threshold=level,
                method=method,
                since=since,
                most=most,
                left_out=left_out,
                memory=self._memory,
                workers=self._workers,
            )
            with closing(pairs):  # before the snapshot that it reads
                for pair in pairs:
                    n_found += 1
                    yield pair
                    if store.is_closed or store.process != os.getpid():
                        store.require_open()  # as while_open does, without a call for each pair
            if large is not None:
                lost = lost_by(snapshot, family, left_out, large, threshold=level, method=method)
                left_out.large = None
                self._n_found, self.lost = n_found, lost

    @property
    def loss(self) -> Loss | None:
        """What ``max_bucket`` costs; None before the last pair, or if it cannot be told."""
        found = PairCount(self._n_found, self._n_found, self._n_found, True, 0)
        return None if self.lost is None else loss_of(self.lost, found)

    @property
    def recall_lost(self) -> float | None:
        """The share of all pairs that ``max_bucket`` loses: ``loss.share``."""
        loss = self.loss
        return None if loss is None else loss.share


def check_since(store: Store, since: int | str | None) -> None:
    """Raise ParameterError if there is no such batch.

    Raises
    ------
    ParameterError
    """
    if since is not None and since != "last":
        with store.reading() as snapshot:
            batch_of(snapshot, since)


def batch_of(snapshot: Snapshot, since: int | str | None) -> int | None:
    """Return the number of the batch that ``since`` means; None if it is None.

    Raises
    ------
    ParameterError
        There is no such batch.
    """
    if since is None:
        return None
    if since == "last":
        return snapshot.last_add()
    last = snapshot.last_batch()
    newest = last.batch_id if last else 0
    if type(since) is not int or not 1 <= since <= newest:
        raise ParameterError(
            f"there is no batch {since!r}; the index has {newest}",
            hint="lshdb batches lists them",
        )
    return since


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
) -> Generator[Pair]:
    """Yield all pairs at or above the threshold, each once, as they are found.

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
    best = family.params.curve.best
    is_distance = family.params.kind.is_distance
    for key1, key2 in _copies(snapshot, since, most, left_out):
        yield Pair(key1, key2, best, method, 0.0 if is_distance else None)
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
        yield from _documents(snapshot, links, method, since, is_distance)


def _copies(
    snapshot: Snapshot, since: int | None, most: int | None, left_out: LeftOut
) -> Iterator[tuple[str, str]]:
    """Yield the keys of documents that share a signature."""
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


def _documents(
    snapshot: Snapshot, found: Edges, method: str, since: int | None, is_distance: bool
) -> Iterator[Pair]:
    """Turn pairs of signatures into pairs of the documents that have them."""
    distance: float | None = None
    ids = np.unique(np.concatenate([found.left, found.right])).tolist()
    documents = snapshot.documents_of_signatures(ids)
    for one, other, similarity in zip(
        found.left.tolist(), found.right.tolist(), found.similarities.tolist(), strict=True
    ):
        if is_distance:
            distance = 0.0 - similarity
        for doc1, key1, batch1 in documents.get(one, ()):
            for doc2, key2, batch2 in documents.get(other, ()):
                if since is not None and batch1 < since and batch2 < since:
                    continue
                if doc1 < doc2:
                    yield Pair(key1, key2, similarity, method, distance)
                else:
                    yield Pair(key2, key1, similarity, method, distance)
