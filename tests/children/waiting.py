"""Waiting for others no longer than they may take: a test fails, and its run goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable, Iterator

__all__ = ["SECONDS", "end_of", "join_all", "killed_late"]

SECONDS = 300.0
"""More than any child of the ordinary run takes, on a machine however busy."""


@contextlib.contextmanager
def killed_late(pid: int, seconds: float = SECONDS) -> Iterator[None]:
    """Kill a process that still runs after so long, so that whoever waits for it hears its end."""
    late = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()


def end_of(child: int, seconds: float = SECONDS) -> int:
    """Wait for a fork, and kill it if it takes longer: its exit code, or a signal below zero."""
    with killed_late(child, seconds):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def join_all(threads: Iterable[threading.Thread], seconds: float = SECONDS) -> None:
    """Wait for threads, which are daemons: one that hangs keeps no process from ending."""
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive(), f"{thread.name} has not ended after {seconds:g} s"
