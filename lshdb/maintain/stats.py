"""Counts and sizes of an index."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lshdb.arguments import check_whole
from lshdb.params.bucket_layout import bands_of, key_ranges, sql_buckets
from lshdb.params.index_params import IndexParams
from lshdb.phases.bars import amount
from lshdb.result_tables import html_table
from lshdb.search.candidates import PART_SIGNATURES, LeftOut, living
from lshdb.search.loss import DocumentCounts, Loss, PairFrame, estimate_pairs, loss_of, lost_by
from lshdb.search.verification import check_limits, choose_method
from lshdb.signatures import kernel_name
from lshdb.signatures.family import Family
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store

__all__ = ["BucketCounts", "IndexStats", "count_buckets", "gather_stats", "stats_of"]

_POSTING_BYTES = 4 + 6
"""Of a bucket in the table ``band``, and of an entry in an order."""
COUNTED_SIGNATURES = 250_000
"""What takes a pass is counted unasked in an index of so many: a tenth of a second of each."""


@dataclass(frozen=True, slots=True, repr=False)
class IndexStats:
    """The result of :meth:`lshdb.Index.stats`.

    Attributes
    ----------
    path, database, uuid, created_at, format, schema, library_version, unicode_version
        Identity and origin; the database as a path, or as its URL and schema. The versions are
        those of the software that made the index.
    params : IndexParams
    documents, empty_documents, exact_copies : int
        All documents; those without tokens; those with the content of an older document.
    index_bands : bool
        Whether each column of the table ``band`` has an index: the choice in SQLite; always true in
        Postgres.
    signatures, unused_signatures : int
        Rows of the signature file; those that no document has any more.
    postings, batches : int
    shared_buckets, largest_bucket : int or None
        Buckets with more than one posting, and the postings of the largest. None if they were not
        counted, as what follows.
    bucket_pairs : int or None
        Candidate pairs of the buckets; a pair in several buckets counts in each.
    max_bucket : int or None
        The cap asked about: as for :meth:`lshdb.Index.pairs`.
    buckets_left_out, pairs_left_out : int or None
        Larger buckets, and the candidate pairs in them; :meth:`lshdb.Index.pairs` leaves them out.
    recall_lost : float or None
        Share of the near-duplicate pairs of documents at the index's threshold that would be lost
        without them. An estimate from pairs drawn from larger and smaller buckets, or a count: see
        :class:`lshdb.Loss`.
    recall_lost_low, recall_lost_high : float or None
        Ends of its 99 % interval.
    edges_threshold : float or None
        Lowest similarity, or largest distance, of the stored verified pairs (edges); None if there
        are none yet.
    edges_batch : int or None
        The last batch that they cover.
    edges_max_bucket : int or None
        Larger buckets were joined through leaders, not compared; None if all were compared.
    edges_recall_lost : float or None
        Share of the near-duplicate pairs that they lack because of that, as estimated when they
        were found.
    edges, clusters, clustered_documents : int or None
        How many are stored; None if they were not counted.
    ordered_signatures : int
        How many signatures frozen orders cover: who asks sorts the others first.
    signature_bytes, vector_bytes, order_bytes, database_bytes, log_bytes : int
        Files on disk: signatures, vectors, frozen orders, database, its write-ahead log.
    reclaimable_bytes : int
        What :meth:`lshdb.Index.compact` would free at least: signatures that no document has, with
        their postings, and free pages of the database; not what texts left within pages.
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
    index_bands: bool
    documents: int
    empty_documents: int
    exact_copies: int
    signatures: int
    unused_signatures: int
    postings: int
    batches: int
    shared_buckets: int | None
    largest_bucket: int | None
    bucket_pairs: int | None
    max_bucket: int | None
    buckets_left_out: int | None
    pairs_left_out: int | None
    recall_lost: float | None
    recall_lost_low: float | None
    recall_lost_high: float | None
    edges_threshold: float | None
    edges_batch: int | None
    edges_max_bucket: int | None
    edges_recall_lost: float | None
    edges: int | None
    clusters: int | None
    clustered_documents: int | None
    ordered_signatures: int
    signature_bytes: int
    vector_bytes: int
    order_bytes: int
    database_bytes: int
    log_bytes: int
    reclaimable_bytes: int
    kernel: str

    def __repr__(self) -> str:
        return (
            f"IndexStats({str(self.path)!r}, {self.documents:,} documents, threshold "
            f"{self.params.threshold:g}, {amount(self._bytes, 'bytes')})"
        )

    @property
    def _bytes(self) -> int:
        files = self.signature_bytes + self.vector_bytes + self.order_bytes
        return files + self.database_bytes + self.log_bytes

    def _repr_html_(self) -> str:
        """Return what is asked first, for a notebook."""
        return self.html(repr(self))

    def html(self, caption: str) -> str:
        """Return what is asked first as a table of HTML."""
        params = self.params
        rows = {
            "documents": f"{self.documents:,}",
            "exact copies": f"{self.exact_copies:,}",
            "metric": params.metric,
            "threshold, recall": f"{params.threshold:g}, {params.recall:g}",
            "bands x rows": f"{params.bands} x {params.rows}",
            "clusters": None if self.clusters is None else f"{self.clusters:,}",
            "on disk": amount(self._bytes, "bytes"),
            "database": self.database,
        }
        return html_table(caption, (), [row for row in rows.items() if row[1] is not None])


