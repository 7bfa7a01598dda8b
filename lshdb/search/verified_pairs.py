"""Candidate pairs of signatures -> verified pairs of signatures, each once, in bounded memory.

A pair that shares several buckets is taken in the first band in which its signatures agree or, if
large buckets are not compared, in the first such band with a small bucket (:class:`HotBuckets`
looks single buckets up by key). The two rows and those buckets decide it, so no pair has to be
remembered, and one that shares a bucket only by a collision of the bucket's hash is dropped on the
way.

If the signature file lies on another host there are no rows. Pairs are then sorted on disk, which
gives each once, with the number of buckets that it shares.

Pairs that pass by their signatures are gathered before texts are read: few at first, so that the
first answers come at once, then twice as many each time, as memory allows. The gathered pairs are
verified component by component, so that each text is read, normalised and shingled once for its
component, however many pairs it is in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.disksort.sorted_numbers import PairCounts
from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import Candidates, LeftOut, RowSource, candidates
from lshdb.search.components import component_roots
from lshdb.search.verification import (
    MEMORY,
    Points,
    band_levels,
    estimate,
    least_share,
    points_of,
    signed_anew,
)
from lshdb.signatures.banding import bucket_keys, compare_rows, matching_bands
from lshdb.signatures.family import Family
from lshdb.storage.tables.edges import Edges
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["HotBuckets", "check_exactly", "find_links"]

_REMEMBERED = 500_000

Ids = NDArray[np.int64]


class HotBuckets:
    """The buckets with more than ``most`` signatures that a document has.

    Parameters
    ----------
    snapshot : Snapshot
    params : IndexParams
    most : int
    """

    def __init__(self, snapshot: Snapshot, params: IndexParams, most: int) -> None:
        self._snapshot = snapshot
        self._params = params
        self._most = most
        self._dead = snapshot.edges.dead()
        self._known: dict[int, bool] = {}

    def are_all_before(
        self, left: NDArray[np.uint32], right: NDArray[np.uint32], bands: Ids
    ) -> NDArray[np.bool_]:
        """Return which pairs agree in a band, and in no band before it with a small bucket.

        Parameters
        ----------
        left, right : ndarray of uint32, shape (n, row_words)
            Their signatures.
        bands : ndarray of int64, shape (n,)
            The band of each.

        Returns
        -------
        ndarray of bool, shape (n,)
            One look-up for each bucket that is met for the first time.
        """
        agree = matching_bands(left, right, **self._params.cut)
        before = agree & (np.arange(self._params.bands) < bands[:, None])
        keys = bucket_keys(left, **self._params.cut)
        is_hot = np.zeros_like(before)
        is_hot[before] = self._are(keys[before])
        result: NDArray[np.bool_] = (is_hot == before).all(axis=1)
        result &= agree[np.arange(len(bands)), bands]
        return result

    def _are(self, keys: Ids) -> NDArray[np.bool_]:
        asked = [key for key in distinct(keys).tolist() if key not in self._known]
        if asked:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
                asked = distinct(keys).tolist()
            self._look_up(np.array(asked, dtype=np.int64))
        return np.array([self._known[key] for key in keys.tolist()], dtype=bool)

    def _look_up(self, keys: Ids) -> None:
        found, members = self._snapshot.postings.of(keys)
        found = found[~np.isin(members, self._dead)]
        there, sizes = np.unique(found, return_counts=True)
        self._known.update(dict.fromkeys(keys.tolist(), False))
        self._known.update(zip(there.tolist(), (sizes > self._most).tolist(), strict=True))


_FIRST_PAIRS = 16_384
_PAIR_BYTES = 96
"""Bytes of a gathered pair: two ids and an estimate, and the cost of sorting them by group."""
_EXACT_PAIRS = 1024
_SIGNING_COST = 8
"""Time to read a text and sign it again, relative to reading the postings of a signature.

Measured as 4 for texts of 1 KB in a database that was in memory; texts may be longer than that.
"""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: spreads consecutive numbers (Knuth, TAOCP 3, section 6.4)."""


