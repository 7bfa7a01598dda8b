"""Everything specific to one database; ``base.py`` lists what each of them must do."""

from __future__ import annotations

from pathlib import Path

from lshdb.errors import LshdbError, ParameterError, install_command
from lshdb.storage.dialects.base import Database
from lshdb.storage.dialects.database_urls import DatabasePlace, hide_passwords

__all__ = ["Database", "DatabasePlace", "database_of", "named_place"]

_POSTGRES = {"postgresql", "postgresql+psycopg", "postgres"}


def named_place(place: DatabasePlace, directory: Path) -> DatabasePlace:
    """Return the place of a new index's database, with a schema if none was given.

    The schema's default name is that of the index's directory, without ``.lshdb``.
    """
    if _scheme(place) not in _POSTGRES or place.schema is not None:
        return place
    return DatabasePlace(place.url, directory.name.removesuffix(".lshdb"))


def database_of(place: DatabasePlace, directory: Path) -> Database:
    """Return the database of an index.

    Parameters
    ----------
    directory : Path
        The directory of the index.

    Raises
    ------
    ParameterError
        The URL is not valid, or names a database that is not supported.
    LshdbError
        The driver for it is not installed.
    """
    url = place.url or ""
    try:
        url.encode()
    except UnicodeEncodeError as error:
        raise ParameterError("the database URL is not valid UTF-8") from error
    scheme = _scheme(place)
    if scheme in _POSTGRES:
        return _postgres(named_place(place, directory))
    if place.schema is not None:
        raise ParameterError(
            f"the schema {place.schema!r} cannot be used: the database is a file of SQLite",
            hint="leave it out, or give --database postgresql+psycopg://HOST/NAME",
        )
    if scheme is None or scheme.split("+")[0] == "sqlite":
        from lshdb.storage.dialects.sqlite import SqliteDatabase

        return SqliteDatabase.by_url(place.url, directory)
    raise ParameterError(
        f"the database URL is {hide_passwords(url)!r}; expected one of SQLite or Postgres",
        hint="leave --database out, or give sqlite:///PATH or postgresql+psycopg://HOST/NAME",
    )


def _scheme(place: DatabasePlace) -> str | None:
    if place.url is None:
        return None
    scheme, mark, _ = place.url.partition("://")
    return scheme if mark else ""


def _postgres(place: DatabasePlace) -> Database:
    try:
        from lshdb.storage.dialects.postgresql import PostgresDatabase
    except ImportError as error:
        raise LshdbError(
            f"an index in Postgres needs psycopg: {error}",
            hint=install_command("postgres"),
        ) from error
    return PostgresDatabase(place.url or "", place.schema or "")
