"""How an index comes into being at once: made aside, synced, renamed.

An index ``news.lshdb`` is made in ``.news.lshdb.new`` beside it, whose file ``lock`` whoever makes
it holds. That file goes along with the renaming, so the lock becomes the index's writer lock
without being given back. A process that was killed leaves the directory aside, without a lock: the
next one that makes an index there clears it out and goes on in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import unicodedata
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from lshdb.errors import DatabaseError, IndexExistsError, IndexNotFoundError, LshdbError
from lshdb.params import FORMAT, IndexParams
from lshdb.storage.checksums import row_checksum
from lshdb.storage.dialects import Database, DatabasePlace, database_of, named_place
from lshdb.storage.directory import Description, IndexDirectory, sync_directory, utf8_path
from lshdb.storage.generations import FIRST_NAME, Generation
from lshdb.storage.layouts import row_layouts
from lshdb.storage.lock import WriterLock
from lshdb.storage.times import timestamp
from lshdb.version import __version__

__all__ = ["Creation", "abandon_unfinished"]


class Creation:
    """An index that is being made: its place, the directory aside, and the writer lock in it.

    Parameters
    ----------
    path : Path
        Where the index will be; nothing, or an empty directory.
    lock_timeout : float
        Seconds to wait for another process that is making an index there.
    what : str
        What is made, for messages: an index, or a directory that comes into being like one.

    Attributes
    ----------
    is_whole_only : bool
        It does not come to its place with its first commit, but when that is asked for.

    Raises
    ------
    IndexExistsError
        Something is there already.
    LockedError
        Another process is making an index there.
    LshdbError
        The directory cannot be written to.
    """

    def __init__(self, path: Path, *, lock_timeout: float = 60.0, what: str = "index") -> None:
        self.path = Path(os.path.abspath(utf8_path(path)))
        self.is_whole_only = False
        self._what = what
        self.aside = self.path.with_name(f".{self.path.name}.new")
        self._database: Database | None = None
        self._process = os.getpid()
        self._refuse_existing()
        if not self.path.parent.is_dir():
            raise LshdbError(
                f"cannot make the {what} {self.path}: the folder {self.path.parent} does not exist",
                hint="make the folder first",
            )
        self.lock = WriterLock(IndexDirectory(self.aside).lock, lock_timeout, known_as=self.path)
        _UNFINISHED.add(self)
        try:
            self._reserve()
        except BaseException:
            self.abandon()
            raise

    def _refuse_existing(self) -> None:
        path = self.path
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            what = "an index" if (path / "index.toml").exists() else "something"
            raise IndexExistsError(
                f"there is {what} at {path} already",
                hint="give another path, or remove what is there",
            )

    def _reserve(self) -> None:
        """Take the lock in the directory aside, and clear out what a killed process left there."""
        deadline = time.monotonic() + self.lock.timeout
        with self._said():
            while not self.lock.is_in_place():
                # Whoever held it has renamed the directory or removed it.
                self.lock.release()
                self._refuse_existing()
                self.aside.mkdir(exist_ok=True)
                self.lock.timeout = max(0.0, deadline - time.monotonic())
                with contextlib.suppress(IndexNotFoundError):
                    self.lock.acquire()
            self._refuse_existing()
            self._clear_out()

    def _clear_out(self) -> None:
        """Remove what a killed process left: first what is outside, which its description names.

        Raises
        ------
        DatabaseError
            The database that it was making does not let that be removed.
        """
        left = self._description()
        if left is not None:
            try:
                database_of(left.place, self.path).remove_leftover(left.uuid)
            except DatabaseError as error:
                raise DatabaseError(
                    f"an index that was not finished is left in {self.aside}, and what is in its "
                    f"database cannot be removed: {error.message}",
                    hint="make the database answer, or remove that directory and, in the database, "
                    "what is left there",
                ) from error
        for entry in self.aside.iterdir():
            if entry != self.lock.path:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _description(self) -> Description | None:
        """The description in the directory aside, where there is one."""
        try:
            return IndexDirectory(self.aside).read_description()
        except LshdbError:
            return None

    def fill(
        self,
        params: IndexParams,
        *,
        place: DatabasePlace,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Write an empty index into the directory aside.

        Parameters
        ----------
        params : IndexParams
        place : DatabasePlace
        state : mapping, optional
            Columns of the table ``state`` that are not those of a new index.

        Raises
        ------
        IndexExistsError, DatabaseError, LshdbError
            As for :meth:`filling`.
        """
        place = named_place(place, self.path)
        with self.filling(place) as database:
            _fill(self.aside, params, place, database, state or {})

    @contextlib.contextmanager
    def filling(self, place: DatabasePlace) -> Iterator[Database]:
        """Write files into the directory aside, in the block; where the database is to be made.

        Raises
        ------
        IndexExistsError
            There is a file where the database would be, outside the directory.
        DatabaseError, LshdbError
            The disk or the database failed.
        """
        database = database_of(place, self.path)
        database.refuse_existing()
        self._database = database = database.moved(self.path, self.aside)
        with self._said(database):
            yield database

    def settle(self, *, keep_lock: bool = True) -> None:
        """Bring the directory to its place; from then on there is an index.

        The lock is still held: it is the index's writer lock now. Without ``keep_lock`` its file
        does not go along, as nobody will write to what was made.

        Raises
        ------
        LshdbError
            It cannot be renamed.
        """
        with self._said():
            if not keep_lock:
                self.lock.path.unlink()
            sync_directory(self.aside)
            os.rename(self.aside, self.path)
            _UNFINISHED.discard(self)
            self.lock.path = IndexDirectory(self.path).lock
            sync_directory(self.path.parent)

    def abandon(self) -> None:
        """Remove what was made and give the lock back; nothing is there after that.

        Where the database cannot be reached the directory aside stays: the next one who makes an
        index there removes both. What has come to its place is an index, and stays; what another
        process has in its hands is that one's.
        """
        if self in _UNFINISHED and self._process == os.getpid():
            if not self.lock.is_in_place():  # interrupted before it was taken, or behind the rename
                self.lock.release()
                self.lock.timeout = 0.0
                with contextlib.suppress(LshdbError):
                    self.lock.acquire()
            if self.lock.is_in_place() and self._is_removed():
                shutil.rmtree(self.aside, ignore_errors=True)
        self.lock.release()
        _UNFINISHED.discard(self)

    def _is_removed(self) -> bool:
        """Remove the database, and say whether nothing is left of it."""
        made = self._description()
        if made is None:
            return True
        if self._database is None:  # a killed process's, which could not be cleared out
            return False
        try:
            self._database.remove(made.uuid)
        except DatabaseError:
            return False
        return True

    @contextlib.contextmanager
    def _said(self, database: Database | None = None) -> Iterator[None]:
        """Turn what goes wrong into our errors."""
        try:
            yield
        except OSError as error:
            raise LshdbError(
                f"cannot make the {self._what} {self.path}: {error.strerror or error}",
                hint="check that the folder exists, that you may write to it, and its free space",
            ) from error
        except _database_errors(database) as error:
            said = str(error)
            hint = "check that its folder exists, that you may write to it, and its free space"
            if database is not None:
                said, hint = database.said(error), database.hint(error, hint)
            raise DatabaseError(
                f"cannot make the database {database}: {said}", hint=hint
            ) from error


