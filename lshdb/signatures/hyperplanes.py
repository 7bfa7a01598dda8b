"""Metric ``cosine``: the side of random hyperplanes on which a vector lies (Charikar, STOC 2002).

Scheme ``hyperplane``: slot j, one bit, is 1 if a_j . x >= 0, for a normal a_j of independent
Gaussian components. For two vectors at an angle, the hyperplane lies between them, and the slots
differ, with probability angle / pi; slots are independent. So for d1 < d2 in degrees the family is
(d1, d2, 1 - d1 / 180, 1 - d2 / 180)-sensitive (Mining of Massive Datasets, section 3.7.2).

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
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.dense import VectorFamily, pack_bits, stack
from lshdb.signatures.family import Alternatives
from lshdb.signatures.kernels import compiled
from lshdb.signatures.projections import Projections, upper_tail
from lshdb.signatures.random_numbers import Purpose, gaussian, signs

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["HadamardFamily", "HyperplaneFamily", "SideFamily", "flips", "transform"]


Floats = NDArray[np.float64]


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

    @abstractmethod
    def margins(self, point: NDArray[Any]) -> Floats:
        """Project a vector, with variance 1 over the seeds (float64, shape (num_perm,))."""

    def alternatives(self, point: NDArray[Any], level: float) -> Alternatives:
        """Return each slot's other bit with its probability: see :func:`flips`."""
        margins = self.margins(point)
        other = flips(margins, level)
        values = (margins < 0.0).astype(np.uint32)
        return Alternatives(1.0 - other, other[:, None], values[:, None])


class HyperplaneFamily(SideFamily):
    """Scheme ``hyperplane``.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(K dim) per vector, at the speed of BLAS; the matrix has 8 K dim bytes (``projections.py``).
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._normals = Projections(
            gaussian, seed=params.seed, num_perm=params.num_perm, dim=params.dim
        )

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """Return the side of each hyperplane, 32 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint32)
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


def transform(rows: Floats) -> None:
    """Apply the Walsh-Hadamard transform to each row, in place and not normalised.

    Parameters
    ----------
    rows : ndarray of float64, shape (n, D)
        D a power of two; in C order.
    """
    n, size = rows.shape
    kernel = compiled()
    if kernel is not None:
        kernel.walsh_hadamard(rows, size)
        return
    columns = np.ascontiguousarray(rows.T)
    spare = np.empty_like(columns)
    half = 1
    while half < size:
        halves, made = (array.reshape(size // (2 * half), 2, half, n) for array in (columns, spare))
        np.add(halves[:, 0], halves[:, 1], out=made[:, 0])
        np.subtract(halves[:, 0], halves[:, 1], out=made[:, 1])
        columns, spare = spare, columns
        half *= 2
    rows[:] = columns.T


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
        transform(products.reshape(-1, self._size))
        for number in range(1, _ROUNDS):
            products *= self._flips[:, number]
            transform(products.reshape(-1, self._size))
        return products.reshape(n, -1)[:, : self.params.num_perm]

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """Return the side of each hyperplane, 32 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint32)
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
