"""What is asked of a data frame, answered from stages that several questions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.arguments import Keep, Linkage, Only, Verify, check_choice, check_flag, check_whole
from lshdb.clusters.deduplication import ONLY, check_keep, field_name
from lshdb.clusters.listing import LINKAGES
from lshdb.documents.formats.passthrough import MARKS
from lshdb.errors import ParameterError
from lshdb.params.options import Parameters
from lshdb.search.loss import Loss
from lshdb.spark.document_graph import DocumentGraph, clusters_of, decisions_of
from lshdb.spark.expansion import expanded, neighbors_of
from lshdb.spark.lost_pairs import lost_pairs
from lshdb.spark.signing import column_name, column_of
from lshdb.spark.stages import Question, Stages
from lshdb.tokenizers import Tokenizer

__all__ = ["Answers"]


class Answers:
    """Answers to several questions about one data frame, whose rows are signed and paired once.

    They are those of the functions of the same names. Rows are signed and paired when you first
    ask, and what follows is planned for what there is, so an answer takes a tenth to a seventh less
    time than one that computes nothing before you use it.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`lshdb.spark.pairs`.
    value : str, optional
        The column of ``keep="field:NAME"``.

    Raises
    ------
    ParameterError, TextNotStoredError

    Examples
    --------
    >>> answers = lshdb.spark.Answers(df, threshold=0.7)  # doctest: +SKIP
    >>> answers.pairs().count(), answers.rejected().count()  # doctest: +SKIP
    """

    def __init__(
        self,
        df: DataFrame,
        *,
        key: str = "id",
        text: str | Sequence[str] = "text",
        order: str | None = None,
        value: str | None = None,
        verify: Verify | None = None,
        max_bucket: int | str | None = None,
        tokenizer: Tokenizer | str | None = None,
        **parameters: Unpack[Parameters],
    ) -> None:
        asked = Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
        self._stages = Stages(asked, value=value, at_once=True)

    @classmethod
    def of(cls, stages: Stages) -> Self:
        """Answer from stages that are planned already, or have run."""
        found = cls.__new__(cls)
        found._stages = stages
        return found

    def pairs(self) -> DataFrame:
        """Return all near-duplicate pairs (:func:`lshdb.spark.pairs`)."""
        stages = self._stages
        return expanded(
            stages.edges, stages.joined(stages.edges), stages.recipe.params,
            method=stages.method, max_bucket=stages.max_bucket,
        )  # fmt: skip

    def clusters(self, *, min_size: int = 2, linkage: Linkage = "component") -> DataFrame:
        """Return the clusters of near-duplicate documents (:func:`lshdb.spark.clusters`).

        Raises
        ------
        ParameterError
        """
        check_choice("linkage", linkage, LINKAGES)
        check_whole("min_size", min_size, 2)
        graph = DocumentGraph.of(self._stages, of_all=False, are_all=linkage != "component")
        return clusters_of(graph, min_size=min_size, linkage=linkage)

    def dedup(self, *, keep: Keep = "first", only: Only = "all") -> DataFrame:
        """Decide for each document whether to keep it (:func:`lshdb.spark.dedup`).

        Raises
        ------
        ParameterError
            Also if ``keep`` is of a column that was not named as ``value``.
        """
        check_choice("only", only, ONLY)
        self._check_keep(keep)
        return decisions_of(DocumentGraph.of(self._stages, of_all=True), keep, only)

    def deduplicate(self, *, keep: Keep = "first", mark: bool = False) -> DataFrame:
        """Return the rows that do not repeat others (:func:`lshdb.spark.deduplicate`).

        Raises
        ------
        ParameterError
            Also if the data frame is marked already.
        """
        self._check_keep(keep)
        check_flag("mark", mark)
        df, key = self._stages.asked.df, self._stages.asked.key
        marked = [name for name in MARKS if name in df.columns]
        if mark and marked:
            raise ParameterError(
                f"the data frame has a column {marked[0]!r} already: it is marked",
                hint="remove these columns first",
            )
        graph = DocumentGraph.of(self._stages, of_all=True)
        names = ["key", "decision", "kept_key", "similarity"]
        found = decisions_of(graph, keep, "drop").select(*names)
        found = found.withColumnsRenamed({name: f"lshdb_{name}" for name in names})
        own = column_of(df, key).cast("string")
        if not mark:
            return df.join(found, own == found["lshdb_key"], "anti")
        named = clusters_of(graph, min_size=2, linkage="component")
        named = named.select(sf.col("cluster").alias("lshdb_cluster"), sf.col("key").alias("_key"))
        both = df.join(found, own == found["lshdb_key"], "left").join(
            named, own == named["_key"], "left"
        )
        marks = (
            sf.isnull("lshdb_decision").alias("lshdb_keep"), sf.col("lshdb_cluster"),
            sf.col("lshdb_kept_key").alias("lshdb_kept_as"), sf.col("lshdb_similarity"),
        )  # fmt: skip
        return both.select(*(df[column_name(name)] for name in df.columns), *marks)

    def neighbors(self, *, top: int = 10) -> DataFrame:
        """Return the most similar documents of every document (:func:`lshdb.spark.neighbors`).

        Raises
        ------
        ParameterError
        """
        check_whole("top", top, 1)
        stages = self._stages
        return neighbors_of(
            stages.edges, stages.joined(stages.edges), stages.recipe.params,
            method=stages.method, top=top,
        )  # fmt: skip

    def rejected(self) -> DataFrame:
        """Return the rows that are no documents (:func:`lshdb.spark.rejected`)."""
        return self._stages.rejections

    def large_buckets(self) -> DataFrame:
        """Return the buckets joined through leaders (:func:`lshdb.spark.large_buckets`)."""
        return self._stages.shared.large_buckets()

    def loss(self) -> Loss:
        """Estimate the share of pairs that ``max_bucket`` hides (:func:`lshdb.spark.loss`)."""
        stages = self._stages
        return lost_pairs(stages.edges, stages.documents, stages.hidden)

    def _check_keep(self, keep: str) -> None:
        check_keep(keep)
        name = field_name(keep)
        if name not in (None, self._stages.value):
            raise ParameterError(
                f"keep is {keep!r}, and the column {name!r} was not read",
                hint=f"name it when you ask: Answers(..., value={name!r})",
            )
