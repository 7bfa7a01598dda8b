"""Random projections of vectors: metric ``cosine`` by their signs, ``l2`` and ``l1`` by pieces.

Entry (j, i) of the matrix of K slots and d components is number j d + i of the purpose PROJECTIONS
(``random_numbers.py``). A matrix of up to 256 MiB is kept. The rows of a larger one are drawn again
for each block of vectors, which takes 50 ns per number: then a single query waits for all of them.

BLAS computes the products. Their last bits may depend on the machine, and on how many vectors are
projected at once. A slot is affected only if a projection comes within some 1e-15 of a point where
its value changes; that is negligible beside the randomness of the family.

Scheme ``hyperplane`` (Charikar, STOC 2002): slot j, one bit, is 1 if a_j . x >= 0, for a normal a_j
of independent Gaussian components. For two vectors at an angle, the hyperplane lies between them,
and the slots differ, with probability angle / pi; slots are independent. So for d1 < d2 in degrees
the family is (d1, d2, 1 - d1 / 180, 1 - d2 / 180)-sensitive (Mining of Massive Datasets, section
3.7.2).

Scheme ``hadamard``, the fast variant: a Walsh-Hadamard transform makes the hyperplanes. A vector is
padded with zeros to D = 2^m components, at least 256. A block of D slots is the signs of

    H F_3 H F_2 H F_1 x

where H is the D x D Hadamard matrix (+-1, Sylvester's order) and the F are diagonal matrices of
random signs (Andoni, Indyk, Laarhoven, Razenshteyn, Schmidt, NIPS 2015, section 4). More slots use
more blocks with signs of their own; fewer slots use the first of a block. A block takes
O(D log D) additions and no matrix; random normals take D dim products. Sign number i of round r
(0 to 2) of block b is number (3 b + r) D + i of the purpose FLIPS.

The rows of the product are orthogonal, so slots of one block are not independent, and a row is
only nearly Gaussian. That slots are nevertheless equal with probability 1 - angle / pi is measured,
not proven. Over 2,000 seeds of 256 slots and twenty angles, no random pair of vectors was off by
more than chance. The worst pair found was two vectors with one component each, off by 0.0013, where
one projection in 130 is exactly 0. With a least size of 64 it would be 0.015. The share of equal
slots varies less than that of independent slots: 0.75 to 0.97 of their deviation.

The transform adds pairs at distance 1, then at 2, 4 and so on, in doubles. The order is fixed, so a
signature is the same bits on every machine.

Schemes ``gaussian`` (l2) and ``cauchy`` (l1): the piece of a random line into which a vector falls
(Datar, Immorlica, Indyk, Mirrokni, SoCG 2004). Slot j is floor((a_j . x + b_j) / w): the components
of a_j are Gaussian or Cauchy, so that a_j . (x - y) is the distance of x and y times one such
number; w is the width, and b_j, uniform in [0, w), is number j of the purpose OFFSETS times w.
Slots are independent. Vectors at distance d are equal in a slot with the probability p that
``params/metrics.py`` gives at d / w, so for any d1 < d2 the family is (d1, d2, p(d1), p(d2))-
sensitive (Mining of Massive Datasets, section 3.7.4, shows it in the plane).

The number is limited to 32 bits in two's complement, and the lower 16 are stored. So vectors whose
numbers differ by a multiple of 65,536, or are limited, are equal in the slot by mistake, but never
differ by mistake. The first happens in at most some one of 65,536 slots, at any distance, because a
density that falls off to both sides is as good as even over pieces so far apart.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.kernel import kernel
from lshdb.kernel.random_numbers import Purpose, cauchy, gaussian, signs, uniform
from lshdb.signatures.dense import (
    COSINE,
    EUCLIDEAN,
    TAXICAB,
    VectorFamily,
    blocks,
    pack_bits,
    stack,
)
from lshdb.signatures.family import Alternatives

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = [
    "CauchyFamily",
    "GaussianFamily",
    "HadamardFamily",
    "HyperplaneFamily",
    "Projections",
    "SideFamily",
    "StableFamily",
    "flips",
    "upper_tail",
]

Floats = NDArray[np.float64]
Draw = Callable[[int, Purpose, int, int], Floats]

_KEPT_BYTES = 256 << 20


class Projections:
    """A matrix of random numbers, and products with it; threads may share it.

    Parameters
    ----------
    draw : callable
        ``gaussian`` or ``cauchy`` of ``random_numbers.py``.
    seed : int
    num_perm : int
        Rows of the matrix, K.
    dim : int
        Columns, d.
    """

    def __init__(self, draw: Draw, *, seed: int, num_perm: int, dim: int) -> None:
        self._draw, self._seed, self._num_perm, self._dim = draw, seed, num_perm, dim

    def _rows(self, begin: int, end: int) -> Floats:
        size = (end - begin) * self._dim
        drawn = self._draw(self._seed, Purpose.PROJECTIONS, begin * self._dim, size)
        return drawn.reshape(end - begin, self._dim)

    @cached_property
    def _kept(self) -> list[tuple[int, int, Floats]]:
        return list(self._drawn())

    def _drawn(self) -> Iterator[tuple[int, int, Floats]]:
        for begin, end in blocks(self._num_perm, 8 * self._dim):
            yield begin, end, self._rows(begin, end)

    def of(self, rows: Sequence[NDArray[Any]]) -> Iterator[tuple[int, int, Floats]]:
        """Yield all K products of one block of vectors after another.

        Yields
        ------
        begin, end : int
            The range of vectors.
        products : ndarray of float64, shape (end - begin, num_perm)
        """
        is_small = 8 * self._num_perm * self._dim <= _KEPT_BYTES
        for begin, end in blocks(len(rows), 8 * max(self._dim, self._num_perm)):
            vectors = stack(rows[begin:end]).astype(np.float64)
            products = np.empty((end - begin, self._num_perm), dtype=np.float64)
            for first, last, matrix in self._kept if is_small else self._drawn():
                np.matmul(vectors, matrix.T, out=products[:, first:last])
            yield begin, end, products


_STEPS = 1024
"""Places of the table per unit."""
_END = 10
"""Beyond this the tail counts as 7.6e-24, its value here."""


@cache
def _table() -> tuple[Floats, Floats]:
    places = np.arange(_END * _STEPS + 1) / _STEPS
    tails = np.array([math.erfc(x / math.sqrt(2.0)) / 2.0 for x in places.tolist()])
    return tails, np.exp(-places * places / 2.0) / math.sqrt(2.0 * math.pi)


def upper_tail(x: Floats) -> Floats:
    """Return the probability that a standard normal number is larger than each x >= 0.

    Uses the first three terms of the Taylor series about the nearest of 1024 places per unit, where
    ``math.erfc`` gives the value. The rest is below x^2 / (6 2048^3) of it: the measured error is
    at most 8e-12, and 3e-9 of the value up to x = 5, 2e-8 up to 10.
    """
    tails, densities = _table()
    near = np.minimum(x, float(_END))
    place = (near * _STEPS + 0.5).astype(np.int64)
    middle = place / _STEPS
    near -= middle
    middle *= near
    middle *= 0.5
    middle -= 1.0
    middle *= near
    middle *= densities[place]
    middle += tails[place]
    return middle


def flips(margins: Floats, cosine: float) -> Floats:
    """Return the probability that slots differ between a query and a vector at an angle to it.

    The other vector is cos t q + sin t e, for orthogonal unit vectors q and e. If the query's
    margin is m, the other margin is m cos t + z sin t with a normal z: on the other side of 0 with
    probability Phi(-abs(m) cot t).

    Parameters
    ----------
    margins : ndarray of float64
        a_j . q / abs(q) for normals a_j.
    cosine : float
        cos t.
    """
    cosine = min(1.0, max(-1.0, cosine))
    sine = math.sqrt((1.0 - cosine) * (1.0 + cosine))
    if sine == 0.0:
        return np.full(margins.shape, 0.0 if cosine > 0.0 else 1.0)
    tails = upper_tail(np.abs(margins) * (abs(cosine) / sine))
    return tails if cosine >= 0.0 else 1.0 - tails


class SideFamily(VectorFamily):
    """Signs of projections; subclasses implement the projection.

    Parameters
    ----------
    params : IndexParams
    """

    measure = COSINE

    @abstractmethod
    def margins(self, point: NDArray[Any]) -> Floats:
        """Project a vector, with variance 1 over the seeds (float64, shape (num_perm,))."""

    def alternatives(self, point: NDArray[Any], level: float) -> Alternatives:
        """Return each slot's other bit with its probability: see :func:`flips`."""
        margins = self.margins(point)
        flipped = flips(margins, level)
        values = (margins < 0.0).astype(np.uint16)
        return Alternatives(1.0 - flipped, flipped[:, None], values[:, None])


