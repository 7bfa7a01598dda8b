"""Verified pairs of signatures -> connected components, and the representative of each signature.

Components are found by large stars and small stars in turn (Kiveris, Lattanzi, Mirrokni, Rastogi
and Vassilvitskii, *Connected components in MapReduce and beyond*, SoCC 2014): each round sends
pairs of ids, and no memory grows with a component. The rounds end when every node has one smaller
neighbour, or none. Up to ``MOST_AT_ONCE`` pairs, one task runs the code of one machine
(``search/components.py``) in place of rounds, which takes a second. If there are more, each task
first drops pairs whose ends its other pairs connect; that is usually enough.

Then one task cuts each component by representatives, as one machine does. A component of more than
``MOST_AT_ONCE`` pairs is cut in rounds instead: each decides the nodes that are preferred to all
others, as many as have so many pairs among them, and drops their neighbours. The pairs of what is
left are few after a round or two, because a node has many neighbours in a component of that size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkAttributeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lshdb.search.components import connect, represent, spanning
from lshdb.spark.cached_frames import named_view, persisted
from lshdb.spark.named_jobs import named_job
from lshdb.spark.pairing import Ids, ids_of, order_of
from lshdb.spark.signing import binaries, gathered, mapped

__all__ = ["MOST_AT_ONCE", "components", "cut", "forest", "representatives", "stars"]

MOST_AT_ONCE = 2**20
"""Most pairs of signatures that one task connects, in 300 MB."""


def cut(rows: DataFrame) -> DataFrame:
    """Compute rows now, and return them as a data frame whose plan only reads them.

    Otherwise plans of rounds would double with each round. If ``spark.checkpoint.dir`` is set, the
    rows are stored in that folder, and outlive an executor. Else they are on the executors; under
    dynamic allocation, which removes executors, Spark can compute them again.
    """
    folder = rows.sparkSession.conf.get("spark.checkpoint.dir", None)
    if not folder and _removes_executors(rows.sparkSession):
        kept = persisted(rows)
        kept.count()
        return kept
    with named_view(rows) as view:
        if folder:
            return view.checkpoint(eager=True)
        return view.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)


def _removes_executors(session: SparkSession) -> bool:
    """Return whether Spark removes and adds executors by itself."""
    return session.conf.get("spark.dynamicAllocation.enabled", "false") == "true"


def _free(rows: DataFrame) -> None:
    """Free rows of :func:`cut` that only executors have, and that no plan reads any more."""
    with contextlib.suppress(AttributeError, TypeError, PySparkAttributeError, Py4JError):
        rows._jdf.queryExecution().analyzed().rdd().unpersist(False)  # others have no rdd()


def components(edges: DataFrame) -> DataFrame:
    """Return (signature_id, root) of every end of a pair; the root is the smallest id.

    Parameters
    ----------
    edges : DataFrame
        ``left`` and ``right``; read several times. Counted at once.
    """
    pairs = edges.select("left", "right")
    with named_job(edges.sparkSession, "connecting pairs") as told:
        told["pairs"] = n = pairs.count()
        if n > MOST_AT_ONCE:
            pairs = forest(pairs)
            if pairs.count() > MOST_AT_ONCE:
                return stars(pairs)
        connected = pairs.repartition(1).mapInArrow(
            mapped(_connected_batches), "signature_id binary, root binary"
        )
        return cut(connected)


def stars(edges: DataFrame) -> DataFrame:
    """Return the components of any number of pairs, by rounds of large stars and small stars.

    A large star moves a node and its larger neighbours to the least of all its neighbours; a small
    star does so with a node and the smaller ones. In both, a task connects whatever it has: a chain
    of a million nodes takes three rounds. A round adds at most one pair for each node.
    """
    now = edges.select(sf.col("left").alias("node"), sf.col("right").alias("neighbor"))
    while True:
        turned = now.select(sf.col("neighbor").alias("node"), sf.col("node").alias("neighbor"))
        large = _starred(now.unionByName(turned), is_large=True)
        _free(now)
        if large.where("is_open").isEmpty():
            break
        greater = sf.greatest("node", "neighbor").alias("node")
        lesser = sf.least("node", "neighbor").alias("neighbor")
        now = _starred(large.select(greater, lesser), is_large=False)
        _free(large)
    ends = large.select(sf.col("node").alias("signature_id"), sf.col("neighbor").alias("root"))
    roots = ends.select(sf.col("root").alias("signature_id"), "root")
    found = cut(ends.unionByName(roots).distinct())
    _free(large)
    return found


def _starred(arrows: DataFrame, *, is_large: bool) -> DataFrame:
    """Compute the stars of nodes and their neighbours."""
    rows = gathered(arrows, "node", order=["node", "neighbor"])
    names = "node binary, neighbor binary" + (", is_open boolean" if is_large else "")
    return cut(rows.mapInArrow(mapped(_star_batches, is_large), names))


def _star_batches(is_large: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the stars of what a task has, ``MOST_AT_ONCE`` pairs at a time.

    The last node of one part may be the first of the next, and takes its root along.
    """
    parts: _Ends = []
    n = 0
    for batch in batches:
        parts += _ends(batch)
        n += batch.num_rows
        if n >= MOST_AT_ONCE:
            stars, last = _stars(parts, is_large)
            yield stars
            parts, n = [last], 0
    if n:
        yield _stars(parts, is_large)[0]


