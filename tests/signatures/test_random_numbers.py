"""Random numbers: as they are defined, distributed as they should be, and none used twice."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lshdb.kernel.random_numbers import (
    Purpose,
    cauchy,
    gaussian,
    keys,
    places,
    signs,
    to_uniform,
    uniform,
)
from tests.golden.plain import key_of_seed

N = 200_000
DRAWS = [uniform, signs, cauchy, gaussian]


def test_keys_of_a_purpose_are_a_range_of_the_stream() -> None:
    for purpose in Purpose:
        found = keys(9, purpose, 5, 3).tolist()
        assert found == [key_of_seed(9, int(purpose) * 2**56 + number) for number in (5, 6, 7)]


def test_no_key_serves_two_purposes() -> None:
    drawn = np.concatenate([keys(1, purpose, 0, 10_000) for purpose in Purpose])
    assert len(set(drawn.tolist())) == len(Purpose) * 10_000
    numbers = [int(purpose) for purpose in Purpose]
    assert sorted(set(numbers)) == numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("draw", DRAWS)
def test_any_part_is_the_same_as_in_the_whole(draw) -> None:  # type: ignore[no-untyped-def]
    whole = draw(4, Purpose.PROJECTIONS, 0, 50)
    for first in (0, 1, 2, 7):
        for count in (0, 1, 2, 3, 8):
            part = draw(4, Purpose.PROJECTIONS, first, count)
            assert part.tolist() == whole[first : first + count].tolist()
    assert (draw(5, Purpose.PROJECTIONS, 0, 50) != whole).any()
    assert (draw(4, Purpose.OFFSETS, 0, 50) != whole).any()


def test_numbers_are_made_of_keys_as_it_says() -> None:
    drawn = [key_of_seed(7, 2**56 + number) for number in range(4)]
    u = [(key // 2**12 + 0.5) / 2**52 for key in drawn]
    assert uniform(7, Purpose.PROJECTIONS, 0, 4).tolist() == u
    assert signs(7, Purpose.PROJECTIONS, 0, 4).tolist() == [1 if k < 2**63 else -1 for k in drawn]
    tangents = [math.tan(math.pi * (each - 0.5)) for each in u]
    assert cauchy(7, Purpose.PROJECTIONS, 0, 4) == pytest.approx(tangents, rel=1e-14)
    normal = [
        math.sqrt(-2 * math.log(u[number - number % 2]))
        * (math.sin, math.cos)[number % 2 == 0](2 * math.pi * u[number - number % 2 + 1])
        for number in range(4)
    ]
    assert gaussian(7, Purpose.PROJECTIONS, 0, 4) == pytest.approx(normal, rel=1e-13)


def test_uniform_numbers_are_never_an_end() -> None:
    ends = to_uniform(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert ends.tolist() == [2.0**-53, 1.0 - 2.0**-53]
    assert np.isfinite(np.tan(np.pi * (ends - 0.5))).all()


def test_distributions() -> None:
    """Each by its distribution function, against Kolmogorov's bound at one in a million."""
    normal = gaussian(1, Purpose.PROJECTIONS, 0, N)
    by_function = {
        "uniform": uniform(1, Purpose.PROJECTIONS, 0, N),
        "cauchy": np.arctan(cauchy(1, Purpose.PROJECTIONS, 0, N)) / math.pi + 0.5,
        "gaussian": np.array([math.erfc(-x / math.sqrt(2.0)) / 2.0 for x in normal.tolist()]),
    }
    for name, values in by_function.items():
        gap = np.abs(np.sort(values) - (np.arange(N) + 0.5) / N).max()
        assert gap * math.sqrt(N) < 2.7, name
    for lag in (1, 2, 3):  # neighbours come from one pair of keys, and are independent all the same
        assert abs(np.mean(normal[lag:] * normal[:-lag])) < 4.5 / math.sqrt(N)
        squares = normal**2 - 1.0
        assert abs(np.mean(squares[lag:] * squares[:-lag])) < 2.0 * 4.5 / math.sqrt(N)
    assert abs(signs(1, Purpose.FLIPS, 0, N).mean()) < 4.5 / math.sqrt(N)


@pytest.mark.parametrize("size", [1, 2, 3, 100, 2**16, 2**20])
def test_places(size: int) -> None:
    drawn = places(1, Purpose.COMPONENTS, N, size)
    assert drawn.min() >= 0
    assert drawn.max() < size
    counts = np.bincount(drawn, minlength=size)
    expected = N / size
    deviation = ((counts - expected) ** 2).sum() / expected  # chi squared of size - 1
    assert abs(deviation - (size - 1)) <= 4.5 * math.sqrt(2.0 * size)


def test_the_largest_place_is_below_the_size() -> None:
    largest = to_uniform(np.array([2**64 - 1], dtype=np.uint64))
    sizes = np.concatenate([np.arange(1, 70_000), 2 ** np.arange(17, 21), [2**20 - 1, 2**19 + 1]])
    assert (np.floor(largest * sizes) == sizes - 1).all()
