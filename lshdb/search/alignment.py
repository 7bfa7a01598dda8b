"""Two texts -> the passages that they share, from word to word; no index, arrays alone.

Similar windows say roughly where a passage is. Where it begins and ends in either text, its words
say: runs of words that both texts have in one order are joined over what was changed between them.

Decided: a run is as good as it has k-grams of words, and a gap between two runs costs a quarter of
a k-gram a word, of the longer side. So a passage goes on over a sentence put in, and does not reach
for three common words a page away. This is chaining with a linear gap cost (Gusfield, Algorithms on
Strings, Trees and Sequences, section 13.3), best chain first, each run in one chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from lshdb.params.index_params import IndexParams
from lshdb.shingling import normalise, word_spans

__all__ = ["AlignedText", "Aligner", "Area", "Span", "merge_blocks"]

Ids = NDArray[np.int64]

_GAP_COST = 0.25
_MOST_PLACES = 32
"""A k-gram that is in so many places of one side is passed over: table lines, rows of dots."""
_MOST_NEAR = 128
"""Chains that may be continued at one word; where there are more, the best half of them stays."""
_MOST_CACHED = 1_000_000


class Span(NamedTuple):
    """Words of two texts that stand side by side; each last word is left out."""

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


@dataclass(frozen=True, slots=True)
class AlignedText:
    """A text as words.

    Attributes
    ----------
    text : str
    starts, ends : ndarray of int64, shape (n,)
        First and last character (left out) of each word.
    grams : ndarray of uint64, shape (n - k + 1,), or (0,)
        A hash of the k words from each word on.
    """

    text: str
    starts: Ids
    ends: Ids
    grams: NDArray[np.uint64]

    def places(self, start: int, end: int) -> tuple[int, int]:
        """Return the first word that ends after one character, and that begins from another on."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        return first, int(np.searchsorted(self.starts, end, side="left"))

    def characters(self, first: int, last: int) -> tuple[int, int]:
        """Return where words begin and end (left out)."""
        return int(self.starts[first]), int(self.ends[last - 1])


