"""All pairs of a sample, exactly: how many there are at each similarity, and some of them.

The texts of the sample are shingled, and a table of all shingles gives every pair that shares one
(``signatures/sharing.py``), so nothing is missed, however dissimilar; no bands are asked, and no
recall is to be reckoned with. Texts with the same shingles are counted together: their number does
not matter.

Decided: documents are drawn at random. Drawing those that share a min-hash would bring more of the
rare pairs into the sample, but a family of copies larger than the sample would be drawn whole or
never, and no interval would tell.

From m of n documents, a number of pairs is estimated as that of the sample times n(n-1) / m(m-1).
Pairs of one document are drawn together or not at all, so the variance of the number N that is seen
is estimated by that of a sample that takes each document with probability f = m/n: N(1 - f^2) +
(1 - f) times the sum of d(d - 1) over the documents, d being the pairs of one. The interval is
that of as many independent pairs as have this variance, N^2 by variance, as a Poisson variable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lshdb.advice.advice import SimilarityHistogram, SimilaritySlice
from lshdb.advice.sampled_documents import DocumentSample
from lshdb.ingest.add import n_chars_of
from lshdb.phases.phase import counting
from lshdb.search.all_texts import blocks_within
from lshdb.signatures.family import Family
from lshdb.signatures.sets import SetFamily
from lshdb.signatures.sharing import SetTable
from lshdb.threads import work_ahead

__all__ = ["EXAMPLES_AT", "SimilarityCounts", "count_pairs"]

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_SLICES = 20
_FINE = 100
"""Slices of the histogram, and those of its sums that say what bands find."""
_LEAST = 0.01
"""Pairs that share less are counted as sharing nothing."""
_Z = 2.5758293035489004
_SHINGLE_BYTES = 64
_TEXTS_SHINGLED = 512
_CHARACTERS_SHINGLED = 2**19
"""A group of texts that are shingled together ends at either number."""
_MOST_FOUND = 500_000
"""Pairs that may be found at a time: three numbers of 64 bits each."""
_FEWEST_ASK = 16
EXAMPLES_AT = (0.5, 0.6, 0.7, 0.8, 0.9)
EXAMPLES = 5
_NEAR = 0.025
_KEPT = 40
"""Pairs that are kept for each, of which those with other documents are shown."""


@dataclass(frozen=True, slots=True)
class SimilarityCounts:
    """The pairs of a sample by similarity.

    Attributes
    ----------
    unit : str
    k : int
    documents, compared : int
        n and m.
    units : float
        Units of the text in the middle.
    seen : ndarray of int64, shape (101,)
        Pairs of the sample at similarities from 0.01 i on; the last ones at 1.
    dependent : ndarray of int64, shape (21,)
        The sum of D(D - 1) over the documents, D being its pairs at similarities from 0.05 i on.
    within : ndarray of int64, shape (21,)
        The same with D the pairs in that slice alone.
    examples : tuple of (float, int, int, float)
        Where the pair is shown, places of its documents in the sample, and their similarity.
    """

    unit: str
    k: int
    documents: int
    compared: int
    units: float
    seen: Ids
    dependent: Ids
    within: Ids
    examples: tuple[tuple[float, int, int, float], ...]

    @property
    def scale(self) -> float:
        """Pairs of documents for one of the sample."""
        n, m = self.documents, self.compared
        return n * (n - 1) / (m * (m - 1)) if m > 1 else 0.0

    def histogram(self) -> SimilarityHistogram:
        """Return the pairs of the corpus in each slice."""
        step = _FINE // _SLICES
        sums = [*self.seen[:-1].reshape(_SLICES, step).sum(axis=1).tolist(), int(self.seen[-1])]
        slices = []
        for place, n_seen in enumerate(sums):
            low, high = place / _SLICES, min(1.0, (place + 1) / _SLICES)
            pairs, lower, upper = self._interval(n_seen, int(self.within[place]))
            slices.append(
                SimilaritySlice(
                    low=low, high=high, pairs=pairs, lower=lower, upper=upper, seen=n_seen
                )
            )
        return SimilarityHistogram(
            unit=self.unit, k=self.k, documents=self.documents, compared=self.compared,
            slices=tuple(slices),
        )  # fmt: skip

    def at_least(self, threshold: float) -> tuple[float, float, float]:
        """Return the pairs of the corpus at a threshold, a multiple of 0.05, and their interval."""
        first = round(threshold * _FINE)
        place = round(threshold * _SLICES)
        return self._interval(int(self.seen[first:].sum()), int(self.dependent[place]))

    def means(self) -> tuple[Floats, Floats]:
        """Return similarities, and the pairs of the corpus at each; 0 below 0.01."""
        middles = np.append(np.arange(_FINE) / _FINE + 0.5 / _FINE, 1.0)
        middles[0] = 0.0
        numbers = self.seen.astype(np.float64) * self.scale
        return middles.astype(np.float64), numbers

    def _interval(self, n_seen: int, dependent: int) -> tuple[float, float, float]:
        if self.compared == self.documents:
            return float(n_seen), float(n_seen), float(n_seen)
        most = self.documents * (self.documents - 1) / 2.0
        if self.compared < 2:
            return 0.0, 0.0, most
        share = self.compared / self.documents
        variance = n_seen * (1.0 - share**2) + (1.0 - share) * dependent
        effective = n_seen**2 / variance if variance > 0 else 0.0
        per_pair = n_seen / effective if effective else 1.0
        pairs = n_seen * self.scale
        lower = _chi_square(2.0 * effective, -_Z) / 2.0 * per_pair * self.scale
        upper = _chi_square(2.0 * effective + 2.0, _Z) / 2.0 * per_pair * self.scale
        return pairs, min(lower, pairs), min(max(upper, pairs), most)


def _chi_square(freedom: float, z: float) -> float:
    """Return a quantile of the chi-square distribution (Wilson and Hilferty, PNAS 17, 1931)."""
    if freedom <= 0.0:
        return 0.0
    spread = 2.0 / (9.0 * freedom)
    return freedom * max(0.0, 1.0 - spread + z * math.sqrt(spread)) ** 3


def count_pairs(
    sample: DocumentSample,
    family: Family,
    *,
    memory: int,
    meetings: int,
    workers: int,
    seed: int,
) -> SimilarityCounts:
    """Compare documents of a sample, each with each, as many as memory and time allow.

    Parameters
    ----------
    sample : DocumentSample
    family : Family
        Of texts; says what a shingle is.
    memory : int
        Bytes for shingles.
    meetings : int
        How often two documents may meet in a shingle: some 4 ns each.
    workers : int
    seed : int
        For the choice of examples.
    """
    sets = _ShingleSets.of(sample, cast(SetFamily, family), memory=memory, workers=workers)
    m = sets.fitting(meetings)
    sets = sets.first(m)
    units = float(np.median(sets.counts)) + family.params.k - 1 if m else 0.0
    counting = _Counting(sets, seed)
    counting.count(workers)
    params = family.params
    n_pairs = m * (m - 1) // 2
    counting.seen[0] += n_pairs - int(counting.seen.sum())
    return SimilarityCounts(
        unit=params.unit, k=params.k, documents=sample.documents, compared=m,
        units=units, seen=counting.seen, dependent=counting.dependent, within=counting.within,
        examples=tuple(counting.examples()),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _ShingleSets:
    """The shingles of documents, one after the other, and how many each has."""

    hashes: NDArray[np.uint64]
    counts: Ids

    @classmethod
    def of(
        cls, sample: DocumentSample, family: SetFamily, *, memory: int, workers: int
    ) -> _ShingleSets:
        """Shingle the texts of a sample from the first on, as many as the memory holds."""
        most = max(1, memory // _SHINGLE_BYTES)
        groups = _groups(sample.bodies)

        def shingled(group: Sequence[Any]) -> tuple[NDArray[np.uint64], Ids]:
            return family.sets(family.contents(group))

        parts, n = [(np.empty(0, np.uint64), np.empty(0, np.int64))], 0
        shinglers = workers if family.split is None else 1
        with closing(work_ahead(shingled, groups, workers=shinglers)) as blocks:
            for part in blocks:
                parts.append(part)
                n += len(part[0])
                if n > most:
                    break
        sets = cls(
            np.concatenate([part[0] for part in parts]), np.concatenate([p[1] for p in parts])
        )
        fitting = blocks_within(sets.counts, most)
        return sets.first(fitting[0].stop) if fitting else sets

    def first(self, m: int) -> _ShingleSets:
        """Return the sets of the first m documents."""
        return _ShingleSets(self.hashes[: int(self.counts[:m].sum())], self.counts[:m])

    def fitting(self, meetings: int) -> int:
        """Return how many of the first documents meet in shingles no more often than this."""
        m = len(self.counts)
        while m > 2:
            sets, _ = self.first(m).distinct()
            _, shared = np.unique(sets.hashes, return_counts=True)
            n = float((shared.astype(np.float64) ** 2).sum())
            if n <= max(meetings, 4 * len(sets.hashes)):
                break
            m = max(2, int(m * min(0.95, math.sqrt(meetings / n))))
        return m

    def distinct(self) -> tuple[_ShingleSets, list[Ids]]:
        """Return each set once, without the empty one, and the documents of each."""
        ends = np.cumsum(self.counts)
        full = np.flatnonzero(self.counts)
        starts = (ends - self.counts)[full]
        names = np.empty((len(full), 3), dtype=np.uint64)
        names[:, 0] = self.counts[full]
        if len(full):
            names[:, 1] = np.add.reduceat(self.hashes, starts)
            names[:, 2] = np.bitwise_xor.reduceat(self.hashes, starts)
        order = np.lexsort(names.T)
        is_new = np.ones(len(full), dtype=bool)
        is_new[1:] = (names[order[1:]] != names[order[:-1]]).any(axis=1)
        groups = np.split(full[order], np.flatnonzero(is_new)[1:]) if len(full) else []
        groups.sort(key=lambda group: int(group[0]))  # lexsort is stable: the first one leads
        firsts = np.array([group[0] for group in groups], dtype=np.int64)
        counts = self.counts[firsts]
        places = np.repeat(ends[firsts] - np.cumsum(counts), counts) + np.arange(counts.sum())
        return _ShingleSets(self.hashes[places], counts), groups


def _groups(bodies: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the bodies in groups of some texts and some characters."""
    group: list[Any] = []
    size = 0
    for body in bodies:
        group.append(body)
        size += n_chars_of(body)
        if len(group) == _TEXTS_SHINGLED or size >= _CHARACTERS_SHINGLED:
            yield group
            group, size = [], 0
    if group:
        yield group


