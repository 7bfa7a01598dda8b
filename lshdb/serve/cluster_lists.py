"""Stored clusters -> pages of them, in an order and with filters.

The order of all clusters is made once for each state of the index, when a page is first asked for
after a commit: one pass over the stored clusters and one over their pairs, a second or so at a
million documents, and some fifty bytes a cluster. A page is a slice of it, so it costs the same
wherever it lies. Words are looked for in the texts, cluster by cluster; a page stops after
``LOOKED_THROUGH`` documents, and says where to go on.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlencode

from lshdb.arrays import np
from lshdb.errors import DamageError, ParameterError, TextNotStoredError
from lshdb.pages import RangeBar, heats, range_bar
from lshdb.pages.text_markup import first_words, readable
from lshdb.search.components import represent
from lshdb.serve.request_bodies import real_number, whole_number
from lshdb.storage.tables.view_statements import (
    CLUSTER_EDGES,
    CLUSTER_LEVELS,
    CLUSTER_MEMBERS,
    CLUSTER_NUMBER,
    CLUSTERS_RANKED,
    STATE_READ,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.index import Index

__all__ = [
    "LOOKED_UP",
    "SORTS",
    "ClusterLists",
    "OfState",
    "RankedClusters",
    "ServedMember",
    "rank_clusters",
]

CLUSTERS = 20
"""Clusters of a page."""
LOOKED_THROUGH = 2_000
"""Documents that are read for one page to look for words."""
LOOKED_UP = 1_000
"""Members of a cluster that count for its nights, sources and decisions."""
_EDGES = 20_000
_MOST_OFFSET = 10**12
_LEAD = 180
"""Characters of a text's first words, and of a passage."""
_SOURCES = 4
_NIGHTS = 14
_FOLDED = ("size", "similarity", "since")
_FILTERS = ("sort", "q", *_FOLDED)
_LINE = re.compile(r":\d+\Z")

SORTS = {
    "size": "largest first",
    "similarity": "most similar first",
    "-similarity": "least similar first",
    "date": "newest first",
}
"""Orders of clusters."""

_Value = TypeVar("_Value")


class OfState(Generic[_Value]):
    """A value made of one state of an index, kept until the state is another one.

    Parameters
    ----------
    index : Index
    make : callable
        Makes the value. While one thread does, the others wait.
    """

    def __init__(self, index: Index, make: Callable[[Index], _Value]) -> None:
        self._index, self._make = index, make
        self._lock = threading.Lock()
        self._kept: tuple[tuple[Any, ...], _Value] | None = None

    def __call__(self) -> _Value:
        """Return the value of the state that is read now."""
        with self._lock:
            (state,) = self._index.sql(STATE_READ)
            if self._kept is None or self._kept[0] != tuple(state):
                self._kept = None
                self._kept = tuple(state), self._make(self._index)
            return self._kept[1]


@dataclass(frozen=True)
class RankedClusters:
    """All stored clusters, the largest first; of equals, the older first.

    Attributes
    ----------
    labels, sizes, batches : ndarray of int64, shape (n,)
        Number of each cluster as the tables have it, its documents, and the last batch of these.
    low, high : ndarray of float64, shape (n,)
        Similarities of its pairs, or minus their distances.
    """

    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    batches: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def n_documents(self) -> int:
        """Documents in all clusters."""
        return int(self.sizes.sum())

    @cached_property
    def _orders(self) -> dict[str, NDArray[np.int64]]:
        by_size = np.arange(len(self.sizes))
        return {
            "size": by_size,
            "similarity": np.lexsort((by_size, -self.high, -self.low)),
            "-similarity": np.lexsort((by_size, self.high, self.low)),
            "date": np.lexsort((by_size, -self.batches)),
        }

    def chosen(
        self, sort: str, *, min_size: int = 2, lowest: float | None = None, since: int | None = None
    ) -> NDArray[np.int64]:
        """Return the places of clusters in an order.

        Parameters
        ----------
        sort : str
            One of ``SORTS``.
        min_size : int
            Fewest documents.
        lowest : float, optional
            Only clusters all of whose pairs have this level or a higher one.
        since : int, optional
            Only clusters with a document of this batch or a later one.
        """
        order = self._orders[sort]
        is_chosen = self.sizes >= min_size
        if lowest is not None:
            is_chosen &= self.low >= lowest
        if since is not None:
            is_chosen &= self.batches >= since
        return order if is_chosen.all() else order[is_chosen[order]]


