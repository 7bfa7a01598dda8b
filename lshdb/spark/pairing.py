"""Bucket keys -> postings -> candidate pairs of signatures, each once.

Postings are sorted by bucket within partitions, and a stream of sorted batches is cut into groups:
no bucket is joined with itself, and memory holds one small bucket. A pair that shares several
buckets comes once from each; a grouping takes the repeats out, which is cheaper than sending
signatures along to tell the first bucket of a pair.

A bucket of more than ``max_bucket`` signatures is cut into pieces of ``PIECE`` as it streams by,
each with the first ``HEAD`` members of the bucket as well. Within a piece, members are compared by
signature with leaders, as on one machine (``search/candidates.py``). The leaders are among the
first members and so the same in all pieces, except those of families that are rarer than one in
``HEAD``. So a bucket of m costs m comparisons for each leader, in any number of tasks, and each
task holds one piece. Buckets with the same first member, such as those of one family in all bands,
are taken as one. :func:`large_buckets` tells which buckets that were.
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
    "bucket_pairs",
    "candidates",
    "ids_of",
    "large_buckets",
    "postings",
    "rows_of",
]

MAX_BUCKET = 1000
"""Larger buckets are joined through leaders unless you ask for another number."""
PIECE = 16_384
"""Members of a large bucket that one task compares: 8 MB of signatures of 128 slots."""
HEAD = 1024
"""The first members of a large bucket, which are in each of its pieces."""

Ids = NDArray[np.void]
"""Signature ids: 16 bytes each, compared as bytes."""


def postings(signed: DataFrame) -> DataFrame:
    """Return (band smallint, bucket bigint, signature_id binary): a row for each band of each row.

    ``bucket`` is the bucket key, whose top 8 bits are the band. Copies of a document bring the same
    postings again. Exploded in the JVM.
    """
    shown = signed.where("signature_id IS NOT NULL")
    exploded = shown.select(sf.explode("buckets").alias("bucket"), "signature_id")
    band = sf.shiftrightunsigned(sf.col("bucket"), BUCKET_BITS).cast("smallint")
    return exploded.select(band.alias("band"), "bucket", "signature_id")


def bucket_pairs(postings: DataFrame, *, max_bucket: int | None) -> DataFrame:
    """Return the pairs of small buckets, each once, and the members of large ones.

    Parameters
    ----------
    postings : DataFrame
        With ``bucket`` and ``signature_id``; others are ignored.
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
    sorted_ = (
        postings.select("bucket", "signature_id")
        .repartition("bucket")
        .sortWithinPartitions("bucket", "signature_id")
    )
    found = sorted_.mapInArrow(
        mapped(_paired_batches, max_bucket),
        "left binary, right binary, first binary, number bigint, bucket bigint",
    )
    # Sent first: repeats lie in other partitions, and the sort needs the memory of its task.
    return found.repartition("left", "right").dropDuplicates()


def large_buckets(met: DataFrame) -> DataFrame:
    """Return (bucket, size) of the buckets that were joined through leaders."""
    return met.where("bucket IS NOT NULL").select("bucket", sf.col("number").alias("size"))


def candidates(
    met: DataFrame, signatures: DataFrame, recipe: Recipe, *, method: str, level: float
) -> DataFrame:
    """Return (left, right) of all candidate pairs; a pair of leaders may come twice.

    Parameters
    ----------
    met : DataFrame
        What :func:`bucket_pairs` returned; read several times.
    signatures : DataFrame
        ``signature_id`` and ``signature``; of several rows of one id any counts.
    recipe : Recipe
    method : {"none", "signature", "exact"}
    level : float
        The threshold as a level.
    """
    members = met.where("left IS NOT NULL AND right IS NULL")
    pieces = members.groupBy("first", sf.col("left").alias("signature_id")).agg(
        sf.min("number").alias("piece")
    )
    wanted = members.select("left")
    rows = few_rows(signatures.select("signature_id", "signature"), "signature_id", wanted)
    links = (
        pieces.join(rows.dropDuplicates(["signature_id"]), "signature_id")
        .repartition("first", "piece")
        .sortWithinPartitions("first", "piece", "signature_id")
        .mapInArrow(
            mapped(_led_batches, recipe.params, least_share(recipe.params, method, level)),
            "left binary, right binary",
        )
    )
    pairs = met.where("right IS NOT NULL").select("left", "right")
    return pairs.unionByName(kept(links.distinct()))


