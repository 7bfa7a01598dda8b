"""The largest buckets -> pages of them, with the words that all texts of a bucket share.

All buckets are counted once for each state of the index, and the largest ``RANKED`` are kept; of
those that hold mostly the same texts, the first. They are sorted and filtered in memory. A page
reads the texts of its own buckets alone, or of as many as it looks through for words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lshdb.errors import TextNotStoredError
from lshdb.pages.text_markup import readable
from lshdb.serve.cluster_lists import (
    LOOKED_THROUGH,
    ListPage,
    OfState,
    order_of,
    pattern_of,
)
from lshdb.serve.request_bodies import whole_number
from lshdb.storage.tables.view_statements import BUCKETS_OF_KEY, SIGNATURE_KEY

if TYPE_CHECKING:
    from lshdb.index import Index

__all__ = ["BUCKET_SORTS", "BucketLists", "BucketPage", "shared_words"]

RANKED = 2_000
BUCKETS = 20
"""Buckets of a page."""
_KEYS = 3
_MOSTLY = 0.8
"""Share of the signatures of two buckets from which only one of them is listed."""
_RUNS = (5, 3, 1)
_MOST_WORDS = 30
_LONGEST = 20_000
"""Characters of a text that are compared."""
_MOST_SIZE = 10**12
_FILTERS = ("sort", "q", "band", "size")
_WORD = re.compile(r"\w+")
_Bucket = tuple[int, int, int, tuple[int, ...]]
"""Band and bucket as in SQL, size, and some signatures."""

BUCKET_SORTS = {"size": "largest first", "-size": "smallest first", "band": "by band"}
"""Orders of buckets."""


@dataclass(frozen=True, slots=True)
class BucketRow:
    """A bucket.

    Attributes
    ----------
    band, bucket, size : int
        As in SQL, and its signatures.
    words : str
        The words that all its texts share, up to 24 of them; empty if none or no texts are stored.
    keys : list of str
        Some of its documents.
    """

    band: int
    bucket: int
    size: int
    words: str
    keys: list[str]

    @property
    def pairs(self) -> int:
        """Candidate pairs in it."""
        return self.size * (self.size - 1) // 2


@dataclass(frozen=True, slots=True)
class _RankedBuckets:
    """Buckets that hold different texts, the largest first, and counts of all shared ones."""

    largest: list[_Bucket]
    ranges: list[tuple[str, int, int]]
    n_shared: int


@dataclass(frozen=True, kw_only=True)
class BucketPage(ListPage):
    """A page of buckets.

    Attributes
    ----------
    ranges : list of (str, int, int)
        A range of sizes, buckets in it, and candidate pairs in those.
    n_shared, n_listed : int
        Buckets with several signatures, and those that pages list.
    rows : list of BucketRow
    largest : int
        Signatures in the largest bucket; 0 without one.
    """

    ranges: list[tuple[str, int, int]]
    n_shared: int
    n_listed: int
    rows: list[BucketRow]
    largest: int


class BucketLists:
    """Pages of the largest buckets of an index."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._ranked = OfState(index, _rank_buckets)

    def page(self, values: Mapping[str, str]) -> BucketPage:
        """Return the page that the query of an address asks for.

        Raises
        ------
        InvalidRequestError, ParameterError
        """
        offset = whole_number(values, "offset", 0, 0, RANKED)
        sort, ranked = order_of(values, BUCKET_SORTS), self._ranked()
        least = whole_number(values, "size", 2, 2, _MOST_SIZE)
        band = whole_number(values, "band", -1, 0, self._index.params.bands - 1)
        buckets = [
            bucket for bucket in ranked.largest if bucket[2] >= least and band in (-1, bucket[0])
        ]
        words = " ".join(values.get("q", "").split())
        if words and words in self._index:
            with_key = set(map(tuple, self._index.sql(BUCKETS_OF_KEY, {"key": words})))
            buckets, words = [bucket for bucket in buckets if bucket[:2] in with_key], ""
        if sort != "size":
            buckets.sort(key=lambda bucket: bucket[2] if sort == "-size" else bucket[0])
        rows, end = self._rows(buckets, offset, words)
        return BucketPage(
            path="/buckets", step=BUCKETS, total=len(buckets), offset=offset, end=end,
            filters={name: values[name] for name in _FILTERS if values.get(name)}, sort=sort,
            words=words, ranges=ranked.ranges, n_shared=ranked.n_shared,
            n_listed=len(ranked.largest), rows=rows,
            largest=ranked.largest[0][2] if ranked.largest else 0,
        )  # fmt: skip

    def _rows(self, buckets: list[_Bucket], offset: int, words: str) -> tuple[list[BucketRow], int]:
        """Return the buckets of a page, of those whose texts share some words, and its end."""
        rows: list[BucketRow] = []
        pattern, n_read, end = pattern_of(words), 0, offset
        while end < len(buckets) and len(rows) < BUCKETS and n_read < LOOKED_THROUGH:
            row = self._row(*buckets[end])
            if pattern.search(row.words):
                rows.append(row)
            n_read += len(buckets[end][3]) if words else 0
            end += 1
        return rows, end

    def _row(self, band: int, bucket: int, size: int, signature_ids: tuple[int, ...]) -> BucketRow:
        keys: list[str] = []
        texts: list[str] = []
        for signature_id in signature_ids:
            for (key,) in self._index.sql(SIGNATURE_KEY, {"signature_id": signature_id}):
                keys.append(key)
                try:
                    body = self._index.texts([key]).get(key)
                except TextNotStoredError:
                    continue
                if body is not None:
                    texts.append(readable(body)[:_LONGEST])
        return BucketRow(band, bucket, size, shared_words(texts), keys[:_KEYS])


