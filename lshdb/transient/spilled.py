"""Rows of numbers, and byte strings, in files without a name, by number; memory holds none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct
from lshdb.files.descriptors import read_at, write_at

__all__ = ["SpilledBytes", "SpilledRows"]

_GAP_BYTES = 4096
"""So much that nobody asked for is read rather than asking the system again."""
_READ_BYTES = 2**20
_READ_ROWS = 2**16

Ids: TypeAlias = NDArray[np.int64]


class SpilledRows:
    """Rows of numbers that are appended, and then read by number.

    Parameters
    ----------
    directory : Path
        Where the file is made.
    type_ : str
        Of the numbers, as NumPy writes it.
    n_columns : int
        Numbers of a row.
    """

    def __init__(self, directory: Path, type_: str, n_columns: int) -> None:
        self._file: IO[bytes] = TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 - lasts
        self._dtype, self._n_columns = np.dtype(type_), n_columns
        self._row_bytes = self._dtype.itemsize * n_columns
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def append(self, rows: NDArray[Any]) -> None:
        """Write more rows (shape (n, n_columns)).

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        if len(rows):
            data = np.ascontiguousarray(rows, dtype=self._dtype).reshape(-1).view(np.uint8).data
            write_at(self._file.fileno(), data, self._n * self._row_bytes)
            self._n += len(rows)

    def between(self, first: int, last: int) -> NDArray[Any]:
        """Return the rows from one up to another, which is left out."""
        return self._rows(self._read(first, last))

    def take(self, numbers: Ids) -> NDArray[Any]:
        """Return some rows, in any order; those that follow each other are read at once."""
        ids = distinct(numbers)
        starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 2) != 1)
        firsts, lasts = ids[starts], ids[starts] + np.diff(starts, append=len(ids))
        rows = self._rows(b"".join(map(self._read, firsts.tolist(), lasts.tolist())))
        return rows[np.searchsorted(ids, numbers)]

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in order, some thousand at a time."""
        for start in range(0, self._n, _READ_ROWS):
            yield self.between(start, min(start + _READ_ROWS, self._n))

    def _read(self, first: int, last: int) -> bytes:
        size = self._row_bytes
        return read_at(self._file.fileno(), (last - first) * size, first * size)

    def _rows(self, data: bytes) -> NDArray[Any]:
        return np.frombuffer(data, dtype=self._dtype).reshape(-1, self._n_columns)


class SpilledBytes:
    """Byte strings that are appended, and then read by number.

    Parameters
    ----------
    directory : Path
        Where the files are made.
    """

    def __init__(self, directory: Path) -> None:
        self._file: IO[bytes] = TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115 - lasts
        self._spans = SpilledRows(directory, "<i8", 2)  # where each value begins and ends
        self.n_bytes = 0

    def close(self) -> None:
        """Remove the files."""
        self._file.close()
        self._spans.close()

    def append(self, values: Sequence[bytes]) -> None:
        """Write more values.

        Raises
        ------
        OSError
            The disk is full or failed.
        """
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        ends = self.n_bytes + np.cumsum(lengths)
        write_at(self._file.fileno(), b"".join(values), self.n_bytes)
        self._spans.append(np.stack([ends - lengths, ends], axis=1))
        self.n_bytes += int(lengths.sum())

    def __len__(self) -> int:
        return len(self._spans)

    def take(self, numbers: Ids) -> list[bytes]:
        """Return some values, whose numbers are in order; neighbours are read together."""
        return self._values(self._spans.take(numbers))

    def take_blocks(self, numbers: Ids) -> Iterator[tuple[slice, list[bytes]]]:
        """Yield some values, whose numbers are in order, a megabyte at a time, and which they are.

        A value of more than a megabyte comes alone.
        """
        yield from self._blocks(self._spans.take(numbers))

    def blocks(self) -> Iterator[list[bytes]]:
        """Yield all values in order, as many at a time."""
        for spans in self._spans.blocks():
            for _, values in self._blocks(spans):
                yield values

    def _blocks(self, spans: NDArray[np.int64]) -> Iterator[tuple[slice, list[bytes]]]:
        start, read = 0, 0
        ends = np.cumsum(spans[:, 1] - spans[:, 0])
        while start < len(spans):
            stop = max(int(np.searchsorted(ends, read + _READ_BYTES, side="right")), start + 1)
            yield slice(start, stop), self._values(spans[start:stop])
            start, read = stop, int(ends[stop - 1])

    def _values(self, spans: NDArray[np.int64]) -> list[bytes]:
        starts, stops = spans.T
        cuts = np.flatnonzero(starts[1:] - stops[:-1] > _GAP_BYTES) + 1
        values: list[bytes] = []
        for part in np.split(spans, cuts) if len(spans) else ():
            first, last = int(part[0, 0]), int(part[-1, 1])
            data = read_at(self._file.fileno(), last - first, first)
            values += [data[start:stop] for start, stop in (part - first).tolist()]
        return values
