"""What is asked of a data frame: pairs, clusters, which documents to keep, and neighbours.

Every question makes documents of the rows, signs them, and finds and verifies pairs, as ``lshdb
add`` and ``lshdb pairs`` do. Nothing is stored for later. What a stage gives to several others is
kept on the executors until :func:`lshdb.spark.release`, or until the session ends.

:func:`pairs`, :func:`neighbors`, :func:`rejected` and :func:`large_buckets` compute nothing before
you use their answers. The others count and connect pairs first, so they begin when you call them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.arguments import Keep, Linkage, Only, Verify, check_choice, check_flag, check_whole
from lshdb.clusters.deduplication import ONLY, check_keep, field_name
from lshdb.clusters.listing import LINKAGES
from lshdb.documents.formats.passthrough import MARKS
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.params.options import CreateOptions, Parameters
from lshdb.search.loss import Loss
from lshdb.search.verification import check_limits, choose_method
from lshdb.spark import pairing
from lshdb.spark.comparison import verified
from lshdb.spark.connecting import connecting_pairs
from lshdb.spark.document_rows import documents, rejections
from lshdb.spark.expansion import age, copy_groups, distances, expanded, neighbors_of
from lshdb.spark.grouping import components, cut, representatives
from lshdb.spark.hidden_pairs import HiddenPairs
from lshdb.spark.keeping import kept
from lshdb.spark.lost_pairs import lost_pairs
from lshdb.spark.pairing import (
    MAX_BUCKET,
    Comparison,
    bucket_pairs,
    candidates,
    copied_signatures,
    ends_of,
    key_bucket,
    repeated_keys,
)
from lshdb.spark.signing import (
    Recipe,
    column_name,
    column_of,
    refuse_passages,
    signed,
)
from lshdb.tokenizers import Tokenizer, given_tokenizer

__all__ = [
    "Linked",
    "clusters",
    "clusters_of",
    "decisions_of",
    "dedup",
    "deduplicate",
    "large_buckets",
    "loss",
    "neighbors",
    "pairs",
    "rejected",
]


@dataclass(frozen=True, slots=True)
class _Question:
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


class _Stages:
    """The stages up to verified pairs of signatures, none of which has run yet.

    Attributes
    ----------
    recipe : Recipe
    method : str
    max_bucket : int or None
    signed : DataFrame
        Every row, signed or rejected.
    met : DataFrame
        Pairs of small buckets, and large buckets.
    by : Comparison
    found : DataFrame
        Candidate pairs of signatures.
    edges : DataFrame
        Verified pairs of signatures.
    hidden : HiddenPairs
        What large buckets hide of them.
    """

    def __init__(self, asked: _Question, *, value: str | None = None) -> None:
        given = given_tokenizer(asked.tokenizer)
        recorded = "" if given is None else given.recorded
        params = CreateOptions(**asked.parameters, tokenizer=recorded).params()
        refuse_passages(params)
        self.recipe = Recipe(params, given if isinstance(asked.tokenizer, Tokenizer) else None)
        check_limits(asked.max_bucket)
        most = MAX_BUCKET if asked.max_bucket is None else asked.max_bucket
        self.max_bucket = None if isinstance(most, str) else most
        self.method = choose_method(asked.verify, params)
        rows = signed(
            asked.df, self.recipe, key=asked.key, body=asked.text, order=asked.order, value=value
        )
        self.signed = kept(rows, in_memory=False)
        good = self.signed.where("reason IS NULL")
        posted = good.select(sf.col("buckets").alias("bucket"), "signature_id", key_bucket("key"))
        self.met = kept(bucket_pairs(posted, max_bucket=self.max_bucket))
        self.by = Comparison(good, self.recipe, self.method, params.level)
        self.found = candidates(self.met, self.by)
        self.edges = kept(verified(self.found, self.by))
        self.hidden = HiddenPairs(self.met, self.by, self.max_bucket)

    @functools.cached_property
    def documents(self) -> DataFrame:
        """Every document."""
        return kept(documents(self.signed, self.met))

    def joined(self, edges: DataFrame) -> DataFrame:
        """Return the documents that edges or a common signature join with others, and few others.

        Parameters
        ----------
        edges : DataFrame
            ``left`` and ``right``; read twice.
        """
        some = ends_of(edges).unionByName(copied_signatures(self.met))
        return kept(documents(self.signed, self.met, of=some))


@dataclass(frozen=True, slots=True)
class Linked:
    """Documents and the verified pairs that join them, computed.

    Attributes
    ----------
    params : IndexParams
    method : str
        How pairs were verified.
    documents : DataFrame
    edges : DataFrame
        All verified pairs of signatures, or as many as connect what all of them connect.
    nodes : DataFrame
        ``signature_id`` and ``root`` of every end of an edge.
    hidden : HiddenPairs
        What large buckets hide of the edges.
    """

    params: IndexParams
    method: str
    documents: DataFrame
    edges: DataFrame
    nodes: DataFrame
    hidden: HiddenPairs

    @classmethod
    def of(cls, stages: _Stages, *, of_all: bool, are_all: bool = True) -> Linked:
        """Compute the pairs, or as many as connect all, and connect them.

        Parameters
        ----------
        stages : _Stages
        of_all : bool
            Whether every document is needed, or those that pairs or a common signature join.
        are_all : bool
            Whether all pairs are needed.
        """
        pairs = stages.edges if are_all else stages.found
        if not repeated_keys(stages.met).isEmpty():
            # A signature that only rejected rows have joins nothing.
            ids = stages.documents.select("signature_id").distinct()
            left, right = ids.toDF("left"), ids.toDF("right")
            pairs = pairs.join(left, "left", "semi").join(right, "right", "semi")
        edges = cut(pairs) if are_all else connecting_pairs(pairs, stages.by)
        held = stages.documents if of_all else stages.joined(edges)
        return cls(
            stages.recipe.params, stages.method, held, edges, components(edges), stages.hidden
        )

    def with_copies(self) -> DataFrame:
        """Return the nodes, and the signatures without an edge that several documents have."""
        alone = copy_groups(self.documents).join(self.nodes, "signature_id", "anti")
        same = sf.col("signature_id").alias("root")
        return self.nodes.unionByName(alone.select("signature_id", same))

    def chosen(self, preference: list[Column]) -> DataFrame:
        """Return (signature_id, chosen, similarity, speaker, speaker_age) of all with copies.

        ``speaker`` is the key of the document that stands for the chosen signature.
        """
        first = Window.partitionBy("signature_id").orderBy(*preference)
        shown = self.documents.where("signature_id IS NOT NULL")
        speakers = shown.withColumn("at", sf.row_number().over(first)).where("at = 1").drop("at")
        nodes = self.with_copies()
        rows = speakers.join(nodes, "signature_id")
        edges = self.edges.join(nodes.toDF("left", "root"), "left")
        found = representatives(rows, edges, preference)
        names = speakers.select(
            sf.col("signature_id").alias("chosen"), sf.col("key").alias("speaker"),
            age().alias("speaker_age"),
        )  # fmt: skip
        return found.join(names, "chosen")

    def finally_chosen(self, preference: list[Column]) -> DataFrame:
        """Return the same once no two that are kept are found to be similar in large buckets."""
        chosen = self.chosen(preference)
        if self.hidden.is_empty():
            return chosen
        shown = self.documents.select("signature_id")
        chosen = cut(chosen)
        gone = chosen.where("signature_id != chosen").select("signature_id")
        found = cut(self.hidden.among(shown, gone))
        if found.isEmpty():
            return chosen
        edges = cut(self.edges.unionByName(found))
        return replace(self, edges=edges, nodes=components(edges)).finally_chosen(preference)


def pairs(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return all near-duplicate pairs, each once: ``key1``, ``key2``, ``similarity``, ``method``.

    The pairs of ``lshdb add`` and ``lshdb pairs`` for the same rows, sorted by ``order`` and key.

    Parameters
    ----------
    df : DataFrame
        A document in each row. Rows that are no documents are left out (:func:`rejected`).
    key : str
        The column of the keys: strings or whole numbers. Of a key that comes twice, the first
        document counts.
    text : str or sequence of str
        The column of the texts, or of the vectors, bits or weights of another metric. Texts of
        several columns are joined in that order, with a blank line between.
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
    **parameters
        Parameters of :meth:`lshdb.Index.create` by name (``threshold=0.7, k=3``).

    Returns
    -------
    DataFrame
        ``key1`` is the older document. For a distance metric also ``distance``.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    stages = _Stages(_Question(df, key, text, order, verify, max_bucket, tokenizer, parameters))
    return expanded(
        stages.edges, stages.joined(stages.edges), stages.recipe.params,
        method=stages.method, max_bucket=stages.max_bucket,
    )  # fmt: skip


def clusters(
    df: DataFrame,
    *,
    min_size: int = 2,
    linkage: Linkage = "component",
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the clusters of near-duplicate documents: ``cluster``, ``size``, ``key``.

    A row for each document of a cluster, which is named after its oldest document.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    min_size : int
        Fewest documents in a cluster.
    linkage : {"component", "representative"}
        As for :meth:`lshdb.Index.clusters`.

    Returns
    -------
    DataFrame

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    check_choice("linkage", linkage, LINKAGES)
    check_whole("min_size", min_size, 2)
    stages = _Stages(_Question(df, key, text, order, verify, max_bucket, tokenizer, parameters))
    linked = Linked.of(stages, of_all=False, are_all=linkage != "component")
    return clusters_of(linked, min_size=min_size, linkage=linkage)


def clusters_of(linked: Linked, *, min_size: int, linkage: str) -> DataFrame:
    """Return ``cluster``, ``size`` and ``key`` of the documents in clusters."""
    if linkage == "component":
        nodes = linked.with_copies()
    else:
        chosen = linked.chosen([age()])
        nodes = chosen.select("signature_id", sf.col("chosen").alias("root"))
    members = kept(linked.documents.join(nodes, "signature_id"))
    is_named = sf.lit(True) if linkage == "component" else sf.col("signature_id") == sf.col("root")
    named = members.groupBy("root").agg(
        sf.min_by(sf.when(is_named, sf.col("key")), sf.when(is_named, age())).alias("cluster"),
        sf.count("*").alias("size"),
    )
    found = members.join(named.where(sf.col("size") >= min_size), "root")
    return found.select("cluster", "size", "key")


def dedup(
    df: DataFrame,
    *,
    keep: Keep = "first",
    only: Only = "all",
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Decide for each document whether to keep it, and if not, which one is kept instead.

    A dropped document is verified to be similar to the one kept in its place. What is kept is
    looked up once more in buckets over ``max_bucket``, until no two there are found similar.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    keep : str
        ``first``, ``last``, ``longest``, ``shortest``, or ``field:NAME`` (``field:-NAME``) for the
        document with the largest (smallest) value of a column.
    only : {"all", "keep", "drop"}
        Which decisions to give.

    Returns
    -------
    DataFrame
        ``key``, ``decision`` (``keep`` or ``drop``), ``kept_key``, ``similarity``, ``method``; the
        last three are null for a document that is kept. For a distance metric also ``distance``.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    check_choice("only", only, ONLY)
    check_keep(keep)
    stages = _Stages(
        _Question(df, key, text, order, verify, max_bucket, tokenizer, parameters),
        value=field_name(keep),
    )
    found = decisions_of(Linked.of(stages, of_all=True), keep)
    return found if only == "all" else found.where(sf.col("decision") == only)


def decisions_of(linked: Linked, keep: str) -> DataFrame:
    """Return what :func:`dedup` says of each document."""
    params, method = linked.params, linked.method
    chosen = linked.finally_chosen(_preference(keep))
    best = sf.lit(params.curve.best).cast("double")
    found = linked.documents.join(chosen, "signature_id", "left").withColumn(
        "similarity", sf.coalesce("similarity", best)
    )
    drops = sf.coalesce(sf.col("speaker") != sf.col("key"), sf.lit(False))
    of_dropped = (
        sf.col("speaker").alias("kept_key"), sf.col("similarity"), sf.lit(method).alias("method"),
        *distances(params),
    )  # fmt: skip
    decision = sf.when(drops, "drop").otherwise("keep").alias("decision")
    told = found.select("key", decision, *of_dropped)
    is_dropped = sf.col("decision") == "drop"
    return told.select(
        "key", "decision",
        *(sf.when(is_dropped, sf.col(name)).alias(name) for name in told.columns[2:]),
    )  # fmt: skip


def _preference(keep: str) -> list[Column]:
    """Return what orders documents, the most preferred first; equals are taken oldest first."""
    if keep == "first":
        return [age()]
    if keep == "last":
        return [age().desc()]
    if field_name(keep) is None:
        size = sf.col("n_chars")
        return [size.desc() if keep == "longest" else size.asc(), age()]
    value = sf.col("value")
    is_least = keep.startswith("field:-")
    return [value.asc_nulls_last() if is_least else value.desc_nulls_last(), age()]


def deduplicate(
    df: DataFrame,
    *,
    keep: Keep = "first",
    mark: bool = False,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the rows that do not repeat others; rows that are no documents are kept.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    keep : str
        As for :func:`dedup`.
    mark : bool
        Return all rows, with four more columns: ``lshdb_keep`` (whether the row is kept),
        ``lshdb_cluster`` (the key that names its cluster), ``lshdb_kept_as`` (the key that is kept
        instead) and ``lshdb_similarity``.

    Returns
    -------
    DataFrame
        All rows of one key are kept or dropped together.

    Raises
    ------
    ParameterError, TextNotStoredError
        Also if the data frame is marked already.
    """
    check_keep(keep)
    check_flag("mark", mark)
    question = _Question(df, key, text, order, verify, max_bucket, tokenizer, parameters)
    marked = [name for name in MARKS if name in df.columns]
    if mark and marked:
        raise ParameterError(
            f"the data frame has a column {marked[0]!r} already: it is marked",
            hint="remove these columns first",
        )
    stages = _Stages(question, value=field_name(keep))
    linked = Linked.of(stages, of_all=True)
    names = ["key", "decision", "kept_key", "similarity"]
    found = decisions_of(linked, keep).where("decision = 'drop'").select(*names)
    found = found.withColumnsRenamed({name: f"lshdb_{name}" for name in names})
    own = column_of(df, key).cast("string")
    if not mark:
        return df.join(found, own == found["lshdb_key"], "anti")
    named = clusters_of(linked, min_size=2, linkage="component")
    named = named.select(sf.col("cluster").alias("lshdb_cluster"), sf.col("key").alias("_key"))
    both = df.join(found, own == found["lshdb_key"], "left").join(
        named, own == named["_key"], "left"
    )
    marks = (
        sf.isnull("lshdb_decision").alias("lshdb_keep"), sf.col("lshdb_cluster"),
        sf.col("lshdb_kept_key").alias("lshdb_kept_as"), sf.col("lshdb_similarity"),
    )  # fmt: skip
    return both.select(*(df[column_name(name)] for name in df.columns), *marks)


