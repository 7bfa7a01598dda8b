"""Bucket keys -> postings -> buckets that several signatures share, and pairs of the small ones.

Postings do not travel as rows, because Spark would hash, compare and copy sixteen rows a document.
Each task cuts its postings by range: the first ``RANGE_BYTES`` of a bucket key, which are its band
and a byte of its bucket. It sends a row for each range, with all postings of the range as bytes,
without the bytes of the range. Where they arrive, NumPy sorts the postings of a range. So no bucket
is joined with itself, and memory holds a range: 1 / 256 of the postings of a band, or the largest
bucket. Each bucket that a pair shares yields the pair; a grouping removes the repeats, which is
cheaper than sending signatures along to find the first bucket of a pair.

Only the first half of an id is sent. Where it arrives, zeros follow, and that is a short id
(:func:`short_id`). Ids are short until pairs are compared: there the whole ids come with the
bodies, and a pair of short ids stands for each pair of signatures that have them
(``comparison.py``). So two contents with one short id, which some are of 1e9 with probability .03,
cost a comparison. They are taken for one only in a bucket that they share: a pair is lost with
probability 5e-20.

A bucket of more than ``max_bucket`` signatures is returned as its members, as bytes, ``PIECE`` of
them in a row, for a comparison through leaders (``candidate_pairs.py``).

A repeated posting tells more: in the first band, that several rows have one signature; in a band of
hashed keys, that several rows have one key. So repeated signatures and keys are found without
bringing the rows themselves together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lshdb.params.bucket_layout import (
    BUCKET_BITS,
    CONTENT_BAND,
    FIRST_CONTENT_KEY,
    bands_of,
    buckets_of,
    keys_from,
)
from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import pairs_of_buckets
from lshdb.search.verification import check_limits
from lshdb.spark.cached_frames import persisted
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.named_jobs import named_job
from lshdb.spark.signing import ID_BYTES, binaries, gathered, mapped
from lshdb.storage.bands.postings import Buckets

__all__ = [
    "MAX_BUCKET",
    "PIECE",
    "Counts",
    "Ids",
    "SharedBuckets",
    "bucket_limit",
    "bucket_pairs",
    "ends_of",
    "grouped",
    "ids_of",
    "key_bucket",
    "near_rows",
    "order_of",
    "rows_of",
    "rows_of_ids",
    "short_id",
    "stage_id",
]

MAX_BUCKET = 1000
"""Larger buckets are joined through leaders unless you give another number."""
PIECE = 16_384
"""Members of a large bucket that one task compares, on average: 8 MB of signatures of 128 slots."""
HOMELY = 64
"""Pairs of larger buckets have no home: a home has 2,016 pairs of each band at most."""
RANGE_BYTES = 2
"""With a billion documents, a range has four million postings, 90 MB."""
SENT = 2**18
"""Postings that a task cuts at a time: 60 for each range of 16 bands and their keys, 6 MB."""

Ids = NDArray[np.void]
"""Signature ids: 16 bytes each, compared as bytes; a number is in the first half."""
_IS_REPEATED = "left IS NOT NULL AND right IS NULL"


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of rows of each kind in :class:`SharedBuckets`.

    Attributes
    ----------
    pairs, large, repeated : int
        Pairs of small buckets, rows of large buckets, and repeated keys.
    """

    pairs: int
    large: int
    repeated: int


