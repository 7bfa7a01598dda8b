"""A threshold that lets in what an index was not made for is answered with a warning."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from lshdb import Index, LshdbWarning, RecallWarning

Make = Callable[..., Index]
Ask = Callable[[Index, Path, float], object]

WORDS = " ".join(f"word{number}" for number in range(30))
TEXTS = [("a", WORDS), ("b", f"{WORDS} more")]


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """The tests leave these warnings out; here each is an error, or is expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecallWarning)
        yield


def lines(folder: Path) -> Path:
    path = folder / "lines.jsonl"
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in TEXTS))
    return path


def links(folder: Path) -> Path:
    path = folder / "links.tsv"
    path.write_text("a\tx\nb\tx\n")
    return path


QUESTIONS: dict[str, Ask] = {
    "pairs": lambda index, _, at: index.pairs(threshold=at),
    "query": lambda index, _, at: index.query(TEXTS[0][1], threshold=at),
    "query by key": lambda index, _, at: index.query(key="a", threshold=at),
    "query with a limit": lambda index, _, at: index.query(key="a", threshold=at, probe_limit=9),
    "query_many": lambda index, _, at: index.query_many(TEXTS, threshold=at),
    "clusters": lambda index, _, at: index.clusters(threshold=at),
    "update_clusters": lambda index, _, at: index.update_clusters(threshold=at),
    "dedup": lambda index, _, at: index.dedup(threshold=at),
    "neighbors": lambda index, _, at: index.neighbors(threshold=at),
    "join": lambda index, _, at: index.join(index, threshold=at),
    "contract": lambda index, folder, at: index.contract(links(folder), threshold=at),
    "filter": lambda index, folder, at: index.filter(lines(folder), threshold=at),
}


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_every_question_warns_once_and_answers(name: str, make_index: Make, tmp_path: Path) -> None:
    ask, index = QUESTIONS[name], make_index(threshold=0.8)
    index.add(TEXTS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ask(index, tmp_path, 0.3)
        assert len(caught) == 1, "when it is asked, before an answer is taken"
        if isinstance(found, Iterable):
            list(found)
    assert [one.category for one in caught] == [RecallWarning]
    assert caught[0].filename == __file__, "the caller's line, and none of the library"
    assert str(caught[0].message) == (
        "a pair at similarity 0.3, below this index's threshold of 0.8, is found with probability "
        f"{index.params.recall_at(0.3):.4f}; an index made, or rebanded, with threshold 0.3 finds "
        "more"
    )
    for threshold in (0.8, 0.95):
        found = ask(index, tmp_path, threshold)
        if isinstance(found, Iterable):
            list(found)


def test_no_threshold_no_warning(make_index: Make) -> None:
    index = make_index(threshold=0.8)
    index.add(TEXTS)
    assert len(list(index.pairs())) == 1 and len(list(index.clusters())) == 1
    assert len(index.query(key="a")) == 1
    assert len(list(index.pairs(threshold=0.1, verify="none"))) == 1, "which no threshold is for"
    assert len(index.query(key="a", threshold=0.1, recall=0.5)) == 1, "which says what it reached"


@pytest.mark.parametrize("metric", ["l2", "hamming", "cosine"])
def test_for_a_distance_larger_is_less_sure(metric: str, make_index: Make, tmp_path: Path) -> None:
    values = {"l2": (3, 2.5, 9), "hamming": (4, 3, 30), "cosine": (0.9, 0.95, 0.3)}
    near, surer, far = values[metric]
    index = make_index(metric=metric, threshold=near, dim=64)
    rng = np.random.default_rng(1)
    if metric == "hamming":
        bits = rng.integers(0, 2, 64).astype(bool)
        index.add([("a", bits), ("b", bits)])
    else:
        vector = rng.standard_normal(64)
        index.add([("a", vector), ("b", vector + 0.01)])
    what = "similarity" if metric == "cosine" else "distance"
    where = "below" if metric == "cosine" else "above"
    with pytest.warns(RecallWarning, match=f"at {what} {far:g}, {where} this index's threshold"):
        assert len(list(index.pairs(threshold=far))) == 1
    assert len(list(index.pairs(threshold=surer))) == 1
    with index.contract(links(tmp_path)) as contracted:
        assert list(contracted) == [("a", "x", 2)]
    with pytest.warns(RecallWarning), index.contract(links(tmp_path), threshold=far) as contracted:
        assert list(contracted) == [("a", "x", 2)]


def test_bands_that_find_it_as_surely_need_no_warning(make_index: Make) -> None:
    index = make_index(threshold=0.8, bands=100, rows=1)
    index.add(TEXTS)
    assert len(list(index.pairs(threshold=0.5))) == 1


def test_python_shows_it_once_for_each_place(make_index: Make) -> None:
    index = make_index(threshold=0.8)
    index.add(TEXTS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            list(index.pairs(threshold=0.3))
        list(index.pairs(threshold=0.3))
    assert len(caught) == 2 and issubclass(RecallWarning, LshdbWarning)
    assert issubclass(LshdbWarning, UserWarning)
