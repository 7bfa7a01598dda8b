"""An index on disk: making it, opening it, and the transactions that read it and write it.

    news.lshdb/
      index.toml        copy of the parameters          (directory.py)
      index.db          SQLite: everything that is SQL  (schema.py, runs.py, snapshot.py)
      signatures.npy    signature rows                  (signature_file.py)
      lock              single-writer lock              (lock.py)

The commit protocol is in ``writing.py``. Every reading transaction has a connection to itself, so
several can be open at once, each with its own state of the index; connections are kept and used
again.
"""

from __future__ import annotations

import contextlib
import functools
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from lshdb.errors import (
    DamageError,
    DatabaseError,
    FormatError,
    LshdbError,
    ParameterMismatchError,
)
from lshdb.params import FORMAT, IndexParams
from lshdb.storage.dialects import sqlite as dialect
from lshdb.storage.dialects.files import copy_database
from lshdb.storage.directory import Description, IndexDirectory, utf8_path
from lshdb.storage.making import index_aside
from lshdb.storage.migrations import check_revision
from lshdb.storage.signature_file import SignatureFile
from lshdb.storage.snapshot import Snapshot
from lshdb.storage.times import timestamp
from lshdb.version import __version__

__all__ = ["Store"]

SIGNATURE_FILE = "signatures.npy"