@dataclass(frozen=True, slots=True)
class SharedBuckets:
    """The buckets that several signatures share, and the pairs of the small ones.

    Attributes
    ----------
    rows : DataFrame
        ``left``, ``right``, ``first``, ``members`` (binary), ``number``, ``bucket``, ``home``
        (bigint), in rows of four kinds; ids are short, and columns not named here are null. A pair:
        ``left`` below ``right``; and as ``home``, of those of its buckets that have ``HOMELY``
        members at most, the least first half of a first member. Up to ``PIECE`` members of a large
        bucket: the first member of the bucket as ``first``, the place of the first id as
        ``number``, and the ids in order, as bytes (``candidate_pairs.py``). A large bucket: its
        first member, its size as ``number``, and its key. A repeated posting, of the first band or
        of keys: the id as ``left``, and the key of the bucket.
    counts : Counts
        Later stages have no plan for kinds of rows that are absent.
    """

    rows: DataFrame
    counts: Counts

    def pairs(self) -> DataFrame:
        """Return (left, right, home) of the pairs of small buckets."""
        return self.rows.where("right IS NOT NULL").select("left", "right", "home")

    def large_buckets(self) -> DataFrame:
        """Return (bucket, size) of the buckets that are joined through leaders."""
        large = self.rows.where("first IS NOT NULL AND bucket IS NOT NULL")
        return large.select("bucket", sf.col("number").alias("size"))

    def copied_signatures(self) -> DataFrame:
        """Return (signature_id) of the signatures that several rows have."""
        repeated = self.rows.where(f"{_IS_REPEATED} AND bucket >= 0")
        return repeated.select(sf.col("left").alias("signature_id"))

    def repeated_keys(self) -> DataFrame:
        """Return (key_bucket) of the keys that several rows have, and of keys with equal hashes."""
        repeated = self.rows.where(f"{_IS_REPEATED} AND bucket < 0")
        return repeated.select(sf.col("bucket").alias("key_bucket"))


def bucket_limit(max_bucket: int | str | None) -> int | None:
    """Return the size of the largest bucket whose pairs are all compared; None for any size.

    Raises
    ------
    ParameterError
        ``max_bucket`` is invalid.
    """
    check_limits(max_bucket)
    most = MAX_BUCKET if max_bucket is None else max_bucket
    return None if isinstance(most, str) else most


def bucket_pairs(signatures: DataFrame, *, max_bucket: int | None) -> SharedBuckets:
    """Find, persist and count the pairs of small buckets, each once, and members of large ones.

    Runs at once. Plans that expect every kind of row, because nothing was counted, were twice as
    many jobs, and six times the processor time of a small answer.

    Parameters
    ----------
    signatures : DataFrame
        ``signature_id``, of 16 bytes or a whole number, and ``bucket``, a bucket key or an array of
        them; both are null in rows without a signature. Rows may be repeated. A further column
        ``key_bucket`` is optional (:func:`key_bucket`).
    max_bucket : int or None
        The size of the largest bucket whose pairs are all candidates; None for any size.
    """
    names = [name for name in signatures.columns if name in _POSTED]
    ranged = signatures.select(*names).mapInArrow(
        mapped(_ranged_batches), "range int, postings binary"
    )
    rows = gathered(ranged, "range").mapInArrow(
        mapped(_paired_batches, max_bucket),
        "left binary, right binary, first binary, members binary, number bigint, bucket bigint, "
        "home bigint",
    )
    # Repartition first: repeats are in other partitions, and the sort needs the memory of its task.
    groups = rows.repartition("left", "right", "first", "number").groupBy(*rows.columns[:-1])
    rows = persisted(groups.agg(sf.min("home").alias("home")))
    is_key = f"if({_IS_REPEATED} AND bucket < 0, 1, NULL)"
    columns = sf.count("right"), sf.count("first"), sf.count(sf.expr(is_key))
    with named_job(rows.sparkSession, "signing, cutting and pairing") as told:
        ((n_pairs, n_large, n_repeated),) = rows.agg(*columns).collect()
        told |= {"pairs": n_pairs, "repeated keys": n_repeated}
    return SharedBuckets(rows, Counts(n_pairs, n_large, n_repeated))


def ends_of(pairs: DataFrame, *along: str) -> DataFrame:
    """Return (signature_id) of both ends of each pair, with repeats.

    Parameters
    ----------
    pairs : DataFrame
        ``left`` and ``right``.
    *along : str
        Further columns to keep.
    """
    end = sf.explode(sf.array("left", "right")).alias("signature_id")
    return pairs.select(end, *along)


def short_id(name: str) -> Column:
    """Return the short form of ids: their first half, and zeros. That of a short id is itself."""
    return sf.concat(sf.substring(name, 1, _SHORT_BYTES), sf.lit(bytes(ID_BYTES - _SHORT_BYTES)))


