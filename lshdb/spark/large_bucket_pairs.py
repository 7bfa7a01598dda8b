"""Documents that would be kept -> near-duplicate pairs of them that large buckets hide.

The members of a large bucket are joined through leaders of any kind, so a pair of them may be
missing. Here the leaders are those that the order of preference puts first: each large bucket is
taken as a bucket again, of ids that are numbers in that order. So one pass drops a family of any
size for its most preferred member. Pairs are verified after that, and what was like a leader by its
signature alone may be kept after all; so then all that would be kept are compared with all others.
One machine verifies what a leader is compared with before it takes the next one
(``clusters/missed_pairs.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.spark.candidate_pairs import HEAD, OTHERS, candidates, members_of
from lshdb.spark.comparison import Comparison, verified
from lshdb.spark.grouping import cut
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.merged_buckets import KNOWN, MANY
from lshdb.spark.pairing import PIECE, SharedBuckets, bucket_pairs
from lshdb.spark.signing import ID_BYTES

__all__ = ["BUDGET", "LargeBucketPairs"]

BUDGET = 2**23
"""Pairs of a piece that are compared by signature: a second or two."""
_PAIRED = 32
"""Of smaller buckets, all pairs are compared."""


@dataclass(frozen=True, slots=True)
class LargeBucketPairs:
    """Finds near-duplicates among documents that are to be kept.

    Attributes
    ----------
    shared : SharedBuckets
    by : Comparison
        Its rows have the members of the buckets at least.
    max_bucket : int or None
        With which ``shared`` was made.
    """

    shared: SharedBuckets
    by: Comparison
    max_bucket: int | None

    def is_empty(self) -> bool:
        """Return whether there is no large bucket."""
        if self.shared.counts is None:
            return self.shared.rows.where("members IS NOT NULL").isEmpty()
        return not self.shared.may_have_large

    @property
    def members(self) -> DataFrame:
        """Members of large buckets: ``bucket``, the same for buckets that were taken as one."""
        return members_of(self.shared).select(sf.xxhash64("first").alias("bucket"), "signature_id")

    def among(
        self, ranked: DataFrame, leaders: DataFrame | None, edges: DataFrame
    ) -> tuple[DataFrame, bool]:
        """Return verified pairs of leaders and other members, and whether they are all there are.

        Parameters
        ----------
        ranked : DataFrame
            ``signature_id`` and ``rank`` (bigint) of the members, the preferred ones first. Read
            several times.
        leaders : DataFrame or None
            Those of them that are compared with all others. None for leaders of the members' own:
            the first, then the first of those that are not like it, and so on.
        edges : DataFrame
            Pairs that are known; left out.

        Returns
        -------
        DataFrame
            ``left``, ``right``, ``similarity``, ``method``; computed.
        bool
            False if there are more pairs than are compared.
        """
        leads = sf.lit(True) if leaders is None else sf.col("leads").isNotNull()
        if leaders is not None:
            leading = leaders.select("signature_id", sf.lit(True).alias("leads"))
            ranked = ranked.join(leading, "signature_id", "left")
        place = sf.when(leads, sf.col("rank")).otherwise(sf.col("rank") + sf.lit(OTHERS))
        placed = cut(ranked.select("signature_id", place.alias("place"), leads.alias("leads")))
        inside = self.members.distinct().join(placed, "signature_id")
        posted = inside.select("bucket", sf.col("place").alias("signature_id"))
        shared = bucket_pairs(posted, max_bucket=_PAIRED).counted()
        number = sf.unhex(sf.lpad(sf.hex("place"), 2 * ID_BYTES, "0"))
        numbered = placed.select("signature_id", number.alias("number"))
        rows = rows_among(self.by.rows.select("signature_id", "signature"), "signature_id", placed)
        rows = rows.join(numbered, "signature_id").select(
            sf.col("number").alias("signature_id"), "signature"
        )
        pairs = candidates(shared, replace(self.by, rows=rows), budget=BUDGET,
                           only_first=leaders is not None)  # fmt: skip
        for end in ("left", "right"):
            names = numbered.select(sf.col("number").alias(end), sf.col("signature_id").alias("id"))
            pairs = pairs.join(names, end).drop(end).withColumnRenamed("id", end)
        pairs = pairs.select(
            sf.least("left", "right").alias("left"), sf.greatest("left", "right").alias("right")
        )
        found = cut(verified(pairs.join(edges, ["left", "right"], "anti"), self.by))
        return found, leaders is not None and self._are_all(inside)

    def _are_all(self, inside: DataFrame) -> bool:
        """Return whether all leaders are compared with all others in each bucket."""
        n, n_leaders = sf.col("n"), sf.col("n_leaders")
        sizes = inside.groupBy("bucket").agg(
            sf.count("*").alias("n"), sf.count_if("leads").alias("n_leaders")
        )
        sizes = cut(sizes.where(n > _PAIRED))
        known = sf.when(n <= PIECE, n_leaders).otherwise(HEAD)
        if (sizes.agg(sf.sum("n")).collect()[0][0] or 0) > MANY:
            known = sf.lit(KNOWN)  # some may have been taken as one
        are_few = (n_leaders <= known) & (n_leaders * sf.least(n, sf.lit(PIECE + HEAD)) <= BUDGET)
        return sizes.where(~are_few).isEmpty()
