"""A question asked of Spark in a process of its own, several times; prints what it took as JSON.

    python -m benchmarks._spark_job {lshdb,stages,ml} QUESTION CORPUS.jsonl OUTPUT REPEATS MASTER \
        MEMORY

Each contestant has the session that suits it: ``lshdb`` that of ``lshdb spark``, Spark ML the
default one. The first answer is the one that a new session gives; the others find everything
loaded. Each goes to CSV files in OUTPUT and is made anew, with nothing kept from the one before.

``stages`` writes the rows that ``deduplicate`` keeps, stage by stage, and tells what each took.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks._memory import peak_memory
from benchmarks._processes import processes_below, processor_seconds

THRESHOLD = 0.8
PARTITIONS = 32
"""Of a shuffle, where stages are measured: Spark's 200 are tasks of a millisecond here."""
TABLES = 4
"""Of Spark ML: as few as find as much (on scanned documents .9979 with three, .9997 with four)."""


def main() -> None:
    name, question, corpus, output, repeats, master, memory = sys.argv[1:]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    begun = time.perf_counter()
    settings = {
        "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": memory,
        "spark.ui.retainedStages": "100000", "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    if name == "stages":
        settings["spark.sql.shuffle.partitions"] = str(PARTITIONS)
    if master.startswith("local-cluster"):
        settings["spark.executor.memory"] = f"{master.rstrip(']').rpartition(',')[2]}m"
        os.environ["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    answer, connect = {
        "lshdb": (_by_lshdb, _as_lshdb), "ml": (_by_spark_ml, _as_spark),
        "stages": (_by_lshdb, _as_lshdb),
    }[name]  # fmt: skip
    with connect(master, settings) as spark:
        started = time.perf_counter() - begun
        if name == "stages":
            print(json.dumps(_measured_stages(spark, corpus, Path(output))))
            return
        rounds = [
            _round(spark, answer, question, corpus, Path(output)) for _ in range(int(repeats))
        ]
        cold = processor_seconds(os.getpid()) - sum(each["cpu"] for each in rounds[1:])
        jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        workers = [_peak(pid) for pid, _ in processes_below(os.getpid()) if pid != jvm]
        found = {
            "start": started, "rounds": rounds, "cold_cpu": cold, "peak_jvm": _peak(jvm),
            "peak_worker": max(workers, default=0), "version": spark.version,
        }  # fmt: skip
    print(json.dumps(found))


def _as_lshdb(master: str, settings: Mapping[str, str]) -> AbstractContextManager[SparkSession]:
    """Start Spark as ``lshdb spark`` does."""
    import lshdb.spark

    return lshdb.spark.connect(master, settings)


@contextlib.contextmanager
def _as_spark(master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start Spark as it comes; Spark ML takes half as long again, cold, in the other session."""
    builder = SparkSession.builder.appName("benchmark").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    yield spark
    spark.stop()


def _round(
    spark: SparkSession,
    answer: Callable[[SparkSession, DataFrame, str], DataFrame],
    question: str,
    corpus: str,
    output: Path,
) -> dict[str, float]:
    shutil.rmtree(output, ignore_errors=True)
    spark.catalog.clearCache()
    before, stages = processor_seconds(os.getpid()), _n_stages(spark)
    begun = time.perf_counter()
    df = spark.read.schema("id string, text string").json(corpus)
    answer(spark, df, question).write.csv(str(output), sep="\t")
    seconds = time.perf_counter() - begun
    cpu = processor_seconds(os.getpid()) - before
    return {"seconds": seconds, "cpu": cpu, "shuffled": _shuffled(spark, stages)}


@contextlib.contextmanager
def _measured(spark: SparkSession, name: str, rows: list[dict[str, Any]]) -> Iterator[None]:
    """Add what the jobs that run meanwhile took, and the driver's heap after them."""
    cpu, begun, last = processor_seconds(os.getpid()), time.perf_counter(), _n_stages(spark)
    yield
    seconds, cpu = time.perf_counter() - begun, processor_seconds(os.getpid()) - cpu
    stages = [stage for stage in _stages(spark) if stage.stageId() > last]
    java = spark.sparkContext._jvm.java.lang  # type: ignore[union-attr]
    java.System.gc()
    heap = java.Runtime.getRuntime()
    tasks = [_largest_task(spark, stage) for stage in stages]
    rows.append({
        "stage": name, "seconds": seconds, "cpu": cpu,
        "read": sum(stage.inputBytes() for stage in stages),
        "shuffled": sum(stage.shuffleWriteBytes() for stage in stages),
        "spilled": sum(stage.diskBytesSpilled() for stage in stages),
        "task_bytes": max((task[0] for task in tasks), default=0),
        "task_memory": max((task[1] for task in tasks), default=0),
        "driver_heap": heap.totalMemory() - heap.freeMemory(),
    })  # fmt: skip
    print(json.dumps(rows[-1]), file=sys.stderr, flush=True)


def _largest_task(spark: SparkSession, stage: Any) -> tuple[float, float]:
    """Return the most bytes that a task of a stage read from others, and its most memory."""
    store = spark.sparkContext._jsc.sc().statusStore()  # type: ignore[union-attr]
    most = spark.sparkContext._gateway.new_array(  # type: ignore[union-attr]
        spark.sparkContext._jvm.double,
        1,  # type: ignore[union-attr]
    )
    most[0] = 1.0
    found = store.taskSummary(stage.stageId(), stage.attemptId(), most)
    if not found.isDefined():
        return 0.0, 0.0
    summary = found.get()
    sizes = summary.shuffleReadMetrics().readBytes(), summary.peakExecutionMemory()
    return sizes[0].apply(0), sizes[1].apply(0)


def _measured_stages(spark: SparkSession, corpus: str, output: Path) -> dict[str, Any]:
    """Write the rows that ``deduplicate`` keeps, stage by stage; Spark is warm from a small one.

    Bodies are brought together as those of a billion documents, though pairs are few.
    """
    from lshdb.spark import comparison
    from lshdb.spark.document_graph import DocumentGraph, decisions_of
    from lshdb.spark.frame_answers import Answers
    from lshdb.spark.stages import Stages

    comparison.FEW = 0
    warm = spark.createDataFrame([("a", "x y z"), ("b", "x y z")], "id string, text string")
    Answers(warm, threshold=THRESHOLD).deduplicate().collect()
    rows: list[dict[str, Any]] = []
    df = spark.read.schema("id string, text string").json(corpus)
    stages = Stages(df, threshold=THRESHOLD)
    with _measured(spark, "read and sign", rows):
        stages.signed.where("reason IS NULL").count()
    with _measured(spark, "cut and pair", rows):
        n_pairs = stages.shared.counts
    with _measured(spark, "compare", rows):
        n_edges = stages.edges.count()
    with _measured(spark, "connect", rows):
        graph = DocumentGraph.of(stages, of_all=False)
    with _measured(spark, "choose", rows):
        drops = decisions_of(graph, "first", "drop", "representative").select("key").persist()
        n_drops = drops.count()
    with _measured(spark, "write", rows):
        shutil.rmtree(output, ignore_errors=True)
        kept = df.join(drops, df["id"] == drops["key"], "anti")
        kept.write.parquet(str(output))
    tree = [pid for pid, _ in processes_below(os.getpid())]
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    workers = [_peak(pid) for pid in tree if _name_of(pid).startswith("python")]
    executors = [_peak(pid) for pid in tree if _name_of(pid) == "java" and pid != jvm]
    return {
        "stages": rows, "pairs": n_pairs.pairs, "edges": n_edges,
        "drops": n_drops, "driver_python": peak_memory(), "driver_jvm": _peak(jvm),
        "executor": max(executors, default=0), "worker": max(workers[1:], default=0),
    }  # fmt: skip


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _by_lshdb(spark: SparkSession, df: DataFrame, question: str) -> DataFrame:
    import lshdb.spark

    lshdb.spark.release(spark)
    answers = lshdb.spark.Answers(df, threshold=THRESHOLD)
    if question == "clusters":
        return answers.clusters()
    return answers.pairs().select("key1", "key2", "similarity")


def _by_spark_ml(spark: SparkSession, df: DataFrame, question: str) -> DataFrame:
    """Join with a few tables of one hash each, verified by Spark on hashed shingles.

    Texts are normalised as ``lshdb`` does, without which it finds two thirds of what scanners wrote
    (recall .67).
    """
    from pyspark.ml.feature import HashingTF, MinHashLSH, NGram, RegexTokenizer

    if question != "pairs":
        raise SystemExit("Spark ML has no clusters")
    df = df.withColumn("text", sf.arrow_udf(_normalised, "string")("text"))
    words = RegexTokenizer(inputCol="text", outputCol="words", pattern=r"(?U)\w+", gaps=False)
    shingles = NGram(n=5, inputCol="words", outputCol="shingles")
    hashed = HashingTF(inputCol="shingles", outputCol="features", numFeatures=2**24, binary=True)
    rows = hashed.transform(shingles.transform(words.transform(df)).where("size(shingles) > 0"))
    rows = rows.select("id", "features").persist()
    lsh = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=TABLES, seed=1)
    near = lsh.fit(rows).approxSimilarityJoin(rows, rows, 1 - THRESHOLD + 1e-9, "distance")
    one, other = sf.col("datasetA.id"), sf.col("datasetB.id")
    return near.where(one < other).select(one, other, 1 - sf.col("distance"))


def _normalised(texts: pa.Array) -> pa.Array:
    normalise = unicodedata.normalize
    return pa.array([normalise("NFKC", text).casefold() for text in texts.to_pylist()])


def _stages(spark: SparkSession) -> list[Any]:
    store = spark.sparkContext._jsc.sc().statusStore()  # type: ignore[union-attr]
    gateway = spark.sparkContext._gateway
    nothing = gateway.new_array(gateway.jvm.double, 0)  # type: ignore[union-attr]
    found = store.stageList(None, False, False, nothing, None)
    return [found.apply(place) for place in range(found.size())]


def _n_stages(spark: SparkSession) -> int:
    return max((stage.stageId() for stage in _stages(spark)), default=-1)


def _shuffled(spark: SparkSession, after: int) -> float:
    """Bytes written for other stages since a stage."""
    return sum(one.shuffleWriteBytes() for one in _stages(spark) if one.stageId() > after)


def _peak(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 0


if __name__ == "__main__":
    main()
