"""Copying an index while others write: one state of it, as a reader sees it.

A reading transaction fixes the state. If source and target are both files, the database is copied
as a whole through the connection that holds the transaction. Otherwise rows are streamed from one
transaction into another, with some thousand rows in memory. Numbers, checksums and runs stay as
they are. Row files are copied up to the committed rows. Readers and the writer go on meanwhile; the
copy lacks what is committed after the transaction began.

The copy keeps the uuid: it is the same index at one moment. If you write to both, exchange no files
between them: foreign orders are noticed, and no other files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lshdb.params.index_params import FORMAT
from lshdb.storage.dialects import Database, DatabasePlace, named_place
from lshdb.storage.dialects.base import Session, run_table
from lshdb.storage.place.creation import Creation
from lshdb.storage.place.directory import Description, IndexDirectory
from lshdb.storage.store import Store
from lshdb.storage.tables.records import row_checksum

if TYPE_CHECKING:
    from sqlalchemy import Table

__all__ = ["copy_index", "replace_database", "replace_rows", "transfer_rows"]

_POSTINGS = 500_000


def transfer_rows(source: Session, target: Session) -> None:
    """Copy every row of an index into the empty tables of another database.

    Parameters
    ----------
    source : Session
        A session of a reader.
    target : Session
        A session of a writer; the tables exist and are empty.
    """
    for table in _tables():
        _copy_table(source, target, table)
        if table.name == "run":
            _copy_runs(source, target, first_run=0)


def replace_rows(source: Session, target: Session) -> None:
    """Replace every row of another database by those of an index.

    Readers of the target go on with what was there. Runs get numbers that it never had.

    Parameters
    ----------
    source, target : Session
        As for :func:`transfer_rows`, except that the tables of the target hold an index.
    """
    tables = list(_tables())
    names = target.run_tables.names()
    (next_run_id,) = target.execute("SELECT max(next_run_id) FROM state").fetchone()
    first_run = max([next_run_id or 0, *(int(name.rpartition("_")[2]) for name in names)]) + 1
    for table in reversed(tables):
        target.execute(f"DELETE FROM {table.name}")
    target.run_tables.retire(sorted(names))
    for table in tables:
        if table.name in ("run", "bucket_stat"):
            _copy_table(source, target, table, first_run=first_run)
        else:
            _copy_table(source, target, table)
        if table.name == "run":
            _copy_runs(source, target, first_run=first_run)
    target.execute("UPDATE state SET next_run_id = next_run_id + ?", (first_run,))
    row = target.execute("SELECT * FROM state").fetchone()
    target.execute("UPDATE state SET checksum = ?", (row_checksum(row[:-1]),))


def _tables() -> Iterator[Table]:
    """Yield the tables that every database has, in the order of their references."""
    from lshdb.storage.tables.schema import metadata

    return (table for table in metadata.sorted_tables if not table.info)


def _copy_table(source: Session, target: Session, table: Table, *, first_run: int = 0) -> None:
    columns = table.columns.keys()
    order = ", ".join(column.name for column in table.primary_key)
    rows = source.stream(f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {order}")
    if table.name == "run":
        rows = (_run_row(dict(zip(columns, row, strict=True)), first_run) for row in rows)
    elif first_run:
        rows = ((row[0] + first_run, *row[1:]) for row in rows)
    target.insert_rows(table.name, columns, rows)


def _run_row(row: dict[str, Any], first_run: int) -> tuple[Any, ...]:
    """Return a row of ``run`` with another number, with which its table's name ends too."""
    row["run_id"] += first_run
    row["table_name"] = _name(row["table_name"], first_run)
    row["is_active"] = bool(row["is_active"])
    return tuple(row.values())


def _name(table: str, first_run: int) -> str:
    prefix, _, number = run_table(table).rpartition("_")
    return f"{prefix}_{int(number) + first_run}"


def _copy_runs(source: Session, target: Session, *, first_run: int) -> None:
    runs = source.execute("SELECT run_id, table_name, is_active FROM run ORDER BY run_id")
    names = []
    for run_id, table, is_active in runs.fetchall():
        name, number = _name(table, first_run), run_id + first_run
        target.run_tables.create(number, name, is_active=bool(is_active))
        for block in source.run_tables.in_order([table], contents=True, block=_POSTINGS):
            target.run_tables.insert(number, name, block[:, 0], block[:, 1])
        if not is_active:
            target.run_tables.complete(number, name)
        names.append(name)
    target.run_tables.publish(names)


def copy_index(store: Store, path: Path, *, place: DatabasePlace) -> None:
    """Copy an index; see :meth:`lshdb.Index.copy`."""
    store.directory.refuse_inside(path)
    creation = Creation(path)
    place = named_place(place, creation.path)
    try:
        with creation.filling(place) as database, store.reading() as snapshot:
            identity = snapshot.execute("SELECT uuid FROM state").fetchone()[0]
            IndexDirectory(creation.aside).write_description(
                Description(FORMAT, identity, place, store.params.items())
            )
            snapshot.require_signatures()
            for file in snapshot.generation.files:
                file.copy_to(creation.aside / file.path.name, snapshot.n_signatures)
            for order in snapshot.order_files():
                if order.name.last <= snapshot.n_signatures:
                    order.copy_to(creation.aside)
            if not snapshot.session.copy_whole(database):
                _copy_rows(snapshot.session, database, identity)
        creation.settle()
    except BaseException:
        creation.abandon()
        raise
    creation.lock.release()


def _copy_rows(source: Session, target: Database, uuid: str) -> None:
    from lshdb.storage.tables.migrations import upgrade

    engine = target.open_engine()
    try:
        with engine.connect() as connection:
            with connection.begin():
                target.prepare(connection, uuid)
                upgrade(connection)
                transfer_rows(source, target.session(connection))
            with contextlib.suppress(*target.driver_errors):
                target.rest(connection)
    finally:
        engine.dispose()


def replace_database(store: Store, made: Store, *, lock_timeout: float) -> None:
    """Replace the database of one index by that of another, in one durable transaction.

    Readers go on with what they have begun to read. The replaced database may be damaged.

    Parameters
    ----------
    store : Store
        The index to be replaced; its writer lock is held.
    made : Store
        The new index, at rest.
    lock_timeout : float
        Seconds to wait for a writer of another host.
    """
    if store.database.replace_whole(made.database):
        return

    engine = store.database.open_engine()
    try:
        with (
            contextlib.closing(made.database.open_reader()) as reader,
            engine.begin() as connection,
        ):
            store.database.lock(
                connection, store.uuid, timeout=lock_timeout, known_as=str(store.path)
            )
            replace_rows(reader.begin(), store.database.session(connection))
            reader.end()
    finally:
        engine.dispose()
