"""End work early: threads that nobody waits for, signals, and cleaning up.

Only the main thread sees signals. When it stops waiting, it tells its worker threads; long work
looks here between its steps whether it was told. This module imports nothing else of lshdb, so
pure stages may use it too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

__all__ = [
    "Stop",
    "Stopped",
    "Terminated",
    "clean_up",
    "dropped",
    "note_interruption",
    "on_interruption",
    "stop_if_told",
    "until",
]

_told = threading.local()
_interruption: KeyboardInterrupt | None = None
_clean_ups: list[Callable[[], None]] = []


class Stopped(BaseException):
    """The result of a worker is no longer needed; never seen outside ``threads.py``."""


class Stop:
    """Tells threads to stop.

    An attribute is set in one step. ``threading.Event`` takes several, and an interrupt between
    them leaves its lock taken for ever.

    Attributes
    ----------
    is_told : bool
    """

    __slots__ = ("is_told",)

    def __init__(self) -> None:
        self.is_told = False


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the process to end; treated like Ctrl-C, except for the exit code."""


@contextlib.contextmanager
def until(stop: Stop) -> Iterator[None]:
    """End the work of this thread in the block when it is told to."""
    before = getattr(_told, "stop", None)
    _told.stop = stop
    try:
        yield
    finally:
        _told.stop = before


def stop_if_told() -> None:
    """End the work of this thread if its result is no longer needed.

    Call it between steps of long work, as the kernel does.

    Raises
    ------
    Stopped
    """
    stop: Stop | None = getattr(_told, "stop", None)
    if stop is not None and stop.is_told:
        raise Stopped


def note_interruption(interruption: KeyboardInterrupt | None) -> None:
    """Remember the interrupt that a signal's handler is about to raise; see :func:`dropped`."""
    global _interruption
    _interruption = interruption


def dropped() -> KeyboardInterrupt:
    """Return the exception that a signal last raised, for functions that C code calls.

    Such code may drop the exception and report its own error. If you see that error, and know that
    your function did not ask for it, raise this instead.
    """
    return _interruption or KeyboardInterrupt()


def on_interruption(clean_up: Callable[[], None]) -> None:
    """Call a function before a signal ends the process; asking for it again changes nothing.

    A signal may raise an exception between two statements, before the ``try`` that would have
    cleaned up. The function must accept being called when there is nothing to do.
    """
    if clean_up not in _clean_ups:
        _clean_ups.append(clean_up)


def clean_up() -> None:
    """Call the registered functions, the last one first."""
    for action in reversed(_clean_ups):
        action()
