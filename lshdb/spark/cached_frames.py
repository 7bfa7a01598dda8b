"""Data frames that several stages read: computed once, and kept on the executors.

``persist`` by itself keeps as many partitions as Spark shuffles into, 200 by default, however few
rows they have, because other plans may rely on their number. None here does. So small ones are put
together as in any other stage (``spark.sql.optimizer.canChangeCachedPlanOutputPartitioning``, which
counts at the moment of ``persist`` and is set for that moment): 27,000 statutes took 200 tasks in
each of ten stages without it, and three times the processor time.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

__all__ = ["named_view", "persisted", "release"]

_DATASET = "org.apache.spark.sql.classic.Dataset"
_FEWER = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
_KEPT: dict[SparkSession, list[DataFrame]] = {}
"""What is kept, by session."""


def persisted(rows: DataFrame, *, in_memory: bool = True) -> DataFrame:
    """Keep rows, in memory or on the disks of executors, from when they are first computed.

    Until :func:`release`. The same plan is kept once.

    Parameters
    ----------
    rows : DataFrame
    in_memory : bool
        Where there is room. Not for bodies and signatures: their partitions took half of a heap of
        2 GB, and a million documents failed. From disks they are read a tenth slower.
    """
    session = rows.sparkSession
    before = session.conf.get(_FEWER, None)
    session.conf.set(_FEWER, "true")
    try:
        level = StorageLevel.MEMORY_AND_DISK if in_memory else StorageLevel.DISK_ONLY
        found = rows.persist(level)
    finally:
        if before is None:
            session.conf.unset(_FEWER)
        else:
            session.conf.set(_FEWER, before)
    _KEPT.setdefault(session, []).append(found)
    return _as_leaf(found)


def _as_leaf(rows: DataFrame) -> DataFrame:
    """Return kept rows as a leaf of the plans that read them.

    A plan holds the plans of all that it reads, as often as it reads them; the last one of a
    question held the first some fifty times, and Spark looked through all of them with every step.
    It puts this leaf there by itself, when it runs. A client of Connect cannot ask for it, and
    plans there stay as they are.
    """
    try:
        session = rows.sparkSession._jsparkSession
        cached = session.sharedState().cacheManager().lookupCachedData(rows._jdf)
        relation = cached.get().cachedRepresentation()
        made = JavaClass(_DATASET, rows._jdf._gateway_client).ofRows(session, relation)
        return DataFrame(made, rows.sparkSession)
    except (AttributeError, TypeError, Py4JError):
        return rows


@contextlib.contextmanager
def named_view(rows: DataFrame) -> Iterator[DataFrame]:
    """Give the same rows under a name that the server knows, meanwhile, to a client of Connect.

    A client sends the whole plan with each question. That of a checkpoint is copied by protobuf on
    its way, which refuses messages of more than a hundred levels: some fifty steps of a plan.
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
    """Free what Spark keeps for the answers of this library so far.

    Answers that you use again afterwards are computed again. Your own cached data frames stay.

    Parameters
    ----------
    spark : SparkSession, optional
        The active one by default.
    """
    session = SparkSession.getActiveSession() if spark is None else spark
    kept_here = _KEPT.pop(session, []) if session is not None else []
    # The last first: when rows go, Spark plans anew what was made of them and not yet computed.
    for rows in reversed(kept_here):
        rows.unpersist()