_UNFINISHED: set[Creation] = set()
"""What is being made, also where an interrupt came between its making and the ``try`` behind it."""


def abandon_unfinished() -> None:
    """Remove what this process began to make and did not finish; before it ends by a signal.

    An exception that comes up between two statements of Python may come before whoever would clean
    up has begun to.
    """
    for creation in list(_UNFINISHED):
        creation.abandon()


def _database_errors(database: Database | None) -> tuple[type[Exception], ...]:
    from sqlalchemy.exc import SQLAlchemyError

    return (SQLAlchemyError, *(database.driver_errors if database else ()))


def _fill(
    aside: Path,
    params: IndexParams,
    place: DatabasePlace,
    database: Database,
    given: Mapping[str, Any],
) -> None:
    from lshdb.storage.migrations import upgrade
    from lshdb.storage.schema import parameter, state

    row = {
        "state_id": 1,
        "format": FORMAT,
        "uuid": str(uuid.uuid4()),
        "created_at": timestamp(),
        "library_version": __version__,
        "unicode_version": unicodedata.unidata_version,
        "signature_file": FIRST_NAME,
        "n_signatures": 0,
        "next_doc_id": 1,
        "next_run_id": 1,
        **given,
    }
    Generation(aside, str(row["signature_file"]), row_layouts(params)).create()
    # Before the database is there: who clears this out is to know what else there may be.
    IndexDirectory(aside).write_description(
        Description(FORMAT, str(row["uuid"]), place, params.items())
    )
    engine = database.open_engine()
    try:
        with engine.begin() as connection:
            database.prepare(connection, str(row["uuid"]))
            upgrade(connection)
            checksum = row_checksum(tuple(row.values()))
            connection.execute(state.insert().values(**row, checksum=checksum))
            connection.execute(
                parameter.insert(),
                [
                    {"name": name, "value": orjson.dumps(value).decode()}
                    for name, value in params.items().items()
                ],
            )
    finally:
        engine.dispose()
