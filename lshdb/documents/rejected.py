"""A piece of the input that is no document; a module of its own, which imports nothing."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rejected"]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A piece of the input that is not an acceptable document.

    Attributes
    ----------
    source : str
        ``file``, ``file:line`` or ``file: row n``.
    reason : str
        What was found and what was expected, in one line.
    """

    source: str
    reason: str
