"""A graph of documents and verified pairs -> clusters, and which documents to keep."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.groups.deduplication import cannot_compare, field_name, unordered
from lshdb.params.index_params import IndexParams
from lshdb.search.loss import warn_unchecked
from lshdb.spark.cached_frames import persisted
from lshdb.spark.expansion import age, copy_groups, distances
from lshdb.spark.grouping import components, cut, representatives
from lshdb.spark.large_bucket_pairs import LargeBucketPairs
from lshdb.spark.lost_pairs import drawn_pairs
from lshdb.spark.named_jobs import named_job
from lshdb.spark.pairing import short_id
from lshdb.spark.spanning_pairs import spanning_pairs
from lshdb.spark.stages import Stages

__all__ = ["DocumentGraph", "clusters_of", "decisions_of"]

ROUNDS = 8
"""Most rounds of comparing documents to keep; a family takes one, and so does boilerplate."""


@dataclass(frozen=True, slots=True)
class DocumentGraph:
    """Documents and the verified pairs between them, computed.

    Attributes
    ----------
    params : IndexParams
        The parameters of signatures and comparison.
    method : str
        How pairs were verified.
    documents : DataFrame
        ``signature_id``, ``key``, ``place``, ``value``, ``n_chars``.
    edges : DataFrame
        All verified pairs of signatures, or enough of them to have the same components.
    nodes : DataFrame
        ``signature_id`` and ``root`` of every end of an edge.
    hidden : LargeBucketPairs
        Finds the pairs that large buckets hide.
    """

    params: IndexParams
    method: str
    documents: DataFrame
    edges: DataFrame
    nodes: DataFrame
    hidden: LargeBucketPairs

    @classmethod
    def of(cls, stages: Stages, *, of_all: bool, are_all: bool = True) -> DocumentGraph:
        """Compute the pairs and their connected components.

        Parameters
        ----------
        stages : Stages
            The stages up to verified pairs.
        of_all : bool
            Whether every document is needed, or only documents with an edge or a copy.
        are_all : bool
            Whether all pairs are needed, or only enough for the components.
        """
        pairs = stages.edges if are_all else stages.candidates
        n: int | None = stages.n_candidates
        if stages.shared.counts.repeated:
            n = None
            # Leave out signatures that only rejected rows have; candidates have short ids.
            named = sf.col("signature_id") if are_all else short_id("signature_id")
            ids = stages.documents.select(named).distinct()
            left, right = ids.toDF("left"), ids.toDF("right")
            pairs = pairs.join(left, "left", "semi").join(right, "right", "semi")
        if are_all:
            with named_job(pairs.sparkSession, "comparing pairs"):
                edges = cut(pairs)
        else:
            edges = spanning_pairs(pairs, stages.by, n)
        documents = stages.documents if of_all else stages.joined(edges)
        return cls(
            stages.recipe.params, stages.method, documents, edges, components(edges), stages.hidden
        )

    def with_copies(self) -> DataFrame:
        """Return the nodes, and signatures without an edge that several documents share."""
        alone = copy_groups(self.documents).join(self.nodes, "signature_id", "anti")
        same = sf.col("signature_id").alias("root")
        return self.nodes.unionByName(alone.select("signature_id", same))

    def chosen(self, preference: list[Column]) -> DataFrame:
        """Return (signature_id, chosen, similarity, speaker, speaker_age) of nodes and copies.

        ``chosen`` is the signature that represents each one, and ``speaker`` the key of its most
        preferred document.
        """
        speakers = self._speakers(preference)
        rows = speakers.join(self.with_copies(), "signature_id")
        chosen = representatives(rows, self.edges, preference)
        names = speakers.select(
            sf.col("signature_id").alias("chosen"), sf.col("key").alias("speaker"),
            age().alias("speaker_age"),
        )  # fmt: skip
        return chosen.join(names, "chosen")

    def chosen_of_components(self, preference: list[Column]) -> DataFrame:
        """Choose the most preferred document of each component; nothing within is compared.

        Returns the columns of :meth:`chosen`; ``similarity`` is null.
        """
        rows = self._speakers(preference).join(self.with_copies(), "signature_id")
        first = Window.partitionBy("root").orderBy(*preference)
        best = rows.withColumn("turn", sf.row_number().over(first)).where("turn = 1").select(
            "root", sf.col("signature_id").alias("chosen"), sf.col("key").alias("speaker"),
            age().alias("speaker_age"),
        )  # fmt: skip
        similarity = sf.lit(None).cast("double").alias("similarity")
        chosen = rows.select("signature_id", "root").join(best, "root")
        return chosen.select("signature_id", "chosen", similarity, "speaker", "speaker_age")

    def finally_chosen(self, preference: list[Column]) -> DataFrame:
        """Choose until no two kept documents are found to be similar in large buckets.

        Returns the columns of :meth:`chosen`. After ``ROUNDS`` rounds, or if a bucket has too many
        kept documents to compare them all, warn the caller with an estimate of the pairs left.
        """
        if self.hidden.is_empty():
            return self.chosen(preference)
        ranked = self._ranked(preference)
        pairs, _ = self.hidden.among(ranked, None, self.edges)
        graph, is_whole, former = self._with_edges(pairs), True, ranked.limit(0)
        for number in range(ROUNDS + 1):
            chosen = cut(graph.chosen(preference))
            gone = chosen.where("signature_id != chosen").select("signature_id")
            left = cut(ranked.join(gone, "signature_id", "anti"))
            leaders = cut(left.join(former, "signature_id", "anti"))
            if leaders.isEmpty():
                break
            if number == ROUNDS:
                is_whole = False
                break
            pairs, are_all = graph.hidden.among(ranked, leaders, graph.edges)
            is_whole &= are_all
            if pairs.isEmpty():
                break
            graph, former = graph._with_edges(pairs), cut(former.unionByName(leaders))
        if not is_whole:
            counts = left.select("signature_id", sf.lit(1).alias("n_documents"))
            drawn = drawn_pairs(graph.edges, counts, graph.hidden)
            warn_unchecked(drawn if drawn is not None and drawn.high > 0 else None)
        return chosen

    def _with_edges(self, pairs: DataFrame) -> DocumentGraph:
        """Return the graph with further edges."""
        if pairs.isEmpty():
            return self
        edges = cut(self.edges.unionByName(pairs))
        return replace(self, edges=edges, nodes=components(edges))

    def _ranked(self, preference: list[Column]) -> DataFrame:
        """Return (signature_id, rank) of the members of large buckets, the preferred ones first."""
        members = self.hidden.members.select("signature_id")
        ordered = self._speakers(preference).join(members, "signature_id", "semi")
        rank = sf.monotonically_increasing_id().alias("rank")  # in the order of a sorted frame
        return cut(ordered.orderBy(*preference).select("signature_id", rank))

    def _speakers(self, preference: list[Column]) -> DataFrame:
        """Return the most preferred document of each signature."""
        first = Window.partitionBy("signature_id").orderBy(*preference)
        signed = self.documents.where("signature_id IS NOT NULL")
        return signed.withColumn("at", sf.row_number().over(first)).where("at = 1").drop("at")


def clusters_of(graph: DocumentGraph, *, min_size: int, linkage: str) -> DataFrame:
    """Return ``cluster``, ``size`` and ``key`` of the documents in clusters."""
    if linkage == "component":
        nodes = graph.with_copies()
    else:
        chosen = graph.chosen([age()])
        nodes = chosen.select("signature_id", sf.col("chosen").alias("root"))
    members = persisted(graph.documents.join(nodes, "signature_id"))
    may_name = sf.lit(True) if linkage == "component" else sf.col("signature_id") == sf.col("root")
    names = members.groupBy("root").agg(
        sf.min_by(sf.when(may_name, sf.col("key")), sf.when(may_name, age())).alias("cluster"),
        sf.count("*").alias("size"),
    )
    clustered = members.join(names.where(sf.col("size") >= min_size), "root")
    return clustered.select("cluster", "size", "key")


def decisions_of(graph: DocumentGraph, keep: str, only: str, linkage: str) -> DataFrame:
    """Return the decisions of :func:`lshdb.spark.dedup`: all, or only ``keep`` or ``drop``."""
    params, method = graph.params, graph.method
    if field_name(keep) is not None:
        _refuse_unordered(graph, keep)
    if linkage == "component":
        chosen = graph.chosen_of_components(_preference(keep))
    else:
        chosen = graph.finally_chosen(_preference(keep))
    best = sf.lit(params.curve.best).cast("double")
    documents = graph.documents.join(chosen, "signature_id", "left").withColumn(
        "similarity",
        sf.when(sf.col("signature_id") == sf.col("chosen"), best).otherwise(sf.col("similarity")),
    )
    drops = sf.coalesce(sf.col("speaker") != sf.col("key"), sf.lit(False))
    of_dropped = (
        sf.col("speaker").alias("kept_key"), sf.col("similarity"),
        sf.when(sf.col("similarity").isNotNull(), method).alias("method"), *distances(params),
    )  # fmt: skip
    decision = sf.when(drops, "drop").otherwise("keep").alias("decision")
    decisions = documents.select("key", decision, *of_dropped)
    if only != "all":
        decisions = decisions.where(sf.col("decision") == only)
    is_dropped = sf.col("decision") == "drop"
    return decisions.select(
        "key", "decision",
        *(sf.when(is_dropped, sf.col(name)).alias(name) for name in decisions.columns[2:]),
    )  # fmt: skip


def _refuse_unordered(graph: DocumentGraph, keep: str) -> None:
    """Raise ParameterError if the values of similar documents have no common order."""
    kind = sf.substring("value", 1, 1).alias("kind")
    compared = graph.documents.join(graph.with_copies(), "signature_id", "semi")
    rows = compared.where("value IS NOT NULL").groupBy(kind).agg(sf.min("key").alias("key"))
    documents = {bytes(row["kind"]): row["key"] for row in rows.orderBy("kind").collect()}
    reason = unordered(documents)
    if reason is not None:
        raise cannot_compare(keep, reason)


def _preference(keep: str) -> list[Column]:
    """Return columns to order documents by: the most preferred first; of equals, the oldest."""
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
