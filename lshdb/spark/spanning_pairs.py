"""Candidate pairs -> verified pairs with the connected components of all verified pairs.

That is enough for clusters. The members of a large bucket are in many candidate pairs, though one
pair for each member connects them. So if there are many candidates, a forest of them is verified
first, and of the others only pairs whose ends it did not connect: nearly always none of a family,
and all of the unlike documents in a bucket.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.spark.comparison import Comparison, verified
from lshdb.spark.grouping import components, cut, forest
from lshdb.spark.named_jobs import counted_rows, named_job
from lshdb.spark.pairing import short_id

__all__ = ["spanning_pairs"]

MANY = 2**18
"""Up to so many candidates are verified at once, which takes a second or two."""
SAVED = 4
"""A forest is verified first if there are more than so many candidates for each of its pairs."""


def spanning_pairs(candidates: DataFrame, by: Comparison, n: int | None = None) -> DataFrame:
    """Compute verified pairs that have the connected components of all of them.

    Parameters
    ----------
    candidates, by, n
        As for :func:`lshdb.spark.comparison.verified`.

    Returns
    -------
    DataFrame
        ``left``, ``right``, ``similarity``, ``method``. A pair may be repeated.
    """
    if n is None:
        n = counted_rows(candidates, "pairing", "candidates")
    session = candidates.sparkSession
    if n <= MANY:
        with named_job(session, "comparing pairs"):
            return cut(verified(candidates, by, n=n))
    with named_job(session, "connecting candidates"):
        trees = forest(candidates)
        n_pairs = trees.count()
    with named_job(session, "comparing pairs"):
        if n_pairs * SAVED > n:
            return cut(verified(candidates, by, n=n))
        edges = cut(verified(trees, by, n=n_pairs))
        ends = edges.select(short_id("left"), short_id("right"))
        if ends.distinct().count() == n_pairs:
            return edges
        return edges.unionByName(cut(verified(_apart(candidates, components(edges)), by)))


def _apart(pairs: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the pairs of short ids whose ends are in different components, or in none."""
    for end in ("left", "right"):
        short = short_id("signature_id").alias(end)
        roots = nodes.select(short, sf.col("root").alias(f"{end}_root"))
        pairs = pairs.join(roots, end, "left")
    left, right = (sf.coalesce(f"{end}_root", end) for end in ("left", "right"))
    return pairs.where(left != right).select("left", "right")
