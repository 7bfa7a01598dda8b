"""Section 3.3 and its lecture: characteristic matrices, permutations and signatures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

import numpy as np
import pytest

from lshdb.signatures.banding import compare_rows
from lshdb.signatures.sets import exact_similarity
from tests.textbook.conftest import Columns, SignColumns

pytestmark = pytest.mark.fast


def _columns(*lines: str) -> list[list[int]]:
    """Return for each column of a matrix the rows that hold a 1."""
    return [
        [row for row, line in enumerate(lines) if line[column] == "1"]
        for column in range(len(lines[0]))
    ]


def _similarity(one: Sequence[int], other: Sequence[int]) -> float:
    return exact_similarity(np.array(one, dtype=np.uint64), np.array(other, dtype=np.uint64))


def _agreement(signatures: Sequence[Sequence[int]], one: int, other: int) -> float:
    """Return the share of equal slots of two columns of a signature matrix."""
    rows = np.ascontiguousarray(np.array(signatures, dtype=np.uint16).T)
    slots = rows.shape[1]
    found = compare_rows(rows, np.array([one]), rows, np.array([other]), bands=slots, rows=1)
    return float(found.equal[0] / slots)


FIGURE_3_2 = _columns("1001", "0010", "0101", "1011", "0010")
"""Rows a to e; S1 = {a, d}, S2 = {c}, S3 = {b, d, e}, S4 = {a, c, d}."""


def test_section_3_3_1_the_characteristic_matrix() -> None:
    assert FIGURE_3_2 == [[0, 3], [2], [1, 3, 4], [0, 2, 3]]


def test_section_3_3_2_the_permutation_beadc(sign_columns: SignColumns) -> None:
    """In the order b, e, a, d, c the first rows with a 1 are a, c, b and a."""
    order = "beadc"
    place = [order.index(row) for row in "abcde"]
    (signature,) = sign_columns(FIGURE_3_2, [place])
    assert [order[value] for value in signature] == ["a", "c", "b", "a"]
    by_hand = [next(row for row in order if "abcde".index(row) in column) for column in FIGURE_3_2]
    assert by_hand == ["a", "c", "b", "a"]


def test_section_3_3_3_a_minimum_is_shared_as_often_as_an_element(
    sign_columns: SignColumns,
) -> None:
    """Over all 120 permutations, two columns share the minimum in the share of their Jaccard."""
    signatures = sign_columns(FIGURE_3_2, list(permutations(range(5))))
    for one, other in combinations(range(4), 2):
        assert _agreement(signatures, one, other) == pytest.approx(
            _similarity(FIGURE_3_2[one], FIGURE_3_2[other])
        )


def test_section_3_3_5_two_hash_functions(sign_columns: SignColumns) -> None:
    """x + 1 mod 5 and 3 x + 1 mod 5, with what the signatures say and what is true."""
    functions = [[(x + 1) % 5 for x in range(5)], [(3 * x + 1) % 5 for x in range(5)]]
    signatures = sign_columns(FIGURE_3_2, functions)
    assert signatures == [[1, 3, 0, 1], [0, 2, 0, 0]]
    estimated = {(0, 3): 1.0, (0, 2): 1 / 2, (0, 1): 0.0}
    true = {(0, 3): 2 / 3, (0, 2): 1 / 4, (0, 1): 0.0}
    for (one, other), share in estimated.items():
        assert _agreement(signatures, one, other) == share
        assert _similarity(FIGURE_3_2[one], FIGURE_3_2[other]) == true[one, other]


LECTURE = _columns("1010", "1001", "0101", "0101", "0101", "1010", "1010")
THREE = ((2, 3, 7, 6, 1, 5, 4), (4, 2, 1, 3, 6, 7, 5), (3, 4, 7, 2, 6, 1, 5))


def _least(columns: Columns, functions: Sequence[Sequence[int]]) -> list[list[int]]:
    return [[min(function[row] for row in column) for column in columns] for function in functions]


def test_the_lectures_three_permutations(sign_columns: SignColumns) -> None:
    """Seven rows, four columns: signatures, and similarities of columns and of signatures."""
    signatures = sign_columns(LECTURE, THREE)
    assert signatures == [[2, 1, 2, 1], [2, 1, 4, 1], [1, 2, 1, 2]]
    assert signatures == _least(LECTURE, THREE)
    columns = {(0, 2): 0.75, (1, 3): 0.75, (0, 1): 0.0, (2, 3): 0.0}
    slots = {(0, 2): 2 / 3, (1, 3): 1.0, (0, 1): 0.0, (2, 3): 0.0}
    for (one, other), similarity in columns.items():
        assert _similarity(LECTURE[one], LECTURE[other]) == pytest.approx(similarity)
        assert _agreement(signatures, one, other) == pytest.approx(slots[one, other])


def test_the_lectures_columns_c1_and_c2() -> None:
    """01, 10, 11, 00, 11, 01: two rows of both kinds among five that are not empty."""
    one, other = _columns("01", "10", "11", "00", "11", "01")
    assert _similarity(one, other) == 2 / 5


def test_the_lectures_columns_10111_and_10011() -> None:
    """As sets: three ones in common, four in all; 3/4, so the distance is 1/4."""
    one, other = ([at for at, bit in enumerate(bits) if bit == "1"] for bits in ("10111", "10011"))
    assert _similarity(one, other) == 3 / 4
