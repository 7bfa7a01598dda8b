"""The metrics, and for each family of hash functions the probability that two slots are equal.

A family h is chosen so that Pr[h(x) = h(y)] depends only on how similar x and y are. That function
of the similarity is the curve, exact to rounding. All other figures follow from it: what bands
find, the estimate from a share of equal slots, and, for two levels of similarity, that the family
is (d1, d2, p1, p2)-sensitive with p1 and p2 the curve's values there.

A *level* states how similar two points are; a larger level means more similar. For a similarity
the level is its value; for a distance d the level is -d. So one order serves every metric, and a
threshold is always the lowest level that counts.

    jaccard, weighted-jaccard, jaccard-bits    J                          min-hash
    cosine    1 - arccos(s) / pi                                  sign of a random projection
    hamming   1 - d / n                                           a sampled bit of n
    l1        2 atan(u) / pi - ln(1 + u^2) / (pi u),  u = a / d   Cauchy projection, cut at width a
    l1        1 - d / (n m)                            a sampled bit of the unary code of 0 to m
    l2        1 - 2 Phi(-u) - 2 (1 - exp(-u^2 / 2)) / (sqrt(2 pi) u),  u = a / d   the Gaussian one

Sources: Mining of Massive Datasets, sections 3.3 and 3.7; Charikar, STOC 2002 (cosine); Datar,
Immorlica, Indyk, Mirrokni, SoCG 2004 (l1 and l2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from lshdb.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DTYPES",
    "JACCARD",
    "METRICS",
    "ONE_BIT_SCHEMES",
    "Curve",
    "Metric",
    "curve_of",
    "projection_curve",
]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes
    ----------
    schemes : tuple of str
        Families of hash functions for it; the first is the default.
    body : {"text", "weights", "vector", "bits"}
        What is signed: the shingles of a text; weighted tokens; numbers; packed bits.
    threshold : float or None
        The default threshold; None if there is no usual one.
    is_distance : bool
        Whether smaller is more similar.
    is_dense : bool
        Whether all bodies of an index have one length, and lie in the file of vectors.
    """

    schemes: tuple[str, ...]
    body: str
    threshold: float | None
    is_distance: bool = False
    is_dense: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_dense", self.body in ("vector", "bits"))


METRICS = {
    "jaccard": Metric(("fss", "universal"), "text", 0.8),
    "cosine": Metric(("hyperplane", "hadamard"), "vector", 0.8),
    "hamming": Metric(("bits",), "bits", None, is_distance=True),
    "l1": Metric(("cauchy", "unary"), "vector", None, is_distance=True),
    "l2": Metric(("gaussian",), "vector", None, is_distance=True),
    "weighted-jaccard": Metric(("icws",), "weights", 0.8),
    "jaccard-bits": Metric(("fss", "universal"), "bits", 0.8),
}
"""The metrics by name, as in ``--metric``; the first is the default."""

ONE_BIT_SCHEMES = frozenset({"hyperplane", "hadamard", "bits", "unary"})
"""Schemes with slots of one bit, 32 per word of the signature; other slots are words."""

DTYPES = ("float32", "float64", "float16", "uint8")
"""The types of stored vectors; the first is the default."""


Floats: TypeAlias = "NDArray[np.float64]"


class Curve(ABC):
    """Probability of an equal slot as a rising function of the level.

    Attributes
    ----------
    is_distance : bool
        Whether the level is minus a distance.
    best : float
        The level of two equal points.
    """

    is_distance: bool = False
    best: float = 1.0

    @abstractmethod
    def probability(self, level: float) -> float:
        """Return the probability that a slot is equal, 0 to 1."""

    @abstractmethod
    def levels(self, shares: Floats) -> Floats:
        """Return the levels at which slots are equal with these probabilities, as estimates."""

    def at_share(self, share: float) -> float:
        """Return the level of one share, as :meth:`levels` does."""
        return float(self.levels(np.array([share]))[0])

    def level(self, value: float) -> float:
        """Return the level of a similarity or distance."""
        return 0.0 - value if self.is_distance else value

    def value(self, level: float) -> float:
        """Return the similarity or distance of a level."""
        return 0.0 - level if self.is_distance else level


