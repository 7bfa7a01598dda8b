"""Bucket keys -> postings -> candidate pairs of signatures, each once.

Postings do not travel as rows, of which Spark would hash, compare and copy sixteen a document. Each
task cuts its own by the range of their buckets, ``RANGES`` of them, and sends a row for each range,
with all postings there as bytes. Where they arrive, NumPy sorts those of a range. So no bucket is
joined with itself, and memory holds a range: 1 / ``RANGES`` of all postings, or the largest bucket.
A pair that shares several buckets comes once from each; a grouping takes the repeats out, which is
cheaper than sending signatures along to tell the first bucket of a pair.

A bucket of more than ``max_bucket`` signatures is cut into pieces of some ``PIECE``, by hashes of
ids, each with the first ``HEAD`` members of the bucket as well. Within a piece, members are
compared by signature with leaders, as on one machine (``search/candidates.py``). The leaders are
among the first members and so the same in all pieces, except those of families that are rarer than
one in ``HEAD``. So a bucket of m costs m comparisons for each leader, in any number of tasks, and
each task holds one piece. Buckets with many members in common, such as those of one family in all
bands, are taken as one (``merged_buckets.py``); of all but one of them, the first ``KNOWN`` are in
each piece. Members travel as bytes, too: they are sixteen a document where all are in large
buckets. :func:`large_buckets` tells which buckets that were.

Postings that come twice say more: in the first band, that several rows have one signature; in a
band of hashed keys, that several rows have one key. So what must be unique, or is not, is found
without bringing the rows themselves together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import leader_links, pairs_of_buckets
from lshdb.search.verification import least_share
from lshdb.signatures.banding import BUCKET_BITS
from lshdb.spark.few_rows import few_rows
from lshdb.spark.keeping import kept
from lshdb.spark.merged_buckets import KNOWN, merged_buckets
from lshdb.spark.signing import ID_BYTES, Recipe, binaries, bodies_of, mapped
from lshdb.storage.runs.posting_runs import Buckets

__all__ = [
    "MAX_BUCKET",
    "PIECE",
    "Comparison",
    "Read",
    "bucket_pairs",
    "candidates",
    "copied_signatures",
    "ends_of",
    "ids_of",
    "key_bucket",
    "large_buckets",
    "members_of",
    "order_of",
    "repeated_keys",
    "rows_of",
]

MAX_BUCKET = 1000
"""Larger buckets are joined through leaders unless you ask for another number."""
PIECE = 16_384
"""At most so many members of a large bucket, on average, one task compares: 8 MB of signatures of
128 slots."""
HEAD = 1024
"""The first members of a large bucket, which are in each of its pieces."""
RANGE_BITS = 12
RANGES = 2**RANGE_BITS
"""Of a billion documents, 16 bands and their keys, a range has four million postings, 100 MB."""
SENT = 2**18
"""Postings that a task cuts at once: 64 for each range, 6 MB."""

Ids = NDArray[np.void]
"""Signature ids: 16 bytes each, compared as bytes."""
Read = Callable[[pa.Array], list[Any]]


def bucket_pairs(signatures: DataFrame, *, max_bucket: int | None) -> DataFrame:
    """Return the pairs of small buckets, each once, and the members of large ones.

    Parameters
    ----------
    signatures : DataFrame
        ``signature_id``, of 16 bytes or a whole number, and ``bucket``: a bucket key, or an array
        of all; rows where they are null have none. Rows may come again. There may be a
        ``key_bucket`` as well (:func:`key_bucket`).
    max_bucket : int or None
        The largest bucket of which all pairs are candidates; None for any.

    Returns
    -------
    DataFrame
        ``left``, ``right``, ``first``, ``members`` (binary), ``number``, ``bucket`` (bigint), in
        rows of four kinds. A pair: ``left`` below ``right``, others null. ``PIECE`` members of a
        large bucket, or what is left: the bucket's first member, the place of theirs, and their ids
        in order, as bytes (:func:`members_of`). A large bucket: its first member, its size as
        ``number``, and its key. A posting that came twice, of the first band or of keys: the id as
        ``left``, and the bucket's key.
    """
    names = [name for name in signatures.columns if name in _POSTED]
    ranged = signatures.select(*names).mapInArrow(
        mapped(_ranged_batches), "range int, postings binary"
    )
    found = (
        ranged.repartition("range")
        .sortWithinPartitions("range")
        .mapInArrow(
            mapped(_paired_batches, max_bucket),
            "left binary, right binary, first binary, members binary, number bigint, bucket bigint",
        )
    )
    # Sent first: repeats lie in other partitions, and the sort needs the memory of its task.
    return found.repartition("left", "right", "first", "number").dropDuplicates()


def members_of(met: DataFrame) -> DataFrame:
    """Return (first, piece, signature_id): the members of large buckets, each once in a piece.

    Of buckets that are taken as one, ``first`` is the same.

    Kept, because whoever finds pairs of them also asks which they are.

    Parameters
    ----------
    met : DataFrame
        What :func:`bucket_pairs` returned; read twice.
    """
    members = met.where("members IS NOT NULL").select("first", "number", "members")
    return kept(
        members.join(merged_buckets(met), "first")
        .select("first", "root", "number", "members", "most")
        .mapInArrow(mapped(_piece_batches), "first binary, piece bigint, members binary")
        .repartition("first", "piece")
        .sortWithinPartitions("first", "piece")
        .mapInArrow(mapped(_member_batches), "first binary, piece bigint, signature_id binary")
    )


def large_buckets(met: DataFrame) -> DataFrame:
    """Return (bucket, size) of the buckets that are joined through leaders."""
    large = met.where("first IS NOT NULL AND bucket IS NOT NULL")
    return large.select("bucket", sf.col("number").alias("size"))


def ends_of(pairs: DataFrame) -> DataFrame:
    """Return (signature_id) of both ends of pairs, as often as they are in one."""
    return pairs.select(sf.explode(sf.array("left", "right")).alias("signature_id"))


def copied_signatures(met: DataFrame) -> DataFrame:
    """Return (signature_id) of the signatures that several rows have."""
    return met.where(f"{_CAME_TWICE} AND bucket >= 0").select(sf.col("left").alias("signature_id"))


def repeated_keys(met: DataFrame) -> DataFrame:
    """Return (key_bucket) of the keys that several rows have, and of keys with the same hash."""
    return met.where(f"{_CAME_TWICE} AND bucket < 0").select(sf.col("bucket").alias("key_bucket"))


def key_bucket(name: str) -> Column:
    """Return the bucket of a document's key, in the band that has no slots."""
    hashed = sf.xxhash64(name).bitwiseAND(sf.lit(2**BUCKET_BITS - 1))
    return (hashed - sf.lit(2**BUCKET_BITS)).alias("key_bucket")


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
    read : callable
        Arrow's column of some bodies -> the bodies.
    """

    rows: DataFrame
    recipe: Recipe
    method: str
    level: float
    read: Read = bodies_of


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
    members = members_of(met)
    wanted = members.select("signature_id")
    rows = few_rows(by.rows.select("signature_id", "signature"), "signature_id", wanted)
    # One number to sort by, which Spark does without comparing rows.
    piece = sf.xxhash64("first", "piece").alias("piece")
    links = (
        members.select(piece, "signature_id")
        .join(rows.dropDuplicates(["signature_id"]), "signature_id")
        .repartition("piece")
        .sortWithinPartitions("piece")
        .mapInArrow(mapped(_led_batches, params, like), "left binary, right binary")
    )
    pairs = met.where("right IS NOT NULL").select("left", "right")
    return pairs.unionByName(kept(links.distinct()))


_POSTED = ("bucket", "signature_id", "key_bucket")
_POSTING = np.dtype([("bucket", "<i8"), ("id", f"V{ID_BYTES}")])
"""A posting in the bytes of a range. The id of a key's posting is the key of its bucket."""
_CAME_TWICE = "left IS NOT NULL AND right IS NULL"
_TOLD_BANDS = (0, -1)
"""The first band, in which each signature has a posting, and that of keys: 255 in 8 bits."""


