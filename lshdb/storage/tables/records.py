"""Rows of documents and batches as records, their checksums and times.

SQLite has no checksums of its own: a bit that flips in a page is read back as if it had been
written. Postings can be compared with the signatures they came from, signatures with the CRC-32 of
their block, texts with their hash. Nothing else vouches for the rows of ``CHECKED_TABLES``, so each
has its checksum in the last column.

What is shown, replaced, moved or exported is compared with what was written (``row_reader.py``). A
row that is written again gets a new checksum, so damage that is not found before would never be.

Times are stored in UTC, as ISO 8601 with a blank and microseconds; they sort as text. Most
documents have the times of their batch: NULL in their rows says so, and saves 54 bytes a document
(:func:`time_of_document`).
"""

from __future__ import annotations

import itertools
import operator
import zlib
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from lshdb.errors import DamageError

__all__ = [
    "BATCH_COLUMNS",
    "CHECKED_TABLES",
    "CHUNK",
    "DOCUMENT_COLUMNS",
    "IDENTITY",
    "MOST_DOC_ID",
    "Cursor",
    "StoredBatch",
    "StoredDocument",
    "WholeDocument",
    "as_timestamp",
    "chunks",
    "dated",
    "is_document",
    "may_be_key",
    "possible_times",
    "row_checksum",
    "time_of_document",
    "time_of_document_is",
    "timestamp",
    "timestamp_in_future",
    "unused_timestamp",
    "with_checksum",
    "with_checksums",
]

MOST_DOC_ID = 2**62
"""No index comes to it; a next number above it is none that lshdb wrote."""
_FORM = "%Y-%m-%d %H:%M:%S.%f"
_TOLERANCE = timedelta(minutes=5)
"""By which clocks may differ."""


def timestamp() -> str:
    """Return the time now."""
    return as_timestamp(datetime.now(UTC))


def as_timestamp(moment: datetime) -> str:
    """Return a moment as text; one without a zone counts as UTC."""
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(" ", "microseconds")


def timestamp_in_future() -> str:
    """Return a time that no clock should be past: this machine's, and five minutes."""
    return as_timestamp(datetime.now(UTC) + _TOLERANCE)


def possible_times(starts: Sequence[str], now: str) -> dict[int, str]:
    """Return the places of wrong times, each with the latest time that it can be. Pure.

    Clocks that were ahead or behind gave them: they are later than now, or out of order, by more
    than five minutes. Out of order are the fewest without which the rest ascend; of two, the
    earlier time. A wrong one can be as late as the next that is right, or now.

    Parameters
    ----------
    starts : sequence of str
        In the order in which clocks gave them.
    now : str
        The time now.
    """
    newest = _moment(now)
    moments = [_moment(start) for start in starts]
    ages: list[timedelta] = []  # of the latest times with which an ascent of each length begins
    firsts: list[int] = []
    following: dict[int, int | None] = {}
    for place in reversed(range(len(moments))):
        age = newest - moments[place]
        if age >= -_TOLERANCE:
            rank = bisect_right(ages, age)
            following[place] = firsts[rank - 1] if rank else None
            ages[rank : rank + 1], firsts[rank : rank + 1] = [age], [place]
    wrong: dict[int, str] = {}
    earliest, right = datetime.min, firsts[-1] if firsts else None
    for place, moment in enumerate(moments):
        if place == right:
            earliest, right = moment, following[place]
            continue
        latest = newest if right is None else moments[right]
        if earliest - moment > _TOLERANCE or moment - latest > _TOLERANCE:
            wrong[place] = now if right is None else starts[right]
    return wrong


def _moment(time: str) -> datetime:
    try:
        return datetime.fromisoformat(time)
    except ValueError as error:
        raise DamageError(
            f"a batch began at {time!r:.50}, which is no time",
            hint="run lshdb check --repair",
        ) from error


def unused_timestamp(now: str, used: Container[str]) -> str:
    """Return the time now, or the first microsecond after it that is not used."""
    while now in used:
        now = (datetime.strptime(now, _FORM) + timedelta(microseconds=1)).strftime(_FORM)
    return now


CHECKED_TABLES = (
    "state", "batch", "night", "cursor", "document", "kept_field", "edge", "edge_state",
)  # fmt: skip
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


