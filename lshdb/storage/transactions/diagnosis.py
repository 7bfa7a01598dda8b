"""What is behind an error that nobody raised on purpose: damage on disk, or a mistake.

A value that is not what was written (text where a number was, the number of a signature that does
not exist) comes up wherever it is first used, as whatever Python says of it. Checking each value as
it is read would cost every question; so values are looked at when one has failed.

Decided: an error is called damage only where damage is found, and stays its cause. Where none is,
the error goes on as it was: it is a mistake in this library.

Errors of the caller's own code, in an iterable or a function that was handed over, are not looked
into. They are marked where they come in (:func:`callers_items`, :func:`callers_function`) and go
through as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, overload

from lshdb.errors import DamageError, LshdbError
from lshdb.phases.phase import CALLERS_MARK, is_callers
from lshdb.storage.dialects.base import Database, Session
from lshdb.storage.tables.records import CHECKED_TABLES, MOST_DOC_ID, row_checksum

__all__ = ["callers_function", "callers_items", "damage_behind"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Given = ParamSpec("_Given")


def callers_items(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items of the caller's iterable; mark an error out of it as the caller's."""
    try:
        iterator = iter(items)
    except Exception as error:
        setattr(error, CALLERS_MARK, True)
        raise
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            setattr(error, CALLERS_MARK, True)
            raise
        yield item


@overload
def callers_function(function: None) -> None: ...


@overload
def callers_function(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]: ...


def callers_function(function: Callable[..., _Result] | None) -> Callable[..., _Result] | None:
    """Return the caller's function, if there is one, so that its errors are marked as such."""
    if function is None:
        return None

    def marking(*positional: Any, **named: Any) -> _Result:
        try:
            return function(*positional, **named)
        except Exception as error:
            setattr(error, CALLERS_MARK, True)
            raise

    return marking


def damage_behind(
    error: Exception,
    database: Database,
    reading: Callable[[], AbstractContextManager[Session]],
) -> DamageError | None:
    """Return the damage behind an error, after one pass over the database; None if there is none.

    Parameters
    ----------
    error : Exception
        Ours, the system's and the caller's own are not looked into.
    database : Database
        For the message.
    reading : callable
        Opens a transaction of its own.
    """
    if isinstance(error, LshdbError | OSError | MemoryError) or is_callers(error):
        return None
    finding = _finding(reading)
    if finding is None:
        return None
    return DamageError(
        f"the database {database} is damaged: {finding}",
        hint="run lshdb check, and restore the index from a copy",
    )


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
    if session.fetch("SELECT state_id FROM state") != [(1,)]:
        yield "the table state has not one row, of the number 1"
    (next_doc_id,) = execute("SELECT next_doc_id FROM state").fetchone()
    if next_doc_id is None or next_doc_id > MOST_DOC_ID:
        yield f"the next doc_id is {next_doc_id}; there is none above {MOST_DOC_ID}"
    (n_wrong,) = execute(
        "SELECT count(*) FROM document WHERE length(content_hash) <> 16 OR length(body_hash) <> 16"
    ).fetchone()
    if n_wrong:
        yield f"{n_wrong} documents have hashes of another length than 16 bytes"
    (lost,) = execute(
        "SELECT min(batch_id) FROM document WHERE batch_id NOT IN (SELECT batch_id FROM batch)"
    ).fetchone()
    if lost is not None:
        yield f"documents are of batch {lost}, which is not there"
    (counted,) = execute(
        "SELECT CAST(coalesce(sum(n_added), 0) - coalesce(sum(n_removed), 0) AS BIGINT) FROM batch"
    ).fetchone()
    (n_documents,) = execute("SELECT count(*) FROM document").fetchone()
    if counted != n_documents:
        yield f"the batches count {counted} documents, and the table document has {n_documents}"
