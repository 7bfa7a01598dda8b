"""Making a directory at once: aside, synced, renamed. Killed before the end, there is none.

What is being made lies in ``.NAME.new`` beside its place, whose maker holds a ``flock`` on that
directory. The lock goes with the process, so what a killed one left behind is known for that, and
cleared away by whoever makes the same thing next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from lshdb.errors import DatabaseError, IndexExistsError, LockedError, LshdbError
from lshdb.storage.dialects import sqlite as dialect
from lshdb.storage.dialects.files import remove_database
from lshdb.storage.directory import sync_directory, utf8_path

__all__ = ["directory_aside", "index_aside"]

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.05


@contextlib.contextmanager
def index_aside(path: Path, database_url: str | None) -> Iterator[tuple[Path, Path]]:
    """Make an index at a path where nothing is, in the block; there is one when it ends well.

    Parameters
    ----------
    path : Path
    database_url : str or None
        Where its database is to lie, if not in the directory. A database outside is made in its
        place, and taken away again on any error.

    Yields
    ------
    tuple of Path
        The directory to fill, and the database file to make.

    Raises
    ------
    IndexExistsError
        Something is at the path, or at the database's, already.
    LockedError
        Another process is making the same index.
    DatabaseError, LshdbError
        The database or the directory cannot be written to; nothing was made.
    """
    path = Path(os.path.abspath(utf8_path(path)))
    database = dialect.database_path(database_url, path)
    _check_vacant(path)
    if database.exists():
        raise IndexExistsError(
            f"there is a file at {database} already",
            hint="give another --database, or remove the file",
        )
    try:
        with directory_aside(path, what="index") as aside:
            if database.is_relative_to(path):
                yield aside, aside / database.relative_to(path)
            else:
                try:
                    yield aside, database
                except BaseException:
                    remove_database(database)
                    raise
    except _database_errors() as error:
        raise DatabaseError(
            f"cannot make the database {database}: {getattr(error, 'orig', None) or error}",
            hint="check the free space, that its folder exists, and that you may write to it",
        ) from error


@contextlib.contextmanager
def directory_aside(path: Path, *, what: str) -> Iterator[Path]:
    """Make a directory at a path where nothing is, in the block; it is there when it ends well.

    Files must be synced by who writes them; names are synced here.

    Parameters
    ----------
    path : Path
        Nothing may be there, or an empty directory.
    what : str
        What is made, for messages.

    Raises
    ------
    IndexExistsError, LockedError, LshdbError
        As for :func:`index_aside`.
    """
    path = Path(os.path.abspath(path))
    _check_vacant(path)
    if not path.parent.is_dir():
        raise LshdbError(
            f"cannot make the {what} {path}: the folder {path.parent} does not exist",
            hint="make the folder first",
        )
    try:
        aside = path.with_name(f".{path.name}.new")
        descriptor = _claim(aside, path)
        try:
            _check_vacant(path)
            _clear(aside)
            yield aside
            sync_directory(aside)
            os.rename(aside, path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        finally:
            os.close(descriptor)
        sync_directory(path.parent)
    except OSError as error:
        raise LshdbError(
            f"cannot make the {what} {path}: {error.strerror or error}",
            hint="check the free space, that the folder exists, and that you may write to it",
        ) from error


def _check_vacant(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        what = "an index" if (path / "index.toml").exists() else "something"
        raise IndexExistsError(
            f"there is {what} at {path} already",
            hint="give another path, or remove what is there",
        )


def _claim(aside: Path, path: Path) -> int:
    """Make the directory ``aside``, or take over what is left of it; the descriptor locks it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with contextlib.suppress(FileExistsError):
            aside.mkdir()
        try:
            descriptor = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # its maker has finished or given up
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if aside.exists() and os.path.samestat(os.fstat(descriptor), aside.stat()):
                return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise LockedError(
                    f"{path} is being made by another process; waited {_PATIENCE_SECONDS:g} s",
                    hint="wait for it to end, or give another path",
                ) from None
            time.sleep(_POLL_SECONDS)
        os.close(descriptor)


def _clear(directory: Path) -> None:
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _database_errors() -> tuple[type[Exception], ...]:
    from sqlalchemy.exc import SQLAlchemyError

    return (SQLAlchemyError, *dialect.DRIVER_ERRORS)
