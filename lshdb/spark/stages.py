"""Rows of a data frame -> documents, candidate pairs and verified pairs: the start of all answers.

Rows are signed and paired as soon as a later stage is used, and that is planned for what was
counted: nearly always, there are no large buckets and no keys that come twice.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.arguments import Verify
from lshdb.params.options import CreateOptions, Parameters, check_parameters
from lshdb.search.verification import choose_method
from lshdb.spark.cached_frames import persisted
from lshdb.spark.candidate_pairs import candidates
from lshdb.spark.comparison import Comparison, verified
from lshdb.spark.document_rows import documents, rejections
from lshdb.spark.large_bucket_pairs import LargeBucketPairs
from lshdb.spark.named_jobs import counted_rows
from lshdb.spark.pairing import SharedBuckets, bucket_limit, bucket_pairs, ends_of, key_bucket
from lshdb.spark.session import use_this_python
from lshdb.spark.signing import Recipe, refuse_passages, signed
from lshdb.tokenizers import Tokenizer, given_tokenizer

__all__ = ["FrameOptions", "Stages"]


class FrameOptions(Parameters, total=False):
    """The keywords of every question about a data frame; see :class:`lshdb.spark.Answers`."""

    key: str
    text: str | Sequence[str]
    order: str | None
    verify: Verify | None
    max_bucket: int | str | None
    tokenizer: Tokenizer | str | None


class Stages:
    """The stages up to verified pairs of signatures, each planned when it is first used.

    Attributes
    ----------
    df : DataFrame
        The rows of the caller.
    key : str
        The column of the keys.
    value : str or None
        A further column that goes along.
    recipe : Recipe
        How rows are signed and compared.
    method : str
        How pairs are verified.
    max_bucket : int or None
        The largest bucket of which all pairs are compared.
    signed : DataFrame
        Every row, signed or rejected.
    """

    def __init__(
        self,
        df: DataFrame,
        value: str | None = None,
        /,  # so that a keyword of one of these names is an unknown parameter
        *,
        key: str = "id",
        text: str | Sequence[str] = "text",
        order: str | None = None,
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
        tokenizer: Tokenizer | str | None = None,
        **parameters: Unpack[Parameters],
    ) -> None:
        """Plan the first stage.

        Parameters
        ----------
        df : DataFrame
            The rows.
        value : str, optional
            A further column to go along.
        key, text, order, verify, max_bucket, tokenizer, **parameters
            As for :class:`lshdb.spark.Answers`.
        """
        split = given_tokenizer(tokenizer)
        check_parameters(
            "lshdb.spark", parameters, "key", "text", "order", "verify", "max_bucket", "tokenizer"
        )
        recorded = "" if split is None else split.recorded
        params = CreateOptions(**parameters, tokenizer=recorded).params()
        refuse_passages(params)
        self.df, self.key, self.value = df, key, value
        self.recipe = Recipe(params, split if isinstance(tokenizer, Tokenizer) else None)
        self.max_bucket = bucket_limit(max_bucket)
        self.method = choose_method(verify, params)
        rows = signed(df, self.recipe, key=key, body=text, order=order, value=value)
        use_this_python(df.sparkSession)
        self.signed = persisted(rows, in_memory=False)

    @functools.cached_property
    def shared(self) -> SharedBuckets:
        """The buckets that several signatures share; computed."""
        bucket = sf.col("buckets").alias("bucket")
        posted = self._accepted.select(bucket, "signature_id", key_bucket("key"))
        return bucket_pairs(posted, max_bucket=self.max_bucket)

    @functools.cached_property
    def by(self) -> Comparison:
        """The comparison of candidate pairs."""
        return Comparison(self._accepted, self.recipe, self.method, self.recipe.params.level)

    @functools.cached_property
    def n_candidates(self) -> int:
        """The number of candidate pairs; those of large buckets are computed for it."""
        counts = self.shared.counts
        return (
            counted_rows(self.candidates, "pairing", "candidates") if counts.large else counts.pairs
        )

    @functools.cached_property
    def candidates(self) -> DataFrame:
        """Candidate pairs of signatures."""
        return candidates(self.shared, self.by)

    @functools.cached_property
    def edges(self) -> DataFrame:
        """Verified pairs of signatures."""
        return persisted(verified(self.candidates, self.by, n=self.n_candidates))

    @property
    def hidden(self) -> LargeBucketPairs:
        """What finds the pairs that large buckets hide."""
        return LargeBucketPairs(self.shared, self.by, self.max_bucket)

    @functools.cached_property
    def documents(self) -> DataFrame:
        """Every document."""
        return persisted(documents(self.signed, self.shared))

    def joined(self, edges: DataFrame) -> DataFrame:
        """Return the documents that have an edge or a copy, and a few others.

        Parameters
        ----------
        edges : DataFrame
            ``left`` and ``right``; read twice.
        """
        ids = ends_of(edges).unionByName(self.shared.copied_signatures())
        return persisted(documents(self.signed, self.shared, of=ids))

    @property
    def rejections(self) -> DataFrame:
        """The rows that are no documents."""
        is_paired = "shared" in self.__dict__
        may_repeat = not is_paired or self.shared.counts.repeated > 0
        return rejections(self.signed, may_repeat_keys=may_repeat)

    @property
    def _accepted(self) -> DataFrame:
        return self.signed.where("reason IS NULL")
