"""What similar points may have in place of a query's slots, against what they do have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb.signatures.projections import upper_tail
from tests.signatures.families import DENSE, DIM, N_BITS, make, points_of, slots_of, unit

TOLERANCE = 4.5
TRIALS = 60
WITH = [pair for pair in DENSE if pair[0] != "jaccard-bits"]

# A level for each, at which all alternatives happen often enough to be counted.
LEVELS = {
    "hyperplane": 0.9, "hadamard": 0.9, "bits": -60.0, "gaussian": -3.0, "cauchy": -3.0,
    "unary": -30.0,
}  # fmt: skip


def query(scheme: str, rng: np.random.Generator) -> NDArray[Any]:
    if scheme == "bits":
        return rng.random(N_BITS) < 0.5
    return rng.integers(1, 6, DIM) if scheme == "unary" else 2.0 * rng.standard_normal(DIM)


def point_at(scheme: str, rng: np.random.Generator, body: NDArray[Any]) -> NDArray[Any]:
    """A random point at the level of the scheme from a query."""
    level = LEVELS[scheme]
    if scheme == "bits":
        return body ^ (rng.permutation(N_BITS) < -level)
    if scheme == "unary":
        steps = rng.permutation(DIM) < -level
        return body + steps * rng.choice([-1, 1], DIM)
    apart = unit(rng, DIM)
    if scheme in ("hyperplane", "hadamard"):
        along = body / np.linalg.norm(body)
        apart -= along * (apart @ along)
        apart /= np.linalg.norm(apart)
        return level * along + math.sqrt(1.0 - level**2) * apart
    return body - level * apart / (np.abs(apart).sum() if scheme == "cauchy" else 1.0)


@pytest.mark.parametrize(("metric", "scheme"), WITH)
def test_probabilities_are_those_that_are_seen(metric: str, scheme: str) -> None:
    """In each of ten classes of slots by predicted probability; each slot has its own."""
    rng = np.random.default_rng(8)
    predicted, seen = [], []
    for trial in range(TRIALS):
        family = make(metric, scheme, seed=trial + 1, num_perm=1024)
        body = query(scheme, rng)
        points = points_of(family, [body, point_at(scheme, rng, body)])
        assert family.levels(points[:1], points[1:])[0] == pytest.approx(LEVELS[scheme], abs=1e-5)
        slots = slots_of(family, points)
        found = family.alternatives(points[0], LEVELS[scheme])
        assert found is not None
        values = np.column_stack([slots[0], found.values])
        predicted.append(np.column_stack([found.same, found.others]))
        seen.append(values == slots[1][:, None])
        assert (found.values != slots[0][:, None]).all()
    shares, happened = np.concatenate(predicted), np.concatenate(seen)
    assert shares.sum(axis=1).max() <= 1.0 + 1e-12
    assert shares.min() >= 0.0
    for column in range(shares.shape[1]):
        for chosen in np.array_split(np.argsort(shares[:, column], kind="stable"), 10):
            probability = shares[chosen, column]
            error = math.sqrt((probability * (1.0 - probability)).sum()) + 1e-9
            difference = happened[chosen, column].sum() - probability.sum()
            assert abs(difference) <= TOLERANCE * error, (column, probability[[0, -1]])


@pytest.mark.parametrize(("metric", "scheme"), WITH)
def test_the_query_itself_has_no_alternative(metric: str, scheme: str) -> None:
    family = make(metric, scheme, num_perm=64)
    (point,) = points_of(family, [query(scheme, np.random.default_rng(9))])
    found = family.alternatives(point, family.params.curve.best)
    assert found is not None
    assert found.same.tolist() == [1.0] * 64
    assert (found.others == 0.0).all()


@pytest.mark.parametrize("scheme", ["hyperplane", "hadamard"])
def test_the_opposite_is_on_the_other_side(scheme: str) -> None:
    family = make("cosine", scheme, num_perm=64)
    (point,) = points_of(family, [query(scheme, np.random.default_rng(9))])
    found = family.alternatives(point, -1.0)
    assert found is not None
    assert (found.others == 1.0).all()
    obtuse = family.alternatives(point, -0.5)
    acute = family.alternatives(point, 0.5)
    assert obtuse is not None
    assert acute is not None
    assert (obtuse.others > 0.5).all()
    assert obtuse.others == pytest.approx(1.0 - acute.others)


@pytest.mark.parametrize(("metric", "scheme"), [("l2", "gaussian"), ("l1", "cauchy")])
def test_a_slot_that_is_full_has_nothing_next_to_it(metric: str, scheme: str) -> None:
    family = make(metric, scheme, num_perm=64, width=1e-12)
    points = points_of(family, [np.ones(DIM), -np.ones(DIM)])
    rows = family.sign(points)
    assert set(rows.ravel().tolist()) == {2**16 - 1, 0}  # of 2^31 - 1 and -2^31
    found = family.alternatives(points[0], -1.0)
    assert found is not None
    assert (found.same == 1.0).all()
    assert (found.others == 0.0).all()


def test_sets_have_nothing_next_to_them() -> None:
    for metric, scheme in (("jaccard-bits", "fss"), ("weighted-jaccard", "icws")):
        family = make(metric, scheme)
        body: Any = {"a": 1.0} if scheme == "icws" else "1" * N_BITS
        assert family.alternatives(points_of(family, [body])[0], 0.5) is None


def test_the_tail_of_the_normal_distribution() -> None:
    x = np.concatenate([np.linspace(0.0, 10.0, 30_011), [10.5, 40.0, np.inf]])
    exact = np.array([math.erfc(each / math.sqrt(2.0)) / 2.0 for each in x.tolist()])
    found = upper_tail(x.copy())
    assert np.abs(found - exact).max() < 8e-12
    assert (np.abs(found - exact)[x <= 5.0] < 3e-9 * exact[x <= 5.0]).all()
    assert (np.abs(found - exact)[x <= 10.0] < 2e-8 * exact[x <= 10.0]).all()
    assert found[-1] < 1e-23
