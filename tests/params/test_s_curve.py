"""The S-curve as data: its points are the formula, its areas those of the formula."""

from __future__ import annotations

import pytest

from lshdb import IndexParams, ParameterError, s_curve
from lshdb.params.options import CreateOptions
from lshdb.signatures.families import params_for

pytestmark = pytest.mark.fast


def params(**options: object) -> IndexParams:
    return params_for(CreateOptions(**options), None)  # type: ignore[arg-type]


def test_the_points_are_the_formula() -> None:
    """The table of Mining of Massive Datasets, figure 3.8: b = 20, r = 5."""
    found = s_curve(params(threshold=0.55, bands=20, rows=5), steps=10)
    book = {0.2: 0.006, 0.3: 0.047, 0.4: 0.186, 0.5: 0.470, 0.6: 0.802, 0.7: 0.975, 0.8: 0.9996}
    table = {round(s, 9): p for s, p in zip(found.similarities, found.found, strict=True)}
    assert {s: table[s] for s in book} == pytest.approx(book, abs=6e-4)
    assert found.similarities[0] == 0 and found.similarities[-1] == 1 and len(table) == 12
    assert found.steepest == pytest.approx((1 / 20) ** (1 / 5))
    assert found.at_threshold == table[0.55] == pytest.approx(found.recall)


def test_the_areas_are_means_of_both_kinds_of_error() -> None:
    made = params(threshold=0.5, bands=1, rows=1)  # the curve is the diagonal
    found = s_curve(made, steps=3)
    assert found.false_positives == pytest.approx(0.25)
    assert found.false_negatives == pytest.approx(0.25)
    finer = s_curve(params(threshold=0.8), steps=2000)
    assert finer.false_negatives < 0.01 < finer.false_positives < 0.3


def test_distances_begin_at_0() -> None:
    found = s_curve(params(metric="hamming", dim=64, threshold=10))
    assert found.is_distance and found.similarities[0] == 0 and found.found[0] == 1
    assert list(found.found) == sorted(found.found, reverse=True)
    assert found.similarities[-1] == 30 and 10 in found.similarities
    assert s_curve(params(metric="hamming", dim=20, threshold=10)).similarities[-1] == 20
    assert s_curve(params(metric="cosine", dim=8)).similarities[0] == -1
    assert s_curve(params(), furthest=0.5).similarities[0] == 0.5
    assert s_curve(params(metric="hamming", dim=64, threshold=0)).threshold == 0


def test_steps_are_counted() -> None:
    with pytest.raises(ParameterError):
        s_curve(params(), steps=0)