def find_links(
    snapshot: Snapshot,
    family: Family,
    *,
    threshold: float,
    method: str,
    new: Ids | None = None,
    most: int | None = None,
    link: bool = False,
    left_out: LeftOut,
    memory: int = MEMORY,
    workers: int = 1,
) -> Iterator[Edges]:
    """Yield all pairs of signatures at or above the threshold, each once, as they are found.

    Parameters
    ----------
    snapshot : Snapshot
        Open for as long as the iteration lasts.
    family : Family
    threshold : float
        Does not apply to method ``none``.
    method : {"none", "signature", "exact"}
    new : ndarray of int64, optional
        Sorted signature ids; only pairs with one of them.
    most : int, optional
        The largest bucket of which all pairs are candidates.
    link : bool
        Join larger buckets through leaders instead of leaving them out; a pair may then come twice.
    left_out : LeftOut
        Filled on the way.
    memory : int
        Bytes for gathered pairs and shingles of texts. What SQL sorts beyond its own share goes to
        temporary files.
    workers : int
        Threads that read buckets.
    """
    params = family.params
    blocks = candidates(
        snapshot,
        params,
        new=new,
        most=most,
        like=least_share(params, method, threshold) if link else None,
        left_out=left_out,
        row_source=None if new is None else _row_source(snapshot, family, new),
        workers=workers,
    )
    found: Iterator[Edges]
    if snapshot.has_signatures:
        hot = None if most is None else HotBuckets(snapshot, params, most)
        check = _SignatureCheck(snapshot, params, method, threshold, memory, hot)
        found = (check(block) for block in blocks)
    else:
        found = _by_buckets(snapshot, params, blocks, memory)
    if method != "exact":
        yield from (links for links in found if len(links))
        return
    points = points_of(snapshot, family, most_bytes=memory // 2)
    for gathered in _gathered(found, memory // 4 // _PAIR_BYTES):
        yield from check_exactly(points, family, gathered, threshold)


def _row_source(snapshot: Snapshot, family: Family, new: Ids) -> RowSource | None:
    """Return where rows of new signatures come from; None if reading all postings is best."""
    if snapshot.has_signatures:
        signatures = snapshot.signatures
        return lambda _, ids: signatures[ids]
    if family.params.keeps_texts and len(new) * _SIGNING_COST < snapshot.n_signatures:
        return lambda reader, ids: signed_anew(reader, family, ids)
    return None


def _by_buckets(
    snapshot: Snapshot, params: IndexParams, blocks: Iterator[Candidates], memory: int
) -> Iterator[Edges]:
    """Turn candidate pairs into single ones, with an estimate from the shared buckets.

    All candidates are read before the first is given.
    """
    with PairCounts(snapshot.n_signatures, memory=memory // 4) as tally:
        for block in blocks:
            tally.put(block.left, block.right)
        for left, right, shared in tally.in_order():
            yield Edges(left, right, band_levels(shared, params))


class _SignatureCheck:
    """Keeps candidate pairs whose first agreeing band this is and whose signatures suffice.

    Near-duplicates share most of their buckets, so a pair comes again and again. The last some
    hundred thousand decided pairs are remembered, each in the one place that its hash gives it, and
    skipped. A pair that was overwritten meanwhile is compared again, with the same answer.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        params: IndexParams,
        method: str,
        threshold: float,
        memory: int,
        hot: HotBuckets | None,
    ) -> None:
        self._snapshot = snapshot
        self._hot = hot
        self._params = params
        self._method = method
        self._threshold = threshold
        self._bits = max(10, (memory // 16 // 8).bit_length() - 1)
        # No pair is 0: its left id is below its right one.
        self._decided = np.zeros(2**self._bits, dtype=np.uint64)

    def __call__(self, pairs: Candidates) -> Edges:
        left, right, bands = pairs.left, pairs.right, pairs.bands
        names = left.astype(np.uint64) << np.uint64(32) | right.astype(np.uint64)
        places = names * _SPREAD >> np.uint64(64 - self._bits)
        fresh = (self._decided[places] != names) | (bands < 0)
        left, right, bands = left[fresh], right[fresh], bands[fresh]
        rows, ids = self._snapshot.signatures.among(np.concatenate([left, right]))
        params = self._params
        agreement = compare_rows(rows, ids[: len(left)], rows, ids[len(left) :], **params.cut)
        keep = (agreement.first == bands) | (bands < 0)
        later = np.flatnonzero((agreement.first >= 0) & (agreement.first < bands))
        if self._hot is not None and len(later):
            one, other = ids[later], ids[len(left) + later]
            keep[later] = self._hot.are_all_before(rows[one], rows[other], bands[later])
        if self._snapshot.n_signatures <= 2**32:
            self._decided[places[fresh][keep]] = names[fresh][keep]
        estimates, suffices = estimate(
            agreement, params, method=self._method, threshold=self._threshold
        )
        keep &= suffices
        return Edges(left[keep], right[keep], estimates[keep])


def _gathered(found: Iterator[Edges], most: int) -> Iterator[Edges]:
    """Join blocks into ever larger ones, up to ``most`` pairs."""
    wanted = min(_FIRST_PAIRS, most)
    held: list[Edges] = []
    size = 0
    for links in found:
        held.append(links)
        size += len(links)
        if size >= wanted:
            yield _joined(held)
            held, size = [], 0
            wanted = min(2 * wanted, most)
    if size:
        yield _joined(held)


def _joined(held: list[Edges]) -> Edges:
    return Edges(
        np.concatenate([links.left for links in held]),
        np.concatenate([links.right for links in held]),
        np.concatenate([links.similarities for links in held]),
    )


def check_exactly(
    points: Points, family: Family, links: Edges, threshold: float
) -> Iterator[Edges]:
    """Yield the pairs that hold by their texts or vectors, group by group.

    Each text is read once, if those of a group fit into the points' memory.
    """
    order = np.lexsort((links.right, links.left, component_roots(links.left, links.right)))
    for start in range(0, len(order), _EXACT_PAIRS):
        places = order[start : start + _EXACT_PAIRS]
        left, right = links.left[places], links.right[places]
        ids = np.stack([left, right], axis=1).reshape(-1).tolist()
        found = points.get(list(dict.fromkeys(ids)))
        levels = family.levels([found[one] for one in ids[0::2]], [found[one] for one in ids[1::2]])
        keep = levels >= threshold
        if keep.any():
            yield Edges(left[keep], right[keep], levels[keep])
