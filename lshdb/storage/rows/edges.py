"""Edges, which are stored verified pairs of signatures, and the clusters that they form.

An edge says how similar two *contents* are. A signature belongs to one content for ever, so an edge
never goes stale: a replaced document gets another signature, and the edges of the old one stay
true. Only whether any document has the signature can change.

    edge            (signature1, signature2, similarity, method), the smaller id first
    cluster_member  (signature_id, label): the smallest doc_id of the cluster is its label
    edge_state      the one row that says how far both are up to date, and by which threshold
    signature_release   one row each time a document left a signature (see ``writer.py``)

All copies of one document share a signature, so they need no edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.arrays import distinct, np
from lshdb.storage.dialects.base import Session
from lshdb.storage.tables.records import with_checksum, with_checksums
from lshdb.storage.tables.stored_columns import verified_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EdgeState", "EdgeTables", "Edges", "Holders"]

_ROWS = 100_000
_LIST = 50_000
_NO_CAP = 2**63 - 1
"""Written for buckets of any size: no bucket is larger, so older versions understand it."""

Ids: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class EdgeState:
    """How far the stored edges are up to date, and how they were found.

    Attributes
    ----------
    threshold : float
        Lowest similarity of an edge; if the metric is a distance, minus the largest one.
    method : str
        How the similarities were found.
    max_bucket : int or None
        Larger buckets were joined through leaders, not compared; None if all were compared.
    n_signatures, batch_id, release_id : int
        Covered is everything before this signature, and up to this batch and release.
    hot_buckets, hot_pairs : int
        Buckets over ``max_bucket``, and pairs in them that were not compared there.
    recall_lost : float
        Share of the near-duplicate pairs of documents that this loses; an estimate, see
        ``search/loss.py``.
    updated_at : str
    """

    threshold: float
    method: str
    max_bucket: int | None
    n_signatures: int
    batch_id: int
    release_id: int
    hot_buckets: int
    hot_pairs: int
    recall_lost: float
    updated_at: str


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges, as columns.

    Attributes
    ----------
    left, right : ndarray of int64, shape (n,)
        Signature ids, left below right.
    similarities : ndarray of float64, shape (n,)
    """

    left: Ids
    right: Ids
    similarities: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.left)


@dataclass(frozen=True, slots=True)
class Holders:
    """Which documents have a signature, as columns.

    Attributes
    ----------
    signature_ids : ndarray of int64, shape (n,)
        Sorted; signatures that no document has are absent.
    first : ndarray of int64, shape (n,)
        Smallest doc_id.
    count : ndarray of int64, shape (n,)
        Number of documents.
    """

    signature_ids: Ids
    first: Ids
    count: Ids