def gather_stats(
    store: Store, family: Family, *, max_bucket: int | str | None, count: bool | None
) -> IndexStats:
    """Count; see :meth:`lshdb.Index.stats`."""
    check_limits(max_bucket)
    most = max_bucket if isinstance(max_bucket, int) else None
    with store.reading() as snapshot:
        return stats_of(store, snapshot, family, max_bucket=most, count=count)


def stats_of(
    store: Store, snapshot: Snapshot, family: Family, *, max_bucket: int | None, count: bool | None
) -> IndexStats:
    """Read the counts of one state.

    Reads batches, releases and documents without tokens; with ``count`` all postings, edges and
    clusters, too, which None leaves to how many signatures there are. A cap counts in any case.
    """
    vectors = snapshot.generation.vectors
    identity = snapshot.identity()
    documents, unsigned = snapshot.n_documents(), snapshot.count_unsigned()
    unused = len(snapshot.edges.dead())
    buckets: _Buckets | None = None
    edges: int | None = None
    clusters: int | None = None
    clustered: int | None = None
    left_out, loss = LeftOut(max_bucket), None
    if count is None:
        count = snapshot.n_signatures <= COUNTED_SIGNATURES
    if count or max_bucket is not None:
        buckets, left_out, loss = _counted(snapshot, family, max_bucket)
        edges, clusters, clustered = snapshot.edges.count()
    state = snapshot.edges.state()
    database_bytes, log_bytes = store.database.sizes()
    orders = snapshot.order_files()
    row_bytes = sum(file.row_bytes for file in snapshot.generation.files)
    freed_bytes = unused * (row_bytes + store.params.bands * _POSTING_BYTES)
    return IndexStats(
        path=store.directory.path,
        database=str(store.database),
        uuid=identity["uuid"],
        created_at=identity["created_at"],
        format=identity["format"],
        schema=snapshot.revision() or "",
        library_version=identity["library_version"],
        unicode_version=identity["unicode_version"],
        params=store.params,
        index_bands=store.database.always_indexes_bands or bool(identity["index_bands"]),
        documents=documents,
        empty_documents=unsigned,
        exact_copies=documents - unsigned - (snapshot.n_signatures - unused),
        signatures=snapshot.n_signatures,
        unused_signatures=unused,
        postings=snapshot.n_signatures * store.params.bands,
        batches=snapshot.count_batches(),
        shared_buckets=None if buckets is None else buckets.shared,
        largest_bucket=None if buckets is None else buckets.largest,
        bucket_pairs=None if buckets is None else buckets.pairs,
        max_bucket=max_bucket,
        buckets_left_out=None if max_bucket is None else left_out.buckets,
        pairs_left_out=None if max_bucket is None else left_out.pairs,
        recall_lost=None if loss is None else loss.share,
        recall_lost_low=None if loss is None else loss.low,
        recall_lost_high=None if loss is None else loss.high,
        edges_threshold=None if state is None else store.params.curve.value(state.threshold),
        edges_batch=None if state is None else state.batch_id,
        edges_max_bucket=None if state is None else state.max_bucket,
        edges_recall_lost=None if state is None else state.recall_lost,
        edges=edges,
        clusters=clusters,
        clustered_documents=clustered,
        ordered_signatures=min(orders[-1].name.last, snapshot.n_signatures) if orders else 0,
        signature_bytes=_size(snapshot.signature_file.path),
        vector_bytes=0 if vectors is None else _size(vectors.path),
        order_bytes=sum(_size(file.path) for file in orders),
        database_bytes=database_bytes,
        log_bytes=log_bytes,
        reclaimable_bytes=snapshot.session.free_bytes() + freed_bytes,
        kernel=kernel_name(),
    )


