"""Bucket keys -> postings -> candidate pairs of signatures, each once.

Postings do not travel as rows, of which Spark would hash, compare and copy sixteen a document. Each
task cuts its own by the range of their buckets, ``RANGES`` of them, and sends a row for each range,
with all postings there as bytes. Where they arrive, NumPy sorts those of a range. So no bucket is
joined with itself, and memory holds a range: 1 / ``RANGES`` of all postings, or the largest bucket.
A pair that shares several buckets comes once from each; a grouping takes the repeats out, which is
cheaper than sending signatures along to tell the first bucket of a pair.

A bucket of more than ``max_bucket`` signatures is cut into pieces of ``PIECE``, each with the first
``HEAD`` members of the bucket as well. Within a piece, members are compared by signature with
leaders, as on one machine (``search/candidates.py``). The leaders are among the first members and
so the same in all pieces, except those of families that are rarer than one in ``HEAD``. So a bucket
of m costs m comparisons for each leader, in any number of tasks, and each task holds one piece.
Buckets with the same first member, such as those of one family in all bands, are taken as one.
:func:`large_buckets` tells which buckets that were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import leader_links, pairs_of_buckets
from lshdb.search.verification import least_share
from lshdb.signatures.banding import BUCKET_BITS
from lshdb.spark.keeping import kept
from lshdb.spark.signing import ID_BYTES, Recipe, binaries, few_rows, mapped
from lshdb.storage.runs.posting_runs import Buckets

__all__ = [
    "MAX_BUCKET",
    "PIECE",
    "Comparison",
    "bucket_pairs",
    "candidates",
    "ids_of",
    "large_buckets",
    "rows_of",
]

MAX_BUCKET = 1000
"""Larger buckets are joined through leaders unless you ask for another number."""
PIECE = 16_384
"""Members of a large bucket that one task compares: 8 MB of signatures of 128 slots."""
HEAD = 1024
"""The first members of a large bucket, which are in each of its pieces."""
RANGE_BITS = 12
RANGES = 2**RANGE_BITS
"""Of a billion documents and 16 bands, a range has four million postings, 94 MB."""
SENT = 2**18
"""Postings that a task cuts at once: 64 for each range, 6 MB."""

Ids = NDArray[np.void]
"""Signature ids: 16 bytes each, compared as bytes."""


def bucket_pairs(signatures: DataFrame, *, max_bucket: int | None) -> DataFrame:
    """Return the pairs of small buckets, each once, and the members of large ones.

    Parameters
    ----------
    signatures : DataFrame
        ``signature_id``, of 16 bytes or a whole number, and ``bucket``: a bucket key, or an array
        of all. Rows may come again. Others are ignored.
    max_bucket : int or None
        The largest bucket of which all pairs are candidates; None for any.

    Returns
    -------
    DataFrame
        ``left``, ``right``, ``first`` (binary), ``number``, ``bucket`` (bigint), in rows of three
        kinds. A pair: ``left`` below ``right``, others null. A member of a large bucket: its id as
        ``left``, the bucket's first member, and the number of the piece. A large bucket: its first
        member, its size as ``number``, and its key.
    """
    ranged = signatures.select("bucket", "signature_id").mapInArrow(
        mapped(_ranged_batches), "range int, postings binary"
    )
    found = (
        ranged.repartition("range")
        .sortWithinPartitions("range")
        .mapInArrow(
            mapped(_paired_batches, max_bucket),
            "left binary, right binary, first binary, number bigint, bucket bigint",
        )
    )
    # Sent first: repeats lie in other partitions, and the sort needs the memory of its task.
    return found.repartition("left", "right").dropDuplicates()


def large_buckets(met: DataFrame) -> DataFrame:
    """Return (bucket, size) of the buckets that were joined through leaders."""
    return met.where("bucket IS NOT NULL").select("bucket", sf.col("number").alias("size"))


@dataclass(frozen=True, slots=True)
class Comparison:
    """What pairs of signatures are compared by.

    Attributes
    ----------
    rows : DataFrame
        ``signature_id``, ``signature``, ``n_chars`` and, for method ``exact``, ``body``; of several
        rows of one signature any counts. Read several times.
    recipe : Recipe
    method : {"none", "signature", "exact"}
    level : float
        The threshold as a level.
    """

    rows: DataFrame
    recipe: Recipe
    method: str
    level: float


def candidates(met: DataFrame, by: Comparison) -> DataFrame:
    """Return (left, right) of all candidate pairs; a pair of leaders may come twice.

    Parameters
    ----------
    met : DataFrame
        What :func:`bucket_pairs` returned; read several times.
    by : Comparison
        Members of large buckets are compared with leaders by signature.
    """
    params, like = by.recipe.params, least_share(by.recipe.params, by.method, by.level)
    members = met.where("left IS NOT NULL AND right IS NULL")
    pieces = members.groupBy("first", sf.col("left").alias("signature_id")).agg(
        sf.min("number").alias("piece")
    )
    wanted = members.select("left")
    rows = few_rows(by.rows.select("signature_id", "signature"), "signature_id", wanted)
    links = (
        pieces.join(rows.dropDuplicates(["signature_id"]), "signature_id")
        .repartition("first", "piece")
        .sortWithinPartitions("first", "piece", "signature_id")
        .mapInArrow(mapped(_led_batches, params, like), "left binary, right binary")
    )
    pairs = met.where("right IS NOT NULL").select("left", "right")
    return pairs.unionByName(kept(links.distinct()))


_POSTING = np.dtype([("bucket", "<i8"), ("id", f"V{ID_BYTES}")])
"""A posting in the bytes of a range."""


class _Met(NamedTuple):
    """Postings of one or more buckets, sorted: the keys of the buckets, and their members."""

    buckets: NDArray[np.int64]
    ids: Ids

    @classmethod
    def shared(cls, parts: list[bytes]) -> _Met:
        """Return the postings of buckets with several members, each once, in order of both.

        Nearly all buckets have one; so members are put in order, and compared, only in the others.
        """
        postings = np.frombuffer(b"".join(parts), dtype=_POSTING)
        buckets = np.ascontiguousarray(postings["bucket"])
        order = np.argsort(buckets)
        in_order = buckets[order]
        same = in_order[1:] == in_order[:-1]
        some = order[np.append(same, False) | np.insert(same, 0, False)]
        buckets, ids = buckets[some], np.ascontiguousarray(postings["id"][some])
        upper, lower = ids.view(">u8").reshape(-1, 2).T
        order = np.lexsort((lower, upper, buckets))
        return cls(buckets[order], ids[order]).without_repeats()

    def without_repeats(self) -> _Met:
        """Return each member of a bucket once."""
        same = (self.buckets[1:] == self.buckets[:-1]) & (self.ids[1:] == self.ids[:-1])
        if not same.any():
            return self
        fresh = np.insert(~same, 0, True)
        return _Met(self.buckets[fresh], self.ids[fresh])


def ids_of(column: pa.Array) -> Ids:
    """Return ids of 16 bytes, or numbers as such ids, as an array without an object for each."""
    if pa.types.is_integer(column.type):
        ids = np.zeros((len(column), 2), dtype=">u8")
        ids[:, 1] = column.to_numpy()
        return ids.view(f"V{ID_BYTES}").reshape(-1)
    column = column.cast(pa.binary(ID_BYTES)) if len(column) else column
    if not len(column):
        return np.empty(0, dtype=f"V{ID_BYTES}")
    data = column.buffers()[1]
    flat = np.frombuffer(data, dtype=f"V{ID_BYTES}")
    return flat[column.offset : column.offset + len(column)]


def _ranged_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut the postings of a task by the range of their buckets, some at a time."""
    held: list[NDArray[np.void]] = []
    n = 0
    for batch in batches:
        buckets, ids = batch.column("bucket"), ids_of(batch.column("signature_id"))
        if pa.types.is_list(buckets.type):
            ids = ids[buckets.value_parent_indices().to_numpy()]
            buckets = buckets.flatten()
        postings = np.empty(len(ids), dtype=_POSTING)
        postings["bucket"], postings["id"] = buckets.to_numpy(), ids
        held.append(postings)
        n += len(postings)
        if n >= SENT:
            yield _ranged(held)
            held, n = [], 0
    if n:
        yield _ranged(held)


