"""Copying an index while others write: one state of it, as a reader sees it.

A reading transaction decides the state. The database is copied through the connection that holds
it, as a whole where it is a file and becomes one, else row by row (``transferring.py``); the
row files as far as they are committed there. Readers and the writer go on meanwhile; what is
committed after the transaction began is not in the copy.

The copy keeps the uuid: it is the same index at one moment. Whoever writes to both must not
exchange files between them, for nothing would tell.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from lshdb.params import FORMAT
from lshdb.storage.creation import Creation
from lshdb.storage.dialects import Database, DatabasePlace, named_place
from lshdb.storage.dialects.base import Session
from lshdb.storage.directory import Description, IndexDirectory
from lshdb.storage.store import Store

__all__ = ["copy_index", "replace_database"]


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
            if not snapshot.session.copy_whole(database):
                _copy_rows(snapshot.session, database, identity)
        creation.settle()
    except BaseException:
        creation.abandon()
        raise
    creation.lock.release()


def _copy_rows(source: Session, target: Database, uuid: str) -> None:
    from lshdb.storage.migrations import upgrade
    from lshdb.storage.transferring import transfer_rows

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
    """Put the database of an index in the place of another's, in one durable transaction.

    Readers go on with what they have begun to read. What is replaced need not be sound.

    Parameters
    ----------
    store : Store
        Its writer lock is held.
    made : Store
        At rest.
    lock_timeout : float
        Seconds to wait for a writer of another host.
    """
    if store.database.replace_whole(made.database):
        return
    from lshdb.storage.transferring import replace_rows

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
