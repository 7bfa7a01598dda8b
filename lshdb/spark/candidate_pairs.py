"""Buckets that several signatures share -> candidate pairs; in large buckets, through leaders.

A bucket of more than ``max_bucket`` signatures is cut by hashes of ids into pieces of some
``PIECE`` members. Each piece also has the first ``HEAD`` members of the bucket. Within a piece,
members are compared by signature with leaders, as on one machine (``search/candidates.py``).
Leaders are among the first members and so the same in all pieces, except leaders of families that
are rarer than one in ``HEAD``. So a bucket of m costs m comparisons for each leader, in any number
of tasks, and each task holds one piece. Buckets with many members in common, such as those of one
family in all bands, are merged (``merged_buckets.py``); then each piece has the first ``HEAD``
members of one of them, and the first ``KNOWN`` of the others. Members travel as bytes, because a
document may be in sixteen large buckets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.params.index_params import IndexParams
from lshdb.search.candidates import LEADERS, leader_links
from lshdb.search.verification import least_share
from lshdb.spark.cached_frames import persisted
from lshdb.spark.comparison import Comparison
from lshdb.spark.merged_buckets import KNOWN, merged_buckets
from lshdb.spark.pairing import (
    PIECE,
    Ids,
    SharedBuckets,
    grouped,
    ids_of,
    order_of,
    rows_of,
    rows_of_ids,
)
from lshdb.spark.signing import ID_BYTES, binaries, gathered, mapped

__all__ = ["HEAD", "OTHERS", "candidates", "members_of"]

HEAD = 1024
"""So many first members of a large bucket are in each of its pieces."""
OTHERS = 2**62
"""Added to the number of a member that is no leader."""


def candidates(
    shared: SharedBuckets, by: Comparison, *, budget: int = 0, only_first: bool = False
) -> DataFrame:
    """Return (left, right, home) of all candidate pairs, each once, by short ids.

    Parameters
    ----------
    shared : SharedBuckets
        Read several times if there are large buckets.
    by : Comparison
        How to compare members of large buckets with leaders, by signature.
    budget : int
        A piece of a large bucket may have more than ``LEADERS`` leaders if they make no more pairs
        than this.
    only_first : bool
        Take as leaders the members whose ids are numbers below ``OTHERS``, within the budget, and
        compare each with all other members.
    """
    if not shared.counts.large:
        return shared.pairs()
    params, like = by.recipe.params, least_share(by.recipe.params, by.method, by.level)
    members = members_of(shared).withColumnRenamed("signature_id", "short")
    rows = rows_of_ids(by.rows.select("signature_id", "signature"), members.select("short"))
    # Spark sorts by one number without comparing rows.
    piece = sf.xxhash64("first", "piece").alias("piece")
    pieces = members.select(piece, "short").join(rows, "short")
    pieces = pieces.select("piece", sf.col("short").alias("signature_id"), "signature")
    led = mapped(_led_batches, params, like, budget, only_first)
    links = gathered(pieces, "piece").mapInArrow(led, "left binary, right binary")
    pairs = shared.pairs().unionByName(links, allowMissingColumns=True)
    return persisted(pairs.groupBy("left", "right").agg(sf.min("home").alias("home")))


def members_of(shared: SharedBuckets) -> DataFrame:
    """Return (first, piece, signature_id): the members of large buckets, each once in a piece.

    Merged buckets have the same ``first``. The result is persisted, because it is read to find
    pairs and to tell which members there are.

    Parameters
    ----------
    shared : SharedBuckets
        Read twice.
    """
    members = shared.rows.where("members IS NOT NULL").select("first", "number", "members")
    pieces = (
        members.join(merged_buckets(shared.rows), "first")
        .select("first", "root", "number", "members", "most")
        .mapInArrow(mapped(_piece_batches), "first binary, piece bigint, members binary")
    )
    return persisted(
        gathered(pieces, "first", "piece").mapInArrow(
            mapped(_member_batches), "first binary, piece bigint, signature_id binary"
        )
    )


def _piece_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut the members of large buckets into pieces, in the same way for all merged buckets."""
    for batch in batches:
        for first, root, place, members, most in zip(*batch.to_pydict().values(), strict=True):
            ids = np.frombuffer(members, dtype=f"V{ID_BYTES}")
            n_bits = (-(-most // PIECE) - 1).bit_length()
            length = HEAD if first == root else KNOWN
            numbers, head = np.arange(2**n_bits), ids[: max(0, length - place)]
            rest = ids[len(head) :]
            pieces = np.concatenate([np.repeat(numbers, len(head)), _hashed(rest, n_bits)])
            filled, groups = grouped(np.concatenate([np.tile(head, len(numbers)), rest]), pieces)
            firsts = pa.array([root] * len(filled), pa.binary())
            columns = [firsts, pa.array(filled), groups]
            yield pa.RecordBatch.from_arrays(columns, names=["first", "piece", "members"])


def _hashed(ids: Ids, n_bits: int) -> NDArray[np.int64]:
    """Return an ``n_bits`` hash of each id."""
    upper, lower = ids.view("<u8").reshape(-1, 2).T
    mixed = (upper ^ lower) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(0x9E3779B97F4A7C15)
    hashed: NDArray[np.int64] = (mixed >> np.uint64(32)).astype(np.int64) >> (32 - n_bits)
    return hashed


def _member_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the members of sorted pieces, each once."""
    rows = (row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
    for (first, piece), parts in itertools.groupby(rows, key=lambda row: row[:2]):
        ids = np.frombuffer(b"".join(row[2] for row in parts), dtype=f"V{ID_BYTES}")
        ids = ids[order_of(ids)]
        ids = ids[np.insert(ids[1:] != ids[:-1], 0, True)]
        firsts = np.broadcast_to(np.frombuffer(first, dtype=ids.dtype), len(ids))
        columns = [binaries(firsts), pa.array(np.full(len(ids), piece)), binaries(ids)]
        yield pa.RecordBatch.from_arrays(columns, names=["first", "piece", "signature_id"])


class _PieceRows:
    """The signature rows of a piece by their place, as ``leader_links`` reads them."""

    def __init__(self, rows: NDArray[np.uint16]) -> None:
        self._rows = rows

    def __getitem__(self, places: NDArray[np.int64]) -> NDArray[np.uint16]:
        return self._rows[places]

    def among(self, places: NDArray[np.int64]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return rows, and the index of each place in them."""
        return self._rows, places


def _led_batches(
    params: IndexParams,
    like: float,
    budget: int,
    only_first: bool,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Compare the members of each sorted piece with leaders."""
    parts: list[tuple[Ids, NDArray[np.uint16]]] = []
    now: int | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        pieces = batch.column("piece").to_numpy()
        ids = ids_of(batch.column("signature_id"))
        rows = rows_of(batch.column("signature"), params)
        begin = 0
        for end in [*(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(ids)]:
            if parts and pieces[begin] != now:
                yield from _leader_pairs(params, like, budget, only_first, parts)
                parts = []
            now = int(pieces[begin])
            parts.append((ids[begin:end].copy(), rows[begin:end].copy()))
            begin = end
    if parts:
        yield from _leader_pairs(params, like, budget, only_first, parts)


def _leader_pairs(
    params: IndexParams,
    like: float,
    budget: int,
    only_first: bool,
    parts: list[tuple[Ids, NDArray[np.uint16]]],
) -> Iterator[pa.RecordBatch]:
    """Compare the members of one piece with leaders."""
    ids, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = order_of(ids)
    ids, rows = ids[order], rows[order]
    members, most = np.arange(len(ids)), max(LEADERS, budget // len(ids))
    if only_first:
        numbers = ids.view(">u8")[::2]
        most = min(most, int((numbers < OTHERS).sum()))
    for left, right in leader_links(
        _PieceRows(rows), params, members, like, most=most, again=only_first
    ):
        columns = [binaries(ids[left]), binaries(ids[right])]
        yield pa.RecordBatch.from_arrays(columns, names=["left", "right"])