def near_rows(rows: DataFrame, ids: DataFrame, *, n: int | None = None) -> DataFrame:
    """Return the rows whose short id is that of some ids, and a few others; adds ``short``.

    Parameters
    ----------
    rows : DataFrame
        A column ``signature_id``, and others.
    ids : DataFrame
        The first column has ids.
    n : int, optional
        The number of ids, or a few more; by default, they are counted.
    """
    rows = rows.withColumn("short", short_id("signature_id"))
    return rows_among(rows, "short", ids.select(short_id(ids.columns[0]).alias("short")), n=n)


def rows_of_ids(rows: DataFrame, ids: DataFrame, *, n: int | None = None) -> DataFrame:
    """Return :func:`near_rows`, one of each signature, partitioned by ``short``."""
    # Spark would partition them by both columns, and once more for a join on the short id.
    near = near_rows(rows, ids, n=n).repartition("short")
    return near.dropDuplicates(["short", "signature_id"])


def stage_id(number: Column) -> Column:
    """Return a number as an id, as :func:`ids_of` does; in the same order, and short."""
    digits = sf.lpad(sf.hex(number), 2 * _SHORT_BYTES, "0")
    return sf.unhex(sf.rpad(digits, 2 * ID_BYTES, "0"))


def key_bucket(name: str) -> Column:
    """Return a hash of a document's key, below 0; it is posted in the band that has no slots."""
    return sf.xxhash64(name).bitwiseOR(sf.lit(-(2**63))).alias("key_bucket")


_POSTED = ("bucket", "signature_id", "key_bucket")
_SHORT_BYTES = ID_BYTES // 2
_POSTING = np.dtype([("bucket", "<i8"), ("id", f"V{_SHORT_BYTES}")])
"""The id of a key's posting is the whole hash of the key."""
_REST_BYTES = BUCKET_BITS // 8 + 1 - RANGE_BYTES
"""Bytes of a bucket key in a posting that is sent; the id follows. Its upper three bytes are 0."""
_SENT_POSTING = np.dtype(f"V{_REST_BYTES + _SHORT_BYTES}")
_Sent = tuple[int, bytes]
"""A range, and the postings in it."""
_REPEAT_BANDS = (0, CONTENT_BAND)
"""The bands whose repeats are returned: the first, and the band of keys."""


class _Postings(NamedTuple):
    """Postings of one or more buckets, sorted: the keys of the buckets, and their members."""

    buckets: NDArray[np.int64]
    ids: Ids

    @classmethod
    def shared(cls, parts: list[_Sent]) -> tuple[_Postings, _Postings]:
        """Return the postings of buckets with several members, each once; and repeated postings.

        Both are sorted by bucket and id. Nearly all buckets have one member, so ids are sorted and
        compared only in the others.
        """
        data = np.frombuffer(b"".join(postings for _, postings in parts), dtype=np.uint8)
        data = data.reshape(-1, _SENT_POSTING.itemsize)
        buckets = _whole_keys(parts, data[:, :_REST_BYTES])
        order = np.argsort(buckets)
        in_order = buckets[order]
        same = in_order[1:] == in_order[:-1]
        places = order[np.append(same, False) | np.insert(same, 0, False)]
        buckets = buckets[places]
        numbers = data[places, _REST_BYTES:].view(">u8").reshape(-1)
        order = np.lexsort((numbers, buckets))
        return cls(buckets[order], _short_ids(numbers[order]))._without_repeats()

    def _without_repeats(self) -> tuple[_Postings, _Postings]:
        """Return each posting once, and each repeated posting once."""
        same = (self.buckets[1:] == self.buckets[:-1]) & (self.ids[1:] == self.ids[:-1])
        if not same.any():
            return self, _Postings(self.buckets[:0], self.ids[:0])
        fresh = np.insert(~same, 0, True)
        second = np.insert(same, 0, False) & np.insert(fresh[:-1], 0, False)
        return (
            _Postings(self.buckets[fresh], self.ids[fresh]),
            _Postings(self.buckets[second], self.ids[second]),
        )