class EdgeTables:
    """The tables of edges and clusters, inside one open transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._execute = session.execute

    # Reading

    def state(self) -> EdgeState | None:
        """Return how far the edges are up to date; None before the first time.

        Raises
        ------
        DamageError
            The row is not what was written.
        """
        row = self._execute("SELECT * FROM edge_state").fetchone()
        if row is None:
            return None
        state = EdgeState(*verified_row("edge_state", row)[1:])
        return replace(state, max_bucket=None) if state.max_bucket == _NO_CAP else state

    def last_release(self) -> int:
        """Return the number of the newest release."""
        (last,) = self._execute("SELECT max(release_id) FROM signature_release").fetchone()
        return last or 0

    def releases(self) -> Iterator[tuple[int, int, int]]:
        """Yield (release_id, signature_id, batch_id) of all releases, in order."""
        return self._session.stream(
            "SELECT release_id, signature_id, batch_id FROM signature_release ORDER BY release_id"
        )

    def released_since(self, release_id: int) -> Ids:
        """Return the signatures that a document left after that release, sorted."""
        rows = self._execute(
            "SELECT DISTINCT signature_id FROM signature_release WHERE release_id > ? ORDER BY 1",
            (release_id,),
        )
        return _column(rows)

    def dead(self) -> Ids:
        """Return the signatures that no document has any more, sorted; cost grows with releases."""
        rows = self._execute(
            "SELECT DISTINCT signature_id FROM signature_release AS released WHERE NOT EXISTS "
            "(SELECT 1 FROM document WHERE document.signature_id = released.signature_id) "
            "ORDER BY 1"
        )
        return _column(rows)

    def holders(self, signature_ids: Ids | None = None) -> Iterator[Holders]:
        """Yield the documents of some signatures, or of all, a block at a time."""
        columns = "SELECT signature_id, min(doc_id), count(*) FROM document "
        if signature_ids is None:
            rows = self._session.stream(
                f"{columns} WHERE signature_id IS NOT NULL GROUP BY signature_id ORDER BY 1"
            )
            yield from (Holders(*block) for block in _blocks(rows, 3))
            return
        for chunk in _lists(signature_ids):
            rows = self._execute(
                f"{columns} WHERE {self._session.in_list('signature_id')} "
                "GROUP BY signature_id ORDER BY 1",
                (self._session.encode_list(chunk),),
            )
            yield from (Holders(*block) for block in _blocks(rows, 3))

    def edges(self, threshold: float) -> Iterator[Edges]:
        """Yield all edges of at least that similarity, a block at a time, in order of both ids."""
        rows = self._session.stream(
            "SELECT signature1, signature2, similarity FROM edge WHERE similarity >= ?",
            (threshold,),
        )
        yield from map(_edges, _chunks(rows))

    def edges_between(self, first: int, last: int, threshold: float) -> Iterator[Edges]:
        """Yield edges of signatures from first to last, turned so that ``left`` is one of them.

        An edge with both ends in that range comes both ways round.
        """
        rows = self._session.stream(
            "SELECT signature1, signature2, similarity FROM edge "
            "WHERE signature1 BETWEEN ? AND ? AND similarity >= ? UNION ALL "
            "SELECT signature2, signature1, similarity FROM edge "
            "WHERE signature2 BETWEEN ? AND ? AND similarity >= ?",
            (first, last, threshold, first, last, threshold),
        )
        yield from map(_edges, _chunks(rows))

    def edges_of(self, signature_ids: Ids) -> Iterator[Edges]:
        """Yield edges whose smaller signature is one of these."""
        for chunk in _lists(signature_ids):
            rows = self._execute(
                "SELECT signature1, signature2, similarity FROM edge "
                f"WHERE {self._session.in_list('signature1')}",
                (self._session.encode_list(chunk),),
            )
            yield from map(_edges, _chunks(rows))

    def contain(self, left: Ids, right: Ids, threshold: float) -> NDArray[np.bool_]:
        """Return which pairs are edges of at least that similarity."""
        pairs = left << 32 | right
        are_edges = np.zeros(len(pairs), dtype=bool)
        for edges in self.edges_of(distinct(left)):
            suffices = edges.similarities >= threshold
            are_edges |= np.isin(pairs, (edges.left << 32 | edges.right)[suffices])
        return are_edges

    def labels_of(self, signature_ids: Ids) -> Ids:
        """Return the labels of the clusters that hold some signatures, each once."""
        labels = [np.empty(0, dtype=np.int64)]
        for chunk in _lists(signature_ids):
            rows = self._execute(
                "SELECT DISTINCT label FROM cluster_member "
                f"WHERE {self._session.in_list('signature_id')}",
                (self._session.encode_list(chunk),),
            )
            labels.append(_column(rows))
        return distinct(np.concatenate(labels))

    def labels_by_signature(self, signature_ids: Ids) -> tuple[Ids, Ids]:
        """Return (signature ids, labels) of the signatures that are in a cluster, sorted."""
        columns = [np.empty((2, 0), dtype=np.int64)]
        for chunk in _lists(signature_ids):
            rows = self._execute(
                "SELECT signature_id, label FROM cluster_member "
                f"WHERE {self._session.in_list('signature_id')} ORDER BY 1",
                (self._session.encode_list(chunk),),
            )
            columns += [np.stack(block) for block in _blocks(rows, 2)]
        ids, labels = np.concatenate(columns, axis=1)
        return ids, labels

    def astray(self, labels: Ids) -> dict[int, int]:
        """Return clusters whose label's document has left: label to the first one still in it.

        Empty if clusters are up to date. Costs the size of the clusters found.
        """
        successors: dict[int, int] = {}
        for chunk in _lists(labels):
            rows = self._execute(
                "SELECT doc_id FROM document JOIN cluster_member USING (signature_id) "
                f"WHERE label = doc_id AND {self._session.in_list('doc_id')}",
                (self._session.encode_list(chunk),),
            )
            left = np.setdiff1d(chunk, _column(rows))
            if len(left):
                rows = self._execute(
                    "SELECT label, min(doc_id) FROM cluster_member JOIN document "
                    f"USING (signature_id) WHERE {self._session.in_list('label')} GROUP BY label",
                    (self._session.encode_list(left),),
                )
                successors.update(rows)
        return successors

    def members_of(self, labels: Ids) -> Ids:
        """Return the signatures of clusters."""
        members = [np.empty(0, dtype=np.int64)]
        for chunk in _lists(labels):
            rows = self._execute(
                f"SELECT signature_id FROM cluster_member WHERE {self._session.in_list('label')}",
                (self._session.encode_list(chunk),),
            )
            members.append(_column(rows))
        return np.concatenate(members)

    def members(self) -> Iterator[tuple[Ids, Ids]]:
        """Yield (signature ids, labels) of all clusters, in blocks, in order of signature."""
        for signature_ids, labels in _blocks(self.member_rows(), 2):  # noqa: UP028
            yield signature_ids, labels

    def count(self) -> tuple[int, int, int]:
        """Count edges, clusters, and the documents in these."""
        (edges,) = self._execute("SELECT count(*) FROM edge").fetchone()
        clusters, documents = self._execute(
            "SELECT count(DISTINCT label), count(*) FROM cluster"
        ).fetchone()
        return edges, clusters, documents

    def edge_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield (signature1, signature2, similarity, method) of all edges, verified, in order."""
        rows = self._session.stream(
            "SELECT signature1, signature2, similarity, method, checksum FROM edge ORDER BY 1, 2"
        )
        return (verified_row("edge", row) for row in rows)

    def member_rows(self) -> Iterator[tuple[int, int]]:
        """Yield (signature_id, label) of all clusters, in order of signature."""
        return self._session.stream("SELECT signature_id, label FROM cluster_member ORDER BY 1")

    def documents_in_clusters(self) -> Iterator[tuple[int, int, int]]:
        """Yield (signature_id, batch_id, number of documents) of clustered documents, in order."""
        return self._session.stream(
            "SELECT document.signature_id, batch_id, count(*) FROM document JOIN cluster_member "
            "ON cluster_member.signature_id = document.signature_id "
            "GROUP BY document.signature_id, batch_id ORDER BY 1, 2"
        )

    # Writing

    def put_edges(self, edges: Edges, method: str) -> None:
        """Insert edges; keep one that already exists."""
        columns = zip(
            edges.left.tolist(),
            edges.right.tolist(),
            edges.similarities.tolist(),
            itertools.repeat(method),
            strict=False,
        )
        names = ("signature1", "signature2", "similarity", "method", "checksum")
        rows = with_checksums(columns)
        self._session.insert_rows("edge", names, rows, or_ignore=True)

    def drop_edges_of(self, signature_ids: Ids) -> None:
        """Delete the edges of some signatures."""
        for chunk in _lists(signature_ids):
            for column in ("signature1", "signature2"):
                self._execute(
                    f"DELETE FROM edge WHERE {self._session.in_list(column)}",
                    (self._session.encode_list(chunk),),
                )

    def put_members(self, signature_ids: Ids, labels: Ids) -> None:
        """Insert members of clusters."""
        columns = zip(signature_ids.tolist(), labels.tolist(), strict=True)
        self._session.insert_rows("cluster_member", ("signature_id", "label"), columns)

    def drop_members(self, labels: Ids) -> None:
        """Delete clusters by label."""
        for chunk in _lists(labels):
            self._execute(
                f"DELETE FROM cluster_member WHERE {self._session.in_list('label')}",
                (self._session.encode_list(chunk),),
            )

    def clear(self) -> None:
        """Forget all edges and clusters."""
        for table in ("edge", "cluster_member", "edge_state"):
            self._session.delete_all(table)

    def put_state(self, state: EdgeState) -> None:
        """Record how far the edges are up to date."""
        self._session.delete_all("edge_state")
        if state.max_bucket is None:
            state = replace(state, max_bucket=_NO_CAP)
        row = with_checksum((1, *astuple(state)))
        names = ["edge_state_id", *(field.name for field in fields(EdgeState)), "checksum"]
        self._session.insert_rows("edge_state", names, [row])


def _column(rows: Iterable[tuple[int]]) -> Ids:
    return np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64)


def _chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while chunk := list(itertools.islice(iterator, _ROWS)):
        yield chunk


def _blocks(rows: Iterable[Any], width: int) -> Iterator[list[Ids]]:
    for chunk in _chunks(rows):
        flat = np.fromiter(itertools.chain.from_iterable(chunk), dtype=np.int64)
        yield [np.ascontiguousarray(flat[place::width]) for place in range(width)]


def _edges(chunk: list[tuple[int, int, float]]) -> Edges:
    left, right, similarities = zip(*chunk, strict=True)
    return Edges(
        np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), np.array(similarities)
    )


def _lists(values: Ids) -> Iterator[Ids]:
    return (values[start : start + _LIST] for start in range(0, len(values), _LIST))
