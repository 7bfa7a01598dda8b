"""How similar two texts are that differ as an aim says: by trial, on the texts of the sample.

A share of the words of a text is exchanged for others, and both are shingled as the
index would. So the length of texts, repeated words, the unit, bags and normalisation have their
part in the answer, and so has chance: in a text of n words with a share p exchanged there are
p n words in the middle, and in short texts often twice as many or none. Formulas for the mean
(q / (2 - q) with q = (1 - p)^k) stand above half of the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lshdb.shingling import word_spans
from lshdb.signatures.family import Family
from lshdb.signatures.sets import SetFamily

__all__ = ["PlantedPairs"]

Floats = NDArray[np.float64]

_PAIRS = 4_000
_CHARACTERS = 4_000_000
_LONGEST = 50_000
"""Characters of a text that are tried. Similarities of longer texts vary less."""
_RUNNING = 100_000
"""Words of texts, as they follow each other, that are put into other texts."""
_LETTERS = list("abcdefghijklmnopqrstuvwxyz0123456789")


class PlantedPairs:
    """Texts of a sample and the same texts with words exchanged.

    Parameters
    ----------
    bodies : sequence of str or of list of str
        Texts or tokens of the sample, in random order.
    seed : int
        Another seed exchanges other words.
    """

    def __init__(self, bodies: Sequence[Any], seed: int) -> None:
        self._texts: list[_Words] = []
        self._running: list[str] = []
        self._seed = seed
        n_characters = 0
        for body in bodies:
            text = _Words(body)
            if not text.words:
                continue
            self._texts.append(text)
            if len(self._running) < _RUNNING:
                self._running += text.words
            n_characters += sum(map(len, text.words))
            if len(self._texts) == _PAIRS or n_characters > _CHARACTERS:
                break
        rounds = min(_PAIRS // max(1, len(self._texts)), _CHARACTERS // max(1, n_characters))
        self._rounds = max(1, min(rounds, 100))

    def similarities(
        self, family: Family, *, differing: float, is_part: bool, at_least_one: bool
    ) -> Floats:
        """Return the exact similarity of each text and the same one with words exchanged.

        Parameters
        ----------
        family : Family
            Of texts; says what a shingle is.
        differing : float
            The share of words that are exchanged: each one with this probability, or with
            ``is_part`` so many in a row.
        is_part : bool
        at_least_one : bool
            Whether a text in which chance exchanges no word has one exchanged.

        Returns
        -------
        ndarray of float64, shape (n,)
            Sorted, of some thousand pairs; of none where no text has a word.

        Notes
        -----
        About half a second for texts of 4 million characters.
        """
        rng = np.random.default_rng([self._seed, round(differing * 1e6), is_part])
        sets = cast(SetFamily, family)
        originals = _sets(sets, [text.body for text in self._texts])
        levels = []
        for _ in range(self._rounds):
            copies = [
                text.with_part(self._running, differing, rng)
                if is_part
                else text.with_words(self._running, differing, rng, at_least_one=at_least_one)
                for text in self._texts
            ]
            levels += list(map(_jaccard, originals, _sets(sets, copies)))
        return np.sort(np.array(levels, dtype=np.float64))


class _Words:
    """A text or tokens, cut at the words."""

    def __init__(self, body: Any) -> None:
        if isinstance(body, str):
            self.body: Any = body[:_LONGEST]
            self._spans = word_spans(self.body)
            self.words = [self.body[start:end] for start, end in self._spans]
        else:
            tokens = sorted(body) if isinstance(body, AbstractSet) else body
            self.body = list(tokens[:_LONGEST])
            self._spans = []
            self.words = self.body

    def with_words(
        self,
        running: Sequence[str],
        share: float,
        rng: np.random.Generator,
        *,
        at_least_one: bool,
    ) -> Any:
        """Return the body with each word exchanged with a probability.

        For letters and digits at random, so that no shingle of them is elsewhere: what a scanner
        misread is no word. As long as a word of ``running``, or as the word if that is longer.
        """
        is_exchanged = rng.random(len(self.words)) < share
        if at_least_one and not is_exchanged.any():
            is_exchanged[rng.integers(len(self.words))] = True
        places = np.flatnonzero(is_exchanged).tolist()
        drawn = rng.integers(len(running), size=len(places)).tolist()
        exchanged = {}
        for place, number in zip(places, drawn, strict=True):
            length = max(len(self.words[place]), len(running[number]))
            exchanged[place] = "".join(rng.choice(_LETTERS, size=length))
        return self._with(exchanged)

    def with_part(self, running: Sequence[str], share: float, rng: np.random.Generator) -> Any:
        """Return the body with its last words exchanged for as many others in a row."""
        n = math.ceil(len(self.words) * share)
        start = int(rng.integers(len(running)))
        first = len(self.words) - n
        return self._with({first + i: running[(start + i) % len(running)] for i in range(n)})

    def _with(self, exchanged: dict[int, str]) -> Any:
        if not isinstance(self.body, str):
            return [exchanged.get(place, word) for place, word in enumerate(self.words)]
        pieces, end = [], 0
        for place in sorted(exchanged):
            start, after = self._spans[place]
            pieces += [self.body[end:start], exchanged[place]]
            end = after
        return "".join([*pieces, self.body[end:]])


def _sets(family: SetFamily, bodies: Sequence[Any]) -> list[NDArray[np.uint64]]:
    """Return the shingles of each body, each once."""
    return [np.asarray(points) for points in family.points(family.contents(bodies))]


def _jaccard(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> float:
    n_common = len(np.intersect1d(left, right, assume_unique=True))
    n_all = len(left) + len(right) - n_common
    return n_common / n_all if n_all else 0.0
