"""Reading the remains of a damaged database.

A damaged page of SQLite ends a scan with an error. The scan then goes on after it: it tries ids
further and further on until one can be read, and narrows the gap from there (:func:`salvaged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lshdb.errors import DamageError, LshdbError
from lshdb.storage.dialects.base import Session
from lshdb.storage.tables.records import row_checksum

__all__ = [
    "copies_of",
    "keys_by_index",
    "proved_rows",
    "readable",
    "salvaged",
]

_FARTHEST = 2**62


def proved_rows(session: Session, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a small table that have their checksum; none if it cannot be read."""
    try:
        rows = session.fetch(f"SELECT {', '.join(columns)}, checksum FROM {table}")
    except LshdbError:
        return []
    return [row[:-1] for row in map(tuple, rows) if row_checksum(row[:-1]) == row[-1]]


def readable(
    session: Session, table: str, columns: Sequence[str], doc_ids: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Return columns of the rows of some documents as found, without rows that cannot be read."""
    query = f"SELECT {', '.join(columns)} FROM {table} WHERE {session.in_list('doc_id')}"
    try:
        return [tuple(row) for row in session.fetch(query, (session.encode_list(doc_ids),))]
    except LshdbError:
        if len(doc_ids) <= 1:
            return []
        half = len(doc_ids) // 2
        first, second = (
            readable(session, table, columns, ids) for ids in (doc_ids[:half], doc_ids[half:])
        )
        return first + second


def salvaged(session: Session, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table that can be read, in order of the first column, its primary key.

    Parameters
    ----------
    columns : str
        The first is the primary key.

    Yields
    ------
    tuple
        Values may be of any type, and only the key is proved: it rises.
    """
    key = columns[0]
    query = f"SELECT {', '.join(columns)} FROM {table} WHERE {key} > ? ORDER BY {key}"
    after = -1
    while True:
        try:
            for row in session.stream(query, (after,)):
                if type(row[0]) is not int or row[0] <= after:
                    raise DamageError(f"rows of the table {table} are out of order")
                after = row[0]
                yield row
            return
        except LshdbError:
            after = _behind(session, query, after)
        if after >= _FARTHEST:
            return


def _behind(session: Session, query: str, after: int) -> int:
    """Return about the least id from which rows can be read again."""

    def is_readable(step: int) -> bool:
        try:
            session.execute(f"{query} LIMIT 1", (after + step,)).fetchone()
        except LshdbError:
            return False
        return True

    step = 1
    while not is_readable(step):
        if after + step >= _FARTHEST:
            return _FARTHEST
        step *= 2
    fails = step // 2
    while step - fails > 1:
        middle = (step + fails) // 2
        if is_readable(middle):
            step = middle
        else:
            fails = middle
    return after + step


def keys_by_index(session: Session) -> Iterator[tuple[int, str]]:
    """Yield (doc_id, key) of every document from the index of keys, a second copy of them."""
    try:
        for doc_id, key in session.keys_by_index():
            if type(doc_id) is int and type(key) is str:
                yield doc_id, key
    except LshdbError:
        return


def copies_of(session: Session, signature_id: int | None, body_hash: bytes) -> list[int]:
    """Return the doc_ids of documents with that signature and text; none if they are unreadable."""
    try:
        rows = session.fetch(
            "SELECT doc_id FROM document WHERE signature_id = ? AND body_hash = ?",
            (signature_id, body_hash),
        )
    except LshdbError:
        return []
    return [doc_id for (doc_id,) in rows]