class HyperplaneFamily(SideFamily):
    """Scheme ``hyperplane``.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(K dim) per vector, at the speed of BLAS; the matrix has 8 K dim bytes.
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._normals = Projections(
            gaussian, seed=params.seed, num_perm=params.num_perm, dim=params.dim
        )

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint16]:
        """Return the side of each hyperplane, 16 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint16)
        for begin, end, products in self._normals.of(points):
            rows[begin:end] = pack_bits(products >= 0.0)
        return rows

    def margins(self, point: NDArray[Any]) -> Floats:
        """Return products with the normals over the vector's length: exactly normal."""
        wide = point.astype(np.float64)
        ((_, _, products),) = self._normals.of([wide])
        return np.asarray(products[0] / math.sqrt(float(wide @ wide)))


_LEAST = 256
_ROUNDS = 3
_CACHED_BYTES = 1 << 20


class HadamardFamily(SideFamily):
    """Scheme ``hadamard``.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    Measured on one core of x86-64, with the kernel, against ``hyperplane``: 256 slots of 256
    dimensions take 5 us either way, 512 of 512 take 10 us instead of 18, 1024 of 768 take 24
    instead of 55, and 1024 of 4096 take 160 instead of 370. So it pays from about 300 dimensions,
    or if K dim is too large for a matrix. Without the kernel it does not pay up to 4,096.
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._size = max(_LEAST, 1 << (params.dim - 1).bit_length())
        self._n_blocks = -(-params.num_perm // self._size)
        drawn = signs(params.seed, Purpose.FLIPS, 0, self._n_blocks * _ROUNDS * self._size)
        self._flips = drawn.reshape(self._n_blocks, _ROUNDS, self._size)

    def _project(self, rows: Sequence[NDArray[Any]]) -> Floats:
        """Project rows; deviation D times a vector's length (shape (len(rows), num_perm))."""
        n = len(rows)
        vectors = np.zeros((n, 1, self._size), dtype=np.float64)
        vectors[:, 0, : self.dim] = stack(rows)
        products = vectors * self._flips[:, 0]
        kernel.walsh_hadamard(products, self._size)
        for number in range(1, _ROUNDS):
            products *= self._flips[:, number]
            kernel.walsh_hadamard(products, self._size)
        return products.reshape(n, -1)[:, : self.params.num_perm]

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint16]:
        """Return the side of each hyperplane, 16 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint16)
        step = max(1, _CACHED_BYTES // (8 * self._size * self._n_blocks))
        for begin in range(0, len(points), step):
            products = self._project(points[begin : begin + step])
            rows[begin : begin + step] = pack_bits(products >= 0.0)
        return rows

    def margins(self, point: NDArray[Any]) -> Floats:
        """Return products over D times the vector's length: nearly normal."""
        products = self._project([point])[0]
        wide = point.astype(np.float64)
        return np.asarray(products / (self._size * math.sqrt(float(wide @ wide))))


