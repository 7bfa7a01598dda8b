"""How a source says that it cannot be read on; caught in this package, never seen outside it."""

from __future__ import annotations

__all__ = ["BrokenSourceError", "DamagedDataError"]


class BrokenSourceError(Exception):
    """A source cannot be read on.

    Attributes
    ----------
    reason : str
        Why, in one line.
    line : int or None
        The line that was being read, where somebody counted.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line: int | None = None


class DamagedDataError(BrokenSourceError):
    """Compressed data is truncated or corrupt."""
