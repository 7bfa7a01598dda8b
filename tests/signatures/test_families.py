"""What every family promises: slots are equal with the probability that its curve gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb import arrays
from lshdb.kernel import reference_sets
from lshdb.signatures import dense
from lshdb.signatures import projections as hadamard
from lshdb.signatures import projections as projecting
from lshdb.signatures.family import Family
from tests.signatures.families import DENSE, FAMILIES, make, pair_at, points_of, slots_of
from tests.without_kernel import use_reference

TOLERANCE = 4.5
DISTANCES = 20
TRIALS = {"hyperplane": 16, "hadamard": 40, "bits": 16, "unary": 16, "icws": 40}


def measured(metric: str, scheme: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Deviations of the share of equal slots from the curve, in standard errors, at the levels.

    At each of twenty levels there is one pair, signed with many seeds. Slots of ``hadamard`` and
    ``fss`` are dependent, so the standard error is taken from the seeds, of which each is a trial.
    """
    rng = np.random.default_rng(20)
    shares = np.linspace(0.03, 0.97, DISTANCES)
    pairs = [pair_at(metric, scheme, rng, share) for share in shares]
    trials = TRIALS.get(scheme, 80)
    equal = np.empty((trials, DISTANCES))
    for trial in range(trials):
        family = make(metric, scheme, seed=trial + 1, k=1)
        points = points_of(family, [body for pair in pairs for body in pair])
        slots = slots_of(family, points)
        equal[trial] = (slots[0::2] == slots[1::2]).mean(axis=1)
        if trial == 0:
            levels = family.levels(points[0::2], points[1::2])
    expected = np.array([family.params.curve.probability(level) for level in levels.tolist()])
    independent = np.sqrt(expected * (1.0 - expected) / (slots.shape[1] * trials))
    error = np.maximum(independent, equal.std(axis=0, ddof=1) / math.sqrt(trials))
    return (equal.mean(axis=0) - expected) / error, levels


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_slots_are_equal_with_the_probability_of_the_curve(metric: str, scheme: str) -> None:
    deviations, levels = measured(metric, scheme)
    assert len(set(levels.tolist())) >= DISTANCES - 3
    assert np.abs(deviations).max() <= TOLERANCE, deviations.round(1)
    # A sum of 20 squares of normal numbers has mean 20 and deviation sqrt(40).
    assert (deviations**2).sum() <= 20 + TOLERANCE * math.sqrt(40), deviations.round(1)


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_the_more_alike_the_more_probable(metric: str, scheme: str) -> None:
    """(d1, d2, p1, p2)-sensitive: of two levels the higher one has the higher probability."""
    curve = make(metric, scheme, k=1).params.curve
    worst = {"cosine": -1.0, "hamming": -400.0, "l1": -240.0, "l2": -240.0}.get(metric, 0.0)
    levels = np.linspace(worst, curve.best, 500)
    probabilities = np.array([curve.probability(level) for level in levels.tolist()])
    assert (np.diff(probabilities) > 0.0).all()
    assert probabilities[-1] == 1.0
    assert 0.0 <= probabilities[0] < 0.02


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_a_row_is_that_of_its_point_alone(metric: str, scheme: str) -> None:
    rng = np.random.default_rng(3)
    family = make(metric, scheme, k=1)
    bodies = [body for share in (0.2, 0.5, 0.9) for body in pair_at(metric, scheme, rng, share)]
    contents = family.contents(bodies)
    rows, sizes = family.sign_contents(contents)
    again = make(metric, scheme, k=1)
    for content, row, size in zip(contents, rows, sizes.tolist(), strict=True):
        alone, one = again.sign_contents([content])
        assert (alone[0] == row).all()
        assert one.tolist() == [size]
        assert size > 0
    other, _ = make(metric, scheme, k=1, seed=2).sign_contents(contents)
    assert (other != rows).any(axis=1).all()


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_contents_are_canonical_already(metric: str, scheme: str) -> None:
    rng = np.random.default_rng(4)
    family = make(metric, scheme, k=1)
    contents = family.contents(pair_at(metric, scheme, rng, 0.5))
    for content in contents:
        assert family.refusal(content) is None
    for once, twice in zip(contents, family.contents(contents), strict=True):
        assert type(once) is type(twice)
        assert np.array_equal(once, twice) if hasattr(once, "dtype") else once == twice


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_a_point_is_as_like_itself_as_can_be(metric: str, scheme: str) -> None:
    rng = np.random.default_rng(5)
    family = make(metric, scheme, k=1)
    points = points_of(family, pair_at(metric, scheme, rng, 0.5))
    best = family.params.curve.best
    levels = family.levels(points, points)
    assert levels.tolist() == [best, best]
    assert not np.signbit(levels).any()
    there, back = family.levels(points, points[::-1]).tolist()
    assert there == back < best


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_a_level_does_not_depend_on_which_comes_first(metric: str, scheme: str) -> None:
    rng = np.random.default_rng(8)
    family = make(metric, scheme, k=1)
    bodies = [body for _ in range(100) for body in pair_at(metric, scheme, rng, 0.6)]
    points = points_of(family, bodies)
    there = family.levels(points[0::2], points[1::2])
    assert there.tolist() == family.levels(points[1::2], points[0::2]).tolist()


