"""Every signature row of a snapshot against some queries, in bounded memory and in threads.

All queries of a pass share the reading of the rows. Rows of a small file are held in memory from
the second pass on; those of a large one are read in pieces of 1 MiB, which stay in a core's cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lshdb.params.index_params import IndexParams
from lshdb.signatures.scan import count_in_rows
from lshdb.storage.rowfiles.row_file import MOST_HELD_BYTES
from lshdb.storage.transactions.index_state import IndexState
from lshdb.threads import work_ahead

__all__ = ["RowCounts"]

_PIECE_BYTES = 2**20
_COUNT_BYTES = 32 * 2**20
"""Memory for the counts of the queries of one pass."""
_HELD_SECONDS, _READ_SECONDS = 0.15e-9, 0.3e-9
"""A byte of a row, in memory and read from the file: measured on one core, files in the cache."""
_ROW_SECONDS = 4e-9
"""Ranking a row's count."""


class RowCounts:
    """Equal slots of queries with all rows of a snapshot.

    Parameters
    ----------
    snapshot : IndexState
        With its signature file.
    params : IndexParams
    workers : int
        Threads.

    Attributes
    ----------
    is_small : bool
        Whether the rows may be held in memory.
    seconds : float
        Estimated time of a pass for one query.
    """

    def __init__(self, snapshot: IndexState, params: IndexParams, *, workers: int) -> None:
        self._rows = snapshot.signatures
        self._slot_bits, self._workers = params.slot_bits, workers
        self._row_bytes = params.row_bytes
        n = len(self._rows)
        self.is_small = n * self._row_bytes <= MOST_HELD_BYTES
        a_byte = _HELD_SECONDS if self.is_small else _READ_SECONDS
        self.seconds = n * (self._row_bytes * a_byte + _ROW_SECONDS)

    @property
    def most_queries(self) -> int:
        """How many queries one pass takes at most."""
        return max(1, _COUNT_BYTES // (2 * max(1, len(self._rows))))

    def of(self, queries: NDArray[np.uint16]) -> NDArray[np.uint16]:
        """Return the number of equal slots of each query with each row.

        Parameters
        ----------
        queries : ndarray of uint16, shape (n_queries, row_words)
            As many as a pass may have.

        Returns
        -------
        ndarray of uint16, shape (n_queries, n_signatures)

        Raises
        ------
        DamageError
            The file ends before its rows do, or cannot be read.
        """
        n = len(self._rows)
        counts = np.zeros((len(queries), n), dtype=np.uint16)
        queries = np.ascontiguousarray(queries, dtype=np.uint16)
        stored_rows = self._rows.whole()

        def count(first: int) -> None:
            last = min(first + step, n)
            rows = self._rows[first:last] if stored_rows is None else stored_rows[first:last]
            count_in_rows(queries, rows, slot_bits=self._slot_bits, counts=counts, first=first)

        step = max(1, _PIECE_BYTES // self._row_bytes)
        if stored_rows is not None and self._workers == 1:
            step = n
        for _ in work_ahead(count, range(0, n, step), workers=self._workers):
            pass
        return counts
