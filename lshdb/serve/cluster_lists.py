"""Stored clusters -> pages of them, in an order and with filters.

The order of all clusters is made once for each state of the index, when a page is first asked for
after a commit: one pass over the stored clusters and one over their pairs, a second or so at a
million documents, and some fifty bytes a cluster. A page is a slice of it, so it costs the same
wherever it lies. Words are looked for in the texts, cluster by cluster; a page stops after
``LOOKED_THROUGH`` documents, and says where to go on.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlencode

from lshdb.arrays import np
from lshdb.errors import DamageError, ParameterError, TextNotStoredError
from lshdb.pages.cards import (
    ClusterCard,
    Member,
    Nights,
    cluster_card,
    in_order_of_decision,
    nearest_members,
)
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
    "SORTS",
    "ClusterLists",
    "ListPage",
    "OfState",
    "RankedClusters",
    "order_of",
    "pattern_of",
    "rank_clusters",
]

CLUSTERS = 20
"""Clusters of a page."""
LOOKED_THROUGH = 2_000
"""Documents that are read for one page to look for words."""
_LOOKED_UP = 1_000
"""Members of a cluster that count for its nights, sources and decisions."""
_EDGES = 20_000
_MOST_OFFSET = 10**12
_LEAD = 180
"""Characters of a text's first words, and of a passage."""
_FILTERS = ("sort", "q", "size", "similarity", "since")

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
    with _numbers_alone():
        return _rank_clusters(index)


@contextlib.contextmanager
def _numbers_alone() -> Iterator[None]:
    """Raise a DamageError for a value of the stored clusters that is no number."""
    try:
        yield
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


@dataclass(frozen=True, kw_only=True)
class ListPage:
    """A page of a list that has an order and filters.

    Attributes
    ----------
    path : str
        Of the list.
    step : int
        Rows of a page.
    total : int
        Rows that pass the filters, before words are looked for.
    offset, end : int
        Where the page begins, and where the next one does.
    filters : dict of str
        The filters that are in the address.
    sort, words : str
    """

    path: str
    step: int
    total: int
    offset: int
    end: int
    filters: dict[str, str]
    sort: str
    words: str

    def address(self, offset: int) -> str:
        """Return the address of another page of the same list."""
        query = urlencode(self.filters | ({"offset": str(offset)} if offset else {}))
        return f"{self.path}?{query}" if query else self.path

    @property
    def n_folded(self) -> int:
        """How many of the folded fields are filled in."""
        return len(self.filters.keys() - {"sort", "q"})

    @property
    def before(self) -> int | None:
        """Where the page before begins; None if this is the first."""
        return max(0, self.offset - self.step) if self.offset else None


