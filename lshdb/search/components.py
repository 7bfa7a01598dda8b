"""Pairs -> connected components, and components cut by representatives.

Both work on arrays, in memory that grows with the pairs, not with the nodes outside them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError
from lshdb.search.candidates import contains

__all__ = ["by_component", "connect", "represent", "spanning"]

Ids = NDArray[np.int64]
_ROUNDS = 32
"""Of deciding many nodes at once."""


def by_component(left: Ids, right: Ids) -> Ids:
    """Return the order of pairs by their component, then by their left and their right id.

    Parameters
    ----------
    left, right : ndarray of int64, shape (n,)
        Ends of each pair.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    nodes, left_places, right_places = _numbered(left, right)
    m = len(nodes)
    parent, _ = _hooked(m, left_places, right_places)
    ranks = np.empty(m, dtype=np.int64)
    ranks[np.argsort(parent, kind="stable")] = np.arange(m)
    return np.argsort(ranks[left_places] * m + ranks[right_places])


def connect(left: Ids, right: Ids) -> tuple[Ids, Ids]:
    """Find the connected components of pairs.

    Each node points to a smaller one of its component. The pointers are halved until they are
    stars, and stars that a pair joins are hooked together, the larger root below the smaller
    (Shiloach and Vishkin, 1982, in rounds over whole arrays). O((n + m) log m) for n pairs of m
    nodes, nearly always in a handful of rounds.

    Parameters
    ----------
    left, right : ndarray of int64, shape (n,)

    Returns
    -------
    nodes : ndarray of int64, shape (m,)
        Every id that is in a pair, sorted.
    roots : ndarray of int64, shape (m,)
        The smallest id of its component.
    """
    nodes, left_places, right_places = _numbered(left, right)
    parent, _ = _hooked(len(nodes), left_places, right_places)
    return nodes, nodes[parent]


def spanning(left: Ids, right: Ids) -> Ids:
    """Return some of the pairs, which connect all that the pairs connect: a spanning forest.

    Parameters
    ----------
    left, right : ndarray of int64, shape (n,)

    Returns
    -------
    ndarray of int64, shape (m - c,)
        Places of pairs, in order; for m nodes in c components. Costs as much as :func:`connect`.
    """
    nodes, left_places, right_places = _numbered(left, right)
    _, hooks = _hooked(len(nodes), left_places, right_places)
    return np.sort(hooks)


def _numbered(left: Ids, right: Ids) -> tuple[Ids, Ids, Ids]:
    """Return the ids that are in a pair, sorted, and the places of both ends among them.

    Ids that lie close together, as those of many pairs do, are marked in one array instead of
    sorted: a tenth of the time.
    """
    ids = np.concatenate([left, right])
    lowest = int(ids.min(initial=0))
    span = int(ids.max(initial=0)) - lowest + 1
    if span > len(ids):
        nodes, places = np.unique(ids, return_inverse=True)
        return nodes, places[: len(left)], places[len(left) :]
    is_node = np.zeros(span, dtype=bool)
    is_node[ids - lowest] = True
    numbers = np.cumsum(is_node) - 1
    return np.flatnonzero(is_node) + lowest, numbers[left - lowest], numbers[right - lowest]


def _hooked(m: int, left: Ids, right: Ids) -> tuple[Ids, Ids]:
    """Return the root of each of m nodes, and the places of the pairs that hooked stars together.

    Of several pairs that would hook a star, that to the smallest root does; of equals, the first.
    """
    n = len(left)
    parent, hooks = np.arange(m), [np.empty(0, dtype=np.int64)]
    pairs = np.arange(n)
    never = np.iinfo(np.int64).max
    while len(pairs):
        root1, root2 = parent[left[pairs]], parent[right[pairs]]
        differ = root1 != root2
        pairs, root1, root2 = pairs[differ], root1[differ], root2[differ]
        best = np.full(m, never)
        np.minimum.at(best, np.maximum(root1, root2), np.minimum(root1, root2) * n + pairs)
        hooked = np.flatnonzero(best < never)
        parent[hooked] = best[hooked] // n
        hooks.append(best[hooked] % n)
        while True:
            above = parent[parent]
            if np.array_equal(above, parent):
                break
            parent = above
    return parent, np.concatenate(hooks)


