"""Postings -> near-duplicate pairs, streamed.

Buckets with more than one posting come from SQL, grouped and in order of bucket key; the pairs of a
bucket are compared on their signature rows, in blocks. A pair that shares several buckets is given
in the first band in which its rows agree and passed over in the others, so each comes once and
nothing has to be remembered. Texts are read only for pairs that pass the signatures.

Documents with one content share a signature, so the pairs here are of signatures; they become
pairs of documents at the very end, and documents of one signature are pairs at 1.0.

With ``since``, the buckets are those of the new documents' signatures, looked up by key: the cost
grows with what came in and not with the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.banding import BUCKET_BITS, bucket_keys, compare_rows
from lshdb.params import IndexParams
from lshdb.search.verification import ShingleCache, band_similarity, exact_similarity, prefilter
from lshdb.shingling import Shingler
from lshdb.storage.snapshot import Buckets, Snapshot

__all__ = ["Pair", "find_pairs"]

_BLOCK_PAIRS = 16_384
_PROBE_SIGNATURES = 2_000
_EXACT_PAIRS = 256
_NEVER = np.iinfo(np.int64).max

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two documents and how similar they are.

    Attributes
    ----------
    key1, key2 : str
        The one that came in first, and the other.
    similarity : float
    method : {"none", "signature", "exact"}
        What gave the similarity.
    """

    key1: str
    key2: str
    similarity: float
    method: str


def find_pairs(
    snapshot: Snapshot,
    params: IndexParams,
    shingler: Shingler,
    *,
    threshold: float,
    method: str,
    since: int | None = None,
) -> Iterator[Pair]:
    """All pairs at or above the threshold, each once, as they are found.

    Parameters
    ----------
    snapshot : Snapshot
        Open for as long as the iteration lasts.
    params : IndexParams
    shingler : Shingler
        Of the same parameters.
    threshold : float
        Does not apply to method ``none``.
    method : {"none", "signature", "exact"}
    since : int, optional
        Only pairs with a document of this batch or a later one.
    """
    yield from _copies(snapshot, method, since)
    new = None if since is None else snapshot.new_signatures(since)
    buckets = snapshot.shared_buckets() if new is None else _buckets_of_new(snapshot, params, new)
    verifier = _Verifier(snapshot, params, shingler, threshold=threshold, method=method)
    for left, right, bands in _blocks(_candidates(buckets, new)):
        yield from _documents(snapshot, verifier.verify(left, right, bands), method, since)


def _copies(snapshot: Snapshot, method: str, since: int | None) -> Iterator[Pair]:
    """Pairs of documents that share a signature."""
    for signature_id in snapshot.shared_signatures(since):
        members = list(snapshot.documents_of_signature(signature_id))
        for place, (_, key1, batch1) in enumerate(members):
            for _, key2, batch2 in members[place + 1 :]:
                if since is None or batch1 >= since or batch2 >= since:
                    yield Pair(key1, key2, 1.0, method)


def _buckets_of_new(snapshot: Snapshot, params: IndexParams, new: Ids) -> Iterator[Buckets]:
    """The shared buckets that hold a new signature, looked up some signatures at a time.

    A bucket with new signatures of several look-ups is given at the first of them alone.
    """
    for start in range(0, len(new), _PROBE_SIGNATURES):
        rows = snapshot.signatures[new[start : start + _PROBE_SIGNATURES]]
        probed = np.unique(bucket_keys(rows, bands=params.bands, rows=params.rows))
        found, members = snapshot.postings(probed)
        order = np.lexsort((members, found))
        found, members = found[order], members[order]
        keys, starts, sizes = np.unique(found, return_index=True, return_counts=True)
        oldest_new = np.minimum.reduceat(np.where(_contains(new, members), members, _NEVER), starts)
        wanted = (sizes > 1) & (oldest_new >= new[start])
        if wanted.any():
            yield Buckets(keys[wanted], sizes[wanted], members[np.repeat(wanted, sizes)])


def _contains(values: Ids, wanted: Ids) -> NDArray[np.bool_]:
    """Which of ``wanted`` are among ``values``, which are sorted."""
    places = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    contained: NDArray[np.bool_] = values[places] == wanted
    return contained