@dataclass(frozen=True, kw_only=True)
class ClusterPage(ListPage):
    """A page of clusters.

    Attributes
    ----------
    ranked : RankedClusters
        All of them.
    nights : list of str
        The nights of their squares.
    rows : list of ClusterCard
    """

    ranked: RankedClusters
    nights: list[str]
    rows: list[ClusterCard]


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
        sort, since = order_of(values, SORTS), values.get("since", "").strip()
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
        return ClusterPage(
            path="/clusters", step=CLUSTERS, total=len(order), offset=offset, end=end,
            filters=filters, sort=sort, words=words, ranked=ranked, nights=self._nights().names,
            rows=rows,
        )  # fmt: skip

    def cluster(self, key: str) -> tuple[ClusterCard, list[Member]] | None:
        """Return the cluster of a document, and its first members in the order of the decision.

        None if it is in no cluster.
        """
        ranked, label = self.ranked(), self._label(key)
        places = np.flatnonzero(ranked.labels == label)
        if not len(places):
            return None
        place, rows, edges = int(places[0]), self._members(label), self._edges(label)
        if len(rows) < 2:
            return None
        curve, nights = self._index.params.curve, self._nights()
        contents = {row[0]: row[1] for row in rows}
        kept = _kept(contents, edges)
        nearest = nearest_members(contents, edges, best=curve.best)
        members = []
        by_key = {row[0]: row for row in rows}
        for member in in_order_of_decision(contents, kept, nearest):
            near, level = nearest.get(member, ("", None))
            _, content, source, batch = by_key[member]
            members.append(
                Member(
                    key=member, source=source, night=nights.name_of(batch),
                    kept_key=kept.get(member, ""), nearest=near,
                    similarity=None if level is None else curve.value(level),
                    is_copy=bool(near) and contents[near] == content,
                )
            )  # fmt: skip
        return self._card(ranked, place, rows, edges, kept), members

    def verdicts(self, keys: Iterable[str]) -> dict[str, bool]:
        """Return whether ``dedup`` keeps each document, of those whose cluster says it."""
        kept: dict[str, bool] = {}
        for key in keys:
            if key not in kept:
                label = self._label(key)
                contents = {row[0]: row[1] for row in self._members(label)}
                if key in contents and len(contents) > 1:
                    dropped = _kept(contents, self._edges(label))
                    kept |= {member: member not in dropped for member in contents}
        return kept

    def _label(self, key: str) -> int:
        """Return the number of the cluster of a document; -1 for none."""
        with _numbers_alone():
            labels = self._index.sql(CLUSTER_NUMBER, {"key": key})
            return next((int(label) for (label,) in labels), -1)

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
            places = order[ranked.labels[order] == self._label(words)] if offset == 0 else []
            return [(int(place), words) for place in places], len(order)
        hits: list[tuple[int, str]] = []
        pattern, n_read, end = pattern_of(words), 0, offset
        while end < len(order) and len(hits) < CLUSTERS and n_read < LOOKED_THROUGH:
            place = int(order[end])
            end += 1
            keys = [row[0] for row in self._members(int(ranked.labels[place]))]
            n_read += len(keys)
            key = next((key for key in keys if pattern.search(self._text(key))), None)
            if key is not None:
                hits.append((place, key))
        return hits, end

    def _members(self, label: int) -> list[Any]:
        return list(self._index.sql(CLUSTER_MEMBERS, {"label": label, "most": _LOOKED_UP}))

    def _edges(self, label: int) -> list[Any]:
        return list(self._index.sql(CLUSTER_EDGES, {"label": label, "most": _EDGES}))

    def _text(self, key: str) -> str:
        """Return a text as it is shown; empty if none is stored."""
        try:
            body = self._index.texts([key]).get(key)
        except TextNotStoredError:
            return ""
        return "" if body is None else readable(body)

    def _row(self, ranked: RankedClusters, place: int, found_key: str, words: str) -> ClusterCard:
        label = int(ranked.labels[place])
        rows, edges = self._members(label), self._edges(label)
        kept = _kept({row[0]: row[1] for row in rows}, edges)
        return self._card(ranked, place, rows, edges, kept, found_key, words)

    def _card(
        self, ranked: RankedClusters, place: int, rows: list[Any], edges: list[Any],
        kept: Mapping[str, str], found_key: str = "", words: str = "",
    ) -> ClusterCard:  # fmt: skip
        curve = self._index.params.curve
        keys, contents, sources, batches = zip(*rows, strict=True)
        levels = [float(ranked.low[place]), float(ranked.high[place])]
        levels = [edge[2] for edge in edges] if 0 < len(edges) < _EDGES else levels
        if len(set(contents)) < len(contents):
            levels = [*levels, curve.best]
        key = found_key or keys[0]
        return cluster_card(
            label=keys[0],
            passage=_passage(self._text(key), words if found_key else ""),
            found_key="" if key == keys[0] else key,
            size=int(ranked.sizes[place]),
            values=[curve.value(level) for level in levels],
            ends=(self._index.params.threshold, curve.value(curve.best)),
            batches=batches,
            nights=self._nights(),
            sources=sources,
            n_dropped=len(kept),
        )


def _kept(contents: Mapping[str, int], edges: list[Any]) -> dict[str, str]:
    """Return the document that ``dedup`` keeps, the oldest first, for each that it drops."""
    first: dict[int, str] = {}
    for key, content in contents.items():
        first.setdefault(content, key)
    order = np.array(list(first), dtype=np.int64)
    sides = np.array([row[:2] for row in edges], dtype=np.int64).reshape(-1, 2)
    sides = sides[np.isin(sides, order).all(axis=1)]
    left, right = np.ascontiguousarray(sides.T)
    nodes, representatives, _ = represent(order, left, right)
    instead = dict(zip(nodes.tolist(), representatives.tolist(), strict=True))
    kept = {key: first[instead.get(content, content)] for key, content in contents.items()}
    return {key: instead for key, instead in kept.items() if key != instead}


def order_of(values: Mapping[str, str], sorts: Mapping[str, str]) -> str:
    """Return the order that an address asks for; the first one if it names none."""
    sort = values.get("sort") or next(iter(sorts))
    if sort not in sorts:
        raise ParameterError(f"sort is {sort[:40]}; expected one of {', '.join(sorts)}")
    return sort


def pattern_of(words: str) -> re.Pattern[str]:
    """Return what finds some words in a text, whatever their case and the blanks between them."""
    return re.compile(r"\s+".join(map(re.escape, words.split())), re.IGNORECASE)


def _passage(text: str, words: str) -> tuple[str, str, str]:
    """Return the first words of a text; or those before some words, these, and those behind."""
    match = pattern_of(words).search(text) if words else None
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


@dataclass(frozen=True, slots=True)
class _Night:
    """The batches of a night, or of a day without one."""

    name: str
    batches: tuple[int, ...]


def _nights_of(index: Index) -> Nights:
    batches: dict[str, list[int]] = {}
    for batch in index.batches():
        batches.setdefault(batch.night or batch.started_at[:10], []).append(batch.batch_id)
    return Nights([_Night(name, tuple(numbers)) for name, numbers in batches.items()])
