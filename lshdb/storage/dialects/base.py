"""What a database must do to hold an index; ``sqlite/`` and ``postgresql/`` do it.

    Database     where it is; opens connections, makes and removes it, says its errors
    Reader       a connection that only reads (``reader.py``)
    Session      one open transaction: statements, and how lists and many rows go in
    RunTables    the posting runs of a session (``run_tables.py``)

All statements that both databases understand are written where they are needed, as text with ``?``
for each parameter. What only one of them understands is behind these classes.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError, DatabaseError, LshdbError
from lshdb.storage.dialects.reader import GuardedReader, Reader
from lshdb.storage.dialects.run_tables import RunTables

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = [
    "NUMBERS",
    "Database",
    "Fate",
    "Rows",
    "Session",
]

_FEW_VALUES = 8

NUMBERS = {
    **dict.fromkeys(("signature_id", "signature1", "signature2"), ("0", "n_signatures - 1")),
    **dict.fromkeys(("doc_id", "label"), ("1", "next_doc_id - 1")),
}
"""Columns that hold the number of a signature or a document, in whatever table: the first and the
last that there can be, by the row of ``state``."""

Ids = NDArray[np.int64]


class Fate(enum.Enum):
    """What an error of the driver says of the transaction that it ended."""

    FAILED = enum.auto()
    """It will fail again."""
    REPEATABLE = enum.auto()
    """It stood in another one's way, and may be done again."""
    LOST = enum.auto()
    """The connection is gone; what was not being committed is not in."""


