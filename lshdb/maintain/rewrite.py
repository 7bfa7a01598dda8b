"""Rewriting an index in place: without unused signatures, with other bands, or in a newer schema.

    documents  -> which signatures still have a document, and their content keys
    signature rows, each block compared with its CRC-32
               -> the rows that stay, in a new generation of the file; vectors likewise
               -> their bucket keys, in columns on disk, sorted column by column -> one posting run
    documents, edges, clusters -> the same under the new numbers of their signatures

All of it is one transaction: killed at any moment, it leaves the index as it was, and the same
command then begins again. Readers go on with the state that they see. The commit names the new
generation of the row files, which are synced before; the old one is removed after it. Then frozen
orders are written for the new rows or bands.

Only bands are hashed: no text is read. What is rewritten is compared with its checksum first,
because afterwards nothing would show the damage.

An upgrade runs the migrations that are missing, and is one transaction, too. It works without a
:class:`~lshdb.storage.store.Store`, because no store opens an index of an older schema.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.disksort.sorted_numbers import KeyColumns
from lshdb.errors import DatabaseError, ParameterError
from lshdb.ingest.reindex import changed_params
from lshdb.params.index_params import FORMAT, IndexParams, refuse_format
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.banding import CONTENT_BAND, bucket_keys, content_keys
from lshdb.storage.dialects import database_of
from lshdb.storage.place.directory import IndexDirectory
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.rowfiles.generations import clear_generations
from lshdb.storage.runs.renumber import Renumbering, document_rows, renumber
from lshdb.storage.store import Store
from lshdb.storage.tables.migrations import SCHEMA_REVISION, check_revision, upgrade
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.snapshot import verified_rows
from lshdb.storage.transactions.writer import Writer

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = [
    "RewriteResult",
    "compact_store",
    "migrating",
    "reband_index",
    "upgrade_index",
]

MEMORY = 256 * 2**20
"""Memory for sorting, in bytes."""
_REBAND = frozenset({"threshold", "recall", "bands", "rows"})

Ids = NDArray[np.int64]


@dataclass(slots=True)
class RewriteResult:
    """What a compaction or a reband did.

    Attributes
    ----------
    params : IndexParams
        Parameters of the index afterwards.
    signatures, dropped : int
        Signatures in the index, and those dropped because no document had them any more.
    bytes_before, bytes_after : int
        Bytes of the index's files on disk.
    seconds : float
    """

    params: IndexParams
    signatures: int
    dropped: int
    bytes_before: int
    bytes_after: int = 0
    seconds: float = 0.0


def compact_store(store: Store, *, lock_timeout: float) -> RewriteResult:
    """Free the space of what was removed; see :meth:`lshdb.Index.compact`."""
    start = time.perf_counter()
    with Writer(store, lock_timeout=lock_timeout) as writer:
        result = RewriteResult(store.params, 0, 0, store.bytes_on_disk())
        with writer.transaction() as transaction:
            rewriting = _Rewriting(transaction, store.params, store.directory.path)
            result.dropped = len(rewriting.dropped)
            result.signatures = transaction.snapshot.n_signatures - result.dropped
            if result.dropped:
                rewriting.run()
            elif len(transaction.snapshot.run_tables) > 1:
                transaction.runs.merge(transaction.runs.runs())
        clear_generations(rewriting.generation)
        store.freeze()
        writer.vacuum()
        result.bytes_after = store.bytes_on_disk()
    result.seconds = time.perf_counter() - start
    return result


def reband_index(path: Path, changes: Mapping[str, Any], *, lock_timeout: float) -> RewriteResult:
    """Cut the stored signatures into other bands; see :meth:`lshdb.Index.reband`."""
    if not changes:
        raise ParameterError(
            "no parameter for the bands is given",
            hint="give a threshold, a recall, or bands and rows",
        )
    start = time.perf_counter()
    with (
        contextlib.closing(Store.open(path)) as store,
        Writer(store, lock_timeout=lock_timeout) as writer,
    ):
        params = changed_params(store.params, changes)
        result = RewriteResult(params, 0, 0, store.bytes_on_disk())
        with writer.translated():
            store.describe_next(params)
        with writer.transaction() as transaction:
            rewriting = _Rewriting(transaction, params, path)
            result.dropped = len(rewriting.dropped)
            result.signatures = transaction.snapshot.n_signatures - result.dropped
            rewriting.run()
            transaction.edges.clear()
            transaction.name_banding({name: getattr(params, name) for name in sorted(_REBAND)})
        with contextlib.suppress(OSError):  # it is committed; the next writer renames it
            store.directory.settle_description()
        clear_generations(rewriting.generation)
        with contextlib.closing(Store.open(path)) as rebanded:
            rebanded.use_orders(BandOrders(params.cut))
            rebanded.freeze()
        writer.vacuum()
        result.bytes_after = store.bytes_on_disk()
    result.seconds = time.perf_counter() - start
    return result


class _Rewriting:
    """One rewriting, inside one transaction.

    Parameters
    ----------
    transaction : WriteTransaction
    params : IndexParams
        Parameters for cutting bands.
    folder : Path
        Folder for temporary files.

    Attributes
    ----------
    dropped : ndarray of int64
        Signatures that no document has, sorted.
    generation : Generation
        The row files that the index refers to once the transaction is committed.

    Raises
    ------
    DamageError
        A document's row is not as it was written.
    """

    def __init__(self, transaction: WriteTransaction, params: IndexParams, folder: Path) -> None:
        self._transaction = transaction
        self._snapshot = transaction.snapshot
        self._params = params
        self._folder = folder
        self._contents = self._content_keys()
        self.dropped = np.flatnonzero(self._contents == 0)
        self.generation = self._snapshot.generation

    def _content_keys(self) -> Ids:
        """Return the content bucket key by signature; 0, not a key, if no document has it."""
        keys = np.zeros(self._snapshot.n_signatures, dtype=np.int64)
        for rows in document_rows(self._transaction):
            ids = np.array([row[2] for row in rows], dtype=np.int64)
            keys[ids] = content_keys([row[3] for row in rows])
        return keys

    def run(self) -> None:
        """Rewrite the index.

        Raises
        ------
        DamageError
            Signatures, edges or documents are not as they were written.
        OSError
            The disk is full or failed.
        """
        n_kept = len(self._contents) - len(self.dropped)
        n_columns = self._params.bands + 1
        with KeyColumns(self._folder, n_kept, n_columns, memory=MEMORY) as columns:
            signatures = self._staying_rows(columns)
            if len(self.dropped):
                of_files = (
                    [signatures]
                    if self.generation.vectors is None
                    else [signatures, self._staying_vectors()]
                )
                self.generation = self.generation.following()
                blocks = self.generation.write(n_kept, of_files)
                self._transaction.replace_signatures(self.generation.name, blocks)
                renumber(self._transaction, Renumbering(self.dropped))
            else:
                for _ in signatures:
                    pass
            self._transaction.runs.replace(columns.in_order(), below=n_kept)

    def _staying_rows(self, columns: KeyColumns) -> Iterator[NDArray[np.uint32]]:
        """Yield the rows that stay, and put their keys into the columns on the way."""
        bands = self._params.bands
        # Columns are in the order of their keys as signed numbers: band 128 is the lowest.
        order = np.argsort(np.array([*range(bands), CONTENT_BAND], dtype=np.uint8).view(np.int8))
        read = written = 0
        for rows in verified_rows(self._snapshot, self._snapshot.signature_file):
            contents = self._contents[read : read + len(rows)]
            read += len(rows)
            stays = contents != 0
            staying = rows[stays]
            keys = bucket_keys(staying, **self._params.cut)
            columns.put(written, np.column_stack([keys, contents[stays]])[:, order])
            written += len(staying)
            yield staying

    def _staying_vectors(self) -> Iterator[NDArray[Any]]:
        """Yield the vectors of the rows that stay."""
        read = 0
        for vectors in verified_rows(self._snapshot, self._snapshot.vector_file):
            stays = self._contents[read : read + len(vectors)] != 0
            read += len(vectors)
            yield vectors[stays]


def upgrade_index(path: Path, *, lock_timeout: float) -> tuple[str | None, str]:
    """Run the migrations that are missing, under the writer lock, in one transaction.

    Returns
    -------
    tuple
        Revision before, revision after.
    """
    from sqlalchemy import text

    with migrating(path, lock_timeout=lock_timeout) as connection:
        row = connection.execute(text("SELECT version_num FROM alembic_version")).fetchone()
        before = None if row is None else str(row[0])
        if before is None or before > SCHEMA_REVISION:
            check_revision(before, path)
        if before != SCHEMA_REVISION:
            upgrade(connection)
    return before, SCHEMA_REVISION


@contextlib.contextmanager
def migrating(path: Path, *, lock_timeout: float) -> Iterator[Connection]:
    """Open a transaction on the database of an index of any schema, as its only writer.

    Alembic's command line has it from ``migrations/env.py``.

    Raises
    ------
    LshdbError
        There is no index, another process writes to it, or the database failed; the transaction
        is undone.
    """
    from sqlalchemy.exc import SQLAlchemyError

    directory = IndexDirectory(path)
    description = directory.read_description()
    if description.format != FORMAT:
        raise refuse_format(f"the index {path}", description.format)
    database = database_of(description.place, path)
    database.open_reader().close()
    lock = WriterLock(directory.lock, lock_timeout)
    lock.acquire()
    engine = database.open_engine()
    try:
        with engine.begin() as connection:
            database.lock(connection, description.uuid, timeout=lock_timeout, known_as=str(path))
            yield connection
    except database.errors(SQLAlchemyError) as error:
        raise DatabaseError(
            f"upgrading {database} failed: {database.said(error)}; the schema is as it was",
            hint=database.hint(error, "check the free space and the permissions of its folder"),
        ) from error
    finally:
        engine.dispose()
        lock.release()