def rank_clusters(index: Index) -> RankedClusters:
    """Read all stored clusters of an index.

    Raises
    ------
    DamageError
        A value is no number.
    """
    try:
        return _rank_clusters(index)
    except (ValueError, TypeError, OverflowError) as error:
        raise DamageError(
            f"the stored clusters hold a value that is no number: {error}"[:200],
            hint="run lshdb check on the index",
        ) from error


def _rank_clusters(index: Index) -> RankedClusters:
    rows = np.array(list(index.sql(CLUSTERS_RANKED)), dtype=np.int64).reshape(-1, 3)
    labels, sizes, batches = np.ascontiguousarray(rows.T)
    levels: list[Any] = list(index.sql(CLUSTER_LEVELS))
    low = np.full(len(labels), index.params.curve.best)
    high = low.copy()  # copies alone have no pair of contents
    if levels and len(labels):
        numbers = np.array([row[0] for row in levels], dtype=np.int64)
        by_label = np.argsort(labels)
        places = by_label[np.searchsorted(labels, numbers, sorter=by_label) % len(labels)]
        is_listed = labels[places] == numbers
        low[places[is_listed]] = np.array([row[1] for row in levels])[is_listed]
        high[places[is_listed]] = np.array([row[2] for row in levels])[is_listed]
    return RankedClusters(labels, sizes, batches, low, high)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A closed cluster.

    Attributes
    ----------
    label : str
        Key of its oldest document.
    lead, marked, rest : str
        The first words of its text; or a passage with the words that were looked for, which are
        ``marked``.
    found_key : str
        The document of that passage, if it is another one; else empty.
    size : int
    spread : RangeBar
        Similarities of its pairs, or distances.
    nights : tuple of str
        The first and the last add of its documents; once if they are the same.
    heats : list of int
        How many came in on each night, from 0 to 5.
    chips : list of (str, int)
        Short names of its sources, and their documents.
    n_looked_up, n_dropped : int
        Its first documents, and how many of these ``dedup`` drops.
    """

    label: str
    lead: str
    marked: str
    rest: str
    found_key: str
    size: int
    spread: RangeBar
    nights: tuple[str, ...]
    heats: list[int]
    chips: list[tuple[str, int]]
    n_looked_up: int
    n_dropped: int


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """A page of clusters.

    Attributes
    ----------
    ranked : RankedClusters
        All of them.
    rows : list of ClusterRow
    total : int
        Clusters that pass the filters, before words are looked for.
    offset, end : int
        Where the page begins, and where the next one does.
    filters : dict of str
        The filters that are in the address.
    sort, words : str
    """

    ranked: RankedClusters
    rows: list[ClusterRow]
    total: int
    offset: int
    end: int
    filters: dict[str, str]
    sort: str
    words: str

    def address(self, offset: int) -> str:
        """Return the address of another page of the same list."""
        return "/clusters?" + urlencode(self.filters | ({"offset": str(offset)} if offset else {}))

    @property
    def n_filters(self) -> int:
        """How many of the folded fields are filled in."""
        return sum(name in self.filters for name in _FOLDED)

    @property
    def before(self) -> int | None:
        """Where the page before begins; None if this is the first."""
        return max(0, self.offset - CLUSTERS) if self.offset else None


@dataclass(frozen=True, slots=True)
class ServedMember:
    """A document of an open cluster.

    Attributes
    ----------
    key : str
    nearest : str
        The most similar of the other documents; empty where no pair of them is stored.
    similarity : float or None
        Or distance, to ``nearest``.
    is_copy : bool
        Whether both have one content.
    is_kept : bool
        Whether ``dedup`` keeps it.
    """

    key: str
    nearest: str
    similarity: float | None
    is_copy: bool
    is_kept: bool


class ClusterLists:
    """Pages of clusters of an index."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.ranked = OfState(index, rank_clusters)
        self._nights = OfState(index, _nights_of)

    def page(self, values: Mapping[str, str]) -> ClusterPage:
        """Return the page that the query of an address asks for.

        Raises
        ------
        InvalidRequestError, ParameterError
        """
        ranked, curve = self.ranked(), self._index.params.curve
        offset = whole_number(values, "offset", 0, 0, _MOST_OFFSET)
        sort, since = values.get("sort") or "size", values.get("since", "").strip()
        if sort not in SORTS:
            raise ParameterError(f"sort is {sort[:40]}; expected one of {', '.join(SORTS)}")
        has_lowest = bool(values.get("similarity", "").strip())
        order = ranked.chosen(
            sort,
            min_size=whole_number(values, "size", 2, 2, _MOST_OFFSET),
            lowest=curve.level(real_number(values, "similarity", 0.0)) if has_lowest else None,
            since=self._first_batch(since) if since else None,
        )
        words = " ".join(values.get("q", "").split())
        if words:
            hits, end = self._with_words(ranked, order, offset, words)
        else:
            end = max(offset, min(offset + CLUSTERS, len(order)))
            hits = [(place, "") for place in order[offset:end].tolist()]
        filters = {name: values[name] for name in _FILTERS if values.get(name)}
        rows = [self._row(ranked, place, key, words) for place, key in hits]
        return ClusterPage(ranked, rows, len(order), offset, end, filters, sort, words)

    def members(self, key: str) -> list[ServedMember]:
        """Return the first members of the cluster of a document; none if it is in none."""
        label = list(self._index.sql(CLUSTER_NUMBER, {"key": key}))
        if not label:
            return []
        values = {"label": label[0][0]}
        rows = list(self._index.sql(CLUSTER_MEMBERS, {**values, "most": LOOKED_UP}))
        edges = list(self._index.sql(CLUSTER_EDGES, {**values, "most": _EDGES}))
        if len(rows) < 2:
            return []
        curve = self._index.params.curve
        first: dict[int, str] = {}
        for member, signature, _, _ in rows:
            first.setdefault(signature, member)
        near: dict[int, tuple[float, int]] = {}
        for left, right, level in edges:
            if left in first and right in first:
                near[left] = max(near.get(left, (level, -right)), (level, -right))
                near[right] = max(near.get(right, (level, -left)), (level, -left))
        kept = _kept(tuple(row[1] for row in rows), edges)
        members = []
        for member, signature, _, _ in rows:
            is_copy = first[signature] != member
            nearest, level = first[signature] if is_copy else "", curve.best
            if not is_copy and signature in near:
                level, negative = near[signature]
                nearest = first[-negative]
            members.append(
                ServedMember(
                    member, nearest, curve.value(level) if nearest else None, is_copy,
                    not is_copy and signature in kept,
                )
            )  # fmt: skip
        return members

    def _first_batch(self, date: str) -> int:
        """Return the first batch that began on a date or later; none has the number otherwise."""
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", date, re.ASCII):
            raise ParameterError(f"since is {date[:40]}; expected a date such as 2026-11-01")
        return min(
            (batch.batch_id for batch in self._index.batches() if batch.started_at >= date),
            default=2**62,
        )

    def _with_words(
        self, ranked: RankedClusters, order: NDArray[np.int64], offset: int, words: str
    ) -> tuple[list[tuple[int, str]], int]:
        """Return clusters with some words, a document of each that has them, and the next place."""
        if words in self._index:
            label = [number for (number,) in self._index.sql(CLUSTER_NUMBER, {"key": words})]
            places = order[np.isin(ranked.labels[order], label)].tolist() if offset == 0 else []
            return [(place, words) for place in places], len(order)
        hits: list[tuple[int, str]] = []
        pattern, n_read, end = _pattern(words), 0, offset
        while end < len(order) and len(hits) < CLUSTERS and n_read < LOOKED_THROUGH:
            place = int(order[end])
            end += 1
            keys = [row[0] for row in self._members(ranked, place)]
            n_read += len(keys)
            key = next((key for key in keys if pattern.search(self._text(key))), None)
            if key is not None:
                hits.append((place, key))
        return hits, end

    def _members(self, ranked: RankedClusters, place: int) -> list[Any]:
        values = {"label": int(ranked.labels[place]), "most": LOOKED_UP}
        return list(self._index.sql(CLUSTER_MEMBERS, values))

    def _text(self, key: str) -> str:
        """Return a text as it is shown; empty if none is stored."""
        try:
            body = self._index.texts([key]).get(key)
        except TextNotStoredError:
            return ""
        return "" if body is None else readable(body)

    def _row(self, ranked: RankedClusters, place: int, found_key: str, words: str) -> ClusterRow:
        curve = self._index.params.curve
        members = self._members(ranked, place)
        keys, signatures, sources, batches = zip(*members, strict=True)
        nights = self._nights()
        values = {"label": int(ranked.labels[place]), "most": _EDGES}
        rows = list(self._index.sql(CLUSTER_EDGES, values))
        levels = [float(ranked.low[place]), float(ranked.high[place])]
        levels = [row[2] for row in rows] if 0 < len(rows) < _EDGES else levels
        if len(set(signatures)) < len(signatures):
            levels = [*levels, curve.best]
        key = found_key or keys[0]
        lead, marked, rest = _passage(self._text(key), words if found_key else "")
        counts = Counter(_LINE.sub("", source) for source in sources if source)
        return ClusterRow(
            label=keys[0],
            lead=lead,
            marked=marked,
            rest=rest,
            found_key="" if key == keys[0] else key,
            size=int(ranked.sizes[place]),
            spread=range_bar(
                [curve.value(level) for level in levels],
                threshold=self._index.params.threshold, best=curve.value(curve.best),
            ),
            nights=tuple(
                dict.fromkeys(nights.name_of(batch) for batch in (min(batches), max(batches)))
            ),
            heats=nights.heats(batches),
            chips=[
                (PurePath(name).name.partition(".")[0] or name, count)
                for name, count in counts.most_common(_SOURCES)
            ],
            n_looked_up=len(members),
            n_dropped=len(members) - len(_kept(signatures, rows)),
        )  # fmt: skip