class Store:
    """An open index; made by :meth:`open`."""

    def __init__(self, directory: IndexDirectory, database: Path) -> None:
        self.directory = directory
        self.database = database
        self.params: IndexParams
        self._idle: list[Any] = []
        self._closed = False
        self._files: dict[str, SignatureFile] = {}

    # Making

    @staticmethod
    def create(path: Path, params: IndexParams, *, database_url: str | None = None) -> None:
        """Make an empty index at a path where nothing is; see :meth:`making`."""
        with Store.making(path, params, database_url=database_url):
            pass

    @classmethod
    @contextlib.contextmanager
    def making(
        cls,
        path: Path,
        params: IndexParams,
        *,
        database_url: str | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> Iterator[Store]:
        """Make an index that is filled, in the block, before it comes into being.

        It is made aside, synced, and renamed into place: killed before the end, there is none.

        Parameters
        ----------
        path : Path
        params : IndexParams
        database_url : str, optional
            Where its database is to lie, if not in the directory.
        state : mapping, optional
            Columns of the table ``state``, where they are not those of a new index.

        Raises
        ------
        IndexExistsError
            Something is there already.
        LockedError
            Another process is making the same index.
        LshdbError
            The directory cannot be written to.
        """
        with index_aside(path, database_url) as (aside, database):
            _fill(aside, params, database_url, database, state or {})
            store = cls(IndexDirectory(aside), database)
            store.params = params
            try:
                yield store
            finally:
                store.close()

    # Opening

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open an index for reading; cost does not depend on its size.

        Raises
        ------
        IndexNotFoundError, FormatError, ParameterMismatchError, DamageError, DatabaseError
            What is there is no index, of another format, or does not fit together.
        """
        directory = IndexDirectory(utf8_path(Path(path)))
        description = directory.read_description()
        if description.format != FORMAT:
            raise FormatError(
                f"the index {path} has format {description.format}; this version reads {FORMAT}",
                hint="open it with the lshdb version that made it"
                if description.format < FORMAT
                else "it was made by a newer lshdb; install that",
            )
        database = dialect.database_path(description.database, directory.path)
        store = cls(directory, database)
        try:
            with store.reading() as snapshot:
                store._check(description, snapshot)
        except BaseException:
            store.close()
            raise
        return store

    def _check(self, description: Description, snapshot: Snapshot) -> None:
        try:
            row = snapshot.execute("SELECT version_num FROM alembic_version").fetchone()
        except DatabaseError as error:
            raise FormatError(
                f"the database {self.database} holds no lshdb index", hint="restore it from a copy"
            ) from error
        check_revision(None if row is None else row[0], self.directory.path)
        number, identity = snapshot.execute("SELECT format, uuid FROM state").fetchone()
        if number != FORMAT:
            raise FormatError(
                f"the database {self.database} has format {number}; this version reads {FORMAT}",
                hint="open it with the lshdb version that made it",
            )
        stored = {
            name: _parameter(name, value, self.database)
            for name, value in snapshot.execute("SELECT name, value FROM parameter")
        }
        self._compare("uuid", identity, description.uuid)
        for name in sorted(stored.keys() | description.parameters.keys()):
            self._compare(name, stored.get(name), description.parameters.get(name))
        try:
            self.params = IndexParams(**stored)
        except TypeError as error:
            raise FormatError(
                f"the index {self.directory.path} has parameters that this version does not know: "
                f"{error}",
                hint="it was made by a newer lshdb; install that",
            ) from error
        snapshot.signature_file.check_header(snapshot.n_signatures)

    def _compare(self, name: str, stored: object, described: object) -> None:
        if stored != described:
            raise ParameterMismatchError(
                f"{name} is {stored!r} in {self.database.name} and {described!r} in index.toml "
                f"of the index {self.directory.path}",
                name=name,
                stored=stored,
                given=described,
                hint="the files are not of one index, or index.toml was edited: "
                "restore it from a copy",
            )

    # Reading

    @contextlib.contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """A transaction that sees one committed state, from its beginning to its end.

        Raises
        ------
        LshdbError
            The store is closed.
        DatabaseError
            The database fails while it is read.
        """
        if self._closed:
            raise LshdbError(f"the index {self.directory.path} is closed", hint="open it again")
        # Asked before it is opened: a writer that comes meanwhile would change the answer.
        fleeting = not self._idle and dialect.is_immutable(self.database)
        connection = self._idle.pop() if self._idle else dialect.open_reader(self.database)
        try:
            execute = self._translated(connection.execute)
            execute("BEGIN")
            yield Snapshot(
                execute,
                self.signature_file,
                more=self.reading,
                copy_to=functools.partial(copy_database, connection),
            )
        finally:
            if connection.in_transaction:
                connection.rollback()
            if self._closed or fleeting:
                connection.close()
            else:
                self._idle.append(connection)

    def signature_file(self, name: str) -> SignatureFile:
        """The signature file of a generation, opened once."""
        if name not in self._files:
            self._files[name] = SignatureFile(self.directory.path / name, self.params.num_perm)
        return self._files[name]

    def _translated(self, execute: Callable[..., Any]) -> Callable[..., Any]:
        """The same, with the driver's errors turned into ours."""

        def translated(sql: str, parameters: tuple[Any, ...] = ()) -> _Rows:
            try:
                return _Rows(execute(sql, parameters), self.database)
            except dialect.DRIVER_ERRORS as error:
                raise _translation(error, self.database) from error

        return translated

    def database_of(self, url: str | None) -> Path:
        """Where the database would lie by that URL."""
        return dialect.database_path(url, self.directory.path)

    def close(self) -> None:
        """Close all connections; the store cannot be used after that."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        self._files.clear()


class _Rows:
    """Rows of a statement, as the driver's cursor gives them, but for its errors."""

    def __init__(self, cursor: Any, database: Path) -> None:
        self._cursor = cursor
        self._database = database

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._cursor)
        except dialect.DRIVER_ERRORS as error:
            raise _translation(error, self._database) from error

    def fetchone(self) -> Any:
        return next(self, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        try:
            rows: list[tuple[Any, ...]] = self._cursor.fetchall()
        except dialect.DRIVER_ERRORS as error:
            raise _translation(error, self._database) from error
        return rows


def _translation(error: Exception, database: Path) -> LshdbError:
    """Our error for one of the driver's."""
    kind = DamageError if dialect.is_damage(error) else DatabaseError
    return kind(
        f"the database {database} failed: {error}", hint="run lshdb check if this happens again"
    )


def _parameter(name: str, value: str, database: Path) -> Any:
    try:
        return orjson.loads(value)
    except ValueError as error:
        raise DamageError(
            f"the parameter {name} in {database} is {value!r}, which is no JSON",
            hint="restore the index from a copy",
        ) from error


def _fill(
    aside: Path,
    params: IndexParams,
    database_url: str | None,
    database: Path,
    given: Mapping[str, Any],
) -> None:
    """Write an empty index into the directory ``aside``."""
    import uuid

    from lshdb.storage.migrations import upgrade
    from lshdb.storage.schema import parameter, state

    values = {
        "state_id": 1,
        "format": FORMAT,
        "uuid": str(uuid.uuid4()),
        "created_at": timestamp(),
        "library_version": __version__,
        "unicode_version": unicodedata.unidata_version,
        "signature_file": SIGNATURE_FILE,
        "n_signatures": 0,
        "next_doc_id": 1,
        "next_run_id": 1,
        **given,
    }
    SignatureFile(aside / SIGNATURE_FILE, params.num_perm).create()
    IndexDirectory(aside).lock.touch()
    engine = dialect.open_writer_engine(database)
    try:
        with engine.begin() as connection:
            upgrade(connection)
            connection.execute(state.insert().values(**values))
            connection.execute(
                parameter.insert(),
                [
                    {"name": name, "value": orjson.dumps(value).decode()}
                    for name, value in params.items().items()
                ],
            )
    finally:
        engine.dispose()
    description = Description(
        format=FORMAT, uuid=values["uuid"], database=database_url, parameters=params.items()
    )
    IndexDirectory(aside).write_description(description)
