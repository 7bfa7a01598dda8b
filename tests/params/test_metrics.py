"""The curves against integrals, at their ends, and backwards; and the width that they lead to."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import get_args

import numpy as np
import pytest

from lshdb.arguments import MetricName
from lshdb.errors import ParameterError
from lshdb.params.bands import Background, cheapest_banding, choose_width, typical_background
from lshdb.params.metrics import METRICS, SCHEMES, curve_of
from lshdb.signatures.family import Family
from tests.signatures.families import FAMILIES, params_of

pytestmark = pytest.mark.fast


def test_the_table_of_metrics_names_families_and_schemes_that_there_are() -> None:
    assert tuple(METRICS) == get_args(MetricName)
    assert {scheme for metric in METRICS.values() for scheme in metric.families} == set(SCHEMES)
    for metric in METRICS.values():
        for place in metric.families.values():
            module, name = place.split(".")
            family = getattr(import_module(f"lshdb.signatures.{module}"), name)
            assert issubclass(family, Family)
            assert not family.__abstractmethods__


def integral(density: Callable[[np.ndarray], np.ndarray], distance: float, width: float) -> float:
    """Pr[floor((z d + b) / w) = floor(b / w)]: of density(z) max(0, 1 - abs(z) d / w) over z.

    By the midpoint rule over 0 <= z <= w / d, in 400,000 pieces.
    """
    end = width / distance
    z = (np.arange(400_000) + 0.5) * (end / 400_000)
    return float(2.0 * (density(z) * (1.0 - z / end)).sum() * end / 400_000)


def gauss(z: np.ndarray) -> np.ndarray:
    return np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)


def cauchy(z: np.ndarray) -> np.ndarray:
    return 1.0 / (math.pi * (1.0 + z * z))


@pytest.mark.parametrize(("scheme", "density"), [("gaussian", gauss), ("cauchy", cauchy)])
@pytest.mark.parametrize("distance", [0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 30.0, 1000.0])
@pytest.mark.parametrize("width", [1.0, 0.25, 640.0])
def test_projections_are_what_the_integral_is(
    scheme: str, density: Callable[[np.ndarray], np.ndarray], distance: float, width: float
) -> None:
    curve = curve_of(scheme, width=width)
    exact = integral(density, distance, 1.0)
    assert curve.probability(-distance * width) == pytest.approx(exact, rel=2e-7)


@pytest.mark.parametrize("scheme", ["gaussian", "cauchy"])
def test_projections_go_over_into_their_limits(scheme: str) -> None:
    """Close by 1 - c d / w, far by c' w / d; and no step where the formula changes."""
    curve = curve_of(scheme, width=3.0)
    assert curve.probability(0.0) == 1.0
    assert curve.probability(-3e-300) == 1.0
    assert curve.probability(-1e300) < 1e-299
    if scheme == "gaussian":
        near = math.sqrt(2.0 / math.pi)
        assert 1.0 - curve.probability(-3e-4) == pytest.approx(near * 1e-4, rel=1e-9)
    far = 1.0 / math.sqrt(2.0 * math.pi) if scheme == "gaussian" else 1.0 / math.pi
    for distance in (1e4, 1e6, 1e9):
        assert curve.probability(-3.0 * distance) == pytest.approx(far / distance, rel=1e-6)
    change = {"gaussian": 1e3, "cauchy": 1e5}[scheme]
    before, after = (curve.probability(-3.0 * change * by) for by in (1 - 1e-12, 1 + 1e-12))
    assert before == pytest.approx(after, rel=2e-5)


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_levels_are_probabilities_backwards(metric: str, scheme: str) -> None:
    curve = params_of(metric, scheme).curve
    shares = np.concatenate([np.linspace(0.01, 0.99, 197), [0.5, 0.5, 1.0]])
    levels = curve.levels(shares)
    assert levels.shape == shares.shape
    again = [curve.probability(level) for level in levels.tolist()]
    assert again == pytest.approx(shares.tolist(), rel=1e-9)
    assert levels[-1] == curve.best
    assert (np.diff(levels[:197]) > 0.0).all()
    assert curve.levels(np.zeros(0)).shape == (0,)


def test_known_probabilities() -> None:
    cosine = curve_of("hyperplane", dim=3, width=0.0)
    assert [cosine.probability(each) for each in (1.0, 0.5, 0.0, -1.0)] == pytest.approx(
        [1.0, 2 / 3, 0.5, 0.0]
    )
    assert cosine.probability(1.0 + 1e-15) == 1.0
    assert curve_of("bits", dim=8, width=0.0).probability(-2.0) == 0.75
    assert curve_of("unary", dim=8, width=16.0).probability(-32.0) == 0.75
    assert curve_of("bits", dim=8, width=0.0).probability(-9.0) == 0.0


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_a_level_is_a_similarity_or_minus_a_distance(metric: str, scheme: str) -> None:
    params = params_of(metric, scheme)
    curve = params.curve
    assert curve.is_distance == params.kind.is_distance
    assert params.level == (-0.5 if curve.is_distance else 0.5)
    assert curve.value(params.level) == 0.5
    assert math.copysign(1.0, curve.level(0.0)) == math.copysign(1.0, curve.value(0.0)) == 1.0


@pytest.mark.parametrize(("metric", "scheme"), [("l2", "gaussian"), ("l1", "cauchy")])
def test_no_other_width_is_cheaper(metric: str, scheme: str) -> None:
    level, recall, num_perm = -2.0, 0.9, 512
    far = typical_background(metric, curve_of(scheme, width=1.0), level)

    def cost(width: float) -> float:
        found = cheapest_banding(curve_of(scheme, width=width), level, recall, num_perm, far)
        return math.inf if found is None else found.cost

    width = choose_width(scheme, level, recall, num_perm, far)
    assert 1.0 <= width <= 128.0
    others = [2.0 * 2.0 ** (step / 4) for step in range(-4, 25)]
    assert cost(width) == pytest.approx(min(map(cost, others)), rel=1e-5)
    assert cost(width) < 0.9 * max(cost(2.0), cost(100.0))
    # It goes with the unit that distances are measured in.
    scaled = typical_background(metric, curve_of(scheme, width=1.0), 1000.0 * level)
    again = choose_width(scheme, 1000.0 * level, recall, num_perm, scaled)
    assert again == pytest.approx(1000.0 * width, rel=1e-5)


def test_bands_of_one_row_count_what_agrees_by_chance() -> None:
    """Of a million documents like nothing, 300 share one of 21 slots of 16 bits with a query."""
    far = Background((0.0,), (1e6,))
    wide = cheapest_banding(curve_of("fss"), 0.2, 0.99, 256, far)
    narrow = cheapest_banding(curve_of("fss"), 0.2, 0.99, 128, far)  # where two rows do not fit
    assert wide is not None and narrow is not None
    assert (wide.bands, wide.rows) == (113, 2) and (narrow.bands, narrow.rows) == (21, 1)
    assert narrow.cost == pytest.approx(21 + 1e6 * 21 / 2**16, rel=1e-3)


def test_where_no_width_is_enough() -> None:
    far = typical_background("l1", curve_of("cauchy", width=1.0), -2.0)
    with pytest.raises(ParameterError, match="no width finds a pair at distance 2 with"):
        choose_width("cauchy", -2.0, 0.999999, 1, far)
