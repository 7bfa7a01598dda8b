"""What a database must do to hold an index; ``sqlite/`` and ``postgresql/`` implement it.

    Database        where it is; opens connections, makes and removes it, words its errors
    OpenDatabase    a connection that writes
    Reader          a connection that only reads; GuardedReader, one for a statement of the user
    Session         one open transaction: statements, and how lists and many rows go in

Statements that both databases understand stand where they are needed, as text with ``?`` for each
parameter. What only one of them understands is behind these classes.
"""

from __future__ import annotations

import contextlib
import enum
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from lshdb.arrays import np
from lshdb.errors import DamageError, DatabaseError, LockedError, LshdbError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from lshdb.storage.tables.bodies import BodyCodec

__all__ = [
    "NUMBERS",
    "ROWS_AT_FIRST",
    "BucketContents",
    "Database",
    "Fate",
    "GuardedReader",
    "OpenDatabase",
    "Reader",
    "ResultRows",
    "Session",
    "State",
    "TimedOut",
    "close_with",
    "next_piece",
    "pool_log",
]

_FEW_VALUES = 8
ROWS_AT_FIRST = 8
"""Rows that are fetched together before :func:`next_piece` knows how long they are."""
_PIECE_BYTES = 1 << 20
_OF_ANY_SIZE = frozenset({str, bytes, list})

NUMBERS = {
    **dict.fromkeys(("signature_id", "signature1", "signature2"), ("0", "n_signatures - 1")),
    **dict.fromkeys(("doc_id", "label"), ("1", "next_doc_id - 1")),
    **dict.fromkeys(
        (
            "batch_id", "add_id", "release_id", "n_added", "n_replaced", "n_unchanged", "n_copies",
            "n_rejected", "n_removed", "n_signatures", "n_shingles", "n_chars", "n_unassigned",
            "hot_buckets", "hot_pairs", "first_row", "n_rows", "crc32",
            "vector_crc32",
        ),
        ("0", str(2**62)),  # no index comes to it
    ),
}  # fmt: skip
"""Columns that hold the number of a signature or a document, or a count, in any table, with its
least and greatest possible value; the row of ``state`` gives some."""

Ids: TypeAlias = "NDArray[np.int64]"
State: TypeAlias = tuple[str, int, int, str, str]
"""As :meth:`Session.state` gives it."""


def pool_log() -> str:
    """Return the name of the log of SQLAlchemy's pool: with no handler set, it is not written.

    The pool logs with a traceback whatever it cannot close; who used the connection has the error.
    """
    import logging

    logger = logging.getLogger("sqlalchemy.pool.impl.NullPool.lshdb")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return "lshdb"


class Fate(enum.Enum):
    """What an error of the driver means for the transaction that it ended."""

    FAILED = enum.auto()
    """It will fail again."""
    REPEATABLE = enum.auto()
    """It was in another transaction's way, and may be repeated."""
    LOST = enum.auto()
    """The connection is lost; nothing is stored unless the commit had begun."""


