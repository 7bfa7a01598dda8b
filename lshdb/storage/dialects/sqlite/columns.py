"""Whether columns hold what was declared: SQLite takes any value anywhere, and so does damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lshdb.storage.dialects.base import NUMBERS

__all__ = ["misplaced_values"]

_TYPES = {
    "INTEGER": "'integer'", "BOOLEAN": "'integer'", "TEXT": "'text'", "VARCHAR(32)": "'text'",
    "BLOB": "'blob'", "FLOAT": "'real', 'integer'",
}  # fmt: skip


def misplaced_values(execute: Callable[..., Any]) -> Iterator[str]:
    """Findings: columns with values of another type, or numbers of signatures that do not exist.

    One pass over every table, the small ones and those of documents before the posting runs.
    """
    tables = execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
        "ORDER BY name LIKE 'posting_run_%', name"
    ).fetchall()
    for (table,) in tables:
        columns = execute(f'PRAGMA table_info("{table}")').fetchall()
        conditions = {
            name: _is_wrong(name, declared, may_be_null=not (not_null or key))
            for _, name, declared, not_null, _, key in columns
            if declared.startswith(tuple(_TYPES))
        }
        counts = ", ".join(f"sum({condition})" for condition in conditions.values())
        if not conditions:
            continue
        row = execute(f'SELECT {counts} FROM "{table}"').fetchone()
        for name, count in zip(conditions, row, strict=True):
            if count:
                yield f"{count} of the values in the column {name} of the table {table} cannot be"


def _is_wrong(name: str, declared: str, *, may_be_null: bool) -> str:
    types = _TYPES[declared] + (", 'null'" if may_be_null else "")
    wrong = f"typeof({name}) NOT IN ({types})"
    if name in NUMBERS:
        first, last = NUMBERS[name]
        wrong += f" OR coalesce((SELECT {name} NOT BETWEEN {first} AND {last} FROM state), 0)"
    return wrong
