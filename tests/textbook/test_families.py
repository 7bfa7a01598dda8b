"""Sections 3.5 to 3.7: distances, families of functions, and search for near points."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, candidate_probability
from lshdb.params.metrics import curve_of
from lshdb.signatures.families import family_of
from tests.chosen import choose_params

pytestmark = pytest.mark.fast


def _compare(left: Any, right: Any, **options: Any) -> float:
    """Return the similarity, or distance, of two bodies under a metric."""
    params = choose_params(**options)
    family = family_of(params)
    return params.curve.value(family.compare(*family.contents([left, right])))


@pytest.mark.parametrize(("metric", "distance"), [("l2", 5.0), ("l1", 7.0)])
def test_section_3_5_2_the_points_2_7_and_6_4(metric: str, distance: float) -> None:
    """The sides are 4 and 3: by Euclid 5, along the streets 7."""
    assert _compare([2, 7], [6, 4], metric=metric, dim=2, threshold=1) == distance


def test_section_3_5_3_the_jaccard_distance_is_one_minus_similarity() -> None:
    """A metric: no way around by a third set is shorter."""
    sets = [frozenset("abcd"), frozenset("bcde"), frozenset("defg"), frozenset("a")]
    apart = {(one, other): 1 - _compare(one, other) for one in sets for other in sets}
    assert all(apart[one, one] == 0 for one in sets)
    assert apart[sets[0], sets[1]] == pytest.approx(2 / 5)
    for one in sets:
        for middle in sets:
            for other in sets:
                assert apart[one, other] <= apart[one, middle] + apart[middle, other] + 1e-12


def test_section_3_5_4_an_angle_of_sixty_degrees() -> None:
    """[1, 2, -1] and [2, 1, 1]: a product of 3, two lengths of the root of 6, a cosine of 1/2."""
    cosine = _compare([1, 2, -1], [2, 1, 1], metric="cosine", dim=3)
    assert cosine == pytest.approx(3 / math.sqrt(6 * 6))
    assert math.degrees(math.acos(cosine)) == pytest.approx(60)


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [("10101", "11110", 3), ("10111", "10011", 1), ("10101", "10011", 2)],
)
def test_section_3_5_6_bits_that_differ(left: str, right: str, distance: int) -> None:
    assert sum(one != other for one, other in zip(left, right, strict=True)) == distance
    assert _compare(left, right, metric="hamming", dim=5, threshold=1) == distance


def test_section_3_5_6_the_same_bits_as_sets() -> None:
    """10111 and 10011 have three ones in common and four in all."""
    assert _compare("10111", "10011", metric="jaccard-bits", dim=5) == 3 / 4


FOUR_BY_FOUR = {
    0.2: 0.0064, 0.3: 0.0320, 0.4: 0.0985, 0.5: 0.2275,
    0.6: 0.4260, 0.7: 0.6666, 0.8: 0.8785, 0.9: 0.9860,
}  # fmt: skip
"""p to 1 - (1 - p^4)^4: a 4-way AND, then a 4-way OR."""


@pytest.mark.parametrize(("p", "amplified"), FOUR_BY_FOUR.items())
def test_section_3_6_3_and_then_or(p: float, amplified: float) -> None:
    assert round(candidate_probability(p, 4, 4), 4) == amplified


def test_section_3_6_3_a_family_becomes_more_sensitive() -> None:
    """(.2, .6, .8, .4)-sensitive becomes (.2, .6, .8785, .0985)-sensitive."""
    curve = curve_of("universal", dim=0, width=0.0)
    near, far = curve.probability(1 - 0.2), curve.probability(1 - 0.6)
    assert (near, far) == pytest.approx((0.8, 0.4))
    amplified = [round(candidate_probability(p, 4, 4), 4) for p in (near, far)]
    assert amplified == [0.8785, 0.0985]


def test_section_3_7_1_a_sampled_bit() -> None:
    """(d1, d2, 1 - d1/d, 1 - d2/d)-sensitive for bit strings of length d."""
    curve = curve_of("bits", dim=5, width=0.0)
    for distance in range(6):
        assert curve.probability(curve.level(distance)) == pytest.approx(1 - distance / 5)


def test_section_3_7_2_a_random_hyperplane() -> None:
    """(d1, d2, (180 - d1)/180, (180 - d2)/180)-sensitive for angles in degrees."""
    curve = curve_of("hyperplane", dim=3, width=0.0)
    for angle in (0, 30, 60, 90, 120, 180):
        assert curve.probability(math.cos(math.radians(angle))) == pytest.approx(1 - angle / 180)


def test_section_3_7_2_hyperplanes_agree_as_often_as_the_angle_says() -> None:
    """The vectors of section 3.5.4, at 60 degrees: two thirds of 4,096 signs agree."""
    family = family_of(choose_params(metric="cosine", dim=3, num_perm=4096))
    points = family.points(family.contents([[1, 2, -1], [2, 1, 1]]))
    one, other = family.sign(points)
    differ = sum(int(word).bit_count() for word in (one ^ other).tolist())
    deviation = math.sqrt(1 / 3 * 2 / 3 * 4096)
    assert abs(differ - 4096 / 3) < 4 * deviation


def test_section_3_7_4_projections_on_a_random_line() -> None:
    """(a/2, 2a, 1/2, 1/3)-sensitive for buckets of width a."""
    width = 3.0
    curve = curve_of("gaussian", dim=2, width=width)
    assert curve.probability(curve.level(width / 2)) >= 1 / 2
    assert curve.probability(curve.level(2 * width)) <= 1 / 3


def test_the_lectures_c_approximate_search_looks_at_twice_as_many_as_tables(
    tmp_path: Path,
) -> None:
    """L = 1 / p1^K tables of K functions, with K so large that p2^K is at most 1 / n.

    Far points in the buckets of a query are then L on average, so a search that gives up after 2L
    candidates has met the near one with a probability of at least 1/2 - 1/e; and it gives nothing
    that is farther than c R. Each query here has one point at distance R and 199 beyond c R.
    """
    random = np.random.default_rng(5)
    n, dim, near, c = 200, 16, 1.0, 4.0
    points = random.normal(size=(n, dim)) * 20
    queries = points[:12] + near * np.eye(dim)[random.integers(0, dim, 12)]
    apart = np.sqrt(((queries[:, None] - points[None]) ** 2).sum(axis=2))
    assert (np.sort(apart, axis=1)[:, 1] > c * near).all()
    curve = curve_of("gaussian", dim=dim, width=4.0)
    far = curve.probability(curve.level(c * near))
    rows = math.ceil(math.log(n) / -math.log(far))
    tables = math.ceil(curve.probability(curve.level(near)) ** -rows)
    options: Any = {"bands": tables, "rows": rows, "width": 4.0, "threshold": c * near}
    with Index.create(tmp_path / "index", metric="l2", dim=dim, **options) as index:
        assert n * far**rows <= 1
        index.add([(str(number), point) for number, point in enumerate(points)])
        found = 0
        for number, query in enumerate(queries):
            hits: Any = index.query(query, top=1, probe_limit=True)
            assert hits.checked <= 2 * tables
            assert all(hit.distance is not None and hit.distance <= c * near for hit in hits)
            found += [hit.key for hit in hits] == [str(number)]
        by_theory = index.params.recall_at(near)
    deviation = math.sqrt(by_theory * (1 - by_theory) / len(queries))
    assert found / len(queries) > by_theory - 4 * deviation
    assert by_theory >= 1 - math.exp(-1)
