"""The most memory that this process has held, or one of its children."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["peak_memory", "peak_memory_of_children"]


def peak_memory() -> int:
    """Bytes. On Linux ``getrusage`` may hand on the peak of the parent; VmHWM does not."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def peak_memory_of_children() -> int:
    """Bytes of the largest child that was waited for; 0 without one."""
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
