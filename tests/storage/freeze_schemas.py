"""Freeze what the migrations make in SQLite: ``python -m tests.storage.freeze_schemas``.

Run it after a migration was added, and commit what it writes: the statements that an index of that
revision must have, made by the migrations themselves. Of a revision that was released the output
must not change, because indexes of it lie on people's disks; ``test_trust.py`` holds both.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

from alembic import command
from alembic.script import ScriptDirectory

import lshdb.storage.dialects.sqlite
from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase
from lshdb.storage.dialects.sqlite.trust import Objects, words_of
from lshdb.storage.tables import migrations

NEW_SCHEMA = Path(lshdb.storage.dialects.sqlite.__file__).with_name("new_schema.py")
NEW_SCHEMA_HEAD = '''"""The statements that make a new database, as the migrations make it.

Written by ``python -m tests.storage.freeze_schemas``; a module of its own, because only a new index
imports it.
"""

# fmt: off
# ruff: noqa: E501

from __future__ import annotations

__all__ = ["STATEMENTS"]

'''


def own_objects(rows: Iterable[tuple[str, str, str | None]]) -> Objects:
    """Objects by name, with the words of their statements."""
    return {name.lower(): (kind, words_of(sql)) for kind, name, sql in rows if sql is not None}


def made_by_migrations(revision: str) -> Objects:
    """The objects of a new database at a revision."""
    return own_objects(rows_made_by_migrations(revision))


def rows_made_by_migrations(revision: str) -> list[tuple[str, str, str | None]]:
    """Type, name and statement of all that a new database at a revision has, in order."""
    with tempfile.TemporaryDirectory() as folder:
        database = SqliteDatabase(Path(folder) / "index.db")
        with contextlib.closing(database.open_writer()) as writer, writer.transaction():
            command.upgrade(migrations._config(writer.alchemy), revision)
        connection = sqlite3.connect(database.path)
        rows = schema_rows(connection)
        connection.close()
    return rows


def schema_rows(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    """Type, name and statement of all that a database has, in order."""
    statement = "SELECT type, name, sql FROM sqlite_master ORDER BY rowid"
    return connection.execute(statement).fetchall()


def revisions() -> list[str]:
    """All revisions, oldest first."""
    scripts = ScriptDirectory.from_config(migrations._config(mock.Mock()))
    return sorted(script.revision for script in scripts.walk_revisions())


def new_schema_text() -> str:
    """The module of the newest revision's statements, as it is to be."""
    newest = revisions()[-1]
    lines = [NEW_SCHEMA_HEAD + "STATEMENTS: tuple[str, ...] = ("]
    for _, _, sql in rows_made_by_migrations(newest):
        if sql is not None:
            lines.append(f"    {sql!r},")
    lines.append(f"    \"INSERT INTO alembic_version VALUES ('{newest}')\",")
    return "\n".join([*lines, ")"]) + "\n"


if __name__ == "__main__":
    NEW_SCHEMA.write_text(new_schema_text())
