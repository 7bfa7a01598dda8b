"""Rows of a data frame -> documents, candidate pairs and verified pairs: what questions begin with.

Nothing runs before somebody uses an answer, so a plan has to expect large buckets, keys that come
twice, and any number of candidates; nearly always there are no large buckets and no such keys.
Where the answer is wanted in any case, rows are signed and paired at once, and what follows is
planned for what there is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

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
from lshdb.spark.pairing import SharedBuckets, bucket_limit, bucket_pairs, ends_of, key_bucket
from lshdb.spark.signing import Recipe, refuse_passages, signed
from lshdb.tokenizers import Tokenizer, given_tokenizer

__all__ = ["Question", "Stages"]


@dataclass(frozen=True, slots=True)
class Question:
    """What every question is given.

    Attributes
    ----------
    df : DataFrame
    key : str
    text : str or sequence of str
    order : str or None
    verify : str or None
    max_bucket : int, "none" or None
    tokenizer : Tokenizer, str or None
    parameters : Parameters
    """

    df: DataFrame
    key: str
    text: str | Sequence[str]
    order: str | None
    verify: Verify | None
    max_bucket: int | str | None
    tokenizer: Tokenizer | str | None
    parameters: Parameters


class Stages:
    """The stages up to verified pairs of signatures, each planned when it is first asked for.

    Attributes
    ----------
    asked : Question
    value : str or None
        The column that went along.
    recipe : Recipe
    method : str
    max_bucket : int or None
    signed : DataFrame
        Every row, signed or rejected.
    """

    def __init__(self, asked: Question, *, value: str | None = None, at_once: bool = False) -> None:
        """Plan the first stage.

        Parameters
        ----------
        asked : Question
        value : str, optional
            A column to go along.
        at_once : bool
            Sign and pair rows as soon as a later stage is asked for.
        """
        given = given_tokenizer(asked.tokenizer)
        recorded = "" if given is None else given.recorded
        check_parameters(
            "lshdb.spark", asked.parameters,
            "key", "text", "order", "verify", "max_bucket", "tokenizer",
        )  # fmt: skip
        params = CreateOptions(**asked.parameters, tokenizer=recorded).params()
        refuse_passages(params)
        self.asked, self.value, self._at_once = asked, value, at_once
        self.recipe = Recipe(params, given if isinstance(asked.tokenizer, Tokenizer) else None)
        self.max_bucket = bucket_limit(asked.max_bucket)
        self.method = choose_method(asked.verify, params)
        rows = signed(
            asked.df, self.recipe, key=asked.key, body=asked.text, order=asked.order, value=value
        )
        self.signed = persisted(rows, in_memory=False)
        self._shared: SharedBuckets | None = None

    @property
    def shared(self) -> SharedBuckets:
        """What postings have in common."""
        if self._shared is None:
            bucket = sf.col("buckets").alias("bucket")
            posted = self._good.select(bucket, "signature_id", key_bucket("key"))
            shared = bucket_pairs(posted, max_bucket=self.max_bucket)
            self._shared = shared.counted() if self._at_once else shared
        return self._shared

    @functools.cached_property
    def by(self) -> Comparison:
        """What pairs are compared by."""
        return Comparison(self._good, self.recipe, self.method, self.recipe.params.level)

    @property
    def n_candidates(self) -> int | None:
        """How many candidate pairs there are, if that is known."""
        counts = self.shared.counts
        return None if counts is None or counts.large else counts.pairs

    @functools.cached_property
    def found(self) -> DataFrame:
        """Candidate pairs of signatures."""
        return candidates(self.shared, self.by)

    @functools.cached_property
    def edges(self) -> DataFrame:
        """Verified pairs of signatures."""
        return persisted(verified(self.found, self.by, n=self.n_candidates))

    @property
    def hidden(self) -> LargeBucketPairs:
        """What large buckets hide of them."""
        return LargeBucketPairs(self.shared, self.by, self.max_bucket)

    @functools.cached_property
    def documents(self) -> DataFrame:
        """Every document."""
        return persisted(documents(self.signed, self.shared))

    def joined(self, edges: DataFrame) -> DataFrame:
        """Return the documents that edges or a common signature join with others, and few others.

        Parameters
        ----------
        edges : DataFrame
            ``left`` and ``right``; read twice.
        """
        some = ends_of(edges).unionByName(self.shared.copied_signatures())
        return persisted(documents(self.signed, self.shared, of=some))

    @property
    def rejections(self) -> DataFrame:
        """The rows that are no documents."""
        may_repeat = self._shared is None or self._shared.may_repeat_keys
        return rejections(self.signed, may_repeat_keys=may_repeat)

    @property
    def _good(self) -> DataFrame:
        return self.signed.where("reason IS NULL")