def _kept(signatures: tuple[int, ...], edges: list[Any]) -> set[int]:
    """Return the contents of some documents of which ``dedup`` keeps one, the oldest first."""
    order = np.array(list(dict.fromkeys(signatures)), dtype=np.int64)
    sides = np.array([row[:2] for row in edges], dtype=np.int64).reshape(-1, 2)
    sides = sides[np.isin(sides, order).all(axis=1)]
    left, right = np.ascontiguousarray(sides.T)
    nodes, representatives, _ = represent(order, left, right)
    return set(nodes[nodes == representatives].tolist())


def _pattern(words: str) -> re.Pattern[str]:
    """Return what finds some words in a text, whatever their case and the blanks between them."""
    return re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)


def _passage(text: str, words: str) -> tuple[str, str, str]:
    """Return the first words of a text; or those before some words, these, and those behind."""
    match = _pattern(words).search(text) if words else None
    if match is None:
        return first_words(text, _LEAD), "", ""
    before = text[: match.start()]
    start = before[-_LEAD // 2 :]
    if len(start) < len(before):
        start = "… " + start.partition(" ")[2]
    return (
        " ".join(start.split()) + " " * start[-1:].isspace(),
        " ".join(match[0].split()),
        " " * text[match.end() : match.end() + 1].isspace()
        + first_words(text[match.end() :], _LEAD // 2),
    )


class _Nights:
    """The adds of an index by their batches; the oldest share a place if there are many."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        order = list(dict.fromkeys(names.values()))
        first = max(0, len(order) - _NIGHTS)
        self._places = {name: max(0, place - first) for place, name in enumerate(order)}

    def name_of(self, batch: int) -> str:
        """Return the night of a batch, or the date of its add."""
        return self._names.get(batch, f"batch {batch}")

    def heats(self, batches: tuple[int, ...]) -> list[int]:
        """Return how many of the batches are of each night, from 0 to 5."""
        counts = [0] * (max(self._places.values(), default=-1) + 1)
        for batch in batches:
            if batch in self._names:
                counts[self._places[self._names[batch]]] += 1
        return heats(counts)


def _nights_of(index: Index) -> _Nights:
    return _Nights(
        {batch.batch_id: batch.night or batch.started_at[:10] for batch in index.batches()}
    )