def represent(order: Ids, left: Ids, right: Ids) -> tuple[Ids, Ids, Ids]:
    """Choose representatives so that every node is one, or is paired with its own.

    In the given order, a node without a representative becomes one, and all nodes paired with it
    that have none yet are given to it. So no two representatives are a pair, and a chain a - b - c
    of pairs a-b and b-c is cut between b and c.

    Parameters
    ----------
    order : ndarray of int64, shape (m,)
        Every node, the preferred ones first.
    left, right : ndarray of int64, shape (n,)
        Pairs of nodes.

    Returns
    -------
    nodes : ndarray of int64, shape (m,)
        Sorted.
    representatives : ndarray of int64, shape (m,)
        The representative of each node; itself for a representative.
    pairs : ndarray of int64, shape (m,)
        The pair by which it was given to it, as a place in ``left``; -1 for a representative.

    Raises
    ------
    DamageError
        A pair joins a node with itself, or with one that is not in the order.
    """
    m, n = len(order), len(left)
    by_id = np.argsort(order)
    nodes = order[by_id]
    # From here on a node is its place in the order: the smaller, the more preferred.
    if not (contains(nodes, left) & contains(nodes, right) & (left != right)).all():
        # Stored pairs are of two signatures that documents have; others would loop for ever.
        raise DamageError(
            "a stored edge joins a signature with itself, or with one that no document has",
            hint="run lshdb check, and restore the index from a copy",
        )
    rank_left = by_id[np.searchsorted(nodes, left)]
    rank_right = by_id[np.searchsorted(nodes, right)]
    ends, far_ends = (
        np.concatenate([rank_left, rank_right]),
        np.concatenate([rank_right, rank_left]),
    )
    chosen = _independent(m, ends, far_ends)
    representative, pairs = np.arange(m), np.full(m, -1, dtype=np.int64)
    represented = np.flatnonzero(~chosen[ends] & chosen[far_ends])
    represented = represented[np.lexsort((far_ends[represented], ends[represented]))]
    represented = represented[np.flatnonzero(np.diff(ends[represented], prepend=-1))]
    representative[ends[represented]] = far_ends[represented]
    pairs[ends[represented]] = represented % n if n else represented
    return nodes, order[representative[by_id]], pairs[by_id]


def _independent(m: int, ends: Ids, far_ends: Ids) -> NDArray[np.bool_]:
    """Return which of m nodes the greedy choice in order takes, given each pair both ways round.

    In rounds over whole arrays: a node is taken as soon as no neighbour before it is undecided.
    That gives the same result as going through them in turn, and few rounds decide nearly all if
    the order is random (Blelloch, Fineman and Shun, 2012). A chain of versions in order has a round
    for each, so what ``_ROUNDS`` have not decided is decided in turn, a microsecond a node.
    """
    chosen = np.zeros(m, dtype=bool)
    undecided = np.ones(m, dtype=bool)
    for _ in range(_ROUNDS):
        first = np.full(m, m)
        np.minimum.at(first, ends, far_ends)
        fresh = undecided & (np.arange(m) < first)
        chosen |= fresh
        undecided &= ~fresh
        undecided[far_ends[fresh[ends]]] = False
        open_ = undecided[ends] & undecided[far_ends]
        ends, far_ends = ends[open_], far_ends[open_]
        if not len(ends):
            break
    is_behind = ends < far_ends
    ends, far_ends = ends[is_behind], far_ends[is_behind]
    by_end = np.argsort(ends, kind="stable")
    nodes, starts = np.unique(ends[by_end], return_index=True)
    behind, bounds = far_ends[by_end], np.append(starts, len(ends)).tolist()
    for place, node in enumerate(nodes.tolist()):
        if undecided[node]:
            undecided[behind[bounds[place] : bounds[place + 1]]] = False
    return chosen | undecided
