"""Verified pairs of signatures -> connected components, and which signature stands for which.

Components are found by large stars and small stars in turn (Kiveris, Lattanzi, Mirrokni, Rastogi
and Vassilvitskii, *Connected components in MapReduce and beyond*, SoCC 2014): each round sends
pairs of ids, and nothing is held that grows with a component. The end is checked: every node points
to one node, and none of those points any further. Up to ``MOST_AT_ONCE`` pairs, one task does what
one machine does (``search/components.py``), which takes a second and not ten rounds. Where there
are more, each task first leaves out those of its own that others make superfluous, which is enough
for most.

Each component is then cut by representatives in one task, by the one machine's own choice. So the
memory for the largest component, some hundred bytes a pair, bounds what can be deduplicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lshdb.search.components import connect, represent, spanning
from lshdb.spark.cached_frames import named_view
from lshdb.spark.pairing import Ids, ids_of, order_of
from lshdb.spark.signing import binaries, mapped

__all__ = ["MOST_AT_ONCE", "components", "cut", "forest", "representatives", "stars"]

MOST_AT_ONCE = 2**20
"""Pairs of signatures that one task connects: 300 MB."""


def cut(rows: DataFrame) -> DataFrame:
    """Compute some rows now, and return them as a data frame that knows nothing of their past.

    Plans of rounds would otherwise double with each round. The rows lie in the folder of
    ``spark.checkpoint.dir`` if that is set, so that they outlive an executor; else on the
    executors.
    """
    folder = rows.sparkSession.conf.get("spark.checkpoint.dir", None)
    with named_view(rows) as found:
        if folder:
            return found.checkpoint(eager=True)
        return found.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)


def components(edges: DataFrame) -> DataFrame:
    """Return (signature_id, root) of every end of a pair; the root is the smallest id.

    Parameters
    ----------
    edges : DataFrame
        ``left`` and ``right``; read several times. Counted at once.
    """
    pairs = edges.select("left", "right")
    if pairs.count() > MOST_AT_ONCE:
        pairs = forest(pairs)
        if pairs.count() > MOST_AT_ONCE:
            return stars(pairs)
    connected = pairs.repartition(1).mapInArrow(
        mapped(_connected_batches), "signature_id binary, root binary"
    )
    return cut(connected)


def stars(edges: DataFrame) -> DataFrame:
    """Return the same by large stars and small stars, in rounds, whatever the number of pairs."""
    now = cut(edges.select(sf.greatest("left", "right").alias("node"),
                           sf.least("left", "right").alias("root")).distinct())  # fmt: skip
    while not _are_stars(now):
        both = now.unionByName(
            now.select(sf.col("root").alias("node"), sf.col("node").alias("root"))
        )
        least = both.groupBy("node").agg(sf.min(sf.least("node", "root")).alias("least"))
        large = both.where("root > node").join(least, "node")
        large = large.select(sf.col("root").alias("node"), sf.col("least").alias("root")).distinct()
        least = large.groupBy("node").agg(sf.min("root").alias("least"))
        small = large.join(least, "node")
        moved = small.where("root > least").select(sf.col("root").alias("node"),
                                                   sf.col("least").alias("root"))  # fmt: skip
        now = cut(least.toDF("node", "root").unionByName(moved).distinct())
    roots = now.select(sf.col("root").alias("signature_id"), "root").distinct()
    return now.toDF("signature_id", "root").unionByName(roots)


def _are_stars(now: DataFrame) -> bool:
    """Return whether each node points to one node, and none of those to another."""
    n = now.count()
    once = now.select("node").distinct().count() == n
    return once and now.join(now.select(sf.col("root").alias("node")), "node", "semi").isEmpty()


_Held = list[tuple[Ids, Ids]]
"""Both ends of pairs, in parts."""


def forest(pairs: DataFrame) -> DataFrame:
    """Return some of the pairs, computed, which connect all that the pairs connect.

    Each task leaves out pairs whose ends others of its pairs join. What is left of them all is
    reduced once more in one task if that can take it.
    """
    asked = pairs.select("left", "right")
    found = cut(asked.mapInArrow(mapped(_forest_batches), "left binary, right binary"))
    if found.count() > MOST_AT_ONCE:
        return found
    return cut(found.repartition(1).mapInArrow(mapped(_forest_batches), found.schema))


def _forest_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave out pairs whose ends others join."""
    held: _Held = []
    n = 0
    for batch in batches:
        held += _ends(batch)
        n += batch.num_rows
        if n >= MOST_AT_ONCE:
            held = [_spanning(held)]
            n = len(held[0][0])
            if n > MOST_AT_ONCE // 2:
                yield _pairs(*held[0], names=["left", "right"])
                held, n = [], 0
    if held:
        yield _pairs(*_spanning(held), names=["left", "right"])