@pytest.mark.parametrize("size", [1.0, 1e-148, 1e148])
def test_a_vector_and_its_double_have_cosine_1(size: float) -> None:
    rng = np.random.default_rng(9)
    family = make("cosine", "hyperplane", dtype="float64", dim=50)
    vectors = rng.uniform(-1, 1, (200, 50)) * size
    points = points_of(family, [*vectors, *2.0 * vectors])
    assert set(family.levels(points[:200], points[200:]).tolist()) == {1.0}


def plain_level(metric: str, left: Any, right: Any) -> float:
    """As the definitions have it, in Python's own numbers."""
    if metric == "hamming":
        return -sum(a != b for a, b in zip(left, right, strict=True))
    if metric == "jaccard-bits":
        either = sum(a or b for a, b in zip(left, right, strict=True))
        return sum(a and b for a, b in zip(left, right, strict=True)) / either
    pairs = list(zip(left, right, strict=True))
    if metric == "cosine":
        lengths = [math.sqrt(math.fsum(a * a for a in side)) for side in (left, right)]
        return math.fsum(a * b for a, b in pairs) / lengths[0] / lengths[1]
    if metric == "l1":
        return -math.fsum(abs(a - b) for a, b in pairs)
    return -math.sqrt(math.fsum((a - b) ** 2 for a, b in pairs))


@pytest.mark.parametrize(("metric", "scheme"), DENSE)
def test_levels_are_those_of_a_plain_computation(metric: str, scheme: str) -> None:
    rng = np.random.default_rng(6)
    family = make(metric, scheme)
    bodies = [
        body for share in np.linspace(0.1, 0.9, 9) for body in pair_at(metric, scheme, rng, share)
    ]
    points = points_of(family, bodies)
    if family.params.dtype == "bits":
        plain = [body.tolist() for body in bodies]
    else:
        plain = [np.float32(body).astype(float).tolist() for body in bodies]
    found = family.levels(points[0::2], points[1::2])
    expected = [plain_level(metric, *both) for both in zip(plain[0::2], plain[1::2], strict=True)]
    assert found == pytest.approx(expected, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_blocks_make_no_difference(
    metric: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    family = make(metric, scheme, k=1, num_perm=96)
    bodies = [body for _ in range(20) for body in pair_at(metric, scheme, rng, 0.6)]
    points = points_of(family, bodies)
    rows, levels = family.sign(points), family.levels(points, points[::-1])
    monkeypatch.setattr(dense, "BLOCK_BYTES", 5000)
    monkeypatch.setattr(projecting, "_KEPT_BYTES", 0)
    monkeypatch.setattr(hadamard, "_CACHED_BYTES", 5000)
    monkeypatch.setattr(reference_sets, "_CELLS", 1000)
    use_reference(monkeypatch)
    again = make(metric, scheme, k=1, num_perm=96)
    assert (again.sign(points) == rows).all()
    assert again.levels(points, points[::-1]).tolist() == levels.tolist()


def test_bits_are_counted_without_a_function_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = np.arange(256, dtype=np.uint8)[:, None]
    expected = [byte.bit_count() for byte in range(256)]
    assert arrays.count_bits(packed).tolist() == expected
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    arrays._counter.cache_clear()
    try:
        assert arrays._counter()(packed[:3]).shape == (3, 1)
        assert arrays.count_bits(packed).tolist() == expected
    finally:
        arrays._counter.cache_clear()


def test_nothing_is_compared_with_nothing() -> None:
    for metric, scheme in FAMILIES:
        assert make(metric, scheme).levels([], []).shape == (0,)
        assert make(metric, scheme).contents([]) == []


@pytest.mark.parametrize(("metric", "scheme"), DENSE)
def test_screens_let_all_pass_that_is_near_and_keep_most_else(metric: str, scheme: str) -> None:
    rng = np.random.default_rng(3)
    family = make(metric, scheme)
    pairs = [pair_at(metric, scheme, rng, share) for share in np.linspace(0.05, 0.95, 60)]
    points = points_of(family, [body for pair in pairs for body in pair])
    asking, rows = np.stack(points[0::2]), np.stack(points[1::2])

    def passed(screen: Any) -> set[tuple[int, int]]:
        places, numbers = screen(rows)
        return set(zip(places.tolist(), numbers.tolist(), strict=True))

    n = len(pairs)
    levels = [float(family.levels([left], [right])[0]) for left in asking for right in rows]
    for least in sorted(levels)[:: n * n // 9]:  # each a level that a pair has to the last bit
        near = {divmod(place, n) for place, level in enumerate(levels) if level >= least}
        screened = passed(family.screen(asking, least))
        assert near <= screened
        assert len(screened) <= len(near) + 3
        assert passed(Family.screen(family, asking, least)) == {
            divmod(place, n) for place in range(n * n)
        }
