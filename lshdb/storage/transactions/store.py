"""An index on disk: opening it, and the transactions that read it.

    news.lshdb/
      index.toml        copy of the parameters          (directory.py)
      index.db          SQLite: everything that is SQL  (schema.py, band_table.py, snapshot.py)
      signatures.npy    signature rows                  (row_file.py, generations.py)
      vectors.npy       the vectors or bits that were signed
      orders.*.npy      bucket keys, sorted             (orders/)
      lock              single-writer lock              (lock.py)

``creation.py`` creates it; ``writer.py`` holds the commit protocol. Each reading transaction has
its own connection, so several can be open at once, each with its own state of the index.
Connections are kept and used again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lshdb.arrays import np
from lshdb.errors import (
    DamageError,
    DatabaseError,
    IndexChangedError,
    LshdbError,
    SignaturesElsewhereError,
)
from lshdb.files.process import Process, leave_open
from lshdb.params.index_params import FORMAT, IndexParams, refuse_format
from lshdb.storage.dialects import DatabasePlace, database_of
from lshdb.storage.dialects.base import Database, Reader, Session
from lshdb.storage.orders.freezing import SortedRows, clear_orders, freeze_rows
from lshdb.storage.orders.frozen import OrderFolder
from lshdb.storage.orders.order_file import Banding, OrderName
from lshdb.storage.place.creation import Creation
from lshdb.storage.place.directory import Description, IndexDirectory
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.rowfiles.generations import (
    FIRST_NAME,
    Generation,
    clear_generations,
    clear_older_format,
    is_generation,
    is_settled,
)
from lshdb.storage.rowfiles.layouts import described_layouts
from lshdb.storage.tables.bodies import BodyCodec
from lshdb.storage.transactions.consistency import agreed_params, state_is_sound
from lshdb.storage.transactions.diagnosis import damage_behind
from lshdb.storage.transactions.index_state import QuerySnapshot
from lshdb.storage.transactions.snapshot import BucketSnapshot, Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Frozen", "Readers", "Reading", "Store"]

_Result = TypeVar("_Result")


class Frozen(NamedTuple):
    """What became of rows that were to be sorted.

    Attributes
    ----------
    written : OrderName or None
        The file that was written, if one was.
    answers : bool
        Whether orders answer look-ups of all that they should cover, wherever this index is opened.
        They do not where the database lies elsewhere: another host may open it without these files.
    """

    written: OrderName | None
    answers: bool


class Readers:
    """The connections of one store; one thread at a time uses each."""

    def __init__(self) -> None:
        self._idle: list[Reader] = []
        self._is_closed = False
        self._process = Process()

    def begin(
        self, open_reader: Callable[[], Reader], work: Callable[[Reader], _Result]
    ) -> tuple[Reader, _Result]:
        """Take a connection and do the first work on it; :meth:`put_back` gives it back.

        If none is idle, another one is opened.

        A restarted server has ended idle connections: if the work fails on one of those, it is
        done again on the next.
        """
        while True:
            try:
                reader, is_used = self._idle.pop(), True
            except IndexError:  # no check before: another thread may take the last one meanwhile
                reader, is_used = open_reader(), False
            try:
                return reader, work(reader)
            except BaseException as error:
                self.put_back(reader)
                if not (is_used and reader.is_fleeting and isinstance(error, DatabaseError)):
                    raise

    def put_back(self, reader: Reader) -> None:
        """End the transaction of a connection, if it has one, and keep it for the next time."""
        if not self._process.is_this:
            leave_open(reader)
            return
        reader.end()
        if self._is_closed or reader.is_fleeting:
            reader.close()
        else:
            self._idle.append(reader)

    def close_idle(self) -> None:
        """Close the idle connections."""
        if not self._process.is_this:
            leave_open(*self._idle)
            self._idle.clear()
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close the idle connections now, and the others when they are put back."""
        self._is_closed = True
        self.close_idle()


