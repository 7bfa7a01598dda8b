"""Candidate pairs -> levels and verified pairs: by bands matched, by signature, or exactly.

A pair carries its level (``params/metrics.py``) and the method that gave it:

``none``
    unverified; the level follows from the bands: m of b bands agree, each with probability p^r, so
    (m / b)^(1/r) estimates p, the probability of an equal slot, and p the level. Without the
    signature file m is the number of buckets shared.
``signature``
    the fraction of equal slots, an unbiased estimate of p with standard deviation at most
    sqrt(p (1 - p) / num_perm); for min-hash p is the Jaccard similarity itself.
``exact``
    the metric of the two texts, or vectors. Exact copies have its best level by their content hash.

Before texts are read, pairs whose estimate is too low for the threshold are dropped: those four and
a half standard deviations and two slots below it. That loses fewer than one pair in ten thousand of
those at the threshold, for every threshold and number of slots (a test adds up the binomial tail).
What is left is compared by its :class:`Points`, which are made from texts or vectors as they are
needed, and kept within a limit of memory.

If the signature file is on another host, nothing is dropped: each candidate's text is read, and
signature rows are made again from stored texts. A row follows from its text and the parameters.
But if this interpreter's version of Unicode differs from that of signing, a text with characters
that only one of the two assigns may get another row; ``document.n_unassigned`` counts those.

A threshold that a caller gives becomes a level here, with a warning if the index finds less than it
promises.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from lshdb.arguments import check_whole, plain_number
from lshdb.arrays import distinct, np
from lshdb.errors import (
    DamageError,
    InputError,
    LshdbError,
    ParameterError,
    RecallWarning,
    SignaturesElsewhereError,
    TextNotStoredError,
    warn_caller,
)
from lshdb.params.index_params import IndexParams, check_threshold
from lshdb.result_tables import Columns, ResultTable, blocks_of, columns_of, html_table
from lshdb.signatures.banding import Overlap
from lshdb.signatures.family import Family, Point
from lshdb.storage.rows.row_reader import Documents
from lshdb.storage.transactions.index_state import OpenIndex, RowsAndTexts
from lshdb.tokenizers import UnsplitTextError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.params.metrics import Curve

__all__ = [
    "MEMORY",
    "METHODS",
    "Hit",
    "Hits",
    "NearestHits",
    "Points",
    "TextPoints",
    "VectorPoints",
    "asked_level",
    "band_levels",
    "below_level",
    "check_limits",
    "choose_method",
    "contents_of",
    "estimate",
    "grouped_bodies",
    "has_signatures",
    "least_equal",
    "least_share",
    "level_of",
    "missing_text",
    "named_error",
    "points_of",
    "prefilter",
    "rows_among",
    "signed_anew",
    "usable_contents",
    "warn_beyond",
]

METHODS = ("none", "signature", "exact")
MEMORY = 256 * 2**20
"""Bytes that a search for pairs may take, beside the interpreter and a small signature file."""

_SLACK = 4.5


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found for a query.

    Attributes
    ----------
    key : str
    similarity : float
        For a distance metric, minus the distance.
    method : {"none", "signature", "exact"}
        How the similarity was found.
    distance : float or None
        The distance if the metric is one; else None.
    """

    key: str
    similarity: float
    method: str
    distance: float | None = field(default=None, compare=False)


class Hits(list[Hit], ResultTable):
    """The answer to a query: hits, best first.

    It is a table as well (``to_pandas()`` and others).

    Attributes
    ----------
    truncated : int
        How many more documents were found that ``top`` left out. A search with ``recall`` or
        ``probe_limit`` ends when it has the nearest and counts no others: 0.
    n_shingles : int or None
        Of the query, as :meth:`lshdb.Index.count_shingles` counts them; None unless
        :meth:`lshdb.Index.query` was given a body.
    """

    def __init__(self, hits: Iterable[Hit] = (), *, truncated: int = 0) -> None:
        super().__init__(hits)
        self.truncated = truncated
        self.n_shingles: int | None = None

    def _repr_html_(self) -> str:
        """Return all hits, for a notebook."""
        columns, rows = self._rows()
        note = f"{self.truncated} more" if self.truncated else ""
        return html_table(type(self).__name__, [name for name, _ in columns], rows, note=note)

    def _table(self) -> tuple[Columns, Iterator[list[Sequence[Any]]]]:
        columns, rows = self._rows()
        return columns, blocks_of(rows)

    def _rows(self) -> tuple[Columns, Iterator[list[Any]]]:
        is_distance = any(hit.distance is not None for hit in self)
        columns = columns_of(Hit, is_distance=is_distance)
        return columns, ([getattr(hit, name) for name, _ in columns] for hit in self)


