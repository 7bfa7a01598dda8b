"""Whether the files of an index belong together, and its state is what was written.

``index.toml`` is compared with the database, the row of ``state`` with its checksum.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import orjson

from lshdb.errors import DamageError, DatabaseError, FormatError, ParameterMismatchError
from lshdb.params.index_params import FORMAT, IndexParams, refuse_format
from lshdb.storage.dialects.base import Database, Session
from lshdb.storage.dialects.database_urls import hide_passwords
from lshdb.storage.place.directory import Description, IndexDirectory
from lshdb.storage.rows.row_reader import RowReader
from lshdb.storage.tables.migrations import check_revision
from lshdb.storage.tables.records import row_checksum
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = [
    "agreed_params",
    "compare_description",
    "params_of",
    "remake_description",
    "state_is_sound",
    "stored_description",
    "stored_parameters",
]


def agreed_params(
    snapshot: Snapshot,
    description: Description,
    directory: IndexDirectory,
    database: Database,
    *,
    trusts_state: bool = True,
) -> IndexParams:
    """Return the parameters of an index; refuse it if description and database differ.

    A change of them writes the next description beside the present one, commits, and renames it. So
    if the two differ, the next description may be the one that counts or, a moment later, what
    ``index.toml`` has become.

    Parameters
    ----------
    description : Description
        Contents of ``index.toml`` from before the snapshot was made.
    database : Database
        Named in messages.
    trusts_state : bool
        Whether to compare the row of ``state``; a damaged one tells nothing.

    Raises
    ------
    FormatError
        The database holds no index, or one of another format or schema.
    ParameterMismatchError
        They belong to different indexes; the error names both values.
    DamageError
        A parameter cannot be read.
    """
    identity, stored = stored_description(
        snapshot, directory.path, database, trusts_state=trusts_state
    )
    identity = identity or description.uuid
    try:
        compare_description(identity, stored, description, directory.path, database)
    except ParameterMismatchError:
        following = directory.read_next_description()
        if following is None or (following.uuid, following.parameters) != (identity, stored):
            compare_description(
                identity, stored, directory.read_description(), directory.path, database
            )
    return params_of(stored, directory.path)


def params_of(stored: dict[str, Any], path: Path) -> IndexParams:
    """Return the parameters of an index, by what its database says.

    Raises
    ------
    FormatError
        There is one that this version does not know, or one is missing.
    ParameterError
        One is not valid.
    """
    try:
        return IndexParams(**stored)
    except TypeError as error:
        raise FormatError(
            f"the index {path} has parameters that this version does not know: {error}",
            hint="it was made by a newer lshdb; install that",
        ) from error


def remake_description(directory: IndexDirectory, database: Database) -> None:
    """Write ``index.toml`` anew from the database; under the writer lock.

    Raises
    ------
    FormatError, DamageError, DatabaseError
        The database does not say what belongs into it.
    """
    with contextlib.closing(database.open_reader()) as reader:
        rows = RowReader(reader.begin())
        identity, stored = stored_description(rows, directory.path, database)
        reader.end()
    params = params_of(stored, directory.path)
    place = directory.read_place()
    directory.write_description(Description(FORMAT, identity, place, params.items()), is_next=True)
    directory.settle_description()


def state_is_sound(session: Session) -> bool:
    """Return whether the row of the table ``state`` has its checksum."""
    row = session.execute("SELECT * FROM state").fetchone()
    return row is not None and row_checksum(row[:-1]) == row[-1]


def stored_description(
    rows: RowReader, path: Path, database: Database, *, trusts_state: bool = True
) -> tuple[str, dict[str, Any]]:
    """Return the index's uuid, empty if it is unknown, and parameters, from the database."""
    try:
        revision = rows.revision()
    except DatabaseError as error:
        raise FormatError(
            f"the database {database} holds no lshdb index", hint="restore it from a copy"
        ) from error
    number, identity = rows.execute("SELECT format, uuid FROM state").fetchone()
    if not trusts_state:
        number, identity = FORMAT, ""
    if not isinstance(number, int) or number < 1:
        raise DamageError(
            f"the index {path} is damaged: its format is {number!r}, which no version has",
            hint=f"lshdb check --repair {path} makes it anew from what is sound",
        )
    if number != FORMAT:
        raise refuse_format(f"the index {path}", number, way=f"lshdb upgrade {path}")
    check_revision(revision, path)
    return identity, stored_parameters(rows.session, database)


def stored_parameters(session: Session, database: Database) -> dict[str, Any]:
    """Return the rows of the table ``parameter``.

    Raises
    ------
    DamageError
        One cannot be read.
    """
    parameters: dict[str, Any] = {}
    for name, value in session.fetch("SELECT name, value FROM parameter"):
        try:
            parameters[name] = orjson.loads(value)
        except ValueError as error:
            raise DamageError(
                f"the parameter {name} in {database} is {value!r}, which is not JSON",
                hint="restore the index from a copy",
            ) from error
    return parameters


def compare_description(
    identity: str, stored: dict[str, Any], description: Description, path: Path, database: Database
) -> None:
    """Raise ParameterMismatchError if ``index.toml`` differs from the database; it says in what."""
    described = description.parameters
    if (description.uuid, described) == (identity, stored):
        return
    pairs: list[tuple[str, object, object]] = [("uuid", identity, description.uuid)]
    pairs += [
        (name, stored.get(name), described.get(name))
        for name in sorted(stored.keys() | described.keys(), key=str)
    ]
    for name, value, described_value in pairs:
        if value != described_value:
            raise ParameterMismatchError(
                f"{name} is {_shown(name, value)} in {database.short_name} and "
                f"{_shown(name, described_value)} in index.toml of the index {path}",
                name=name,
                stored=value,
                given=described_value,
                hint="the files belong to different indexes; restore them from a copy"
                if name == "uuid"
                else "they are of different moments, or index.toml was edited: lshdb check "
                f"--repair {path} writes it anew from the database",
            )


def _shown(name: str, value: object) -> str:
    """Format a parameter or uuid for a message; anything else may hold a password."""
    is_known = name == "uuid" or name in IndexParams.__dataclass_fields__
    if isinstance(value, dict | list) or (value is not None and not is_known):
        return "something (not shown)"
    return hide_passwords(repr(value))
