"""Count the bytes read from files and report them at a bounded rate.

Decided: bytes are bytes on disk, so a compressed file counts its size from ``stat``. A finished
file counts in full, even if it was left early or could not be read, so that the last report equals
the total. A file that has grown since counts no more than its size at the start. Standard input
and pipes have no size: they count only when nothing else does (total 0).
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress"]

_STEP = 2**20
"""Bytes between two reports within one file."""


class Progress:
    """Progress through several files.

    Parameters
    ----------
    callback : callable or None
        Called with the bytes read so far and the total.
    total : int
        Bytes in all; 0 if unknown.
    """

    __slots__ = ("_at", "_callback", "_done", "_reported", "_size", "_total")

    def __init__(self, callback: Callable[[int, int], None] | None, total: int) -> None:
        self._callback = callback
        self._total = total
        self._done = 0
        self._size = 0
        self._at = 0
        self._reported = 0

    def begin(self, size: int) -> None:
        """Begin the next file, which has ``size`` bytes."""
        self._size = size
        self._at = 0

    def read(self, count: int) -> None:
        """Add ``count`` bytes that were read from the file."""
        self._at += count
        counted = min(self._at, self._size) if self._total else self._at
        if self._done + counted - self._reported >= _STEP:
            self._report(self._done + counted)

    def end(self) -> None:
        """Finish the file."""
        self._done += self._size if self._total else self._at
        if self._done != self._reported:
            self._report(self._done)

    def _report(self, position: int) -> None:
        self._reported = position
        if self._callback is not None:
            self._callback(position, self._total)
