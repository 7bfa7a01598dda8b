"""Values that a stranger puts into the tables of an index."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

__all__ = ["columns"]


def columns(path: Path) -> list[tuple[str, str]]:
    """Each column of each table."""
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database:
        names = database.execute(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
            "WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' ORDER BY 1, c.cid"
        )
        return names.fetchall()
