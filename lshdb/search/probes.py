"""The buckets that a query may look into, the likeliest first, and what share of points they hold.

A point that is similar to the query and not in one of its buckets mostly misses it by a slot or
two: a bit whose projection was near 0, a projection near the border of its piece. Given the query,
the probability of every value of a slot in a point at some level is known exactly
(``Family.alternatives``). Slots are independent, and so are bands; the buckets of one band exclude
each other. So the probability that some buckets hold the point is

    1 - product over bands of (1 - sum over the band's buckets of the bucket's probability)

Buckets are taken in order of their probability at one level. So a perturbed bucket of a band whose
slots lie near a border comes before one of a band whose slots do not (Lv, Josephson, Wang,
Charikar, Li, "Multi-probe LSH", VLDB 2007, with the conditional probability instead of their
score).

Limits: in each band single changes of a slot, the 48 likeliest, pairs of the 16 likeliest, triples
of the 10 and fours of the 7 likeliest: some 300 buckets a band.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
from numpy.typing import NDArray

from lshdb.kernel.band_hashes import band_words, keys_of_bands
from lshdb.signatures.banding import bucket_keys
from lshdb.signatures.family import Alternatives, Family, Point

__all__ = ["Probes"]

_LIKELIEST = (48, 16, 10, 7)
"""From this many of the likeliest changes, sets of one, two, three and four are made."""
_LEAST = 1e-300
"""Stands for a probability of 0, which has no logarithm."""

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


class Probes:
    """The buckets that a query may look into, the likeliest first.

    Parameters
    ----------
    family : Family
    row : ndarray of uint16, shape (1, row_words)
        Signature of the query.
    point : Point or None
        The query, if it is known.
    level : float
        Level of the points that are looked for.

    Attributes
    ----------
    n : int
        Number of buckets: only the query's own if the family knows none next to them.
    """

    def __init__(
        self, family: Family, row: NDArray[np.uint16], point: Point | None, level: float
    ) -> None:
        self._family, self._row, self._point = family, row, point
        params = family.params
        self._bands, self._rows = params.bands, params.rows
        alternatives = self._at(level)
        own = np.arange(self._bands)
        self._of_band, self._sets = own, np.zeros(self._bands, dtype=np.int64)
        self._alternatives: Alternatives
        if alternatives is not None:
            self._alternatives = alternatives
            self._choose()
        self.n = len(self._of_band)

    def _at(self, level: float) -> Alternatives | None:
        return None if self._point is None else self._family.alternatives(self._point, level)

    def _choose(self) -> None:
        """Put all sets of changes of all bands in order."""
        ratios = self._ratios(self._alternatives)
        n_changes = min(_LIKELIEST[0], ratios.shape[1])
        self._changes = np.argsort(-ratios, axis=1, kind="stable")[:, :n_changes]
        self._sets_of_changes = _sets(n_changes)
        logs = self._log_probabilities(self._alternatives)
        # The query's own buckets first, all of them.
        logs[:, 0] = np.inf
        order = np.argsort(-logs, axis=None, kind="stable")
        order = order[logs.reshape(-1)[order] > -np.inf]
        self._of_band, self._sets = np.divmod(order, len(self._sets_of_changes))

    def _ratios(self, alternatives: Alternatives) -> Floats:
        """Return the probability of each change of a band over that of no change."""
        used = self._bands * self._rows
        same = np.maximum(alternatives.same[:used], _LEAST)
        ratios: Floats = (alternatives.others[:used] / same[:, None]).reshape(self._bands, -1)
        return ratios

    def _log_probabilities(self, alternatives: Alternatives) -> Floats:
        """Return the log probability of each set of changes of each band (bands, sets)."""
        used = self._bands * self._rows
        same = np.log(np.maximum(alternatives.same[:used], _LEAST)).reshape(self._bands, -1)
        chosen = np.take_along_axis(self._ratios(alternatives), self._changes, axis=1)
        # The place past the last change stands for no change, and costs nothing.
        chosen = np.pad(np.log(np.maximum(chosen, _LEAST)), ((0, 0), (0, 1)))
        logs: Floats = same.sum(axis=1)[:, None] + np.zeros(len(self._sets_of_changes))
        for places in self._sets_of_changes.T:
            logs += chosen[:, places]
        m = alternatives.others.shape[1]
        if m > 1:
            logs[self._clashing(m)] = -np.inf
        return logs

    def _clashing(self, m: int) -> NDArray[np.bool_]:
        """Return which sets change one slot twice (bands, sets)."""
        n_changes = self._changes.shape[1]
        slots = np.pad(self._changes // m, ((0, 0), (0, 1)))
        clashes = np.zeros((self._bands, len(self._sets_of_changes)), dtype=bool)
        for changes1, changes2 in itertools.combinations(self._sets_of_changes.T, 2):
            clashes |= (slots[:, changes1] == slots[:, changes2]) & (changes2 < n_changes)
        return clashes

    def keys(self, first: int, last: int) -> Ids:
        """Return the bucket keys from one place in their order up to another (int64)."""
        params = self._family.params
        if last <= self._bands:
            own: Ids = bucket_keys(self._row, **params.cut)[0, self._of_band[first:last]]
            return own
        bands, sets = self._of_band[first:last], self._sets[first:last]
        words = band_words(self._row, **params.cut)[0, bands]
        bits = params.slot_bits
        for places in self._sets_of_changes[sets].T:
            changed = np.flatnonzero(places < self._changes.shape[1])
            change = self._changes[bands[changed], places[changed]]
            slot, which = np.divmod(change, self._alternatives.others.shape[1])
            values = self._alternatives.values[bands[changed] * self._rows + slot, which]
            word, shift = slot * bits // 64, (slot * bits % 64).astype(np.uint64)
            own = words[changed, word] >> shift & np.uint64(2**bits - 1)
            words[changed, word] ^= (own ^ values) << shift
        return keys_of_bands(words, bands)

    def recall(self, level: float, counts: list[int]) -> list[float]:
        """Return the probability that the first buckets hold a point at a level, per count.

        Parameters
        ----------
        level : float
        counts : list of int
            Ascending, each at least the number of bands.

        Returns
        -------
        list of float
        """
        params = self._family.params
        alternatives = self._at(level)
        if alternatives is None:
            return [params.recall_at(params.curve.value(level))] * len(counts)
        bands, sets = self._of_band[: counts[-1]], self._sets[: counts[-1]]
        chances = np.exp(self._log_probabilities(alternatives)[bands, sets])
        # Between two counts: which band has how much more.
        parts = np.searchsorted(counts, np.arange(len(bands)), side="right")
        cells = len(counts) * self._bands
        sums = np.bincount(parts * self._bands + bands, chances, minlength=cells)[:cells]
        totals = np.minimum(np.cumsum(sums.reshape(-1, self._bands), axis=0), 1.0)
        recalls: list[float] = (1.0 - np.prod(1.0 - totals, axis=1)).tolist()
        return recalls


@functools.cache
def _sets(n_changes: int) -> Ids:
    """Return sets of none, one, two, ... changes (int64, (sets, 4)).

    Each change is its place among the likeliest; the rest of a row is ``n_changes``.
    """
    sets = [()] + [
        chosen
        for size, likeliest in enumerate(_LIKELIEST, start=1)
        for chosen in itertools.combinations(range(min(likeliest, n_changes)), size)
    ]
    places = np.full((len(sets), len(_LIKELIEST)), n_changes, dtype=np.int64)
    for number, chosen in enumerate(sets):
        places[number, : len(chosen)] = chosen
    places.flags.writeable = False
    return places
