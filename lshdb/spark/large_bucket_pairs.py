"""Documents to keep -> their near-duplicate pairs that large buckets hide.

The members of a large bucket are joined through any leaders, so a pair of them may be missing. Here
the preferred members are the leaders: each large bucket becomes a bucket of numbers in the order of
preference, so one pass drops a family of any size for its most preferred member. Pairs are verified
afterwards, and a member that was similar to a leader only by signature may be kept after all; so
then all documents to keep are compared with all others. One machine instead verifies the pairs of a
leader before it takes the next one (``groups/missed_pairs.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.spark.cached_frames import persisted
from lshdb.spark.candidate_pairs import HEAD, OTHERS, candidates, members_of
from lshdb.spark.comparison import Comparison, verified
from lshdb.spark.grouping import cut
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.merged_buckets import KNOWN, MANY
from lshdb.spark.pairing import PIECE, SharedBuckets, bucket_pairs, rows_of_ids, stage_id

__all__ = ["BUDGET", "LargeBucketPairs"]

BUDGET = 2**23
"""Pairs of a piece to compare by signature, which takes a second or two."""
_PAIRED = 32
"""All pairs of smaller buckets are compared."""


@dataclass(frozen=True, slots=True)
class LargeBucketPairs:
    """Finds near-duplicates among documents to keep.

    Attributes
    ----------
    shared : SharedBuckets
        The shared buckets.
    by : Comparison
        How to compare pairs; its rows include all members of large buckets.
    max_bucket : int or None
        The limit by which buckets are large.
    """

    shared: SharedBuckets
    by: Comparison
    max_bucket: int | None

    def is_empty(self) -> bool:
        """Return whether there is no large bucket."""
        return not self.shared.counts.large

    @property
    def members(self) -> DataFrame:
        """(bucket, signature_id) of the members of large buckets; merged buckets are one."""
        bucket = sf.xxhash64("first").alias("bucket")
        members = members_of(self.shared).select(bucket, sf.col("signature_id").alias("short"))
        ids = rows_of_ids(self.by.rows.select("signature_id"), members.select("short"))
        return persisted(members.join(ids, "short").select("bucket", "signature_id"))

    def among(
        self, ranked: DataFrame, leaders: DataFrame | None, edges: DataFrame
    ) -> tuple[DataFrame, bool]:
        """Return verified pairs of leaders and other members, and whether all were compared.

        Parameters
        ----------
        ranked : DataFrame
            ``signature_id`` and ``rank`` (bigint) of the members, the preferred ones first. Read
            several times.
        leaders : DataFrame or None
            The members to compare with all others. None to choose leaders: the first member, then
            the first one that is not similar to it, and so on.
        edges : DataFrame
            Known pairs, to leave out.

        Returns
        -------
        DataFrame
            ``left``, ``right``, ``similarity``, ``method``; computed.
        bool
            Whether all leaders were compared with all members; False without ``leaders``.
        """
        leads = sf.lit(True) if leaders is None else sf.col("leads").isNotNull()
        if leaders is not None:
            marks = leaders.select("signature_id", sf.lit(True).alias("leads"))
            ranked = ranked.join(marks, "signature_id", "left")
        place = sf.when(leads, sf.col("rank")).otherwise(sf.col("rank") + sf.lit(OTHERS))
        placed = cut(ranked.select("signature_id", place.alias("place"), leads.alias("leads")))
        # Computed at once: Spark writes down the plans of all that is kept, once for each read.
        inside = cut(self.members.distinct().join(placed, "signature_id"))
        posted = inside.select("bucket", sf.col("place").alias("signature_id"))
        shared = bucket_pairs(posted, max_bucket=_PAIRED)
        numbered = placed.select("signature_id", stage_id(sf.col("place")).alias("number"))
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
        new_pairs = cut(pairs.join(edges, ["left", "right"], "anti"))
        new_edges = cut(verified(new_pairs, self.by, n=new_pairs.count()))
        return new_edges, leaders is not None and self._are_all(inside)

    def _are_all(self, inside: DataFrame) -> bool:
        """Return whether, in each bucket, all leaders are compared with all members."""
        n, n_leaders = sf.col("n"), sf.col("n_leaders")
        sizes = inside.groupBy("bucket").agg(
            sf.count("*").alias("n"), sf.count_if("leads").alias("n_leaders")
        )
        sizes = cut(sizes.where(n > _PAIRED))
        most = sf.when(n <= PIECE, n_leaders).otherwise(HEAD)
        if (sizes.agg(sf.sum("n")).collect()[0][0] or 0) > MANY:
            most = sf.lit(KNOWN)  # some buckets may be merged
        are_few = (n_leaders <= most) & (n_leaders * sf.least(n, sf.lit(PIECE + HEAD)) <= BUDGET)
        return sizes.where(~are_few).isEmpty()
