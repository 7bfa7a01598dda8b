"""Two texts -> the passages that they share, from word to word; no index, arrays alone.

Similar windows say roughly where a passage is. Where it begins and ends in either text, its words
say: runs of words that both texts have in one order are joined over what was changed between them.

Decided: a run is as good as it has k-grams of words, and a gap between two runs costs a quarter of
a k-gram a word, of the longer side. So a passage goes on over a sentence put in, and does not reach
for three common words a page away. This is chaining with a linear gap cost (Gusfield, Algorithms on
Strings, Trees and Sequences, section 13.3), best chain first, each run in one chain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from lshdb.kernel import kernel
from lshdb.params.index_params import IndexParams
from lshdb.shingling import cut_words, normalise

__all__ = ["AlignedText", "Aligner", "Area", "Span", "merge_blocks"]

Ids = NDArray[np.int64]

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

    def characters(self, first: int, last: int) -> tuple[int, int]:
        """Return where words begin and end (left out)."""
        return int(self.starts[first]), int(self.ends[last - 1])


class _WordHashes(dict[str, int]):
    """Words to hashes of what they are normalised to, made when they are first asked for."""

    def __init__(self, steps: str) -> None:
        super().__init__()
        self._steps = steps

    def __missing__(self, word: str) -> int:
        hashed: int = mmh3.hash64(normalise(word, self._steps).encode(), signed=False)[0]
        self[word] = hashed
        return hashed


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
        self._hashes = _WordHashes(params.normalisation)

    def words(self, text: str) -> AlignedText:
        """Cut a text into words; O(n), 0.2 us a word of ASCII text."""
        words, starts, ends = cut_words(text)
        if len(self._hashes) > _MOST_CACHED:
            self._hashes.clear()
        numbers = np.fromiter(map(self._hashes.__getitem__, words), np.uint64, len(words))
        n_grams = max(len(numbers) - self.k + 1, 0)
        grams = np.zeros(n_grams, dtype=np.uint64)
        for place in range(self.k):
            grams *= np.uint64(0x9E3779B97F4A7C15)
            grams += numbers[place : place + n_grams]
        return AlignedText(text, starts, ends, grams)

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
        areas = np.array(list(blocks), dtype=np.int64)
        aligned = kernel.align_words(
            words1.starts, words1.ends, words1.grams, words2.starts, words2.ends, words2.grams,
            words1 is words2, areas, self._window, self.k,
        )  # fmt: skip
        return [Span(*span) for span in np.frombuffer(aligned, np.int64).reshape(-1, 4).tolist()]


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
