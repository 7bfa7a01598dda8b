"""Verified pairs, connected -> clusters, and which documents to keep."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.clusters.deduplication import cannot_compare, field_name, unordered
from lshdb.params.index_params import IndexParams
from lshdb.search.loss import warn_unchecked
from lshdb.spark.cached_frames import persisted
from lshdb.spark.expansion import age, copy_groups, distances
from lshdb.spark.grouping import components, cut, representatives
from lshdb.spark.large_bucket_pairs import LargeBucketPairs
from lshdb.spark.lost_pairs import drawn_pairs
from lshdb.spark.spanning_pairs import spanning_pairs
from lshdb.spark.stages import Stages

__all__ = ["DocumentGraph", "clusters_of", "decisions_of"]

ROUNDS = 8
"""In which documents to keep are compared with all others: one for a family or boilerplate."""


@dataclass(frozen=True, slots=True)
class DocumentGraph:
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
    hidden : LargeBucketPairs
        What large buckets hide of the edges.
    """

    params: IndexParams
    method: str
    documents: DataFrame
    edges: DataFrame
    nodes: DataFrame
    hidden: LargeBucketPairs

    @classmethod
    def of(cls, stages: Stages, *, of_all: bool, are_all: bool = True) -> DocumentGraph:
        """Compute the pairs, or as many as connect all, and connect them.

        Parameters
        ----------
        stages : Stages
        of_all : bool
            Whether every document is needed, or those that pairs or a common signature join.
        are_all : bool
            Whether all pairs are needed.
        """
        pairs = stages.edges if are_all else stages.candidates
        n = stages.n_candidates
        if stages.shared.may_repeat_keys:
            n = None
            # A signature that only rejected rows have joins nothing.
            ids = stages.documents.select("signature_id").distinct()
            left, right = ids.toDF("left"), ids.toDF("right")
            pairs = pairs.join(left, "left", "semi").join(right, "right", "semi")
        edges = cut(pairs) if are_all else spanning_pairs(pairs, stages.by, n)
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
        speakers = self._speakers(preference)
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
        """Return the same once no two that are kept are found to be similar in large buckets.

        After ``ROUNDS`` rounds, or where a bucket has too many that are kept to compare them all,
        the caller is warned of an estimate of the pairs that are left.
        """
        if self.hidden.is_empty():
            return self.chosen(preference)
        ranked = self._ranked(preference)
        found, _ = self.hidden.among(ranked, None, self.edges)
        graph, is_whole, led = self._joined(found), True, ranked.limit(0)
        for number in range(ROUNDS + 1):
            chosen = cut(graph.chosen(preference))
            gone = chosen.where("signature_id != chosen").select("signature_id")
            left = cut(ranked.join(gone, "signature_id", "anti"))
            leaders = cut(left.join(led, "signature_id", "anti"))
            if leaders.isEmpty():
                break
            if number == ROUNDS:
                is_whole = False
                break
            found, are_all = graph.hidden.among(ranked, leaders, graph.edges)
            is_whole &= are_all
            if found.isEmpty():
                break
            graph, led = graph._joined(found), cut(led.unionByName(leaders))
        if not is_whole:
            held = left.select("signature_id", sf.lit(1).alias("held"))
            drawn = drawn_pairs(graph.edges, held, graph.hidden)
            warn_unchecked(drawn if drawn is not None and drawn.high > 0 else None)
        return chosen

    def _joined(self, found: DataFrame) -> DocumentGraph:
        """Return the same with more edges."""
        if found.isEmpty():
            return self
        edges = cut(self.edges.unionByName(found))
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
        shown = self.documents.where("signature_id IS NOT NULL")
        return shown.withColumn("at", sf.row_number().over(first)).where("at = 1").drop("at")


def clusters_of(graph: DocumentGraph, *, min_size: int, linkage: str) -> DataFrame:
    """Return ``cluster``, ``size`` and ``key`` of the documents in clusters."""
    if linkage == "component":
        nodes = graph.with_copies()
    else:
        chosen = graph.chosen([age()])
        nodes = chosen.select("signature_id", sf.col("chosen").alias("root"))
    members = persisted(graph.documents.join(nodes, "signature_id"))
    is_named = sf.lit(True) if linkage == "component" else sf.col("signature_id") == sf.col("root")
    named = members.groupBy("root").agg(
        sf.min_by(sf.when(is_named, sf.col("key")), sf.when(is_named, age())).alias("cluster"),
        sf.count("*").alias("size"),
    )
    found = members.join(named.where(sf.col("size") >= min_size), "root")
    return found.select("cluster", "size", "key")


def decisions_of(graph: DocumentGraph, keep: str, only: str) -> DataFrame:
    """Return what :func:`lshdb.spark.dedup` says of documents: of all, or those kept or dropped."""
    params, method = graph.params, graph.method
    if field_name(keep) is not None:
        _refuse_unordered(graph, keep)
    chosen = graph.finally_chosen(_preference(keep))
    best = sf.lit(params.curve.best).cast("double")
    found = graph.documents.join(chosen, "signature_id", "left").withColumn(
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
    found = told if only == "all" else told.where(sf.col("decision") == only)
    return found.select(
        "key", "decision",
        *(sf.when(is_dropped, sf.col(name)).alias(name) for name in told.columns[2:]),
    )  # fmt: skip


def _refuse_unordered(graph: DocumentGraph, keep: str) -> None:
    """Raise ParameterError if values of similar documents have no order beside each other."""
    kind = sf.substring("value", 1, 1).alias("kind")
    compared = graph.documents.join(graph.with_copies(), "signature_id", "semi")
    rows = compared.where("value IS NOT NULL").groupBy(kind).agg(sf.min("key").alias("key"))
    documents = {bytes(row["kind"]): row["key"] for row in rows.orderBy("kind").collect()}
    reason = unordered(documents)
    if reason is not None:
        raise cannot_compare(keep, reason)


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
