"""How an index appears at once: made aside, synced, renamed.

An index ``news.lshdb`` is made in ``.news.lshdb.new`` beside it. The process that makes it holds
the file ``lock`` in there. The renaming takes that file along, so the lock becomes the index's
writer lock without being released. A killed process leaves the directory without a lock; the next
process that makes an index there clears it out and uses it.

The directory may also belong to another program, or be a link to one that does. So nothing is
written or removed in it without a mark in the file ``lock``: the word ``unfinished``, and the inode
numbers of the directory and of that file. The mark is written and synced before any other file is
made, and taken out when the index is in its place. Only files with names that an index or an export
uses are removed, by the descriptor of the directory. If there is anything else, nothing is removed,
and the message names it. What lies outside, in a database, is removed only if the inode numbers are
right, which no copy and no archive has: somebody may have planted the directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from lshdb import __version__
from lshdb.arguments import check_folder_name
from lshdb.cancel import on_interruption
from lshdb.errors import (
    DatabaseError,
    IndexExistsError,
    IndexNotFoundError,
    LshdbError,
    ParameterError,
    write_hint,
)
from lshdb.files.descriptors import sync_directory, sync_file
from lshdb.files.own_files import OWN_FOLDERS, foreign_names, kind_of, open_folder
from lshdb.files.process import Process
from lshdb.files.rights import take_rights
from lshdb.params.index_params import FORMAT, IndexParams
from lshdb.phases.phase import is_callers
from lshdb.storage.dialects import Database, DatabasePlace, database_of, named_place
from lshdb.storage.dialects.base import OpenDatabase
from lshdb.storage.dialects.database_urls import hide_passwords
from lshdb.storage.place.directory import (
    Description,
    IndexDirectory,
    utf8_path,
)
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.rowfiles.generations import FIRST_NAME, Generation
from lshdb.storage.rowfiles.layouts import row_layouts
from lshdb.storage.tables.records import timestamp, with_checksum

__all__ = ["Creation", "make_tables"]

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]+):/")
_MARK = re.compile(r"\nunfinished \d+ \d+\n\Z")


class Creation:
    """An index that is being made: its place, the directory aside, and the writer lock in it.

    Parameters
    ----------
    path : Path
        Where the index will be: nothing, or an empty directory.
    lock_timeout : float
        Seconds to wait for another process that is making an index there.
    what : str
        What is made, for messages: an index, or a directory that appears like one.

    Attributes
    ----------
    is_whole_only : bool
        It takes its place when asked to, not with its first commit.

    Raises
    ------
    IndexExistsError
        Something is there already.
    LockedError
        Another process is making an index there.
    ParameterError
        The path is no name of an index: that of a file, a URL, ``:memory:`` or ``-``.
    LshdbError
        The directory cannot be written to, or what lies aside was not made by lshdb.
    """

    def __init__(self, path: Path, *, lock_timeout: float = 60.0, what: str = "index") -> None:
        if what == "index":
            _check_name(path)
        self.path = Path(os.path.abspath(utf8_path(path)))
        self.is_whole_only = False
        self._what = what
        self._is_own = False
        self._database: Database | None = None
        self._process = Process()
        self._refuse_existing()
        self.aside = self.path.with_name(f".{self.path.name}.new")
        if not self.path.parent.is_dir():
            raise LshdbError(
                f"cannot make the {what} {self.path}: the folder {self.path.parent} does not exist",
                hint="make the folder first",
            )
        self.lock = WriterLock(IndexDirectory(self.aside).lock, lock_timeout, known_as=self.path)
        on_interruption(_abandon_unfinished)
        _UNFINISHED.add(self)
        try:
            self._reserve()
        except BaseException:
            self.abandon()
            raise

    def _refuse_existing(self) -> None:
        path = self.path
        if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
            what = "an index" if (path / "index.toml").exists() else "something"
            raise IndexExistsError(
                f"there is {what} at {path} already",
                hint="give another path, or remove what is there",
            )

    def _reserve(self) -> None:
        """Take the lock in the directory aside, and remove what a killed process left there."""
        deadline = time.monotonic() + self.lock.timeout
        with self._said():
            while not self.lock.is_in_place():
                # Its holder has renamed or removed the directory.
                self.lock.release()
                self._refuse_existing()
                with contextlib.suppress(FileExistsError):
                    self.aside.mkdir()
                    if self.path.is_dir():  # an empty one, which this one replaces
                        take_rights(self.aside, self.path)
                self.lock.timeout = max(0.0, deadline - time.monotonic())
                self._take_lock()
            self._refuse_existing()
            self._claim()
            self._clear_out()

    def _take_lock(self) -> None:
        """Take the lock, unless the directory aside is clearly not ours, or has gone meanwhile.

        Writes nothing; makes a file ``lock`` only if the directory is empty.

        Raises
        ------
        LockedError
        LshdbError
            What is there was not made by lshdb.
        """
        try:
            status = os.lstat(self.aside)
            if not stat.S_ISDIR(status.st_mode):
                raise self._in_the_way(f"it is {kind_of(status.st_mode)}")
            if status.st_uid not in self._owners():
                raise self._in_the_way("it belongs to another user")
            names = os.listdir(self.aside)
            if names and "lock" not in names and os.path.samestat(os.lstat(self.aside), status):
                raise self._in_the_way("it was not made by lshdb")
            self.lock.acquire(is_said=False)
        except (FileNotFoundError, IndexNotFoundError):
            return

    def _owners(self) -> set[int]:
        """Return whose the directory aside may be: this user's, or as an empty one in its place."""
        owners = {os.geteuid()}
        with contextlib.suppress(OSError):
            owners.add(os.lstat(self.path).st_uid)
        return owners

    def _claim(self) -> None:
        """Prove that the directory aside was made here or is empty, and put the mark into it.

        Raises
        ------
        LshdbError
            It was not made here, or holds something that lshdb did not make.
        """
        with open_folder(self.aside) as folder:
            mark = f"unfinished {os.fstat(folder).st_ino} {os.lstat(self.lock.path).st_ino}\n"
            words = self.lock.words()
            if not _MARK.search(words) and os.listdir(folder) != ["lock"]:
                raise self._in_the_way("it was not made by lshdb")
            foreign = foreign_names(folder, *self._database_names())
            if foreign:
                raise self._in_the_way(f"it holds {foreign[0]}, which lshdb did not make")
            left = self._description()
            if left is not None and left.place.url is not None and not words.endswith(f"\n{mark}"):
                raise self._in_the_way(
                    "it is a copy of one that was not finished, and names the database "
                    f"{hide_passwords(left.place.url)}"
                )
            self.lock.say_holder(mark)
            sync_file(folder)
        self._is_own = True

    def _in_the_way(self, why: str) -> LshdbError:
        return LshdbError(
            f"cannot make the {self._what} {self.path}: it is made in {self.aside}, which exists "
            f"already: {why}; nothing was changed",
            hint="move it away, or give another path",
        )

    def _database_names(self) -> tuple[str, ...]:
        """Return the names of the database's files, if the description puts them in there."""
        description = self._description()
        with contextlib.suppress(LshdbError):
            if description is not None:
                database = database_of(description.place, self.aside)
                if database.lies_in(self.aside):
                    return tuple(file.name for file in database.files)
        return ()

    def _clear_out(self) -> None:
        """Remove what a killed process left, beginning with what its description names outside.

        Raises
        ------
        DatabaseError
            The database that it was making refuses the removal.
        """
        left = self._description()
        if left is not None:
            try:
                database_of(left.place, self.path).remove_leftover(left.uuid)
            except DatabaseError as error:
                raise DatabaseError(
                    f"an unfinished index is left in {self.aside}, and its part in the database "
                    f"cannot be removed: {error.message}",
                    hint="make the database reachable, or remove that directory and, in the "
                    "database, what is left there",
                ) from error
        self._remove_files()

    def _remove_files(self) -> None:
        """Remove all files from the directory aside except the lock."""
        names = self._database_names()
        with open_folder(self.aside) as folder:
            foreign = foreign_names(folder, *names)
            # The description goes last: it names what else may be there.
            for name in sorted(os.listdir(folder), key=lambda name: name == "index.toml"):
                if name == "lock" or name in foreign:
                    continue
                if name in OWN_FOLDERS:
                    shutil.rmtree(name, dir_fd=folder)
                else:
                    os.unlink(name, dir_fd=folder)

    def _description(self) -> Description | None:
        """Return the description in the directory aside, if there is one."""
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
        state : mapping, optional
            Columns of the table ``state`` that differ from those of a new index.
        index_bands : bool
            Index each column of the table ``band`` now.

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
        """Let the block write files into the directory aside; yield the database to be made.

        Raises
        ------
        IndexExistsError
            There is already a file at the place of the database, outside the directory.
        DatabaseError, LshdbError
            The disk or the database failed.
        """
        database = database_of(place, self.path)
        database.refuse_existing()
        self._database = database = database.moved(self.path, self.aside)
        with self._said(database):
            if not database.lies_in(self.aside):
                database.reserve()
            yield database

    def settle(self, *, keep_lock: bool = True) -> None:
        """Bring the directory to its place; from then on there is an index.

        The lock is still held: it is now the index's writer lock. Without ``keep_lock`` its file
        does not go along, because nobody will write to what was made.

        Raises
        ------
        LshdbError
            It cannot be renamed.
        """
        with self._said():
            sync_directory(self.aside)
            os.rename(self.aside, self.path)
            _UNFINISHED.discard(self)
            self.lock.path = IndexDirectory(self.path).lock
            if keep_lock:
                with contextlib.suppress(OSError):  # a mark that stays does no harm there
                    self.lock.say_holder()
            else:
                self.lock.path.unlink()
                sync_directory(self.path)
            sync_directory(self.path.parent)

    def abandon(self) -> None:
        """Remove all files and the database, and release the lock.

        If the database cannot be reached, the directory aside stays: the next process that makes an
        index there removes both. An index in its place stays, and so does what another process is
        working on.
        """
        try:
            if self in _UNFINISHED and self._process.is_this:
                # Another error, or a signal, is on its way and is the one to report.
                with contextlib.suppress(LshdbError, OSError):
                    self._remove()
        finally:
            self.lock.release()
        _UNFINISHED.discard(self)

    def _remove(self) -> None:
        if not self.lock.is_in_place():  # interrupted before it was taken, or at the rename
            self.lock.release()
            self.lock.timeout = 0.0
            self._take_lock()
        if self.lock.is_in_place() and not self._is_own:
            self._claim()
        if self.lock.is_in_place() and self._is_removed():
            self._remove_files()
            self.lock.path.unlink()
            self.aside.rmdir()

    def _is_removed(self) -> bool:
        """Remove the database; return whether nothing is left of it."""
        description = self._description()
        if description is None:
            return True
        if self._database is None:  # a killed process's, which could not be cleared out
            return False
        try:
            self._database.remove(description.uuid)
        except DatabaseError:
            return False
        return True

    @contextlib.contextmanager
    def _said(self, database: Database | None = None) -> Iterator[None]:
        """Translate what goes wrong into our errors."""
        try:
            yield
        except OSError as error:
            if is_callers(error):
                raise
            raise LshdbError(
                f"cannot make the {self._what} {self.path}: {error.strerror or error}",
                hint=write_hint(
                    error,
                    "check that the folder exists, that you may write to it, and its free space",
                ),
            ) from error
        except Exception as error:
            if database is None or not isinstance(error, database.errors()):
                raise
            hint = "check that its folder exists, that you may write to it, and its free space"
            raise DatabaseError(
                f"cannot make the database {database}: {database.said(error)}",
                hint=database.hint(error, hint),
            ) from error