class Rows:
    """Rows of a statement, as the driver's cursor gives them, but for its errors."""

    def __init__(self, cursor: Any, database: Database) -> None:
        self._cursor = cursor
        self._iterator = iter(cursor)
        self._database = database

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._iterator)
        except self._database.driver_errors as error:
            raise self._database.translation(error) from error

    def fetchone(self) -> Any:
        """The next row, or None."""
        return next(self, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        try:
            rows: list[tuple[Any, ...]] = self._cursor.fetchall()
        except self._database.driver_errors as error:
            raise self._database.translation(error) from error
        return rows


class Session(ABC):
    """One open transaction.

    Parameters
    ----------
    database : Database
    is_reader : bool
        Errors of the driver come out as ours. A writer's stay what they are until the whole batch
        has failed (``writer.py``).
    """

    def __init__(self, database: Database, *, is_reader: bool) -> None:
        self.database = database
        self._is_reader = is_reader

    @property
    @abstractmethod
    def run_tables(self) -> RunTables:
        """The posting runs in this transaction."""

    @abstractmethod
    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        """Give one statement to the driver; its cursor."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run one statement whose rows fit in memory."""
        if not self._is_reader:
            return self._run(sql, parameters)
        try:
            return Rows(self._run(sql, parameters), self.database)
        except self.database.driver_errors as error:
            raise self.database.translation(error) from error

    @abstractmethod
    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Run one statement whose rows are many; they come as they are taken."""

    @abstractmethod
    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement once for each row of parameters."""

    @abstractmethod
    def insert_rows(
        self,
        table: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        or_ignore: bool = False,
        large: bool = False,
    ) -> None:
        """Insert many rows.

        Parameters
        ----------
        table : str
        columns : sequence of str
        rows : iterable
            Values in the order of the columns; taken as they are inserted.
        or_ignore : bool
            Leave a row that is there already as it is.
        large : bool
            There are thousands, and worth preparing for.
        """

    @abstractmethod
    def in_list(self, column: str) -> str:
        """Condition: the column is one of the values in the encoded list, its one parameter."""

    @abstractmethod
    def encode_list(self, values: Iterable[Any] | Ids) -> Any:
        """Encode whole numbers or texts as the parameter that :meth:`in_list` expects."""

    def is_one_of(self, column: str, values: Sequence[int]) -> tuple[str, tuple[Any, ...]]:
        """Condition and parameters: the column is one of some values.

        A few are parameters each, which spares them the encoding.
        """
        if len(values) <= _FEW_VALUES:
            return f"{column} IN ({','.join('?' * len(values))})", tuple(values)
        return self.in_list(column), (self.encode_list(values),)

    @abstractmethod
    def state(self) -> tuple[str, int, int, str, str] | None:
        """What a snapshot begins with, in one statement.

        Returns
        -------
        tuple or None
            Of the row of ``state``: signature_file, n_signatures, next_doc_id; then names of the
            run tables, with commas; then how bands are cut. None where the row is missing.
        """

    def leave_mark(self) -> str | None:
        """Leave something unique in the database, which is there if this transaction is committed.

        None where a connection cannot be lost, so that nobody will ask.
        """
        return None

    def has_mark(self, mark: str) -> bool:
        """Whether the transaction that left a mark is committed."""
        raise NotImplementedError(mark)

    @abstractmethod
    def structure(self) -> Iterator[str]:
        """Findings of the database about its own structure; as slow as reading all of it."""

    @abstractmethod
    def misplaced_values(self) -> Iterator[str]:
        """Findings: columns with values that cannot be; one pass over every table."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Bytes of the database that hold nothing and that vacuuming gives back."""

    @abstractmethod
    def copy_whole(self, target: Database) -> bool:
        """Copy the database as this transaction sees it, at once, to where nothing is.

        False where it has to go row by row (``copy.py``).
        """

    @abstractmethod
    def keys_by_index(self) -> Iterator[tuple[int, str]]:
        """(doc_id, key) from the index of keys, without reading the table of documents."""


class Database(ABC):
    """A database by its place; nothing is open yet."""

    driver_errors: ClassVar[tuple[type[Exception], ...]]
    serves_hosts: ClassVar[bool] = False
    """Whether hosts may write in turn, each with a directory, and a writer lock, of its own."""
    is_damaged: bool = False
    """Whether it is opened by whoever repairs it, and may not be as it was made."""
    answers_at_once: ClassVar[bool] = False
    """Whether :meth:`Reader.ask` does anything."""

    @abstractmethod
    def __str__(self) -> str:
        """As messages name it; without a password."""

    @property
    @abstractmethod
    def short_name(self) -> str:
        """The last part of its name."""

    @abstractmethod
    def is_damage(self, error: Exception) -> bool:
        """Whether the driver's error says that what is stored is not what was written."""

    def fate(self, error: Exception) -> Fate:
        """What one of the driver's errors says of its transaction."""
        return Fate.FAILED

    def errors(self, *others: type[Exception]) -> tuple[type[Exception], ...]:
        """The driver's errors and others, to be caught together."""
        return (*others, *self.driver_errors)

    def translation(self, error: Exception) -> LshdbError:
        """Our error for one of the driver's, while reading."""
        kind = DamageError if self.is_damage(error) else DatabaseError
        return kind(
            f"the database {self} failed: {self.said(error)}",
            hint=self.hint(error, "run lshdb check if this happens again"),
        )

    def said(self, error: BaseException) -> str:
        """One of the driver's errors, also inside one of SQLAlchemy's, as messages show it."""
        return str(getattr(error, "orig", None) or error)

    def hint(self, error: BaseException, otherwise: str) -> str:
        """What to do about such an error, where the database can tell; else what is given."""
        return otherwise

    @abstractmethod
    def lies_in(self, directory: Path) -> bool:
        """Whether it is a file in that directory."""

    # Making

    @abstractmethod
    def refuse_existing(self) -> None:
        """Raise an IndexExistsError where there is something already."""

    def reserve(self) -> None:  # noqa: B027
        """Make the file of a new database outside the index, so that only that one is removed.

        Raises
        ------
        FileExistsError
            Somebody has made it meanwhile.
        OSError
        """

    def prepare(self, connection: Connection, uuid: str) -> None:  # noqa: B027
        """Make what must be there before tables are, in the transaction that makes them.

        Parameters
        ----------
        connection : Connection
        uuid : str
            Of the index that will be in it.

        Raises
        ------
        IndexExistsError
            Something has been made there meanwhile.
        """

    @abstractmethod
    def moved(self, directory: Path, target: Path) -> Database:
        """The same database, in an index whose directory is renamed."""

    @abstractmethod
    def remove(self, uuid: str) -> None:
        """Remove what was made for an index that does not come to its place.

        Not an error where nothing is there, or what is there is another index.

        Raises
        ------
        DatabaseError
            The database cannot be reached, or does not let it be removed.
        """

    def remove_leftover(self, uuid: str) -> None:  # noqa: B027
        """Remove what a killed process made outside the index's directory, in the same way."""

    # Connections

    @abstractmethod
    def open_reader(self) -> Reader:
        """Open a connection for reading.

        Raises
        ------
        DatabaseError, DamageError
            It cannot be opened.
        """

    @abstractmethod
    def open_guarded(self, timeout: float | None) -> GuardedReader:
        """Open a connection for a statement of the user's own, with so many seconds to work."""

    @abstractmethod
    def open_engine(self) -> Engine:
        """Make an SQLAlchemy engine whose transactions are explicit and durable."""

    @abstractmethod
    def session(self, connection: Connection) -> Session:
        """The transaction that a writer's connection has open."""

    def lock(  # noqa: B027
        self, connection: Connection, uuid: str, *, timeout: float, known_as: str
    ) -> None:
        """Keep writers of other hosts out until the transaction that has just begun ends.

        Parameters
        ----------
        connection : Connection
        uuid : str
            The index's.
        timeout : float
            Seconds to wait for another writer.
        known_as : str
            The index in messages.

        Raises
        ------
        LockedError
            Another writer held it for all of the timeout.
        """

    @abstractmethod
    def rest(self, connection: Connection) -> None:
        """Do what is to be done when a writer is through; may fail without harm."""

    @abstractmethod
    def vacuum(self, connection: Connection) -> None:
        """Give the space of what was deleted back; outside a transaction."""

    @abstractmethod
    def replace_whole(self, source: Database) -> bool:
        """Put another database, at rest, in the place of this one, in one durable transaction.

        Readers go on with what they have begun to read. This one need not be sound. False where it
        has to go row by row (``copy.py``).
        """

    # Sizes

    @property
    @abstractmethod
    def file_names(self) -> tuple[str, ...]:
        """Names that its files may have, without folders; none where it is no file."""

    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Bytes of what is stored, and of a log beside it."""
