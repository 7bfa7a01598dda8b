"""Edges -> which documents to keep, and which kept document each dropped one repeats.

Documents are visited in order of preference: a document that repeats no kept document is kept, and
every document verified to be similar to it is dropped for it. So each dropped document is similar
to the one kept in its place, however long the chain, and no two kept documents are a verified pair.

Pairs that share only large buckets may not be stored. So the documents to keep are looked up in
their large buckets (``missed_pairs.py``). A pair found there counts like a stored one, and the
choice is made again, until no more pairs are found. No pair is compared twice.

All copies of a document have the same edges, so the choice is between signatures, each represented
by its most preferred document. Memory grows with the documents that have a near-duplicate, by some
sixty bytes each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.arguments import check_choice
from lshdb.arrays import distinct
from lshdb.documents.document import REFERENCE_FIELDS
from lshdb.documents.values import kind_of, order_key, text_key
from lshdb.errors import ParameterError
from lshdb.groups.agreed_units import Units, units_of, whole_signatures
from lshdb.groups.listing import StoredAnswer, stored_edges
from lshdb.groups.missed_pairs import LeaderBuckets, MissedPairs
from lshdb.handle import Handle, ListingTable
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import counting
from lshdb.search.agreement import Agreement, check_agreement
from lshdb.search.components import represent
from lshdb.search.loss import PairCount
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import Edges, EdgeState
from lshdb.storage.transactions.index_state import IndexState, OpenIndex

__all__ = [
    "KEEPS",
    "ONLY",
    "Decision",
    "Decisions",
    "Deduplication",
    "FieldKeys",
    "cannot_compare",
    "check_keep",
    "check_new",
    "decide",
    "decisions",
    "field_name",
    "new_from",
    "stored_keys",
    "unordered",
]

KEEPS = ("first", "last", "longest", "shortest")
ONLY = ("all", "keep", "drop")
_COLUMNS = ("n_chars", "n_shingles", "added_at", "last_seen_at", "source", "key", "batch_id")
_TEXTS = ("source", "key")
_DOCUMENTS = 10_000

Ids = NDArray[np.int64]
FieldKeys = Callable[[Ids], list[bytes | None]]
"""Takes doc_ids; returns the values to compare documents by, as bytes that sort like the values
(``order_key``), or None for a document without a value."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to keep a document, and if not, why.

    Attributes
    ----------
    key : str
        The document.
    keep : bool
        Whether to keep it.
    kept_key : str or None
        The document that is kept instead; None if this one is kept.
    similarity : float or None
        How similar the two are; for a distance metric, minus their distance.
    method : str or None
        How the similarity was found.
    distance : float or None
        For a dropped document, the distance if the metric is one.
    """

    key: str
    keep: bool
    kept_key: str | None
    similarity: float | None
    method: str | None
    distance: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The documents to drop, as columns; all others are kept.

    Attributes
    ----------
    doc_ids : ndarray of int64, shape (n,)
        Sorted.
    kept : ndarray of int64, shape (n,)
        doc_id of the document that is kept instead.
    similarities : ndarray of float64, shape (n,)
        The similarity of the two.
    unchecked : PairCount or None
        Kept pairs that may still be near-duplicates, because their large buckets had too many pairs
        to compare; None if all were compared.
    """

    doc_ids: Ids
    kept: Ids
    similarities: NDArray[np.float64]
    unchecked: PairCount | None = None

    def dropped(self, doc_ids: Ids) -> NDArray[np.bool_]:
        """Return whether to drop each of the documents."""
        if not len(self.doc_ids):
            return np.zeros(len(doc_ids), dtype=bool)
        places = np.minimum(np.searchsorted(self.doc_ids, doc_ids), len(self.doc_ids) - 1)
        is_dropped: NDArray[np.bool_] = self.doc_ids[places] == doc_ids
        return is_dropped


class Deduplication(StoredAnswer[Decision], ListingTable[Decision]):
    """A decision about every document, in the order in which they were added."""

    ITEM = Decision

    def __init__(
        self,
        store: OpenIndex,
        family: Family,
        handle: Handle,
        /,
        *,
        keep: str,
        against: bool,
        since: Since,
        only: str,
        agree: str | Iterable[str],
        differ: str | Iterable[str],
        **question: Any,
    ) -> None:
        check_choice("only", only, ONLY)
        self._agreement = check_agreement(store, agree, differ)
        check_keep(keep)
        with store.reading() as snapshot:
            _stored_keys(snapshot, keep)
        check_new(store, against, since)
        self._keep, self._against, self._since, self._only = keep, against, since, only
        super().__init__(store, family, handle, keep=keep, against=against, only=only, **question)

    def _found(
        self, snapshot: IndexState, family: Family, state: EdgeState, level: float
    ) -> Iterator[Decision]:
        chosen = decide(
            snapshot, family, state,
            threshold=level, keep=self._keep, since=new_from(snapshot, self._against, self._since),
            values=_stored_keys(snapshot, self._keep), agreement=self._agreement,
        )  # fmt: skip
        self._say_unchecked(chosen.unchecked)
        yield from decisions(snapshot, chosen, family.params, state.method, only=self._only)