class Reading:
    """A transaction of a store, for ``with``; see :meth:`Store.reading`.

    A class, and no generator: a query spends 2 us less on it.
    """

    __slots__ = ("_reader", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Snapshot:
        store = self._store
        store.require_open()
        try:
            self._reader, snapshot = store.readers.begin(store.database.open_reader, store.begin)
        except Exception as error:
            store.diagnose(error)
            raise
        return snapshot

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._store.readers.put_back(self._reader)
        except Exception as failure:
            self._store.diagnose(failure)
            raise
        if isinstance(error, Exception):
            self._store.diagnose(error)


_IN_THE_INDEX = DatabasePlace()
_Item = TypeVar("_Item")


class Store:
    """An open index; made by :meth:`open`.

    Attributes
    ----------
    orders : OrderFolder or None
        Frozen orders of postings; None until :meth:`use_orders` says how rows are cut.
    process : int
        The one that opened it, and the only one that may use it.
    """

    def __init__(
        self, directory: IndexDirectory, description: Description, *, is_damaged: bool = False
    ) -> None:
        self.directory = directory
        self._place = description.place
        self.uuid = description.uuid
        self._layouts = described_layouts(description.parameters)
        self._banding: str | None = None
        self._is_damaged = is_damaged
        self.database: Database = self.database_of(description.place)
        self.database.is_damaged = is_damaged
        self.creation: Creation | None = None
        self.params: IndexParams
        self.readers = Readers()
        self.is_closed = False
        self.process = Process()
        self._generation: Generation | None = None
        self._absent: Path | None = None
        self.orders: OrderFolder | None = None
        self._identity: tuple[object, ...] = ()

    # Making

    @classmethod
    def create(
        cls,
        path: Path,
        params: IndexParams,
        *,
        place: DatabasePlace = _IN_THE_INDEX,
        deferred: bool = False,
        lock_timeout: float = 60.0,
        state: Mapping[str, Any] | None = None,
    ) -> Store:
        """Create an empty index and open it; see ``creation.py``.

        Parameters
        ----------
        path : Path
            Must not exist.
        place : DatabasePlace
            Where its database goes.
        deferred : bool
            Create it aside; the first commit moves it into place. If it is closed or killed before
            that, there is no index.
        lock_timeout : float
            Seconds to wait for another process that is creating an index there.
        state : mapping, optional
            Columns of the table ``state`` that differ from those of a new index.

        Raises
        ------
        IndexExistsError
            Something is there already.
        LockedError
            Another process is creating an index there.
        LshdbError
            The directory cannot be written to.
        """
        creation = Creation(path, lock_timeout=lock_timeout)
        try:
            creation.fill(params, place=place, state=state or {})
            if not deferred:
                creation.settle()
                creation.lock.release()
                return cls.open(creation.path)
            store = cls.open(creation.aside)
        except BaseException:
            creation.abandon()
            raise
        store.creation = creation
        return store

    @classmethod
    @contextlib.contextmanager
    def making(
        cls,
        path: Path,
        params: IndexParams,
        *,
        place: DatabasePlace = _IN_THE_INDEX,
        state: Mapping[str, Any] | None = None,
    ) -> Iterator[Store]:
        """Create an index that moves into place complete, when the block has ended well.

        Parameters
        ----------
        path, params, place
            As for :meth:`create`.
        state : mapping, optional
            Columns of the table ``state`` that differ from those of a new index.

        Raises
        ------
        IndexExistsError, LockedError, LshdbError
            As for :meth:`create`; there is no index after any error.
        """
        store = cls.create(path, params, place=place, deferred=True, state=state)
        try:
            if store.creation is not None:
                store.creation.is_whole_only = True
            yield store
            lock = store.settle()
            if lock is not None:
                lock.release()
        finally:
            store.close()

    def settle(self) -> WriterLock | None:
        """Move a deferred index into place; return the writer lock, which is held.

        Return None if it is in place already. There must be no open transaction.
        """
        creation = self.creation
        if creation is None:
            return None
        self.readers.close_idle()
        self._generation = None
        creation.settle()
        self.directory = IndexDirectory(creation.path)
        if self.orders is not None:
            self.use_orders(self.orders.banding)
        self.database = self.database_of(self._place)
        self._identity = self._identity_now()
        self.creation = None
        return creation.lock

    # Opening

    @classmethod
    def open(cls, path: Path, *, is_damaged: bool = False) -> Store:
        """Open an index for reading; the cost does not depend on its size.

        Parameters
        ----------
        is_damaged : bool
            For a repair: do not read the signature file, and do not trust a damaged state.

        Raises
        ------
        IndexNotFoundError, FormatError, ParameterMismatchError, DamageError, DatabaseError
            There is no index, it has another format, or its parts do not fit together.
        """
        directory = IndexDirectory(Path(path))
        description = directory.read_description()
        if description.format != FORMAT:  # an upgrade may have been killed after its commit
            description = directory.read_next_description() or description
        if description.format != FORMAT:
            raise refuse_format(
                f"the index {path}", description.format, way=f"lshdb upgrade {path}"
            )
        store = cls(directory, description, is_damaged=is_damaged)
        try:
            store._identity = store._identity_now()
            with store.reading() as snapshot:
                store.params = agreed_params(
                    snapshot,
                    description,
                    directory,
                    store.database,
                    trusts_state=not is_damaged or state_is_sound(snapshot.session),
                )
                store._banding = snapshot.banding
                if not is_damaged and snapshot.has_signatures:
                    snapshot.check_row_files()
        except BaseException:
            store.close()
            raise
        return store

    def describe_next(self, params: IndexParams) -> None:
        """Write a description with other parameters beside the current one."""
        self.directory.write_description(
            Description(FORMAT, self.uuid, self._place, params.items()), is_next=True
        )

    def use_orders(self, banding: Banding) -> None:
        """Look postings up in frozen orders where there are some.

        Parameters
        ----------
        banding : Banding
            How the rows of this index are cut.
        """
        self.orders = OrderFolder(self.directory.path, banding)

    def freeze(
        self,
        *,
        add_start: int | None = None,
        goes_on: bool = False,
        ready: SortedRows | None = None,
        workers: int = 1,
    ) -> Frozen:
        """Sort the rows that no order covers yet; under the writer lock.

        The rows are committed, and questions are answered without orders too. So what goes wrong
        here is only logged.

        Parameters
        ----------
        add_start : int, optional
            The number of signatures when the add began.
        goes_on : bool
            The add has not ended.
        ready : SortedRows, optional
            Rows whose bucket keys are sorted already.
        workers : int
            Threads that merge.

        Returns
        -------
        Frozen
        """
        if self.orders is None:
            return Frozen(None, False)
        try:
            with self.reading() as snapshot:
                if not snapshot.has_signatures:
                    return Frozen(None, False)
                written = freeze_rows(
                    self.orders,
                    snapshot,
                    snapshot.content_hashes,
                    add_start=add_start,
                    goes_on=goes_on,
                    ready=ready,
                    workers=workers,
                )
                # Who goes on does not ask, and maps no file.
                is_covered = goes_on or self.orders.cover(snapshot, sorts=False) is not None
            return Frozen(written, is_covered and self.database.lies_in(self.directory.path))
        except (OSError, LshdbError) as error:
            import logging

            logging.getLogger("lshdb").log(
                logging.DEBUG if goes_on else logging.WARNING,  # the end of the add tries again
                "the bucket keys of %s could not be sorted into a file: %s; questions take longer, "
                "and the next add, or lshdb compact, tries again",
                self.path,
                getattr(error, "strerror", None) or error,
            )
            return Frozen(None, False)

    def clear_leftovers(self, snapshot: Snapshot) -> None:
        """Finish or undo the work of a killed writer or upgrade; under the lock."""
        clear_generations(snapshot.generation)
        cut = None if self.orders is None else self.orders.banding.name
        clear_orders(self.directory.path, snapshot, cut)
        following = self.directory.read_next_description()
        if following is not None and following.parameters == self.params.items():
            if self.directory.read_description().format != FORMAT:
                clear_older_format(snapshot.generation)
            self.directory.settle_description()
        if not self.directory.next_description.is_dir():  # that is nobody's of ours
            self.directory.next_description.unlink(missing_ok=True)

    def check_uuid(self, uuid: str) -> None:
        """Compare the index that is read with the one that was opened.

        A schema may have been dropped and filled by another index since, or a connection may lead
        to another schema than the one that it was made for.

        Raises
        ------
        IndexChangedError
        """
        is_opened = self._banding is not None
        if is_opened and uuid != self.uuid and not self._is_damaged:
            raise IndexChangedError(
                f"the database {self.database} now holds another index: the one at {self.path} "
                f"has the uuid {self.uuid}, and that one {uuid}",
                hint="open the index again; if that is refused, see what has changed the database",
            )

    def check_banding(self, banding: str) -> None:
        """Compare the stored banding with the one read when the index was opened.

        Raises
        ------
        IndexChangedError
            The index was rebanded since then.
        """
        if self._banding not in (None, banding):
            raise IndexChangedError(
                f"the index {self.path} has been banded anew since it was opened: "
                f"bands, recall, rows and threshold were {self._banding}, and are {banding}",
                hint="open it again",
            )

    def follow(self, rebanded: Store) -> None:
        """Take the banding of this same index, opened again, for the one to compare with."""
        self._banding = rebanded._banding

    def is_replaced(self) -> bool:
        """Return whether another index lies at the path than when this one was opened; 5 us.

        Raises
        ------
        IndexNotFoundError, LshdbError
            There is none any more, or it cannot be looked at.
        """
        return self.creation is None and self._identity_now() != self._identity

    def _identity_now(self) -> tuple[object, ...]:
        return self.directory.identity(), self.database.identity()

    def bytes_on_disk(self) -> int:
        """Size of the row files, of their orders and of the database, its log included."""
        patterns = (*(f"{layout.kind}s*.npy" for layout in self._layouts), "orders.*.npy")
        paths = (path for pattern in patterns for path in self.directory.path.glob(pattern))
        return sum(path.stat().st_size for path in paths) + sum(self.database.sizes())

    @property
    def path(self) -> Path:
        """The index directory, also before the first commit."""
        return self.directory.path if self.creation is None else self.creation.path

    def refuse_inside(self, path: Path) -> None:
        """Raise ParameterError for a path inside the index."""
        self.directory.refuse_inside(path)

    # Reading

    def reading(self) -> Reading:
        """Open a transaction that sees one committed state, from its beginning to its end.

        Raises
        ------
        LshdbError
            The store is closed, or was opened in another process.
        DatabaseError
            The database fails while it is read.
        DamageError
            Damage on disk made the block fail.
        """
        return Reading(self)

    def answering(
        self, keys: bytes | bytearray, *, with_bodies: bool
    ) -> contextlib.AbstractContextManager[QuerySnapshot]:
        """Open a state for one query; see :class:`OpenIndex`.

        A database server is asked for all of it in one round trip.

        Raises as :meth:`reading` does.
        """
        if self.database.answers_at_once:
            return self._answering(np.frombuffer(keys, np.int64), with_bodies=with_bodies)
        return self.reading()

    @contextlib.contextmanager
    def _answering(self, keys: NDArray[np.int64], *, with_bodies: bool) -> Iterator[QuerySnapshot]:
        self.require_open()
        try:
            answer = self._ask(keys, with_bodies=with_bodies)
            if answer is not None:
                yield answer
                return
        except Exception as error:
            self.diagnose(error)
            raise
        with self.reading() as snapshot:
            yield snapshot

    def _ask(self, keys: NDArray[np.int64], *, with_bodies: bool) -> BucketSnapshot | None:
        generation = self._generation
        if generation is None or not is_settled(generation):
            return None
        reader, answer = self.readers.begin(
            self.database.open_reader, lambda reader: reader.ask(keys, with_bodies=with_bodies)
        )
        self.readers.put_back(reader)
        if answer is None:
            return None
        file_name, _, _, uuid, banding = answer.state
        self.check_uuid(uuid)
        self.check_banding(banding)
        # Another generation is checked before it is used.
        if file_name != generation.name:
            return None
        return BucketSnapshot(answer, generation, self._codec)

    def _codec(self) -> BodyCodec:
        """Return what unpacks the bodies of the index; asks the database once."""
        if self.database.codec is not None:
            return self.database.codec
        with self.reading() as snapshot:
            return snapshot.codec

    def diagnose(self, error: Exception) -> None:
        """Raise a DamageError instead of an error caused by damaged rows.

        Return if there is no damage or the error already says what it is. Errors from the caller's
        own code are not examined (see ``diagnosis.py``).
        """
        damage = damage_behind(error, self.database, self._looking)
        if damage is not None:
            raise damage from error

    @contextlib.contextmanager
    def _looking(self) -> Iterator[Session]:
        with contextlib.closing(self.database.open_reader()) as reader:
            yield reader.begin()
            reader.end()

    def require_open(self) -> None:
        """Raise LshdbError if the store is closed, or came into this process by a fork."""
        if not self.process.is_this:
            raise LshdbError(
                f"the index {self.directory.path} was opened by process {self.process.pid}, and "
                f"this is process {os.getpid()}, which came from it by a fork",
                hint="open the index again in the new process",
            )
        if self.is_closed:
            raise LshdbError(f"the index {self.directory.path} is closed", hint="open it again")

    def begin(self, reader: Reader) -> Snapshot:
        """Begin a transaction and open the row files of its state.

        A compaction may remove one between the two. The next state then names others, or the
        files lie elsewhere, which is remembered.
        """
        missing = self._absent
        while True:
            snapshot = Snapshot(
                reader.begin(), self.generation, more=self.reading, orders=self.orders
            )
            self.check_uuid(snapshot.uuid)
            files = () if self._is_damaged else snapshot.generation.files
            try:
                for file in files:
                    file.open()
            except (FileNotFoundError, SignaturesElsewhereError) as error:
                if file.path != missing:
                    missing = file.path
                    reader.end()
                    continue
                if not isinstance(error, SignaturesElsewhereError):
                    raise DamageError(
                        f"the {file.what} {missing} is not there",
                        hint="put it back, or restore the index from a copy; if texts are stored, "
                        "lshdb check --repair makes the signatures again",
                    ) from error
                self._absent = missing
            self.check_banding(snapshot.banding)
            return snapshot

    def generation(self, name: str) -> Generation:
        """Return the row files of a generation; keep the latest ones open."""
        if self._is_damaged and not is_generation(name):
            name = FIRST_NAME
        latest = self._generation
        if latest is None or latest.name != name:
            directory = self.directory.path
            latest = self._generation = Generation(
                directory, name, self._layouts, is_outlying=not self.database.lies_in(directory)
            )
        return latest

    def require_signatures(self) -> None:
        """Raise SignaturesElsewhereError if the signature rows are on another host."""
        if self.database.lies_in(self.directory.path):
            return
        with self.reading() as snapshot:
            snapshot.require_signatures()

    def database_of(self, place: DatabasePlace) -> Database:
        """Return the database of that place."""
        return database_of(place, self.directory.path)

    def retire(self) -> None:
        """Close idle connections now, and every other one when its transaction ends."""
        self.readers.close()

    def close(self) -> None:
        """Close all connections; the store cannot be used after that."""
        self.is_closed = True
        self.readers.close()
        self._generation = self.orders = None
        if self.creation is not None:
            self.creation.abandon()
            self.creation = None
