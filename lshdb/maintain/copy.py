"""Copying an index while others write: one state of it, as a reader sees it.

A reading transaction fixes the state. If source and target are both files, the database is copied
as a whole through the connection that holds the transaction. Otherwise rows are streamed from one
transaction into another, with some thousand rows in memory. Numbers and checksums stay as they are.
Row files are copied up to the committed rows. Readers and the writer go on meanwhile; the
copy lacks what is committed after the transaction began.

The copy keeps the uuid: it is the same index at one moment. If you write to both, exchange no files
between them: foreign orders are noticed, and no other files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lshdb.errors import DamageError
from lshdb.params.index_params import FORMAT
from lshdb.phases.phase import Phase, counting
from lshdb.storage.bands.band_table import BandTable
from lshdb.storage.dialects import Database, DatabasePlace, named_place
from lshdb.storage.dialects.base import Session
from lshdb.storage.place.creation import Creation, make_tables
from lshdb.storage.place.directory import Description, IndexDirectory
from lshdb.storage.rows.inspection import Inspection
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store

if TYPE_CHECKING:
    from sqlalchemy import Table

__all__ = ["at_rest", "copy_index", "replace_database", "transfer_rows"]

_BAND_ROWS = 50_000


def transfer_rows(source: Snapshot, target: Session) -> None:
    """Copy every row of an index into the empty tables of another database.

    Parameters
    ----------
    target : Session
        A session of a writer; the tables exist and are empty, with as many bands.
    """
    for table in _tables():
        columns = table.columns.keys()
        order = [column.name for column in table.primary_key]
        rows = Inspection(source.session).rows_in_order(table.name, columns, order)
        target.insert_rows(table.name, columns, rows)
    bands = BandTable(target, source.bands.n)
    starts = range(0, source.n_signatures, _BAND_ROWS)
    for first in counting(starts, "signatures", source.n_signatures, lambda _: _BAND_ROWS):
        last = min(first + _BAND_ROWS, source.n_signatures)
        ids, keys = source.bands.rows(first, last)
        if len(ids) != last - first:
            raise DamageError(
                f"the table band lacks some of the signatures {first} to {last - 1}",
                hint="run lshdb check",
            )
        bands.append(first, keys)


@contextlib.contextmanager
def at_rest(store: Store) -> Iterator[Snapshot]:
    """Open a snapshot of an index that is closed, and that nobody writes."""
    with contextlib.closing(store.database.open_reader()) as reader:
        yield Snapshot(reader.begin(), store.generation)
        reader.end()


def _tables() -> Iterator[Table]:
    """Yield the tables that every database has, in the order of their references."""
    from lshdb.storage.tables.schema import metadata

    return (table for table in metadata.sorted_tables if not table.info)


def copy_index(store: Store, path: Path, *, place: DatabasePlace) -> None:
    """Copy an index; see :meth:`lshdb.Index.copy`."""
    store.directory.refuse_inside(path)
    creation = Creation(path)
    place = named_place(place, creation.path)
    try:
        with creation.filling(place) as database, store.reading() as snapshot:
            identity = snapshot.identity()["uuid"]
            IndexDirectory(creation.aside).write_description(
                Description(FORMAT, identity, place, store.params.items())
            )
            snapshot.require_signatures()
            if not _copy_files(snapshot, creation.aside, database):
                _copy_rows(snapshot, database, identity)
        creation.settle()
    except BaseException:
        creation.abandon()
        raise
    creation.lock.release()


def _copy_files(source: Snapshot, aside: Path, target: Database) -> bool:
    """Copy the row files and orders, and the database if both are files; return whether it is."""
    n, session = source.n_signatures, source.session
    orders = [order for order in source.order_files() if order.name.last <= n]
    n_bytes = sum(file.n_bytes(n) for file in source.generation.files)
    n_bytes += sum(order.n_bytes for order in orders) + session.whole_bytes(target)
    with Phase("bytes", n_bytes, is_sum=True):
        for file in source.generation.files:
            file.copy_to(aside / file.path.name, n)
        for order in orders:
            order.copy_to(aside)
        return session.copy_whole(target)


def _copy_rows(source: Snapshot, target: Database, uuid: str) -> None:
    with contextlib.closing(target.open_writer()) as connection:
        with connection.transaction():
            target.prepare(connection, uuid)
            make_tables(connection, target, source.bands.n)
            transfer_rows(source, target.session(connection))
        with connection.transaction():
            target.complete_bands(connection, source.bands.n)
        with contextlib.suppress(*target.driver_errors):
            target.rest(connection)


def replace_database(store: Store, replacement: Store, *, lock_timeout: float) -> None:
    """Replace the database of one index by that of another, in one durable transaction.

    Readers go on with what they have begun to read. The replaced database may be damaged.

    Parameters
    ----------
    store : Store
        The index to be replaced; its writer lock is held.
    replacement : Store
        The new index, at rest.
    lock_timeout : float
        Seconds to wait for a writer of another host.
    """
    if store.database.replace_whole(replacement.database):
        return

    with (
        at_rest(replacement) as source,
        contextlib.closing(store.database.open_writer()) as connection,
    ):
        bands = source.bands.n
        with connection.transaction():
            store.database.prepare_bands(connection, bands)
        with connection.transaction():
            store.database.lock(
                connection, store.uuid, timeout=lock_timeout, known_as=str(store.path)
            )
            target = store.database.session(connection)
            for table in reversed(list(_tables())):
                target.delete_all(table.name)
            store.database.remake_bands(connection, bands)
            transfer_rows(source, target)
        with connection.transaction():
            store.database.complete_bands(connection, bands)
