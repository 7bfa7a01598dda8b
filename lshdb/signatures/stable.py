"""Metrics ``l2`` and ``l1``: the piece of a random line into which a vector falls.

Datar, Immorlica, Indyk, Mirrokni, SoCG 2004. Slot j is floor((a_j . x + b_j) / w): the components
of a_j are Gaussian (scheme ``gaussian``, for l2) or Cauchy (``cauchy``, for l1), so that
a_j . (x - y) is the distance of x and y times one such number; w is the width, and b_j, uniform in
[0, w), is number j of the purpose OFFSETS times w. Slots are independent. Vectors at distance d are
equal in a slot with the probability p that ``params/curves.py`` gives at d / w, so for any d1 < d2
the family is (d1, d2, p(d1), p(d2))-sensitive (Mining of Massive Datasets, section 3.7.4, shows it
in the plane).

The number is stored as 32 bits in two's complement. A number that does not fit is stored as the
nearest that does. Two vectors may then be equal in the slot by mistake, but never differ by
mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.dense import VectorFamily
from lshdb.signatures.family import Alternatives
from lshdb.signatures.projections import Projections, upper_tail
from lshdb.signatures.random_numbers import Purpose, cauchy, gaussian, uniform

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["StableFamily"]

Floats = NDArray[np.float64]

_LOW, _HIGH = -(2.0**31), 2.0**31 - 1


class StableFamily(VectorFamily):
    """Schemes ``gaussian`` and ``cauchy``.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(K dim) per vector, at the speed of BLAS; the matrix has 8 K dim bytes (``projections.py``).
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._is_gaussian = params.scheme == "gaussian"
        self._lines = Projections(
            gaussian if self._is_gaussian else cauchy,
            seed=params.seed,
            num_perm=params.num_perm,
            dim=params.dim,
        )
        self._offsets = uniform(params.seed, Purpose.OFFSETS, 0, params.num_perm)

    def _pieces(self, products: Floats) -> Floats:
        """Turn products into places on the lines, in pieces; the products are overwritten."""
        products /= self.params.width
        products += self._offsets
        return products

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """Return the number of the piece on each line."""
        rows = np.empty((len(points), self.params.num_perm), dtype=np.uint32)
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
            tails = upper_tail(widths) if self._is_gaussian else _cauchy_tail(widths)
        below, above, far_below, far_above = tails
        same = 1.0 - below - above
        others = np.stack([below - far_below, above - far_above], axis=1)
        outside = (pieces <= _LOW) | (pieces >= _HIGH)
        same[outside], others[outside] = 1.0, 0.0
        values = np.stack([_as_words(pieces - 1.0), _as_words(pieces + 1.0)], axis=1)
        return Alternatives(same, others, values)


def _as_words(pieces: Floats) -> NDArray[np.uint32]:
    """Store whole numbers as 32 bits in two's complement, limited to what fits."""
    return np.clip(pieces, _LOW, _HIGH).astype(np.int64).astype(np.uint32)


def _cauchy_tail(x: Floats) -> Floats:
    """Return the probability that a standard Cauchy number is larger than each x >= 0."""
    return np.asarray(np.arctan(1.0 / np.maximum(x, 1e-300)) / np.pi)
