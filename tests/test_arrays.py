"""The array functions that several rooms share."""

from __future__ import annotations

import numpy as np
import pytest

from lshdb.arrays import order_of, sorted_texts


@pytest.mark.parametrize("at_once", [1, 7, 100, 10_000])
@pytest.mark.parametrize("most", [1, 3, 100, 2**63])
@pytest.mark.parametrize("n", [0, 1, 2, 10, 5000])
def test_an_order_is_that_of_a_stable_sort(n: int, most: int, at_once: int) -> None:
    values = np.random.default_rng(n).integers(0, most, n).astype(np.uint64)
    expected = np.argsort(values, kind="stable")
    assert order_of(values, at_once=at_once).tolist() == expected.tolist()


@pytest.mark.parametrize("at_once", [1, 7, 100, 10_000])
@pytest.mark.parametrize("most", [1, 3, 100, 2**63])
def test_texts_are_sorted_as_by_the_interpreter(most: int, at_once: int) -> None:
    numbers = np.random.default_rng(5).integers(0, most, 2000)
    texts = [f"{chr(0x40 + number % 90)}{number}\U0001f600" for number in numbers.tolist()]
    assert sorted_texts(texts, at_once=at_once) == sorted(texts)
    assert sorted_texts([], at_once=at_once) == []