def check_new(store: OpenIndex, against: bool, since: Since) -> None:
    """Raise ParameterError for ``since`` without ``against``, or if there is no such batch.

    Raises
    ------
    ParameterError
    """
    if since is not None and not against:
        raise ParameterError("since says what is new for against; it was not asked for")
    check_since(store, since)


def new_from(snapshot: IndexState, against: bool, since: Since) -> int | None:
    """Return the first batch of new documents; None if all documents count alike."""
    return first_new_batch(snapshot, "last" if since is None else since) if against else None


def decide(
    snapshot: IndexState,
    family: Family,
    state: EdgeState,
    *,
    threshold: float,
    keep: str,
    since: int | None = None,
    values: FieldKeys | None = None,
    agreement: Agreement | None = None,
) -> Decisions:
    """Decide which documents to drop.

    Parameters
    ----------
    snapshot : IndexState
        Its edges reach down to the threshold.
    family : Family
        Its hash functions.
    state : EdgeState
        The state of its edges.
    threshold : float
        The lowest level of a pair.
    keep : str
        ``first``, ``last``, ``longest``, ``shortest``; or ``field:NAME`` for the document with the
        largest value of a column of ``document``, ``field:-NAME`` for the smallest. Documents
        without a value come last. Equals are taken oldest first.
    since : int, optional
        Drop only documents from this batch on, and only for documents before it.
    values : callable, optional
        Returns values of the field, if it is not a column.
    agreement : Agreement, optional
        Count only pairs that it allows.

    Raises
    ------
    ParameterError
        ``keep`` is unknown, or its values cannot be compared.
    """
    edges, best = stored_edges(snapshot, threshold), family.params.curve.best
    large = LeaderBuckets.of(snapshot, family, state)
    if agreement is None:
        units = whole_signatures(snapshot, edges, also=large.members)
    else:
        units = units_of(snapshot, edges, agreement, best, also=large.members)
    ranked = _Ranked.of(units, _preference(snapshot, keep, values), since)
    missed = MissedPairs(
        snapshot, family, state, large, units, ranked.order, ranked.counts,
        threshold=threshold, agreement=agreement, is_old=ranked.is_old,
    )  # fmt: skip
    edges = units.edges
    while True:
        decided, gone = ranked.choose(edges, best)
        hidden = missed.among(gone)
        if not len(hidden):
            return replace(decided, unchecked=missed.unchecked(gone))
        edges = Edges(
            np.concatenate([edges.left, hidden.left]),
            np.concatenate([edges.right, hidden.right]),
            np.concatenate([edges.similarities, hidden.similarities]),
        )


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Units in order of preference, each represented by its most preferred document.

    Attributes
    ----------
    units : Units
        The units.
    since : int or None
        Documents from this batch on may be dropped, for older ones; None if all may be.
    ids : ndarray of int64, shape (n,)
        Units with a document, sorted.
    speakers, ranks : ndarray of int64, shape (n,)
        The document that represents each unit, as a place in ``units.doc_ids``, and its rank.
    order : ndarray of int64, shape (n,)
        The same units, the preferred ones first.
    counts : ndarray of int64
        By unit, how many of its documents are kept if the unit is: one of the copies, or all of the
        older ones.
    is_old : ndarray of bool or None
        By unit, whether it has an older document; None without ``since``.
    """

    units: Units
    since: int | None
    ids: Ids
    speakers: Ids
    ranks: Ids
    order: Ids
    counts: Ids
    is_old: NDArray[np.bool_] | None

    @classmethod
    def of(cls, units: Units, preference: Callable[[Ids], Ids], since: int | None) -> Self:
        """Rank the units."""
        ranks, is_old = preference(units.doc_ids), None
        counts = np.ones(len(units.signature_ids), dtype=np.int64)
        if since is not None:
            # Older documents come before all new ones, and are never dropped.
            is_new = units.batch_ids >= since
            ranks = ranks + np.where(is_new, len(ranks), 0)
            is_old = np.zeros(len(units.signature_ids), dtype=bool)
            is_old[units.of_document[~is_new]] = True
            is_kept = is_new != is_old[units.of_document]
            counts = np.bincount(units.of_document[is_kept], minlength=len(is_old))
        speakers = np.lexsort((ranks, units.of_document))
        speakers = speakers[np.flatnonzero(np.diff(units.of_document[speakers], prepend=-1))]
        ids, ranks = units.of_document[speakers], ranks[speakers]
        order = ids[np.argsort(ranks, kind="stable")]
        return cls(units, since, ids, speakers, ranks, order, counts, is_old)

    def choose(self, edges: Edges, best: float) -> tuple[Decisions, Ids]:
        """Choose by these edges; also return the units whose documents are all dropped."""
        units, ids = self.units, self.ids
        if self.is_old is None:
            _, chosen, pairs = represent(self.order, edges.left, edges.right)
        else:
            chosen, pairs = _nearest_old(ids, self.is_old[ids], self.ranks, edges.left, edges.right,
                                         edges.similarities)  # fmt: skip
        similarities = np.full(len(ids), best)  # copies have no edge
        similarities[pairs >= 0] = edges.similarities[pairs[pairs >= 0]]
        place = np.searchsorted(ids, units.of_document)
        instead = units.doc_ids[self.speakers][np.searchsorted(ids, chosen)][place]
        drop = instead != units.doc_ids
        if self.since is not None:
            is_older = units.batch_ids[np.searchsorted(units.doc_ids, instead)] < self.since
            drop &= (units.batch_ids >= self.since) & is_older
        decided = Decisions(units.doc_ids[drop], instead[drop], similarities[place][drop])
        return decided, ids[chosen != ids]


def decisions(
    snapshot: IndexState, chosen: Decisions, params: IndexParams, method: str, *, only: str
) -> Iterator[Decision]:
    """Yield the decision for every document, oldest first.

    Parameters
    ----------
    snapshot : IndexState
        The state that was decided about.
    chosen : Decisions
        The documents to drop.
    params : IndexParams
        The parameters of the index.
    method : str
        How pairs were verified.
    only : {"all", "keep", "drop"}
        Which decisions to yield.
    """
    is_distance = params.kind.is_distance
    rows = counting(snapshot.document_keys(), "documents", snapshot.next_doc_id - 1)
    while block := list(itertools.islice(rows, _DOCUMENTS)):
        doc_ids = np.array([doc_id for doc_id, _ in block], dtype=np.int64)
        dropped = chosen.dropped(doc_ids)
        places = np.searchsorted(chosen.doc_ids, doc_ids[dropped])
        names = snapshot.keys_of(distinct(chosen.kept[places])) if len(places) else {}
        of_dropped = iter(
            zip(chosen.kept[places].tolist(), chosen.similarities[places].tolist(), strict=True)
        )
        for (_, key), drop in zip(block, dropped.tolist(), strict=True):
            if drop:
                kept_id, similarity = next(of_dropped)
                if only != "keep":
                    distance = 0.0 - similarity if is_distance else None
                    yield Decision(key, False, names[kept_id], similarity, method, distance)
            elif only != "drop":
                yield Decision(key, True, None, None, None)


def _nearest_old(
    ids: Ids,
    old: NDArray[np.bool_],
    ranks: Ids,
    left: Ids,
    right: Ids,
    similarities: NDArray[np.float64],
) -> tuple[Ids, Ids]:
    """Return the most similar unit with older documents, for each unit without; else the unit.

    Also the place of the pair among the edges; -1 for none.
    """
    near = np.searchsorted(ids, np.concatenate([left, right]))
    far = np.searchsorted(ids, np.concatenate([right, left]))
    levels = np.concatenate([similarities, similarities])
    useful = np.flatnonzero(~old[near] & old[far])
    useful = useful[np.lexsort((ranks[far[useful]], -levels[useful], near[useful]))]
    useful = useful[np.flatnonzero(np.diff(near[useful], prepend=-1))]
    chosen, pairs = ids.copy(), np.full(len(ids), -1, dtype=np.int64)
    chosen[near[useful]] = ids[far[useful]]
    pairs[near[useful]] = useful % max(1, len(left))
    return chosen, pairs


def _preference(snapshot: IndexState, keep: str, values: FieldKeys | None) -> Callable[[Ids], Ids]:
    """Return the function that takes sorted doc_ids and returns ranks, 0 for the preferred one."""
    if keep == "first":
        return lambda doc_ids: np.arange(len(doc_ids))
    if keep == "last":
        return lambda doc_ids: np.arange(len(doc_ids))[::-1].copy()
    name, descending = _field_of(keep)
    if keep in KEEPS:
        return lambda doc_ids: _ranked(snapshot.values_of(doc_ids, name), descending)
    read = values or (lambda doc_ids: stored_keys(snapshot, doc_ids, name))

    def ranks(doc_ids: Ids) -> Ids:
        keys = read(doc_ids)
        _refuse_unordered(snapshot, keep, doc_ids, keys)
        return _ranked(keys, descending)

    return ranks


def _refuse_unordered(
    snapshot: IndexState, keep: str, doc_ids: Ids, keys: list[bytes | None]
) -> None:
    """Raise ParameterError if the values have no common order; it names two documents."""
    places: dict[bytes, int] = {}
    for place, key in enumerate(keys):
        if key is not None:
            places.setdefault(key[:1], place)
    if len(places) < 2 and all(kind_of(kind)[1] for kind in places):
        return
    names = snapshot.keys_of(doc_ids[sorted(places.values())])
    reason = unordered({kind: names[int(doc_ids[place])] for kind, place in places.items()})
    if reason is not None:
        raise cannot_compare(keep, reason)


def unordered(documents: Mapping[bytes, str]) -> str | None:
    """Return why values of these kinds cannot be compared; None if they can.

    Parameters
    ----------
    documents : mapping of bytes to str
        Kind of value, the first byte of ``order_key``, to the key of a document with such a value.
    """
    shown = list(documents.items())
    odd = next(((kind, key) for kind, key in shown if not kind_of(kind)[1]), None)
    if odd is not None:
        return f"document {odd[1]!r:.100} has {kind_of(odd[0])[0]}"
    if len(shown) < 2:
        return None
    (kind1, key1), (kind2, key2) = shown[:2]
    return (
        f"document {key1!r:.100} has {kind_of(kind1)[0]}, and document {key2!r:.100} "
        f"{kind_of(kind2)[0]}"
    )


def cannot_compare(keep: str, reason: str) -> ParameterError:
    """Return the error for a field whose values have no common order."""
    return ParameterError(
        f"keep is {keep!r}, and its values cannot be compared: {reason}",
        hint="choose by a field of numbers alone, of dates and times as in ISO 8601, of durations, "
        "or of texts; a missing value comes last",
    )


def _field_of(keep: str) -> tuple[str, bool]:
    """Return the field that ``keep`` names, and whether the largest value comes first.

    Raises
    ------
    ParameterError
        ``keep`` is unknown.
    """
    if keep in KEEPS:
        return "n_chars", keep == "longest"
    if not (isinstance(keep, str) and keep.startswith("field:") and len(keep) > len("field:")):
        raise ParameterError(
            f"keep is {keep!r}; expected one of {', '.join(KEEPS)}, field:NAME or field:-NAME"
        )
    name = keep.removeprefix("field:")
    return name.removeprefix("-"), not name.startswith("-")


def check_keep(keep: str) -> None:
    """Raise ParameterError if ``keep`` is unknown; any name of a field is accepted."""
    _field_of(keep)


def field_name(keep: str) -> str | None:
    """Return the name of the field to choose by; None if ``keep`` names no field."""
    return None if keep in KEEPS else _field_of(keep)[0]


def _stored_keys(snapshot: IndexState, keep: str) -> FieldKeys | None:
    """Return the function that reads the field that ``keep`` names, a column or a kept field.

    Raises
    ------
    ParameterError
        There is no such column and no kept field. The function raises it, too, if no document has
        the field.
    """
    name = field_name(keep)
    if name is None:
        return None
    if name not in _COLUMNS and not snapshot.has_fields():
        raise _no_field(keep, name)

    def keys(doc_ids: Ids) -> list[bytes | None]:
        sort_keys = stored_keys(snapshot, doc_ids, name)
        is_known = name in _COLUMNS or name in REFERENCE_FIELDS or not len(sort_keys)
        if not is_known and all(key is None for key in sort_keys) and not snapshot.has_field(name):
            raise _no_field(keep, name)
        return sort_keys

    return keys


def _no_field(keep: str, name: str) -> ParameterError:
    return ParameterError(
        f"keep is {keep!r}, and documents have no field {name!r}; expected a kept field, or one of "
        f"{', '.join(_COLUMNS)}",
        hint="fields are kept by add --keep-fields; those of the input are known where a file is "
        "filtered or written",
    )


def stored_keys(snapshot: IndexState, doc_ids: Ids, name: str) -> list[bytes | None]:
    """Return the values of a column or a kept field, as bytes that sort like them (order_key)."""
    if name in _COLUMNS:
        make = text_key if name in _TEXTS else order_key
        values = snapshot.values_of(doc_ids, name)
        return [None if value is None else make(str(value)) for value in values]
    if not snapshot.has_fields():
        return [None] * len(doc_ids)
    stored = snapshot.fields_of(doc_ids.tolist())
    return [
        order_key(orjson.loads(stored[doc_id]).get(name)) if doc_id in stored else None
        for doc_id in doc_ids.tolist()
    ]


def _ranked(values: Sequence[Any], descending: bool) -> Ids:
    """Return ranks by value; equal values keep their order, and None comes last."""
    order = [place for place, value in enumerate(values) if value is not None]
    none = [place for place, value in enumerate(values) if value is None]
    order.sort(key=values.__getitem__, reverse=descending)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.array(order + none, dtype=np.int64)] = np.arange(len(values))
    return ranks