def with_checksum(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a whole row: the values and their checksum."""
    return (*values, row_checksum(values))


def with_checksums(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield whole rows, one by one."""
    return map(with_checksum, rows)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A row of the table ``document``; ``signature_id`` is None for a document without tokens.

    ``batch_started_at`` is the time of its batch, which its own are as a rule.
    """

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
    batch_started_at: str = field(default="", compare=False, repr=False)

    def values(self) -> tuple[Any, ...]:
        """Return the values in the order of the columns, without the checksum."""
        return _VALUES(self)

    def row(self) -> tuple[Any, ...]:
        """Return the same as it is stored: None in place of a time of the batch."""
        times = (
            None if time == self.batch_started_at else time
            for time in (self.added_at, self.last_seen_at)
        )
        return (*self.values()[:_TIMES], *times, self.n_unassigned)


def _columns(record: type) -> list[str]:
    """Return the columns of a record; a field that has a default is worked out, and no column."""
    return [field.name for field in fields(record) if field.default is MISSING]


_VALUES = operator.attrgetter(*_columns(StoredDocument))
_TIMES = _columns(StoredDocument).index("added_at")


def dated(row: tuple[Any, ...], batch_started_at: str) -> tuple[Any, ...]:
    """Return the fields of a document from its row without the checksum, and its batch's time."""
    times = (batch_started_at if time is None else time for time in row[_TIMES : _TIMES + 2])
    return (*row[:_TIMES], *times, row[-1], batch_started_at)


_TIME = (str, type(None))
_DOCUMENT_TYPES = {
    (int, str, signature_id, bytes, bytes, int, int, str, int, *times, n_unassigned)
    for signature_id in (int, type(None))
    for times in itertools.product(_TIME, _TIME)
    for n_unassigned in (int, type(None))
}
_HASH_BYTES = 16


def is_document(values: Sequence[Any]) -> bool:
    """Return whether the values of a row of ``document`` are of the types that are written.

    SQLite stores any value in any column, and a stranger can give a row its right checksum.
    """
    if tuple(map(type, values)) not in _DOCUMENT_TYPES:
        return False
    return len(values[3]) == len(values[4]) == _HASH_BYTES


@dataclass(frozen=True, slots=True)
class WholeDocument(StoredDocument):
    """The same with its row of ``content``; without one, ``form`` and ``body`` are None."""

    form: str | None = None
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A row of the table ``batch``: what one batch of an add brought.

    ``has_ended`` is false for the batches of an add that was interrupted, or is still running.
    ``night`` is the name of the night that the add belongs to, or empty.
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
    night: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader of new pairs has come: a row of the table ``cursor``.

    Attributes
    ----------
    name : str
    batch_id : int
        The newest batch that the reader has seen; 0 before the first.
    advanced_at : str
        When it was set, in UTC.
    """

    name: str
    batch_id: int
    advanced_at: str


CHUNK = 1000
IDENTITY = (
    "format", "uuid", "created_at", "library_version", "unicode_version", "next_doc_id",
    "index_bands",
)  # fmt: skip
"""What an index says of itself: columns of ``state``."""
DOCUMENT_COLUMNS = ", ".join([*_columns(StoredDocument), "checksum"])
BATCH_COLUMNS = ", ".join([*_columns(StoredBatch), "checksum"])


def time_of_document(column: str) -> str:
    """Return ``added_at`` or ``last_seen_at`` of a document in SQL."""
    of_batch = "SELECT started_at FROM batch WHERE batch.batch_id = document.batch_id"
    return f"COALESCE(document.{column}, ({of_batch}))"


def time_of_document_is(column: str, comparison: str) -> str:
    """Return a condition on such a time, with two parameters: the other time, twice.

    Most rows are compared by the number of their batch: that takes less than its time.
    """
    return (
        f"(document.{column} {comparison} ? OR document.{column} IS NULL AND document.batch_id IN "
        f"(SELECT batch_id FROM batch WHERE started_at {comparison} ?))"
    )


def may_be_key(text: str) -> bool:
    """Return whether a text has no lone surrogates and no NUL; no key has any.

    SQL cannot be asked for them: Postgres refuses a NUL in a text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield lists of at most ``CHUNK`` values."""
    iterator = iter(values)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk
