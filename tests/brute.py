"""Exact answers the slow way: plain sets of shingles, all against all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from lshdb.shingling import normalise, split_words


def shingle_set(text: str, k: int = 5, unit: str = "word") -> frozenset[object]:
    content = normalise(text)
    tokens = split_words(content) if unit == "word" else list(content)
    if not tokens:
        return frozenset([content] if content else [])
    count = max(1, len(tokens) - k + 1)
    return frozenset(tuple(tokens[start : start + k]) for start in range(count))


def jaccard(one: frozenset[object], other: frozenset[object]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def brute_pairs(
    documents: Iterable[tuple[str, str]], threshold: float, k: int = 5, unit: str = "word"
) -> set[tuple[str, str, float]]:
    sets = {key: shingle_set(text, k, unit) for key, text in documents}
    found = set()
    for (key1, set1), (key2, set2) in itertools.combinations(sorted(sets.items()), 2):
        similarity = jaccard(set1, set2)
        if similarity >= threshold:
            found.add((key1, key2, round(similarity, 9)))
    return found
