"""A command as a process of its own: how long it took, and the most memory it held."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Step", "run_step"]


@dataclass(frozen=True)
class Step:
    """A command that has ended.

    Attributes
    ----------
    seconds : float
        From its start to its end.
    peak : int
        Bytes. No less than what the process that started it has held.
    lines : int
        Of its output.
    processor : float
        Seconds of processor time.
    """

    seconds: float
    peak: int
    lines: int
    processor: float


def run_step(arguments: list[str], output: Path) -> Step:
    """Run ``python arguments``, its output to a file; an end other than 0 is an error."""
    begun = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *arguments], stdout=file, cwd=Path(__file__).parents[1]
        )
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    with output.open("rb") as lines:
        n_lines = sum(1 for _ in lines)
    return Step(seconds, peak, n_lines, usage.ru_utime + usage.ru_stime)
