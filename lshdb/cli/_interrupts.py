"""Ctrl-C and SIGTERM in the middle of a long SQL statement.

The interpreter acts on a signal between two of its own instructions. A statement that runs in the
database for minutes is one instruction, so Ctrl-C would seem to do nothing. Here the signal wakes a
thread, which ends the process if the interpreter has not acted within a second. Only for commands
that read: they leave nothing to clean up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from lshdb.cli._errors import INTERRUPTED, TERMINATED
from lshdb.cli._output import note
from lshdb.cli.launch import postponed

__all__ = ["prompt_interrupts"]

_PATIENCE_SECONDS = 1.0
_ENDS: dict[int, tuple[str, int]] = {
    signal.SIGINT: ("interrupted", INTERRUPTED),
    signal.SIGTERM: ("terminated", TERMINATED),
}


@contextlib.contextmanager
def prompt_interrupts() -> Iterator[None]:
    """Let a signal end the process within about a second, whatever the main thread does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    over = threading.Event()
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader, over), daemon=True)
    try:
        watcher.start()
    except RuntimeError:  # the system gives no thread; then a signal waits for the main one
        signal.set_wakeup_fd(before)
        os.close(writer)
        os.close(reader)
        yield
        return
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writer)  # the watcher reads the end
        watcher.join()
        os.close(reader)


def _watch(reader: int, over: threading.Event) -> None:
    while signals := os.read(reader, 1):
        # A signal that came at a bad moment comes again as SIGALRM, which may be missed too.
        number = postponed() if signals[0] == signal.SIGALRM else signals[0]
        ends = _ENDS.get(number)
        if ends is not None and not over.wait(_PATIENCE_SECONDS):
            note(ends[0])
            os._exit(ends[1])
