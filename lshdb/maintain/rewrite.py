"""Rewriting an index in place: without unused signatures, or with other bands.

    documents  -> which signatures still have a document, and their content keys
    signature rows, each block compared with its CRC-32
               -> the rows that stay, in a new generation of the file; vectors likewise
               -> their buckets, in the table ``band``
    documents, edges, clusters -> the same under the new numbers of their signatures

All of it is one transaction: killed at any moment, it leaves the index as it was, and the same
command then begins again. Readers go on with the state that they see. The commit names the new
generation of the row files, which are synced before; the old one is removed after it. Then frozen
orders are written for the new rows or bands.

Only bands are hashed: no text is read. What is rewritten is compared with its checksum first,
because afterwards nothing would show the damage.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import ParameterError
from lshdb.ingest.reindex import changed_params
from lshdb.maintain.renumber import Renumbering, document_rows, renumber
from lshdb.params.index_params import IndexParams
from lshdb.signatures.band_orders import BandOrders
from lshdb.signatures.banding import bucket_keys
from lshdb.storage.bands.band_table import BandTable
from lshdb.storage.rowfiles.generations import clear_generations
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.snapshot import verified_rows
from lshdb.storage.transactions.store import Store
from lshdb.storage.transactions.writer import Writer

__all__ = [
    "RewriteResult",
    "compact_store",
    "reband_index",
]

_REBAND = frozenset({"threshold", "recall", "bands", "rows"})

Ids = NDArray[np.int64]


@dataclass(slots=True)
class RewriteResult:
    """Counts of a compaction or a reband.

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
    """Free the space of removed documents; see :meth:`lshdb.Index.compact`."""
    start = time.perf_counter()
    with Writer(store, lock_timeout=lock_timeout) as writer:
        result = RewriteResult(store.params, 0, 0, store.bytes_on_disk())
        bands = store.params.bands
        with writer.transaction() as transaction:
            if len(transaction.snapshot.edges.dead()):
                transaction.prepare_bands(bands)
        with writer.transaction() as transaction:
            rewriting = _Rewriting(transaction, store.params)
            result.dropped = len(rewriting.dropped)
            result.signatures = transaction.snapshot.n_signatures - result.dropped
            if result.dropped:
                rewriting.run()
        clear_generations(rewriting.generation)
        store.freeze()
        with writer.transaction() as transaction:
            transaction.complete_bands(bands)
        writer.vacuum()
        result.bytes_after = store.bytes_on_disk()
    result.seconds = time.perf_counter() - start
    return result


def reband_index(
    path: Path, changes: Mapping[str, Any], *, index_bands: bool | None, lock_timeout: float
) -> RewriteResult:
    """Cut the stored signatures into other bands; see :meth:`lshdb.Index.reband`."""
    if not changes and index_bands is None:
        raise ParameterError(
            "no parameter for the bands is given",
            hint="give a threshold, a recall, bands and rows, or whether bands have an index",
        )
    start = time.perf_counter()
    with (
        contextlib.closing(Store.open(path)) as store,
        Writer(store, lock_timeout=lock_timeout) as writer,
    ):
        if index_bands is False and store.database.always_indexes_bands:
            raise ParameterError(
                "bands in Postgres are always indexed", hint="leave out --no-index-bands"
            )
        if not changes:
            return _indexed(store, writer, is_wanted=bool(index_bands), start=start)
        params = changed_params(store.params, changes)
        result = RewriteResult(params, 0, 0, store.bytes_on_disk())
        with writer.translated():
            store.describe_next(params)
        with writer.transaction() as transaction:
            transaction.prepare_bands(params.bands)
        with writer.transaction() as transaction:
            rewriting = _Rewriting(transaction, params)
            result.dropped = len(rewriting.dropped)
            result.signatures = transaction.snapshot.n_signatures - result.dropped
            rewriting.run()
            transaction.edges.clear()
            if index_bands is not None:
                transaction.choose_band_indexes(index_bands)
            transaction.name_banding({name: getattr(params, name) for name in sorted(_REBAND)})
        with contextlib.suppress(OSError):  # it is committed; the next writer renames it
            store.directory.settle_description()
        clear_generations(rewriting.generation)
        with contextlib.closing(Store.open(path)) as rebanded:
            rebanded.use_orders(BandOrders(params.cut))
            rebanded.freeze()
            store.follow(rebanded)
        with writer.transaction() as transaction:
            transaction.complete_bands(params.bands)
        writer.vacuum()
        result.bytes_after = store.bytes_on_disk()
    result.seconds = time.perf_counter() - start
    return result


def _indexed(store: Store, writer: Writer, *, is_wanted: bool, start: float) -> RewriteResult:
    """Make the indexes of the bands, or drop them, and rewrite nothing else."""
    result = RewriteResult(store.params, 0, 0, store.bytes_on_disk())
    with writer.transaction() as transaction:
        result.signatures = transaction.snapshot.n_signatures
        transaction.choose_band_indexes(is_wanted)
        transaction.complete_bands(store.params.bands)
    if not is_wanted:
        writer.vacuum()
    result.bytes_after = store.bytes_on_disk()
    result.seconds = time.perf_counter() - start
    return result


class _Rewriting:
    """One rewriting, inside one transaction.

    Parameters
    ----------
    params : IndexParams
        Parameters for cutting bands.

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

    def __init__(self, transaction: WriteTransaction, params: IndexParams) -> None:
        self._transaction = transaction
        self._snapshot = transaction.snapshot
        self._params = params
        self._stays = np.zeros(self._snapshot.n_signatures, dtype=bool)
        for rows in document_rows(transaction):
            self._stays[[row[2] for row in rows]] = True
        self.dropped = np.flatnonzero(~self._stays)
        self.generation = self._snapshot.generation

    def run(self) -> None:
        """Rewrite the index.

        Raises
        ------
        DamageError
            Signatures, edges or documents are not as they were written.
        OSError
            The disk is full or failed.
        """
        staying = self._staying_rows(self._transaction.remake_bands(self._params.bands))
        if not len(self.dropped):
            for _ in staying:
                pass
            return
        of_files = [staying]
        if self.generation.vectors is not None:
            of_files.append(self._staying_vectors())
        self.generation = self.generation.following()
        blocks = self.generation.write(int(self._stays.sum()), of_files)
        self._transaction.replace_signatures(self.generation.name, blocks)
        renumber(self._transaction, Renumbering(self.dropped))

    def _staying_rows(self, bands: BandTable) -> Iterator[NDArray[np.uint16]]:
        """Yield the rows that stay, and write their bands on the way."""
        read = written = 0
        for rows in verified_rows(self._snapshot, self._snapshot.signature_file):
            staying = rows[self._stays[read : read + len(rows)]]
            read += len(rows)
            bands.append(written, bucket_keys(staying, **self._params.cut))
            written += len(staying)
            yield staying

    def _staying_vectors(self) -> Iterator[NDArray[Any]]:
        """Yield the vectors of the rows that stay."""
        read = 0
        for vectors in verified_rows(self._snapshot, self._snapshot.vector_file):
            stays = self._stays[read : read + len(vectors)]
            read += len(vectors)
            yield vectors[stays]
