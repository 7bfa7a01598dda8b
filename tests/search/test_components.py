"""Components and representatives against the plain ways of finding them."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb.errors import DamageError
from lshdb.search.components import by_component, connect, represent, spanning

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=80).map(
    lambda pairs: [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return flat[:, 0].copy(), flat[:, 1].copy()


def plain_roots(pairs: list[tuple[int, int]]) -> dict[int, int]:
    root = {node: node for pair in pairs for node in pair}
    changed = True
    while changed:
        changed = False
        for one, other in pairs:
            least = min(root[one], root[other])
            changed |= root[one] != least or root[other] != least
            root[one] = root[other] = least
    return root


@given(PAIRS)
def test_components_are_those_of_plain_propagation(pairs: list[tuple[int, int]]) -> None:
    expected = plain_roots(pairs)
    nodes, roots = connect(*columns(pairs))
    assert dict(zip(nodes.tolist(), roots.tolist(), strict=True)) == expected
    ordered = [pairs[place] for place in by_component(*columns(pairs)).tolist()]
    assert ordered == sorted(pairs, key=lambda pair: (expected[pair[0]], *pair))


def test_a_long_chain_in_any_order_is_one_component() -> None:
    ids = np.random.default_rng(7).permutation(5000)
    nodes, roots = connect(ids[:-1], ids[1:])
    assert len(nodes) == 5000
    assert not roots.any()
    assert spanning(ids[:-1], ids[1:]).tolist() == list(range(4999))


@given(PAIRS)
def test_a_spanning_forest_connects_the_same_with_no_pair_too_many(
    pairs: list[tuple[int, int]],
) -> None:
    expected = plain_roots(pairs)
    places = spanning(*columns(pairs)).tolist()
    assert places == sorted(set(places))
    assert plain_roots([pairs[place] for place in places]) == expected
    assert len(places) == len(expected) - len(set(expected.values()))


@given(PAIRS, st.randoms(use_true_random=False), st.sampled_from([0, 1, 32]))
def test_representatives_are_those_of_the_greedy_choice(pairs, random, rounds) -> None:  # type: ignore[no-untyped-def]
    pairs = sorted(set(pairs))
    order = sorted({node for pair in pairs for node in pair} | {100, 101})
    random.shuffle(order)
    near: dict[int, set[int]] = {node: set() for node in order}
    for one, other in pairs:
        near[one].add(other)
        near[other].add(one)
    expected: dict[int, int] = {}
    for node in order:
        if node not in expected:
            expected[node] = node
            for other in near[node]:
                expected.setdefault(other, node)
    left, right = columns(pairs)
    with mock.patch("lshdb.search.components._ROUNDS", rounds):
        nodes, found, by = represent(np.array(order, dtype=np.int64), left, right)
    assert dict(zip(nodes.tolist(), found.tolist(), strict=True)) == expected
    for node, representative, pair in zip(nodes.tolist(), found.tolist(), by.tolist(), strict=True):
        if representative == node:
            assert pair == -1
        else:
            assert set(pairs[pair]) == {node, representative}


@pytest.mark.parametrize("step", [1, -1])
def test_a_chain_in_order_is_cut_at_every_second(step: int) -> None:
    n = 50_000  # a round for each took minutes
    order = np.arange(n)[::step]
    nodes, representatives, _ = represent(order, np.arange(n - 1), np.arange(1, n))
    assert nodes[representatives == nodes].tolist() == sorted(order[::2].tolist())


@pytest.mark.parametrize(
    ("order", "left", "right"), [([1, 2], [1], [1]), ([1, 2], [1], [3]), ([], [1], [2])]
)
def test_pairs_that_cannot_be_are_damage_and_no_endless_loop(
    order: list[int], left: list[int], right: list[int]
) -> None:
    with pytest.raises(DamageError, match="a stored edge joins"):
        represent(*(np.array(each, dtype=np.int64) for each in (order, left, right)))