class _Equal(Curve):
    """Min-hash: slots are equal with probability J."""

    def probability(self, level: float) -> float:
        return min(1.0, max(0.0, level))

    def levels(self, shares: Floats) -> Floats:
        return shares

    def at_share(self, share: float) -> float:
        return share


class _Angle(Curve):
    """Signs of random projections differ with probability angle / pi."""

    def probability(self, level: float) -> float:
        return 1.0 - math.acos(min(1.0, max(-1.0, level))) / math.pi

    def levels(self, shares: Floats) -> Floats:
        return np.cos(np.pi * (1.0 - np.clip(shares, 0.0, 1.0)))


@dataclass(frozen=True, slots=True)
class _Sampled(Curve):
    """If d of n bits differ, a sampled bit is equal with probability 1 - d / n."""

    n_bits: float
    is_distance = True
    best = 0.0

    def probability(self, level: float) -> float:
        return min(1.0, max(0.0, 1.0 + level / self.n_bits))

    def levels(self, shares: Floats) -> Floats:
        found: Floats = np.round(shares * self.n_bits, 9) - self.n_bits  # keeps whole numbers whole
        return found


@dataclass(frozen=True, slots=True)
class _Projected(Curve):
    """Projections by a p-stable distribution, cut into pieces of one width."""

    width: float
    is_distance = True
    best = 0.0

    def probability(self, level: float) -> float:
        distance = -level / self.width
        return 1.0 if distance < 1e-20 else self._at(distance)  # below that, u^2 is too large

    def levels(self, shares: Floats) -> Floats:
        values = sorted(set(shares.tolist()))  # few distinct values: they are counts of slots
        found = np.array([self._level(share) for share in values])
        return found[np.searchsorted(values, shares)] if values else shares

    def _level(self, share: float) -> float:
        """Find the level by bisecting the logarithm of the distance, to 12 digits."""
        if share >= 1.0:
            return 0.0
        low, high = -40.0, 40.0
        while high - low > 1e-12:
            middle = (low + high) / 2
            low, high = (middle, high) if self._at(math.exp(middle)) > share else (low, middle)
        return 0.0 - math.exp(low) * self.width

    @abstractmethod
    def _at(self, distance: float) -> float:
        """Return the probability at a distance in widths, at least 1e-20."""


class _Cauchy(_Projected):
    def _at(self, distance: float) -> float:
        if distance > 1e5:  # 1 / (pi c): both terms round to nearly the same
            return 1.0 / (math.pi * distance)
        u = 1.0 / distance
        return max(0.0, 2.0 * math.atan(u) / math.pi - math.log1p(u * u) / (math.pi * u))


class _Gaussian(_Projected):
    def _at(self, distance: float) -> float:
        if distance > 1e3:  # u / sqrt(2 pi) (1 - u^2 / 12): the sum rounds to nothing
            u = 1.0 / distance
            return u / math.sqrt(2.0 * math.pi) * (1.0 - u * u / 12.0)
        u = 1.0 / distance
        tail = math.erfc(u / math.sqrt(2.0))
        return 1.0 - tail + 2.0 * math.expm1(-u * u / 2.0) / (math.sqrt(2.0 * math.pi) * u)


JACCARD: Curve = _Equal()
"""The curve of min-hash."""


def projection_curve(scheme: str, width: float) -> Curve:
    """Return the curve of projections cut at a width, for scheme ``cauchy`` or ``gaussian``."""
    return _Cauchy(width) if scheme == "cauchy" else _Gaussian(width)


@lru_cache(maxsize=64)
def curve_of(metric: str, scheme: str, *, dim: int, width: float) -> Curve:
    """Return the curve of a family.

    Parameters
    ----------
    metric, scheme : str
        As in ``metrics.METRICS``.
    dim : int
        Dimension; for bit strings the number of bits.
    width : float
        Width of the pieces of a projection; for scheme ``unary`` the largest number.
    """
    if metric == "cosine":
        return _Angle()
    if metric == "hamming":
        return _Sampled(float(dim))
    if scheme == "unary":
        return _Sampled(dim * width)
    if scheme in ("cauchy", "gaussian"):
        return projection_curve(scheme, width)
    return JACCARD
