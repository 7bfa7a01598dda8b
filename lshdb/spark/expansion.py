"""Verified pairs of signatures -> pairs of documents. Copies are expanded here, at the end.

Every stage before this one works on signatures: all documents with one signature were signed,
paired and compared as one. A document is older than another if its ``place`` is smaller; of equals,
and without places, if its key is smaller (in order of UTF-8 bytes). That is the order of ``lshdb
add`` for input sorted in this way, and does not depend on partitions.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.params.index_params import IndexParams

__all__ = ["age", "copy_groups", "distances", "expanded", "neighbors_of"]


def age() -> Column:
    """Return a column to order documents by, the oldest first: ``place`` if not null, then key."""
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

    Documents with one signature are pairs, too, but groups of more than ``max_bucket`` copies are
    left out: m copies are m (m - 1) / 2 lines.

    Parameters
    ----------
    edges : DataFrame
        ``left``, ``right``, ``similarity``.
    documents : DataFrame
        ``signature_id``, ``key``, ``place``; read several times.
    params : IndexParams
        The parameters; a distance metric adds a column ``distance``.
    method : str
        How pairs were verified.
    max_bucket : int, optional
        The largest group of copies; None for any.
    """
    groups = copy_groups(documents)
    if max_bucket is not None:
        groups = groups.where(sf.col("n") <= max_bucket)
    copies = groups.select(
        sf.col("signature_id").alias("left"), sf.col("signature_id").alias("right"),
        sf.lit(params.curve.best).cast("double").alias("similarity"),
    )  # fmt: skip
    ages = documents.select("signature_id", "key", age().alias("age"))
    lefts = ages.toDF("left", "left_key", "age1")
    rights = ages.toDF("right", "right_key", "age2")
    pairs = edges.select("left", "right", "similarity").unionByName(copies)
    pairs = pairs.join(lefts, "left").join(rights, "right")
    is_older = sf.col("age1") < sf.col("age2")
    pairs = pairs.where((sf.col("left") != sf.col("right")) | is_older)
    return pairs.select(
        sf.when(is_older, sf.col("left_key")).otherwise(sf.col("right_key")).alias("key1"),
        sf.when(is_older, sf.col("right_key")).otherwise(sf.col("left_key")).alias("key2"),
        "similarity",
        sf.lit(method).alias("method"),
        *distances(params),
    )


def neighbors_of(
    edges: DataFrame, documents: DataFrame, params: IndexParams, *, method: str, top: int
) -> DataFrame:
    """Return (key, rank, neighbor, similarity, method): the ``top`` most similar documents of each.

    Of equally similar documents, the oldest come first. Parameters are as for :func:`expanded`.
    """
    best = sf.lit(params.curve.best).cast("double")
    turned = edges.select(
        sf.col("right").alias("left"), sf.col("left").alias("right"), "similarity"
    )
    itself = copy_groups(documents).select(
        sf.col("signature_id").alias("left"), sf.col("signature_id").alias("right"),
        best.alias("similarity"),
    )  # fmt: skip
    pairs = edges.select("left", "right", "similarity").unionByName(turned).unionByName(itself)
    ages = documents.select("signature_id", "key", age().alias("age"))
    # Of the copies of a neighbour, top + 1 suffice: one of them may be the document itself.
    oldest = Window.partitionBy("right").orderBy("age2")
    rights = ages.toDF("right", "neighbor", "age2").withColumn("at", sf.row_number().over(oldest))
    rights = rights.where(sf.col("at") <= top + 1).drop("at")
    pairs = ages.toDF("left", "key", "age1").join(pairs, "left").join(rights, "right")
    ranked = Window.partitionBy("key").orderBy(sf.desc("similarity"), "age2")
    return (
        pairs.where("key != neighbor")
        .withColumn("rank", sf.row_number().over(ranked))
        .where(sf.col("rank") <= top)
        .select(
            "key", "rank", "neighbor", "similarity", sf.lit(method).alias("method"),
            *distances(params),
        )
    )  # fmt: skip


def distances(params: IndexParams) -> list[Column]:
    """Return the column ``distance`` in a list, which is empty unless the metric is a distance."""
    if not params.kind.is_distance:
        return []
    return [(sf.lit(0.0) - sf.col("similarity")).alias("distance")]


def copy_groups(documents: DataFrame) -> DataFrame:
    """Return (signature_id, n) of the signatures that several documents have."""
    signed = documents.where("signature_id IS NOT NULL")
    return signed.groupBy("signature_id").agg(sf.count("*").alias("n")).where("n > 1")