class Database(ABC):
    """A database, known by its place; nothing is open yet."""

    driver_errors: ClassVar[tuple[type[Exception], ...]]
    serves_hosts: ClassVar[bool] = False
    """Whether several hosts may write in turn, each with its own directory and writer lock."""
    may_repeat: ClassVar[bool] = False
    """Whether an error may ask for a whole transaction to be done again (:class:`Fate`)."""
    path: Path | None = None
    """Its file, if it is one."""
    is_damaged: bool = False
    """Whether a repair opens it, although it may differ from how it was made."""
    answers_at_once: ClassVar[bool] = False
    """Whether :meth:`Reader.ask` does anything."""
    always_indexes_bands: ClassVar[bool] = False
    """Whether columns of bands have indexes, whatever the state says."""
    codec: BodyCodec | None = None
    """What unpacks its texts, once a dictionary of them was read: an index keeps the first one."""

    @abstractmethod
    def __str__(self) -> str:
        """Return its name for messages, without a password."""

    @property
    @abstractmethod
    def short_name(self) -> str:
        """The last part of its name."""

    @abstractmethod
    def is_damage(self, error: Exception) -> bool:
        """Return whether the driver's error says that the database is damaged."""

    def is_passing(self, error: Exception) -> bool:
        """Return whether the driver's error says nothing about what is stored."""
        return False

    def fate(self, error: Exception) -> Fate:
        """Return what one of the driver's errors means for its transaction."""
        return Fate.FAILED

    def errors(self, *more_errors: type[Exception]) -> tuple[type[Exception], ...]:
        """Return the driver's errors, SQLAlchemy's and more_errors, to be caught together.

        SQLAlchemy's only where it is imported: otherwise it has raised none.
        """
        alchemy = sys.modules.get("sqlalchemy.exc")
        wrapped = () if alchemy is None else (alchemy.SQLAlchemyError,)
        return (*more_errors, *wrapped, *self.driver_errors)

    def translation(self, error: Exception) -> LshdbError:
        """Translate one of the driver's errors while reading."""
        message = f"the database {self} failed: {self.said(error)}"
        hint = self.hint(error, "run lshdb check if this happens again")
        if self.is_damage(error):
            return DamageError(message, hint=hint)
        failure = DatabaseError(message, hint=hint)
        failure.is_passing = self.is_passing(error)
        return failure

    def said(self, error: BaseException) -> str:
        """Return the message of a driver's error, also of one inside one of SQLAlchemy's."""
        return str(getattr(error, "orig", None) or error)

    def hint(self, error: BaseException, otherwise: str) -> str:
        """Return what to do about such an error if the database can tell; else ``otherwise``."""
        return otherwise

    @abstractmethod
    def lies_in(self, directory: Path) -> bool:
        """Return whether it is a file in that directory."""

    def identity(self) -> tuple[int, ...]:
        """Return numbers that are others once another file is the database; none without a file.

        None on a server either, which says itself what became of a schema.
        """
        return ()

    # Making

    @abstractmethod
    def refuse_existing(self) -> None:
        """Raise an IndexExistsError if the place is not empty."""

    def reserve(self) -> None:  # noqa: B027
        """Make the file of a new database outside the index, so that only that one is removed.

        Raises
        ------
        FileExistsError
            Another process has made it meanwhile.
        OSError
        """

    def prepare(self, connection: OpenDatabase, uuid: str) -> None:  # noqa: B027
        """Make what tables need, in the transaction that makes them.

        Parameters
        ----------
        uuid : str
            Uuid of the index that will be in it.

        Raises
        ------
        IndexExistsError
            Another process has made something there meanwhile.
        """

    def new_schema(self, bands: int) -> Sequence[str]:
        """Return statements that make all tables and views of an index with so many bands, empty.

        None by default: the migrations make them.
        """
        return ()

    @abstractmethod
    def moved(self, directory: Path, target: Path) -> Database:
        """Return the same database, in an index whose directory is renamed."""

    @abstractmethod
    def remove(self, uuid: str) -> None:
        """Remove the database of an index that was not completed.

        If nothing is there, or another index, do nothing.

        Raises
        ------
        DatabaseError
            The database cannot be reached, or refuses the removal.
        """

    def remove_leftover(self, uuid: str) -> None:  # noqa: B027
        """Do the same for what a killed process made outside the index's directory."""

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
        """Open a connection for a user's statement, which may work for this many seconds."""

    @abstractmethod
    def open_writer(self) -> OpenDatabase:
        """Open a connection that writes.

        Raises
        ------
        DatabaseError, DamageError
            It cannot be opened.
        """

    @abstractmethod
    def session(self, connection: OpenDatabase) -> Session:
        """Return the transaction that a writer's connection has open."""

    def lock(  # noqa: B027
        self,
        connection: OpenDatabase,
        uuid: str,
        *,
        timeout: float,
        known_as: str,
        on_wait: Callable[[LockedError], None] | None = None,
    ) -> None:
        """Keep writers of other hosts out until the transaction that has just begun ends.

        Parameters
        ----------
        uuid : str
            Uuid of the index.
        timeout : float
            Seconds to wait for another writer.
        known_as : str
            Name of the index in messages.
        on_wait : callable, optional
            Called once before waiting, with the error of a wait that is too long.

        Raises
        ------
        LockedError
            Another writer held the lock for all of the timeout.
        """

    def prepare_bands(self, connection: OpenDatabase, bands: int) -> None:  # noqa: B027
        """Get the table ``band`` ready for :meth:`remake_bands`, in a transaction of its own.

        If that is all that happens, answers are the same, and the next writer completes the table.
        """

    @abstractmethod
    def remake_bands(self, connection: OpenDatabase, bands: int) -> None:
        """Empty the table ``band``, and set the number of its bands, and of those in its views.

        Readers go on with what they see.
        """

    def has_indexed_bands(self, connection: OpenDatabase, bands: int) -> bool:
        """Return whether :meth:`complete_bands` has nothing to do."""
        return True

    def complete_bands(self, connection: OpenDatabase, bands: int) -> None:  # noqa: B027
        """Complete the table ``band`` after its first rows: make its indexes."""

    def free_memory(self, connection: OpenDatabase) -> None:  # noqa: B027 - most have none
        """Free the memory that a writer's connection keeps after a transaction; may fail."""

    def checkpoint(self) -> None:  # noqa: B027
        """Do for the log what commits leave to be done; in any thread, and may fail without harm.

        A writer may have a connection open, in no transaction.
        """

    @abstractmethod
    def rest(self, connection: OpenDatabase) -> None:
        """Tidy up when a writer has finished; may fail without harm."""

    @abstractmethod
    def vacuum(self, connection: OpenDatabase) -> None:
        """Free the space of deleted rows; outside a transaction."""

    @abstractmethod
    def replace_whole(self, source: Database) -> bool:
        """Replace this database by another one, at rest, in one durable transaction.

        Readers go on with what they have begun to read. This database may be damaged. Returns False
        if it must be replaced row by row (``maintain/copy.py``).
        """

    # Sizes

    @property
    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """Its files, there or not; none if it is not a file."""

    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Return the bytes of the database, and of its log."""


class OpenDatabase(ABC):
    """A connection that writes. Its transactions are begun and ended one by one, and durable.

    Closing it undoes one that is open.

    Attributes
    ----------
    driver : Any
        The driver's connection.
    """

    driver: Any

    @property
    def is_lost(self) -> bool:
        """Whether the database has ended the connection."""
        return False

    @property
    @abstractmethod
    def alchemy(self) -> Connection:
        """The same connection for SQLAlchemy, in the transaction that is open."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction; an error leaves open what became of it."""

    @abstractmethod
    def rollback(self) -> None:
        """Undo the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction: committed at the end of the block, rolled back on any error."""
        self.begin()
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                self.rollback()
            raise
        self.commit()


