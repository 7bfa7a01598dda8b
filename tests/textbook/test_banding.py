"""Section 3.4: bands of signatures and the S-curve."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lshdb import candidate_probability
from lshdb.signatures.banding import bucket_keys, matching_bands

pytestmark = pytest.mark.fast

TABLE = {0.2: ".006", 0.3: ".047", 0.4: ".186", 0.5: ".470", 0.6: ".802", 0.7: ".975", 0.8: ".9996"}
"""Similarity to 1 - (1 - s^5)^20, as the section prints it."""


@pytest.mark.parametrize(("similarity", "printed"), TABLE.items())
def test_section_3_4_2_the_table_of_the_s_curve(similarity: float, printed: str) -> None:
    digits = len(printed) - 1
    assert round(candidate_probability(similarity, 20, 5), digits) == float(printed)
    assert round(1 - (1 - similarity**5) ** 20, digits) == float(printed)


def test_section_3_4_2_the_steepest_point_is_near_the_threshold() -> None:
    """(1/b)^(1/r) is .5493 for 20 bands of 5 rows.

    A pair there is found with probability 1 - (1 - 1/b)^b, near 1 - 1/e. The curve is steepest a
    little below: its second derivative is 0 where s^r = (r - 1) / (b r - 1), at .5266 here.
    """
    bands, rows = 20, 5
    threshold = (1 / bands) ** (1 / rows)
    assert threshold == pytest.approx(0.5493, abs=5e-5)
    found = candidate_probability(threshold, bands, rows)
    assert found == pytest.approx(1 - (1 - 1 / bands) ** bands)
    assert found == pytest.approx(1 - np.exp(-1), abs=0.01)
    grid = np.linspace(0.01, 0.99, 9801)
    curve = np.array([candidate_probability(float(s), bands, rows) for s in grid])
    steepest = grid[np.diff(curve).argmax()]
    assert steepest == pytest.approx(((rows - 1) / (bands * rows - 1)) ** (1 / rows), abs=2e-4)
    assert abs(steepest - threshold) < 0.03


def test_section_3_4_2_the_lectures_pair_of_four_fifths() -> None:
    """A band agrees with probability .328; one pair in about 2,900 is missed by all twenty."""
    assert round(candidate_probability(0.8, 1, 5), 3) == 0.328
    missed = 1 - candidate_probability(0.8, 20, 5)
    assert round(missed, 5) == 0.00036
    assert missed == pytest.approx((1 - 0.8**5) ** 20)


def test_section_3_4_2_the_lectures_pair_of_two_fifths() -> None:
    """A band agrees with probability .01; the chance of any is at most twenty times that."""
    assert round(candidate_probability(0.4, 1, 5), 2) == 0.01
    assert candidate_probability(0.4, 20, 5) <= 20 * candidate_probability(0.4, 1, 5) < 0.21


def test_section_3_4_1_columns_meet_in_a_bucket_if_a_band_agrees() -> None:
    """Columns that are equal in a band share its bucket, whatever the other bands hold.

    Columns that hold the same values in different bands do not meet: each band has buckets of its
    own. The values 0, 2, 1 are the section's.
    """
    bands = {
        "first": [[1, 3, 0], [0, 2, 1], [1, 1, 1]],
        "second": [[0, 2, 1], [9, 9, 9], [1, 1, 1]],
        "third": [[0, 2, 1], [1, 3, 0], [1, 1, 1]],
        "other": [[7, 7, 7], [0, 2, 1], [8, 8, 8]],
    }
    rows = np.array([np.concatenate(bands[name]) for name in bands], dtype=np.uint16)
    keys = bucket_keys(rows, bands=3, rows=3)
    shared = {
        (one, other): (keys[one] == keys[other]).tolist()
        for one, other in itertools.combinations(range(4), 2)
    }
    assert shared[1, 2] == [True, False, True]
    assert shared[0, 3] == [False, True, False]
    assert shared[0, 1] == [False, False, True]
    assert shared[1, 3] == [False, False, False]
    assert len(set(keys[1:3, 0].tolist()) & set(keys[:, 1].tolist())) == 0
    for (one, other), by_keys in shared.items():
        agree = matching_bands(rows[[one]], rows[[other]], bands=3, rows=3)
        assert agree[0].tolist() == by_keys


def test_section_3_4_2_the_curve_by_drawing_signatures() -> None:
    """20,000 pairs of random rows with equal slots at .5: .470 of them share a bucket."""
    random = np.random.default_rng(3)
    one = random.integers(0, 2**16, (20_000, 100), dtype=np.uint16)
    other = np.where(random.random(one.shape) < 0.5, one, one + np.uint16(1))
    found = matching_bands(one, other, bands=20, rows=5).any(axis=1).mean()
    deviation = (0.470 * 0.530 / len(one)) ** 0.5
    assert abs(found - candidate_probability(0.5, 20, 5)) < 4 * deviation
