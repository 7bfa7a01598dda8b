"""Merge large buckets that have many members in common.

The texts of a family share all bands except those that their differences touch. So a family of
200,000 fills sixteen large buckets, each with half of it, and its members would be moved and
compared once for each bucket. Two buckets are linked if one of the first ``ASKED`` members of one
is among the first ``KNOWN`` of the other: nearly always if they share a half, and rarely if they
share a hundredth. Each bucket goes to the linked one with the smallest first member, and from there
to that one's; buckets that come to one are merged. So a few joins decide, and no task sees more
than ``MOST`` buckets.

Buckets are merged only if they have more than ``MANY`` members in all, because leaders of its own
find further pairs in each; and not if they are more than ``MOST``, whose first members would fill
the pieces (``candidate_pairs.py``).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.spark.signing import ID_BYTES, gathered, mapped

__all__ = ["KNOWN", "merged_buckets"]

KNOWN = 64
ASKED = 4
MANY = 2**18
MOST = 256
_TOGETHER = 2**14
"""Buckets to give out together."""


def merged_buckets(rows: DataFrame) -> DataFrame:
    """Return (first, root, most): the first member of each large bucket, and the merged bucket.

    Parameters
    ----------
    rows : DataFrame
        The rows of a :class:`lshdb.spark.pairing.SharedBuckets`; read three times.

    Returns
    -------
    DataFrame
        ``root`` is the smallest first member of the merged buckets, and ``most`` an estimate of the
        members that they have together.
    """
    head = sf.expr(f"if(number = 0, substring(members, 1, {KNOWN * ID_BYTES}), NULL)")
    size = sf.expr("if(members IS NULL, number, NULL)")
    buckets = rows.where("first IS NOT NULL").groupBy("first")
    heads = sf.sort_array(sf.collect_list(head)).alias("heads")
    heads_of = buckets.agg(sf.max(size).alias("size"), heads)
    ids = (
        f"transform(sequence(0, length(head) div {ID_BYTES} - 1), "
        f"place -> substring(head, place * {ID_BYTES} + 1, {ID_BYTES}))"
    )
    known = heads_of.select("first", sf.explode("heads").alias("head"))
    known = known.selectExpr("first", f"posexplode({ids}) AS (place, signature_id)")
    knowers = known.groupBy("signature_id").agg(
        sf.min("first").alias("least"), sf.min("place").alias("place")
    )
    asked = knowers.where(sf.col("place") < ASKED).select("signature_id", "least")
    linked = known.join(asked, "signature_id").groupBy("first")
    near = linked.agg(sf.min("least").alias("near"))
    near = near.join(near.toDF("near", "root"), "near").select(
        "first", sf.col("root").alias("near")
    )
    with_near = heads_of.join(near, "first").select("near", "first", "size", "heads")
    return gathered(with_near, "near").mapInArrow(
        mapped(_merged_batches, MANY), "first binary, root binary, most bigint"
    )


_Bucket = tuple[bytes, bytes, int, list[bytes]]
"""Where it goes, its first member, its size, and the heads of the buckets of that first member."""
_Root = tuple[bytes, bytes, int]
"""The first member, that of the merged bucket, and how many members that has."""


def _merged_batches(many: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge buckets that go to one, if they have more than ``many`` members; rows are sorted."""
    rows = (row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
    roots: list[_Root] = []
    for _, group in itertools.groupby(rows, key=operator.itemgetter(0)):
        roots += _merged(many, group)
        if len(roots) >= _TOGETHER:
            yield _batch(roots)
            roots = []
    if roots:
        yield _batch(roots)


def _batch(rows: list[_Root]) -> pa.RecordBatch:
    firsts, roots, sizes = zip(*rows, strict=True)
    columns = [pa.array(firsts, pa.binary()), pa.array(roots, pa.binary()), pa.array(sizes)]
    return pa.RecordBatch.from_arrays(columns, names=["first", "root", "most"])


def _merged(many: int, buckets: Iterator[_Bucket]) -> Iterator[_Root]:
    few = list(itertools.islice(buckets, MOST + 1))
    if len(few) > MOST or sum(size * len(heads) for *_, size, heads in few) <= many:
        for _, first, size, _ in itertools.chain(few, buckets):
            yield first, first, size
        return
    root = min(first for _, first, *_ in few)
    heads_by_size = [(size, _ids(head)) for *_, size, heads in few for head in heads]
    most = _union_size(*map(list, zip(*heads_by_size, strict=True)))
    for _, first, *_ in few:
        yield first, root, most


def _ids(head: bytes) -> list[bytes]:
    return [head[at : at + ID_BYTES] for at in range(0, len(head), ID_BYTES)]


def _union_size(sizes: list[int], heads: list[list[bytes]]) -> int:
    """Estimate how many members buckets have together.

    All members are known up to the smallest of the last ids in the heads. In that range, count the
    members of all buckets for each member of the largest bucket; the same factor holds for the
    whole.
    """
    limit = min(ids[-1] for ids in heads)
    parts = [{signature_id for signature_id in ids if signature_id <= limit} for ids in heads]
    largest = sizes.index(max(sizes))
    share = len(set().union(*parts)) / max(1, len(parts[largest]))
    return min(sum(sizes), round(sizes[largest] * share))