def _stars(parts: _Ends, is_large: bool) -> tuple[pa.RecordBatch, tuple[Ids, Ids]]:
    """Return each node and the least that pairs connect it with, and both for the last node.

    A large star is open if a node has another neighbour beside a smaller one. It leaves out smaller
    nodes that have no neighbours here: the task that has those moves both ends of such a pair.
    """
    left, right, ids = _numbered_ends(parts)
    nodes, roots = connect(left, right)
    is_sent = roots < nodes
    columns = []
    if is_large:
        least, most = nodes.copy(), np.zeros(len(nodes), dtype=np.int64)
        np.minimum.at(least, left, right)
        np.maximum.at(most, left, right)
        is_moved = np.zeros(len(nodes), dtype=bool)
        is_moved[left] = True
        is_moved[right[right > left]] = True
        is_sent &= is_moved
        columns = [pa.array(((least < nodes) & (least != most))[is_sent])]
    columns = [binaries(ids[nodes[is_sent]]), binaries(ids[roots[is_sent]]), *columns]
    names = ["node", "neighbor", "is_open"][: len(columns)]
    last = left[-1:]
    return pa.RecordBatch.from_arrays(columns, names), (ids[last], ids[roots[last]])


_Ends = list[tuple[Ids, Ids]]
"""Left and right ends of pairs, in parts."""


def forest(pairs: DataFrame) -> DataFrame:
    """Compute and return some of the pairs, which have the components of all of them.

    Each task leaves out pairs whose ends its other pairs connect. If one task can hold the pairs
    that are left, it reduces them once more.
    """
    pairs = pairs.select("left", "right")
    trees = cut(pairs.mapInArrow(mapped(_forest_batches), "left binary, right binary"))
    if trees.count() > MOST_AT_ONCE:
        return trees
    return cut(trees.repartition(1).mapInArrow(mapped(_forest_batches), trees.schema))


def _forest_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave out pairs whose ends other pairs connect."""
    parts: _Ends = []
    n = 0
    for batch in batches:
        parts += _ends(batch)
        n += batch.num_rows
        if n >= MOST_AT_ONCE:
            parts = [_spanning(parts)]
            n = len(parts[0][0])
            if n > MOST_AT_ONCE // 2:
                yield _id_batch(*parts[0], names=["left", "right"])
                parts, n = [], 0
    if parts:
        yield _id_batch(*_spanning(parts), names=["left", "right"])


def _connected_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield every end of the pairs, and its root; a root is its own."""
    parts = [ends for batch in batches for ends in _ends(batch)]
    if parts:
        left, right, ids = _numbered_ends(parts)
        nodes, roots = connect(left, right)
        yield _id_batch(ids[nodes], ids[roots], names=["signature_id", "root"])