class NearestHits(Hits):
    """The hits of a query, best first, and how they were found.

    Attributes
    ----------
    buckets : int
        Buckets that were looked into; 0 if all signatures were compared at once.
    checked : int
        Candidates that were compared by their signatures; if that were all, their number.
    left : int
        Candidates that were met and not compared, because of the probe limit.
    recall : float or None
        Probability of finding a document exactly as similar as the last hit, or, if there are fewer
        hits than asked for, one at the threshold, or without one any document that shares
        something; more similar ones are found more likely. None if that is not known: the probe
        limit left out candidates, which may be as similar, or there are fewer hits, no threshold
        and no texts that could all be compared.
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        *,
        buckets: int = 0,
        checked: int = 0,
        left: int = 0,
        recall: float | None = None,
    ) -> None:
        super().__init__(hits)
        self.buckets, self.checked, self.left = buckets, checked, left
        self.recall = recall


def choose_method(verify: str | None, params: IndexParams, *, has_signatures: bool = True) -> str:
    """Return the given method, or the best one: exact with texts, else signature, else none.

    Parameters
    ----------
    verify : {"none", "signature", "exact"}, optional
    params : IndexParams
    has_signatures : bool
        Whether the signature rows are on this host.

    Raises
    ------
    ParameterError
        There is no such method.
    TextNotStoredError
        Exact verification of an index without texts.
    SignaturesElsewhereError
        Verification by signatures, or vectors, that are not on this host.
    """
    is_here = has_signatures or not params.keeps_vectors
    if verify is None:
        without_texts = "signature" if has_signatures else "none"
        return "exact" if params.store_text and is_here else without_texts
    if verify not in METHODS:
        raise ParameterError(f"verify is {verify!r}; expected one of {', '.join(METHODS)}")
    if verify == "exact" and not params.store_text:
        bodies, option = ("vectors", "vectors") if params.kind.is_dense else ("texts", "text")
        raise TextNotStoredError(
            f"exact verification needs the {bodies}, and this index was made with --no-{option}",
            hint="use --verify signature",
        )
    if verify != "none" and not (has_signatures if verify == "signature" else is_here):
        what = "by signature needs the signatures"
        if verify == "exact":
            what = "of vectors needs the vectors"
        raise SignaturesElsewhereError(
            f"verification {what}, which lie on the host that writes the index",
            hint="use --verify exact, or none for vectors or without texts, or run it on that host",
        )
    return verify


def level_of(params: IndexParams, threshold: float | None) -> float:
    """Return the level of a threshold; without one, of the index's own.

    Raises
    ------
    ParameterError
        The metric has no such threshold.
    """
    if threshold is None:
        return params.level
    threshold = plain_number(threshold)
    check_threshold(params.metric, threshold)
    return params.curve.level(float(threshold))


def asked_level(store: OpenIndex, threshold: float | None, verify: str | None = None) -> float:
    """Return the level of a caller's threshold, and warn if it is beyond the index's own.

    The index finds such pairs less often than it promises. There is no warning if candidates are
    not verified, because no threshold applies then.
    """
    params = store.params
    if threshold is None:
        return params.level
    level = level_of(params, threshold)
    if level < params.level and not _is_unverified(store, verify):
        warn_beyond(params, level)
    return level


def warn_beyond(params: IndexParams, level: float) -> None:
    """Warn if pairs at a level are found less often than an index of these parameters promises."""
    value = params.curve.value(level)
    if level < params.level and round(params.recall_at(value), 4) < round(params.recall, 4):
        warn_caller(RecallWarning(_recall_below(params, value)))


def below_level(
    store: OpenIndex, below: float | None, *, level: float, verify: str | None = None
) -> float | None:
    """Return the level that answers must stay below; None if a caller gave none.

    Parameters
    ----------
    store : OpenIndex
    below : float or None
        A similarity, or for a distance metric a distance, 0 included: answers are farther than it.
    level : float
        The level of the threshold.
    verify : str, optional

    Raises
    ------
    ParameterError
        The metric has no such similarity, nothing lies between it and the threshold, or candidates
        are not verified, so that their similarities are not known.
    """
    if below is None:
        return None
    if _is_unverified(store, verify):
        raise ParameterError(
            "below needs similarities that were computed, and verify 'none' compares nothing",
            hint="use 'signature' or 'exact', or leave below out",
        )
    params, below = store.params, plain_number(below)
    if not (params.kind.is_distance and below == 0):
        check_threshold(params.metric, below, name="below")
    most = params.curve.level(float(below))
    if most <= level:
        value = params.curve.value(level)
        less, more = ("smaller", "larger") if params.kind.is_distance else ("larger", "smaller")
        raise ParameterError(
            f"below is {below:g} and the threshold {value:g}, so nothing can be an answer",
            hint=f"give below a {less} value, or the threshold a {more} one",
        )
    return most


def _is_unverified(store: OpenIndex, verify: str | None) -> bool:
    """Return whether candidates are taken as they are."""
    if verify is None and not store.params.keeps_texts:  # by files that may be elsewhere
        return not has_signatures(store)
    return verify == "none"


def has_signatures(store: OpenIndex) -> bool:
    """Return whether the signature file is on this host."""
    with store.reading() as snapshot:
        return snapshot.has_signatures


def _recall_below(params: IndexParams, value: float) -> str:
    """Say how many pairs beyond the threshold of an index are found."""
    what, where = ("distance", "above") if params.kind.is_distance else ("similarity", "below")
    recall = params.recall_at(value)
    return (
        f"a pair at {what} {value:g}, {where} this index's threshold of {params.threshold:g}, is "
        f"found with probability {recall:{'.4f' if recall >= 0.00005 else '.1e'}}; an index made, "
        f"or rebanded, with threshold {value:g} finds more"
    )


def check_limits(max_bucket: int | str | None, memory: int = MEMORY) -> None:
    """Raise ParameterError if a limit makes no sense."""
    if max_bucket is not None and max_bucket != "none":
        check_whole("max_bucket", max_bucket, 2)
    check_whole("memory", memory, 2**20, unit=" bytes")


def prefilter(agreement: float, num_perm: int) -> float:
    """Return the share of equal slots below which an exact check does not pay.

    Parameters
    ----------
    agreement : float
        Probability of an equal slot at the threshold.
    num_perm : int
    """
    deviation = math.sqrt(agreement * (1 - agreement) / num_perm)
    return agreement - _SLACK * deviation - 2 / num_perm - 1e-9


def least_share(params: IndexParams, method: str, threshold: float) -> float:
    """Return the share of equal slots below which no pair can reach a threshold level.

    By signature, the level of the share decides, to its last bit; this is a little less.
    """
    agreement = params.curve.probability(threshold)
    return prefilter(agreement, params.num_perm) if method == "exact" else agreement - 1e-7


def least_equal(params: IndexParams, method: str, threshold: float) -> int:
    """Return the fewest equal slots with which :func:`estimate` goes on with a pair."""
    return _least_equal(params.curve, params.num_perm, method, threshold)


@functools.lru_cache(maxsize=64)
def _least_equal(curve: Curve, num_perm: int, method: str, threshold: float) -> int:
    if method == "none":
        return 0
    if method == "signature":
        counts = range(num_perm + 1)
        return bisect_left(counts, threshold, key=lambda n: curve.at_shares([n / num_perm])[0])
    share = prefilter(curve.probability(threshold), num_perm)
    count = max(0, math.ceil(share * num_perm) - 1)
    while count / num_perm < share:
        count += 1
    return count


def band_levels(
    matched: NDArray[np.signedinteger[Any]], params: IndexParams
) -> NDArray[np.float64]:
    """Estimate levels from the number of bands that agree."""
    return params.curve.levels((matched / params.bands) ** (1.0 / params.rows))


def estimate(
    agreement: Overlap, params: IndexParams, *, method: str, threshold: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return levels by signature, or by bands for ``none``, and which pairs to go on with.

    For ``signature`` those at the threshold, for ``exact`` those that their texts may bring there,
    and for ``none`` all.
    """
    if method == "none":
        return band_levels(agreement.matched, params), np.ones(len(agreement.matched), bool)
    shares = agreement.equal / params.num_perm
    levels = params.curve.levels(shares)
    if method == "signature":
        return levels, levels >= threshold
    return levels, shares >= least_share(params, method, threshold)


