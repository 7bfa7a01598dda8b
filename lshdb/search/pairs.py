"""Candidate pairs of signatures -> verified pairs, each once -> pairs of documents, streamed.

Documents with one content share a signature: they are pairs at 1.0, and each is in every pair of
their signature. Only the last step expands signatures into documents.

A pair that shares several buckets is taken in the first band in which its signatures agree or, if
large buckets are not compared, in the first such band with a small bucket (:class:`HotBuckets` has
the keys of the others). The two rows and those buckets decide it, so no pair has to be
remembered, and one that shares a bucket only by a collision of the bucket's hash is dropped on the
way.

If the signature file lies on another host there are no rows. Pairs are then sorted on disk, which
gives each once, with the number of buckets that it shares.

Pairs that pass by their signatures are gathered before texts are read: few at first, so that the
first answers come at once, then twice as many each time, as memory allows. The gathered pairs are
verified component by component, so that each text is read, normalised and shingled once for its
component, however many pairs it is in. Memory does not grow with the number of pairs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import MEASURES, check_choice, check_flag, check_whole
from lshdb.errors import ParameterError
from lshdb.handle import Handle
from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import (
    Candidates,
    HotBuckets,
    LeftOut,
    RowSource,
    candidates,
)
from lshdb.search.exact_levels import check_exactly, levels_between
from lshdb.search.pair_columns import LINES, Pair, PairColumns, PairListing, columns_of
from lshdb.search.since import Since, check_since, first_new_batch
from lshdb.search.verification import (
    MEMORY,
    asked_level,
    band_levels,
    below_level,
    check_limits,
    choose_method,
    estimate,
    least_share,
    level_of,
    signed_anew,
)
from lshdb.signatures.banding import (
    Overlap,
    first_agreements,
)
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import Edges
from lshdb.storage.transactions.index_state import IndexState, OpenIndex
from lshdb.threads import choose_workers, work_ahead

if TYPE_CHECKING:
    from lshdb.search.agreement import Agreement
    from lshdb.search.loss import Loss, PairCount

__all__ = [
    "HotBuckets",
    "PairSearch",
    "find_candidates",
    "find_links",
    "find_pairs",
]


class PairSearch(PairListing):
    """A search for pairs, with counts of the candidates that it left out.

    Attributes
    ----------
    left_out : LeftOut
        For the last iteration that has begun; complete after its last pair.
    lost : PairCount or None
        Pairs that ``max_bucket`` loses; known after the last pair.
    """

    def __init__(
        self,
        store: OpenIndex,
        family: Family,
        handle: Handle,
        *,
        threshold: float | None,
        verify: str | None,
        since: Since,
        max_bucket: int | str | None,
        memory: int,
        workers: int | None,
        below: float | None = None,
        agree: str | Iterable[str] = (),
        differ: str | Iterable[str] = (),
        cross: tuple[str, str] | None = None,
        ignore_same_path: bool = False,
        limit: int | None = None,
        measure: str = "similarity",
    ) -> None:
        super().__init__(
            handle, threshold=threshold, below=below, verify=verify, since=since,
            max_bucket=max_bucket, cross=cross, limit=limit, measure=measure,
        )  # fmt: skip
        check_choice("measure", measure, MEASURES)
        self._is_part = measure == "containment"
        self._between = _Between.of(
            cross, ignore_same_path=ignore_same_path, is_directed=self._is_part
        )
        self._limit = None if limit is None else check_whole("limit", limit, 1)
        if self._is_part:
            from lshdb.search.all_texts import check_containment

            check_containment(store.params, verify)
            if isinstance(max_bucket, int):
                raise ParameterError(
                    "containment looks into no buckets, so max_bucket can leave none out",
                    hint="leave max_bucket out",
                )
            level = level_of(store.params, threshold)
        else:
            level = asked_level(store, threshold, verify)
        self._below = below_level(store, below, level=level, verify=verify)
        choose_method(verify, store.params)
        check_limits(max_bucket, memory)
        check_since(store, since)
        self._agreement: Agreement | None = None
        if agree != () or differ != ():
            from lshdb.search.agreement import check_agreement

            self._agreement = check_agreement(store, agree, differ)
        self._threshold, self._verify, self._since = threshold, verify, since
        self._most = max_bucket if isinstance(max_bucket, int) else None
        self._memory, self._workers = memory, choose_workers(workers)
        self._n_found = 0
        self.left_out = LeftOut(self._most)
        self.lost: PairCount | None = None

    def _columns(self, store: OpenIndex, family: Family) -> Generator[PairColumns]:
        """Yield the pairs of one state, then work out what was lost."""
        level, most = level_of(store.params, self._threshold), self._most
        self.lost, self.left_out, self.newest_batch = None, LeftOut(most), None
        left_out, n_found = self.left_out, 0
        with store.reading() as snapshot:
            method = choose_method(
                self._verify, store.params, has_signatures=snapshot.has_signatures
            )
            since, large = first_new_batch(snapshot, self._since), None
            if most is not None:
                from lshdb.search.loss import DocumentCounts, PairFrame, lost_by

                large = PairFrame(DocumentCounts.of(snapshot, since=since))
                left_out.large = large
            if self._is_part:
                from lshdb.search.all_texts import contained_pairs

                pairs = contained_pairs(
                    snapshot,
                    family,
                    threshold=level,
                    since=since,
                    memory=self._memory,
                    workers=self._workers,
                )
            else:
                pairs = find_pairs(
                    snapshot,
                    family,
                    threshold=level,
                    method=method,
                    since=since,
                    most=most,
                    left_out=left_out,
                    memory=self._memory,
                    workers=self._workers,
                    # Copies are never below. What a cap loses is a share of all pairs, copies
                    # included.
                    with_copies=self._below is None or large is not None,
                )
            room = self._limit
            with closing(pairs):  # before the snapshot that it reads
                for columns in pairs:
                    n_found += len(columns)
                    block = self._wanted(snapshot, columns)
                    if room is not None:
                        block = block.first(room)
                        room -= len(block)
                    if len(block):
                        yield block
                        store.require_open()
                    if room == 0:
                        return
            if large is not None:
                lost = lost_by(snapshot, family, left_out, large, threshold=level, method=method)
                left_out.large = None
                # Pairs that are then left out count for what a cap loses.
                self._n_found, self.lost = n_found, lost
            self.newest_batch = snapshot.newest_batch()

    def _wanted(self, snapshot: IndexState, columns: PairColumns) -> PairColumns:
        """Return the pairs that the question asks for."""
        below, between, agreement = self._below, self._between, self._agreement
        if below is None and between is None and agreement is None:
            return columns
        pairs = columns.pairs()
        if below is not None:
            pairs = (pair for pair in pairs if pair.similarity < below)
        if between is not None:
            pairs = between.those_of(pairs)
        if agreement is not None:
            from lshdb.search.agreement import agreeing_pairs

            pairs = agreeing_pairs(snapshot, agreement, pairs)
        return columns.with_pairs(pairs)

    @property
    def loss(self) -> Loss | None:
        """What ``max_bucket`` costs; None before the last pair, or if it cannot be told."""
        from lshdb.search.loss import PairCount, loss_of

        n_pairs = PairCount(self._n_found, self._n_found, self._n_found, True, 0)
        return None if self.lost is None else loss_of(self.lost, n_pairs)

    @property
    def recall_lost(self) -> float | None:
        """The share of all pairs that ``max_bucket`` loses: ``loss.share``."""
        loss = self.loss
        return None if loss is None else loss.share


_SIGN = re.compile(r"[^\w]\Z")


@dataclass(frozen=True, slots=True)
class _Between:
    """Which pairs are between two trees of keys."""

    first: str
    second: str
    ignore_same_path: bool
    is_directed: bool

    @classmethod
    def of(
        cls, cross: tuple[str, str] | None, *, ignore_same_path: bool, is_directed: bool
    ) -> _Between | None:
        """Check what a caller gave; a prefix that ends in no sign is a folder.

        Raises
        ------
        ParameterError
        """
        check_flag("ignore_same_path", ignore_same_path)
        if cross is None:
            if ignore_same_path:
                raise ParameterError(
                    "ignore_same_path compares paths below two prefixes, and cross is not given",
                    hint='give cross=("old", "new"), or --cross old new',
                )
            return None
        is_two = isinstance(cross, tuple | list) and len(cross) == 2
        if not is_two or not all(isinstance(prefix, str) and prefix for prefix in cross):
            raise ParameterError(f"cross is {cross!r:.80}; expected two prefixes of keys")
        first, second = (prefix if _SIGN.search(prefix) else f"{prefix}/" for prefix in cross)
        return cls(first, second, ignore_same_path, is_directed)

    def those_of(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Yield the pairs that are wanted, with the key under the first prefix first."""
        return (pair for pair in map(self.take, pairs) if pair is not None)

    def take(self, pair: Pair) -> Pair | None:
        """Return the pair with the key under the first prefix first; None if it is not wanted.

        A directed pair is not turned around.
        """
        if not (pair.key1.startswith(self.first) and pair.key2.startswith(self.second)):
            is_turned = pair.key2.startswith(self.first) and pair.key1.startswith(self.second)
            if self.is_directed or not is_turned:
                return None
            pair = replace(pair, key1=pair.key2, key2=pair.key1)
        paths = pair.key1.removeprefix(self.first), pair.key2.removeprefix(self.second)
        return None if self.ignore_same_path and paths[0] == paths[1] else pair


