"""The processor time of processes, as Linux counts it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["parent_of", "processes_below", "processor_seconds"]

_TICKS = os.sysconf("SC_CLK_TCK")


def processes_below(top: int) -> list[tuple[int, int]]:
    """(pid, clock ticks) of a process and of all below it, with those that they waited for.

    One that ends while they are read may be missed in its parent and in itself, or counted in
    both, so they are read until two readings name the same processes.
    """
    before: list[tuple[int, int]] = []
    while True:
        now = _read_below(top)
        if [pid for pid, _ in now] == [pid for pid, _ in before]:
            return now
        before = now


def _read_below(top: int) -> list[tuple[int, int]]:
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = _fields(folder)
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    below = [top]
    for one in below:
        below += [pid for pid, parent in parents.items() if parent == one]
    return [(pid, ticks[pid]) for pid in below]


def processor_seconds(top: int) -> float:
    """Seconds of a process and of all below it, with those that they waited for."""
    return sum(ticks for _, ticks in processes_below(top)) / _TICKS


def parent_of(pid: int) -> int:
    """The process that started another one."""
    return int(_fields(Path(f"/proc/{pid}"))[1])


def _fields(folder: Path) -> list[str]:
    return (folder / "stat").read_text().rpartition(")")[2].split()
