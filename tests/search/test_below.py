"""``below``: near, but not a copy, in pairs, queries and neighbours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, ParameterError, RecallWarning
from tests.conftest import family_corpus, pair_set

Make = Callable[..., Index]

pytestmark = pytest.mark.fast


@pytest.fixture
def index(make_index: Make) -> Index:
    """An index of families, with two copies of some documents, in two batches."""
    index = make_index(threshold=0.4)
    corpus = family_corpus(7, families=12)
    index.add(corpus)
    index.add((f"copy of {key}", text) for key, text in corpus[:9])
    return index


@pytest.mark.parametrize("verify", ["exact", "signature"])
@pytest.mark.parametrize("below", [1.0, 0.7])
def test_pairs_below_are_those_that_are_less_similar(
    index: Index, below: float, verify: str
) -> None:
    everything = pair_set(index, verify=verify)
    wanted = {pair for pair in everything if pair[2] < below}
    assert 10 < len(wanted) < len(everything)
    assert pair_set(index, below=below, verify=verify) == wanted
    assert len(list(index.pairs(below=below, verify=verify, limit=3))) == 3  # type: ignore[arg-type]


def test_pairs_below_since_a_batch(index: Index) -> None:
    new = pair_set(index, since="last")
    assert any(similarity == 1 for *_, similarity in new)
    wanted = {pair for pair in new if pair[2] < 0.9}
    assert wanted and pair_set(index, since="last", below=0.9) == wanted


def test_what_a_cap_loses_does_not_depend_on_it(index: Index) -> None:
    found = [index.pairs(max_bucket=3, below=below) for below in (None, 0.9)]
    for one in found:
        for _ in one:
            pass
    assert found[0].left_out.buckets == found[1].left_out.buckets > 0
    assert found[0].loss == found[1].loss is not None


@pytest.mark.parametrize("given", [{}, {"verify": "signature"}, {"recall": 0.9}])
def test_hits_below_are_counted_before_top(index: Index, given: dict[str, Any]) -> None:
    texts = index.texts(list(index))
    for key in list(texts)[:9]:
        every = index.query(texts[key], top=None, threshold=0.3, **given)
        wanted = [hit for hit in every if hit.similarity < 0.95]
        assert len(wanted) < len(every)
        found = index.query(texts[key], top=None, threshold=0.3, below=0.95, **given)
        assert found == wanted
        copies = [hit for hit in every if hit.similarity == 1]
        apart = index.query(texts[key], top=None, threshold=0.3, below=1, **given)
        assert copies and apart == every[len(copies) :]
        best = index.query(texts[key], top=1, threshold=0.3, below=0.95, **given)
        assert best == wanted[:1]
        by_key = index.query(key=key, top=None, threshold=0.3, below=0.95, **given)
        assert [hit.key for hit in by_key] == [hit.key for hit in wanted]
        many = dict(index.query_many([(key, texts[key])], top=None, threshold=0.3, below=0.95))
        if "recall" not in given and "verify" not in given:
            assert many[key] == wanted


def test_neighbors_below_are_ranked_without_copies(index: Index) -> None:
    every = list(index.neighbors(top=1000))
    wanted = {(one.key, one.neighbor): one.similarity for one in every if one.similarity < 0.9}
    found = list(index.neighbors(top=1000, below=0.9))
    assert {(one.key, one.neighbor): one.similarity for one in found} == wanted
    nearest = {one.key: one for one in index.neighbors(top=1, below=0.9)}
    assert len(wanted) < len(every)
    for key, one in nearest.items():
        assert one.rank == 1
        assert one.similarity == max(value for (of, _), value in wanted.items() if of == key)


@pytest.mark.parametrize("metric", ["l2", "hamming"])
def test_below_a_distance_means_farther(metric: str, tmp_path: Path) -> None:
    """As a threshold is the largest distance, below is one that all answers exceed."""
    bodies: Any = np.repeat(np.random.default_rng(4).random((6, 40)) < 0.5, 4, axis=0)
    for number, body in enumerate(bodies):
        body[: max(0, number % 4 - 1)] ^= True  # two copies, and one and two places that differ
    if metric == "l2":
        bodies = bodies.astype("f4")
    with Index.create(tmp_path / "a", metric=metric, dim=40, threshold=2) as index:  # type: ignore[arg-type]
        index.add((f"k{number:02}", body) for number, body in enumerate(bodies))
        every = {(pair.key1, pair.key2): pair.distance or 0.0 for pair in index.pairs()}
        for below in (0, 1, 1.2):
            farther = {pair for pair, distance in every.items() if distance > below}
            assert 0 < len(farther) < len(every)
            assert {(one.key1, one.key2) for one in index.pairs(below=below)} == farther
        near = index.neighbors(below=0)
        assert {(one.key, one.neighbor) for one in near if one.key < one.neighbor} == {
            pair for pair, distance in every.items() if distance > 0
        }
        with pytest.raises(ParameterError, match="the threshold 2, so"):
            index.pairs(below=2)


def test_what_makes_no_sense_is_refused(index: Index) -> None:
    asks: list[Callable[..., Any]] = [
        index.pairs,
        index.neighbors,
        lambda **given: index.query("a b", **given),
    ]
    for ask in asks:
        with pytest.raises(ParameterError, match=r"below is 0\.4 and the threshold 0\.4, so"):
            ask(below=0.4)
        with pytest.raises(ParameterError, match=r"below is 1\.5; expected a number above 0"):
            ask(below=1.5)
        with pytest.raises(ParameterError, match="below is 'x'"):
            ask(below="x")
    with pytest.warns(RecallWarning):
        index.pairs(threshold=0.2, below=0.4)
    for ask in (asks[0], asks[2]):
        with pytest.raises(ParameterError, match="verify 'none' compares nothing"):
            ask(below=0.9, verify="none")