def _whole_keys(parts: list[_Sent], rests: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the bucket keys of postings that arrived without their ranges."""
    counts = [len(postings) // _SENT_POSTING.itemsize for _, postings in parts]
    keys = np.zeros((len(rests), 8), dtype=np.uint8)
    keys[:, :_REST_BYTES] = rests
    ranges = np.array([number for number, _ in parts], dtype=np.int64)
    buckets: NDArray[np.int64] = keys.view("<i8").reshape(-1).astype(np.int64, copy=False)
    buckets |= np.repeat(ranges << 8 * _REST_BYTES, counts)
    return buckets


def _short_ids(numbers: NDArray[np.integer[Any]]) -> Ids:
    ids = np.zeros((len(numbers), 2), dtype=">u8")
    ids[:, 0] = numbers
    return ids.view(f"V{ID_BYTES}").reshape(-1)


def ids_of(column: pa.Array) -> Ids:
    """Return a column of ids or numbers as ids of 16 bytes, without an object for each."""
    if pa.types.is_integer(column.type):
        return _short_ids(column.to_numpy())
    column = column.cast(pa.binary(ID_BYTES)) if len(column) else column
    if not len(column):
        return np.empty(0, dtype=f"V{ID_BYTES}")
    data = column.buffers()[1]
    flat = np.frombuffer(data, dtype=f"V{ID_BYTES}")
    return flat[column.offset : column.offset + len(column)]


def order_of(ids: Ids) -> NDArray[np.int64]:
    """Return the order of ids by their bytes."""
    upper, lower = ids.view(">u8").reshape(-1, 2).T.astype(np.uint64)
    order = np.argsort(upper)  # nearly always decides
    above, below = upper[order], lower[order]
    if ((above[1:] == above[:-1]) & (below[1:] < below[:-1])).any():
        return np.lexsort((lower, upper))
    return order


def _ranged_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut the postings of a task by the range of their buckets, ``SENT`` at a time."""
    parts: list[NDArray[np.void]] = []
    n = 0
    for batch in batches:
        parts += _postings(batch)
        n = sum(map(len, parts))
        if n >= SENT:
            yield _ranged(parts)
            parts, n = [], 0
    if n:
        yield _ranged(parts)


def _postings(batch: pa.RecordBatch) -> Iterator[NDArray[np.void]]:
    """Yield the postings of the keys of rows, if there are any, and of their signatures."""
    if "key_bucket" in batch.schema.names:
        hashes = batch.column("key_bucket")
        buckets = keys_from(CONTENT_BAND, buckets_of(hashes.to_numpy()))
        yield _posted(buckets, ids_of(hashes))
    if batch.column("signature_id").null_count:
        batch = batch.filter(batch.column("signature_id").is_valid())
    buckets, ids = batch.column("bucket"), ids_of(batch.column("signature_id"))
    if pa.types.is_list(buckets.type):
        ids = ids[buckets.value_parent_indices().to_numpy()]
        buckets = buckets.flatten()
    yield _posted(buckets.to_numpy(), ids)


def _posted(buckets: NDArray[np.int64], ids: Ids) -> NDArray[np.void]:
    postings = np.empty(len(ids), dtype=_POSTING)
    postings["bucket"], postings["id"] = buckets, ids.view(postings["id"].dtype)[::2]
    return postings


def _ranged(parts: list[NDArray[np.void]]) -> pa.RecordBatch:
    """Return a row for each range with postings."""
    postings = np.concatenate(parts)
    data = postings.view(np.uint8).reshape(-1, _POSTING.itemsize)
    ranges = data[:, _REST_BYTES : _REST_BYTES + RANGE_BYTES].copy().view("<u2").reshape(-1)
    sent = np.concatenate([data[:, :_REST_BYTES], data[:, 8:]], axis=1)
    filled, groups = grouped(sent.view(_SENT_POSTING).reshape(-1), ranges)
    return pa.RecordBatch.from_arrays(
        [pa.array(filled, pa.int32()), groups], names=["range", "postings"]
    )


def grouped(
    rows: NDArray[np.void], groups: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the groups that have rows, and the rows of each as bytes, in the order given.

    Parameters
    ----------
    rows : ndarray, shape (n,)
        Rows of a fixed size.
    groups : ndarray of int, shape (n,)
        The group of each row, from 0.
    """
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    filled = np.flatnonzero(counts)
    ends = np.append(0, np.cumsum(counts[filled])) * rows.itemsize
    data = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(rows[order])]
    return filled, pa.Array.from_buffers(pa.binary(), len(filled), data)


def _paired_batches(
    max_bucket: int | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pair the members of buckets; the last range of a batch waits for the next one."""
    pending: list[_Sent] = []
    now: int | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        ranges = batch.column("range").to_numpy()
        postings = list(zip(ranges.tolist(), batch.column("postings").to_pylist(), strict=True))
        last = int(np.searchsorted(ranges, ranges[-1]))
        if now not in (None, ranges[-1]) or last:
            yield from _paired(pending + postings[:last], max_bucket)
            pending = []
        pending += postings[last:]
        now = int(ranges[-1])
    yield from _paired(pending, max_bucket)


def _paired(parts: list[_Sent], max_bucket: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of small buckets, the members of large ones, and repeated postings."""
    postings, repeats = _Postings.shared(parts)
    places = np.flatnonzero(np.isin(bands_of(repeats.buckets), _REPEAT_BANDS))
    if len(places):
        buckets, ids = repeats.buckets[places], repeats.ids[places]
        hashes = ids.view(">i8")[::2]
        columns = binaries(ids), pa.array(np.where(buckets < FIRST_CONTENT_KEY, buckets, hashes))
        yield _batch(left=columns[0], bucket=columns[1])
    # Keys in one bucket have hashes that agree in some of their bits; they are no pairs.
    n = int(np.searchsorted(postings.buckets, FIRST_CONTENT_KEY))
    buckets, ids = postings.buckets[:n], postings.ids[:n]
    if not n:
        return
    starts = np.flatnonzero(np.diff(buckets, prepend=~buckets[0]))
    sizes = np.diff(starts, append=n)
    is_large = sizes > (n if max_bucket is None else max_bucket)
    for place in np.flatnonzero(is_large).tolist():
        members = ids[starts[place] : starts[place] + sizes[place]]
        yield from _member_rows(int(buckets[starts[place]]), members)
    small = np.flatnonzero((sizes > 1) & ~is_large)
    if not len(small):
        return
    small_buckets = Buckets(buckets[starts], sizes, np.arange(n)).chosen(small)
    for left, right, _ in pairs_of_buckets(small_buckets):
        bucket = np.searchsorted(starts, left, side="right") - 1
        homes = ids[starts[bucket]].view(">i8")[::2].astype(np.int64)
        home = pa.array(homes, mask=sizes[bucket] > HOMELY)
        yield _batch(left=binaries(ids[left]), right=binaries(ids[right]), home=home)


def _member_rows(bucket: int, ids: Ids) -> Iterator[pa.RecordBatch]:
    """Yield the members of a large bucket, ``PIECE`` in a row; then a row for the bucket."""
    first = binaries(ids[:1])
    for place in range(0, len(ids), PIECE):
        members = pa.array([ids[place : place + PIECE].tobytes()], pa.binary())
        yield _batch(first=first, members=members, number=pa.array([place]))
    yield _batch(first=first, number=pa.array([len(ids)]), bucket=pa.array([bucket]))


_SCHEMA = pa.schema(
    [
        ("left", pa.binary()), ("right", pa.binary()), ("first", pa.binary()),
        ("members", pa.binary()), ("number", pa.int64()), ("bucket", pa.int64()),
        ("home", pa.int64()),
    ]
)  # fmt: skip


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    n = len(next(iter(columns.values())))
    filled = [
        columns[field.name] if field.name in columns else pa.nulls(n, field.type)
        for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(filled, schema=_SCHEMA)


def rows_of(column: pa.Array, params: IndexParams) -> NDArray[np.uint16]:
    """Return the signature rows in a binary column, without an object for each."""
    if not len(column):
        return np.empty((0, params.row_words), dtype=np.uint16)
    fixed = column.cast(pa.binary(params.row_bytes))
    flat = np.frombuffer(fixed.buffers()[1], dtype="<u2").reshape(-1, params.row_words)
    return flat[fixed.offset : fixed.offset + len(fixed)]