class _Counting:
    """The sums of one comparison of all sets with all."""

    def __init__(self, sets: _ShingleSets, seed: int) -> None:
        self._sets, self._documents = sets.distinct()
        self._copies = np.array([len(document) for document in self._documents], dtype=np.int64)
        self._salt = np.uint64(seed * 0x165667B19E3779F9 % 2**64)
        self.seen = np.zeros(_FINE + 1, dtype=np.int64)
        self.dependent, self.within = np.zeros((2, _SLICES + 1), dtype=np.int64)
        self._kept: list[list[tuple[int, int, int, float]]] = [[] for _ in EXAMPLES_AT]

    def count(self, workers: int) -> None:
        """Compare the sets, some with all at a time."""
        table = SetTable(self._sets.hashes, self._sets.counts)

        def compare(part: tuple[int, _ShingleSets]) -> tuple[int, int, Ids, Ids, Floats]:
            start, sets = part
            shared = table.sharing(sets.hashes, sets.counts, least=_LEAST)
            return start, len(sets.counts), *shared

        with closing(work_ahead(compare, self._parts(), workers=workers)) as results:
            total = len(self._sets.counts)
            parts = counting(results, "documents", total, lambda part: part[1])
            for start, n, asking, twos, levels in parts:
                self._add(start, n, asking + start, twos, levels)

    def _parts(self) -> Iterator[tuple[int, _ShingleSets]]:
        hashes, counts = self._sets.hashes, self._sets.counts
        ends = np.concatenate([[0], np.cumsum(counts)])
        size = max(_FEWEST_ASK, _MOST_FOUND // max(1, len(counts)))
        for start in range(0, len(counts), size):
            end = min(start + size, len(counts))
            yield start, _ShingleSets(hashes[ends[start] : ends[end]], counts[start:end])

    def _add(self, start: int, n: int, ones: Ids, twos: Ids, levels: Floats) -> None:
        is_pair = ones != twos
        ones, twos, levels = ones[is_pair], twos[is_pair], levels[is_pair]
        fine = np.minimum((levels * _FINE + 1e-9).astype(np.int64), _FINE)
        once = ones < twos
        pairs = self._copies[ones[once]] * self._copies[twos[once]]
        self.seen += _sums(fine[once], pairs, _FINE + 1)
        copies = self._copies[start : start + n]
        self.seen[-1] += int((copies * (copies - 1) // 2).sum())
        width = _SLICES + 1
        places = (ones - start) * width + fine // (_FINE // _SLICES)
        within = _sums(places, self._copies[twos], n * width).reshape(n, width)
        within[:, -1] += copies - 1
        beyond = within[:, ::-1].cumsum(axis=1)[:, ::-1]
        self.within += (copies[:, None] * within * (within - 1)).sum(axis=0)
        self.dependent += (copies[:, None] * beyond * (beyond - 1)).sum(axis=0)
        self._keep(ones[once], twos[once], levels[once])

    def _keep(self, ones: Ids, twos: Ids, levels: Floats) -> None:
        """Keep some pairs near each round number, whichever have the lowest random numbers."""
        for examples, near in zip(self._kept, EXAMPLES_AT, strict=True):
            places = np.flatnonzero(np.abs(levels - near) <= _NEAR)
            if not len(places):
                continue
            left, right = ones[places].astype(np.uint64), twos[places].astype(np.uint64)
            mixed = (left * _ODD[0] ^ right * _ODD[1] ^ self._salt) * _ODD[0]
            mixed ^= mixed >> np.uint64(29)
            mixed *= _ODD[1]
            lowest = np.argsort(mixed, kind="stable")[:_KEPT]
            rows = (mixed[lowest], ones[places[lowest]], twos[places[lowest]],
                    levels[places[lowest]])  # fmt: skip
            examples += zip(*(row.tolist() for row in rows), strict=True)
            examples.sort()
            del examples[_KEPT:]

    def examples(self) -> Iterator[tuple[float, int, int, float]]:
        """Yield pairs to show, of as many different documents as there are."""
        shown: set[int] = set()
        for examples, near in zip(self._kept, EXAMPLES_AT, strict=True):
            fresh = [example for example in examples if not shown & {example[1], example[2]}]
            chosen: list[tuple[int, int, int, float]] = []
            for example in (*fresh, *examples):
                if len(chosen) < EXAMPLES and example not in chosen:
                    is_other = not shown & {example[1], example[2]}
                    if is_other or example not in fresh:
                        chosen.append(example)
                        shown |= {example[1], example[2]}
            for _, left, right, level in sorted(chosen, key=lambda example: -example[3]):
                yield near, int(self._documents[left][0]), int(self._documents[right][0]), level


_ODD = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)))


def _sums(places: Ids, amounts: Ids, n: int) -> Ids:
    """Return the sum of the amounts at each of n places; they stay below 2**53."""
    sums: Ids = np.bincount(places, weights=amounts, minlength=n).round().astype(np.int64)
    return sums
