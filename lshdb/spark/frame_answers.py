"""The answers to questions about one data frame: pairs, clusters, which documents to keep.

:class:`Answers` makes documents of the rows, signs them, and finds and verifies pairs, as ``lshdb
add`` and ``lshdb pairs`` do. Each function asks one question. Nothing is stored for later. What one
stage gives to several others stays on the executors until :func:`lshdb.spark.release`, or until the
session ends.
"""

from __future__ import annotations

from typing import Self, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.arguments import Keep, Linkage, Only, check_choice, check_flag, check_whole
from lshdb.documents.formats.passthrough import MARKS
from lshdb.errors import ParameterError
from lshdb.groups.deduplication import ONLY, check_keep, field_name
from lshdb.groups.listing import LINKAGES
from lshdb.search.loss import Loss
from lshdb.spark.cached_frames import shuffled_bytes
from lshdb.spark.document_graph import DocumentGraph, clusters_of, decisions_of
from lshdb.spark.expansion import expanded, neighbors_of
from lshdb.spark.lost_pairs import lost_pairs
from lshdb.spark.named_jobs import named_job
from lshdb.spark.signing import column_name, column_of
from lshdb.spark.stages import FrameOptions, Stages

__all__ = [
    "Answers",
    "clusters",
    "dedup",
    "deduplicate",
    "large_buckets",
    "loss",
    "neighbors",
    "pairs",
    "rejected",
]


