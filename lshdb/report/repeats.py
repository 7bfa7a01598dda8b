"""Count near-duplicates by the adds, or nights, that brought them: pairs, and dropped documents.

Pairs are counted from the stored pairs and from copies, so the sum is that of all verified pairs of
documents. Memory grows with the documents in clusters, by some thirty bytes each.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.pages import heats
from lshdb.pages.cards import Nights
from lshdb.storage.tables.records import StoredBatch
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["Add", "Drops", "Repeats", "adds_of", "drops_of", "repeats_of"]

_SHOWN = 60

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Add:
    """The counts of an add, or of a night with several adds.

    Attributes
    ----------
    name : str
        The night's, or that of its first batch.
    batches : tuple of int
        Their numbers, in rising order.
    started_at, finished_at : str
        Of the first batch, and of the last.
    sources : tuple of str
        Distinct, in order of appearance.
    added, replaced, unchanged, copies, rejected, removed : int
        Sums over the batches.
    has_ended : bool
        Whether each batch has ended.
    """

    name: str
    batches: tuple[int, ...]
    started_at: str
    finished_at: str
    sources: tuple[str, ...]
    added: int
    replaced: int
    unchanged: int
    copies: int
    rejected: int
    removed: int
    has_ended: bool


@dataclass(frozen=True, slots=True)
class Repeats:
    """Pairs between adds.

    Attributes
    ----------
    rows : tuple of (Add, Add, int, int)
        A later add, the one that it repeated (perhaps itself), the pairs of documents, and those of
        them that are exact copies; the most pairs first.
    n_rows : int
        How many there are, shown or not.
    pairs, copies : int
        The sums of all.
    """

    rows: tuple[tuple[Add, Add, int, int], ...]
    n_rows: int
    pairs: int
    copies: int


@dataclass(frozen=True, slots=True)
class Drops:
    """The documents that ``dedup`` drops, by the nights of both documents.

    Attributes
    ----------
    names : list of str
        Of the nights, the oldest first.
    rows : list of (list of int, list of int, int, float)
        For each night: how many of its documents repeat one of each night; the same from 0 to 5;
        their sum; and their share of the documents that came in.
    added : list of int
        How many came in.
    total, most, most_night : int, int, str
        All of them; the most that repeat one night, and its name.
    """

    names: list[str]
    rows: list[tuple[list[int], list[int], int, float]]
    added: list[int]
    total: int
    most: int
    most_night: str


def drops_of(
    snapshot: Snapshot, adds: Iterable[Add], nights: Nights, doc_ids: Ids, instead: Ids
) -> Drops:
    """Count dropped documents by their night, and by that of the document kept instead."""
    size = len(nights.names)
    batches = [
        dict(zip(ids.tolist(), snapshot.values_of(ids, "batch_id"), strict=True))
        for ids in (doc_ids, np.unique(instead))
    ]
    own, repeated = (
        np.array(nights.places(int(str(of_document[doc_id])) for doc_id in ids.tolist()), np.int64)
        for of_document, ids in zip(batches, (doc_ids, instead), strict=True)
    )
    table = np.bincount(own * size + repeated, minlength=size * size).reshape(size, size)
    highest = int(table.max()) if size else 0
    added = [0] * size
    for add in adds:
        (place,) = nights.places(add.batches[:1])
        added[place] += add.added + add.replaced
    columns = table.sum(axis=0).tolist()
    most = max(range(size), key=columns.__getitem__, default=0)
    return Drops(
        names=nights.names,
        rows=[
            (row, heats(row, highest), sum(row), sum(row) / max(1, n_added))
            for row, n_added in zip(table.tolist(), added, strict=True)
        ],
        added=added,
        total=len(doc_ids),
        most=columns[most] if size else 0,
        most_night=nights.names[most] if size else "",
    )


def adds_of(batches: Iterable[StoredBatch]) -> list[Add]:
    """Group batches by add, or by night; the oldest first."""
    groups: dict[str, list[StoredBatch]] = {}
    for batch in batches:
        groups.setdefault(f"night {batch.night}" if batch.night else f"{batch.add_id}", []).append(
            batch
        )
    return [_add(group) for group in groups.values()]


def _add(group: list[StoredBatch]) -> Add:
    first = group[0]
    return Add(
        name=first.night or f"batch {first.batch_id}",
        batches=tuple(batch.batch_id for batch in group),
        started_at=first.started_at,
        finished_at=group[-1].finished_at,
        sources=tuple(dict.fromkeys(batch.source for batch in group if batch.source)),
        added=sum(batch.n_added for batch in group),
        replaced=sum(batch.n_replaced for batch in group),
        unchanged=sum(batch.n_unchanged for batch in group),
        copies=sum(batch.n_copies for batch in group),
        rejected=sum(batch.n_rejected for batch in group),
        removed=sum(batch.n_removed for batch in group),
        has_ended=all(batch.has_ended for batch in group),
    )


def repeats_of(snapshot: Snapshot, adds: list[Add], *, level: float, since: int | None) -> Repeats:
    """Count the pairs of documents between adds.

    Parameters
    ----------
    snapshot : Snapshot
        With edges down to the level.
    adds : list of Add
        All adds of the index, the oldest first.
    level : float
        Similarity, or minus the distance, from which a stored pair counts.
    since : int, optional
        Only pairs with a document of this batch or a later one.
    """
    is_new = [since is None or add.batches[-1] >= since for add in adds]
    add_of_batch = {batch: number for number, add in enumerate(adds) for batch in add.batches}
    counts = _DocumentCounts.of(snapshot, add_of_batch)
    pairs: Counter[tuple[int, int]] = Counter()
    copies = counts.copies()
    for edges in snapshot.edges.edges(level):
        pairs.update(counts.between(edges.left, edges.right))
    pairs.update(copies)
    shown = [pair for pair in pairs if is_new[pair[0]]]
    shown.sort(key=lambda pair: (-pairs[pair], pair))
    return Repeats(
        rows=tuple(
            (adds[later], adds[earlier], pairs[later, earlier], copies[later, earlier])
            for later, earlier in shown[:_SHOWN]
        ),
        n_rows=len(shown),
        pairs=sum(pairs[pair] for pair in shown),
        copies=sum(copies[pair] for pair in shown),
    )


@dataclass(frozen=True, slots=True)
class _DocumentCounts:
    """Documents of signatures in clusters, counted by add: columns sorted by signature."""

    signature_ids: Ids
    adds: Ids
    counts: Ids

    @classmethod
    def of(cls, snapshot: Snapshot, add_of_batch: dict[int, int]) -> _DocumentCounts:
        rows = (
            (signature_id, add_of_batch[batch_id], count)
            for signature_id, batch_id, count in snapshot.edges.documents_in_clusters()
        )
        flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64)
        return cls(flat[0::3], flat[1::3], flat[2::3])

    def copies(self) -> Counter[tuple[int, int]]:
        """Return the pairs of documents that share a signature, by (later, earlier) add."""
        copies: Counter[tuple[int, int]] = Counter()
        starts = np.flatnonzero(np.diff(self.signature_ids, prepend=-1))
        ends = np.append(starts[1:], len(self.signature_ids))
        several = (self.counts[starts] > 1) | (ends - starts > 1) if len(starts) else starts
        for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
            parts = list(
                zip(self.adds[start:end].tolist(), self.counts[start:end].tolist(), strict=True)
            )
            for place, (add, n_one) in enumerate(parts):
                copies[add, add] += n_one * (n_one - 1) // 2
                for later, n_other in parts[place + 1 :]:
                    copies[max(add, later), min(add, later)] += n_one * n_other
        return +copies

    def between(self, left: Ids, right: Ids) -> Counter[tuple[int, int]]:
        """Return the pairs of documents of pairs of signatures, by (later, earlier) add."""
        place, left_row = self._rows_of(left)
        again, right_row = self._rows_of(right[place])
        left_row = left_row[again]
        later = np.maximum(self.adds[left_row], self.adds[right_row])
        earlier = np.minimum(self.adds[left_row], self.adds[right_row])
        numbers = self.counts[left_row] * self.counts[right_row]
        names, places = np.unique(later << 32 | earlier, return_inverse=True)
        sums = np.zeros(len(names), dtype=np.int64)
        np.add.at(sums, places.reshape(-1), numbers)
        return Counter(
            {
                (name >> 32, name & 0xFFFFFFFF): number
                for name, number in zip(names.tolist(), sums.tolist(), strict=True)
            }
        )

    def _rows_of(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return (place in ``signature_ids``, row here) of each row of those signatures."""
        first = np.searchsorted(self.signature_ids, signature_ids, side="left")
        sizes = np.searchsorted(self.signature_ids, signature_ids, side="right") - first
        place = np.repeat(np.arange(len(signature_ids)), sizes)
        offsets = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return place, np.repeat(first, sizes) + offsets
