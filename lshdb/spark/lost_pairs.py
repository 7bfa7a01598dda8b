"""Estimate how many near-duplicate pairs in large buckets the leaders did not find.

Pairs are drawn from the members of large buckets and compared. Each merged bucket has draws in
proportion to its pairs: ``DRAWN`` in all, and at least one. A draw stands for the pairs of its
bucket divided by its draws. A pair in h merged buckets counts as 1 / h (Hansen and Hurwitz, 1943).
A pair that shares no bucket does not count, because no limit on buckets hides it. The interval is
computed as on one machine (``search/loss.py``).

Draws are computed from hashes of the bucket and the number of the draw, not from partitions or
random numbers: equal rows have equal answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.params.index_params import IndexParams
from lshdb.search.loss import Loss, PairCount, interval, loss_of
from lshdb.signatures.banding import matching_bands
from lshdb.spark.comparison import verified
from lshdb.spark.expansion import copy_groups
from lshdb.spark.grouping import cut
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.large_bucket_pairs import LargeBucketPairs
from lshdb.spark.pairing import ends_of, rows_of
from lshdb.spark.signing import mapped

__all__ = ["drawn_pairs", "lost_pairs"]

DRAWN = 40_000
_NOTHING = Loss(0.0, 0.0, 0.0, 0.0, True, 0)


def lost_pairs(edges: DataFrame, documents: DataFrame, hidden: LargeBucketPairs) -> Loss:
    """Estimate which share of all pairs of documents the limit on buckets hides.

    Parameters
    ----------
    edges : DataFrame
        The verified pairs of signatures; computed only if the limit hides any.
    documents : DataFrame
        ``signature_id``, a row for each document.
    hidden : LargeBucketPairs
        Finds the pairs that the limit hides.

    Returns
    -------
    Loss
        The share of pairs of documents, including copies in groups that are left out. Counts and at
        most some ``DRAWN`` numbers come to the driver.
    """
    n, most = sf.col("n"), hidden.max_bucket
    groups = copy_groups(documents).withColumn("pairs", n * (n - 1) / 2)
    left_out = 0 if most is None else _sum(groups.where(n > most), sf.col("pairs"))
    if not left_out and hidden.is_empty():
        return _NOTHING
    signed = documents.where("signature_id IS NOT NULL")
    counts = cut(signed.groupBy("signature_id").agg(sf.count("*").alias("n_documents")))
    edges = cut(edges)
    drawn = drawn_pairs(edges, counts, hidden)
    if drawn is None and not left_out:
        return _NOTHING
    lost = PairCount(0.0, 0.0, 0.0, True, 0) if drawn is None else drawn
    sized = edges.join(counts.toDF("left", "n_left"), "left")
    sized = sized.join(counts.toDF("right", "n_right"), "right")
    n_pairs = _sum(sized, sf.col("n_left") * sf.col("n_right"))
    n_pairs += _sum(groups, sf.col("pairs")) - left_out
    return loss_of(lost + left_out, PairCount(n_pairs, n_pairs, n_pairs, True, 0))


def drawn_pairs(edges: DataFrame, counts: DataFrame, hidden: LargeBucketPairs) -> PairCount | None:
    """Estimate the pairs of documents that large buckets hide; None if they have no pair.

    Parameters
    ----------
    edges : DataFrame
        The known pairs.
    counts : DataFrame
        ``signature_id`` and ``n_documents``: the number of its documents that count.
    hidden : LargeBucketPairs
        Finds the pairs that large buckets hide.
    """
    drawn = _drawn(hidden, counts)
    if drawn is None:
        return None
    (row,) = drawn.agg(sf.count("*"), sf.max("weight")).collect()
    pairs = cut(drawn.select("left", "right").distinct())
    hits = drawn.join(_missing(pairs, edges, hidden), ["left", "right"]).select("weight")
    # Rows arrive in any order, and a sum of floats depends on it in its last digits.
    weights = np.array(sorted(weight for (weight,) in hits.collect()))
    return PairCount(*interval(weights, row[1]), is_exact=False, n_sampled=row[0])


def _sum(rows: DataFrame, column: Column) -> int:
    """Return the sum of whole numbers; 0 without rows."""
    (row,) = rows.agg(sf.sum(column)).collect()
    return int(row[0] or 0)


def _drawn(hidden: LargeBucketPairs, counts: DataFrame) -> DataFrame | None:
    """Draw pairs: (left, right, weight), ``left`` the smaller id; None if there are no pairs."""
    members = cut(hidden.members.distinct().join(counts, "signature_id"))
    sizes = members.groupBy("bucket").agg(sf.count("*").alias("n")).where("n > 1")
    groups = cut(sizes.withColumn("pairs", sf.col("n") * (sf.col("n") - 1) / 2))
    total = _sum(groups, sf.col("pairs"))
    if not total:
        return None
    n = sf.col("n")
    draws = sf.greatest(sf.lit(1.0), sf.round(sf.col("pairs") / total * DRAWN)).cast("int")
    numbered = groups.withColumn("weight", sf.col("pairs") / draws)
    numbered = numbered.withColumn("draw", sf.explode(sf.sequence(sf.lit(1), draws)))
    at1, at2 = (sf.pmod(sf.xxhash64("bucket", "draw", sf.lit(end)), n - end) for end in (0, 1))
    ends = numbered.withColumns({"at1": at1, "at2": at2}).select(
        "bucket",
        "at1",
        (sf.col("at2") + (sf.col("at2") >= sf.col("at1")).cast("int")).alias("at2"),
        "weight",
    )
    order = Window.partitionBy("bucket").orderBy("signature_id")
    placed = members.withColumn("at", sf.row_number().over(order) - 1)
    first = placed.select(
        sf.col("signature_id").alias("id1"), "bucket", sf.col("n_documents").alias("n1"),
        sf.col("at").alias("at1"),
    )  # fmt: skip
    second = placed.select(
        sf.col("signature_id").alias("id2"), "bucket", sf.col("n_documents").alias("n2"),
        sf.col("at").alias("at2"),
    )  # fmt: skip
    chosen = ends.join(first, ["bucket", "at1"]).join(second, ["bucket", "at2"])
    homes = members.groupBy("signature_id").agg(sf.collect_set("bucket").alias("homes"))
    chosen = chosen.join(homes.toDF("id1", "homes1"), "id1")
    chosen = chosen.join(homes.toDF("id2", "homes2"), "id2")
    often = sf.size(sf.array_intersect("homes1", "homes2"))
    return cut(
        chosen.select(
            sf.least("id1", "id2").alias("left"),
            sf.greatest("id1", "id2").alias("right"),
            (sf.col("weight") * sf.col("n1") * sf.col("n2") / often).alias("weight"),
        )
    )


def _missing(pairs: DataFrame, edges: DataFrame, hidden: LargeBucketPairs) -> DataFrame:
    """Return the pairs that reach the threshold and share a bucket, but are no edges."""
    similar = verified(pairs, hidden.by)
    missing = cut(similar.select("left", "right").join(edges, ["left", "right"], "anti"))
    rows = hidden.by.rows.select("signature_id", "signature")
    rows = rows_among(rows, "signature_id", ends_of(missing))
    rows = cut(rows.dropDuplicates(["signature_id"]))
    missing = missing.join(rows.toDF("left", "row1"), "left")
    missing = missing.join(rows.toDF("right", "row2"), "right")
    sharing = mapped(_sharing_batches, hidden.by.recipe.params)
    return missing.mapInArrow(sharing, "left binary, right binary")


def _sharing_batches(
    params: IndexParams, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the pairs of signatures that share a bucket."""
    for batch in batches:
        rows1, rows2 = (rows_of(batch.column(name), params) for name in ("row1", "row2"))
        share = matching_bands(rows1, rows2, **params.cut).any(axis=1)
        yield batch.select(["left", "right"]).filter(pa.array(share))
