"""The contents that one add has written: it tells a new content without a look into every run.

While an add goes on, its batches leave run after run, which are merged at its end. A look-up of
each content of a batch in all of them costs more with every batch: half of the time of the last
tenth of 5 million documents. So an add remembers the bucket keys that it has written in a Bloom
filter (Bloom, 1970), in a fixed 16 MiB. A key that is not in it can only be in a run from before
the add.

A file of its own: a data structure that knows nothing of documents or transactions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["WrittenKeys"]

_BITS = 27
_HASHES = 3
"""With 2^27 bits: 1 in 1,000 wrongly suspected after 5 million keys, 3 in 100 after 20 million."""


class WrittenKeys:
    """The content keys that an add has written, and the runs that were there before it.

    Parameters
    ----------
    runs : sequence of str
        Tables of the runs as the add begins.
    bits : int
        The filter has 2^bits bits.
    """

    def __init__(self, runs: Sequence[str], *, bits: int = _BITS) -> None:
        self._bits = bits
        self._words: NDArray[np.uint8] | None = None
        self._runs = tuple(runs)

    def remember(self, keys: NDArray[np.int64]) -> None:
        """Note keys whose postings are being written."""
        if self._words is None:
            self._words = np.zeros(2**self._bits // 8, dtype=np.uint8)
        for places in self._places(keys):
            np.bitwise_or.at(self._words, places >> 3, _bit(places))

    def suspected(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which keys may have been remembered; those that have been are among them."""
        if self._words is None:
            return np.zeros(len(keys), dtype=bool)
        found = np.ones(len(keys), dtype=bool)
        for places in self._places(keys):
            found &= (self._words[places >> 3] & _bit(places)) != 0
        return found

    def runs_before(self, runs: Sequence[str]) -> list[str]:
        """The runs to look an unsuspected key up in, of those that there are.

        Where one from before was merged with others since, it has to be all of them from then on.
        """
        if not set(self._runs) <= set(runs):
            self._runs = tuple(runs)
            self._words = None
        return list(self._runs)

    def _places(self, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Bits of a key: it is 56 bits of a hash already, below the number of its band."""
        first = keys & (2**28 - 1)
        step = keys >> 28 & (2**28 - 1) | 1
        mask = 2**self._bits - 1
        return [(first + number * step) & mask for number in range(_HASHES)]


def _bit(places: NDArray[np.int64]) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = np.left_shift(1, places & 7).astype(np.uint8)
    return bits
