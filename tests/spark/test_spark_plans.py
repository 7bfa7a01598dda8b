"""Plans for a billion documents: what one task, one executor or the driver would have to hold.

The data frame has some documents, and Spark is told that it has a terabyte: a billion of 1.1 KB. So
plans are those for a billion, and run nevertheless. Limits at which rounds begin are those of some
documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lshdb.spark
from lshdb.spark import comparison, grouping, hash_filter, merged_buckets, spanning_pairs
from tests.conftest import family_corpus

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning"),
]
DOCUMENTS = 10**9
MOST_BROADCAST = 2**30
PARTITIONS = 7
"""Of a shuffle: no other number is in a plan by chance."""
SETTINGS = {
    "spark.sql.defaultSizeInBytes": str(1100 * DOCUMENTS),
    "spark.sql.shuffle.partitions": str(PARTITIONS),
}


@pytest.fixture
def many(spark: Any) -> Iterator[Any]:
    """A data frame of which Spark thinks that it has a terabyte."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    documents = [*family_corpus(7, families=4), *((f"copy{n}", "the same words") for n in range(6))]
    rows = [(key, text) for key, text in documents if isinstance(text, str)]
    yield spark.createDataFrame(rows, "id string, text string")
    for name, value in before.items():
        spark.conf.set(name, value)


def steps(plan: Any) -> Iterator[Any]:
    """Yield the steps of a plan, of its subqueries, and of the frames that it reads."""
    plans, known = [plan], set()
    while plans:
        step = plans.pop()
        kind = step.getClass().getSimpleName()
        if kind == "AdaptiveSparkPlanExec":
            plans.append(step.initialPlan())
            continue
        yield step
        if kind == "InMemoryTableScanExec":
            builder = step.relation().cacheBuilder()
            name = builder.cachedColumnBuffers().id()
            if name not in known:
                known.add(name)
                plans.append(builder.cachedPlan())
        for sequence in (step.children(), step.subqueries()):
            plans += [sequence.apply(place) for place in range(sequence.size())]


def is_sum(step: Any) -> bool:
    """Return whether a step gives out one row for each of its tasks."""
    return "Aggregate" in step.nodeName() and step.groupingExpressions().isEmpty()


def check_plan(plan: Any) -> int:
    """Return how many shuffles a plan has; each is into all partitions, or of a row for each."""
    n_shuffles = 0
    for step in steps(plan):
        kind = step.getClass().getSimpleName()
        if kind == "ShuffleExchangeExec":
            into = step.outputPartitioning()
            if into.numPartitions() == 1:
                assert is_sum(step.child()), f"one task gets all of {step.treeString()}"
            else:
                assert into.numPartitions() == PARTITIONS
            n_shuffles += 1
        elif kind == "BroadcastExchangeExec":
            check_broadcast(step.child())
        assert kind not in ("CartesianProductExec", "CollectLimitExec")
    return n_shuffles


def check_broadcast(rows: Any) -> None:
    """Check that rows are a sum, a bit map, or few by what Spark knows of them."""
    names = [rows.output().apply(place).name() for place in range(rows.output().size())]
    if names == ["_chunk", "_words"]:
        n_rows = hash_filter.MOST_BITS // hash_filter.CHUNK
        assert n_rows * (hash_filter.CHUNK // 8 + 72) < MOST_BROADCAST
        return
    while rows.getClass().getSimpleName() == "ProjectExec":
        rows = rows.child()
    if not is_sum(rows):
        link = rows.logicalLink()
        n_bytes = int(link.get().stats().sizeInBytes())
        assert n_bytes < MOST_BROADCAST, f"{n_bytes} bytes: {rows.treeString()}"


def test_pairs_of_a_billion_documents_are_spread(spark: Any, many: Any) -> None:
    """There are steps for large buckets, which are there."""
    answer = lshdb.spark.pairs(many, threshold=0.5, max_bucket=3)
    assert check_plan(answer._jdf.queryExecution().executedPlan()) > 20
    alone = many.repartition(1).sortWithinPartitions("id")
    with pytest.raises(AssertionError, match="one task gets all"):
        check_plan(alone._jdf.queryExecution().executedPlan())


@pytest.mark.long
def test_what_runs_for_a_billion_documents_is_spread(
    spark: Any, many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All plans of clusters and of what to keep, with rounds for components of any size."""
    few = 12
    monkeypatch.setattr(grouping, "MOST_AT_ONCE", few)
    monkeypatch.setattr(merged_buckets, "MANY", few)
    monkeypatch.setattr(spanning_pairs, "MANY", few)
    monkeypatch.setattr(comparison, "FEW", -1)  # what was counted may be broadcast
    kind = type(many)
    n_plans = 0

    def watched(name: str) -> None:
        run = getattr(kind, name)

        def running(rows: Any, *arguments: Any, **options: Any) -> Any:
            nonlocal n_plans
            n_plans += 1
            check_plan(rows._jdf.queryExecution().executedPlan())
            answer = run(rows, *arguments, **options)
            assert name != "collect" or len(answer) <= few, "rows come to the driver"
            return answer

        monkeypatch.setattr(kind, name, running)

    for name in ("collect", "count", "isEmpty", "checkpoint", "localCheckpoint", "persist"):
        watched(name)
    repartition = kind.repartition

    def repartitioned(rows: Any, *into: Any) -> Any:
        if not isinstance(into[0], int):
            return repartition(rows, *into)
        assert rows.count() <= few, "one task gets all"
        return rows  # so that its plan is checked for the rest

    monkeypatch.setattr(kind, "repartition", repartitioned)
    answers = lshdb.spark.Answers(many, threshold=0.5, max_bucket=3)
    for answer in (answers.clusters(), answers.dedup(), answers.deduplicate(mark=True)):
        check_plan(answer._jdf.queryExecution().executedPlan())
    assert n_plans > 50
