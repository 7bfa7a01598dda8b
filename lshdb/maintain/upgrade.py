"""Bringing an index made by an older version up to date.

A file of its own: it opens an index that no store can open yet.
"""

from __future__ import annotations

from pathlib import Path

from lshdb.errors import DatabaseError
from lshdb.storage.dialects import database_of
from lshdb.storage.place.directory import IndexDirectory
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.tables.migrations import SCHEMA_REVISION, check_revision, upgrade

__all__ = ["upgrade_index"]


def upgrade_index(path: Path, *, lock_timeout: float) -> tuple[str | None, str]:
    """Run the migrations that are missing, under the writer lock, in one transaction.

    Returns
    -------
    tuple
        Revision before, revision after.
    """
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    directory = IndexDirectory(path)
    description = directory.read_description()
    database = database_of(description.place, path)
    database.open_reader().close()
    lock = WriterLock(directory.lock, lock_timeout)
    lock.acquire()
    engine = database.open_engine()
    try:
        with engine.begin() as connection:
            database.lock(connection, description.uuid, timeout=lock_timeout, known_as=str(path))
            row = connection.execute(text("SELECT version_num FROM alembic_version")).fetchone()
            before = None if row is None else str(row[0])
            if before is None or before > SCHEMA_REVISION:
                check_revision(before, path)
            if before != SCHEMA_REVISION:
                upgrade(connection)
    except database.errors(SQLAlchemyError) as error:
        raise DatabaseError(
            f"upgrading {database} failed: {database.said(error)}; the schema is as it was",
            hint=database.hint(error, "check the free space and the permissions of its folder"),
        ) from error
    finally:
        engine.dispose()
        lock.release()
    return before, SCHEMA_REVISION
