"""Bucket keys of many signatures, sorted with memory that does not depend on their number.

Keys come signature by signature and are wanted band by band, in order. They go to an unnamed
temporary file, one column after the other, and each column is read back and sorted by itself: two
passes over 8 bytes a key. A column that is too large for the memory is read once for each part of
its range of keys.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lshdb.disksort.descriptors import read_at, write_at

__all__ = ["KeyColumns"]

_BYTES_A_KEY = 40
"""A key, its place in order, its signature, and the sorted copies of both."""
_READ_KEYS = 2**17


class KeyColumns:
    """A column of keys for each band, on disk; a context manager that gives the space back.

    Parameters
    ----------
    folder : Path
        Where the temporary file lies; its name is gone before anything is in it.
    n : int
        Signatures.
    n_columns : int
    memory : int
        Bytes that sorting a part of a column may take.
    """

    def __init__(self, folder: Path, n: int, n_columns: int, *, memory: int) -> None:
        self.n = n
        self._n_columns = n_columns
        self._parts = -(-n * _BYTES_A_KEY // memory)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def put(self, first: int, keys: NDArray[np.int64]) -> None:
        """Write the keys of signatures from ``first`` on.

        Parameters
        ----------
        first : int
        keys : ndarray of int64, shape (m, n_columns)

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        for column in range(self._n_columns):
            data = np.ascontiguousarray(keys[:, column]).tobytes()
            write_at(self._file.fileno(), data, 8 * (column * self.n + first))

    def in_order(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """(keys, signature ids), one column after the other, each in order of key."""
        for column in range(self._n_columns if self.n else 0):
            lowest, highest = self._range(column) if self._parts > 1 else (-(2**63), 2**63 - 1)
            step = (highest - lowest) // self._parts + 1
            for first in range(lowest, highest + 1, step):
                keys, ids = self._between(column, first, min(first + step - 1, highest))
                order = np.argsort(keys)
                yield keys[order], ids[order]

    def _range(self, column: int) -> tuple[int, int]:
        ends = [(int(keys.min()), int(keys.max())) for _, keys in self._blocks(column)]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _between(
        self, column: int, first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found_keys, found_ids = [], []
        for start, keys in self._blocks(column):
            inside = np.flatnonzero((keys >= first) & (keys <= last))
            found_keys.append(keys[inside])
            found_ids.append(inside + start)
        return np.concatenate(found_keys), np.concatenate(found_ids)

    def _blocks(self, column: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        for start in range(0, self.n, _READ_KEYS):
            size = 8 * min(_READ_KEYS, self.n - start)
            data = read_at(self._file.fileno(), size, 8 * (column * self.n + start))
            if len(data) != size:
                raise OSError(errno.EIO, "a temporary file lost some of its bytes")
            yield start, np.frombuffer(data, dtype=np.int64)
