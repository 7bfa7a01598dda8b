"""Data frames that several stages read: compute them once, and keep them on the executors.

By itself, ``persist`` keeps as many partitions as Spark shuffles into, 200 by default, even if they
have few rows, because other plans may rely on their number. No plan here does. So small partitions
are joined as in any other stage, by ``spark.sql.optimizer.canChangeCachedPlanOutputPartitioning``,
which is set while ``persist`` is called: 27,000 statutes took 200 tasks in each of ten stages
without it, and three times the processor time.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

__all__ = ["named_view", "persisted", "release", "shuffled_bytes"]

_DATASET = "org.apache.spark.sql.classic.Dataset"
_FEWER = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
_PERSISTED: dict[SparkSession, list[DataFrame]] = {}
"""The frames that are kept, by session, in the order of their plans."""


def persisted(rows: DataFrame, *, in_memory: bool = True) -> DataFrame:
    """Keep rows on the executors from their first use until :func:`release`.

    The same plan is kept once.

    Parameters
    ----------
    rows : DataFrame
        The rows.
    in_memory : bool
        Whether to keep them in memory if there is room, or on disk only. Use the disk for bodies
        and signatures: their partitions took half of a heap of 2 GB, and a million documents
        failed. From disk they are read a tenth slower.
    """
    session = rows.sparkSession
    before = session.conf.get(_FEWER, None)
    session.conf.set(_FEWER, "true")
    try:
        level = StorageLevel.MEMORY_AND_DISK if in_memory else StorageLevel.DISK_ONLY
        frame = rows.persist(level)
    finally:
        if before is None:
            session.conf.unset(_FEWER)
        else:
            session.conf.set(_FEWER, before)
    _PERSISTED.setdefault(session, []).append(frame)
    return _as_leaf(frame)


def _as_leaf(rows: DataFrame) -> DataFrame:
    """Return persisted rows as a leaf of the plans that read them.

    A plan holds the plans of everything it reads, once for each read. The last plan of a question
    held the first one some fifty times, and Spark walked through all of them with every step. When
    Spark runs a plan, it puts this leaf in by itself. A client of Connect cannot ask for the leaf,
    and its plans stay as they are.
    """
    try:
        session = rows.sparkSession._jsparkSession
        cached = session.sharedState().cacheManager().lookupCachedData(rows._jdf)
        relation = cached.get().cachedRepresentation()
        leaf = JavaClass(_DATASET, rows._jdf._gateway_client).ofRows(session, relation)
        return DataFrame(leaf, rows.sparkSession)
    except (AttributeError, TypeError, Py4JError):
        return rows


def shuffled_bytes(rows: DataFrame) -> int | None:
    """Return how many bytes tasks have sent to others for persisted rows and all that they read.

    Spark counts them in its plans, whichever job computed the rows. None for a client of Connect.

    Parameters
    ----------
    rows : DataFrame
        As :func:`persisted` returns it, after it was computed.
    """
    try:
        builder = rows._jdf.queryExecution().analyzed().cacheBuilder()
    except (AttributeError, TypeError, Py4JError):
        return None
    total, plans, known = 0, [builder.cachedPlan()], {builder.cachedColumnBuffers().id()}
    while plans:
        plan = plans.pop()
        kind = plan.getClass().getSimpleName()
        written = plan.metrics().get("shuffleBytesWritten")
        total += written.get().value() if written.isDefined() else 0
        if kind == "InMemoryTableScanExec":
            builder = plan.relation().cacheBuilder()
            number = builder.cachedColumnBuffers().id()
            if number not in known:
                known.add(number)
                plans.append(builder.cachedPlan())
        plans += _below(plan, kind)
    return int(total)


def _below(plan: Any, kind: str) -> list[Any]:
    """Return the steps of a plan that a step reads; a stage that ran has them as its own plan."""
    if kind == "AdaptiveSparkPlanExec":
        return [plan.executedPlan()]
    if kind.endswith("QueryStageExec"):
        return [plan.plan()]
    children = plan.children()
    return [children.apply(place) for place in range(children.size())]


@contextlib.contextmanager
def named_view(rows: DataFrame) -> Iterator[DataFrame]:
    """Yield the same rows; to a client of Connect, as a temporary view of the server.

    A client sends the whole plan with each question. protobuf copies the plan of a checkpoint, and
    refuses messages of more than a hundred levels, which are some fifty steps of a plan.
    """
    session = rows.sparkSession
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        yield rows
        return
    name = f"lshdb_{uuid.uuid4().hex}"
    rows.createTempView(name)
    try:
        yield session.table(name)
    finally:
        session.catalog.dropTempView(name)


def release(spark: SparkSession | None = None) -> None:
    """Free everything that Spark keeps for the answers of this library.

    An answer that you use again is computed again. Data frames that you cached yourself stay.

    Parameters
    ----------
    spark : SparkSession, optional
        The active one by default.
    """
    session = SparkSession.getActiveSession() if spark is None else spark
    frames = _PERSISTED.pop(session, []) if session is not None else []
    # The last first: without a frame, Spark plans anew every frame that reads it and has not run.
    for rows in reversed(frames):
        rows.unpersist()