class _Met(NamedTuple):
    """Postings of one or more buckets, sorted: the keys of the buckets, and their members."""

    buckets: NDArray[np.int64]
    ids: Ids

    def without_repeats(self) -> _Met:
        """Return each member of a bucket once."""
        same = (self.buckets[1:] == self.buckets[:-1]) & (self.ids[1:] == self.ids[:-1])
        if not same.any():
            return self
        fresh = np.concatenate([[True], ~same])
        return _Met(self.buckets[fresh], self.ids[fresh])


def ids_of(column: pa.Array) -> Ids:
    """Return ids of 16 bytes as an array, without an object for each."""
    column = column.cast(pa.binary(ID_BYTES)) if len(column) else column
    if not len(column):
        return np.empty(0, dtype=f"V{ID_BYTES}")
    data = column.buffers()[1]
    flat = np.frombuffer(data, dtype=f"V{ID_BYTES}")
    return flat[column.offset : column.offset + len(column)]


_NOBODY = np.empty(0, dtype=f"V{ID_BYTES}")


@dataclass(slots=True)
class _Large:
    """A large bucket that is given out as it streams by.

    Attributes
    ----------
    head : Ids
        Its first members, which each piece has.
    n : int
        Members so far.
    """

    bucket: int
    head: Ids
    n: int = 0

    def members(self, ids: Ids) -> Iterator[pa.RecordBatch]:
        """Give out the next members; the first of a piece comes with the head."""
        while len(ids):
            piece, inside = divmod(self.n, PIECE)
            some, ids = ids[: PIECE - inside], ids[PIECE - inside :]
            self.n += len(some)
            if piece and not inside:
                some = np.concatenate([self.head, some])
            first = np.broadcast_to(self.head[:1], len(some))
            yield _batch(
                binaries(some), None, binaries(first), pa.array(np.full(len(some), piece)), None
            )

    def end(self) -> pa.RecordBatch:
        """Return what tells its size."""
        size, bucket = pa.array([self.n]), pa.array([self.bucket])
        return _batch(None, None, binaries(self.head[:1]), size, bucket)


def _paired_batches(
    max_bucket: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pair the members of sorted buckets; the last bucket of a batch waits for the next one."""
    held = _Met(np.empty(0, dtype=np.int64), _NOBODY)
    large: _Large | None = None  # whose last member is all that is held
    for batch in batches:
        if not batch.num_rows:
            continue
        met = _Met(batch.column("bucket").to_numpy(), ids_of(batch.column("signature_id")))
        held = _Met(*(np.concatenate(both) for both in zip(held, met, strict=True)))
        held = held.without_repeats()
        last = int(np.flatnonzero(np.diff(held.buckets, prepend=~held.buckets[0]))[-1])
        if large is not None and last:
            n = int(np.argmax(held.buckets != held.buckets[0]))
            yield from large.members(held.ids[:n])
            yield large.end()
            large, last, held = None, last - n, _Met(held.buckets[n:], held.ids[n:])
        if last:
            yield from _paired(_Met(held.buckets[:last], held.ids[:last]), max_bucket)
            held = _Met(held.buckets[last:], held.ids[last:])
        if max_bucket is not None and len(held.ids) > max(max_bucket, HEAD):
            large = large or _Large(int(held.buckets[0]), held.ids[:HEAD])
        if large is not None:  # the last one stays, so that repeats of it are known
            yield from large.members(held.ids[:-1])
            held = _Met(held.buckets[-1:], held.ids[-1:])
    if large is not None:
        yield from large.members(held.ids)
        yield large.end()
    elif len(held.ids):
        yield from _paired(held, max_bucket)


def _paired(met: _Met, max_bucket: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of small buckets and the members of large ones."""
    starts = np.flatnonzero(np.diff(met.buckets, prepend=~met.buckets[0]))
    sizes = np.diff(starts, append=len(met.ids))
    is_large = sizes > (len(met.ids) if max_bucket is None else max_bucket)
    for place in np.flatnonzero(is_large).tolist():
        ids = met.ids[starts[place] : starts[place] + sizes[place]]
        one = _Large(int(met.buckets[starts[place]]), ids[:HEAD])
        yield from one.members(ids)
        yield one.end()
    small = np.flatnonzero((sizes > 1) & ~is_large)
    if not len(small):
        return
    places = Buckets(met.buckets[starts], sizes, np.arange(len(met.ids))).chosen(small)
    for left, right, _ in pairs_of_buckets(places, None):
        yield _batch(binaries(met.ids[left]), binaries(met.ids[right]), None, None, None)


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
