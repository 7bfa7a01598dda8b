"""The reference of the kernel's functions on texts as words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from lshdb.shingling import cut_words

Ids = NDArray[np.int64]
Runs = list[tuple[int, int, int]]
"""First word in either text, and number of k-grams."""

_GAP_COST = 0.25
_MOST_PLACES = 32
"""A k-gram that is in so many places of one side is passed over: table lines, rows of dots."""
_MOST_MATCHES = 2**23
"""Pairs of places with equal k-grams; with more, only k-grams in fewer places are compared."""
_MOST_NEAR = 128
"""Chains that may be continued at one word; where there are more, the best half of them stays."""


class _Span(NamedTuple):
    first1: int
    last1: int
    first2: int
    last2: int


class Area(NamedTuple):
    """Characters of two texts between which passages are looked for; ends are left out."""

    start1: int
    end1: int
    start2: int
    end2: int


def cut_grams(text: str, way: int, k: int, hash_word: Callable[[str], int]) -> bytearray:
    """Cut a text into words, and hash each k of them."""
    if way not in (-1, 0, 1) or k < 1:
        raise ValueError("way or k is out of range")
    words, starts, ends = cut_words(text)

    def hashed(word: str) -> int:
        if way < 0 or not word.isascii():
            return hash_word(word)
        number: int = mmh3.hash64((word.lower() if way else word).encode(), signed=False)[0]
        return number

    hashes = np.fromiter(map(hashed, words), np.uint64, len(words))
    grams = np.zeros(len(words), dtype=np.uint64)
    n_grams = max(len(words) - k + 1, 0)
    for place in range(k if n_grams else 0):
        grams[:n_grams] *= np.uint64(0x9E3779B97F4A7C15)
        grams[:n_grams] += hashes[place : place + n_grams]
    return bytearray(b"".join(column.tobytes() for column in (starts, ends, grams)))


def align_words(texts: list[Any], pairs: Any, areas: Any, window: int, k: int) -> bytearray:
    """Return the passages that pairs of texts share in some areas."""
    if window < 1 or k < 1:
        raise ValueError("window or k is out of range")
    numbers = [np.frombuffer(text, np.int64).reshape(3, -1) for text in texts]
    all_areas = [Area(*row) for row in np.frombuffer(areas, np.int64).reshape(-1, 4).tolist()]
    passages: list[tuple[int, ...]] = []
    for number, pair in enumerate(np.frombuffer(pairs, np.int64).reshape(-1, 4).tolist()):
        first, second, first_area, n_areas = pair
        text1, text2 = numbers[first], numbers[second]
        aligner = _Aligner(text1, text2, first == second, window, k)
        spans: list[_Span] = []
        for area in merge_areas(all_areas[first_area : first_area + n_areas]):
            near = _Span(
                *_places(text1, area.start1, area.end1), *_places(text2, area.start2, area.end2)
            )
            spans += [span for span in aligner.near(near) if not _is_covered(span, spans)]
        for span in sorted(spans):
            first1, last1, first2, last2 = span
            ends = text1[0, first1], text1[1, last1 - 1], text2[0, first2], text2[1, last2 - 1]
            passages.append((number, *span, *map(int, ends)))
    return bytearray(np.array(passages, dtype=np.int64).tobytes())


def merge_areas(areas: Iterable[Area]) -> list[Area]:
    """Join areas that overlap or touch in both texts, as the windows of one passage do."""
    merged: list[Area] = []
    grown: list[Area] = []
    for area in sorted(areas):
        still: list[Area] = []
        for other in grown:
            if other.end1 < area.start1:
                merged.append(other)
            elif other.start2 <= area.end2 and area.start2 <= other.end2:
                area = Area(
                    min(area.start1, other.start1),
                    max(area.end1, other.end1),
                    min(area.start2, other.start2),
                    max(area.end2, other.end2),
                )
            else:
                still.append(other)
        grown = [*still, area]
    return sorted(merged + grown)


def _places(text: Ids, start: int, end: int) -> tuple[int, int]:
    """Return the first word that ends after one character, and that begins from another on."""
    first = int(np.searchsorted(text[1], start, side="right"))
    return first, int(np.searchsorted(text[0], end, side="left"))


class _Aligner:
    """Looks for chains of equal words in parts of two texts."""

    def __init__(
        self,
        text1: Ids,
        text2: Ids,
        is_same: bool,
        window: int,
        k: int,
    ) -> None:
        n1, n2 = text1.shape[1], text2.shape[1]
        self._whole = _Span(0, n1, 0, n2)
        self._grams = text1[2, : max(n1 - k + 1, 0)], text2[2, : max(n2 - k + 1, 0)]
        self._is_same = is_same
        self._window, self._k = window, k

    def near(self, near: _Span) -> list[_Span]:
        """Return the passages around a place; look farther where one may go on."""
        reach, whole = self._window, self._whole
        while True:
            around = _Span(
                max(near.first1 - reach, 0),
                min(near.last1 + reach, whole.last1),
                max(near.first2 - reach, 0),
                min(near.last2 + reach, whole.last2),
            )
            spans = [
                span
                for span in self._chains(around)
                if not self._is_same or span.last1 <= span.first2
            ]
            long_spans = [span for span in spans if self._is_long(span)] or spans[:1]
            if around == whole or not any(self._may_go_on(span, around) for span in long_spans):
                return long_spans
            reach *= 2

    def _may_go_on(self, span: _Span, around: _Span) -> bool:
        """Return whether a passage may go on beyond the compared words."""
        room, whole = self._window // 2, self._whole
        before = (span.first1 - around.first1 < room and around.first1 > 0) or (
            span.first2 - around.first2 < room and around.first2 > 0
        )
        behind = (around.last1 - span.last1 < room and around.last1 < whole.last1) or (
            around.last2 - span.last2 < room and around.last2 < whole.last2
        )
        return before or behind

    def _is_long(self, span: _Span) -> bool:
        least = max(self._window // 4, self._k)
        return min(span.last1 - span.first1, span.last2 - span.first2) >= least

    def _chains(self, around: _Span) -> Iterator[_Span]:
        """Yield chains of runs of equal words, the best first."""
        runs = self._runs(around)
        scores, before = self._scores(runs)
        is_used = [False] * len(runs)
        for last in sorted(range(len(runs)), key=lambda place: -scores[place]):
            if is_used[last]:
                continue
            first = last
            is_used[last] = True
            while before[first] >= 0 and not is_used[before[first]]:
                first = before[first]
                is_used[first] = True
            left1, left2, _ = runs[first]
            right1, right2, length = runs[last]
            more = length + self._k - 1
            yield _Span(left1, right1 + more, left2, right2 + more)

    def _runs(self, around: _Span) -> Runs:
        """Return runs of equal k-grams in order."""
        lead = self._k - 1
        left = self._grams[0][around.first1 : max(around.last1 - lead, around.first1)]
        right = self._grams[1][around.first2 : max(around.last2 - lead, around.first2)]
        order = np.argsort(right, kind="stable")
        in_order = right[order]
        low = np.searchsorted(in_order, left, side="left")
        counts = np.searchsorted(in_order, left, side="right") - low
        most = _MOST_PLACES
        counts[counts > most] = 0
        while counts.sum() > _MOST_MATCHES and most > 1:
            most //= 2
            counts[counts > most] = 0
        places1 = np.repeat(np.arange(len(left)), counts)
        offsets = np.arange(len(places1)) - np.repeat(np.cumsum(counts) - counts, counts)
        places2 = order[np.repeat(low, counts) + offsets] + around.first2
        places1 += around.first1
        if self._is_same:
            later = places2 > places1
            places1, places2 = places1[later], places2[later]
        if not len(places1):
            return []
        by_diagonal = np.lexsort((places1, places2 - places1))
        places1, places2 = places1[by_diagonal], places2[by_diagonal]
        breaks = np.flatnonzero((np.diff(places1) != 1) | (np.diff(places2) != 1)) + 1
        firsts = np.concatenate([[0], breaks])
        lengths = np.diff(np.append(firsts, len(places1)))
        return sorted(
            zip(places1[firsts].tolist(), places2[firsts].tolist(), lengths.tolist(), strict=True)
        )

    def _scores(self, runs: Runs) -> tuple[list[float], list[int]]:
        """Return the score of the best chain that ends with each run, and the run before it."""
        scores: list[float] = []
        before: list[int] = []
        near: list[int] = []  # earlier runs that may be continued
        for number, (place1, place2, length) in enumerate(runs):
            best, chosen = 0.0, -1
            near = [
                run_number
                for run_number in near
                if place1 - runs[run_number][0] - runs[run_number][2] <= self._window
            ]
            if len(near) > _MOST_NEAR:
                near = sorted(sorted(near, key=scores.__getitem__)[-_MOST_NEAR // 2 :])
            for earlier in near:
                other1, other2, size = runs[earlier]
                gap1, gap2 = place1 - other1 - size, place2 - other2 - size
                gap = max(gap1, gap2)
                if gap1 < 0 or gap2 < 0 or gap > self._window:
                    continue
                score = scores[earlier] - _GAP_COST * gap
                if score > best:
                    best, chosen = score, earlier
            scores.append(best + length)
            before.append(chosen)
            near.append(number)
        return scores, before


def _is_covered(span: _Span, spans: Sequence[_Span]) -> bool:
    """Return whether a passage lies mostly in one that is known, in both texts."""

    def shared(first: int, last: int, first_known: int, last_known: int) -> bool:
        return 2 * (min(last, last_known) - max(first, first_known)) > last - first

    return any(
        shared(span.first1, span.last1, known.first1, known.last1)
        and shared(span.first2, span.last2, known.first2, known.last2)
        for known in spans
    )
