"""Metric ``l1`` of small whole numbers: sampled bits of their unary code, which is never written.

The code of x (0 to m) is x ones and m - x zeros; two codes differ in as many bits as the numbers
are apart, so that l1 becomes Hamming distance (Gionis, Indyk, Motwani, VLDB 1999; Mining of Massive
Datasets, sections 3.5.5 and 3.7.1). Slot j, one bit, is 1 where x[i_j] >= t_j: i_j is place j of
the purpose COMPONENTS among the dim, and t_j, 1 to m, is one more than place j of the purpose CUTS
among the m.
Vectors at distance d are equal in a slot with probability 1 - d / (dim m), so the family is
(d1, d2, 1 - d1 / (dim m), 1 - d2 / (dim m))-sensitive. m is the width of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.bits import even_flips
from lshdb.signatures.dense import VectorFamily, blocks, pack_bits, stack
from lshdb.signatures.family import Alternatives
from lshdb.signatures.random_numbers import Purpose, places

if TYPE_CHECKING:
    from lshdb.params import IndexParams

__all__ = ["UnaryFamily"]


class UnaryFamily(VectorFamily):
    """Scheme ``unary``.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(K) a vector.
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._largest = int(params.width)
        self._places = places(params.seed, Purpose.COMPONENTS, params.num_perm, params.dim)
        cuts = places(params.seed, Purpose.CUTS, params.num_perm, self._largest) + 1
        self._cuts = cuts.astype(np.float32)  # whole numbers to 2^16 are exact

    def _refuse_numbers(self, array: NDArray[Any]) -> str | None:
        reason = super()._refuse_numbers(array)
        if reason is not None:
            return reason
        rounded = array.astype(self.dtype, copy=False)
        good = (rounded >= 0) & (rounded <= self._largest)
        if self.dtype.kind == "f":
            good &= rounded == np.floor(rounded)
        if good.all():
            return None
        place = int(np.argmin(good))
        return (
            f"number {place + 1} is {array[place]!s}, and scheme unary takes whole numbers "
            f"from 0 to {self._largest}"
        )

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint32]:
        """The sampled bits of the code, 32 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint32)
        for begin, end in blocks(len(points), 8 * max(self.dim, self.params.num_perm)):
            sampled = np.take(stack(points[begin:end]), self._places, axis=1)
            rows[begin:end] = pack_bits(sampled >= self._cuts)
        return rows

    def alternatives(self, point: NDArray[Any], level: float) -> Alternatives:
        """The other bit of each slot, all with one probability: where numbers differ is open."""
        same = self.params.curve.probability(level)
        return even_flips(self.sign([point])[0], self.params.num_perm, same)
