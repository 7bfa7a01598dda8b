"""Which process something belongs to, as connections and locks do not survive a fork; its memory.

What a fork inherits, it neither uses nor closes: reads through it may be wrong, and closing it may
drop the other process's locks.
"""

from __future__ import annotations

import mmap
import os
import resource

__all__ = ["Process", "has_addresses_for", "leave_open", "require_memory"]

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


def require_memory(n_bytes: int) -> None:
    """Raise a MemoryError if this process cannot have so many bytes more; 6 us.

    Asked before code that does not look whether it got memory, and would end the process: orjson.
    """
    try:
        mmap.mmap(-1, n_bytes).close()
    except OSError as error:
        raise MemoryError from error


def has_addresses_for(n_bytes: int) -> bool:
    """Return whether a map takes an eighth of the addresses of this process at most (ulimit -v)."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return most == resource.RLIM_INFINITY or n_bytes <= most // 8
