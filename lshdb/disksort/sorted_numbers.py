"""Counted pairs, sorted with memory that does not depend on their number.

Pairs come in any order and many times. Those that fit into memory are sorted and counted there. The
others are written as sorted runs of distinct pairs with counts; the runs are merged when they are
read, a block of each at a time. A pair is one 64-bit number with the left id in its upper half, so
plain integers are sorted: 10 million distinct pairs take 2.5 s, on disk or in memory. ``Sums``
(``sorted_rows.py``) takes 21 s for 5 million.

The runs go to an unnamed temporary file, which is gone with its descriptor.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DatabaseError, LshdbError
from lshdb.files.descriptors import read_at, write_at
from lshdb.files.temporary_folder import temporary_hint

__all__ = ["MOST_SIGNATURES", "PairTally"]

MOST_SIGNATURES = 2**32
"""Ids are below this; a signature file of this many rows would be 2 TB at 128 slots."""
_BYTES_A_PAIR = 40
"""A pair that is held: its number, the sorted copy, what marks where equal ones end, the result."""
_LEAST_BLOCK = 1024
_GIVEN = 16_384

Ids = NDArray[np.int64]
_Tallied = tuple[NDArray[np.uint64], Ids]


class PairTally:
    """Counts of how often each pair was put in; a context manager that frees the space.

    Parameters
    ----------
    n_signatures : int
        Ids are below this number.
    memory : int
        Bytes that pairs may take; more goes to the system's folder for temporary files.

    Raises
    ------
    LshdbError
        There are too many signatures.
    """

    def __init__(self, n_signatures: int, *, memory: int) -> None:
        if n_signatures > MOST_SIGNATURES:
            raise LshdbError(
                f"pairs are counted for up to {MOST_SIGNATURES:,} signatures; "
                f"this index has {n_signatures:,}",
                hint="ask on the host that has the signature file",
            )
        self._most = max(_LEAST_BLOCK, memory // _BYTES_A_PAIR)
        self._held: list[NDArray[np.uint64]] = []
        self._n_held = 0
        self._file: IO[bytes] | None = None
        self._runs: list[_TallyRun] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, left: Ids, right: Ids) -> None:
        """Add pairs; repeated ones count each time.

        Raises
        ------
        DatabaseError
            There is no room for a temporary file.
        """
        names = left.astype(np.uint64) << np.uint64(32) | right.astype(np.uint64)
        self._held.append(names)
        self._n_held += len(names)
        if self._n_held >= self._most:
            self._spill()

    def in_order(self) -> Iterator[tuple[Ids, Ids, Ids]]:
        """Yield (left, right, count) of each distinct pair, in order; add nothing after that.

        Raises
        ------
        DatabaseError
            The temporary file failed.
        """
        for names, counts in self._merged():
            for start in range(0, len(names), _GIVEN):
                chunk = names[start : start + _GIVEN]
                left = (chunk >> np.uint64(32)).astype(np.int64)
                right = (chunk & np.uint64(MOST_SIGNATURES - 1)).astype(np.int64)
                yield left, right, counts[start : start + _GIVEN]

    def _counted(self) -> _Tallied:
        """Return the pairs in memory, in order, with their counts, and empty the memory."""
        names = np.concatenate([np.empty(0, dtype=np.uint64), *self._held])
        self._held, self._n_held = [], 0
        return _added_up(names, None)

    def _spill(self) -> None:
        names, counts = self._counted()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="lshdb-", buffering=0)  # noqa: SIM115
            place = self._runs[-1].end if self._runs else 0
            run = _TallyRun(self._file, place, len(names))
            run.write(names, counts)
        except OSError as error:
            raise _failure(error) from error
        self._runs.append(run)

    def _merged(self) -> Iterator[_Tallied]:
        if not self._runs:
            yield self._counted()
            return
        if self._n_held:
            self._spill()
        block = max(_LEAST_BLOCK, self._most // len(self._runs))
        runs = list(self._runs)
        while runs:
            try:
                for run in runs:
                    run.fill(block)
            except OSError as error:
                raise _failure(error) from error
            # What is not read yet of a run lies above the last of its block.
            ends = [run.names[-1] for run in runs if run.is_left]
            last = min(ends) if ends else max(run.names[-1] for run in runs)
            parts = [run.take(last) for run in runs]
            yield _added_up(*(np.concatenate(column) for column in zip(*parts, strict=True)))
            runs = [run for run in runs if run.is_left or len(run.names)]


class _TallyRun:
    """A part of a file with distinct pairs in order and their counts; read from its start."""

    def __init__(self, file: IO[bytes], place: int, size: int) -> None:
        self._file = file
        self._place = place
        self._size = size
        self._n_read = 0
        self.end = place + 16 * size
        self.names = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)

    @property
    def is_left(self) -> bool:
        """Return whether anything is left to read."""
        return self._n_read < self._size

    def write(self, names: NDArray[np.uint64], counts: Ids) -> None:
        write_at(self._file.fileno(), names.tobytes(), self._place)
        write_at(self._file.fileno(), counts.tobytes(), self._place + 8 * self._size)

    def fill(self, block: int) -> None:
        """Read the next block if the one before is used up."""
        if len(self.names) or not self.is_left:
            return
        n = min(block, self._size - self._n_read)
        start = self._place + 8 * self._n_read
        data = [read_at(self._file.fileno(), 8 * n, start + shift) for shift in (0, 8 * self._size)]
        if any(len(column) != 8 * n for column in data):
            raise OSError(errno.EIO, "a temporary file lost some of its bytes")
        self.names = np.frombuffer(data[0], dtype=np.uint64)
        self._counts = np.frombuffer(data[1], dtype=np.int64)
        self._n_read += n

    def take(self, last: np.uint64) -> _Tallied:
        """Remove and return the pairs of the block up to ``last``, inclusive."""
        n = int(np.searchsorted(self.names, last, side="right"))
        part = self.names[:n], self._counts[:n]
        self.names, self._counts = self.names[n:], self._counts[n:]
        return part


def _added_up(names: NDArray[np.uint64], counts: Ids | None) -> _Tallied:
    """Return distinct pairs in order, with the sums of their counts, by default 1 each."""
    if counts is None:
        names = np.sort(names)
    else:
        order = np.argsort(names, kind="stable")
        names, counts = names[order], counts[order]
    is_first = np.ones(len(names), dtype=bool)
    is_first[1:] = names[1:] != names[:-1]
    starts = np.flatnonzero(is_first)
    if counts is None:
        return names[starts], np.diff(starts, append=len(names))
    return names[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def _failure(error: OSError) -> DatabaseError:
    return DatabaseError(
        f"the temporary file in {tempfile.gettempdir()} failed: {error.strerror or error}",
        hint=temporary_hint(error),
    )
