"""Whether somebody still waits for the work of this thread.

Only the main thread sees signals. When it stops waiting, it sets the event of the threads that work
for it; long work asks here between its steps. It touches nothing else, so pure stages may ask, too.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["Stopped", "stop_if_told", "until"]

_told = threading.local()


class Stopped(BaseException):
    """Nobody waits any more for what a worker does; never seen outside of ``threads.py``."""


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
