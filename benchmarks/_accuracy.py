"""Pairs of near-duplicates, and how far signatures are from their exact similarities.

Speed alone can be had by sketching worse; so every contestant's estimates are held against the
Jaccard similarity of the very sets it means, on the same pairs of documents.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.shingling import canonical_content
from lshdb.signatures import shingle_content

__all__ = ["Pairs", "errors", "find_pairs", "hashes_of"]

Pairs = list[tuple[int, int]]

_LOWEST = 4
_BUCKET = 20
_MIX = np.uint64(0x9E3779B97F4A7C15)


def hashes_of(text: str) -> NDArray[np.uint64]:
    """Distinct hashes of the five-word shingles of a text."""
    return shingle_content(canonical_content(text), unit="word", k=5, bag=False)


def find_pairs(texts: Iterable[str], wanted: int, seed: int = 1) -> Pairs:
    """Pairs that share one of their lowest mixed hashes, spread over the similarities found.

    The order of the hashes has nothing to do with any contestant's functions, so that choosing by
    it favours none. Exact copies are left out: no sketch gets them wrong.
    """
    buckets: dict[int, list[int]] = defaultdict(list)
    sets = []
    for number, text in enumerate(texts):
        hashes = hashes_of(text)
        sets.append(hashes)
        for key in np.sort(hashes * _MIX)[:_LOWEST].tolist():
            buckets[key].append(number)
    found = {
        pair
        for members in buckets.values()
        for pair in itertools.combinations(members[:_BUCKET], 2)
    }
    drawn = random.Random(seed).sample(sorted(found), min(len(found), 10 * wanted))
    similar = sorted(
        (similarity, pair)
        for pair in drawn
        if 0.0 < (similarity := _exact(sets[pair[0]], sets[pair[1]])) < 1.0
    )
    step = max(1.0, len(similar) / wanted)
    places = range(min(wanted, len(similar)))
    return [similar[int(place * step)][1] for place in places]


def _exact(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> float:
    common = len(np.intersect1d(left, right, assume_unique=True))
    return common / (len(left) + len(right) - common)


def errors(
    rows: NDArray[Any], sets: Sequence[Collection[Any]], pairs: Pairs
) -> tuple[float, float]:
    """Root mean square error of the estimates, and what independent slots would make of it."""
    squares, variances = [], []
    as_sets = [frozenset(members) for members in sets]
    for left, right in pairs:
        union = len(as_sets[left] | as_sets[right])
        if union:
            exact = len(as_sets[left] & as_sets[right]) / union
            squares.append((float(np.mean(rows[left] == rows[right])) - exact) ** 2)
            variances.append(exact * (1.0 - exact) / rows.shape[1])
    if not squares:
        return math.nan, math.nan
    return math.sqrt(np.mean(squares)), math.sqrt(np.mean(variances))
