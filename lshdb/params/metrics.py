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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from lshdb.arguments import MetricName
from lshdb.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DEFAULT_METRIC",
    "DTYPES",
    "JACCARD",
    "MAX_DIM",
    "METRICS",
    "SCHEMES",
    "TYPICAL_DOCUMENTS",
    "WORD_BITS",
    "Curve",
    "Metric",
    "Scheme",
    "curve_of",
]

WORD_BITS = 16
"""Bits of a word of a signature row: one slot, or slots of single bits."""
DTYPES = ("float32", "float64", "float16", "uint8")
"""The types of stored vectors; the first is the default."""

MAX_DIM = 2**20
TYPICAL_DOCUMENTS = 1e6
"""Documents of the corpus whose background :attr:`Metric.background` gives."""

Floats: TypeAlias = "NDArray[np.float64]"


class Curve(ABC):
    """Probability of an equal slot as a rising function of the level.

    Attributes
    ----------
    is_distance : bool
        Whether the level is minus a distance.
    best : float
        The level of two equal points.
    furthest : float
        The largest distance, if there is one.
    """

    is_distance: bool = False
    best: float = 1.0
    furthest: float = math.inf

    @abstractmethod
    def probability(self, level: float) -> float:
        """Return the probability that a slot is equal, 0 to 1."""

    @abstractmethod
    def levels(self, shares: Floats) -> Floats:
        """Return the levels at which slots are equal with these probabilities, as estimates."""

    def at_shares(self, shares: list[float]) -> list[float]:
        """Return the levels of some shares, as :meth:`levels` does."""
        levels: list[float] = self.levels(np.array(shares, dtype=np.float64)).tolist()
        return levels

    def level(self, value: float) -> float:
        """Return the level of a similarity or distance."""
        return 0.0 - value if self.is_distance else value

    def value(self, level: float) -> float:
        """Return the similarity or distance of a level."""
        return 0.0 - level if self.is_distance else level

    def twice_as_far(self, value: float) -> float:
        """Return the value twice as far, or halfway to the end if that is nearer."""
        return _doubled(value, self.furthest)


def _doubled(distance: float, end: float) -> float:
    return 2.0 * distance if 2.0 * distance < end else (distance + end) / 2.0


class _Equal(Curve):
    """Min-hash: slots are equal with probability J."""

    def probability(self, level: float) -> float:
        return min(1.0, max(0.0, level))

    def levels(self, shares: Floats) -> Floats:
        return shares

    def at_shares(self, shares: list[float]) -> list[float]:
        return shares

    def twice_as_far(self, value: float) -> float:
        return round(1.0 - _doubled(1.0 - value, 1.0), 12)  # 0.6, not 0.6000000000000001


class _Angle(Curve):
    """Signs of random projections differ with probability angle / pi."""

    def probability(self, level: float) -> float:
        return 1.0 - math.acos(min(1.0, max(-1.0, level))) / math.pi

    def levels(self, shares: Floats) -> Floats:
        return np.cos(np.pi * (1.0 - np.clip(shares, 0.0, 1.0)))

    def twice_as_far(self, value: float) -> float:
        return math.cos(_doubled(math.acos(value), math.pi))


@dataclass(frozen=True, slots=True)
class _Sampled(Curve):
    """If d of n bits differ, a sampled bit is equal with probability 1 - d / n."""

    furthest: float
    is_distance = True
    best = 0.0

    def probability(self, level: float) -> float:
        return min(1.0, max(0.0, 1.0 + level / self.furthest))

    def levels(self, shares: Floats) -> Floats:
        equal: Floats = np.round(shares * self.furthest, 9)  # keeps whole numbers whole
        return equal - self.furthest


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
        levels = np.array([self._level(share) for share in values])
        return levels[np.searchsorted(values, shares)] if values else shares

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


def _seconds_of_products(num_perm: int, dim: int) -> float:
    return num_perm * dim / _PRODUCTS_A_SECOND


