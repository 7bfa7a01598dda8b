"""Verified pairs -> clusters: connected components."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["connected_components"]


def connected_components(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Group what is linked, directly or through others.

    Parameters
    ----------
    pairs : iterable of (str, str)

    Returns
    -------
    list of list of str
        Each component sorted; the largest first, equal sizes by first member. Independent of the
        order of the pairs. Memory grows with the number of linked members, not of pairs.
    """
    parent: dict[str, str] = {}

    def root(member: str) -> str:
        top = parent.setdefault(member, member)
        while parent[top] != top:
            top = parent[top]
        while parent[member] != top:
            parent[member], member = top, parent[member]
        return top

    for one, other in pairs:
        first, second = sorted((root(one), root(other)))
        parent[second] = first
    components: dict[str, list[str]] = {}
    for member in parent:
        components.setdefault(root(member), []).append(member)
    return sorted(map(sorted, components.values()), key=lambda group: (-len(group), group))
