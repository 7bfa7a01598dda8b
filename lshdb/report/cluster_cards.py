"""Cards of clusters for a page: members side by side, and why they belong together.

Documents, stored pairs, texts and signature rows of some clusters are looked up together. Of a
large cluster, the first ``LOOKED_UP`` members count for its dates and sources, and the first
``COMPARED`` are shown with their texts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lshdb.groups.listing import Cluster
from lshdb.pages.text_markup import ShownText, show_difference, unchanged_text
from lshdb.report.spread import agreeing_bands
from lshdb.signatures.family import Family
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["Member", "ShownCluster", "show_clusters"]

TOGETHER = 64
LOOKED_UP = 1_000
COMPARED = 6
_LISTED = 100
_LINE = re.compile(r":\d+\Z")
"""The number of a line or record at the end of a source."""


@dataclass(frozen=True, slots=True)
class Member:
    """A document of a cluster.

    Attributes
    ----------
    key, source, added_at : str
        As the index stores them.
    n_chars : int
        Length of the whole text.
    text : ShownText or None
        Its text, with the differences from ``compared_with``; None if texts are not stored.
    compared_with : str
        The key of the first member if both are a stored pair, else of the most similar member; of
        the first if no stored pair is known. Empty for the first member itself.
    similarity : float or None
        To ``compared_with``; None where no stored pair is known.
    is_copy : bool
        Whether both have one content.
    bands : tuple of int
        The bands in which both agree, from 0; empty for copies.
    """

    key: str
    source: str
    added_at: str
    n_chars: int
    text: ShownText | None
    compared_with: str
    similarity: float | None
    is_copy: bool
    bands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """The card of a cluster.

    Attributes
    ----------
    number : int
        From 1, the largest first.
    label : str
        Key of the oldest member.
    size : int
        Number of all members.
    low, high : float or None
        Similarities of its stored pairs, or distances; None if there are too many members.
    first, last : str
        When the first and the last of its members were added.
    sources : tuple of str
        The files of its members, without line numbers.
    members : tuple of Member
        Those shown with texts, the oldest first.
    more : tuple of str
        Keys of further members.
    n_more : int
        Further members without a key here.
    """

    number: int
    label: str
    size: int
    low: float | None
    high: float | None
    first: str
    last: str
    sources: tuple[str, ...]
    members: tuple[Member, ...]
    more: tuple[str, ...]
    n_more: int


def show_clusters(
    snapshot: Snapshot,
    family: Family,
    clusters: Iterable[Cluster],
    *,
    level: float,
    compared: int = COMPARED,
) -> Iterator[ShownCluster]:
    """Yield the card of each cluster, in batches that share their look-ups.

    Parameters
    ----------
    snapshot : Snapshot
        With edges down to the level.
    family : Family
        Family of the index.
    clusters : iterable of Cluster
        In the order of the page.
    level : float
        Similarity, or minus the distance, from which a stored pair counts.
    compared : int
        Members that are shown with their texts.
    """
    numbered = enumerate(clusters, start=1)
    while batch := list(itertools.islice(numbered, TOGETHER)):
        lookup = _Lookup(snapshot, family, [cluster for _, cluster in batch], level, compared)
        for number, cluster in batch:
            yield lookup.show(number, cluster)


class _Lookup:
    """Documents, stored pairs and texts of a batch of clusters, each read in one look-up."""

    def __init__(
        self,
        snapshot: Snapshot,
        family: Family,
        clusters: list[Cluster],
        level: float,
        compared: int,
    ) -> None:
        self._params, self._compared = family.params, compared
        keys = [key for cluster in clusters for key in cluster.keys[:LOOKED_UP]]
        self._documents = snapshot.documents_of_keys(keys)
        self._edges = self._edges_of(snapshot, level)
        self._why = self._reasons(snapshot, clusters)
        shown = [key for cluster in clusters for key in cluster.keys[:compared]]
        neighbour_keys = [neighbours for neighbours, _, _ in self._why.values()]
        doc_ids = {self._documents[key].doc_id for key in (*shown, *neighbour_keys)}
        self._bodies: dict[int, Any] = (
            dict(snapshot.bodies_of_documents(sorted(doc_ids))) if self._params.keeps_texts else {}
        )

    def _edges_of(self, snapshot: Snapshot, level: float) -> dict[int, dict[int, float]]:
        """Return the levels of stored pairs among the documents, by both signatures."""
        ids = {
            document.signature_id
            for document in self._documents.values()
            if document.signature_id is not None
        }
        levels: dict[int, dict[int, float]] = {signature_id: {} for signature_id in ids}
        for edges in snapshot.edges.edges_of(np.array(sorted(ids), dtype=np.int64)):
            columns = edges.left.tolist(), edges.right.tolist(), edges.similarities.tolist()
            for left, right, similarity in zip(*columns, strict=True):
                if similarity >= level and right in levels:
                    levels[left][right] = levels[right][left] = similarity
        return levels

    def _reasons(
        self, snapshot: Snapshot, clusters: list[Cluster]
    ) -> dict[str, tuple[str, float, tuple[int, ...]]]:
        """Return for each shown member its nearest document, the level, and the bands."""
        why: list[tuple[str, str, int, int, float]] = []
        for cluster in clusters:
            first = self._signature(cluster.keys[0])
            names: dict[int, str] = {}
            for key in cluster.keys[:LOOKED_UP]:
                names.setdefault(self._signature(key), key)
            for key in cluster.keys[1 : self._compared]:
                own = self._signature(key)
                if names[own] != key:  # a copy of a member before it
                    why.append((key, names[own], own, own, self._params.curve.best))
                    continue
                near = {
                    signature_id: edge_level
                    for signature_id, edge_level in self._edges[own].items()
                    if signature_id in names
                }
                if near:
                    nearest = (
                        first
                        if first in near
                        else max(near, key=lambda signature_id: (near[signature_id], -signature_id))
                    )
                    why.append((key, names[nearest], own, nearest, near[nearest]))
        sides = np.array([reason[2:4] for reason in why], dtype=np.int64).reshape(-1, 2).T
        bands = agreeing_bands(snapshot, self._params, *np.ascontiguousarray(sides))
        return {
            key: (neighbour, level, () if first_id == second_id else agreeing)
            for (key, neighbour, first_id, second_id, level), agreeing in zip(
                why, bands, strict=True
            )
        }

    def _signature(self, key: str) -> int:
        signature_id = self._documents[key].signature_id
        return -1 if signature_id is None else signature_id

    def show(self, number: int, cluster: Cluster) -> ShownCluster:
        """Return the card of a cluster."""
        documents = [self._documents[key] for key in cluster.keys[:LOOKED_UP]]
        ids = {document.signature_id for document in documents if document.signature_id is not None}
        levels = [
            level for left in ids for right, level in self._edges[left].items() if right in ids
        ]
        if len(ids) < len(documents):
            levels.append(self._params.curve.best)
        ends = (
            [self._params.curve.value(end) for end in (min(levels), max(levels))] if levels else []
        )
        dates = [document.added_at for document in documents]
        shown = cluster.keys[: self._compared]
        more = cluster.keys[self._compared : self._compared + _LISTED]
        return ShownCluster(
            number=number,
            label=cluster.label,
            size=len(cluster.keys),
            low=min(ends) if ends else None,
            high=max(ends) if ends else None,
            first=min(dates),
            last=max(dates),
            sources=tuple(
                sorted(
                    {_LINE.sub("", document.source) for document in documents if document.source}
                )
            ),
            members=tuple(self._members(shown)),
            more=more,
            n_more=len(cluster.keys) - len(shown) - len(more),
        )

    def _members(self, keys: tuple[str, ...]) -> Iterator[Member]:
        for key in keys:
            document = self._documents[key]
            neighbour, level, bands = self._why.get(key, (keys[0], None, ()))
            is_first = key == keys[0]
            yield Member(
                key=key,
                source=document.source,
                added_at=document.added_at,
                n_chars=document.n_chars,
                text=self._text(key, None if is_first else neighbour),
                compared_with="" if is_first else neighbour,
                similarity=None if level is None else self._params.curve.value(level),
                is_copy=level is not None and self._signature(neighbour) == self._signature(key),
                bands=bands,
            )

    def _text(self, key: str, neighbour: str | None) -> ShownText | None:
        """Return a text, with its differences from a neighbour's marked if there is one."""
        body = self._bodies.get(self._documents[key].doc_id)
        if body is None or neighbour is None:
            return None if body is None else unchanged_text(body)
        compared = self._bodies.get(self._documents[neighbour].doc_id)
        if compared is None:
            return None
        return show_difference(compared, body, steps=self._params.normalisation)