def neighbors(
    df: DataFrame,
    *,
    top: int = 10,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the most similar documents of every document, of those at the threshold.

    Parameters
    ----------
    df, key, text, order, verify, max_bucket, tokenizer, **parameters
        As for :func:`pairs`.
    top : int
        Most neighbours of a document.

    Returns
    -------
    DataFrame
        ``key``, ``rank`` (from 1), ``neighbor``, ``similarity``, ``method``. Among equally similar
        documents the oldest come first.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    check_whole("top", top, 1)
    stages = _Stages(_Question(df, key, text, order, verify, max_bucket, tokenizer, parameters))
    return neighbors_of(
        stages.edges,
        stages.joined(stages.edges),
        stages.recipe.params,
        method=stages.method,
        top=top,
    )


def rejected(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the rows that are no documents: ``key`` and ``reason``.

    Parameters are as for :func:`pairs`. The rows are signed for it.

    Raises
    ------
    ParameterError
    """
    asked = _Question(df, key, text, order, None, None, tokenizer, parameters)
    return rejections(_Stages(asked).signed)


def large_buckets(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> DataFrame:
    """Return the buckets that are joined through leaders: ``bucket`` and ``size``.

    Not every pair in them is compared. Empty if none has more than ``max_bucket`` signatures.

    Parameters are as for :func:`pairs`.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    stages = _Stages(_Question(df, key, text, order, verify, max_bucket, tokenizer, parameters))
    return pairing.large_buckets(stages.met)


def loss(
    df: DataFrame,
    *,
    key: str = "id",
    text: str | Sequence[str] = "text",
    order: str | None = None,
    verify: Verify | None = None,
    max_bucket: int | str | None = None,
    tokenizer: Tokenizer | str | None = None,
    **parameters: Unpack[Parameters],
) -> Loss:
    """Estimate which share of the near-duplicate pairs ``max_bucket`` hides from :func:`pairs`.

    Some 40,000 pairs of members of large buckets are drawn and compared. Computed at once.

    Parameters are as for :func:`pairs`.

    Returns
    -------
    Loss
        Of pairs of documents: ``share``, between ``low`` and ``high`` with a confidence of 99 %.
        All are 0 if no bucket and no group of copies has more than ``max_bucket``.

    Raises
    ------
    ParameterError, TextNotStoredError
    """
    stages = _Stages(_Question(df, key, text, order, verify, max_bucket, tokenizer, parameters))
    return lost_pairs(stages.edges, stages.documents, stages.hidden)