_TEXTS = 64
"""Texts that are shingled at a time, which bounds the memory."""


def signed_anew(
    snapshot: RowsAndTexts, family: Family, signature_ids: NDArray[np.int64]
) -> NDArray[np.uint16]:
    """Return the rows of some signatures, from the texts of documents that have them.

    Parameters
    ----------
    snapshot : RowsAndTexts
    family : Family
        Of an index with stored texts.
    signature_ids : ndarray of int64, shape (n,)
        Each of a document that exists.

    Returns
    -------
    ndarray of uint16, shape (n, row_words)
        Costs reading, shingling and signing each text: some 0.1 ms a KB.

    Raises
    ------
    DamageError
        A text is missing or cannot be decoded.
    """
    rows = [np.empty((0, family.params.row_words), dtype=np.uint16)]
    points = points_of(snapshot, family, most_bytes=0)
    for start in range(0, len(signature_ids), _TEXTS):
        part = signature_ids[start : start + _TEXTS].tolist()
        points_by_id = points.get(part)
        rows.append(family.sign([points_by_id[signature_id] for signature_id in part]))
    return np.concatenate(rows)


def rows_among(
    snapshot: RowsAndTexts, family: Family, ids: NDArray[np.int64]
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Return distinct rows of signatures, and the place of each id; signed anew if none are here.

    Parameters
    ----------
    snapshot : RowsAndTexts
    family : Family
    ids : ndarray of int64
        Repeated or not.
    """
    if snapshot.has_signatures:
        return snapshot.signatures.among(ids)
    distinct_ids = distinct(ids)
    return signed_anew(snapshot, family, distinct_ids), np.searchsorted(distinct_ids, ids)


_CACHE_BYTES = 128 * 2**20
_ARRAY_BYTES = 256
"""Memory of an array and its place in a dictionary, besides its elements."""
_GROUP_CHARACTERS = 4 * 2**20
_CHECKED = 64
"""Texts of candidates held at a time, whatever memory they take."""


class Points(ABC):
    """Points by signature id."""

    @abstractmethod
    def get(self, signature_ids: list[int], documents: Documents | None = None) -> dict[int, Point]:
        """Return the points of signatures; each signature has a document.

        Parameters
        ----------
        signature_ids : list of int
        documents : dict, optional
            Their documents, if you have looked them up.

        Raises
        ------
        DamageError
            A text or a vector is missing, or is not what was written.
        """

    def levels(
        self, family: Family, point: Point, signature_ids: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the exact levels of one point and signatures; each signature has a document.

        Raises
        ------
        DamageError
            As for :meth:`get`.
        """
        ids = signature_ids.tolist()
        points_of = self.get(ids)
        return family.levels([point] * len(ids), [points_of[signature_id] for signature_id in ids])


def points_of(snapshot: RowsAndTexts, family: Family, *, most_bytes: int = _CACHE_BYTES) -> Points:
    """Return the points of an index.

    Parameters
    ----------
    snapshot : RowsAndTexts
        Its texts, or vectors, are stored.
    family : Family
        Of the same parameters.
    most_bytes : int
        Memory for what is kept.
    """
    if family.params.keeps_vectors:
        return VectorPoints(snapshot)
    return TextPoints(snapshot, family, most_bytes=most_bytes)


class VectorPoints(Points):
    """Rows of the vector file, read as they are asked for."""

    def __init__(self, snapshot: RowsAndTexts) -> None:
        self._snapshot = snapshot

    def get(self, signature_ids: list[int], documents: Documents | None = None) -> dict[int, Point]:
        """Return rows by signature id."""
        rows = self._snapshot.vectors[np.array(signature_ids, dtype=np.int64)]
        return dict(zip(signature_ids, rows, strict=True))

    def levels(
        self, family: Family, point: Point, signature_ids: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the exact levels of one vector and some rows, without an object for each."""
        rows = self._snapshot.vectors[signature_ids]
        # In C order, as the rows are: another order would round the sums in another way.
        points = np.ascontiguousarray(np.broadcast_to(point, rows.shape))
        return family.levels(cast("Any", points), cast("Any", rows))


class TextPoints(Points):
    """Points of texts, the least recently used dropped first.

    Parameters
    ----------
    snapshot : RowsAndTexts
    family : Family
        Of the same parameters.
    most_bytes : int
        Memory for the points; those of the present request are kept whatever they take.
    """

    def __init__(
        self,
        snapshot: RowsAndTexts,
        family: Family,
        *,
        most_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._snapshot = snapshot
        self._family = family
        self._most_bytes = most_bytes
        self._bytes = 0
        self._points: OrderedDict[int, Point] = OrderedDict()

    def get(self, signature_ids: list[int], documents: Documents | None = None) -> dict[int, Point]:
        """Return points by signature id; each miss reads and shingles one text.

        Raises
        ------
        DamageError
            The text of a document is missing.
        """
        points_of: dict[int, Point] = {}
        missing = []
        for signature_id in signature_ids:
            point = self._points.get(signature_id)
            if point is None:
                missing.append(signature_id)
            else:
                self._points.move_to_end(signature_id)
                points_of[signature_id] = point
        for signature_id, point in self._read(missing, documents) if missing else ():
            points_of[signature_id] = self._points[signature_id] = point
            self._bytes += _memory(point)
        while self._bytes > self._most_bytes and len(self._points) > len(signature_ids):
            _, dropped = self._points.popitem(last=False)
            self._bytes -= _memory(dropped)
        if len(points_of) != len(set(signature_ids)):
            lost = min(set(signature_ids) - points_of.keys())
            raise missing_text(lost)
        return points_of

    def _read(
        self, signature_ids: list[int], documents: Documents | None = None
    ) -> Iterator[tuple[int, Point]]:
        """Read texts and shingle them, a few megabytes of text at a time."""
        bodies = self._snapshot.bodies_of_signatures(signature_ids, documents)
        for group in grouped_bodies(bodies):
            points = self._family.points(self._family.contents([body for _, body in group]))
            yield from zip((signature_id for signature_id, _ in group), points, strict=True)


def grouped_bodies(
    bodies: Iterable[tuple[int, Any]], *, most: int | None = None
) -> Iterator[list[tuple[int, Any]]]:
    """Yield (signature_id, body) in lists of a few megabytes of text, or of ``most`` bodies."""
    group: list[tuple[int, Any]] = []
    room = _GROUP_CHARACTERS
    for id_and_body in bodies:
        group.append(id_and_body)
        body = id_and_body[1]
        room -= len(body) if isinstance(body, str) else sum(map(len, body))
        if room <= 0 or len(group) == most:
            yield group
            group, room = [], _GROUP_CHARACTERS
    if group:
        yield group


def contents_of(
    snapshot: RowsAndTexts, family: Family, ids: list[int], documents: Documents
) -> Iterator[tuple[list[int], list[Any]]]:
    """Yield some signatures and the contents of their texts, or vectors, until all are read.

    Raises
    ------
    DamageError
        A text is missing.
    """
    if family.params.keeps_vectors:
        for start in range(0, len(ids), _CHECKED):
            chosen = ids[start : start + _CHECKED]
            yield chosen, list(snapshot.vectors[np.array(chosen, dtype=np.int64)])
        return
    n_read = 0
    for group in grouped_bodies(snapshot.bodies_of_signatures(ids, documents), most=_CHECKED):
        n_read += len(group)
        yield (
            [signature_id for signature_id, _ in group],
            family.contents([body for _, body in group]),
        )
    if n_read < len(ids):
        read = {number for number, _ in snapshot.bodies_of_signatures(ids, documents)}
        raise missing_text(min(set(ids) - read))


def usable_contents(family: Family, bodies: Sequence[Any]) -> list[Any]:
    """Return the canonical contents of bodies that are asked for.

    Raises
    ------
    InputError
        The index does not accept one of the bodies.
    """
    for body in bodies:
        reason = family.refusal(body)
        if reason is not None:
            raise InputError(f"the query cannot be used: {reason}")
    return family.contents(bodies)


def named_error(error: LshdbError, key: str) -> LshdbError:
    """Return what is wrong with the body of a query, with its key."""
    if key and isinstance(error, InputError | UnsplitTextError):
        error.message = f"query {key!r}: {error.message}"
        error.args = (error.message,)
    return error


def missing_text(signature_id: int) -> DamageError:
    """Return the error for a document without its text."""
    return DamageError(f"the text of signature {signature_id} is missing", hint="run lshdb check")


def _memory(point: Point) -> int:
    arrays = point if isinstance(point, tuple) else (point,)
    return sum(array.nbytes + _ARRAY_BYTES for array in arrays)
