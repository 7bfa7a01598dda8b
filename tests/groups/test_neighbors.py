"""Neighbours as columns against a plain sort of all pairs, with more copies than a block holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from lshdb import Index
from lshdb.search.pair_columns import LINES
from tests.brute import brute_pairs
from tests.conftest import family_corpus

N_COPIES = 70


@pytest.mark.parametrize("top", [1, 3, 10**30])
@pytest.mark.parametrize("since", [None, 2])
def test_neighbors_are_all_pairs_ranked(
    make_index: Callable[..., Index], top: int, since: int | None
) -> None:
    index = make_index(threshold=0.5, recall=0.999999)
    documents = family_corpus(3, families=12)
    text = documents[0][1]
    batches = documents, [(f"copy-{number:02}", text) for number in range(N_COPIES)]
    for batch in batches:
        index.add(batch)
    documents = [*batches[0], *batches[1]]
    age = {key: number for number, (key, _) in enumerate(documents)}
    similar: dict[str, list[tuple[float, int, str]]] = {}
    for key1, key2, similarity, *_ in brute_pairs(documents, 0.5):
        for key, other in ((key1, key2), (key2, key1)):
            similar.setdefault(key, []).append((-similarity, age[other], other))
    new = {key for key, _ in batches[1]} if since else set(age)
    expected = {
        key: [
            (rank, other, -level)
            for rank, (level, _, other) in enumerate(sorted(hits), 1)
            if rank <= top
        ]
        for key, hits in similar.items()
        if key in new
    }
    neighbors = index.neighbors(top=top, since=since)
    listed = list(neighbors)
    for key, group in itertools.groupby(listed, key=lambda neighbor: neighbor.key):
        ranked = [(hit.rank, hit.neighbor, round(hit.similarity, 9)) for hit in group]
        assert ranked == expected[key], key
    assert {neighbor.key for neighbor in listed} == set(expected)
    blocks = list(neighbors.columns())
    assert [*itertools.chain.from_iterable(block.neighbors() for block in blocks)] == listed
    assert all(0 < len(block) <= LINES for block in blocks)
    if top > N_COPIES:
        assert len(listed) > LINES
    if since is None:
        nearest = index.neighbors(top=top, recall=1, threshold=0.5)
        assert list(nearest) == listed
