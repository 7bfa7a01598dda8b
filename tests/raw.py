"""Statements of a test's own on the database of an index, past all that guards it.

For tests that damage what is stored, or look at how it is stored, whichever database has it.
Statements are written with ``?``, and in SQL that both understand; sums of large numbers want a
``CAST``. Foreign keys are not looked at. CHECK constraints are, on Postgres alone: what they do not
let in cannot be damaged there.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lshdb.storage.dialects import database_of
from lshdb.storage.dialects.sqlite import SqliteDatabase
from lshdb.storage.place.directory import IndexDirectory

__all__ = ["change", "is_sqlite", "raw", "rows_of"]

Execute = Callable[..., Any]


def is_sqlite(path: Path) -> bool:
    """Whether the index's database is a file of SQLite."""
    place = IndexDirectory(path).read_description().place
    return place.url is None or place.url.startswith("sqlite")


@contextlib.contextmanager
def raw(path: Path) -> Iterator[Execute]:
    """A function that runs a statement and gives the cursor; all is committed at the end."""
    database = database_of(IndexDirectory(path).read_description().place, path)
    if isinstance(database, SqliteDatabase):
        with contextlib.closing(sqlite3.connect(database.path)) as connection:
            connection.execute("PRAGMA ignore_check_constraints=ON")
            yield connection.execute
            connection.commit()
        return
    import psycopg
    from psycopg import sql

    from lshdb.storage.dialects.postgresql import PostgresDatabase
    from lshdb.storage.dialects.postgresql.postgres_session import numbered

    assert isinstance(database, PostgresDatabase)
    conninfo = "postgresql://" + database.url.partition("://")[2]
    with psycopg.connect(conninfo) as server:
        name = sql.Identifier(database.schema)
        server.execute(sql.SQL("SET search_path = {}").format(name))
        server.execute("SET session_replication_role = replica")

        def execute(statement: str, parameters: Any = ()) -> Any:
            return psycopg.RawCursor(server).execute(numbered(statement), list(parameters))

        yield execute


def change(path: Path, statement: str, *parameters: object) -> None:
    """Run a statement that changes at least one row."""
    with raw(path) as execute:
        assert execute(statement, parameters).rowcount > 0


def rows_of(path: Path, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    with raw(path) as execute:
        return [tuple(row) for row in execute(statement, parameters).fetchall()]