def _rank_buckets(index: Index) -> _RankedBuckets:
    counts = index.buckets(most=RANKED)
    largest: list[_Bucket] = []
    listed: dict[int, list[frozenset[int]]] = {}
    for (band, bucket, size), ids in zip(counts.largest, counts.signature_ids, strict=True):
        members = frozenset(ids)
        near = listed.get(min(ids), []) if ids else []
        if any(len(members & other) >= _MOSTLY * len(members | other) for other in near):
            continue
        for signature_id in members:
            listed.setdefault(signature_id, []).append(members)
        largest.append((band, bucket, size, ids))
    ranges: list[tuple[str, int, int]] = []
    low, high = 2, 2
    shared = [(size, n) for size, n in counts.sizes if size > 1]
    while shared and low <= shared[-1][0]:
        inside = [(size, n) for size, n in shared if low <= size <= high]
        pairs = sum(size * (size - 1) // 2 * n for size, n in inside)
        name = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        ranges.append((name, sum(n for _, n in inside), pairs))
        low, high = high + 1, high + 1 if high < 4 else 2 * high
    return _RankedBuckets(largest, ranges, sum(n for _, n in shared))


def shared_words(texts: list[str]) -> str:
    """Return the longer runs of words that all texts share, in the order of the first.

    Runs of five words or more, where there are any; else of three, else single words.
    """
    if len(texts) < 2:
        return ""
    spans = [match.span() for match in _WORD.finditer(texts[0])]
    words = [[match[0].casefold() for match in _WORD.finditer(text)] for text in texts]
    for length in _RUNS:
        common = set.intersection(*(set(_windows(one, length)) for one in words))
        starts = [place for place, run in enumerate(_windows(words[0], length)) if run in common]
        if starts:
            break
    runs: list[list[int]] = []
    for start in starts:
        if runs and start < runs[-1][1]:
            runs[-1][1] = start + length
        else:
            runs.append([start, start + length])
    shown: list[str] = []
    left = _MOST_WORDS
    for start, end in runs:
        if left <= 0:
            break
        end = min(end, start + left)
        left -= end - start
        shown.append(" ".join(texts[0][spans[start][0] : spans[end - 1][1]].split()))
    return " … ".join(shown)


def _windows(words: list[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]
