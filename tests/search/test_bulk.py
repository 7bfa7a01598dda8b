"""Many queries at once: the answers of one at a time, whatever the number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lshdb import Index, InputError, ParameterError
from tests.conftest import family_corpus

QUERIES = [(key, text) for key, text in family_corpus(7)[::2]] * 3 + [("none", "..."), ("no", "")]


@pytest.mark.parametrize("verify", ["none", "signature", "exact"])
def test_the_answers_do_not_depend_on_the_workers(
    make_index: Callable[..., Index], verify: str
) -> None:
    index = make_index(threshold=0.5)
    index.add(family_corpus(7))
    index.add([(f"f{family:03d}-1", "replaced by another text") for family in range(10)])
    alone = [(key, index.query(text, verify=verify)) for key, text in QUERIES]
    assert sum(len(hits) for _, hits in alone) > len(QUERIES)
    for workers in (1, 2, 5, None):
        assert list(index.query_many(QUERIES, verify=verify, workers=workers)) == alone


def test_one_worker_answers_a_query_before_it_takes_the_next(
    make_index: Callable[..., Index],
) -> None:
    index = make_index()
    taken = []

    def queries() -> Iterator[tuple[str, str]]:
        for number in range(3):
            taken.append(number)
            yield str(number), "some words that are asked for here"

    answers = index.query_many(queries())
    assert next(answers)[0] == "0"
    assert taken == [0]
    assert [next(answers)[0], next(answers)[0], next(answers, None)] == ["1", "2", None]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_query_comes_after_the_answers_before_it(
    make_index: Callable[..., Index], workers: int
) -> None:
    index = make_index()
    queries = [(str(number), "a b c d e f") for number in range(200)] + [("bad", "\ud800")]
    answers = index.query_many(queries, workers=workers)
    with pytest.raises(InputError, match="query 'bad': the query cannot be used"):
        for key, _ in answers:
            last = key
    assert last == "199"


def test_workers_must_be_some(make_index: Callable[..., Index]) -> None:
    index = make_index()
    with pytest.raises(ParameterError, match="workers is 0"):
        list(index.query_many([], workers=0))
    assert list(index.query_many([], workers=2)) == []


@pytest.mark.parametrize("bag", [False, True])
def test_similarity_of_two_bodies_is_exact(make_index: Callable[..., Index], bag: bool) -> None:
    index = make_index(k=1, bag=bag)
    assert index.similarity("a b c c", "B c c c d") == (3 / 6 if bag else 2 / 4)
    assert index.similarity("a b c", ["a", "b", "x"]) == 2 / 4
    assert index.similarity("A  b", "a b") == 1.0
    assert index.similarity("a", "") == 0.0
    assert index.similarity("...", "") == 0.0
    with pytest.raises(InputError):
        index.similarity("a", "\ud800")
