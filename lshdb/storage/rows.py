"""Rows of a statement, with the errors of the driver turned into ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lshdb.errors import DamageError, DatabaseError, LshdbError
from lshdb.storage.dialects import sqlite as dialect

__all__ = ["Rows", "translation"]


class Rows:
    """Rows of a statement, as the driver's cursor gives them, but for its errors."""

    def __init__(self, cursor: Any, database: Path) -> None:
        self._cursor = cursor
        self._database = database

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._cursor)
        except dialect.DRIVER_ERRORS as error:
            raise translation(error, self._database) from error

    def fetchone(self) -> Any:
        """The next row, or None."""
        return next(self, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        try:
            rows: list[tuple[Any, ...]] = self._cursor.fetchall()
        except dialect.DRIVER_ERRORS as error:
            raise translation(error, self._database) from error
        return rows


def translation(error: Exception, database: Path) -> LshdbError:
    """Our error for one of the driver's."""
    kind = DamageError if dialect.is_damage(error) else DatabaseError
    return kind(
        f"the database {database} failed: {error}", hint="run lshdb check if this happens again"
    )
