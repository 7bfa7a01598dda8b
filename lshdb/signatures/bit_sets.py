"""Metric ``jaccard-bits``: bit strings as the sets of places of their set bits, signed by min-hash.

The element of place i (0 for the first bit) is mix64(i + 1), and the schemes are those of texts
(``fss.py``, ``universal.py``): slots are words, equal with probability J, so for J1 > J2 the family
is (1 - J1, 1 - J2, J1, J2)-sensitive. Exactly compared, by counting bits, is J, the number of bits
set in both over the number set in either; of two strings without a set bit it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import count_bits
from lshdb.signatures.bits import BitFamily
from lshdb.signatures.contents import sketch
from lshdb.signatures.dense import blocks, stack
from lshdb.signatures.mixing import mix64

if TYPE_CHECKING:
    from lshdb.params import IndexParams

__all__ = ["BitSetFamily"]

Bytes = NDArray[np.uint8]

_WORK_PER_BIT = 16


class BitSetFamily(BitFamily):
    """Jaccard similarity of bit strings.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(dim + n + K log K) for n set bits with scheme ``fss``, O(dim + n K) with ``universal``.
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._elements = mix64(np.arange(1, params.dim + 1, dtype=np.uint64))

    def size(self, point: Bytes) -> int:
        """Set bits."""
        return int.from_bytes(point.tobytes(), "big").bit_count()

    def sign(self, points: Sequence[Bytes]) -> NDArray[np.uint32]:
        """Min-hash signatures of strings with a set bit."""
        params = self.params
        rows = np.empty((len(points), params.num_perm), dtype=np.uint32)
        for begin, end in blocks(len(points), _WORK_PER_BIT * self.dim):
            bits = np.unpackbits(stack(points[begin:end]), axis=1)
            owners, set_bits = np.nonzero(bits)
            rows[begin:end] = sketch(
                self._elements[set_bits],
                np.bincount(owners, minlength=end - begin).astype(np.int64),
                scheme=params.scheme,
                num_perm=params.num_perm,
                seed=params.seed,
            )
        return rows

    def levels(self, left: Sequence[Bytes], right: Sequence[Bytes]) -> NDArray[np.float64]:
        """Jaccard similarities; O(dim / 8) a pair."""
        found = np.zeros(len(left), dtype=np.float64)
        for begin, end in blocks(len(left), self._n_bytes):
            both = stack(left[begin:end]), stack(right[begin:end])
            either = count_bits(both[0] | both[1])
            np.divide(count_bits(both[0] & both[1]), either, found[begin:end], where=either > 0)
        return found