class Answers:
    """Answers to questions about one data frame, whose rows are signed and paired once.

    Rows are signed and paired when you first ask, and later stages planned for what was counted
    then.

    Parameters
    ----------
    df : DataFrame
        A document in each row. Rows that are no documents are left out (:meth:`rejected`).
    value : str, optional
        The column of ``keep="field:NAME"``.
    key : str
        The column of the keys, ``id`` by default: strings or whole numbers. If a key comes twice,
        the first document counts.
    text : str or sequence of str
        The column of the texts, ``text`` by default, or of the vectors, bits or weights of another
        metric. Texts of several columns are joined in that order, with a blank line between.
    order : str, optional
        The column by which one document is older than another. Of equals, and by default, the
        document with the smaller key is older.
    verify : {"none", "signature", "exact"}, optional
        As for :meth:`lshdb.Index.pairs`.
    max_bucket : int or "none", optional
        Join larger buckets through leaders, and leave out larger groups of exact copies; 1000 by
        default. ``"none"`` compares all pairs of all buckets.
    tokenizer : Tokenizer or str, optional
        As for :meth:`lshdb.Index.create`.
    **options
        Parameters of :meth:`lshdb.Index.create` by name (``threshold=0.7, k=3``).

    Raises
    ------
    ParameterError, TextNotStoredError

    Examples
    --------
    >>> answers = lshdb.spark.Answers(df, threshold=0.7)  # doctest: +SKIP
    >>> answers.pairs().count(), answers.rejected().count()  # doctest: +SKIP
    """

    def __init__(
        self, df: DataFrame, *, value: str | None = None, **options: Unpack[FrameOptions]
    ) -> None:
        self._stages = Stages(df, value, **options)

    @classmethod
    def of(cls, stages: Stages) -> Self:
        """Answer from stages that are planned already, or have run."""
        answers = cls.__new__(cls)
        answers._stages = stages
        return answers

    def pairs(self) -> DataFrame:
        """Return all near-duplicate pairs once: ``key1``, ``key2``, ``similarity``, ``method``.

        The pairs of ``lshdb add`` and ``lshdb pairs`` for the same rows, sorted by ``order`` and
        key.

        Returns
        -------
        DataFrame
            ``key1`` is the older document. For a distance metric also ``distance``.
        """
        stages = self._stages
        return expanded(
            stages.edges, stages.joined(stages.edges), stages.recipe.params,
            method=stages.method, max_bucket=stages.max_bucket,
        )  # fmt: skip

    def clusters(self, *, min_size: int = 2, linkage: Linkage = "component") -> DataFrame:
        """Return the clusters of near-duplicate documents: ``cluster``, ``size``, ``key``.

        There is a row for each document of a cluster, which is named after its oldest document.

        Parameters
        ----------
        min_size : int
            Fewest documents in a cluster.
        linkage : {"component", "representative"}
            As for :meth:`lshdb.Index.clusters`.

        Raises
        ------
        ParameterError
        """
        check_choice("linkage", linkage, LINKAGES)
        check_whole("min_size", min_size, 2)
        graph = DocumentGraph.of(self._stages, of_all=False, are_all=linkage != "component")
        return clusters_of(graph, min_size=min_size, linkage=linkage)

    def dedup(
        self, *, keep: Keep = "first", only: Only = "all", linkage: Linkage = "representative"
    ) -> DataFrame:
        """Decide for each document whether to keep it, and if not, which one is kept instead.

        A dropped document is verified to be similar to the one kept in its place. In buckets over
        ``max_bucket``, members are compared with those that ``keep`` prefers, until no two that are
        kept are found similar. Where that is too much, an :class:`lshdb.UncheckedWarning` estimates
        how many pairs are left.

        Parameters
        ----------
        keep : str
            ``first``, ``last``, ``longest``, ``shortest``, or ``field:NAME`` (``field:-NAME``) for
            the document with the largest (smallest) value of a column.
        only : {"all", "keep", "drop"}
            Which decisions to return.
        linkage : {"representative", "component"}
            ``component`` keeps one document of each connected component, though it may not be
            similar to those that are dropped for it: ``similarity`` and ``method`` are then null,
            but for copies.

        Returns
        -------
        DataFrame
            ``key``, ``decision`` (``keep`` or ``drop``), ``kept_key``, ``similarity``, ``method``;
            the last three are null for a document that is kept. For a distance metric also
            ``distance``.

        Raises
        ------
        ParameterError
            Also if ``keep`` names another column than ``value``.
        """
        check_choice("only", only, ONLY)
        check_choice("linkage", linkage, LINKAGES)
        self._check_keep(keep)
        return decisions_of(self._graph(linkage, only), keep, only, linkage)

    def _graph(self, linkage: str, only: str) -> DocumentGraph:
        """Return the pairs of documents, or enough of them to connect components.

        What is dropped has a pair or a copy, unless large buckets hide the pair.
        """
        of_all = only != "drop" or self._stages.shared.counts.large > 0
        return DocumentGraph.of(self._stages, of_all=of_all, are_all=linkage != "component")

    def deduplicate(
        self, *, keep: Keep = "first", mark: bool = False, linkage: Linkage = "representative"
    ) -> DataFrame:
        """Return the rows that do not repeat others; rows that are no documents are kept.

        Parameters
        ----------
        keep : str
            As for :meth:`dedup`.
        mark : bool
            Return all rows, with four more columns: ``lshdb_keep`` (whether the row is kept),
            ``lshdb_cluster`` (the key that names its cluster), ``lshdb_kept_as`` (the key that is
            kept instead) and ``lshdb_similarity``.
        linkage : {"representative", "component"}
            As for :meth:`dedup`.

        Returns
        -------
        DataFrame
            All rows of one key are kept or dropped together.

        Raises
        ------
        ParameterError
            Also if the data frame is marked already.
        """
        self._check_keep(keep)
        check_flag("mark", mark)
        df, key = self._stages.df, self._stages.key
        marked = [name for name in MARKS if name in df.columns]
        if mark and marked:
            raise ParameterError(
                f"the data frame has a column {marked[0]!r} already: it is marked",
                hint="remove these columns first",
            )
        check_choice("linkage", linkage, LINKAGES)
        graph = self._graph(linkage, "drop")
        names = ["key", "decision", "kept_key", "similarity"]
        drops = decisions_of(graph, keep, "drop", linkage).select(*names)
        drops = drops.withColumnsRenamed({name: f"lshdb_{name}" for name in names})
        own = column_of(df, key).cast("string")
        if not mark:
            return df.join(drops, own == drops["lshdb_key"], "anti")
        members = clusters_of(graph, min_size=2, linkage="component")
        members = members.select(
            sf.col("cluster").alias("lshdb_cluster"), sf.col("key").alias("_key")
        )
        rows = df.join(drops, own == drops["lshdb_key"], "left")
        rows = rows.join(members, own == members["_key"], "left")
        marks = (
            sf.isnull(drops["lshdb_decision"]).alias("lshdb_keep"), members["lshdb_cluster"],
            drops["lshdb_kept_key"].alias("lshdb_kept_as"), drops["lshdb_similarity"],
        )  # fmt: skip
        return rows.select(*(df[column_name(name)] for name in df.columns), *marks)

    def neighbors(self, *, top: int = 10) -> DataFrame:
        """Return the most similar documents of every document, of those at the threshold.

        Parameters
        ----------
        top : int
            Most neighbours of a document.

        Returns
        -------
        DataFrame
            ``key``, ``rank`` (from 1), ``neighbor``, ``similarity``, ``method``. Among equally
            similar documents the oldest come first.

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
        """Return the rows that are no documents: ``key`` and ``reason``. Rows are signed for it."""
        return self._stages.rejections

    def metrics(self) -> dict[str, int]:
        """Count what the stages had to do; they run, if they have not yet.

        Returns
        -------
        dict of str to int
            ``rows``; ``documents`` and ``rejected`` ones of them; ``postings``, one for each band
            of a row with a signature; ``candidates``, pairs of signatures to compare; ``verified``
            ones of them; and ``shuffled``, the bytes that tasks sent to others until pairs were
            verified. A client of Connect does not know these.
        """
        stages, bands = self._stages, self._stages.recipe.params.bands
        session = stages.df.sparkSession
        with named_job(session, "counting") as counts:
            columns = sf.count("*"), sf.count("signature_id")
            ((n_rows, n_signed),) = stages.signed.agg(*columns).collect()
            n_rejected = stages.rejections.count()
            counts |= {
                "rows": n_rows, "documents": n_rows - n_rejected, "rejected": n_rejected,
                "postings": n_signed * bands,
                "candidates": stages.n_candidates,
                "verified": stages.edges.count(),
            }  # fmt: skip
            n_bytes = shuffled_bytes(stages.edges)
            if n_bytes is not None:
                counts["shuffled"] = n_bytes
        return counts

    def large_buckets(self) -> DataFrame:
        """Return the buckets that are joined through leaders: ``bucket`` and ``size``.

        Not every pair in them is compared. Empty if none has more than ``max_bucket`` signatures.
        """
        return self._stages.shared.large_buckets()

    def loss(self) -> Loss:
        """Estimate which share of the near-duplicate pairs ``max_bucket`` hides from :meth:`pairs`.

        Some 40,000 pairs of members of large buckets are drawn and compared, at once.

        Returns
        -------
        Loss
            Of pairs of documents: ``share``, between ``low`` and ``high`` with a confidence of
            99 %. All are 0 if no bucket and no group of copies has more than ``max_bucket``.
        """
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


def pairs(df: DataFrame, **options: Unpack[FrameOptions]) -> DataFrame:
    """Return all near-duplicate pairs (:meth:`Answers.pairs`)."""
    return Answers.of(Stages(df, **options)).pairs()


def clusters(
    df: DataFrame,
    *,
    min_size: int = 2,
    linkage: Linkage = "component",
    **options: Unpack[FrameOptions],
) -> DataFrame:
    """Return the clusters of near-duplicate documents (:meth:`Answers.clusters`)."""
    return Answers.of(Stages(df, **options)).clusters(min_size=min_size, linkage=linkage)


def dedup(
    df: DataFrame,
    *,
    keep: Keep = "first",
    only: Only = "all",
    linkage: Linkage = "representative",
    **options: Unpack[FrameOptions],
) -> DataFrame:
    """Decide for each document whether to keep it (:meth:`Answers.dedup`)."""
    return Answers.of(Stages(df, field_name(keep), **options)).dedup(
        keep=keep, only=only, linkage=linkage
    )


def deduplicate(
    df: DataFrame,
    *,
    keep: Keep = "first",
    mark: bool = False,
    linkage: Linkage = "representative",
    **options: Unpack[FrameOptions],
) -> DataFrame:
    """Return the rows that do not repeat others (:meth:`Answers.deduplicate`)."""
    return Answers.of(Stages(df, field_name(keep), **options)).deduplicate(
        keep=keep, mark=mark, linkage=linkage
    )


def neighbors(df: DataFrame, *, top: int = 10, **options: Unpack[FrameOptions]) -> DataFrame:
    """Return the documents most similar to each (:meth:`Answers.neighbors`)."""
    return Answers.of(Stages(df, **options)).neighbors(top=top)


def rejected(df: DataFrame, **options: Unpack[FrameOptions]) -> DataFrame:
    """Return the rows that are no documents (:meth:`Answers.rejected`); runs on use."""
    return Answers.of(Stages(df, **options)).rejected()


def large_buckets(df: DataFrame, **options: Unpack[FrameOptions]) -> DataFrame:
    """Return the buckets joined through leaders (:meth:`Answers.large_buckets`)."""
    return Answers.of(Stages(df, **options)).large_buckets()


def loss(df: DataFrame, **options: Unpack[FrameOptions]) -> Loss:
    """Estimate the share of pairs that ``max_bucket`` hides (:meth:`Answers.loss`)."""
    return Answers.of(Stages(df, **options)).loss()
