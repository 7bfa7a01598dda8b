"""Clusters and their members as cards, whether a report or a server shows them.

Callers look up documents, stored pairs and texts, each in its own way; what a card says of them is
made here, and drawn by ``templates/cards.html``. Members stand in the order of the decision of
``dedup``: each kept document, and under it those that it stands for, the most similar first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from lshdb.pages.charts import RangeBar, heats, range_bar
from lshdb.pages.text_markup import ShownText, SideBySide

__all__ = [
    "ClusterCard",
    "Member",
    "Nights",
    "cluster_card",
    "in_order_of_decision",
    "nearest_members",
    "without_line",
]

_SOURCES = 4
_NIGHTS = 14
"""Nights of a drawing; the oldest share the first place if there are more."""
_LINE = re.compile(r":\d+\Z")


class NamedBatches(Protocol):
    """An add, or a night with several adds."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def batches(self) -> tuple[int, ...]:
        """The numbers of its batches."""


class Nights:
    """The adds of an index, in few enough places for a drawing."""

    def __init__(self, adds: Sequence[NamedBatches]) -> None:
        self._names = {batch: add.name for add in adds for batch in add.batches}
        n_before = max(0, len(adds) - _NIGHTS)
        self._places = {
            batch: max(0, number - n_before)
            for number, add in enumerate(adds)
            for batch in add.batches
        }
        self.names = [add.name for add in adds[n_before:]]
        if n_before:
            self.names[0] = "before"

    def name_of(self, batch: int) -> str:
        """Return the name of the add of a batch."""
        return self._names.get(batch, f"batch {batch}")

    def counts(self, batches: Iterable[int]) -> list[int]:
        """Return how many of the batches are in each place."""
        counts = [0] * len(self.names)
        for batch in batches:
            if batch in self._places:
                counts[self._places[batch]] += 1
        return counts

    def places(self, batches: Iterable[int]) -> list[int]:
        """Return the place of each batch."""
        return [self._places[batch] for batch in batches]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A document of a cluster.

    Attributes
    ----------
    key, source, night : str
        As the index stores them; ``night`` is the name of its add.
    kept_key : str
        The document that ``dedup`` keeps instead; empty if it keeps this one.
    nearest : str
        The most similar member among the stored pairs, with which it is compared; empty if none is.
    similarity : float or None
        Or distance, to ``nearest``; None where no stored pair is known.
    is_copy : bool
        Whether both have one content.
    text : ShownText or None
        Its text, if it is shown alone.
    sides : SideBySide or None
        The texts of ``nearest`` and of this member, if they are compared here.
    is_beside : bool
        Whether its text is not repeated, because it stands whole beside another member's.
    added_at : str
    n_chars : int
        Length of the whole text.
    bands : tuple of int or None
        The bands in which both agree, from 0; empty for copies; None where nobody looked.
    """

    key: str
    source: str
    night: str
    kept_key: str
    nearest: str
    similarity: float | None
    is_copy: bool
    text: ShownText | None = None
    sides: SideBySide | None = None
    is_beside: bool = False
    added_at: str = ""
    n_chars: int = 0
    bands: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCard:
    """A closed cluster.

    Attributes
    ----------
    label : str
        Key of the oldest member.
    lead, marked, rest : str
        The first words of its text, empty if texts are not stored; or a passage with the words that
        were looked for, which are ``marked``.
    found_key : str
        The document of that passage, if it is another one; else empty.
    size : int
        Number of all members.
    spread : RangeBar or None
        Similarities of its stored pairs, or distances; None if none is known.
    nights : tuple of str
        The names of the first and the last add of its members, once if they are the same.
    heats : list of int
        How many of its members came on each night, from 0 to 5.
    sources : tuple of str
        The files of its members, without line numbers.
    chips : tuple of (str, int)
        Short names of the most frequent sources, and their members.
    n_looked_up, n_dropped : int
        Members that were looked up, and those of them that ``dedup`` would drop.
    """

    label: str
    lead: str
    marked: str = ""
    rest: str = ""
    found_key: str = ""
    size: int
    spread: RangeBar | None
    nights: tuple[str, ...]
    heats: list[int]
    sources: tuple[str, ...]
    chips: tuple[tuple[str, int], ...]
    n_looked_up: int
    n_dropped: int

    @property
    def n_kept(self) -> int:
        """Members that were looked up and that ``dedup`` would keep."""
        return self.n_looked_up - self.n_dropped


def cluster_card(
    *,
    label: str,
    passage: tuple[str, str, str],
    found_key: str = "",
    size: int,
    values: Sequence[float],
    ends: tuple[float, float],
    batches: Sequence[int],
    nights: Nights,
    sources: Iterable[str],
    n_dropped: int,
) -> ClusterCard:
    """Return the card of a cluster.

    Parameters
    ----------
    label, found_key : str
    passage : tuple of (str, str, str)
        The words of :class:`ClusterCard`.
    size : int
        Number of all members.
    values : sequence of float
        Similarities of its pairs, or distances.
    ends : tuple of (float, float)
        The threshold, and the best value.
    batches : sequence of int
        Of each member that was looked up.
    nights : Nights
    sources : iterable of str
        Of each of them, with line numbers.
    n_dropped : int
        How many of them ``dedup`` drops.
    """
    counts = Counter(without_line(source) for source in sources if source)
    lead, marked, rest = passage
    return ClusterCard(
        label=label, lead=lead, marked=marked, rest=rest, found_key=found_key, size=size,
        spread=range_bar(values, threshold=ends[0], best=ends[1]) if values else None,
        nights=tuple(
            dict.fromkeys(nights.name_of(batch) for batch in (min(batches), max(batches)))
        ),
        heats=heats(nights.counts(batches)),
        sources=tuple(sorted(counts)),
        chips=tuple(
            (PurePath(name).name.partition(".")[0] or name, count)
            for name, count in counts.most_common(_SOURCES)
        ),
        n_looked_up=len(batches), n_dropped=n_dropped,
    )  # fmt: skip


def nearest_members(
    members: Mapping[str, int], edges: Iterable[tuple[int, int, float]], *, best: float
) -> dict[str, tuple[str, float]]:
    """Return the nearest member of each document, and the level of the pair.

    A copy's nearest is the first member with its content.

    Parameters
    ----------
    members : mapping of str to int
        Keys, the oldest first, and the contents that they have.
    edges : iterable of (int, int, float)
        Stored pairs of contents, and their levels.
    best : float
        The level of copies.
    """
    first: dict[int, str] = {}
    nearest: dict[str, tuple[str, float]] = {}
    for key, content in members.items():
        if content in first:
            nearest[key] = first[content], best
        first.setdefault(content, key)
    near: dict[int, tuple[float, int]] = {}
    for left, right, level in edges:
        if left in first and right in first:
            near[left] = max(near.get(left, (level, -right)), (level, -right))
            near[right] = max(near.get(right, (level, -left)), (level, -left))
    nearest.update(
        (first[content], (first[-negative], level)) for content, (level, negative) in near.items()
    )
    return nearest


def in_order_of_decision(
    keys: Iterable[str], kept: Mapping[str, str], nearest: Mapping[str, tuple[str, float]]
) -> list[str]:
    """Return members as ``dedup`` decides: each kept one, and under it those it stands for.

    Parameters
    ----------
    keys : iterable of str
        The oldest first.
    kept : mapping of str to str
        The document that is kept instead of each that is dropped.
    nearest : mapping
        See :func:`nearest_members`.
    """
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(kept.get(key, key), []).append(key)
    order: list[str] = []
    for first, group in groups.items():
        dropped = [key for key in group if key != first]
        dropped.sort(key=lambda key: -nearest[key][1] if key in nearest else 0.0)
        order += [first] * (first in group) + dropped
    return order


def without_line(source: str) -> str:
    """Return a source without the number of a line or record at its end."""
    return _LINE.sub("", source)
