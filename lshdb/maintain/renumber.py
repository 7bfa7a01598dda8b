"""Signatures under new numbers: those that no document has are dropped, the others move up.

Numbers keep their order. So rows can be rewritten in place, some at a time, in the order of their
keys: what is written never comes after what is read next. Every row is compared with its checksum
before it gets a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.storage.rows.inspection import Inspection
from lshdb.storage.tables.records import with_checksums
from lshdb.storage.tables.stored_columns import require_checksums
from lshdb.storage.transactions.changes import WriteTransaction, load_releases

__all__ = ["Renumbering", "document_rows", "renumber"]

_ROWS = 20_000

Ids = NDArray[np.int64]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Which signatures are dropped.

    Attributes
    ----------
    dropped : ndarray of int64, shape (n,)
        Their ids, sorted.
    """

    dropped: Ids

    def keeps(self, ids: Ids) -> NDArray[np.bool_]:
        """Return which of some signatures stay."""
        if not len(self.dropped):
            return np.ones(len(ids), dtype=bool)
        places = np.searchsorted(self.dropped, ids)
        stays: NDArray[np.bool_] = self.dropped[np.minimum(places, len(self.dropped) - 1)] != ids
        return stays

    def new(self, ids: Ids) -> Ids:
        """Return the new numbers of signatures; for any number, how many below it stay."""
        return ids - np.searchsorted(self.dropped, ids)


def document_rows(transaction: WriteTransaction, *, since: int = 0) -> Iterator[list[Row]]:
    """Yield whole rows of the documents with a signature from ``since`` on, in blocks.

    In order of doc_id; rows may be written between two blocks.

    Raises
    ------
    DamageError
        A row is not as it was written.
    """
    last = 0
    while True:
        rows = Inspection(transaction.session).signed_documents_after(last, since, _ROWS)
        if not rows:
            return
        require_checksums("document", rows)
        yield rows
        last = rows[-1][0]


def renumber(transaction: WriteTransaction, numbers: Renumbering) -> None:
    """Rewrite every row that names a signature, except the postings.

    Raises
    ------
    DamageError
        A row is not as it was written.
    """
    if not len(numbers.dropped):
        return
    for rows in document_rows(transaction, since=int(numbers.dropped[0])):
        moved = numbers.new(_ids(row[2] for row in rows)).tolist()
        values = ((*row[:2], new, *row[3:-1]) for row, new in zip(rows, moved, strict=True))
        transaction.move_documents([(row[2], row[-1], row[0]) for row in with_checksums(values)])
    releases = _renumber_edges(transaction, numbers)
    transaction.session.delete_all("signature_release")
    load_releases(transaction, ((number, *row) for number, row in enumerate(releases, 1)))


def _renumber_edges(
    transaction: WriteTransaction, numbers: Renumbering
) -> Iterable[tuple[int, int]]:
    """Renumber edges, clusters and their state, and the releases that they have not seen yet."""
    tables = transaction.edges
    state = tables.state()
    if state is None:
        return ()
    releases, orphaned = _pending(transaction, numbers, state.release_id)
    if orphaned and state.hot_buckets:
        # Documents joined through a leader that goes must be joined again; only its number tells.
        tables.clear()
        return ()
    _rewrite(transaction, numbers, "edge", ("signature1", "signature2"), is_checked=True)
    _rewrite(transaction, numbers, "cluster_member", ("signature_id",), is_checked=False)
    covered = int(numbers.new(np.array([state.n_signatures]))[0])
    tables.put_state(replace(state, n_signatures=covered, release_id=0))
    return (*releases, *orphaned)


def _pending(
    transaction: WriteTransaction, numbers: Renumbering, release_id: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return unseen releases: of signatures that stay, and of those that go.

    Another member of its cluster stands for a signature that goes, so the cluster is still cut
    again.
    """
    tables = transaction.edges
    rows = [row[1:] for row in tables.releases() if row[0] > release_id]
    released = _ids(row[0] for row in rows)
    stays = numbers.keeps(released)
    moved = numbers.new(released).tolist()
    releases = [
        (new, batch_id)
        for new, (_, batch_id), is_kept in zip(moved, rows, stays.tolist(), strict=True)
        if is_kept
    ]
    labels = tables.labels_of(np.unique(released[~stays]))
    members, their_labels = tables.labels_by_signature(tables.members_of(labels))
    left = numbers.keeps(members)
    _, firsts = np.unique(their_labels[left], return_index=True)
    representatives = numbers.new(members[left][firsts]).tolist()
    return releases, [(signature_id, rows[-1][1]) for signature_id in representatives]


def _rewrite(
    transaction: WriteTransaction,
    numbers: Renumbering,
    table: str,
    keys: tuple[str, ...],
    *,
    is_checked: bool,
) -> None:
    """Renumber the first columns of a table, its primary key; drop the rows of what goes."""
    from lshdb.storage.tables.schema import metadata

    width = len(keys)
    columns = metadata.tables[table].columns.keys()
    last: Row = (-1,) * width
    while True:
        rows = Inspection(transaction.session).rows_after(table, keys, last, _ROWS)
        if not rows:
            return
        if is_checked:
            require_checksums(table, rows)
            rows = [row[:-1] for row in rows]
        before, last = last, tuple(rows[-1][:width])
        transaction.session.delete_between(table, keys, before, last)
        ids = np.array([row[:width] for row in rows], dtype=np.int64)
        stays = np.flatnonzero(numbers.keeps(ids).all(axis=1))
        moved = zip(stays.tolist(), numbers.new(ids[stays]).tolist(), strict=True)
        renumbered: Iterable[Row] = ((*new, *rows[place][width:]) for place, new in moved)
        if is_checked:
            renumbered = with_checksums(renumbered)
        transaction.session.insert_rows(table, columns, renumbered)


def _ids(values: Iterable[int]) -> Ids:
    return np.fromiter(values, dtype=np.int64)
