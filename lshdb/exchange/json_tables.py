"""Tables of an export as JSON Lines: one object per row, without null values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from lshdb.errors import DamageError
from lshdb.exchange.tables import Table, fault_of
from lshdb.storage.place.own_files import open_given

__all__ = ["SUFFIX", "read_table", "write_table"]

SUFFIX = ".jsonl"


def write_table(path: Path, table: Table, rows: Iterable[Sequence[Any]]) -> int:
    """Write rows as they come and return their number."""
    names, count = table.names, 0
    with open(path, "xb") as file:
        for row in rows:
            pairs = zip(names, row, strict=True)
            file.write(orjson.dumps({name: value for name, value in pairs if value is not None}))
            file.write(b"\n")
            count += 1
    return count


def read_table(path: Path, table: Table) -> Iterator[tuple[Any, ...]]:
    """Read the rows, unchanged.

    Raises
    ------
    DamageError
        A line is not such a row; the error names file and line.
    """
    names = table.names
    with open(path, "rb", opener=open_given) as file:
        for number, line in enumerate(file, start=1):
            try:
                found = orjson.loads(line)
                row = tuple(map(found.get, names))
            except (ValueError, AttributeError):
                fault: str | None = "not a JSON object"
            else:
                fault = fault_of(table, row)
            if fault is not None:
                raise DamageError(
                    f"{path}, line {number}: {fault}", hint="export the index again"
                ) from None
            yield row
