"""A copy of an index while others write: one state of it, as a reader sees it.

A reading transaction decides the state. The database is copied through the connection that holds
it, the signature file as far as it is committed there. Readers and the writer go on meanwhile; what
is committed after the transaction began is not in the copy.

The copy keeps the uuid: it is the same index at one moment. Whoever writes to both must not
exchange files between them, for nothing would tell.
"""

from __future__ import annotations

from pathlib import Path

from lshdb.params import FORMAT
from lshdb.storage.creation import Creation
from lshdb.storage.directory import Description, IndexDirectory
from lshdb.storage.store import Store

__all__ = ["copy_index"]


def copy_index(store: Store, path: Path, *, database_url: str | None) -> None:
    """Copy an index; see :meth:`lshdb.Index.copy`."""
    store.directory.refuse_inside(path)
    creation = Creation(path)
    try:
        with creation.filling(database_url) as database, store.reading() as snapshot:
            rows = snapshot.signature_file
            rows.copy_to(creation.aside / rows.path.name, snapshot.n_signatures)
            snapshot.copy_database(database)
            identity = snapshot.execute("SELECT uuid FROM state").fetchone()[0]
            IndexDirectory(creation.aside).write_description(
                Description(FORMAT, identity, database_url, store.params.items())
            )
        creation.settle()
    except BaseException:
        creation.abandon()
        raise
    creation.lock.release()
