"""Candidate pairs -> verified pairs that connect what all verified pairs connect: for clusters.

The members of a large bucket are in many candidate pairs, and one pair for each member would do to
connect them. So where candidates are many, a forest of them is verified first, and of the others
only those whose ends it left apart: nearly always none of a family, and all of unlike documents
that a bucket brought together.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.spark.comparison import Comparison, verified
from lshdb.spark.grouping import components, cut, forest

__all__ = ["spanning_pairs"]

MANY = 2**18
"""Up to so many candidates, all are verified at once: that takes a second or two."""
SAVED = 4
"""A forest is verified first if there are so many times as many candidates."""


def spanning_pairs(candidates: DataFrame, by: Comparison, n: int | None = None) -> DataFrame:
    """Return verified pairs that have the connected components of all, computed.

    Parameters
    ----------
    candidates, by, n
        As for :func:`lshdb.spark.comparison.verified`.

    Returns
    -------
    DataFrame
        ``left``, ``right``, ``similarity``, ``method``. A pair may come twice.
    """
    if n is None:
        n = candidates.count()
    if n <= MANY:
        return cut(verified(candidates, by, n=n))
    some = forest(candidates)
    n_some = some.count()
    if n_some * SAVED > n:
        return cut(verified(candidates, by, n=n))
    found = cut(verified(some, by, n=n_some))
    if found.count() == n_some:
        return found
    return found.unionByName(cut(verified(_apart(candidates, components(found)), by)))


def _apart(pairs: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the pairs whose ends are in different components, or in none."""
    for end in ("left", "right"):
        roots = nodes.select(sf.col("signature_id").alias(end), sf.col("root").alias(f"{end}_root"))
        pairs = pairs.join(roots, end, "left")
    one, other = (sf.coalesce(f"{end}_root", end) for end in ("left", "right"))
    return pairs.where(one != other).select("left", "right")