def _ends(batch: pa.RecordBatch) -> _Ends:
    if not batch.num_rows:
        return []
    return [(ids_of(batch.column(0)).copy(), ids_of(batch.column(1)).copy())]


def _id_batch(*columns: Ids, names: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([binaries(column) for column in columns], names=names)


def _numbered_ends(parts: _Ends) -> tuple[np.ndarray, np.ndarray, Ids]:
    """Return both ends of the pairs as numbers, and the id of each number."""
    left, right = (np.concatenate(column) for column in zip(*parts, strict=True))
    ids, numbers = _numbered(np.concatenate([left, right]))
    return numbers[: len(left)], numbers[len(left) :], ids


def _spanning(parts: _Ends) -> tuple[Ids, Ids]:
    """Return the pairs of a spanning forest."""
    left, right, ids = _numbered_ends(parts)
    places = spanning(left, right)
    return ids[left[places]], ids[right[places]]


def _numbered(ids: Ids) -> tuple[Ids, np.ndarray]:
    """Return the distinct ids in order of their bytes, and the number of each id in that order."""
    order = order_of(ids)
    ordered = ids.view(np.uint64).reshape(-1, 2)[order]
    is_first = np.ones(len(ids), dtype=bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(ids), dtype=np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    return ids[order[is_first]], numbers


def representatives(nodes: DataFrame, edges: DataFrame, preference: list[Column]) -> DataFrame:
    """Return (signature_id, chosen, similarity): the representative of each node.

    In order of preference, a node without a representative becomes its own, and that of all its
    neighbours without one (``search/components.py``). The similarity is that of the node and its
    representative; null for a node that represents itself.

    Parameters
    ----------
    nodes : DataFrame
        ``signature_id``, ``root``, and the columns of the preference: every end of an edge, once.
    edges : DataFrame
        ``left``, ``right``, ``similarity``. Counted at once.
    preference : list of Column
        Columns that order nodes, the preferred ones first; no two nodes are equal.
    """
    n_edges = edges.count()
    edges = edges.select("left", "right", "similarity")
    edges = edges.join(nodes.select(sf.col("signature_id").alias("left"), "root"), "left")
    if n_edges <= MOST_AT_ONCE:
        return _chosen_in_tasks(nodes, edges, preference)
    sizes = edges.groupBy("root").agg(sf.count("*").alias("n")).where(sf.col("n") > MOST_AT_ONCE)
    roots = [bytes(row["root"]) for row in sizes.select("root").collect()]  # one in MOST_AT_ONCE
    if not roots:
        return _chosen_in_tasks(nodes, edges, preference)
    is_large = sf.col("root").isin(roots)
    in_tasks = _chosen_in_tasks(nodes.where(~is_large), edges.where(~is_large), preference)
    in_rounds = _chosen_in_rounds(nodes.where(is_large), edges.where(is_large), preference)
    return in_tasks.unionByName(in_rounds)


def _chosen_in_rounds(nodes: DataFrame, edges: DataFrame, preference: list[Column]) -> DataFrame:
    """Do the same for components of any size; nodes are numbered in order of preference.

    In each round, all nodes before one of them are decided: what has only ends behind it waits.
    """
    rank = sf.monotonically_increasing_id().alias("rank")  # in the order of a sorted frame
    ranked = cut(nodes.orderBy(*preference).select("signature_id", rank))
    ends = edges.join(ranked.toDF("left", "rank1"), "left")
    ends = ends.join(ranked.toDF("right", "rank2"), "right")
    before, after = sf.least("rank1", "rank2"), sf.greatest("rank1", "rank2")
    pairs = cut(ends.select(before.alias("before"), after.alias("after"), "similarity"))
    dropped = ranked.select("rank").limit(0)
    open_pairs = pairs.select("before", "after")
    while n := open_pairs.count():
        end = 2**63 - 1
        if n > MOST_AT_ONCE:
            share = sf.percentile_approx("after", MOST_AT_ONCE / n, 10**6)
            ((end,),) = open_pairs.agg(share).collect()
        inside = open_pairs.where(sf.col("after") < end).repartition(1)
        lost = inside.mapInArrow(mapped(_lost_batches), "before bigint")
        taken = open_pairs.where(sf.col("before") < end).join(lost, "before", "anti")
        gone = cut(taken.select("after").distinct())
        left = open_pairs.where(sf.col("before") >= end).join(gone, "after", "anti")
        former, open_pairs = open_pairs, cut(left.join(gone.toDF("before"), "before", "anti"))
        dropped = dropped.unionByName(gone.toDF("rank"))
        _free(former)
    taken = pairs.join(dropped.toDF("before"), "before", "anti")
    best = taken.groupBy("after").agg(sf.min(sf.struct("before", "similarity")).alias("best"))
    chosen = ranked.join(best.withColumnRenamed("after", "rank"), "rank", "left").select(
        "signature_id", sf.coalesce("best.before", "rank").alias("rank"), "best.similarity"
    )
    names = ranked.toDF("chosen", "rank")
    return chosen.join(names, "rank").select("signature_id", "chosen", "similarity")


def _lost_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the nodes that do not represent themselves."""
    parts = [batch for batch in batches if batch.num_rows]
    if not parts:
        return
    pairs = pa.Table.from_batches(parts)
    before, after = (pairs.column(name).to_numpy() for name in ("before", "after"))
    nodes, chosen, _ = represent(np.unique(np.concatenate([before, after])), before, after)
    yield pa.RecordBatch.from_arrays([pa.array(nodes[nodes != chosen])], names=["before"])


def _chosen_in_tasks(nodes: DataFrame, edges: DataFrame, preference: list[Column]) -> DataFrame:
    """Return (signature_id, chosen, similarity), each component in a task."""
    names = [name for name in nodes.columns if name not in ("signature_id", "root")]
    nobody = sf.lit(None)
    ends = nodes.select(
        "root", sf.lit(0).alias("kind"), sf.col("signature_id").alias("left"),
        nobody.cast("binary").alias("right"), nobody.cast("double").alias("similarity"), *names,
    )  # fmt: skip
    pairs = edges.select(
        "root", sf.lit(1).alias("kind"), "left", "right", "similarity",
        *(nobody.cast(nodes.schema[name].dataType).alias(name) for name in names),
    )  # fmt: skip
    rows = gathered(ends.unionByName(pairs), "root", order=["root", "kind", *preference])
    return rows.select("root", "kind", "left", "right", "similarity").mapInArrow(
        mapped(_chosen_batches), "signature_id binary, chosen binary, similarity double"
    )


def _chosen_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    parts: list[pa.RecordBatch] = []
    now: bytes | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        roots = ids_of(batch.column("root"))
        begin = 0
        for end in [*(np.flatnonzero(roots[1:] != roots[:-1]) + 1).tolist(), len(roots)]:
            root = roots[begin].tobytes()
            if parts and root != now:
                yield _chosen(pa.Table.from_batches(parts))
                parts = []
            now = root
            parts.append(batch.slice(begin, end - begin))
            begin = end
    if parts:
        yield _chosen(pa.Table.from_batches(parts))


def _chosen(component: pa.Table) -> pa.RecordBatch:
    n = component.column("right").null_count
    ids = ids_of(component.column("left").slice(0, n).combine_chunks())
    left, right = (
        ids_of(component.column(name).slice(n).combine_chunks()) for name in ("left", "right")
    )
    similarities = component.column("similarity").slice(n).combine_chunks().to_numpy()
    _, numbers = _numbered(np.concatenate([ids, left, right]))
    place = np.empty(n, dtype=np.int64)
    place[numbers[:n]] = np.arange(n)  # number of an id -> its place in the order of preference
    ends = place[numbers[n:]]
    _, chosen, pairs = represent(np.arange(n), ends[: len(left)], ends[len(left) :])
    similarity = pa.array(
        similarities[np.maximum(pairs, 0)] if len(left) else np.zeros(n), mask=pairs < 0
    )
    columns = [binaries(ids), binaries(ids[chosen]), similarity]
    return pa.RecordBatch.from_arrays(columns, names=["signature_id", "chosen", "similarity"])
