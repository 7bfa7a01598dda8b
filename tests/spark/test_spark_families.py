"""What Spark keeps of families in large buckets is what brute force keeps, in a few rounds."""

from __future__ import annotations

import time
from typing import Any

import pytest

import lshdb.spark
from lshdb import UncheckedWarning
from lshdb.spark import document_graph, large_bucket_pairs
from tests.families import KINDS, POLICIES, THRESHOLD, Text, check_kept, family

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning"),
]
ASKED: dict[str, Any] = {"threshold": THRESHOLD, "order": "number"}


def frame(spark: Any, documents: list[Text]) -> Any:
    rows = [
        (one.key, one.text, number, one.fields.get("score")) for number, one in enumerate(documents)
    ]
    return spark.createDataFrame(rows, "id string, text string, number int, score int")


def kept_keys(df: Any, keep: str, **asked: Any) -> dict[str, str | None]:
    rows = lshdb.spark.dedup(df, keep=keep, **(ASKED | asked)).collect()
    return {row.key: row.kept_key for row in rows}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
def test_what_is_kept_of_a_family(spark: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(large_bucket_pairs, "_PAIRED", 4)  # so that what is left is led again
    documents = family(kind, 160, seed=1)
    df = frame(spark, documents)
    for keep in POLICIES:
        check_kept(documents, kept_keys(df, keep, max_bucket=8), keep)


@pytest.mark.long
def test_a_family_takes_one_round_whatever_is_kept(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = family("one_word", 120, seed=2)
    rounds = []
    components = document_graph.components

    def counted(edges: Any) -> Any:
        rounds.append(edges)
        return components(edges)

    monkeypatch.setattr(document_graph, "components", counted)
    found = kept_keys(frame(spark, documents), "last", max_bucket=8)
    assert check_kept(documents, found, "last") == 1
    assert len(rounds) == 2  # of the stored pairs, and of those with the preferred document


@pytest.mark.long
def test_what_was_not_compared_is_a_warning(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are bounded, and the estimate holds the pairs that are left."""
    documents = family("one_word", 120, seed=3)
    df = frame(spark, documents)
    monkeypatch.setattr(document_graph, "ROUNDS", 0)
    nothing = df.selectExpr("CAST(id AS binary) left", "CAST(id AS binary) right", "1e0 similarity",
                            "'exact' method").limit(0)  # fmt: skip
    monkeypatch.setattr(document_graph.LargeBucketPairs, "among", lambda *_: (nothing, False))
    with pytest.warns(UncheckedWarning, match="99 % interval") as caught:
        found = kept_keys(df, "last", max_bucket=8)
    (said,) = (str(one.message) for one in caught if one.category is UncheckedWarning)
    n_kept = sum(kept_key is None for kept_key in found.values())
    low, high = (
        int(number.replace(",", ""))
        for number in said.split("interval ")[1].split(")")[0].split(" to ")
    )
    assert n_kept > 20 and low <= n_kept * (n_kept - 1) // 2 <= high


@pytest.mark.parametrize("n", [1000, 1001, 1300, 5000, 50_000])
@pytest.mark.parametrize("kind", ["one_word", "sub_families", "slow_chain", "boilerplate"])
@pytest.mark.long
def test_families_of_all_sizes(spark: Any, kind: str, n: int) -> None:
    """With the cap that nobody asked for."""
    documents = family(kind, n, seed=n)
    df = frame(spark, documents)
    for keep in ("first", "last", "longest", "field:-score"):
        begun = time.monotonic()
        found = kept_keys(df, keep)
        n_kept = sum(kept_key is None for kept_key in found.values())
        print(kind, n, keep, n_kept, round(time.monotonic() - begun), "s")
        if n <= 5000 or n_kept <= 3000:
            check_kept(documents, found, keep, is_found=lambda *_: False)
