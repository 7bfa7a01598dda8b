"""Stored edges -> for every document its most similar ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from lshdb.errors import ParameterError
from lshdb.storage.snapshot import Snapshot

__all__ = ["Neighbor", "find_neighbors"]

_SIGNATURES = 2_000


@dataclass(frozen=True, slots=True)
class Neighbor:
    """One of the documents most similar to another.

    Attributes
    ----------
    key : str
    rank : int
        From 1 on.
    neighbor : str
        Key of the similar document.
    similarity : float
    method : {"signature", "exact"}
    """

    key: str
    rank: int
    neighbor: str
    similarity: float
    method: str


def find_neighbors(
    snapshot: Snapshot, *, threshold: float, best: float, method: str, top: int
) -> Iterator[Neighbor]:
    """The ``top`` most similar documents of each, those that came in first among equals.

    Documents come in order of signature, a range of signatures at a time; memory does not grow with
    the index. A document without a neighbour is not listed. ``best`` is the level of exact copies.
    """
    if top < 1:
        raise ParameterError(f"top is {top}; expected at least 1")
    for start in range(0, snapshot.n_signatures, _SIGNATURES):
        yield from _of_range(snapshot, start, start + _SIGNATURES - 1, threshold, best, method, top)


def _of_range(
    snapshot: Snapshot,
    first: int,
    last: int,
    threshold: float,
    best: float,
    method: str,
    top: int,
) -> Iterator[Neighbor]:
    similar: dict[int, list[tuple[float, int]]] = {}
    for edges in snapshot.edges.edges_between(first, last, threshold):
        columns = (edges.left.tolist(), edges.right.tolist(), edges.similarities.tolist())
        for one, other, similarity in zip(*columns, strict=True):
            similar.setdefault(one, []).append((similarity, other))
    for shared in snapshot.copied_between(first, last):
        similar.setdefault(shared, [])
    wanted = set(similar)
    wanted.update(other for found in similar.values() for _, other in found)
    documents = snapshot.documents_of_signatures(sorted(wanted))
    for one in sorted(similar):
        found = [(best, one), *sorted(similar[one], key=lambda each: -each[0])]
        # One more than is asked for, for among its own copies is the document itself.
        nearest = [
            (doc_id, key, similarity)
            for similarity, group in itertools.groupby(found, key=lambda each: each[0])
            for doc_id, key in sorted(
                (doc_id, key) for _, other in group for doc_id, key, _ in documents.get(other, ())
            )
        ][: top + len(documents.get(one, ()))]
        for own, key, _ in documents.get(one, ()):
            others = (each for each in nearest if each[0] != own)
            for rank, (_, other_key, similarity) in enumerate(itertools.islice(others, top), 1):
                yield Neighbor(key, rank, other_key, similarity, method)
