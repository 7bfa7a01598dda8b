"""The estimate of what large buckets hide holds what they hide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lshdb.spark
from lshdb.spark import lost_pairs, stages
from tests.search.test_loss import crowded

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning"),
]
ASKED: dict[str, Any] = {"threshold": 0.5, "k": 2}


@pytest.mark.long
def test_the_interval_holds_what_is_lost(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a data frame and of a dataset, with copies, in groups that are left out and others."""
    monkeypatch.setattr(lost_pairs, "DRAWN", 3000)
    documents = crowded(5, families=11, boilerplate=40)
    documents += [(f"{key}-again", text) for key, text in documents[:20]]
    documents += [(f"copy{number}", documents[30][1]) for number in range(9)]
    df = spark.createDataFrame(documents, "id string, text string").repartition(3)
    all_pairs = lshdb.spark.pairs(df, max_bucket="none", **ASKED).count()
    index = lshdb.spark.Index.create(str(tmp_path / "d"), **ASKED)
    index.add(df)
    for found_pairs, found in (
        (lshdb.spark.pairs(df, max_bucket=5, **ASKED), lshdb.spark.loss(df, max_bucket=5, **ASKED)),
        (index.pairs(max_bucket=5), index.loss(max_bucket=5)),
    ):
        true = 1 - found_pairs.count() / all_pairs  # each has leaders of its own
        assert true > 0.2
        assert found.low < true < found.high
        assert found.share == pytest.approx(true, rel=0.2)
        assert found.high - found.low < 0.25
        assert not found.is_exact and found.n_sampled >= 3000 - 100
    of_other = lshdb.spark.loss(df.repartition(5), max_bucket=5, **ASKED)
    assert lshdb.spark.loss(df, max_bucket=5, **ASKED) == of_other


def test_nothing_is_lost_without_large_buckets(
    spark: Any, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """Nor is a pair compared to find that out."""
    texts = [text for _, text in crowded(5, families=3, boilerplate=0)]
    documents = [(f"d{number}", text) for number, text in enumerate([*texts, *texts[:1] * 3])]
    df = spark.createDataFrame(documents, "id string, text string")
    with monkeypatch.context() as patch:
        failing = spark.sql("SELECT raise_error('a pair is compared') AS left")
        patch.setattr(stages, "verified", lambda *_, **__: failing)
        found = lshdb.spark.loss(df, **ASKED)
    assert (found.pairs, found.share, found.high, found.is_exact) == (0, 0, 0, True)
    if is_long:
        lost = lshdb.spark.loss(df, max_bucket=3, **ASKED)
        assert lost.pairs >= 6 and lost.low <= lost.share <= lost.high  # four copies