_LISTED = 24
"""Signatures of a bucket that are named."""


@dataclass(frozen=True, slots=True)
class _Buckets:
    """How many buckets have several postings."""

    shared: int
    largest: int
    pairs: int


@dataclass(frozen=True, slots=True)
class BucketCounts:
    """The result of :meth:`lshdb.Index.buckets`.

    Attributes
    ----------
    sizes : tuple of (int, int)
        A number of signatures, and how many buckets have so many; smallest first.
    largest : tuple of (int, int, int)
        Band, bucket (as in SQL) and size of the largest buckets with several signatures, largest
        first.
    signature_ids : tuple of (tuple of int)
        The first signatures, up to 24, in each of these.
    """

    sizes: tuple[tuple[int, int], ...]
    largest: tuple[tuple[int, int, int], ...]
    signature_ids: tuple[tuple[int, ...], ...]


def count_buckets(store: Store, family: Family, *, most: int) -> BucketCounts:
    """Count buckets by size; see :meth:`lshdb.Index.buckets`."""
    check_whole("most", most, 0)
    sizes: Counter[int] = Counter()
    largest: list[tuple[int, int, tuple[int, ...]]] = []
    with store.reading() as snapshot:
        bands, n = family.params.bands, snapshot.n_signatures
        for first, last in key_ranges(bands=bands, parts=1 + n // PART_SIGNATURES):
            buckets = snapshot.postings.shared(first, last)
            values, numbers = np.unique(buckets.sizes, return_counts=True)
            sizes.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
            starts = np.cumsum(buckets.sizes) - buckets.sizes
            for place in np.argsort(-buckets.sizes, kind="stable")[:most].tolist():
                size, start = int(buckets.sizes[place]), int(starts[place])
                if len(largest) >= most and size <= -largest[most - 1][0]:
                    break  # of equals, the one with the smaller key is named
                members = np.sort(buckets.members[start : start + size])[:_LISTED]
                largest.append((-size, int(buckets.keys[place]), tuple(members.tolist())))
            largest = sorted(largest)[:most]
        if n:
            sizes[1] = n * bands - sum(size * number for size, number in sizes.items())
    return BucketCounts(
        sizes=tuple(sorted((size, number) for size, number in sizes.items() if number)),
        largest=tuple(
            (bands_of(key), int(sql_buckets(np.array(key))), -size) for size, key, _ in largest
        ),
        signature_ids=tuple(members for _, _, members in largest),
    )


def _counted(
    snapshot: Snapshot, family: Family, max_bucket: int | None
) -> tuple[_Buckets, LeftOut, Loss | None]:
    """Count all buckets, what a cap would leave out, and what that would cost."""
    params = family.params
    left_out = LeftOut(max_bucket)
    shared = largest = pairs = 0
    dead = snapshot.edges.dead()
    counts = DocumentCounts.of(snapshot)
    small, large = PairFrame(counts), PairFrame(counts)
    left_out.large = large
    parts = 1 + snapshot.n_signatures // PART_SIGNATURES
    for first, last in key_ranges(bands=params.bands, parts=parts):
        buckets = snapshot.postings.shared(first, last)
        shared += len(buckets.keys)
        largest = max(largest, int(buckets.sizes.max(initial=0)))
        pairs += int((buckets.sizes * (buckets.sizes - 1) // 2).sum())
        if max_bucket is not None:
            buckets = living(buckets, dead)
            hot = buckets.chosen(np.flatnonzero(buckets.sizes > max_bucket))
            left_out.count(hot, hot.sizes)
            small.add(buckets.chosen(np.flatnonzero(buckets.sizes <= max_bucket)))
    loss = None
    if max_bucket is not None:
        how: dict[str, Any] = {
            "threshold": params.level,
            "method": choose_method(None, params, has_signatures=snapshot.has_signatures),
        }
        left_out.copy_pairs = counts.pairs_of_copies() - counts.pairs_of_copies(most=max_bucket)
        lost = lost_by(snapshot, family, left_out, large, **how)
        estimate = estimate_pairs(snapshot, family, small, found_by="nothing", **how)
        if lost is not None and estimate is not None:
            loss = loss_of(lost, estimate + counts.pairs_of_copies(most=max_bucket))
    return _Buckets(shared, max(largest, min(1, snapshot.n_signatures)), pairs), left_out, loss


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
