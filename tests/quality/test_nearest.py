"""A query with ``recall``: found is what was asked for, as surely as the answer says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb import Answer, Document, Index
from tests.quality.planted import between, options, planted_pair

TOLERANCE = 4.5
TOP = 10
FAMILIES = [
    ("cosine", "hyperplane", 0.75),
    ("cosine", "hadamard", 0.75),
    ("hamming", "bits", 100.0),
    ("l1", "cauchy", 20.0),
    ("l1", "unary", 120.0),
    ("l2", "gaussian", 8.0),
]
"""Those with buckets next to a query's own, each with a distance that few bands do not reach."""
BANDS = 8
PAIRS = 60


def few_bands(
    path: Path, metric: str, scheme: str, threshold: float, seed: int, **changes: Any
) -> Index:
    """An index whose own buckets find little of what is at the threshold."""
    chosen: dict[str, Any] = {"bands": BANDS, "rows": 6 if scheme == "cauchy" else 12}
    if scheme in ("cauchy", "gaussian"):
        chosen["width"] = 3.0 * threshold
    chosen |= options(metric, scheme) | changes
    return Index.create(path, threshold=threshold, seed=seed, **chosen)


def answer_of(index: Index, **question: Any) -> Answer:
    found = index.query(**question)
    assert isinstance(found, Answer)
    return found


@pytest.mark.parametrize(("metric", "scheme", "threshold"), FAMILIES)
def test_an_answer_says_how_surely_it_found(
    metric: str, scheme: str, threshold: float, tmp_path: Path
) -> None:
    """One document at the threshold from each query: found as often as the answers say together.

    The threshold is the worst that is wanted all the time, so that where a search ends does not
    depend on what it finds, and each is a trial with just the probability that its answer names.
    That holds for one index, but for scheme ``unary``: numbers differ in neighbouring bits of their
    code, so that by one choice of bits all queries find more, and by another less; an index is a
    trial there.
    """
    rng = np.random.default_rng(11)
    indexes = 14 if scheme == "unary" else 2
    excess, variance = [], 0.0
    for seed in range(1, indexes + 1):
        recall = (0.6, 0.9)[seed % 2]
        n_pairs = 2 * PAIRS // indexes
        pairs = [planted_pair(metric, scheme, rng, threshold, 1.0) for _ in range(n_pairs)]
        found, said = 0, []
        with few_bands(tmp_path / f"{seed}.lshdb", metric, scheme, threshold, seed) as index:
            index.add((f"{number}", other) for number, (_, other) in enumerate(pairs))
            queries = (Document(f"{number}", one) for number, (one, _) in enumerate(pairs))
            just = threshold + (1e-9 if index.params.kind.is_distance else -1e-9)
            for key, hits in index.query_many(queries, top=5, threshold=just, recall=recall):
                assert isinstance(hits, Answer)
                assert hits.recall is not None
                assert hits.recall >= recall
                assert hits.buckets > index.params.bands
                found += key in {hit.key for hit in hits}
                said.append(hits.recall)
        excess.append(found - sum(said))
        variance += sum(chance * (1.0 - chance) for chance in said)
    if scheme == "unary":
        variance = max(variance, indexes * float(np.var(excess, ddof=1)))
    assert abs(sum(excess)) <= TOLERANCE * math.sqrt(variance)


def clusters(metric: str, scheme: str, rng: np.random.Generator, far: float) -> list[Any]:
    """Clouds of sixteen bodies about as many centres, each its own distance from its centre."""
    bodies = []
    for _ in range(16):
        centre = planted_pair(metric, scheme, rng, far, 0.0)[0]
        shares = np.linspace(0.3, 1.0, 16)
        bodies += [moved(metric, scheme, rng, centre, share * far) for share in shares]
    return bodies


def moved(
    metric: str, scheme: str, rng: np.random.Generator, centre: NDArray[Any], distance: float
) -> NDArray[Any]:
    """A body at a distance from another one, in a direction drawn at random."""
    if metric == "hamming":
        return centre ^ (rng.permutation(len(centre)) < int(distance))
    if scheme == "unary":
        signs = np.where(centre > 6, -1, 1)
        return centre + signs * rng.multinomial(int(distance), np.full(40, 1 / 40)).clip(0, 6)
    apart = rng.standard_normal(len(centre))
    if metric == "cosine":
        apart -= centre * (centre @ apart) / (centre @ centre)
        apart *= np.linalg.norm(centre) / np.linalg.norm(apart)
        return math.cos(distance) * centre + math.sin(distance) * apart
    return centre + apart * (distance / np.linalg.norm(apart, 1 if metric == "l1" else 2))


@pytest.mark.parametrize(("metric", "scheme", "threshold"), FAMILIES)
def test_the_ten_nearest_are_found(
    metric: str, scheme: str, threshold: float, tmp_path: Path
) -> None:
    """At 0.7: how near they are is not known beforehand, and differs from one to the next.

    What one query finds of its ten depends on one another, so a query is a trial. What is nearer
    than the tenth is found more surely than was asked, and so more than 0.7 must be found.
    """
    rng = np.random.default_rng(3)
    far = math.acos(threshold) if metric == "cosine" else threshold
    shares = []
    for seed in (1, 2):
        bodies = clusters(metric, scheme, rng, far)
        with few_bands(tmp_path / f"{seed}.lshdb", metric, scheme, threshold, seed) as index:
            index.add((f"{number}", body) for number, body in enumerate(bodies))
            is_distance = index.params.kind.is_distance
            for number in range(0, len(bodies), 8):
                body = bodies[number]
                values = np.array([between(metric, body, other) for other in bodies])
                nearness = -values if is_distance else values
                nearness[number] = -math.inf
                least = np.sort(nearness)[-TOP]
                answer = answer_of(index, key=f"{number}", top=TOP, recall=0.7)
                found = [nearness[int(hit.key)] for hit in answer]
                assert [hit.similarity for hit in answer] == pytest.approx(found)
                assert answer.left == 0
                shares.append(min(TOP, sum(one >= least - 1e-9 for one in found)) / TOP)
    error = np.std(shares) / math.sqrt(len(shares))
    assert 0.7 - TOLERANCE * error <= np.mean(shares)
    assert np.mean(shares) < 0.999, "so many are found that this shows nothing"


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
