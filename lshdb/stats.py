"""Counts and sizes of an index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lshdb.params import IndexParams
from lshdb.search.candidates import LeftOut
from lshdb.signatures import kernel_name
from lshdb.storage.snapshot import Snapshot
from lshdb.storage.store import Store

__all__ = ["IndexStats", "gather_stats"]


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What :meth:`lshdb.Index.stats` gives.

    Attributes
    ----------
    path, database, uuid, created_at, format, schema, library_version, unicode_version
        Identity and origin; the database as a path, or as its URL and schema; the versions are
        those of the software that made the index.
    params : IndexParams
    documents, empty_documents, exact_copies : int
        Documents; those without tokens; those whose content another one before them has.
    signatures, unused_signatures : int
        Rows of the signature file; those that no document has any longer.
    postings, runs, batches : int
    shared_buckets, largest_bucket : int
        Buckets with more than one posting, and the postings of the largest; one that lies in
        several runs counts in each.
    bucket_pairs : int
        Candidate pairs that the buckets make, before a pair that shares several is taken once.
    max_bucket : int or None
        What was asked about: as for :meth:`lshdb.Index.pairs`.
    buckets_left_out, pairs_left_out : int or None
        Larger buckets, and the candidate pairs in them.
    recall_lost : float or None
        How much less likely a pair at the threshold would be found without them, as estimated.
    edges_threshold : float or None
        Down to which similarity, or up to which distance, verified pairs are stored; None where
        there are none yet.
    edges_batch : int or None
        The last batch that is in them.
    edges, clusters, clustered_documents : int
        What is stored of them.
    signature_bytes, vector_bytes, database_bytes, log_bytes : int
        Files on disk: signatures, vectors, database, its write-ahead log.
    reclaimable_bytes : int
        What :meth:`lshdb.Index.compact` would give back at least: signatures that no document has,
        with their postings, and free pages of the database; not what texts left within pages.
    kernel : str
        What signs texts in this installation: ``compiled (LEVEL)``, or ``reference``.
    """

    path: Path
    database: str
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
    shared_buckets: int
    largest_bucket: int
    bucket_pairs: int
    max_bucket: int | None
    buckets_left_out: int | None
    pairs_left_out: int | None
    recall_lost: float | None
    edges_threshold: float | None
    edges_batch: int | None
    edges: int
    clusters: int
    clustered_documents: int
    signature_bytes: int
    vector_bytes: int
    database_bytes: int
    log_bytes: int
    reclaimable_bytes: int
    kernel: str


def gather_stats(store: Store, snapshot: Snapshot, *, max_bucket: int | None = None) -> IndexStats:
    """Read the counts; one pass over an index of ``document`` and over what is clustered."""
    execute, vectors = snapshot.execute, snapshot.generation.vectors
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
    sizes = np.array(
        execute("SELECT band, size, n_buckets FROM bucket_size WHERE size > 1").fetchall(),
        dtype=np.int64,
    ).reshape(-1, 3)
    left_out = _left_out(sizes, max_bucket, snapshot.n_signatures)
    state = snapshot.edges.state()
    (edges,) = execute("SELECT count(*) FROM edge").fetchone()
    clusters, clustered = execute("SELECT count(DISTINCT label), count(*) FROM cluster").fetchone()
    database_bytes, log_bytes = store.database.sizes()
    return IndexStats(
        path=store.directory.path,
        database=str(store.database),
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
        shared_buckets=int(sizes[:, 2].sum()),
        largest_bucket=int(sizes[:, 1].max(initial=min(1, snapshot.n_signatures))),
        bucket_pairs=int((sizes[:, 1] * (sizes[:, 1] - 1) // 2 * sizes[:, 2]).sum()),
        max_bucket=max_bucket,
        buckets_left_out=None if max_bucket is None else left_out.buckets,
        pairs_left_out=None if max_bucket is None else left_out.pairs,
        recall_lost=None if max_bucket is None else left_out.recall_lost(store.params),
        edges_threshold=None if state is None else store.params.curve.value(state.threshold),
        edges_batch=None if state is None else state.batch_id,
        edges=edges,
        clusters=clusters,
        clustered_documents=clustered,
        signature_bytes=_size(snapshot.signature_file.path),
        vector_bytes=0 if vectors is None else _size(vectors.path),
        database_bytes=database_bytes,
        log_bytes=log_bytes,
        reclaimable_bytes=_reclaimable(snapshot, store.params, snapshot.n_signatures - distinct),
        kernel=kernel_name(),
    )


def _left_out(sizes: NDArray[np.int64], max_bucket: int | None, n_signatures: int) -> LeftOut:
    """What a cap would leave out, by the sizes of buckets: (band, size, number of buckets)."""
    left_out = LeftOut(max_bucket)
    if max_bucket is not None:
        bands, size, n_buckets = sizes[sizes[:, 1] > max_bucket].T
        pairs = int((size * (size - 1) // 2 * n_buckets).sum())
        left_out.count(np.repeat(bands, n_buckets), np.repeat(size, n_buckets), pairs, n_signatures)
    return left_out


def _reclaimable(snapshot: Snapshot, params: IndexParams, n_unused: int) -> int:
    postings = (params.bands + 1) * snapshot.session.run_tables.posting_bytes
    row_bytes = sum(file.row_bytes for file in snapshot.generation.files)
    return snapshot.session.free_bytes() + n_unused * (row_bytes + postings)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
