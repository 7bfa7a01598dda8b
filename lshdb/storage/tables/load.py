"""Loading the rows of an exported index into a new one, as they were.

Only what is specific to the new index is computed: checksums, runs, bucket sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.storage.tables.bodies import pack_body
from lshdb.storage.tables.edges import Edges, EdgeState
from lshdb.storage.tables.records import with_checksums
from lshdb.storage.transactions.changes import WriteTransaction

__all__ = ["load_batches", "load_clusters", "load_documents", "load_edges", "load_releases"]

Ids = NDArray[np.int64]


def load_batches(transaction: WriteTransaction, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows of ``batch``, all columns except the checksum."""
    from lshdb.storage.tables.schema import batch

    names = batch.columns.keys()
    transaction.session.insert_rows(batch.name, names, with_checksums(rows))


def load_documents(
    transaction: WriteTransaction,
    rows: Sequence[tuple[Any, ...]],
    bodies: Iterable[tuple[int, str, bytes]],
) -> None:
    """Insert rows of ``document``, all but the checksum, and (doc_id, form, raw body)."""
    transaction.insert_documents(rows)
    transaction.put_bodies((doc_id, form, pack_body(raw)) for doc_id, form, raw in bodies)


def load_releases(transaction: WriteTransaction, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows of ``signature_release``."""
    names = ("release_id", "signature_id", "batch_id")
    transaction.session.insert_rows("signature_release", names, rows)


def load_edges(transaction: WriteTransaction, rows: Sequence[tuple[int, int, float, str]]) -> None:
    """Insert edges: signature1, signature2, similarity, method."""
    for method in sorted({row[3] for row in rows}):
        left, right, similarities = zip(*(row[:3] for row in rows if row[3] == method), strict=True)
        edges = Edges(np.array(left), np.array(right), np.array(similarities))
        transaction.edges.put_edges(edges, method)


def load_clusters(
    transaction: WriteTransaction, members: Sequence[tuple[int, int]], state: EdgeState | None
) -> None:
    """Insert (signature_id, label), and how far edges and clusters are up to date."""
    flat = np.array(members, dtype=np.int64).reshape(-1, 2)
    transaction.edges.put_members(flat[:, 0], flat[:, 1])
    if state is not None:
        transaction.edges.put_state(state)
