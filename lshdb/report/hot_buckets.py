"""The largest buckets, and the shingles that fill them.

A bucket is hot if many documents share a band of their signatures, and mostly that is because they
share a text that says nothing about them: a licence, a navigation bar, a form. Its members are read
again, some at most, and the shingles that all of them have are shown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.params.bucket_layout import bands_of, key_ranges
from lshdb.search.candidates import PART_SIGNATURES, living
from lshdb.signatures.family import Family
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["BucketSizes", "HotBucket", "bucket_sizes"]

_SHOWN = 20
_MEMBERS = 24
"""Members whose shingles are compared."""
_KEYS = 5
_SHINGLES = 12
_WORDS = 30
_LONGEST = 200_000
"""Characters of a text that is shingled for this."""


@dataclass(frozen=True, slots=True)
class HotBucket:
    """A bucket with many documents' signatures.

    Attributes
    ----------
    band : int
        From 0.
    size : int
        Signatures in it.
    signature_ids : tuple of int
        Some of them.
    keys : tuple of str
        Documents of the first of these.
    words : str
        The shingles that all of the ``compared`` members share, joined where they overlap.
    shingles : tuple of (str, int) or None
        Shingles, and how many of the ``compared`` members have each, most first; None where texts
        are not stored.
    compared : int
        Members whose shingles were counted.
    """

    band: int
    size: int
    signature_ids: tuple[int, ...]
    keys: tuple[str, ...]
    words: str
    shingles: tuple[tuple[str, int], ...] | None
    compared: int


@dataclass(frozen=True, slots=True)
class BucketSizes:
    """All shared buckets of one state.

    Attributes
    ----------
    sizes : tuple of (str, int, int)
        Name of a range of sizes, buckets in it, candidate pairs in those.
    hottest : tuple of HotBucket
        Each set of members once: near-duplicates share most of their buckets.
    shared, pairs, largest : int
        Number of shared buckets, of candidate pairs, and of signatures in the largest.
    """

    sizes: tuple[tuple[str, int, int], ...]
    hottest: tuple[HotBucket, ...]
    shared: int
    pairs: int
    largest: int


def bucket_sizes(snapshot: Snapshot, family: Family) -> BucketSizes:
    """Count all shared buckets by size, and look into the largest; one pass over the postings."""
    params, dead = family.params, snapshot.edges.dead()
    counted: Counter[int] = Counter()
    hot: list[tuple[int, int, NDArray[np.int64]]] = []
    parts = 1 + snapshot.n_signatures // PART_SIGNATURES
    for first, last in key_ranges(bands=params.bands, parts=parts):
        buckets = living(snapshot.postings.shared(first, last), dead)
        sizes, numbers = np.unique(buckets.sizes, return_counts=True)
        counted.update(dict(zip(sizes.tolist(), numbers.tolist(), strict=True)))
        starts = np.cumsum(buckets.sizes) - buckets.sizes
        for place in np.argsort(-buckets.sizes, kind="stable")[: 2 * _SHOWN].tolist():
            size, start = int(buckets.sizes[place]), int(starts[place])
            members = buckets.members[start : start + min(size, _MEMBERS)].copy()
            hot.append((size, int(buckets.keys[place]), members))
        hot.sort(key=lambda bucket: (-bucket[0], bucket[1]))
        distinct: dict[tuple[int, bytes], tuple[int, int, NDArray[np.int64]]] = {}
        for bucket in hot:  # the first of each set of members
            distinct.setdefault((bucket[0], np.sort(bucket[2]).tobytes()), bucket)
        hot = list(distinct.values())[: 2 * _SHOWN]
    del counted[1], counted[0]
    pairs = {size: size * (size - 1) // 2 * number for size, number in counted.items()}
    largest = max(counted, default=0)
    return BucketSizes(
        sizes=_ranges(counted, pairs),
        hottest=tuple(_looked_into(snapshot, family, *bucket) for bucket in hot[:_SHOWN]),
        shared=counted.total(),
        pairs=sum(pairs.values()),
        largest=largest,
    )


def _ranges(counted: Counter[int], pairs: dict[int, int]) -> tuple[tuple[str, int, int], ...]:
    """Return the buckets of 2, 3, 4, 5 to 8, 9 to 16 signatures, and so on."""
    ranges: list[tuple[str, int, int]] = []
    low, high = 2, 2
    while counted and low <= max(counted):
        inside = [size for size in counted if low <= size <= high]
        name = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        ranges.append(
            (name, sum(counted[size] for size in inside), sum(pairs[size] for size in inside))
        )
        low, high = high + 1, high + 1 if high < 4 else 2 * high
    return tuple(ranges)


def _looked_into(
    snapshot: Snapshot, family: Family, size: int, key: int, members: NDArray[np.int64]
) -> HotBucket:
    """Read the members of a bucket again, and count their shingles."""
    params, ids = family.params, sorted(members.tolist())
    band = bands_of(key)
    documents = snapshot.documents_of_signatures(ids)
    keys = tuple(
        documents[signature_id][0][1] for signature_id in ids[:_KEYS] if signature_id in documents
    )
    if not params.keeps_texts:
        return HotBucket(band, size, tuple(ids), keys, "", None, 0)
    shared: Counter[str] = Counter()
    compared = 0
    of_documents = {signature_id: rows for signature_id, rows in documents.items() if rows}
    for _, body in snapshot.bodies_of_signatures(sorted(of_documents), of_documents):
        text = body[:_LONGEST] if isinstance(body, str) else body
        elements = family.elements(family.content(text))
        if elements is not None:
            compared += 1
            shared.update(dict.fromkeys(elements, 1))
    words = _joined([name for name, count in shared.items() if count == compared])
    most = sorted(
        ((name, count) for name, count in shared.items() if 2 * count > compared),
        key=lambda item: -item[1],
    )
    return HotBucket(band, size, tuple(ids), keys, words, tuple(most[:_SHINGLES]), compared)


def _joined(shingles: list[str]) -> str:
    """Join shingles in the order of a text, those that overlap into one run of words."""
    runs: list[list[str]] = []
    for shingle in shingles:
        words = shingle.split(" ")
        if runs and len(words) > 1 and runs[-1][1 - len(words) :] == words[:-1]:
            runs[-1].append(words[-1])
        else:
            runs.append(words)
        if sum(map(len, runs)) > _WORDS:
            break
    return " … ".join(" ".join(run) for run in runs)