def _seconds_of_transforms(num_perm: int, dim: int) -> float:
    padded = max(2, 1 << (dim - 1).bit_length())
    blocks = -(-num_perm // padded)
    return 3 * blocks * padded * math.log2(padded) / _PRODUCTS_A_SECOND


def _seconds_of_elements(num_perm: int, dim: int) -> float:
    return _TYPICAL_ELEMENTS * num_perm / _HASHES_A_SECOND


def _seconds_of_slots(num_perm: int, dim: int) -> float:
    return num_perm / _HASHES_A_SECOND


_PRODUCTS_A_SECOND = 4e9
_HASHES_A_SECOND = 5e7
_TYPICAL_ELEMENTS = 100


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheme: how slots are drawn, for whichever metrics have a family of it.

    Attributes
    ----------
    curve : callable
        (dim, width) -> the probability of an equal slot.
    seconds : callable
        (num_perm, dim) -> seconds to sign a document; for sets, one of a hundred elements.
    slot_bits : int
        Bits of a slot: those of a word of the signature, or 1.
    is_projected : bool
        Whether the width of the parameters is that of the pieces of a projection.
    has_largest : bool
        Whether the width of the parameters is the largest number of a vector.
    """

    curve: Callable[[int, float], Curve]
    seconds: Callable[[int, int], float]
    slot_bits: int = WORD_BITS
    is_projected: bool = False
    has_largest: bool = False


SCHEMES = {
    "fss": Scheme(lambda dim, width: JACCARD, _seconds_of_slots),
    "universal": Scheme(lambda dim, width: JACCARD, _seconds_of_elements),
    "hyperplane": Scheme(lambda dim, width: _Angle(), _seconds_of_products, 1),
    "hadamard": Scheme(lambda dim, width: _Angle(), _seconds_of_transforms, 1),
    "bits": Scheme(lambda dim, width: _Sampled(float(dim)), _seconds_of_slots, 1),
    "cauchy": Scheme(lambda dim, width: _Cauchy(width), _seconds_of_products, is_projected=True),
    "unary": Scheme(
        lambda dim, width: _Sampled(dim * width), _seconds_of_slots, 1, has_largest=True
    ),
    "gaussian": Scheme(
        lambda dim, width: _Gaussian(width), _seconds_of_products, is_projected=True
    ),
    "icws": Scheme(lambda dim, width: JACCARD, _seconds_of_elements),
}
"""The schemes by name, as in ``--scheme``."""


@lru_cache(maxsize=64)
def curve_of(scheme: str, *, dim: int = 0, width: float = 0.0) -> Curve:
    """Return the curve of a scheme.

    Parameters
    ----------
    scheme : str
        One of :data:`SCHEMES`.
    dim : int
        Dimension; for bit strings the number of bits.
    width : float
        Width of the pieces of a projection; for scheme ``unary`` the largest number.
    """
    return SCHEMES[scheme].curve(dim, width)


Levels: TypeAlias = Iterable[tuple[float, float]]
"""Levels, and the number of documents at each."""

_STEPS = 200


def _boilerplate(curve: Curve, threshold: float) -> Levels:
    """Return the background of sets that share boilerplate: exponential, with mean 0.05."""
    width = threshold / _STEPS
    for step in range(_STEPS):
        level = (step + 0.5) * width
        yield level, TYPICAL_DOCUMENTS * (math.exp(-level / 0.05) / 0.05) * width


def _word_vectors(curve: Curve, threshold: float) -> Levels:
    """Return the background of word vectors: normal about 0.1, with deviation 0.15."""
    width = (threshold + 1.0) / _STEPS
    scale = 0.15 * math.sqrt(2.0 * math.pi)
    for step in range(_STEPS):
        level = -1.0 + (step + 0.5) * width
        deviation = (level - 0.1) / 0.15
        yield level, TYPICAL_DOCUMENTS * (math.exp(-deviation * deviation / 2.0) / scale) * width


def _random_bits(curve: Curve, threshold: float) -> Levels:
    """Return the background of random bits: half of them differ."""
    (half,) = curve.levels(np.array([0.5])).tolist()
    yield min(half, threshold), TYPICAL_DOCUMENTS


def _multiples(curve: Curve, threshold: float) -> Levels:
    """Return a background of four times the threshold, with 1 % at twice the threshold."""
    yield 4.0 * threshold, 0.99 * TYPICAL_DOCUMENTS
    yield 2.0 * threshold, 0.01 * TYPICAL_DOCUMENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric: all that distinguishes it from the others, except the code of its families.

    Attributes
    ----------
    families : mapping of str to str
        Scheme -> ``"module.Class"`` in :mod:`lshdb.signatures`, which is imported when an index
        needs it; the first scheme is the default.
    body : {"text", "weights", "vector", "bits"}
        What is signed: the shingles of a text; weighted tokens; numbers; packed bits.
    background : callable
        (curve, threshold as a level) -> levels below the threshold, and how many of a million
        documents of a typical corpus are at each.
    threshold : float or None
        The default threshold; None if there is no usual one.
    lowest, largest : float
        A similarity is above the lowest, up to the largest; a distance lies between the two.
    is_distance : bool
        Whether smaller is more similar.
    is_whole : bool
        Whether values are whole numbers: of bits.
    """

    families: Mapping[str, str]
    body: str
    background: Callable[[Curve, float], Levels] = _boilerplate
    threshold: float | None = None
    lowest: float = 0.0
    largest: float = 1.0
    is_distance: bool = False
    is_whole: bool = False

    @property
    def is_dense(self) -> bool:
        """Whether all bodies of an index have one length, and lie in the file of vectors."""
        return self.body in ("vector", "bits")

    @property
    def takes_width(self) -> bool:
        """Whether one of its schemes has a width."""
        schemes = (SCHEMES[scheme] for scheme in self.families)
        return any(scheme.is_projected or scheme.has_largest for scheme in schemes)


_LEAST_DISTANCE, _LARGEST_DISTANCE = 1e-100, 1e200
"""Calculations with distances in this range stay within float64."""

METRICS = {
    "jaccard": Metric(
        families={"fss": "sets.SetFamily", "universal": "sets.SetFamily"},
        body="text", threshold=0.8,
    ),
    "cosine": Metric(
        families={
            "hyperplane": "projections.HyperplaneFamily", "hadamard": "projections.HadamardFamily"
        },
        body="vector", threshold=0.8, lowest=-1.0, background=_word_vectors,
    ),
    "hamming": Metric(
        families={"bits": "bits.SampledBitFamily"},
        body="bits", is_distance=True, is_whole=True, largest=MAX_DIM, background=_random_bits,
    ),
    "l1": Metric(
        families={"cauchy": "projections.CauchyFamily", "unary": "bits.UnaryFamily"},
        body="vector", is_distance=True, lowest=_LEAST_DISTANCE, largest=_LARGEST_DISTANCE,
        background=_multiples,
    ),
    "l2": Metric(
        families={"gaussian": "projections.GaussianFamily"},
        body="vector", is_distance=True, lowest=_LEAST_DISTANCE, largest=_LARGEST_DISTANCE,
        background=_multiples,
    ),
    "weighted-jaccard": Metric(
        families={"icws": "weighted.WeightedFamily"}, body="weights", threshold=0.8
    ),
    "jaccard-bits": Metric(
        families={"fss": "bits.BitSetFamily", "universal": "bits.BitSetFamily"},
        body="bits", threshold=0.8,
    ),
}  # fmt: skip
"""The metrics by name, as in ``--metric``. A new one is a row here and a name in ``MetricName``."""

DEFAULT_METRIC: MetricName = "jaccard"