def find_pairs(
    snapshot: IndexState,
    family: Family,
    *,
    threshold: float,
    method: str,
    since: int | None = None,
    most: int | None = None,
    left_out: LeftOut | None = None,
    memory: int = MEMORY,
    workers: int = 1,
    with_copies: bool = True,
) -> Generator[PairColumns]:
    """Yield all pairs at or above the threshold, each once, as they are found.

    Parameters
    ----------
    snapshot : IndexState
        Open for as long as the iteration lasts.
    family : Family
    threshold : float
        Does not apply to method ``none``.
    method : {"none", "signature", "exact"}
    since : int, optional
        Only pairs with a document of this batch or a later one.
    most : int, optional
        Leave out larger buckets, and larger groups of exact copies.
    left_out : LeftOut, optional
        Filled on the way.
    memory, workers : int
        See :func:`~lshdb.search.pairs.find_links`.
    with_copies : bool
        Whether to yield documents with one signature.
    """
    left_out = LeftOut() if left_out is None else left_out
    best = family.params.curve.best
    is_distance = family.params.kind.is_distance
    new = None if since is None else snapshot.new_signatures(since)
    copies = _copies(snapshot, since, new, most, left_out) if with_copies else ()
    for keys1, keys2 in copies:
        yield PairColumns(keys1, keys2, [best] * len(keys1), method, is_distance)
    blocks = find_links(
        snapshot,
        family,
        threshold=threshold,
        method=method,
        new=new,
        most=most,
        left_out=left_out,
        memory=memory,
        workers=workers,
    )
    for links in blocks:
        yield from columns_of(snapshot, links, method, since=since, is_distance=is_distance)


