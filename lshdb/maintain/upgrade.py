"""Bringing an index up to date, under the writer lock, in one transaction.

The migrations that are missing are run; an index of format 1 is replaced (``format1.py``). It works
without a :class:`~lshdb.storage.transactions.store.Store`, because no store opens an
index of an older schema.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lshdb.errors import DatabaseError
from lshdb.ingest.add_result import AddResult
from lshdb.maintain.format1 import replace_format_1, settle_upgrade
from lshdb.params.index_params import FORMAT, refuse_format
from lshdb.storage.dialects import database_of
from lshdb.storage.dialects.base import Database, OpenDatabase
from lshdb.storage.place.directory import Description, IndexDirectory
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.tables.migrations import (
    SCHEMA_REVISION,
    check_revision,
    known_revisions,
    stored_versions,
    upgrade,
)
from lshdb.tokenizers import Tokenizer

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["migrating", "upgrade_index"]


def upgrade_index(
    path: Path,
    *,
    tokenizer: Tokenizer | str | None,
    lock_timeout: float,
    workers: int | None,
    on_commit: Callable[[AddResult], None] | None,
) -> tuple[str | None, str]:
    """Bring an index up to date; see :meth:`lshdb.Index.upgrade`."""
    description = IndexDirectory(path).read_description()
    if description.format not in (1, FORMAT):
        raise refuse_format(f"the index {path}", description.format)
    database = database_of(description.place, path)
    with _locked(path, database, lock_timeout):
        with _transaction(path, description, database, lock_timeout) as connection:
            before, stored_format = stored_versions(connection.alchemy)
            if stored_format == 1:
                replace_format_1(
                    path,
                    description,
                    database,
                    connection,
                    tokenizer=tokenizer,
                    workers=workers,
                    on_commit=on_commit,
                )
                before = f"{before} of format 1"
            elif before != SCHEMA_REVISION and before in known_revisions():
                upgrade(connection.alchemy)
            else:
                check_revision(before, path)
        if description.format == 1:
            settle_upgrade(path)
    return before, SCHEMA_REVISION


@contextlib.contextmanager
def migrating(path: Path, *, lock_timeout: float) -> Iterator[Connection]:
    """Open a transaction on the database of an index of any schema, as its only writer.

    Alembic's command line has it from ``migrations/env.py``.

    Raises
    ------
    LshdbError
        There is no index, another process writes to it, or the database failed; the transaction
        is undone.
    """
    description = IndexDirectory(path).read_description()
    if description.format != FORMAT:
        raise refuse_format(f"the index {path}", description.format, way=f"lshdb upgrade {path}")
    database = database_of(description.place, path)
    with (
        _locked(path, database, lock_timeout),
        _transaction(path, description, database, lock_timeout) as connection,
    ):
        yield connection.alchemy


@contextlib.contextmanager
def _locked(path: Path, database: Database, lock_timeout: float) -> Iterator[None]:
    database.open_reader().close()
    directory = IndexDirectory(path)
    directory.refuse_linked(database)
    lock = WriterLock(directory.lock, lock_timeout)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _transaction(
    path: Path, description: Description, database: Database, lock_timeout: float
) -> Iterator[OpenDatabase]:
    try:
        with contextlib.closing(database.open_writer()) as connection, connection.transaction():
            database.lock(connection, description.uuid, timeout=lock_timeout, known_as=str(path))
            yield connection
    except database.errors() as error:
        raise DatabaseError(
            f"upgrading {database} failed: {database.said(error)}; the schema is as it was",
            hint=database.hint(error, "check the free space and the permissions of its folder"),
        ) from error
