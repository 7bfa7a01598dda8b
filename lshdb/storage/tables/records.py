"""Rows of the tables that users ask about, with their checksums and times.

SQLite has no checksums of its own: a bit that flips in a page is read back as if it had been
written. Postings can be compared with the signatures they came from, signatures with the CRC-32 of
their block, texts with their hash. Nothing else vouches for the rows of ``document``, ``batch``,
``edge``, ``edge_state`` and ``state``, so each has its checksum in the last column.

Times are stored in UTC, as ISO 8601 with a blank and microseconds; they sort as text.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from lshdb.errors import DamageError

__all__ = [
    "CHECKED_TABLES",
    "StoredBatch",
    "StoredDocument",
    "WholeDocument",
    "as_timestamp",
    "require_checksums",
    "row_checksum",
    "timestamp",
    "timestamp_after",
    "verified_row",
    "with_checksum",
    "with_checksums",
]


_FORM = "%Y-%m-%d %H:%M:%S.%f"


def timestamp() -> str:
    """Return the time now."""
    return as_timestamp(datetime.now(UTC))


def as_timestamp(moment: datetime) -> str:
    """Return a moment as text; one without a zone counts as UTC."""
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(" ", "microseconds")


def timestamp_after(earlier: str | None, now: str | None = None) -> str:
    """Return the time now, or a microsecond after ``earlier`` if the clock is not past it."""
    now = now or timestamp()
    if earlier is None or now > earlier:
        return now
    return (datetime.strptime(earlier, _FORM) + timedelta(microseconds=1)).strftime(_FORM)


CHECKED_TABLES = ("state", "batch", "document", "edge", "edge_state")
"""Tables whose last column is ``checksum``."""


def row_checksum(values: Sequence[Any]) -> int:
    """Return the CRC-32 of a row's other values, in the order of its columns: 1.3 us a document.

    Parameters
    ----------
    values : sequence
        Text, integers, floats, None; bytes count as their hexadecimal digits. They are written as a
        JSON array without white space, in UTF-8.
    """
    return zlib.crc32(orjson.dumps(values, default=bytes.hex))


def verified_row(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a row whose last one is its checksum; 0 means an unknown checksum.

    Raises
    ------
    DamageError
        They are not those that were written; the error names the row.
    """
    values, checksum = row[:-1], row[-1]
    if checksum and row_checksum(values) != checksum:
        raise DamageError(
            f"row {values[0]} of the table {table} is not as it was written: {values!r:.150}",
            hint="run lshdb check, and then lshdb check --repair",
        )
    return values


def require_checksums(table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Compare whole rows with their checksums, before they are used or written again.

    Raises
    ------
    DamageError
        A row is not as it was written; the error names it.
    """
    for row in rows:
        verified_row(table, tuple(row))


def with_checksum(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a whole row: the values and their checksum."""
    return (*values, row_checksum(values))


def with_checksums(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield whole rows, one by one."""
    return map(with_checksum, rows)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A row of the table ``document``; ``signature_id`` is None for a document without tokens."""

    doc_id: int
    key: str
    signature_id: int | None
    content_hash: bytes
    body_hash: bytes
    n_shingles: int
    n_chars: int
    source: str
    batch_id: int
    added_at: str
    last_seen_at: str
    n_unassigned: int | None

    def values(self) -> tuple[Any, ...]:
        """Return the values in the order of the columns, without the checksum."""
        return _VALUES(self)


_VALUES = operator.attrgetter(*(field.name for field in fields(StoredDocument)))


@dataclass(frozen=True, slots=True)
class WholeDocument(StoredDocument):
    """The same with its row of ``content``; without one, ``form`` and ``body`` are None."""

    form: str | None
    body: bytes | None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A row of the table ``batch``: what one commit of one add brought.

    ``has_ended`` is false for the batches of an add that was interrupted, or is still running.
    """

    batch_id: int
    add_id: int
    started_at: str
    finished_at: str
    source: str
    n_added: int
    n_replaced: int
    n_unchanged: int
    n_copies: int
    n_rejected: int
    n_removed: int
    unicode_version: str
    has_ended: bool = True
