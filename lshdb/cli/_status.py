"""A line at the bottom of a terminal that names the work in progress, if it is silent for seconds.

A thread draws it once a second has passed, and then twice a second. Whatever else is written to the
terminal erases it first, and the thread draws it again below. It changes nothing of the terminal
but its last line, so that a process that ends at once leaves no hidden cursor behind.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from lshdb.cli._cells import harmless
from lshdb.threads import begin_thread

__all__ = ["erase", "status_line"]

_PATIENCE_SECONDS = 1.0
_REFRESH_SECONDS = 0.5
_LOCK_SECONDS = 0.2
_ERASE = "\r\x1b[K"

_lock = threading.Lock()
_is_drawn = False


@contextlib.contextmanager
def status_line(words: str, count: Callable[[], str] | None = None) -> Iterator[None]:
    """Show words, a count and the time on standard error, which must be a terminal.

    Parameters
    ----------
    words : str
        What is being done.
    count : callable, optional
        Returns how far it is; empty for nothing.
    """
    if os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    over = threading.Event()
    start = time.monotonic()

    def draw() -> None:
        wait = _PATIENCE_SECONDS
        while not over.wait(wait):
            wait = _REFRESH_SECONDS
            parts = [words, count() if count is not None else ""]
            seconds = int(time.monotonic() - start)
            _draw(", ".join([*filter(None, parts), f"{seconds // 60}:{seconds % 60:02}"]))

    try:
        ended = begin_thread(draw)
    except RuntimeError:  # the system gives no thread
        yield
        return
    try:
        yield
    finally:
        over.set()
        ended.wait(_PATIENCE_SECONDS)  # unless it had no memory to begin
        erase()


def erase() -> None:
    """Erase the line, if it is there."""
    global _is_drawn
    if not _is_drawn:
        return
    # A terminal that is stopped must not hold us up.
    is_locked = _lock.acquire(timeout=_LOCK_SECONDS)
    try:
        _is_drawn = False
        _write(_ERASE)
    finally:
        if is_locked:
            _lock.release()


def _draw(text: str) -> None:
    global _is_drawn
    with contextlib.suppress(OSError, ValueError, AttributeError):
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        with _lock:
            _is_drawn = True  # first: who writes now waits for the lock, and erases
            _write(_ERASE + harmless(text)[: width - 1])


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
