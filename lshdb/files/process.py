"""Which process something belongs to: connections and locks do not survive a fork.

What a fork inherits, it neither uses nor closes: reads through it may be wrong, and closing it may
drop the other process's locks.
"""

from __future__ import annotations

import os

__all__ = ["Process", "leave_open"]

_INHERITED: list[object] = []


class Process:
    """The process that made it.

    Attributes
    ----------
    pid : int
    """

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_this(self) -> bool:
        """Whether it is the one that asks, and not one that was forked from it."""
        return self.pid == os.getpid()


def leave_open(*inherited: object) -> None:
    """Keep what a fork inherited from being closed, as the interpreter does with what it drops."""
    _INHERITED.extend(inherited)