class _Met(NamedTuple):
    """Postings of one or more buckets, sorted: the keys of the buckets, and their members."""

    buckets: NDArray[np.int64]
    ids: Ids

    @classmethod
    def shared(cls, parts: list[bytes]) -> tuple[_Met, _Met]:
        """Return the postings of buckets with several members, each once, in order of both.

        Then those that came twice. Nearly all buckets have one member; so members are put in order,
        and compared, only in the others.
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
        return cls(buckets[order], ids[order])._told_apart()

    def _told_apart(self) -> tuple[_Met, _Met]:
        """Return each posting once, and each that came twice."""
        same = (self.buckets[1:] == self.buckets[:-1]) & (self.ids[1:] == self.ids[:-1])
        if not same.any():
            return self, _Met(self.buckets[:0], self.ids[:0])
        fresh = np.insert(~same, 0, True)
        second = np.insert(same, 0, False) & np.insert(fresh[:-1], 0, False)
        return (
            _Met(self.buckets[fresh], self.ids[fresh]),
            _Met(self.buckets[second], self.ids[second]),
        )


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


def order_of(ids: Ids) -> NDArray[np.int64]:
    """Return the order of ids by their bytes."""
    upper, lower = ids.view(">u8").reshape(-1, 2).T.astype(np.uint64)
    # One half orders nearly all: the upper one of hashes, the lower one of numbers.
    order = np.argsort(lower if (upper == upper[:1]).all() else upper)
    above, below = upper[order], lower[order]
    if ((above[1:] == above[:-1]) & (below[1:] < below[:-1])).any():
        return np.lexsort((lower, upper))
    return order


def _ranged_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut the postings of a task by the range of their buckets, some at a time."""
    held: list[NDArray[np.void]] = []
    n = 0
    for batch in batches:
        held += _postings(batch)
        n = sum(map(len, held))
        if n >= SENT:
            yield _ranged(held)
            held, n = [], 0
    if n:
        yield _ranged(held)