class Aligner:
    """Cuts texts into words and lays them side by side.

    Parameters
    ----------
    params : IndexParams
        Of an index of passages: words are compared as normalised there, in k-grams of 3 to 5.
    """

    def __init__(self, params: IndexParams) -> None:
        self._window, _ = params.window or (1, 1)
        self.k = min(max(params.k, 3), 5) if params.unit == "word" else 3
        self._steps = params.normalisation
        self._hashes: dict[str, int] = {}

    def words(self, text: str) -> AlignedText:
        """Cut a text into words; O(n) in Python, 0.5 us a word."""
        spans = np.array(word_spans(text), dtype=np.int64).reshape(-1, 2)
        if len(self._hashes) > _MOST_CACHED:
            self._hashes.clear()
        hashes, hashed = self._hashes, []
        for start, end in spans.tolist():
            word = text[start:end]
            value = hashes.get(word)
            if value is None:
                folded = normalise(word, self._steps)
                value = hashes[word] = mmh3.hash64(folded.encode(), signed=False)[0]
            hashed.append(value)
        numbers = np.array(hashed, dtype=np.uint64)
        n_grams = max(len(numbers) - self.k + 1, 0)
        grams = np.zeros(n_grams, dtype=np.uint64)
        for place in range(self.k):
            grams *= np.uint64(0x9E3779B97F4A7C15)
            grams += numbers[place : place + n_grams]
        return AlignedText(text, spans[:, 0].copy(), spans[:, 1].copy(), grams)

    def align(self, words1: AlignedText, words2: AlignedText, blocks: Iterable[Area]) -> list[Span]:
        """Return the passages that two texts share in some blocks, each once, in order.

        Parameters
        ----------
        words1, words2 : AlignedText
            The same object for the passages that a text repeats. The first of the two is then
            the earlier one, and they do not overlap.
        blocks : iterable of Area
            Where windows are similar. Words as far as a window around them are compared, too,
            and farther where a passage goes on.

        Returns
        -------
        list of Span
            Of at least a quarter of a window, or the best of a block.
        """
        spans: list[Span] = []
        for block in blocks:
            near = Span(
                *words1.places(block.start1, block.end1), *words2.places(block.start2, block.end2)
            )
            spans += [
                span for span in self._near(words1, words2, near) if not _is_covered(span, spans)
            ]
        return sorted(spans)

    def _near(self, words1: AlignedText, words2: AlignedText, near: Span) -> list[Span]:
        """Return the passages around a place; look farther where one may go on."""
        reach = self._window
        while True:
            around = Span(
                max(near.first1 - reach, 0),
                min(near.last1 + reach, len(words1.starts)),
                max(near.first2 - reach, 0),
                min(near.last2 + reach, len(words2.starts)),
            )
            spans = [
                span
                for span in self._chains(words1, words2, around)
                if words1 is not words2 or span.last1 <= span.first2
            ]
            long_spans = [span for span in spans if self._is_long(span)] or spans[:1]
            whole = Span(0, len(words1.starts), 0, len(words2.starts))
            if around == whole or not any(
                self._may_go_on(span, around, whole) for span in long_spans
            ):
                return long_spans
            reach *= 2

    def _may_go_on(self, span: Span, around: Span, whole: Span) -> bool:
        """Return whether a passage may go on beyond the compared words."""
        room = self._window // 2
        before = (span.first1 - around.first1 < room and around.first1 > 0) or (
            span.first2 - around.first2 < room and around.first2 > 0
        )
        behind = (around.last1 - span.last1 < room and around.last1 < whole.last1) or (
            around.last2 - span.last2 < room and around.last2 < whole.last2
        )
        return before or behind

    def _is_long(self, span: Span) -> bool:
        least = max(self._window // 4, self.k)
        return min(span.last1 - span.first1, span.last2 - span.first2) >= least

    def _chains(self, words1: AlignedText, words2: AlignedText, around: Span) -> Iterator[Span]:
        """Yield chains of runs of equal words, the best first."""
        runs = self._runs(words1, words2, around)
        if not len(runs):
            return
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
            more = length + self.k - 1
            yield Span(left1, right1 + more, left2, right2 + more)

    def _runs(
        self, words1: AlignedText, words2: AlignedText, around: Span
    ) -> list[tuple[int, int, int]]:
        """Return runs of equal k-grams: first word in either text, and number of k-grams."""
        lead = self.k - 1
        left = words1.grams[around.first1 : max(around.last1 - lead, around.first1)]
        right = words2.grams[around.first2 : max(around.last2 - lead, around.first2)]
        order = np.argsort(right, kind="stable")
        in_order = right[order]
        low = np.searchsorted(in_order, left, side="left")
        counts = np.searchsorted(in_order, left, side="right") - low
        counts[counts > _MOST_PLACES] = 0
        places1 = np.repeat(np.arange(len(left)), counts)
        offsets = np.arange(len(places1)) - np.repeat(np.cumsum(counts) - counts, counts)
        places2 = order[np.repeat(low, counts) + offsets] + around.first2
        places1 += around.first1
        if words1 is words2:
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

    def _scores(self, runs: Sequence[tuple[int, int, int]]) -> tuple[list[float], list[int]]:
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


def _is_covered(span: Span, spans: Sequence[Span]) -> bool:
    """Return whether a passage lies mostly in one that is known, in both texts."""

    def shared(first: int, last: int, first_known: int, last_known: int) -> bool:
        return 2 * (min(last, last_known) - max(first, first_known)) > last - first

    return any(
        shared(span.first1, span.last1, aligned.first1, aligned.last1)
        and shared(span.first2, span.last2, aligned.first2, aligned.last2)
        for aligned in spans
    )


def merge_blocks(blocks: Iterable[Area]) -> list[Area]:
    """Join blocks that overlap or touch in both texts, as the windows of one passage do."""
    merged: list[Area] = []
    grown: list[Area] = []
    for block in sorted(blocks):
        still: list[Area] = []
        for following in grown:
            if following.end1 < block.start1:
                merged.append(following)
            elif following.start2 <= block.end2 and block.start2 <= following.end2:
                block = Area(
                    min(block.start1, following.start1),
                    max(block.end1, following.end1),
                    min(block.start2, following.start2),
                    max(block.end2, following.end2),
                )
            else:
                still.append(following)
        grown = [*still, block]
    return sorted(merged + grown)