def _connected_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give every end its root; a root is its own."""
    held = [ends for batch in batches for ends in _ends(batch)]
    if held:
        yield _pairs(*_joined(held), names=["signature_id", "root"])


def _ends(batch: pa.RecordBatch) -> _Held:
    if not batch.num_rows:
        return []
    return [(ids_of(batch.column("left")).copy(), ids_of(batch.column("right")).copy())]


def _pairs(one: Ids, other: Ids, *, names: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([binaries(one), binaries(other)], names=names)


def _joined(held: _Held) -> tuple[Ids, Ids]:
    """Return every end of the pairs, and the root of each; a root is its own."""
    left, right = (np.concatenate(column) for column in zip(*held, strict=True))
    names, numbers = _numbered(np.concatenate([left, right]))
    nodes, roots = connect(numbers[: len(left)], numbers[len(left) :])
    return names[nodes], names[roots]


def _spanning(held: _Held) -> tuple[Ids, Ids]:
    left, right = (np.concatenate(column) for column in zip(*held, strict=True))
    _, numbers = _numbered(np.concatenate([left, right]))
    some = spanning(numbers[: len(left)], numbers[len(left) :])
    return left[some], right[some]


def _numbered(ids: Ids) -> tuple[Ids, np.ndarray]:
    """Return distinct ids in order of their bytes, and the number of each in that order."""
    order = order_of(ids)
    ordered = ids.view(np.uint64).reshape(-1, 2)[order]
    is_first = np.ones(len(ids), dtype=bool)
    is_first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(ids), dtype=np.int64)
    numbers[order] = np.cumsum(is_first) - 1
    return ids[order[is_first]], numbers


def representatives(nodes: DataFrame, edges: DataFrame, preference: list[Column]) -> DataFrame:
    """Return (signature_id, chosen, similarity): who stands for each node, and how similar it is.

    In order of preference, a node that has none yet stands for itself and for all its neighbours
    that have none (``search/components.py``). The similarity is null for a node that stands for
    itself.

    Parameters
    ----------
    nodes : DataFrame
        ``signature_id``, ``root``, and the columns of the preference: every end of an edge, once.
    edges : DataFrame
        ``left``, ``right``, ``similarity``, ``root``.
    preference : list of Column
        What orders nodes, the preferred ones first; no two are equal.
    """
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
    return (
        ends.unionByName(pairs)
        .repartition("root")
        .sortWithinPartitions("root", "kind", *preference)
        .select("root", "kind", "left", "right", "similarity")
        .mapInArrow(
            mapped(_chosen_batches), "signature_id binary, chosen binary, similarity double"
        )
    )


def _chosen_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    now: bytes | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        roots = ids_of(batch.column("root"))
        begin = 0
        for end in [*(np.flatnonzero(roots[1:] != roots[:-1]) + 1).tolist(), len(roots)]:
            root = roots[begin].tobytes()
            if held and root != now:
                yield _chosen(pa.Table.from_batches(held))
                held = []
            now = root
            held.append(batch.slice(begin, end - begin))
            begin = end
    if held:
        yield _chosen(pa.Table.from_batches(held))


def _chosen(component: pa.Table) -> pa.RecordBatch:
    n = component.column("right").null_count
    ids = ids_of(component.column("left").slice(0, n).combine_chunks())
    left, right = (
        ids_of(component.column(name).slice(n).combine_chunks()) for name in ("left", "right")
    )
    similarities = component.column("similarity").slice(n).combine_chunks().to_numpy()
    _, numbers = _numbered(np.concatenate([ids, left, right]))
    place = np.empty(n, dtype=np.int64)
    place[numbers[:n]] = np.arange(n)  # from the number of an id to its place in the order
    ends = place[numbers[n:]]
    _, chosen, pairs = represent(np.arange(n), ends[: len(left)], ends[len(left) :])
    found = pa.array(
        similarities[np.maximum(pairs, 0)] if len(left) else np.zeros(n), mask=pairs < 0
    )
    columns = [binaries(ids), binaries(ids[chosen]), found]
    return pa.RecordBatch.from_arrays(columns, names=["signature_id", "chosen", "similarity"])
