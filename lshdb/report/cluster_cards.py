"""Cards of clusters for a page: their first words, members, and what ``dedup`` would decide.

Documents, stored pairs, texts and signature rows of some clusters are looked up together. Of a
large cluster, the first ``LOOKED_UP`` members count for its nights and sources. The first
``COMPARED`` in the order of the decision are compared with the member that they are nearest to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lshdb.groups.deduplication import Decisions
from lshdb.groups.listing import Cluster
from lshdb.pages.cards import (
    ClusterCard,
    Member,
    Nights,
    cluster_card,
    in_order_of_decision,
    nearest_members,
)
from lshdb.pages.text_markup import SideBySide, first_words, side_by_side, unchanged_text
from lshdb.report.spread import agreeing_bands
from lshdb.signatures.family import Family
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["ShownCluster", "show_clusters"]

TOGETHER = 64
LOOKED_UP = 1_000
COMPARED = 6
_LISTED = 100
_SHORT = 1_200
"""Characters of a text that is shown without being cut at a line."""
_LEAD = 160
"""Characters of a text's first words."""


@dataclass(frozen=True, slots=True)
class ShownCluster:
    """A cluster of a report.

    Attributes
    ----------
    number : int
        From 1, the largest first.
    card : ClusterCard
        What is shown while it is closed.
    first, last : str
        When the first and the last of its members were added.
    compared, listed : tuple of Member
        Members that are compared, and further ones, in the order of the decision.
    n_more : int
        Further members that are not shown.
    """

    number: int
    card: ClusterCard
    first: str
    last: str
    compared: tuple[Member, ...]
    listed: tuple[Member, ...]
    n_more: int