def _copies(
    snapshot: IndexState,
    since: int | None,
    new: NDArray[np.int64] | None,
    most: int | None,
    left_out: LeftOut,
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the keys of documents that share a signature, as two columns of some at a time."""
    keys1: list[str] = []
    keys2: list[str] = []
    for _, group in itertools.groupby(snapshot.copies(new), key=itemgetter(0)):
        members = [(key, since is None or batch >= since) for _, _, key, batch in group]
        if most is not None and len(members) > most:
            n_old = 0 if since is None else sum(not is_new for _, is_new in members)
            left_out.copy_groups += 1
            left_out.copy_pairs += _n_pairs(len(members)) - _n_pairs(n_old)
            continue
        keys = [key for key, _ in members]
        new_keys = keys if since is None else [key for key, is_new in members if is_new]
        n_new_before = 0
        for place, (key, is_new) in enumerate(members):
            n_new_before += is_new
            partners, first = (keys, place + 1) if is_new else (new_keys, n_new_before)
            while first < len(partners):
                block = partners[first : first + LINES - len(keys1)]
                first += len(block)
                keys1 += [key] * len(block)
                keys2 += block
                if len(keys1) == LINES:
                    yield keys1, keys2
                    keys1, keys2 = [], []
    if keys1:
        yield keys1, keys2


def _n_pairs(size: int) -> int:
    return size * (size - 1) // 2


Ids = NDArray[np.int64]

_FIRST_PAIRS = 16_384
_PAIR_BYTES = 96
"""Bytes of a gathered pair: two ids and an estimate, and the cost of sorting them by group."""
_SIGNING_COST = 8
"""Time to read a text and sign it again, relative to reading the postings of a signature.

Measured as 4 for texts of 1 KB in a database that was in memory; texts may be longer than that.
"""


def find_links(
    snapshot: IndexState,
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
    snapshot : IndexState
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
        Threads that read buckets, and that shingle texts.
    """
    blocks = find_candidates(
        snapshot, family, threshold=threshold, method=method, new=new, most=most, link=link,
        left_out=left_out, memory=memory, workers=workers,
    )  # fmt: skip
    if method != "exact":
        yield from blocks
        return
    levels = levels_between(snapshot, family, most_bytes=memory // 2, workers=workers)
    for gathered in _gathered(blocks, memory // 4 // _PAIR_BYTES):
        yield from check_exactly(levels, gathered, threshold)


def find_candidates(
    snapshot: IndexState,
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
    """Yield the pairs that share a bucket and go on to verification, each once.

    Parameters
    ----------
    snapshot, family, threshold, new, most, link, left_out, memory, workers
        See :func:`find_links`.
    method : {"none", "signature", "exact"}
        For ``exact``, those whose texts may bring them to the threshold; their similarity is the
        estimate.
    """
    params = family.params
    hot = HotBuckets() if most is not None and snapshot.has_signatures else None
    blocks = candidates(
        snapshot,
        params,
        new=new,
        most=most,
        like=least_share(params, method, threshold) if link else None,
        left_out=left_out,
        hot=hot,
        row_source=None if new is None else _row_source(snapshot, family, new),
        workers=workers,
    )
    checked: Iterator[Edges]
    if snapshot.has_signatures:
        check = _SignatureCheck(snapshot, params, method, threshold, hot)
        checked = work_ahead(check, blocks, workers=workers)
    else:
        checked = _by_buckets(snapshot, params, blocks, memory)
    yield from (links for links in checked if len(links))


def _row_source(snapshot: IndexState, family: Family, new: Ids) -> RowSource | None:
    """Return where rows of new signatures come from; None if reading all postings is best."""
    if snapshot.has_signatures:
        signatures = snapshot.signatures
        return lambda _, ids: signatures[ids]
    if family.params.keeps_texts and len(new) * _SIGNING_COST < snapshot.n_signatures:
        return lambda reader, ids: signed_anew(reader, family, ids)
    return None


def _by_buckets(
    snapshot: IndexState, params: IndexParams, blocks: Iterator[Candidates], memory: int
) -> Iterator[Edges]:
    """Turn candidate pairs into single ones, with an estimate from the shared buckets.

    All candidates are read before the first is given.
    """
    from lshdb.disksort.sorted_numbers import PairTally

    with PairTally(snapshot.n_signatures, memory=memory // 4) as tally:
        for block in blocks:
            left, right, _ = block.pairs()
            tally.put(left, right)
        for left, right, shared in tally.in_order():
            yield Edges(left, right, band_levels(shared, params))


class _SignatureCheck:
    """Keeps candidate pairs whose first agreeing band this is and whose signatures suffice."""

    def __init__(
        self,
        snapshot: IndexState,
        params: IndexParams,
        method: str,
        threshold: float,
        hot: HotBuckets | None,
    ) -> None:
        self._snapshot = snapshot
        self._hot = hot
        self._params = params
        self._method = method
        self._threshold = threshold
        equal = np.arange(params.num_perm + 1, dtype=np.int32)
        _, self._suffices = estimate(
            Overlap(equal, equal, equal), params, method=method, threshold=threshold
        )

    def __call__(self, block: Candidates) -> Edges:
        """Return the pairs of a block that count; from any thread."""
        params = self._params
        columns = self._snapshot.signatures.read_in_place(
            lambda *source: first_agreements(
                (block.bands, block.sizes, block.members, block.marks),
                source,
                params.row_words,
                self._suffices,
                hot=None if self._hot is None else self._hot.keys,
                **params.cut,
            ),
            len(block.sizes),
        )
        left, right, equal, matched = np.ascontiguousarray(columns.T)
        overlap = Overlap(*(column.astype(np.int32) for column in (equal, matched, matched[:0])))
        estimates, _ = estimate(overlap, params, method=self._method, threshold=self._threshold)
        return Edges(left, right, estimates)


def _gathered(blocks: Iterator[Edges], most: int) -> Iterator[Edges]:
    """Join blocks into ever larger ones, up to ``most`` pairs."""
    n_wanted = min(_FIRST_PAIRS, most)
    gathered: list[Edges] = []
    size = 0
    for links in blocks:
        gathered.append(links)
        size += len(links)
        if size >= n_wanted:
            yield _joined(gathered)
            gathered, size = [], 0
            n_wanted = min(2 * n_wanted, most)
    if size:
        yield _joined(gathered)


def _joined(blocks: list[Edges]) -> Edges:
    return Edges(
        np.concatenate([links.left for links in blocks]),
        np.concatenate([links.right for links in blocks]),
        np.concatenate([links.similarities for links in blocks]),
    )
