"""The nearest documents vote for the value of a field, weighted by similarity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lshdb import Document, Index, ParameterError

Make = Callable[..., Index]

pytestmark = pytest.mark.fast

WORDS = [f"w{number}" for number in range(24)]


def text(*, without: int = 0) -> str:
    """Twenty single-word shingles, of which some are other ones."""
    return " ".join([*WORDS[without:20], *(f"other{number}" for number in range(without))])


def kept(key: str, body: Any, **fields: Any) -> Document:
    return Document(key, body, fields=fields)


@pytest.fixture
def index(make_index: Make) -> Index:
    """Documents whose similarity to ``text()`` is 1, 18/22, 16/24 and 15/25."""
    index = make_index(threshold=0.5, k=1)
    index.add(
        [
            kept("same", text(), topic="sport", year=2020, tags=["a", "b"]),
            kept("near", text(without=2), topic="politics", year=2020, tags=["b"]),
            kept("less", text(without=4), topic="politics", year="2020", tags=[]),
            kept("least", text(without=5), other=1),
        ]
    )
    return index


def test_votes_weigh_as_much_as_documents_are_similar(index: Index) -> None:
    votes = index.vote(index.query(text()), "topic")
    weights = {"sport": 1.0, "politics": 18 / 22 + 16 / 24}
    total = sum(weights.values())
    assert [(one.value, one.documents, one.method) for one in votes] == [
        ("politics", 2, "exact"), ("sport", 1, "exact"),
    ]  # fmt: skip
    for one in votes:
        assert one.share == pytest.approx(weights[one.value] / total)
    nearest = index.vote(index.query(text(), top=1), "topic")
    assert [(one.value, one.share) for one in nearest] == [("sport", 1.0)]


def test_values_keep_their_type_and_lists_share_a_vote(index: Index) -> None:
    hits = index.query(text())
    years = {repr(one.value): one.documents for one in index.vote(hits, "year")}
    assert years == {"2020": 2, "'2020'": 1}
    tags = {one.value: (one.share, one.documents) for one in index.vote(hits, "tags")}
    total = 1 + 18 / 22
    assert tags["a"][0] == pytest.approx(0.5 / total) and tags["a"][1] == 1
    assert tags["b"][0] == pytest.approx((0.5 + 18 / 22) / total) and tags["b"][1] == 2
    assert index.vote(hits[-1:], "topic") == []
    assert index.vote([], "topic") == []


def test_a_distance_weighs_less_the_larger_it_is(make_index: Make) -> None:
    index = make_index(metric="l2", dim=2, threshold=2.0)
    points = {"a": [0, 0], "b": [2, 0], "c": [0, 1]}
    index.add(kept(key, point, name=key) for key, point in points.items())
    votes = index.vote(index.query([0, 0], recall=0.99), "name")
    weights = {"a": 1.0, "c": 1 / 1.5, "b": 1 / 2}
    assert [one.value for one in votes] == list(weights)
    for one in votes:
        assert one.share == pytest.approx(weights[one.value] / sum(weights.values()))


def test_a_negative_cosine_counts_nothing(make_index: Make) -> None:
    index = make_index(metric="cosine", dim=2)
    index.add([kept("a", [1, 0], name="a"), kept("b", [-1, 0], name="b")])
    votes = index.vote(index.query([1, 0], recall=0.99), "name")
    assert {one.value: one.share for one in votes} == {"a": 1.0, "b": 0.0}


def test_what_cannot_vote_is_refused(index: Index) -> None:
    with pytest.raises(ParameterError, match=r"no document has the kept field 'theme'; .*topic"):
        index.vote([], "theme")
    with pytest.raises(ParameterError, match="field is 3"):
        index.vote([], 3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="something else than hits"):
        index.vote(["same"], "topic")  # type: ignore[list-item]