_LOW, _HIGH = -(2.0**31), 2.0**31 - 1


class StableFamily(VectorFamily):
    """Pieces of projections; subclasses set the distribution.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(K dim) per vector, at the speed of BLAS; the matrix has 8 K dim bytes.
    """

    @staticmethod
    @abstractmethod
    def draw(seed: int, purpose: Purpose, first: int, count: int, /) -> Floats:
        """Draw numbers of the distribution."""

    @staticmethod
    @abstractmethod
    def tail(x: Floats, /) -> Floats:
        """Return the probability that a number of the distribution is larger than each x >= 0."""

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._lines = Projections(
            self.draw, seed=params.seed, num_perm=params.num_perm, dim=params.dim
        )
        self._offsets = uniform(params.seed, Purpose.OFFSETS, 0, params.num_perm)

    def _pieces(self, products: Floats) -> Floats:
        """Turn products into places on the lines, in pieces; the products are overwritten."""
        products /= self.params.width
        products += self._offsets
        return products

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint16]:
        """Return the number of the piece on each line."""
        rows = np.empty((len(points), self.params.num_perm), dtype=np.uint16)
        for begin, end, products in self._lines.of(points):
            rows[begin:end] = _as_words(np.floor(self._pieces(products)))
        return rows

    def alternatives(self, point: NDArray[Any], level: float) -> Alternatives:
        """Return the pieces before and after the query's, with their probabilities.

        The two projections differ by the distance times a Gaussian or Cauchy number, given the
        query's place in its piece, which the offset makes independent of everything else. A slot
        whose number did not fit has no neighbours.
        """
        ((_, _, products),) = self._lines.of([point])
        places = self._pieces(products)[0]
        pieces = np.floor(places)
        inside = places - pieces
        if level >= 0.0:
            tails = np.zeros((4, len(inside)))
        else:
            widths = np.stack([inside, 1.0 - inside, inside + 1.0, 2.0 - inside])
            widths *= self.params.width / -level
            tails = self.tail(widths)
        below, above, far_below, far_above = tails
        same = 1.0 - below - above
        neighbours = np.stack([below - far_below, above - far_above], axis=1)
        outside = (pieces <= _LOW) | (pieces >= _HIGH)
        same[outside], neighbours[outside] = 1.0, 0.0
        values = np.stack([_as_words(pieces - 1.0), _as_words(pieces + 1.0)], axis=1)
        return Alternatives(same, neighbours, values)


def _as_words(pieces: Floats) -> NDArray[np.uint16]:
    """Store whole numbers as the low half of 32 bits in two's complement, limited to these."""
    return np.clip(pieces, _LOW, _HIGH).astype(np.int64).astype(np.uint16)


def _cauchy_tail(x: Floats) -> Floats:
    """Return the probability that a standard Cauchy number is larger than each x >= 0."""
    return np.asarray(np.arctan(1.0 / np.maximum(x, 1e-300)) / np.pi)


class GaussianFamily(StableFamily):
    """Metric ``l2``, scheme ``gaussian``.

    Parameters
    ----------
    params : IndexParams
    """

    measure = EUCLIDEAN
    draw = staticmethod(gaussian)
    tail = staticmethod(upper_tail)


class CauchyFamily(StableFamily):
    """Metric ``l1``, scheme ``cauchy``.

    Parameters
    ----------
    params : IndexParams
    """

    measure = TAXICAB
    draw = staticmethod(cauchy)
    tail = staticmethod(_cauchy_tail)
