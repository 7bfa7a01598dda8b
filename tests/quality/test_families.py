"""All pairs within a threshold, for every metric and scheme: found as surely as was promised."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lshdb import Index
from tests.quality.planted import THRESHOLDS, between, options, planted_pair
from tests.signatures.families import FAMILIES

TOLERANCE = 4.5
PAIRS = 100


@pytest.mark.parametrize(("metric", "scheme"), FAMILIES)
def test_all_pairs_within_a_threshold(metric: str, scheme: str, tmp_path: Path) -> None:
    """Half of the pairs are just within the threshold, where the promise is the hardest to keep.

    The pairs have nothing to do with each other, so what is found are independent trials, each with
    the probability that the S-curve gives; the tolerance is that of their sum.
    """
    rng = np.random.default_rng(7)
    found, expected, variance = 0, 0.0, 0.0
    for number, threshold in enumerate(THRESHOLDS[metric]):
        shares = np.linspace(0.3, 1.0, PAIRS // 2).tolist() + [0.999] * (PAIRS // 2)
        pairs = [planted_pair(metric, scheme, rng, threshold, share) for share in shares]
        documents = [
            (f"{place}{side}", body)
            for place, pair in enumerate(pairs)
            for side, body in zip("ab", pair, strict=True)
        ]
        bodies = dict(documents)
        with Index.create(
            tmp_path / f"{number}.lshdb", threshold=threshold, recall=0.99, seed=number,
            **options(metric, scheme),
        ) as index:  # fmt: skip
            index.add(documents)
            answer = list(index.pairs())
            params = index.params
        for pair in answer:  # precision is 1, and similarities are what they are
            exact = between(metric, bodies[pair.key1], bodies[pair.key2])
            assert abs(pair.similarity) == pytest.approx(exact, rel=1e-9)
            sign = -1.0 if params.kind.is_distance else 1.0
            assert sign * exact >= sign * threshold - 1e-9
            assert pair.key1[:-1] == pair.key2[:-1], "unrelated bodies are that near"
        hits = len({pair.key1[:-1] for pair in answer})
        chances = np.array([params.recall_at(between(metric, *pair)) for pair in pairs])
        assert (chances >= 0.99).all()
        deviation = math.sqrt(0.99 * 0.01 * PAIRS)
        assert hits >= 0.99 * PAIRS - TOLERANCE * deviation, threshold
        found, expected = found + hits, expected + float(chances.sum())
        variance += float((chances * (1.0 - chances)).sum())
    assert abs(found - expected) <= TOLERANCE * math.sqrt(variance) + 1