_UNFINISHED: set[Creation] = set()
"""What is being made, recorded before the ``try`` that cleans up, in case of an interrupt."""


def _abandon_unfinished() -> None:
    """Remove what this process began to make and did not finish, before a signal ends it.

    An exception between two statements of Python may come before the code that would clean up.
    """
    for creation in list(_UNFINISHED):
        creation.abandon()


def make_tables(connection: OpenDatabase, database: Database, bands: int) -> None:
    """Make all tables and views of an index."""
    statements = database.new_schema(bands)
    for statement in statements:
        connection.driver.execute(statement)
    if not statements:
        from lshdb.storage.tables.band_schema import make_bands
        from lshdb.storage.tables.migrations import upgrade

        upgrade(connection.alchemy)
        make_bands(connection.alchemy, bands)


def _fill(
    aside: Path,
    params: IndexParams,
    place: DatabasePlace,
    database: Database,
    state_values: Mapping[str, Any],
) -> None:
    from uuid import uuid4

    row = {
        "state_id": 1,
        "format": FORMAT,
        "uuid": str(uuid4()),
        "created_at": timestamp(),
        "library_version": __version__,
        "unicode_version": unicodedata.unidata_version,
        "signature_file": FIRST_NAME,
        "n_signatures": 0,
        "next_doc_id": 1,
        "is_distance": int(params.kind.is_distance),
        "index_bands": 0,
        **state_values,
    }
    Generation(aside, str(row["signature_file"]), row_layouts(params)).create()
    # Before the database exists, so that a process that clears this out knows what else to expect.
    IndexDirectory(aside).write_description(
        Description(FORMAT, str(row["uuid"]), place, params.items())
    )
    with contextlib.closing(database.open_writer()) as connection, connection.transaction():
        database.prepare(connection, str(row["uuid"]))
        make_tables(connection, database, params.bands)
        session = database.session(connection)
        state = with_checksum(tuple(row.values()))
        session.insert_rows("state", (*row, "checksum"), [state])
        values = ((name, orjson.dumps(item).decode()) for name, item in params.items().items())
        session.insert_rows("parameter", ("name", "value"), values)


def _check_name(path: Path) -> None:
    """Refuse a path that means something other than a folder on disk.

    Raises
    ------
    ParameterError
    """
    is_folder = "an index is a folder on disk"
    if path.name == ":memory:":
        raise ParameterError(
            f"{is_folder}, and ':memory:' is the name of none",
            hint="for an index that goes away, give a path in a tempfile.TemporaryDirectory(); "
            "lshdb.deduplicate takes a table in memory, and needs no index",
        )
    if url := _SCHEME.match(str(path)):
        is_database = url["scheme"].lower().startswith(("postgres", "sqlite", "mysql"))
        raise ParameterError(
            f"{is_folder}, and {url['scheme']}://... is a URL",
            hint="give the path of a folder, and the URL as the database (database=, --database)"
            if is_database
            else "give the path of a folder of this machine",
        )
    check_folder_name(str(path), is_folder, hint=f"give it another name: {path.stem}.lshdb")
