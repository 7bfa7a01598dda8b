"""Tables as aligned text or Markdown, and the machine they were made on."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import CONTESTANTS, Contestant
from lshdb.signatures import kernel_name

__all__ = ["disk", "facts", "ratios", "table"]


def table(head: list[str], lines: list[list[str]], *, markdown: bool) -> str:
    """Lay out lines under a head; the first column is text, the others are figures."""
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]

    def row(cells: list[str]) -> str:
        aligned = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(aligned)} |" if markdown else "  ".join(aligned).rstrip()

    rules = ["-" * width if not place or not markdown else "-" * (width - 1) + ":"
             for place, width in enumerate(widths)]  # fmt: skip
    return "\n".join([row(head), row(rules), *map(row, lines)])


def ratios(result: dict[str, Any], reference: dict[str, Any] | None) -> list[str]:
    """Speed by that of the reference, and the other way round."""
    if reference is None:
        return ["", ""]
    ratio = reference["seconds"] / result["seconds"]
    return [f"{ratio:.3f}", f"{1 / ratio:.2f} times"]


def facts(contestants: Sequence[Contestant] = CONTESTANTS) -> str:
    """Processor, cores, Python and the versions of all that took part."""
    versions = {one.package: one.version() or "not installed" for one in contestants}
    lines = [
        f"processor  {_processor()}, {os.cpu_count()} cores",
        f"system     {platform.system()} {platform.machine()}, "
        f"{platform.python_implementation()} {platform.python_version()}",
        f"kernel     {kernel_name()}",
    ]
    if versions:
        of_all = ", ".join(f"{name} {version}" for name, version in versions.items())
        lines.append(f"versions   {of_all}")
    return "\n".join(lines)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def disk(folder: Path) -> str:
    """Where temporary indexes are, since on ``tmpfs`` a sync costs nothing."""
    return f"disk       {_file_system(folder)}, SQLite {sqlite3.sqlite_version}"


def _file_system(folder: Path) -> str:
    """Kind of the file system that the temporary indexes are on."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    place = os.path.realpath(folder)
    over = [fields for fields in mounts if os.path.commonpath([place, fields[1]]) == fields[1]]
    return max(over, key=lambda fields: len(fields[1]))[2] if over else "unknown"
