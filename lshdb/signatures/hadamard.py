"""Metric ``cosine``, the fast variant: hyperplanes that a Walsh-Hadamard transform makes.

A vector is filled with zeros to D = 2^m components, at least 256. A block of D slots is the signs
of

    H F_3 H F_2 H F_1 x

where H is the D x D Hadamard matrix (+-1, Sylvester's order) and the F are diagonal matrices of
random signs (Andoni, Indyk, Laarhoven, Razenshteyn, Schmidt, NIPS 2015, section 4). More slots take
more blocks with signs of their own, fewer the first of a block. It takes O(D log D) additions a
block, where random normals take D dim products, and no matrix. Sign number i of round r (0 to 2) of
block b is number (3 b + r) D + i of the purpose FLIPS.

The rows of the product are at right angles to one another, so slots of one block are not
independent, and a row is only nearly Gaussian. That slots are equal with probability 1 - angle / pi
all the same is measured, not proven. Over 2,000 seeds of 256 slots and twenty angles no random pair
of vectors was off by more than chance; the worst found were two vectors with one component each, by
0.0013, where one projection in 130 is exactly 0. With 64 for the least size it were 0.015. The
share of equal slots varies less than of independent ones: 0.75 to 0.97 of their deviation.

The transform adds pairs at distance 1, then at 2, 4 and so on, in doubles; as the order is fixed, a
signature is the same bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.dense import pack_bits, stack
from lshdb.signatures.hyperplanes import SideFamily
from lshdb.signatures.kernels import compiled
from lshdb.signatures.random_numbers import Purpose, signs

if TYPE_CHECKING:
    from lshdb.params import IndexParams

__all__ = ["HadamardFamily", "transform"]

Floats = NDArray[np.float64]

_LEAST = 256
_ROUNDS = 3
_CACHED_BYTES = 1 << 20


def transform(rows: Floats) -> None:
    """The Walsh-Hadamard transform of each row, not normalised, in its place.

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
    instead of 55, and 1024 of 4096 take 160 instead of 370. So it pays from some 300 dimensions on,
    or where K dim is too large for a matrix. Without the kernel it does not up to 4,096.
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._size = max(_LEAST, 1 << (params.dim - 1).bit_length())
        self._n_blocks = -(-params.num_perm // self._size)
        drawn = signs(params.seed, Purpose.FLIPS, 0, self._n_blocks * _ROUNDS * self._size)
        self._flips = drawn.reshape(self._n_blocks, _ROUNDS, self._size)

    def _project(self, rows: Sequence[NDArray[Any]]) -> Floats:
        """Products, D times the vector's length in deviation (shape (len(rows), num_perm))."""
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
        """The side of each hyperplane, 32 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint32)
        step = max(1, _CACHED_BYTES // (8 * self._size * self._n_blocks))
        for begin in range(0, len(points), step):
            products = self._project(points[begin : begin + step])
            rows[begin : begin + step] = pack_bits(products >= 0.0)
        return rows

    def margins(self, point: NDArray[Any]) -> Floats:
        """Products over D times the vector's length: nearly normal."""
        products = self._project([point])[0]
        wide = point.astype(np.float64)
        return np.asarray(products / (self._size * math.sqrt(float(wide @ wide))))