def _postings(batch: pa.RecordBatch) -> Iterator[NDArray[np.void]]:
    """Yield the postings of rows: of their signatures, and of their keys if they came along."""
    if "key_bucket" in batch.schema.names:
        keys = batch.column("key_bucket")
        yield _posted(keys, ids_of(keys))
    if batch.column("signature_id").null_count:
        batch = batch.filter(batch.column("signature_id").is_valid())
    buckets, ids = batch.column("bucket"), ids_of(batch.column("signature_id"))
    if pa.types.is_list(buckets.type):
        ids = ids[buckets.value_parent_indices().to_numpy()]
        buckets = buckets.flatten()
    yield _posted(buckets, ids)


def _posted(buckets: pa.Array, ids: Ids) -> NDArray[np.void]:
    postings = np.empty(len(ids), dtype=_POSTING)
    postings["bucket"], postings["id"] = buckets.to_numpy(), ids
    return postings


def _ranged(held: list[NDArray[np.void]]) -> pa.RecordBatch:
    """Return a row for each range that has some of the postings."""
    postings = np.concatenate(held)
    ranges = (postings["bucket"] >> (BUCKET_BITS - RANGE_BITS) & (RANGES - 1)).astype(np.uint16)
    there, some = _grouped(postings, ranges)
    return pa.RecordBatch.from_arrays(
        [pa.array(there, pa.int32()), some], names=["range", "postings"]
    )