class TimedOut(Exception):
    """A user's statement worked for longer than its timeout."""


@dataclass(frozen=True, slots=True)
class BucketContents:
    """What one statement finds in some buckets, in one state.

    Attributes
    ----------
    state : tuple
        As :meth:`Session.state` gives it.
    postings : dict
        In how many of the buckets each candidate lies.
    documents : dict
        (doc_id, key, batch_id) of the documents of each candidate, in order; empty if no document
        has that signature.
    bodies : dict
        The first document of each candidate, if asked for: form, packed body, length in characters,
        doc_id.
    """

    state: State
    postings: dict[int, int]
    documents: dict[int, list[tuple[int, str, int]]]
    bodies: dict[int, tuple[str, bytes, int, int]]


class Reader(ABC):
    """A connection that only reads.

    Attributes
    ----------
    is_fleeting : bool
        It serves one transaction, and is then opened again.
    """

    is_fleeting: bool = False

    @abstractmethod
    def begin(self) -> Session:
        """Begin a transaction that sees one committed state."""

    def ask(self, keys: Ids, *, with_bodies: bool) -> BucketContents | None:
        """Return what lies in some distinct buckets, with documents and, if wanted, texts.

        None if it is better to ask step by step, in a transaction: always so for a database in this
        process.
        """
        return None

    @abstractmethod
    def end(self) -> None:
        """End the transaction, if there is one."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class GuardedReader(ABC):
    """One statement of the user, on a connection that can only read."""

    @abstractmethod
    def run(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]] | None:
        """Return the names of the columns, and the rows; None if the statement gives no rows.

        Raises
        ------
        TimedOut
            Also from the rows.
        Exception
            An error of the driver: the statement is refused, or fails; also from the rows.
        LshdbError
            The statement asks for a text that is damaged, or that cannot be had here; also from
            the rows.
        """

    @abstractmethod
    def lacking(self, error: BaseException) -> tuple[str, list[str]] | None:
        """Return the table that a statement names in vain, and the tables and views that there are.

        None if the driver's error says something else.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class ResultRows:
    """Rows of a statement, as the driver's cursor gives them, with errors translated."""

    def __init__(self, cursor: Any, database: Database) -> None:
        self._iterator = iter(cursor)
        self._database = database

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left; a third of the time of asking for each of them."""
        try:
            for row in self._iterator:  # noqa: UP028 - what is left out must stay
                yield row
        except self._database.driver_errors as error:
            raise self._database.translation(error) from error

    def __next__(self) -> Any:
        try:
            return next(self._iterator)
        except self._database.driver_errors as error:
            raise self._database.translation(error) from error

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        return next(self, None)


class Session(ABC):
    """One open transaction.

    Parameters
    ----------
    is_reader : bool
        Translate the driver's errors into ours. A writer's stay as they are until the whole batch
        has failed (``writer.py``).
    """

    has_band_indexes: ClassVar[bool]
    """Whether each column of the table ``band`` has an index, once an add has ended."""
    _run: Callable[[str, Sequence[Any]], Any]
    """Gives one statement to the driver; its cursor."""

    def __init__(self, database: Database, *, is_reader: bool) -> None:
        self.database = database
        self.is_reader = is_reader

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run one statement whose rows fit in memory; those of Postgres are all fetched at once."""
        if not self.is_reader:
            return self._run(sql, parameters)
        try:
            return ResultRows(self._run(sql, parameters), self.database)
        except self.database.driver_errors as error:
            raise self.database.translation(error) from error

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return all its rows: faster than from :meth:`execute`."""
        try:
            rows: list[tuple[Any, ...]] = self._run(sql, parameters).fetchall()
        except self.database.driver_errors as error:
            if not self.is_reader:
                raise
            raise self.database.translation(error) from error
        return rows

    @abstractmethod
    def numbers(self, sql: str, parameters: Sequence[Any] = (), *, columns: int = 2) -> Ids:
        """Run one statement whose rows are whole numbers (int64, shape (n, columns))."""

    @abstractmethod
    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Any]:
        """Run one statement with many or long rows, which are fetched as they are taken."""

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
    ) -> None:
        """Insert many rows.

        Parameters
        ----------
        columns : sequence of str
        rows : iterable, or ndarray of int64, shape (n, columns)
            Values in the order of the columns, taken while they are inserted. Of an array, the
            first column has 64 bits, and the others 32.
        or_ignore : bool
            Keep a row that already exists.
        """

    def insert_columns(
        self, table: str, names: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> None:
        """Insert many rows given as columns."""
        self.insert_rows(table, names, zip(*columns, strict=True))

    def delete_all(self, table: str) -> None:
        """Delete every row of a table."""
        self.execute(f"DELETE FROM {table}")

    def delete_between(
        self, table: str, keys: Sequence[str], after: Sequence[Any], last: Sequence[Any]
    ) -> None:
        """Delete the rows of a table after one primary key, up to another."""
        place = f"({', '.join(keys)}) > ({', '.join('?' * len(keys))})"
        self.execute(f"DELETE FROM {table} WHERE {place} AND NOT {place}", (*after, *last))

    @abstractmethod
    def in_list(self, column: str) -> str:
        """Return a condition: the column is in the encoded list, its one parameter."""

    @abstractmethod
    def encode_list(self, values: Iterable[Any] | Ids) -> Any:
        """Encode whole numbers or texts as the parameter that :meth:`in_list` expects."""

    @abstractmethod
    def listed(self) -> str:
        """Return a table of an encoded list of texts, its one parameter: ``listed.value``."""

    def is_one_of(self, column: str, values: Sequence[int]) -> tuple[str, tuple[Any, ...]]:
        """Return a condition and parameters: the column is one of some values.

        Each of a few values is a parameter, which saves the encoding.
        """
        if len(values) <= _FEW_VALUES:
            return f"{column} IN ({','.join('?' * len(values))})", tuple(values)
        return self.in_list(column), (self.encode_list(values),)

    @abstractmethod
    def state(self) -> State | None:
        """Return the state that a snapshot begins with, by one statement.

        Returns
        -------
        tuple or None
            From the row of ``state``: signature_file, n_signatures, next_doc_id, uuid; then how
            bands are cut, as JSON values with commas: bands, recall, rows, threshold. None if the
            row is missing.
        """

    def may_have_changed(self) -> bool:
        """Whether this transaction may have changed anything.

        True where a commit that changes nothing costs nothing.
        """
        return True

    def leave_mark(self) -> str | None:
        """Leave something unique in the database, to be found if this transaction is committed.

        Returns None if a connection cannot be lost, so that nobody will ask.
        """
        return None

    def has_mark(self, mark: str) -> bool:
        """Return whether the transaction that left a mark is committed."""
        raise NotImplementedError(mark)

    @abstractmethod
    def structure(self) -> Iterator[str]:
        """Yield findings about the database's own structure; as slow as reading all of it."""

    @abstractmethod
    def misplaced_values(self) -> Iterator[str]:
        """Yield findings: columns with impossible values. One pass over every table."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the bytes of the database that hold nothing and that vacuuming frees."""

    @abstractmethod
    def whole_bytes(self, target: Database) -> int:
        """Return how many bytes :meth:`copy_whole` copies to a database; 0 where it does not."""

    @abstractmethod
    def copy_whole(self, target: Database) -> bool:
        """Copy the database at once, as this transaction sees it, to an empty place.

        Returns False if it must be copied row by row (``maintain/copy.py``).
        """

    @abstractmethod
    def keys_by_index(self) -> Iterator[tuple[int, str]]:
        """Yield (doc_id, key) from the index of keys, without reading the table of documents."""


def next_piece(rows: Sequence[tuple[Any, ...]], most: int) -> int:
    """Return how many rows to fetch after these: twice as many, but ``most`` or a mebibyte."""
    size = sum([len(value) for row in rows for value in row if type(value) in _OF_ANY_SIZE])
    return max(1, min(2 * len(rows), most, _PIECE_BYTES * len(rows) // (size + 1)))


def close_with(owner: object, connection: Any) -> None:
    """Close a connection when its owner is freed, if that has not closed it.

    Whatever is held here, the garbage collector finds in no cycle. Else it would take a connection
    of an iterator that nobody has any more for one that was left open; SQLite's is closed so, from
    Python 3.13 on. Only then it ends the iterator, which gives the closed connection back to an
    index that goes on with it.
    """
    weakref.finalize(owner, connection.close).atexit = False