def _ranged(held: list[NDArray[np.void]]) -> pa.RecordBatch:
    """Return a row for each range that has some of the postings."""
    postings = np.concatenate(held)
    ranges = (postings["bucket"] >> (BUCKET_BITS - RANGE_BITS) & (RANGES - 1)).astype(np.uint16)
    order = np.argsort(ranges, kind="stable")
    counts = np.bincount(ranges, minlength=RANGES)
    there = np.flatnonzero(counts)
    ends = np.append(0, np.cumsum(counts[there])) * _POSTING.itemsize
    data = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(postings[order])]
    return pa.RecordBatch.from_arrays(
        [pa.array(there, pa.int32()), pa.Array.from_buffers(pa.binary(), len(there), data)],
        names=["range", "postings"],
    )


def _paired_batches(
    max_bucket: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pair the members of buckets; the last range of a batch waits for the next one."""
    held: list[bytes] = []
    now: int | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        ranges, postings = batch.column("range").to_numpy(), batch.column("postings").to_pylist()
        last = int(np.searchsorted(ranges, ranges[-1]))
        if now not in (None, ranges[-1]) or last:
            yield from _paired(_Met.shared(held + postings[:last]), max_bucket)
            held = []
        held += postings[last:]
        now = int(ranges[-1])
    yield from _paired(_Met.shared(held), max_bucket)


def _paired(met: _Met, max_bucket: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of small buckets and the members of large ones."""
    if not len(met.ids):
        return
    starts = np.flatnonzero(np.diff(met.buckets, prepend=~met.buckets[0]))
    sizes = np.diff(starts, append=len(met.ids))
    is_large = sizes > (len(met.ids) if max_bucket is None else max_bucket)
    for place in np.flatnonzero(is_large).tolist():
        ids = met.ids[starts[place] : starts[place] + sizes[place]]
        yield from _given_out(int(met.buckets[starts[place]]), ids)
    small = np.flatnonzero((sizes > 1) & ~is_large)
    if not len(small):
        return
    places = Buckets(met.buckets[starts], sizes, np.arange(len(met.ids))).chosen(small)
    for left, right, _ in pairs_of_buckets(places, None):
        yield _batch(binaries(met.ids[left]), binaries(met.ids[right]), None, None, None)


def _given_out(bucket: int, ids: Ids) -> Iterator[pa.RecordBatch]:
    """Yield the members of a large bucket in pieces, each with the head; then what it is."""
    head = ids[:HEAD]
    for piece, start in enumerate(range(0, len(ids), PIECE)):
        some = ids[start : start + PIECE]
        if piece:
            some = np.concatenate([head, some])
        number = pa.array(np.full(len(some), piece))
        firsts = binaries(np.broadcast_to(ids[:1], len(some)))
        yield _batch(binaries(some), None, firsts, number, None)
    yield _batch(None, None, binaries(ids[:1]), pa.array([len(ids)]), pa.array([bucket]))


_MET = pa.schema(
    [
        ("left", pa.binary()), ("right", pa.binary()), ("first", pa.binary()),
        ("number", pa.int64()), ("bucket", pa.int64()),
    ]
)  # fmt: skip


def _batch(*columns: pa.Array | None) -> pa.RecordBatch:
    n = next(len(column) for column in columns if column is not None)
    filled = [
        pa.nulls(n, field.type) if column is None else column
        for column, field in zip(columns, _MET, strict=True)
    ]
    return pa.RecordBatch.from_arrays(filled, schema=_MET)


class _Rows:
    """Signature rows by their place, as ``leader_links`` reads them."""

    def __init__(self, rows: NDArray[np.uint32]) -> None:
        self._rows = rows

    def __getitem__(self, places: NDArray[np.int64]) -> NDArray[np.uint32]:
        return self._rows[places]

    def among(self, places: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return rows, and where in them those of some places are."""
        return self._rows, places


def _led_batches(
    params: IndexParams, like: float, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Compare the members of each sorted piece with leaders."""
    held: list[tuple[Ids, NDArray[np.uint32]]] = []
    now: tuple[bytes, int] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        firsts, pieces = ids_of(batch.column("first")), batch.column("piece").to_numpy()
        ids = ids_of(batch.column("signature_id"))
        rows = rows_of(batch.column("signature"), params)
        changes = (firsts[1:] != firsts[:-1]) | (pieces[1:] != pieces[:-1])
        begin = 0
        for end in [*(np.flatnonzero(changes) + 1).tolist(), len(ids)]:
            of = firsts[begin].tobytes(), int(pieces[begin])
            if held and of != now:
                yield from _led(params, like, held)
                held = []
            now = of
            held.append((ids[begin:end].copy(), rows[begin:end].copy()))
            begin = end
    if held:
        yield from _led(params, like, held)


def _led(
    params: IndexParams, like: float, held: list[tuple[Ids, NDArray[np.uint32]]]
) -> Iterator[pa.RecordBatch]:
    ids, rows = (np.concatenate(column) for column in zip(*held, strict=True))
    for left, right in leader_links(_Rows(rows), params, np.arange(len(ids)), like):
        columns = [binaries(ids[left]), binaries(ids[right])]
        yield pa.RecordBatch.from_arrays(columns, names=["left", "right"])


def rows_of(column: pa.Array, params: IndexParams) -> NDArray[np.uint32]:
    """Return signature rows of a binary column, without an object for each."""
    width = 4 * params.row_words
    if not len(column):
        return np.empty((0, params.row_words), dtype=np.uint32)
    fixed = column.cast(pa.binary(width))
    flat = np.frombuffer(fixed.buffers()[1], dtype="<u4").reshape(-1, params.row_words)
    return flat[fixed.offset : fixed.offset + len(fixed)]
