"""Documents that would be kept -> near-duplicate pairs of them that large buckets hide.

The members of a large bucket are joined through leaders, so a pair of them may be missing. Most are
dropped for another one, so comparing the rest is cheap: what is left of each large bucket is taken
as a bucket again, and its pairs are verified like any others. Where more than ``MAX_BUCKET`` are
left, they are joined through leaders once more. One machine does the same with a budget of pairs
(``clusters/missed_pairs.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.spark.comparison import Comparison, verified
from lshdb.spark.leading import candidates, members_of
from lshdb.spark.pairing import MAX_BUCKET, Met, bucket_pairs

__all__ = ["HiddenPairs"]


@dataclass(frozen=True, slots=True)
class HiddenPairs:
    """Finds near-duplicates among documents that are to be kept.

    Attributes
    ----------
    met : Met
    by : Comparison
        Its rows have the members of the buckets at least.
    max_bucket : int or None
        With which ``met`` was made.
    """

    met: Met
    by: Comparison
    max_bucket: int | None

    def is_empty(self) -> bool:
        """Return whether there is no large bucket."""
        if self.met.counts is None:
            return self.met.rows.where("members IS NOT NULL").isEmpty()
        return not self.met.may_have_large

    @property
    def members(self) -> DataFrame:
        """Members of large buckets: ``bucket``, the same for buckets that were taken as one."""
        return members_of(self.met).select(sf.xxhash64("first").alias("bucket"), "signature_id")

    def among(self, shown: DataFrame, gone: DataFrame) -> DataFrame:
        """Return the verified pairs of some members: left, right, similarity, method.

        Parameters
        ----------
        shown, gone : DataFrame
            A column ``signature_id``: of what the pairs are, without what.
        """
        left = self.members.join(gone, "signature_id", "anti").join(shown, "signature_id", "semi")
        most = None if self.max_bucket is None else max(self.max_bucket, MAX_BUCKET)
        met = bucket_pairs(left, max_bucket=most)
        return verified(candidates(met, self.by), self.by)
