"""What holds of every scheme: a row is its set's and nothing else's, and is the documented one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from numpy.typing import NDArray

import lshdb.signatures.sets
from lshdb.kernel import minhash, reference_sets
from lshdb.signatures import SCHEMES, sign
from tests.golden import plain
from tests.without_kernel import use_reference

Elements = NDArray[np.uint64]
EDGES = [0, 1, 2**32 - 1, 2**32, 2**61 - 2, 2**61 - 1, 2**61, 2**63, 2**64 - 2, 2**64 - 1]

scheme_and_more = pytest.mark.parametrize("scheme", SCHEMES)


def random_sets(seed: int, sizes: list[int]) -> list[Elements]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2**64, size, dtype=np.uint64) for size in sizes]


def test_the_first_scheme_is_the_default() -> None:
    assert list(SCHEMES) == ["fss", "universal"]


# The documented values


@scheme_and_more
@pytest.mark.parametrize("num_perm", [1, 2, 3, 7, 64, 100, 128, 256])
@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**64 - 1, 2**64 - plain.GOLDEN])
def test_rows_are_the_documented_ones(scheme: str, num_perm: int, seed: int) -> None:
    sets = random_sets(num_perm, [1, 2, 3, 10, 60, 200])
    sets += [np.array(EDGES, dtype=np.uint64)]
    sets += [np.array([edge], dtype=np.uint64) for edge in EDGES]
    rows = sign(sets, scheme=scheme, num_perm=num_perm, seed=seed)
    assert rows.dtype == np.uint16
    assert rows.shape == (len(sets), num_perm)
    for row, elements in zip(rows.tolist(), sets, strict=True):
        assert row == plain.SCHEMES[scheme](elements.tolist(), num_perm=num_perm, seed=seed)


@scheme_and_more
def test_the_longest_signature(scheme: str) -> None:
    sets = random_sets(4, [1, 5])
    rows = sign(sets, scheme=scheme, num_perm=4096, seed=9)
    for row, elements in zip(rows.tolist(), sets, strict=True):
        assert row == plain.SCHEMES[scheme](elements.tolist(), num_perm=4096, seed=9)


@scheme_and_more
def test_seeds_make_other_signatures(scheme: str) -> None:
    elements = random_sets(5, [50])
    rows = [
        sign(elements, scheme=scheme, num_perm=128, seed=seed)[0]
        for seed in (0, 1, 2, 2**32, 2**63, 2**64 - 1)
    ]
    for one, other in itertools.combinations(rows, 2):
        assert (one == other).sum() <= 1


# A row depends on its set alone


@scheme_and_more
def test_order_and_repeats_make_no_difference(scheme: str) -> None:
    rng = np.random.default_rng(6)
    for size in (1, 2, 17, 500, 3000):
        (elements,) = random_sets(size, [size])
        variants = [
            elements,
            np.sort(elements),
            np.sort(elements)[::-1],
            rng.permutation(elements),
            np.repeat(elements, 3),
            rng.permutation(np.concatenate([elements, elements[: size // 2 + 1]])),
        ]
        rows = sign(variants, scheme=scheme, num_perm=100, seed=3)
        assert (rows == rows[0]).all()


@scheme_and_more
def test_batch_mates_make_no_difference(scheme: str) -> None:
    rng = random.Random(7)
    sets = random_sets(8, [rng.choice([1, 2, 3, 30, 300]) for _ in range(60)])
    sets[20] = sets[10]
    together = sign(sets, scheme=scheme, num_perm=64, seed=5)
    for number, elements in enumerate(sets):
        alone = sign([elements], scheme=scheme, num_perm=64, seed=5)
        assert (together[number] == alone[0]).all()
    order = list(range(len(sets)))
    rng.shuffle(order)
    shuffled = sign([sets[number] for number in order], scheme=scheme, num_perm=64, seed=5)
    assert (shuffled == together[order]).all()


@scheme_and_more
@pytest.mark.parametrize("elements", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("most_sets", [1, 2, 5, 1024])
def test_block_boundaries_make_no_difference(
    scheme: str, elements: int, most_sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = random_sets(9, [1, 1, 7, 2, 64, 63, 65, 1, 500, 3, 3, 3, 128, 1])
    expected = sign(sets, scheme=scheme, num_perm=33, seed=5)
    monkeypatch.setattr(lshdb.signatures.sets, "_BLOCK_ELEMENTS", elements)
    monkeypatch.setattr(lshdb.signatures.sets, "_BLOCK_SETS", most_sets)
    assert (sign(sets, scheme=scheme, num_perm=33, seed=5) == expected).all()
    use_reference(monkeypatch)
    monkeypatch.setattr(minhash, "_CHUNK", max(1, elements // 3))
    monkeypatch.setattr(reference_sets, "_BLOCK_ELEMENTS", elements)
    monkeypatch.setattr(reference_sets, "_BLOCK_SETS", most_sets)
    assert (sign(sets, scheme=scheme, num_perm=33, seed=5) == expected).all()


@scheme_and_more
def test_more_sets_and_elements_than_a_block_holds(scheme: str) -> None:
    small = random_sets(10, [1 + number % 5 for number in range(2500)])
    rows = sign(small, scheme=scheme, num_perm=16, seed=5)
    for number in (0, 1, 1022, 1023, 1024, 1025, 2047, 2048, 2499):
        assert (rows[number] == sign([small[number]], scheme=scheme, num_perm=16, seed=5)[0]).all()
    large = random_sets(11, [200_000, 100_000, 1, 5000])
    rows = sign(large, scheme=scheme, num_perm=16, seed=5)
    for number, elements in enumerate(large):
        assert (rows[number] == sign([elements], scheme=scheme, num_perm=16, seed=5)[0]).all()


@scheme_and_more
def test_no_sets_and_untouched_arguments(scheme: str) -> None:
    assert sign([], scheme=scheme, num_perm=12, seed=1).shape == (0, 12)
    sets = random_sets(12, [3, 400])
    before = [elements.tolist() for elements in sets]
    for elements in sets:
        elements.flags.writeable = False
    sign(sets, scheme=scheme, num_perm=12, seed=1)
    assert [elements.tolist() for elements in sets] == before


# Each scheme's own


@pytest.mark.parametrize("num_perm", [1, 2, 5, 128, 300])
@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_fss_fills_every_slot(num_perm: int, size: int) -> None:
    """An empty slot would show as 2^16 - 1 in each of its sets, which no hash is."""
    for seed in range(20):
        rows = sign(random_sets(seed, [size] * 20), scheme="fss", num_perm=num_perm, seed=seed)
        assert (rows != 2**16 - 1).any(axis=0).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_slot_of_a_union_is_a_slot_of_one_of_its_parts(scheme: str) -> None:
    for size in (1, 5, 50, 5000):
        one, other = random_sets(size, [size, size])
        rows = sign([one, other, np.union1d(one, other)], scheme=scheme, num_perm=128, seed=3)
        assert ((rows[2] == rows[0]) | (rows[2] == rows[1])).all()
