"""Blocks of queries: the answers of one at a time, of every metric, and as columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lshdb import Index, InputError
from lshdb.params.metrics import METRICS
from lshdb.search import query_blocks
from lshdb.search.pair_columns import SignatureDocuments
from tests.conftest import edited, family_corpus

DIM = 24
TEXTS = {metric for metric, kind in METRICS.items() if kind.body == "text"}
THRESHOLDS = {
    "cosine": 0.9, "l2": 1.0, "l1": 4.0, "hamming": 4, "jaccard-bits": 0.6,
}  # fmt: skip


def bodies_of(metric: str, rng: random.Random) -> list[Any]:
    """Bodies in families, with copies and one that has no element where the metric knows that."""
    kind = METRICS[metric].body
    texts = [text for _, text in family_corpus(3, families=9)]
    if kind == "text":
        return [*texts, "", "one"]
    if kind == "weights":
        return [*({word: 1 + len(word) % 3 for word in text.split()} for text in texts), {}]
    numbers = np.random.default_rng(rng.randrange(2**32))
    centres = numbers.normal(size=(8, DIM))
    vectors = np.concatenate([centres + spread * numbers.normal(size=centres.shape)
                              for spread in (0.0, 0.0, 0.05, 0.2)])  # fmt: skip
    if kind == "bits":
        return ["".join("01"[int(number > 0)] for number in vector) for vector in vectors]
    return list(vectors.tolist())


def queries_of(bodies: list[Any], rng: random.Random) -> list[Any]:
    chosen = rng.choices(bodies, k=rng.randrange(1, 25))
    return [
        edited(rng, body, 1) if isinstance(body, str) and " " in body and rng.random() < 0.5
        else body
        for body in chosen
    ]  # fmt: skip


@pytest.fixture(scope="module", params=sorted(METRICS))
def index(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[Index, Any]]:
    metric = request.param
    options: dict[str, Any] = {"metric": metric, "threshold": THRESHOLDS.get(metric, 0.5)}
    if METRICS[metric].body in ("vector", "bits"):
        options["dim"] = DIM
    bodies = bodies_of(metric, random.Random(1))
    with Index.create(tmp_path_factory.mktemp(metric) / "x.lshdb", **options) as opened:
        opened.add([(f"k{number:03d}", body) for number, body in enumerate(bodies)])
        opened.add([(f"again {number}", body) for number, body in enumerate(bodies[:6])])
        opened.remove(["k002", "k007"])
        yield opened, bodies


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    verify=st.sampled_from(["none", "signature", "exact"]),
    top=st.sampled_from([None, 1, 3]),
    workers=st.sampled_from([1, 2]),
    most=st.sampled_from([1, 5, 10**6]),
    size=st.sampled_from([1, 4, 1024]),
    is_below=st.booleans(),
)
def test_a_block_is_answered_as_its_queries_are(
    index: tuple[Index, list[Any]],
    seed: int,
    verify: Any,
    top: int | None,
    workers: int,
    most: int,
    size: int,
    is_below: bool,
) -> None:
    opened, bodies = index
    queries = queries_of(bodies, random.Random(seed))
    question: dict[str, Any] = {"verify": verify, "top": top}
    if is_below and verify != "none":
        question["below"] = 0.1 if opened.params.kind.is_distance else 0.95
    alone = [(str(number), opened.query(body, **question)) for number, body in enumerate(queries)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_blocks, "_MOST_HITS", most)
        patch.setattr(query_blocks, "_QUERIES", size)
        answers = opened.query_many(queries, workers=workers, **question)
        together = list(answers)
        blocks = list(answers.columns())
    assert together == alone
    assert [hits.truncated for _, hits in together] == [hits.truncated for _, hits in alone]
    assert [[hit.distance for hit in hits] for _, hits in together] == [
        [hit.distance for hit in hits] for _, hits in alone
    ]
    listed = [
        (block.queries[number], key, similarity)
        for block in blocks
        for number, key, similarity in zip(
            block.numbers.tolist(), block.keys, block.similarities.tolist(), strict=True
        )
    ]
    assert listed == [(query, hit.key, hit.similarity) for query, hits in alone for hit in hits]
    assert [query for block in blocks for query in block.queries] == [query for query, _ in alone]
    assert sum(block.truncated.sum() for block in blocks) == sum(
        hits.truncated for _, hits in alone
    )


def test_the_corpora_have_something_to_find(index: tuple[Index, list[Any]]) -> None:
    opened, bodies = index
    assert sum(len(hits) for _, hits in opened.query_many(bodies)) > len(bodies)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_list_is_read_in_blocks_and_a_generator_as_it_comes(
    make_index: Callable[..., Index], workers: int
) -> None:
    index = make_index()
    index.add(family_corpus(3, families=3))
    taken = 0

    def queries() -> Iterator[str]:
        nonlocal taken
        for taken in range(1, 4000):  # noqa: B007
            yield "some words that are asked for here"

    answers = index.query_many(queries(), workers=workers)
    next(answers)
    assert taken == 1 if workers == 1 else 1 < taken < 4000
    assert len(list(answers)) == 3998 and taken == 3999  # ends its transaction


def test_long_queries_are_few_in_a_block(
    make_index: Callable[..., Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_blocks, "_CHARACTERS", 100)
    index = make_index()
    queries: list[Any] = ["word " * 30, "word " * 5, "word " * 5, ["token"] * 300, {"a", "b"}]
    blocks = list(index.query_many(queries).columns())
    assert [len(block.queries) for block in blocks] == [1, 3, 1]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_query_that_is_none_ends_the_columns(
    make_index: Callable[..., Index], workers: int
) -> None:
    index = make_index()
    answers = index.query_many([("a", "one"), ("b", "two"), ("c", 5)], workers=workers)  # type: ignore[list-item]
    read = []
    with pytest.raises(InputError, match="query 'c'"):
        for block in answers.columns():
            read += block.queries
    assert read == ["a", "b"]


def test_a_search_for_the_nearest_has_columns(make_index: Callable[..., Index]) -> None:
    index = make_index()
    corpus = family_corpus(3, families=5)
    index.add(corpus)
    answers = index.query_many(corpus[:6], recall=0.9, top=3)
    for (key, hits), block in zip(answers, answers.columns(), strict=True):
        assert block.queries == [key]
        assert block.keys == [hit.key for hit in hits]
        assert block.similarities.tolist() == [hit.similarity for hit in hits]


def test_copies_beyond_counting(
    make_index: Callable[..., Index], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thread does not hold the hits of a whole block ready."""
    monkeypatch.setattr(query_blocks, "_MOST_HITS", 50)
    index = make_index()
    index.add([(f"{number:03d}", "the same text for all of them") for number in range(200)])
    queries = ["the same text for all of them"] * 40
    alone = index.query(queries[0], top=None)
    assert len(alone) == 200
    for workers in (1, 2):
        blocks = list(index.query_many(queries, top=None, workers=workers).columns())
        assert [len(block) for block in blocks] == [200] * 40
        assert all(list(answer[1]) == alone for block in blocks for answer in block.answers())


@pytest.mark.parametrize("top", [1, 3, 10])
def test_copies_that_cannot_be_listed_are_not_gone_through(
    make_index: Callable[..., Index], monkeypatch: pytest.MonkeyPatch, top: int
) -> None:
    """As many equal questions as there are equal texts cost no more than what they list."""
    index = make_index(threshold=0.5, k=2)
    texts = ["a text that is here again and again", "a text that is here again and often"]
    index.add([(f"key {7 * number % 60:02}", texts[number % 3 == 0]) for number in range(60)])
    alone = [index.query(text, top=top) for text in texts]
    assert alone[0].truncated == 60 - top
    n_placed = []
    plain = SignatureDocuments.places

    def counted(documents: SignatureDocuments, ids: Any) -> Any:
        placed = plain(documents, ids)
        n_placed.append(len(placed[0]))
        return placed

    monkeypatch.setattr(SignatureDocuments, "places", counted)
    answers = index.query_many([(str(number), texts[number % 2]) for number in range(40)], top=top)
    for number, (_, hits) in enumerate(answers):
        assert (list(hits), hits.truncated) == (list(alone[number % 2]), 60 - top)
    assert 0 < sum(n_placed) <= 40 * 2 * top
