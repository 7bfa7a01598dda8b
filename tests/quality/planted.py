"""Pairs of bodies at chosen distances, for every metric, and what is between any two by definition.

Unrelated pairs are far from one another in every metric, so the pairs that were planted are all
that there are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DIM = 40
N_BITS = 400
LARGEST = 12
WIDTH_OF_UNARY = {"width": float(LARGEST)}

THRESHOLDS = {
    "jaccard": (0.9, 0.8, 0.65, 0.5),
    "cosine": (0.97, 0.93, 0.88, 0.8),
    "hamming": (8.0, 20.0, 40.0, 60.0),
    "l1": (6.0, 12.0, 20.0, 30.0),
    "l2": (0.5, 2.0, 5.0, 10.0),
    "weighted-jaccard": (0.9, 0.8, 0.65, 0.5),
    "jaccard-bits": (0.95, 0.85, 0.75, 0.6),
}
"""From near to far."""


def options(metric: str, scheme: str) -> dict[str, Any]:
    """What an index of planted bodies is made with, beside the threshold."""
    if metric in ("hamming", "jaccard-bits"):
        return {"metric": metric, "scheme": scheme, "dim": N_BITS}
    if metric in ("jaccard", "weighted-jaccard"):
        return {"metric": metric, "scheme": scheme, "k": 1}
    unary = WIDTH_OF_UNARY if scheme == "unary" else {}
    return {"metric": metric, "scheme": scheme, "dim": DIM, "dtype": "float64", **unary}


def planted_pair(
    metric: str, scheme: str, rng: np.random.Generator, threshold: float, share: float
) -> tuple[Any, Any]:
    """Two bodies at a share of the threshold distance from each other, or as near to it as can be.

    The distance of two sets is 1 - J, of two vectors by cosine the angle. No share is exceeded.
    """
    if metric == "cosine":
        one, other = rng.standard_normal(DIM), rng.standard_normal(DIM)
        other -= one * (one @ other) / (one @ one)
        other *= np.linalg.norm(one) / np.linalg.norm(other)
        angle = share * math.acos(threshold)
        return one, math.cos(angle) * one + math.sin(angle) * other
    if metric == "hamming":
        one = rng.random(N_BITS) < 0.5
        return one, one ^ (rng.permutation(N_BITS) < int(share * threshold))
    if scheme == "unary":
        return _whole_numbers(rng, int(share * threshold))
    if metric in ("l1", "l2"):
        one, apart = 50.0 * rng.standard_normal(DIM), rng.standard_normal(DIM)
        size = np.abs(apart).sum() if metric == "l1" else np.linalg.norm(apart)
        return one, one + apart * (share * threshold / size)
    similarity = 1.0 - share * (1.0 - threshold)
    replaced = (1.0 - similarity) / (1.0 + similarity)
    if metric == "jaccard-bits":
        places = rng.permutation(N_BITS)
        one = places < N_BITS // 2
        n = int(replaced * N_BITS / 2)
        return one, (places >= n) & (places < N_BITS // 2 + n)
    names = [f"{number:x}" for number in rng.integers(0, 2**60, 200)]
    if metric == "weighted-jaccard":
        weights = dict(zip(names[:30], rng.gamma(0.7, size=30) + 1e-3, strict=True))
        kept = {name: float(weight * (1.0 - replaced)) for name, weight in weights.items()}
        new = {names[40]: float(sum(weights.values()) * replaced)}
        return {name: float(weight) for name, weight in weights.items()}, kept | new
    n = int(replaced * 100)
    return names[:100], names[n : 100 + n]


def _whole_numbers(rng: np.random.Generator, distance: int) -> tuple[Any, Any]:
    """Numbers from 0 to LARGEST; so many single steps are between the two, all away from one."""
    one = rng.integers(0, LARGEST + 1, DIM)
    room = np.where(one > LARGEST // 2, one, LARGEST - one)
    steps = rng.permutation(np.repeat(np.arange(DIM), room))[:distance]
    away = np.bincount(steps, minlength=DIM)
    return one, np.where(one > LARGEST // 2, one - away, one + away)


def between(metric: str, one: Any, other: Any) -> float:
    """Similarity or distance, as it is defined."""
    if metric == "jaccard":
        return len({*one} & {*other}) / len({*one} | {*other})
    if metric == "weighted-jaccard":
        both = [(one.get(name, 0.0), other.get(name, 0.0)) for name in {*one, *other}]
        return math.fsum(map(min, both)) / math.fsum(map(max, both))
    if metric == "jaccard-bits":
        return float((one & other).sum() / (one | other).sum())
    if metric == "hamming":
        return float((one != other).sum())
    if metric == "cosine":
        return float(one @ other / math.sqrt((one @ one) * (other @ other)))
    apart = np.abs(np.asarray(one) - other)
    return float(apart.sum() if metric == "l1" else math.sqrt((apart * apart).sum()))
