"""Texts -> the passages that pairs of them share, from word to word; no index, arrays alone.

Similar windows say roughly where a passage is. Where it begins and ends in either text, its words
say: runs of words that both texts have in one order are joined over what was changed between them.

Decided: a run is as good as it has k-grams of words, and a gap between two runs costs a quarter of
a k-gram a word, of the longer side. So a passage goes on over a sentence put in, and does not reach
for three common words a page away. This is chaining with a linear gap cost (Gusfield, Algorithms on
Strings, Trees and Sequences, section 13.3), best chain first, each run in one chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import mmh3
import numpy as np
from numpy.typing import NDArray

from lshdb.kernel import kernel
from lshdb.params.index_params import IndexParams
from lshdb.shingling import normalise

__all__ = ["AlignedText", "Aligner"]

Ids = NDArray[np.int64]

_MOST_CACHED = 1_000_000
_PROBE = "Aa12_"


@dataclass(frozen=True, slots=True)
class AlignedText:
    """A text as words.

    Attributes
    ----------
    text : str
    words : bytearray
        Where its words are, and hashes of k words each, for the kernel.
    """

    text: str
    words: bytearray

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words) // 24


class _WordHashes(dict[str, int]):
    """Words to hashes of what they are normalised to, made when they are first asked for."""

    def __init__(self, steps: str) -> None:
        super().__init__()
        self._steps = steps

    def __missing__(self, word: str) -> int:
        if len(self) > _MOST_CACHED:
            self.clear()
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
        self._k = min(max(params.k, 3), 5) if params.unit == "word" else 3
        self._hashes = _WordHashes(params.normalisation)
        # What the steps make of a word of ASCII, the kernel makes of it if it is one of these.
        ways = {_PROBE: 0, _PROBE.lower(): 1}
        self._way = ways.get(normalise(_PROBE, params.normalisation), -1)

    def words(self, text: str) -> AlignedText:
        """Cut a text into words; O(n), 20 ns a word of ASCII text."""
        hash_word = self._hashes.__getitem__
        return AlignedText(text, kernel.cut_grams(text, self._way, self._k, hash_word))

    def align(self, texts: list[AlignedText], pairs: Ids, areas: Ids) -> Ids:
        """Return the passages that pairs of texts share in some areas, each once, in order.

        Parameters
        ----------
        texts : list of AlignedText
        pairs : ndarray of int64, shape (n, 4)
            The numbers of two texts, the first of their areas and how many they have. One text
            twice stands for the passages that it repeats: the first of two is the earlier one
            then, and they do not overlap.
        areas : ndarray of int64, shape (m, 4)
            Where windows are similar: first and last character (left out) in the first text and in
            the second. Areas of a pair that overlap or touch in both are one. Words as far as a
            window around them are compared, too, and farther where a passage goes on.

        Returns
        -------
        ndarray of int64, shape (p, 9)
            The number of the pair; first and last word (left out) in the first text and in the
            second; and the same in characters. Passages have at least a quarter of a window, or
            are the best of their area.
        """
        aligned = kernel.align_words(
            [text.words for text in texts],
            np.ascontiguousarray(pairs),
            np.ascontiguousarray(areas),
            self._window,
            self._k,
        )
        return np.frombuffer(aligned, np.int64).reshape(-1, 9)
