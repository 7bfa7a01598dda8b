"""Ending work early: threads that nobody waits for, signals, and what has to be cleaned up then.

Only the main thread sees signals. When it stops waiting, it sets the event of the threads that work
for it; long work asks here between its steps. This module touches nothing else of ours, so pure
stages may ask, too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

__all__ = [
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
    """Nobody waits any more for what a worker does; never seen outside of ``threads.py``."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end, by SIGTERM; treated as Ctrl-C is, but for its exit code."""


@contextlib.contextmanager
def until(stop: threading.Event) -> Iterator[None]:
    """Let the work of this thread, in the block, end when the event is set."""
    before = getattr(_told, "stop", None)
    _told.stop = stop
    try:
        yield
    finally:
        _told.stop = before


def stop_if_told() -> None:
    """End the work of this thread where nobody waits for its result any more.

    To be called between steps of long work, as the kernel does.

    Raises
    ------
    Stopped
    """
    stop: threading.Event | None = getattr(_told, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped


def note_interruption(interruption: KeyboardInterrupt | None) -> None:
    """Remember what a signal's handler is about to raise; see :func:`dropped`."""
    global _interruption
    _interruption = interruption


def dropped() -> KeyboardInterrupt:
    """What a signal last raised, where C code called the function that it was raised in.

    Such code may drop the exception and report an error of its own. If you see that error, and know
    that your function did not ask for it, raise this in its place.
    """
    return _interruption or KeyboardInterrupt()


def on_interruption(clean_up: Callable[[], None]) -> None:
    """Call a function before a signal ends the process.

    An exception that a signal raises between two statements may come before the ``try`` that would
    have cleaned up. The function must not mind being called when there is nothing to do.
    """
    _clean_ups.append(clean_up)


def clean_up() -> None:
    """Call what was registered, the last one first."""
    for one in reversed(_clean_ups):
        one()
