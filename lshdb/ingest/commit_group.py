"""What one commit takes: the batches at hand, and the postings of them all.

Each batch of a transaction is written before the next one is taken. Its bucket keys are kept, and
at the end the postings of all are sorted into one run. What is in no run yet is looked up here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.ingest import add_sizes
from lshdb.ingest.batch import Batch
from lshdb.signatures.band_orders import BandOrders
from lshdb.storage.orders.freezing import SortedRows

__all__ = ["Group", "NewPostings"]


class Group:
    """The batches of one commit.

    Parameters
    ----------
    taken : list of Batch
        The first one.
    following : iterator of Batch
        Those that come after it.
    is_at_hand : callable
        Whether the next one comes without waiting.
    is_single : bool
        Take no other one, and keep that one.

    Attributes
    ----------
    failure : BaseException or None
        What came instead of another batch.
    """

    def __init__(
        self,
        first_batch: list[Batch],
        following: Iterator[Batch],
        *,
        is_at_hand: Callable[[], bool],
        is_single: bool,
    ) -> None:
        self.failure: BaseException | None = None
        self._taken = first_batch
        self._following = following
        self._is_at_hand = is_at_hand
        self._is_single = is_single
        self._begun = time.monotonic()
        self._n_characters = 0
        self._goes_on = False

    def batches(self) -> Iterator[Batch]:
        """Yield them as they come, and keep none; a single one as often as it is asked for."""
        if self._is_single:
            yield self._taken[0]
            return
        yield self._taken.pop()
        while self._goes_on:
            try:
                self._taken.extend(itertools.islice(self._following, 1))
            except (Exception, KeyboardInterrupt) as error:
                self.failure = error
            if not self._taken:
                return
            yield self._taken.pop()

    def note(self, batch: Batch, n_postings: int) -> None:
        """Note a batch that is written, and how many postings the commit has now."""
        sizes = add_sizes.SIZES
        self._n_characters += sum(batch.sizes)
        self._goes_on = (
            not batch.is_last
            and n_postings < sizes.commit_postings
            and self._n_characters < sizes.commit_characters
            and time.monotonic() - self._begun < sizes.commit_seconds
            and self._is_at_hand()
        )


class NewPostings:
    """The bucket keys of signatures that a transaction has written, and not yet their postings.

    Parameters
    ----------
    orders : BandOrders
    first : int
        The first of these signatures.

    Attributes
    ----------
    n : int
        Postings.
    """

    def __init__(self, orders: BandOrders, first: int) -> None:
        self.orders = orders
        self.n = 0
        self._first = self._following = first
        self._keys: list[NDArray[np.int64]] = []
        self._contents: list[tuple[Any, int, int, int, int]] = []

    def cut(
        self, rows: NDArray[np.uint16], digests: list[bytes]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]] | None:
        """Return the bucket keys of rows, a band a row, and the sorted keys of their contents.

        Any thread may do so.
        """
        if not digests:
            return None
        keys = np.ascontiguousarray(self.orders.keys_of(rows, digests).T)
        return keys, self.orders.pack(self.orders.sort(keys[-1].reshape(-1, 1)))

    def add(self, cut_keys: tuple[NDArray[np.int64], NDArray[np.uint8]] | None) -> None:
        """Take what :meth:`cut` made of the next signatures."""
        if cut_keys is None:
            return
        keys, contents = cut_keys
        self._keys.append(keys)
        n = keys.shape[1]
        self._contents.append((contents, n, 1, self._following, 0))
        self._following += n
        self.n += keys.size

    def of_contents(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the signatures in buckets of the content band."""
        if not len(keys) or not self._contents:
            return np.empty(0, dtype=np.int64)
        return self.orders.find(self._contents, keys, self._following)[1]

    def sorted_rows(self) -> SortedRows:
        """Return all of them in order; they are let go of."""
        n = self._following - self._first
        planes = np.empty((2, self.orders.n_orders, n), dtype=np.uint32)
        for number in range(self.orders.n_orders):  # one by one: together they take as much again
            column = np.concatenate([keys[number] for keys in self._keys])
            planes[:, number] = self.orders.sort(column.reshape(-1, 1))[:, 0]
        self._keys, self._contents = [], []
        return SortedRows(self._first, planes)