def _grouped(
    rows: NDArray[np.void], groups: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the groups that have some of the rows, and these as bytes, in the order given."""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    there = np.flatnonzero(counts)
    ends = np.append(0, np.cumsum(counts[there])) * rows.itemsize
    data = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(rows[order])]
    return there, pa.Array.from_buffers(pa.binary(), len(there), data)


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
            yield from _paired(held + postings[:last], max_bucket)
            held = []
        held += postings[last:]
        now = int(ranges[-1])
    yield from _paired(held, max_bucket)


def _paired(postings: list[bytes], max_bucket: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of small buckets, the members of large ones, and what came twice."""
    met, again = _Met.shared(postings)
    told = np.flatnonzero(np.isin(again.buckets >> BUCKET_BITS, _TOLD_BANDS))
    if len(told):
        columns = binaries(again.ids[told]), pa.array(again.buckets[told])
        yield _batch(columns[0], None, None, None, None, columns[1])
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
        yield _batch(binaries(met.ids[left]), binaries(met.ids[right]), None, None, None, None)


def _given_out(bucket: int, ids: Ids) -> Iterator[pa.RecordBatch]:
    """Yield the members of a large bucket, some in a row; then what it is."""
    first = binaries(ids[:1])
    for place in range(0, len(ids), PIECE):
        members = pa.array([ids[place : place + PIECE].tobytes()], pa.binary())
        yield _batch(None, None, first, members, pa.array([place]), None)
    yield _batch(None, None, first, None, pa.array([len(ids)]), pa.array([bucket]))


def _piece_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut the members of large buckets into pieces, the same for all that are taken as one."""
    for batch in batches:
        for first, root, place, members, most in zip(*batch.to_pydict().values(), strict=True):
            ids = np.frombuffer(members, dtype=f"V{ID_BYTES}")
            n_bits = (-(-most // PIECE) - 1).bit_length()
            length = HEAD if first == root else KNOWN
            every, head = np.arange(2**n_bits), ids[: max(0, length - place)]
            rest = ids[len(head) :]
            pieces = np.concatenate([np.repeat(every, len(head)), _hashed(rest, n_bits)])
            there, some = _grouped(np.concatenate([np.tile(head, len(every)), rest]), pieces)
            firsts = pa.array([root] * len(there), pa.binary())
            columns = [firsts, pa.array(there), some]
            yield pa.RecordBatch.from_arrays(columns, names=["first", "piece", "members"])


def _hashed(ids: Ids, n_bits: int) -> NDArray[np.int64]:
    """Return a hash of each id, of so many bits."""
    upper, lower = ids.view("<u8").reshape(-1, 2).T
    mixed = (upper ^ lower) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(0x9E3779B97F4A7C15)
    hashed: NDArray[np.int64] = (mixed >> np.uint64(32)).astype(np.int64) >> (32 - n_bits)
    return hashed


def _member_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the members of sorted pieces, each once."""
    rows = (row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
    for (first, piece), some in itertools.groupby(rows, key=lambda row: row[:2]):
        ids = np.frombuffer(b"".join(row[2] for row in some), dtype=f"V{ID_BYTES}")
        ids = ids[order_of(ids)]
        ids = ids[np.insert(ids[1:] != ids[:-1], 0, True)]
        firsts = np.broadcast_to(np.frombuffer(first, dtype=ids.dtype), len(ids))
        columns = [binaries(firsts), pa.array(np.full(len(ids), piece)), binaries(ids)]
        yield pa.RecordBatch.from_arrays(columns, names=["first", "piece", "signature_id"])


_MET = pa.schema(
    [
        ("left", pa.binary()), ("right", pa.binary()), ("first", pa.binary()),
        ("members", pa.binary()), ("number", pa.int64()), ("bucket", pa.int64()),
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
    now: int | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        pieces = batch.column("piece").to_numpy()
        ids = ids_of(batch.column("signature_id"))
        rows = rows_of(batch.column("signature"), params)
        begin = 0
        for end in [*(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(ids)]:
            if held and pieces[begin] != now:
                yield from _led(params, like, held)
                held = []
            now = int(pieces[begin])
            held.append((ids[begin:end].copy(), rows[begin:end].copy()))
            begin = end
    if held:
        yield from _led(params, like, held)


def _led(
    params: IndexParams, like: float, held: list[tuple[Ids, NDArray[np.uint32]]]
) -> Iterator[pa.RecordBatch]:
    ids, rows = (np.concatenate(column) for column in zip(*held, strict=True))
    order = order_of(ids)
    ids, rows = ids[order], rows[order]
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
