"""A query with ``recall``: found is what was asked for, as surely as the answer says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb import Document, Index, NearestHits
from lshdb.search import nearest, row_counts
from tests.quality.planted import DIM, LARGEST, between, options, planted_pair

TOLERANCE = 4.5
TOP = 10
FAMILIES = [
    ("cosine", "hyperplane", 0.85),
    ("cosine", "hadamard", 0.85),
    ("hamming", "bits", 100.0),
    ("l1", "cauchy", 20.0),
    ("l1", "unary", 80.0),
    ("l2", "gaussian", 8.0),
]
"""Those with buckets next to a query's own, each with a distance that few bands do not reach."""
RECALL = 0.8
CLOUDS = 20
BANDS = 8
ROWS = {"hyperplane": 20, "hadamard": 20, "unary": 20, "cauchy": 6}
PAIRS = 60


@pytest.fixture(params=["by buckets", "by all signatures"])
def is_scan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether all signatures are compared; so few rows would always be."""
    if request.param == "by buckets":
        monkeypatch.setattr(row_counts, "MOST_HELD_BYTES", -1)
        monkeypatch.setattr(row_counts, "_READ_SECONDS", 1.0)
    else:  # so that where a search ends decides what it finds
        monkeypatch.setattr(nearest, "_FIRST_CHECKED", TOP)
        monkeypatch.setattr(nearest, "_MOST_CHECKED", 1)
    return bool(request.param == "by all signatures")


def few_bands(
    path: Path, metric: str, scheme: str, threshold: float, seed: int, **changes: Any
) -> Index:
    """An index whose own buckets find little of what is at the threshold."""
    chosen: dict[str, Any] = {"bands": BANDS, "rows": ROWS.get(scheme, 12)}
    if scheme in ("cauchy", "gaussian"):
        chosen["width"] = 3.0 * threshold
    chosen |= options(metric, scheme) | changes
    return Index.create(path, threshold=threshold, seed=seed, **chosen)


def answer_of(index: Index, **question: Any) -> NearestHits:
    found = index.query(**question)
    assert isinstance(found, NearestHits)
    return found


@pytest.mark.parametrize(("metric", "scheme", "threshold"), FAMILIES)
def test_an_answer_says_how_surely_it_found(
    metric: str, scheme: str, threshold: float, tmp_path: Path, is_scan: bool
) -> None:
    """One document at the threshold from each query: found as often as the answers say together.

    The threshold is the worst that is wanted all the time, so that where a search ends does not
    depend on what it finds, and each is a trial with just the probability that its answer names.
    """
    rng = np.random.default_rng(11)
    excess, variance = 0.0, 0.0
    for seed, recall in ((1, 0.6), (2, 0.9)):
        pairs = [planted_pair(metric, scheme, rng, threshold, 1.0) for _ in range(PAIRS)]
        found, said = 0, []
        with few_bands(tmp_path / f"{seed}.lshdb", metric, scheme, threshold, seed) as index:
            index.add((f"{number}", other) for number, (_, other) in enumerate(pairs))
            queries = (Document(f"{number}", one) for number, (one, _) in enumerate(pairs))
            just = threshold + (1e-9 if index.params.kind.is_distance else -1e-9)
            for key, hits in index.query_many(queries, top=None, threshold=just, recall=recall):
                assert isinstance(hits, NearestHits)
                assert hits.recall is not None
                assert hits.recall >= recall
                assert hits.buckets == 0 if is_scan else hits.buckets > index.params.bands
                assert hits.checked == PAIRS or not is_scan
                found += key in {hit.key for hit in hits}
                said.append(hits.recall)
        excess += found - sum(said)
        variance += sum(chance * (1.0 - chance) for chance in said)
    assert abs(excess) <= TOLERANCE * math.sqrt(variance)


def clouds(metric: str, scheme: str, rng: np.random.Generator, far: float) -> list[list[Any]]:
    """Centres, about each ten bodies at ten distances, and ten more that are hardly farther.

    Were there none of those, the search would go on until it had all ten, whatever was asked.
    """
    made = []
    for _ in range(CLOUDS):
        centre = planted_pair(metric, scheme, rng, far, 0.0)[0]
        shares = [*np.linspace(0.3, 1.0, TOP), *np.linspace(1.02, 1.1, TOP)]
        made.append([centre, *(moved(metric, scheme, rng, centre, one * far) for one in shares)])
    return made


def moved(
    metric: str, scheme: str, rng: np.random.Generator, centre: NDArray[Any], distance: float
) -> NDArray[Any]:
    """A body at a distance from another one, in a direction drawn at random."""
    if metric == "hamming":
        return centre ^ (rng.permutation(len(centre)) < int(distance))
    if scheme == "unary":
        signs = np.where(centre > LARGEST // 2, -1, 1)
        steps = rng.permutation(np.repeat(np.arange(DIM), LARGEST // 2))[: int(distance)]
        return centre + signs * np.bincount(steps, minlength=DIM)
    apart = rng.standard_normal(len(centre))
    if metric == "cosine":
        apart -= centre * (centre @ apart) / (centre @ centre)
        apart *= np.linalg.norm(centre) / np.linalg.norm(apart)
        return math.cos(distance) * centre + math.sin(distance) * apart
    return centre + apart * (distance / np.linalg.norm(apart, 1 if metric == "l1" else 2))


@pytest.mark.fast
@pytest.mark.parametrize(("metric", "scheme", "threshold"), FAMILIES)
def test_the_ten_nearest_are_found(
    metric: str, scheme: str, threshold: float, tmp_path: Path, is_scan: bool
) -> None:
    """How near they are is not known beforehand: the search has to find out.

    The ten are at ten distances, and also the last of them has to be found as surely as was asked.
    """
    rng = np.random.default_rng(3)
    far = math.acos(threshold) if metric == "cosine" else threshold
    shares, last = [], []
    for seed in (1, 2):
        made = clouds(metric, scheme, rng, far)
        bodies = {
            f"{number}-{place}": body
            for number, cloud in enumerate(made)
            for place, body in enumerate(cloud)
        }
        with few_bands(tmp_path / f"{seed}.lshdb", metric, scheme, threshold, seed) as index:
            index.add(bodies.items())
            sign = -1.0 if index.params.kind.is_distance else 1.0
            for number, (centre, *others) in enumerate(made):
                answer = answer_of(index, key=f"{number}-0", top=TOP, recall=RECALL)
                assert (len(answer), answer.left) == (TOP, 0)
                assert (answer.buckets == 0) == is_scan
                exact = [sign * between(metric, centre, bodies[hit.key]) for hit in answer]
                assert [hit.similarity for hit in answer] == pytest.approx(exact)
                assert exact == sorted(exact, reverse=True)
                levels = sorted(sign * between(metric, centre, other) for other in others)
                shares.append(sum(each >= levels[-TOP] - 1e-9 for each in exact) / TOP)
                last.append(levels[-TOP] in exact)
    for found in (shares, last):
        error = math.sqrt(max(float(np.var(found)), RECALL * (1 - RECALL)) / len(found))
        assert np.mean(found) >= RECALL - TOLERANCE * error
    assert np.mean(last) < 1.0, "so many are found that this shows nothing"


def test_the_probe_limit_is_kept_and_what_was_left_is_said(tmp_path: Path) -> None:
    """The rule of the c-approximate range query: 2 L candidates, far ones included."""
    rng = np.random.default_rng(5)
    centre = rng.standard_normal(40)
    bodies = [centre + 0.2 * rng.standard_normal(40) for _ in range(300)]
    with few_bands(tmp_path / "i.lshdb", "cosine", "hyperplane", 0.99, 1, rows=4) as index:
        index.add((f"{number}", body) for number, body in enumerate(bodies))
        question: dict[str, Any] = {"body": centre, "threshold": 0.5}
        every = answer_of(index, **question, probe_limit=10**6)
        assert (every.buckets, every.left) == (BANDS, 0)
        assert every.checked > 100
        for limit, compared in ((True, 2 * BANDS), (50, 50), (1, 1)):
            answer = answer_of(index, **question, probe_limit=limit)
            assert (answer.checked, answer.left) == (compared, every.checked - compared)
            assert len(answer) == min(10, compared)
        exact = answer_of(index, **question, probe_limit=every.checked)
        assert (exact.checked, exact.left) == (every.checked, 0)
        assert list(exact) == list(every)
        probing = answer_of(index, **question, recall=0.9, probe_limit=True)
        assert (probing.checked, probing.buckets) == (2 * BANDS, BANDS)
