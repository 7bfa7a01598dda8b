"""Pairs of signatures -> pairs of documents whose kept fields agree.

Copies of a document share a signature, but not their fields. So where fields decide, a signature
is cut into units: the documents that have equal values. Every pair treats them alike. Pairs are
between units, also between units of one signature. If fields must *differ*, each document is a unit
of its own, because equal documents are no pair; m exact copies then make up to m (m - 1) / 2 pairs.

Memory grows with the documents that have a near-duplicate, and with the pairs of units.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.search.agreement import Agreement, Profile
from lshdb.search.components import connect, represent
from lshdb.storage.rows.edges import Edges
from lshdb.storage.transactions.index_state import IndexState

__all__ = ["Units", "agreed_clusters", "units_of", "whole_signatures"]

_DOCUMENTS = 10_000
_FEW = 64
"""Up to so many pairs are looked at one by one."""

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Units:
    """Units: groups of documents that every pair treats alike; and the pairs of units.

    Attributes
    ----------
    doc_ids, of_document, batch_ids : ndarray of int64, shape (n,)
        Documents with a copy or an edge, and those of the signatures in ``also``, sorted by doc_id;
        the unit and the batch of each.
    signature_ids : ndarray of int64, shape (m,)
        The signature of each unit.
    edges : Edges
        The pairs of units.
    profiles : list of Profile
        The fields of each unit; empty where no fields decide.
    """

    doc_ids: Ids
    of_document: Ids
    batch_ids: Ids
    signature_ids: Ids
    edges: Edges
    profiles: list[Profile]


def _involved(snapshot: IndexState, edges: Edges, also: Ids) -> tuple[Ids, Ids, Ids]:
    """Return the documents that have a copy, an edge, or one of the signatures ``also``.

    As doc_ids (sorted), signature ids and batch ids.
    """
    nodes = distinct(np.concatenate([edges.left, edges.right, also]))
    shared = np.fromiter(snapshot.shared_signatures(), dtype=np.int64)
    involved = np.union1d(nodes, shared)
    blocks = [np.empty((3, 0), dtype=np.int64)]
    rows = snapshot.document_signatures()
    while block := list(itertools.islice(rows, _DOCUMENTS)):
        columns = np.array(block, dtype=np.int64).T
        places = np.searchsorted(involved, columns[1])
        places[places == len(involved)] = 0
        if len(involved):
            blocks.append(columns[:, involved[places] == columns[1]])
    doc_ids, signature_ids, batch_ids = np.concatenate(blocks, axis=1)
    return doc_ids, signature_ids, batch_ids


_NOBODY = np.empty(0, dtype=np.int64)


def whole_signatures(snapshot: IndexState, edges: Edges, *, also: Ids = _NOBODY) -> Units:
    """Return units for an index where no fields decide: each has all documents of its signature.

    Parameters
    ----------
    snapshot, edges, also
        As for :func:`units_of`.
    """
    doc_ids, signature_ids, batch_ids = _involved(snapshot, edges, also)
    owner = distinct(np.concatenate([signature_ids, edges.left, edges.right]))
    left, right, of_document = (
        np.searchsorted(owner, ids) for ids in (edges.left, edges.right, signature_ids)
    )
    units = Edges(left, right, edges.similarities)
    return Units(doc_ids, of_document, batch_ids, owner, units, [])


def units_of(
    snapshot: IndexState, edges: Edges, agreement: Agreement, best: float, *, also: Ids = _NOBODY
) -> Units:
    """Cut the signatures of documents with a copy or an edge into units.

    Parameters
    ----------
    snapshot : IndexState
        The state to read.
    edges : Edges
        Pairs of signatures.
    agreement : Agreement
        Which pairs of documents count.
    best : float
        The similarity of copies.
    also : ndarray of int64, optional
        Further signatures to cut.
    """
    doc_ids, signature_ids, batch_ids = _involved(snapshot, edges, also)
    numbers: dict[tuple[int, Profile, int], int] = {}
    of_signature: dict[int, list[int]] = {}
    profiles: list[Profile] = []
    of_document = np.empty(len(doc_ids), dtype=np.int64)
    place = 0
    for start in range(0, len(doc_ids), _DOCUMENTS):
        block = doc_ids[start : start + _DOCUMENTS].tolist()
        profile_of = agreement.profiles(snapshot, block)
        for doc_id in block:
            signature = int(signature_ids[place])
            profile = profile_of[doc_id]
            unit = (signature, profile, doc_id if agreement.differ else 0)
            if unit not in numbers:
                numbers[unit] = len(profiles)
                of_signature.setdefault(signature, []).append(len(profiles))
                profiles.append(profile)
            of_document[place] = numbers[unit]
            place += 1
    owner = np.array([signature for signature, _, _ in numbers], dtype=np.int64)
    pairs = list(_pairs(edges, of_signature, profiles, agreement, best))
    columns = list(zip(*pairs, strict=True)) or [(), (), ()]
    return Units(
        doc_ids,
        of_document,
        batch_ids,
        owner,
        Edges(
            np.array(columns[0], dtype=np.int64),
            np.array(columns[1], dtype=np.int64),
            np.array(columns[2], dtype=np.float64),
        ),
        profiles,
    )


def _pairs(
    edges: Edges,
    of_signature: dict[int, list[int]],
    profiles: list[Profile],
    agreement: Agreement,
    best: float,
) -> Iterator[tuple[int, int, float]]:
    for units in of_signature.values():
        for left, right in _allowed(units, units, profiles, agreement):
            if left < right:
                yield left, right, best
    for left, right, similarity in zip(
        edges.left.tolist(), edges.right.tolist(), edges.similarities.tolist(), strict=True
    ):
        lefts, rights = of_signature.get(left, []), of_signature.get(right, [])
        for pair in _allowed(lefts, rights, profiles, agreement):
            yield min(pair), max(pair), similarity


def _allowed(
    lefts: list[int], rights: list[int], profiles: list[Profile], agreement: Agreement
) -> Iterator[tuple[int, int]]:
    """Yield the pairs that count, of a left and a right unit.

    If there are many, choose the field with the most values, and look only at pairs in which it is
    equal or missing: thousands of editorials have one title, and each a DOI of its own. With 5,000
    of them, that took half a second instead of a minute.
    """
    by_value: dict[str, list[int]] = {}
    place = 0
    if agreement.agree and len(lefts) * len(rights) > _FEW:
        values = [{profiles[unit][n] for unit in rights} for n in range(len(agreement.agree))]
        place = max(range(len(values)), key=lambda n: len(values[n]))
        for right in rights:
            by_value.setdefault(profiles[right][place], []).append(right)
    for left in lefts:
        near = rights
        if by_value and profiles[left][place]:
            near = [*by_value.get(profiles[left][place], ()), *by_value.get("", ())]
        for right in near:
            if agreement.allows(profiles[left], profiles[right]):
                yield left, right


def agreed_clusters(
    units: Units, *, linkage: str, min_size: int, since: int | None
) -> Iterator[tuple[int, list[int]]]:
    """Yield each cluster, the largest first: the doc_id that names it, and the doc_ids in it.

    Parameters
    ----------
    units : Units
        As :func:`units_of` returns them.
    linkage : {"component", "representative"}
        As for :meth:`lshdb.Index.clusters`.
    min_size : int
        Fewest documents of a cluster.
    since : int, optional
        Only clusters with a document of this batch or a later one.
    """
    if not len(units.doc_ids):
        return
    edges = units.edges
    root = np.arange(len(units.signature_ids))
    if linkage == "component":
        nodes, roots = connect(edges.left, edges.right)
    else:  # units are numbered by their oldest document
        nodes, roots, _ = represent(root, edges.left, edges.right)
    root = root.copy()
    root[nodes] = roots
    of_document = root[units.of_document]
    order = np.lexsort((units.doc_ids, of_document))
    starts = np.flatnonzero(np.diff(of_document[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    # The root of a component is its smallest unit, and a representative comes before its members:
    # so the oldest document of the root names the cluster.
    _, firsts = np.unique(units.of_document, return_index=True)
    labels = units.doc_ids[firsts[of_document[order][starts]]]
    for number in np.lexsort((labels, -sizes)).tolist():
        places = order[starts[number] : starts[number] + sizes[number]]
        if sizes[number] < min_size:
            return
        if since is None or (units.batch_ids[places] >= since).any():
            yield int(labels[number]), units.doc_ids[places].tolist()
