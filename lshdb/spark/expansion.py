"""Verified pairs of signatures -> pairs of documents. Copies are expanded here, last.

Every stage before works on signatures: however many documents have one, they were signed, paired
and compared as one. A document is older than another if its ``place`` is smaller; of equals, and
without places, if its key is (in order of UTF-8 bytes). That is the order of ``lshdb add`` for
input sorted in this way, and does not depend on partitions.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.params.index_params import IndexParams

__all__ = ["age", "copy_groups", "distances", "expanded", "neighbors_of"]


def age() -> Column:
    """Return what orders documents, the oldest first: by ``place`` if it is there, then by key."""
    return sf.struct(sf.isnull("place"), sf.col("place"), sf.col("key"))


def expanded(
    edges: DataFrame,
    documents: DataFrame,
    params: IndexParams,
    *,
    method: str,
    max_bucket: int | None = None,
) -> DataFrame:
    """Return (key1, key2, similarity, method) of pairs of documents, the older one first.

    Documents with one signature are pairs, too, but groups of more than ``max_bucket`` are left
    out: m copies are m (m - 1) / 2 lines.

    Parameters
    ----------
    edges : DataFrame
        ``left``, ``right``, ``similarity``.
    documents : DataFrame
        ``signature_id``, ``key``, ``place``; read several times.
    params : IndexParams
        For a distance metric there is also a column ``distance``.
    method : str
        How the similarities of all were found.
    max_bucket : int, optional
    """
    groups = copy_groups(documents)
    if max_bucket is not None:
        groups = groups.where(sf.col("n") <= max_bucket)
    copies = groups.select(
        sf.col("signature_id").alias("left"), sf.col("signature_id").alias("right"),
        sf.lit(params.curve.best).cast("double").alias("similarity"),
    )  # fmt: skip
    held = documents.select("signature_id", "key", age().alias("age"))
    one = held.toDF("left", "one", "age1")
    other = held.toDF("right", "other", "age2")
    both = edges.select("left", "right", "similarity").unionByName(copies)
    found = both.join(one, "left").join(other, "right")
    found = found.where((sf.col("left") != sf.col("right")) | (sf.col("age1") < sf.col("age2")))
    is_older = sf.col("age1") < sf.col("age2")
    return found.select(
        sf.when(is_older, sf.col("one")).otherwise(sf.col("other")).alias("key1"),
        sf.when(is_older, sf.col("other")).otherwise(sf.col("one")).alias("key2"),
        "similarity",
        sf.lit(method).alias("method"),
        *distances(params),
    )


def neighbors_of(
    edges: DataFrame, documents: DataFrame, params: IndexParams, *, method: str, top: int
) -> DataFrame:
    """Return (key, rank, neighbor, similarity, method): the ``top`` most similar documents of each.

    Of equally similar ones, the oldest come first. Parameters are as for :func:`expanded`.
    """
    best = sf.lit(params.curve.best).cast("double")
    turned = edges.select(
        sf.col("right").alias("left"), sf.col("left").alias("right"), "similarity"
    )
    itself = copy_groups(documents).select(
        sf.col("signature_id").alias("left"), sf.col("signature_id").alias("right"),
        best.alias("similarity"),
    )  # fmt: skip
    both = edges.select("left", "right", "similarity").unionByName(turned).unionByName(itself)
    held = documents.select("signature_id", "key", age().alias("age"))
    # A document has no use for more than one more than it wants of the copies of another.
    oldest = Window.partitionBy("right").orderBy("age2")
    other = held.toDF("right", "neighbor", "age2").withColumn("at", sf.row_number().over(oldest))
    other = other.where(sf.col("at") <= top + 1).drop("at")
    found = held.toDF("left", "key", "age1").join(both, "left").join(other, "right")
    ranked = Window.partitionBy("key").orderBy(sf.desc("similarity"), "age2")
    return (
        found.where("key != neighbor")
        .withColumn("rank", sf.row_number().over(ranked))
        .where(sf.col("rank") <= top)
        .select(
            "key", "rank", "neighbor", "similarity", sf.lit(method).alias("method"),
            *distances(params),
        )
    )  # fmt: skip


def distances(params: IndexParams) -> list[Column]:
    """Return the column ``distance`` for a metric that is one."""
    if not params.kind.is_distance:
        return []
    return [(sf.lit(0.0) - sf.col("similarity")).alias("distance")]


def copy_groups(documents: DataFrame) -> DataFrame:
    """Return (signature_id, n) of the signatures that several documents have."""
    shown = documents.where("signature_id IS NOT NULL")
    return shown.groupBy("signature_id").agg(sf.count("*").alias("n")).where("n > 1")
