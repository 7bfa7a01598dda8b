"""Edges -> which documents to keep, and which kept document each dropped one repeats.

Documents are visited in order of preference: one that repeats no kept document is kept, and
everything verified to be similar to it is dropped for it. So every dropped document is similar to
the one that stands for it, however long the chain, and no two kept documents are a verified pair.

Pairs that meet only in large buckets may not be stored. So the documents to be kept are looked up
in their large buckets (``missed_pairs.py``); a pair found there counts as the stored ones do, and
the choice is made again, until nothing is found. No pair is compared twice.

All copies of a document have the same edges, so the choice is between signatures, each represented
by its most preferred document. Memory grows with the documents that have a near-duplicate, by some
sixty bytes each.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.arguments import check_choice
from lshdb.arrays import distinct
from lshdb.clusters.agreed_units import involved, units_of
from lshdb.clusters.listing import StoredAnswer, stored_edges
from lshdb.clusters.missed_pairs import MissedPairs
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.search.agreement import Agreement, check_agreement
from lshdb.search.components import represent
from lshdb.search.handle import Handle
from lshdb.search.loss import PairCount
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.signatures.family import Family
from lshdb.storage.store import Store
from lshdb.storage.tables.edges import Edges, EdgeState
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = [
    "KEEPS",
    "ONLY",
    "Decision",
    "Decisions",
    "Deduplication",
    "check_keep",
    "check_new",
    "decide",
    "decisions",
    "field_name",
    "index_values",
    "new_from",
]

KEEPS = ("first", "last", "longest", "shortest")
ONLY = ("all", "keep", "drop")
_COLUMNS = ("n_chars", "n_shingles", "added_at", "last_seen_at", "source", "key", "batch_id")
_DOCUMENTS = 10_000

Ids = NDArray[np.int64]
FieldValues = Callable[[Ids], list[object]]
"""Values by which documents are compared, for some doc_ids; None for a document without one."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to keep a document, and if not, why.

    Attributes
    ----------
    key : str
    keep : bool
    kept_key : str or None
        The document that is kept instead; None if this one is kept.
    similarity : float or None
        How similar the two are; for a distance metric, minus their distance.
    method : str or None
        How the similarity was found.
    distance : float or None
        For a dropped document, the distance if the metric is one (``hamming``, ``l1``, ``l2``).
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
    unchecked : PairCount or None
        Kept pairs that may still be near-duplicates, because their large buckets had too many pairs
        to compare; None if all were compared.
    """

    doc_ids: Ids
    kept: Ids
    similarities: NDArray[np.float64]
    unchecked: PairCount | None = None

    def dropped(self, doc_ids: Ids) -> NDArray[np.bool_]:
        """Return which of some documents are to be dropped."""
        if not len(self.doc_ids):
            return np.zeros(len(doc_ids), dtype=bool)
        places = np.minimum(np.searchsorted(self.doc_ids, doc_ids), len(self.doc_ids) - 1)
        found: NDArray[np.bool_] = self.doc_ids[places] == doc_ids
        return found


class Deduplication(StoredAnswer[Decision]):
    """A decision about every document, in the order in which they were added."""

    def __init__(
        self,
        store: Store,
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
        **asked: Any,
    ) -> None:
        check_choice("only", only, ONLY)
        self._agreement = check_agreement(store, agree, differ)
        check_keep(keep)
        with store.reading() as snapshot:
            _stored_values(snapshot, keep)
        check_new(store, against, since)
        self._keep, self._against, self._since, self._only = keep, against, since, only
        super().__init__(store, family, handle, keep=keep, against=against, only=only, **asked)

    def _found(
        self, snapshot: Snapshot, family: Family, state: EdgeState, level: float
    ) -> Iterator[Decision]:
        chosen = decide(
            snapshot, family, state,
            threshold=level, keep=self._keep, since=new_from(snapshot, self._against, self._since),
            values=_stored_values(snapshot, self._keep), agreement=self._agreement,
        )  # fmt: skip
        self.unchecked = chosen.unchecked
        yield from decisions(snapshot, chosen, family.params, state.method, only=self._only)


def check_new(store: Store, against: bool, since: Since) -> None:
    """Raise ParameterError for ``since`` without ``against``, or if there is no such batch.

    Raises
    ------
    ParameterError
    """
    if since is not None and not against:
        raise ParameterError("since says what is new for against; it was not asked for")
    check_since(store, since)


def new_from(snapshot: Snapshot, against: bool, since: Since) -> int | None:
    """Return the first batch of new documents; None if all documents count alike."""
    return first_new_batch(snapshot, "last" if since is None else since) if against else None


def decide(
    snapshot: Snapshot,
    family: Family,
    state: EdgeState,
    *,
    threshold: float,
    keep: str,
    since: int | None = None,
    values: FieldValues | None = None,
    agreement: Agreement | None = None,
) -> Decisions:
    """Decide which documents to drop.

    Parameters
    ----------
    snapshot : Snapshot
        With edges down to the threshold at least.
    family : Family
    state : EdgeState
        Of those edges.
    threshold : float
    keep : str
        ``first``, ``last``, ``longest``, ``shortest``; or ``field:NAME`` for the document with the
        largest value of a column of ``document``, ``field:-NAME`` for the smallest. Equals, and
        documents without a value, are taken oldest first.
    since : int, optional
        Drop only documents from this batch on, and only for documents before it.
    values : callable, optional
        Values of the field, if it is not a column.
    agreement : Agreement, optional
        Only pairs that it allows count.

    Raises
    ------
    ParameterError
        ``keep`` is unknown.
    """
    preference = _preference(snapshot, keep, values)
    missed = MissedPairs(snapshot, family, state, threshold=threshold, since=since)
    edges = stored_edges(snapshot, threshold)
    choose = functools.partial(
        _choose, snapshot, preference=preference, since=since, agreement=agreement,
        best=family.params.curve.best,
    )  # fmt: skip
    decided, gone = choose(edges)
    while True:
        found = missed.among(gone)
        if not len(found):
            return replace(decided, unchecked=missed.unchecked(gone))
        edges = Edges(
            np.concatenate([edges.left, found.left]),
            np.concatenate([edges.right, found.right]),
            np.concatenate([edges.similarities, found.similarities]),
        )
        decided, gone = choose(edges)


def _choose(
    snapshot: Snapshot,
    edges: Edges,
    *,
    preference: Callable[[Ids], Ids],
    since: int | None,
    agreement: Agreement | None,
    best: float,
) -> tuple[Decisions, Ids]:
    """Choose by some edges; also return the signatures whose documents are all dropped."""
    units = None
    if agreement is None:
        nodes = distinct(np.concatenate([edges.left, edges.right]))
        doc_ids, signature_ids, batch_ids = involved(snapshot, nodes)
    else:
        units = units_of(snapshot, edges, agreement, best)
        # From here on a unit is what a signature is otherwise.
        doc_ids, signature_ids, batch_ids = units.doc_ids, units.of_document, units.batch_ids
        edges = units.edges
    ranks = preference(doc_ids)
    if since is not None:
        # Older documents come before all new ones, and are never dropped.
        ranks = np.where(batch_ids < since, ranks, ranks + len(ranks))
    speakers = np.lexsort((ranks, signature_ids))
    speakers = speakers[np.flatnonzero(np.diff(signature_ids[speakers], prepend=-1))]
    ids = signature_ids[speakers]
    order = ids[np.argsort(ranks[speakers], kind="stable")]
    if since is None:
        _, chosen, pairs = represent(order, edges.left, edges.right)
    else:
        old = batch_ids[speakers] < since
        chosen, pairs = _nearest_old(ids, old, ranks[speakers], edges.left, edges.right,
                                     edges.similarities)  # fmt: skip
    similarities = np.full(len(ids), best)  # of exact copies
    similarities[pairs >= 0] = edges.similarities[pairs[pairs >= 0]]
    place = np.searchsorted(ids, signature_ids)
    kept = doc_ids[speakers][np.searchsorted(ids, chosen)][place]
    drop = kept != doc_ids
    if since is not None:
        stands = batch_ids[np.searchsorted(doc_ids, kept)] < since
        drop &= (batch_ids >= since) & stands
    decided = Decisions(doc_ids[drop], kept[drop], similarities[place][drop])
    if units is None:
        return decided, ids[chosen != ids]
    some_left = units.signature_ids[ids[chosen == ids]]
    return decided, np.setdiff1d(units.signature_ids, some_left)


def decisions(
    snapshot: Snapshot, chosen: Decisions, params: IndexParams, method: str, *, only: str
) -> Iterator[Decision]:
    """Yield the decision for every document, oldest first.

    Parameters
    ----------
    only : {"all", "keep", "drop"}
    """
    is_distance = params.kind.is_distance
    rows = snapshot.document_keys()
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
                kept, similarity = next(of_dropped)
                if only != "keep":
                    distance = 0.0 - similarity if is_distance else None
                    yield Decision(key, False, names[kept], similarity, method, distance)
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
    """Return for each signature without old documents the most similar one with some, or itself."""
    one = np.searchsorted(ids, np.concatenate([left, right]))
    other = np.searchsorted(ids, np.concatenate([right, left]))
    both = np.concatenate([similarities, similarities])
    useful = np.flatnonzero(~old[one] & old[other])
    useful = useful[np.lexsort((ranks[other[useful]], -both[useful], one[useful]))]
    useful = useful[np.flatnonzero(np.diff(one[useful], prepend=-1))]
    chosen, pairs = ids.copy(), np.full(len(ids), -1, dtype=np.int64)
    chosen[one[useful]] = ids[other[useful]]
    pairs[one[useful]] = useful % max(1, len(left))
    return chosen, pairs


def _preference(snapshot: Snapshot, keep: str, values: FieldValues | None) -> Callable[[Ids], Ids]:
    """Return a function from sorted doc_ids to their ranks, 0 for the most preferred."""
    if keep == "first":
        return lambda doc_ids: np.arange(len(doc_ids))
    if keep == "last":
        return lambda doc_ids: np.arange(len(doc_ids))[::-1].copy()
    name, descending = _field_of(keep)
    values = values or (lambda doc_ids: index_values(snapshot, doc_ids, name))
    return lambda doc_ids: _ranked(values(doc_ids), descending)


def _field_of(keep: str) -> tuple[str, bool]:
    """Return the field that ``keep`` names, and its direction.

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
    """Return the name of the field by which to choose; None if it is no field."""
    return None if keep in KEEPS else _field_of(keep)[0]


