"""Byte strings in a file without a name, by number: memory is 8 bytes each."""

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
        self._ends: list[Ids] = [np.zeros(1, dtype=np.int64)]
        self._size = 0

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
        write_at(self._file.fileno(), b"".join(values), self._size)
        self._ends.append(self._size + np.cumsum(lengths))
        self._size += int(lengths.sum())

    def _all_ends(self) -> Ids:
        """Return where each value ends, after a 0."""
        if len(self._ends) > 1:
            self._ends = [np.concatenate(self._ends)]
        return self._ends[0]

    def __len__(self) -> int:
        return len(self._all_ends()) - 1

    def take(self, numbers: Ids) -> list[bytes]:
        """Return some values, whose numbers are in order; neighbours are read together."""
        if not len(numbers):
            return []
        ends = self._all_ends()
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
        ends, start = self._all_ends(), 0
        while start < len(ends) - 1:
            stop = int(np.searchsorted(ends, ends[start] + _READ_BYTES, side="right"))
            stop = min(max(stop - 1, start + 1), len(ends) - 1)
            yield self.take(np.arange(start, stop))
            start = stop
