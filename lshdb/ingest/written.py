"""What an add has written, as Bloom filters: what is in none was not there before it, or nowhere.

Bloom (1970), "Space/time trade-offs in hash coding with allowable errors".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lshdb.kernel.random_numbers import mix64

__all__ = ["WrittenContents", "WrittenDocuments"]

_FILTER_BITS = 27
"""Of the largest filter, which has room for 6.7 million keys in 16 MiB."""
_FIRST_BITS = 23
"""Of the first one: 420,000 keys in 1 MiB, which stays in the processor's cache."""
_FILTER_HASHES = 3
_BITS_A_KEY = 20
"""1 in 400 is wrongly suspected by a full filter."""


class _Filter:
    """Bloom filters, one after the other as they are full; their keys are int64.

    Each has twice the bits of the one before, up to 2^bits.
    """

    def __init__(self, bits: int) -> None:
        self._most_bits = bits
        self._filters: list[NDArray[np.uint8]] = []
        self._room = 0

    def remember(self, keys: NDArray[np.int64]) -> None:
        """Note keys."""
        if self._room <= 0:
            size = 2 ** min(self._most_bits, _FIRST_BITS + len(self._filters))
            self._filters.append(np.zeros(size // 8, dtype=np.uint8))
            self._room = size // _BITS_A_KEY
        self._room -= len(keys)
        for places in self._places(keys):
            place = places & (8 * len(self._filters[-1]) - 1)
            np.bitwise_or.at(self._filters[-1], place >> 3, _bit(place))

    def suspected(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which keys may have been noted, including all that were."""
        suspected = np.zeros(len(keys), dtype=bool)
        all_places = self._places(keys) if self._filters else []
        for words in self._filters:
            may_be = np.ones(len(keys), dtype=bool)
            for places in all_places:
                place = places & (8 * len(words) - 1)
                may_be &= (words[place >> 3] & _bit(place)) != 0
            suspected |= may_be
        return suspected

    def _places(self, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        hashed = mix64(keys.view(np.uint64)).view(np.int64)
        first = hashed & (2**32 - 1)
        step = hashed >> 32 | 1
        return [first + number * step for number in range(_FILTER_HASHES)]


def _bit(places: NDArray[np.int64]) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = np.left_shift(1, places & 7).astype(np.uint8)
    return bits


class WrittenContents(_Filter):
    """The content keys that an add has written.

    A key that it has not can only be that of a signature from before the add, so the orders of its
    own commits need not be searched for it. 1 MiB, and up to 16 MiB for each 6.7 million contents.

    Parameters
    ----------
    bits : int
        A filter has at most 2^bits bits.
    """

    def __init__(self, *, bits: int = _FILTER_BITS) -> None:
        super().__init__(bits)


class WrittenDocuments:
    """The keys of documents that an add has written into an index that had none.

    Looking a key up takes a microsecond, and more where keys come in no order.

    Parameters
    ----------
    is_all : bool
        Whether the index has, and had, no documents but those of this add.
    bits : int
        A filter has at most 2^bits bits.
    """

    def __init__(self, *, is_all: bool, bits: int = _FILTER_BITS) -> None:
        self._filter = _Filter(bits) if is_all else None

    def suspected(self, keys: Sequence[str], *, remembers: bool) -> Sequence[str]:
        """Return the keys that documents may have, including all that do; then note all of them."""
        if self._filter is None:
            return keys
        hashes = np.fromiter(map(hash, keys), dtype=np.int64, count=len(keys))
        may_be = np.flatnonzero(self._filter.suspected(hashes))
        if remembers:
            self._filter.remember(hashes)
        return [keys[place] for place in may_be.tolist()]