def _stored_values(snapshot: Snapshot, keep: str) -> FieldValues | None:
    """Return values of the field that ``keep`` names, a column or a kept field.

    Raises
    ------
    ParameterError
        There is no such column, and no document that repeats another has such a field.
    """
    name = field_name(keep)
    if name is None:
        return None
    if name not in _COLUMNS and not snapshot.has_fields():
        raise _no_field(keep, name)

    def values(doc_ids: Ids) -> list[object]:
        found = index_values(snapshot, doc_ids, name)
        if name not in _COLUMNS and len(found) and all(value is None for value in found):
            raise _no_field(keep, name)
        return found

    return values


def _no_field(keep: str, name: str) -> ParameterError:
    return ParameterError(
        f"keep is {keep!r}, and documents have no field {name!r}; expected a kept field, or one of "
        f"{', '.join(_COLUMNS)}",
        hint="fields are kept by add --keep-fields; those of the input are known where a file is "
        "filtered or written",
    )


def index_values(snapshot: Snapshot, doc_ids: Ids, name: str) -> list[object]:
    """Return the values of a column or a kept field; None for a document without it."""
    if name in _COLUMNS:
        return snapshot.values_of(doc_ids, name)
    if not snapshot.has_fields():
        return [None] * len(doc_ids)
    found = snapshot.fields_of(doc_ids.tolist())
    return [
        orjson.loads(found[one]).get(name) if one in found else None for one in doc_ids.tolist()
    ]


def _ranked(found: list[object], descending: bool) -> Ids:
    """Return ranks by value: numbers before texts before nothing; equals in the order given."""
    numbers = [i for i, value in enumerate(found) if isinstance(value, int | float)]
    texts = [i for i, value in enumerate(found) if isinstance(value, str)]
    none = [i for i, value in enumerate(found) if not isinstance(value, int | float | str)]
    for places in (numbers, texts):
        places.sort(key=lambda i: found[i], reverse=descending)  # type: ignore[arg-type, return-value]
    ranks = np.empty(len(found), dtype=np.int64)
    ranks[np.array(numbers + texts + none, dtype=np.int64)] = np.arange(len(found))
    return ranks