def _candidates(blocks: Iterator[Buckets], new: Ids | None) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Pairs of the buckets' members, smaller id first: (left ids, right ids, band).

    Buckets of one size are paired together, in one step; a very large one is given piece by piece.
    With ``new``, only pairs with a new signature.
    """
    for buckets in blocks:
        bands = buckets.keys >> BUCKET_BITS & 255
        starts = np.cumsum(buckets.sizes) - buckets.sizes
        for size in np.unique(buckets.sizes).tolist():
            of_size = np.flatnonzero(buckets.sizes == size)
            step = max(1, _BLOCK_PAIRS // size**2)
            for few in (of_size[first : first + step] for first in range(0, len(of_size), step)):
                members = np.sort(buckets.members[starts[few, None] + np.arange(size)], axis=1)
                for left, right, of_bucket in _pairs_of(members):
                    if new is not None:
                        wanted = _contains(new, left) | _contains(new, right)
                        left, right, of_bucket = left[wanted], right[wanted], of_bucket[wanted]
                    yield left, right, bands[few][of_bucket]


def _pairs_of(members: Ids) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Pairs within each row: (left, right, row number); one left column a time in a long row."""
    size = members.shape[1]
    numbers = np.arange(len(members))
    if size * size <= _BLOCK_PAIRS:
        first, second = np.triu_indices(size, 1)
        left, right = members[:, first].reshape(-1), members[:, second].reshape(-1)
        yield left, right, np.repeat(numbers, len(first))
        return
    for place in range(size - 1):
        rest = size - place - 1
        left = np.repeat(members[:, place], rest)
        yield left, members[:, place + 1 :].reshape(-1), np.repeat(numbers, rest)


def _blocks(pieces: Iterator[tuple[Ids, Ids, Ids]]) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Join small pieces into blocks that are worth a step of verification."""
    joined: list[tuple[Ids, Ids, Ids]] = []
    size = 0
    for piece in pieces:
        joined.append(piece)
        size += len(piece[0])
        if size >= _BLOCK_PAIRS:
            yield _join(joined)
            joined, size = [], 0
    if size:
        yield _join(joined)


def _join(pieces: list[tuple[Ids, Ids, Ids]]) -> tuple[Ids, Ids, Ids]:
    left, right, bands = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return left, right, bands


@dataclass(frozen=True, slots=True)
class _Found:
    left: Ids
    right: Ids
    similarities: NDArray[np.float64]


class _Verifier:
    """Candidate pairs of signatures -> those that hold, with similarity."""

    def __init__(
        self,
        snapshot: Snapshot,
        params: IndexParams,
        shingler: Shingler,
        *,
        threshold: float,
        method: str,
    ) -> None:
        self._params = params
        self._threshold = threshold
        self._method = method
        self._signatures = snapshot.signatures
        self._cache = ShingleCache(snapshot, params, shingler)
        self._snapshot = snapshot

    def verify(self, left: Ids, right: Ids, bands: Ids) -> _Found:
        """Keep the pairs whose first agreeing band this is and whose similarity suffices."""
        params = self._params
        agreement = compare_rows(
            self._signatures, left, self._signatures, right, bands=params.bands, rows=params.rows
        )
        keep = agreement.first == bands
        estimates = (
            band_similarity(agreement.matched, params)
            if self._method == "none"
            else agreement.equal / params.num_perm
        )
        if self._method == "signature":
            keep &= estimates >= self._threshold
        elif self._method == "exact":
            keep &= estimates >= prefilter(self._threshold, params.num_perm)
        found = _Found(left[keep], right[keep], estimates[keep])
        return self._check_exactly(found) if self._method == "exact" else found

    def _check_exactly(self, found: _Found) -> _Found:
        similarities = np.empty(len(found.left))
        # In order of the left text, a few at a time: the cache then holds what the next ones need.
        order = np.lexsort((found.right, found.left))
        for start in range(0, len(order), _EXACT_PAIRS):
            places = order[start : start + _EXACT_PAIRS]
            left, right = found.left[places].tolist(), found.right[places].tolist()
            # Signatures whose documents were all replaced have postings, but no text.
            alive = self._snapshot.documents_of_signatures({*left, *right})
            sets = self._cache.get(list(alive))
            similarities[places] = [
                exact_similarity(sets[one], sets[other]) if one in sets and other in sets else -1.0
                for one, other in zip(left, right, strict=True)
            ]
        keep = similarities >= self._threshold
        return _Found(found.left[keep], found.right[keep], similarities[keep])


def _documents(snapshot: Snapshot, found: _Found, method: str, since: int | None) -> Iterator[Pair]:
    """Pairs of signatures -> pairs of the documents that have them."""
    ids = np.unique(np.concatenate([found.left, found.right])).tolist()
    documents = snapshot.documents_of_signatures(ids)
    for one, other, similarity in zip(
        found.left.tolist(), found.right.tolist(), found.similarities.tolist(), strict=True
    ):
        for doc1, key1, batch1 in documents.get(one, ()):
            for doc2, key2, batch2 in documents.get(other, ()):
                if since is not None and batch1 < since and batch2 < since:
                    continue
                if doc1 < doc2:
                    yield Pair(key1, key2, similarity, method)
                else:
                    yield Pair(key2, key1, similarity, method)
