"""Byte strings in a file without a name, by number: memory is 8 to 16 bytes each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lshdb.files.descriptors import read_at, write_at

__all__ = ["SpilledBytes"]

_GAP_BYTES = 4096
"""So much that nobody asked for is read rather than asking the system again."""
_READ_BYTES = 2**20

Ids: TypeAlias = NDArray[np.int64]


class SpilledBytes:
    """Byte strings that are appended, and then read by number.

    Parameters
    ----------
    directory : Path
        Where the file is made.
    """

    def __init__(self, directory: Path) -> None:
        self._file: IO[bytes] = TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 - lasts
        self._ends = np.zeros(1024, dtype=np.int64)  # where each value ends, after a 0; and room
        self._n = 0

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def append(self, values: Sequence[bytes]) -> None:
        """Write more values.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        size = int(self._ends[self._n])
        write_at(self._file.fileno(), b"".join(values), size)
        n = self._n + len(values)
        if n >= len(self._ends):
            self._ends = np.concatenate([self._ends, np.zeros(n, dtype=np.int64)])
        self._ends[self._n + 1 : n + 1] = size + np.cumsum(lengths)
        self._n = n

    def __len__(self) -> int:
        return self._n

    def take(self, numbers: Ids) -> list[bytes]:
        """Return some values, whose numbers are in order; neighbours are read together."""
        if not len(numbers):
            return []
        ends = self._ends
        starts, stops = ends[numbers], ends[numbers + 1]
        cuts = np.flatnonzero(starts[1:] - stops[:-1] > _GAP_BYTES) + 1
        values: list[bytes] = []
        for part in np.split(np.arange(len(numbers)), cuts):
            first, last = int(starts[part[0]]), int(stops[part[-1]])
            data = read_at(self._file.fileno(), last - first, first)
            values += [
                data[start:stop]
                for start, stop in zip(
                    (starts[part] - first).tolist(), (stops[part] - first).tolist(), strict=True
                )
            ]
        return values

    def blocks(self) -> Iterator[list[bytes]]:
        """Yield all values in order, some megabyte at a time."""
        ends, start = self._ends[: self._n + 1], 0
        while start < self._n:
            stop = int(np.searchsorted(ends, ends[start] + _READ_BYTES, side="right"))
            stop = max(stop - 1, start + 1)
            yield self.take(np.arange(start, stop))
            start = stop
