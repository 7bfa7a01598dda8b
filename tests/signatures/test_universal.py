"""Scheme ``universal``: exact arithmetic at the edges, and coefficients in their ranges."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from lshdb.kernel import compiled, minhash, random_numbers
from lshdb.signatures import sign
from tests.golden import plain
from tests.signatures.test_kernels import levels

kernel = compiled
P = 2**61 - 1
EDGES = [0, 1, 2, 2**29 - 1, 2**29, 2**32 - 1, 2**32, 2**32 + 1, 2**58, 2**60, P - 2, P - 1]
ELEMENTS = [*EDGES, P, P + 1, 2**61 + 2**32, 2 * P, 2 * P + 1, 2**63, 7 * P, 8 * P, 2**64 - 1]


def test_the_prime() -> None:
    assert random_numbers.PRIME == P
    assert pow(3, P - 1, P) == 1


def test_arithmetic_is_exact_at_the_edges() -> None:
    """All pairs of extreme coefficients, with elements up to 2^64 - 1, each a set of its own."""
    functions = [(a, b) for a, b in itertools.product(EDGES, EDGES) if a]
    drawn = tuple(np.array(column, dtype=np.uint64) for column in zip(*functions, strict=True))
    ones = np.ones(len(ELEMENTS), dtype=np.int64)
    elements = np.array(ELEMENTS, dtype=np.uint64)
    rows = minhash.universal_sketch(elements, ones, np.concatenate(drawn))
    for x, row in zip(ELEMENTS, rows.tolist(), strict=True):
        assert row == [(a * x + b) % P % 2**16 for a, b in functions], x


def test_arithmetic_is_exact_for_random_numbers() -> None:
    rng = random.Random(1)
    functions = [(rng.randrange(1, P), rng.randrange(P)) for _ in range(500)]
    drawn = tuple(np.array(column, dtype=np.uint64) for column in zip(*functions, strict=True))
    elements = [rng.getrandbits(64) for _ in range(200)]
    ones = np.ones(len(elements), dtype=np.int64)
    rows = minhash.universal_sketch(
        np.array(elements, dtype=np.uint64), ones, np.concatenate(drawn)
    )
    for x, row in zip(elements, rows.tolist(), strict=True):
        assert row == [(a * x + b) % P % 2**16 for a, b in functions]


@pytest.mark.parametrize("level", levels() if kernel else [])
@pytest.mark.parametrize("num_perm", [1, 2, 3, 5, 8, 13, 16])
def test_arithmetic_is_exact_in_every_slot_at_every_level(level: str, num_perm: int) -> None:
    """In slots that fill a vector and in those that do not, next to where p is taken off once more.

    Multiples of p are met with a = p - 1 and b as small as the element is above p.
    """
    rng = random.Random(num_perm)
    high, low = [P - 1, P - 2, P - 3, P // 2 + 1], [*range(17), P - 2, P - 1]
    kernel.use_level(level)
    try:
        for x in (*range(8 * P - 9, 8 * P + 8), *(7 * P + near for near in range(9)), P, P + 1):
            drawn = [(rng.choice(high), rng.choice(low)) for _ in range(num_perm)]
            drawn[-1] = (P - 1, rng.choice(low))
            numbers = np.array([a for a, _ in drawn] + [b for _, b in drawn], dtype=np.uint64)
            for b in low:
                numbers[-1] = b
                drawn[-1] = (P - 1, b)
                row = np.empty((1, num_perm), dtype=np.uint16)
                element, length = np.array([x], dtype=np.uint64), np.array([1])
                kernel.sketch(element, length, 1, num_perm, numbers, row)
                assert row[0].tolist() == [(a * x + b) % P % 2**16 for a, b in drawn], (x, drawn)
    finally:
        kernel.use_level()


@pytest.mark.parametrize("x", [0, P, 2**61, 2**64 - 1])
def test_elements_that_are_the_same_modulo_the_prime(x: int) -> None:
    sets = [np.array([value], dtype=np.uint64) for value in (x, x % P)]
    rows = sign(sets, scheme="universal", num_perm=128, seed=1)
    assert (rows[0] == rows[1]).all()
    expected = [(a * x + b) % P % 2**16 for a, b in plain.universal_functions(128, 1)]
    assert rows[0].tolist() == expected


@pytest.mark.parametrize("num_perm", [1, 2, 100, 128, 4096])
@pytest.mark.parametrize("seed", [0, 1, 12345, 2**63 - 1, 2**64 - 1])
def test_coefficients(num_perm: int, seed: int) -> None:
    a, b = random_numbers.prime_coefficients(num_perm, seed)
    assert a.dtype == b.dtype == np.uint64
    assert a.shape == b.shape == (num_perm,)
    assert (a >= 1).all()
    assert (a < P).all()
    assert (b < P).all()
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert pairs == plain.universal_functions(num_perm, seed)
    assert not a.flags.writeable
    assert not b.flags.writeable


@pytest.mark.parametrize("num_perm", [1, 2, 3, 64])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(
    "key",
    [0, 7, 8, (P - 1) << 3, ((P - 1) << 3) + 7, P << 3, 2**64 - 1],
    ids=["0", "7", "8", "p-1", "p-1 too", "p", "2^64-1"],
)
def test_keys_out_of_range_are_passed_over(key: int, number: int, num_perm: int) -> None:
    """Seeds made so that one of their first keys is at the end of a range or beyond it."""
    seed = plain.seed_with_key(number, key)
    a, b = random_numbers.prime_coefficients(num_perm, seed)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert pairs == plain.universal_functions(num_perm, seed)
    drawn = list(itertools.chain.from_iterable(pairs))
    usable = key >> 3 < P and (key >> 3 > 0 or number % 2 == 1)
    if number < 2 * num_perm:
        assert (drawn[number] == key >> 3) == usable


def test_a_prefix_of_more_functions_is_fewer_functions() -> None:
    few, many = random_numbers.prime_coefficients(10, 3), random_numbers.prime_coefficients(50, 3)
    assert (few[0] == many[0][:10]).all()
    assert (few[1] == many[1][:10]).all()