def show_clusters(
    snapshot: Snapshot,
    family: Family,
    clusters: Iterable[Cluster],
    *,
    level: float,
    decided: Decisions,
    nights: Nights,
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
    decided : Decisions
        What ``dedup`` would drop.
    nights : Nights
        The adds of the index.
    compared : int
        Members that are compared.
    """
    numbered = enumerate(clusters, start=1)
    while batch := list(itertools.islice(numbered, TOGETHER)):
        lookup = _Lookup(
            snapshot, family, [cluster for _, cluster in batch], level, decided, nights, compared
        )
        for number, cluster in batch:
            yield lookup.show(number, cluster)


class _Lookup:
    """Documents and stored pairs of a batch of clusters, read in one look-up; texts of each."""

    def __init__(
        self,
        snapshot: Snapshot,
        family: Family,
        clusters: list[Cluster],
        level: float,
        decided: Decisions,
        nights: Nights,
        compared: int,
    ) -> None:
        self._params, self._level, self._nights = family.params, level, nights
        self._compared, self._snapshot = compared, snapshot
        keys = [key for cluster in clusters for key in cluster.keys[:LOOKED_UP]]
        self._documents = snapshot.documents_of_keys(keys)
        self._edges = self._edges_of(snapshot, level)
        self._kept = self._decisions(snapshot, decided)
        self._nearest: dict[str, tuple[str, float]] = {}
        for cluster in clusters:
            self._nearest |= self._neighbours(cluster)
        self._order = {
            cluster.label: in_order_of_decision(cluster.keys[:LOOKED_UP], self._kept, self._nearest)
            for cluster in clusters
        }
        shown = [key for order in self._order.values() for key in order[:compared]]
        self._bands = self._agreeing(snapshot, shown)

    def _decisions(self, snapshot: Snapshot, decided: Decisions) -> dict[str, str]:
        """Return the key that is kept instead of each document that is dropped."""
        doc_ids = np.array(
            sorted(document.doc_id for document in self._documents.values()), np.int64
        )
        dropped = doc_ids[decided.dropped(doc_ids)]
        instead = decided.kept[np.searchsorted(decided.doc_ids, dropped)]
        keys = snapshot.keys_of(np.unique(np.concatenate([dropped, instead])))
        return {
            keys[drop]: keys[keep]
            for drop, keep in zip(dropped.tolist(), instead.tolist(), strict=True)
        }

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

    def _neighbours(self, cluster: Cluster) -> dict[str, tuple[str, float]]:
        """Return the nearest member of each document, and the level of the pair."""
        members = {key: self._signature(key) for key in cluster.keys[:LOOKED_UP]}
        edges = (
            (left, right, level)
            for left in set(members.values())
            for right, level in self._edges.get(left, {}).items()
        )
        return nearest_members(members, edges, best=self._params.curve.best)

    def _agreeing(self, snapshot: Snapshot, keys: list[str]) -> dict[str, tuple[int, ...]]:
        """Return the bands in which each of these members and its nearest one agree."""
        keys = [key for key in keys if key in self._nearest]
        sides = [(self._signature(key), self._signature(self._nearest[key][0])) for key in keys]
        left, right = np.array(sides, dtype=np.int64).reshape(-1, 2).T
        bands = agreeing_bands(
            snapshot, self._params, np.ascontiguousarray(left), np.ascontiguousarray(right)
        )
        return {
            key: () if own == neighbour else agreeing
            for key, (own, neighbour), agreeing in zip(keys, sides, bands, strict=True)
        }

    def _texts(self, keys: list[str]) -> dict[int, Any]:
        """Return the bodies of some documents and of the ones nearest to them, by doc_id."""
        if not self._params.keeps_texts:
            return {}
        nearest = [self._nearest[key][0] for key in keys if key in self._nearest]
        doc_ids = {self._documents[key].doc_id for key in [*keys, *nearest]}
        return dict(self._snapshot.bodies_of_documents(sorted(doc_ids)))

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
        curve = self._params.curve
        order = self._order[cluster.label]
        bodies = self._texts(order[: self._compared])
        body = bodies.get(documents[0].doc_id)
        listed = order[self._compared : self._compared + _LISTED]
        card = cluster_card(
            label=cluster.label,
            passage=("" if body is None else first_words(body, _LEAD), "", ""),
            size=len(cluster.keys),
            values=[curve.value(level) for level in levels],
            ends=(curve.value(self._level), curve.value(curve.best)),
            batches=[document.batch_id for document in documents],
            nights=self._nights,
            sources=[document.source for document in documents],
            n_dropped=sum(key in self._kept for key in order),
        )
        compared = [
            self._member(key, cluster, bodies, is_compared=True) for key in order[: self._compared]
        ]
        if self._compared == COMPARED and _is_beside(compared):
            compared[0] = replace(compared[0], text=None, is_beside=True)
        return ShownCluster(
            number=number,
            card=card,
            first=min(document.added_at for document in documents),
            last=max(document.added_at for document in documents),
            compared=tuple(compared),
            listed=tuple(self._member(key, cluster, bodies, is_compared=False) for key in listed),
            n_more=len(cluster.keys) - min(len(order), self._compared) - len(listed),
        )

    def _member(
        self, key: str, cluster: Cluster, bodies: dict[int, Any], *, is_compared: bool
    ) -> Member:
        document, is_first = self._documents[key], key == cluster.keys[0]
        neighbour, level = (
            ("", None) if is_first else self._nearest.get(key, (cluster.keys[0], None))
        )
        is_copy = level is not None and self._signature(neighbour) == self._signature(key)
        body = bodies.get(document.doc_id)
        sides: SideBySide | None = None
        if is_compared and neighbour and not is_copy and body is not None:
            near_body = bodies.get(self._documents[neighbour].doc_id)
            if near_body is not None:
                sides = side_by_side(
                    near_body, body, steps=self._params.normalisation,
                    keep_folds=self._compared > COMPARED,
                )  # fmt: skip
        return Member(
            key=key,
            source=document.source,
            added_at=document.added_at,
            night=self._nights.name_of(document.batch_id),
            n_chars=document.n_chars,
            kept_key=self._kept.get(key, ""),
            text=unchanged_text(body) if is_first and body is not None else None,
            sides=sides,
            nearest=neighbour,
            similarity=None if level is None else self._params.curve.value(level),
            is_copy=is_copy,
            bands=self._bands.get(key, ()) if is_compared else None,
        )  # fmt: skip


def _is_beside(members: list[Member]) -> bool:
    """Return whether the short text of the first one is whole in the difference of another one."""
    first = members[0]
    if first.text is None or first.text.n_shown > _SHORT:
        return False
    return any(
        member.nearest == first.key
        and member.sides is not None
        and not any(row.fold for row in member.sides.rows)
        for member in members[1:]
    )
