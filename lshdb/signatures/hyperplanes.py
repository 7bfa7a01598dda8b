"""Metric ``cosine``: on which side of random hyperplanes a vector lies (Charikar, STOC 2002).

Slot j, one bit, is 1 where a_j . x >= 0, for a normal a_j of independent Gaussian components. For
two vectors at an angle the hyperplane lies between them, and the slots differ, with probability
angle / pi; slots are independent. So for d1 < d2 in degrees the family is (d1, d2, 1 - d1 / 180,
1 - d2 / 180)-sensitive (Mining of Massive Datasets, section 3.7.2).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.dense import VectorFamily, pack_bits
from lshdb.signatures.family import Alternatives
from lshdb.signatures.normal import upper_tail
from lshdb.signatures.projecting import Projections
from lshdb.signatures.random_numbers import gaussian

if TYPE_CHECKING:
    from lshdb.params import IndexParams

__all__ = ["HyperplaneFamily", "SideFamily", "flips"]

Floats = NDArray[np.float64]


def flips(margins: Floats, cosine: float) -> Floats:
    """Probability that slots differ between a query and a vector at an angle to it.

    The other vector is cos t q + sin t e, for unit vectors q and e at a right angle, so with the
    query's margin m its own is m cos t + z sin t with a normal z: on the other side of 0 with
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
    """Signs of projections; a subclass projects.

    Parameters
    ----------
    params : IndexParams
    """

    @abstractmethod
    def margins(self, point: NDArray[Any]) -> Floats:
        """A vector's projections, of variance 1 over the seeds (float64, shape (num_perm,))."""

    def alternatives(self, point: NDArray[Any], level: float) -> Alternatives:
        """Each slot's other bit, with its probability: see :func:`flips`."""
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
    O(K dim) a vector, at the speed of BLAS; the matrix has 8 K dim bytes (``projecting.py``).
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._normals = Projections(
            gaussian, seed=params.seed, num_perm=params.num_perm, dim=params.dim
        )

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """The side of each hyperplane, 32 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint32)
        for begin, end, products in self._normals.of(points):
            rows[begin:end] = pack_bits(products >= 0.0)
        return rows

    def margins(self, point: NDArray[Any]) -> Floats:
        """Products with the normals, over the vector's length: exactly normal."""
        wide = point.astype(np.float64)
        ((_, _, products),) = self._normals.of([wide])
        return np.asarray(products[0] / math.sqrt(float(wide @ wide)))
