"""Counts and sizes of an index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lshdb.params import IndexParams
from lshdb.signatures import kernel_name
from lshdb.storage.snapshot import Snapshot
from lshdb.storage.store import Store

__all__ = ["IndexStats", "gather_stats"]


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What :meth:`lshdb.Index.stats` gives.

    Attributes
    ----------
    path, uuid, created_at, format, schema, library_version, unicode_version
        Identity and origin; the versions are those of the software that made the index.
    params : IndexParams
    documents, empty_documents, exact_copies : int
        Documents; those without tokens; those whose content another one before them has.
    signatures, unused_signatures : int
        Rows of the signature file; those that no document has any longer.
    postings, runs, batches : int
    signature_bytes, database_bytes, log_bytes : int
        Files on disk: signatures, database, its write-ahead log.
    kernel : str
        What signs texts in this installation: ``compiled (LEVEL)``, or ``reference``.
    """

    path: Path
    uuid: str
    created_at: str
    format: int
    schema: str
    library_version: str
    unicode_version: str
    params: IndexParams
    documents: int
    empty_documents: int
    exact_copies: int
    signatures: int
    unused_signatures: int
    postings: int
    runs: int
    batches: int
    signature_bytes: int
    database_bytes: int
    log_bytes: int
    kernel: str


def gather_stats(store: Store, snapshot: Snapshot) -> IndexStats:
    """Read the counts; one pass over an index of ``document``."""
    execute = snapshot.execute
    identity = execute(
        "SELECT uuid, created_at, format, library_version, unicode_version FROM state"
    ).fetchone()
    uuid, created_at, number, library_version, unicode_version = identity
    (schema,) = execute("SELECT version_num FROM alembic_version").fetchone()
    documents, signed, distinct = execute(
        "SELECT count(*), count(signature_id), count(DISTINCT signature_id) FROM document"
    ).fetchone()
    postings, runs = execute("SELECT coalesce(sum(n_rows), 0), count(*) FROM run").fetchone()
    (batches,) = execute("SELECT count(*) FROM batch").fetchone()
    log = store.database.with_name(store.database.name + "-wal")
    return IndexStats(
        path=store.directory.path,
        uuid=uuid,
        created_at=created_at,
        format=number,
        schema=schema,
        library_version=library_version,
        unicode_version=unicode_version,
        params=store.params,
        documents=documents,
        empty_documents=documents - signed,
        exact_copies=signed - distinct,
        signatures=snapshot.n_signatures,
        unused_signatures=snapshot.n_signatures - distinct,
        postings=postings - snapshot.n_signatures,
        runs=runs,
        batches=batches,
        signature_bytes=_size(snapshot.signature_file.path),
        database_bytes=_size(store.database),
        log_bytes=_size(log),
        kernel=kernel_name(),
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
