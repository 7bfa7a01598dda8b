"""What is behind an error that nobody raised on purpose: damage on disk, or a mistake of ours.

A value that is not what was written (text where a number was, the number of a signature that does
not exist) comes up wherever it is first used, as whatever Python says of it. Checking each value as
it is read would cost every question; so values are looked at when one has failed.

Decided: an error is called damage only where damage is found, and stays its cause. Where none is,
the error goes on as it was: it is a mistake in this library, or in what the caller handed in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from lshdb.errors import DamageError, LshdbError
from lshdb.storage.dialects.base import Database, Session
from lshdb.storage.tables.records import CHECKED_TABLES, row_checksum

__all__ = ["diagnosed"]


@contextlib.contextmanager
def diagnosed(
    database: Database, reading: Callable[[], AbstractContextManager[Session]]
) -> Iterator[None]:
    """Turn an error into a DamageError where stored values are behind it.

    Parameters
    ----------
    database : Database
        For the message.
    reading : callable
        Opens a transaction of its own.

    Raises
    ------
    DamageError
        A row is damaged; one pass over the database finds it, and only after an error.
    """
    try:
        yield
    except (LshdbError, OSError, MemoryError):
        raise
    except Exception as error:
        finding = _finding(reading)
        if finding is None:
            raise
        raise DamageError(
            f"the database {database} is damaged: {finding}",
            hint="run lshdb check, and restore the index from a copy",
        ) from error


def _finding(reading: Callable[[], AbstractContextManager[Session]]) -> str | None:
    try:
        with reading() as session:
            return next(_findings(session), None)
    except DamageError as damage:
        return damage.message
    except LshdbError:
        return None  # the database cannot be looked at, so nothing can be said


def _findings(session: Session) -> Iterator[str]:
    execute = session.execute
    yield from session.misplaced_values()
    for table in CHECKED_TABLES:
        for row in session.stream(f"SELECT * FROM {table}"):
            *values, checksum = row
            if checksum and checksum != row_checksum(values):
                yield f"a row of the table {table} is not as it was written: {values!r:.100}"
    if execute("SELECT state_id FROM state").fetchall() != [(1,)]:
        yield "the table state has not one row, of the number 1"
    (counted,) = execute(
        "SELECT CAST(coalesce(sum(n_added), 0) - coalesce(sum(n_removed), 0) AS BIGINT) FROM batch"
    ).fetchone()
    (there,) = execute("SELECT count(*) FROM document").fetchone()
    if counted != there:
        yield f"the batches count {counted} documents, and the table document has {there}"
