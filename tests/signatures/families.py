"""What the tests of families share: parameters of each, and pairs of points at given levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.params.index_params import IndexParams
from lshdb.params.metrics import METRICS, SCHEMES
from lshdb.signatures.families import family_of
from lshdb.signatures.family import Family

FAMILIES = [(metric, scheme) for metric, kind in METRICS.items() for scheme in kind.families]
"""Every metric and scheme there is."""

DENSE = [pair for pair in FAMILIES if METRICS[pair[0]].is_dense]
WIDTHS = {"gaussian": 4.0, "cauchy": 4.0, "unary": 6.0}
DIM = 40
N_BITS = 400


def params_of(metric: str, scheme: str, **changes: Any) -> IndexParams:
    kind = METRICS[metric]
    options: dict[str, Any] = {
        "metric": metric, "scheme": scheme, "bands": 1, "rows": 1, "threshold": 0.5, "recall": 0.9,
        "num_perm": 4096 if SCHEMES[scheme].slot_bits == 1 else 128,
        "width": WIDTHS.get(scheme, 0.0),
    }  # fmt: skip
    if scheme in ("gaussian", "cauchy"):
        options["num_perm"] = 1024
    if kind.is_dense:
        is_bits = kind.body == "bits"
        options |= {"dim": N_BITS if is_bits else DIM, "dtype": "bits" if is_bits else "float32"}
    return IndexParams(**(options | changes))


def make(metric: str, scheme: str, **changes: Any) -> Family:
    return family_of(params_of(metric, scheme, **changes))


def points_of(family: Family, bodies: list[Any]) -> list[Any]:
    for body in bodies:
        assert family.refusal(body) is None
    return family.points(family.contents(bodies))


def slots_of(family: Family, points: list[Any]) -> NDArray[np.uint16]:
    """Signatures with one slot a column."""
    rows = family.sign(points)
    assert rows.shape == (len(points), family.params.row_words)
    assert rows.dtype == np.uint16
    if family.params.slot_bits == 16:
        return rows
    words = np.arange(family.params.num_perm)
    return (rows[:, words // 16] >> (words % 16).astype(np.uint16)) & np.uint16(1)


def unit(rng: np.random.Generator, dim: int) -> NDArray[np.float64]:
    drawn = rng.standard_normal(dim)
    return drawn / np.linalg.norm(drawn)


def pair_at(metric: str, scheme: str, rng: np.random.Generator, share: float) -> list[Any]:
    """Two bodies, the more alike the larger the share, above 0 and below 1."""
    if metric == "cosine":
        one, other = unit(rng, DIM), unit(rng, DIM)
        other -= one * (one @ other)
        other /= np.linalg.norm(other)
        angle = (1.0 - share) * math.pi
        return [one, 3.0 * (math.cos(angle) * one + math.sin(angle) * other)]
    if scheme == "unary":
        one = rng.integers(0, 7, DIM)
        other = np.where(rng.random(DIM) < share, one, rng.integers(0, 7, DIM))
        return [one, other]
    if metric in ("l1", "l2"):
        start, apart = 0.1 * rng.standard_normal(DIM), rng.standard_normal(DIM)
        size = np.abs(apart).sum() if metric == "l1" else np.linalg.norm(apart)
        return [start, start + apart / size * 4.0 * (1.0 / share - 1.0)]
    if metric == "hamming":
        one = rng.random(N_BITS) < 0.5
        return [one, one ^ (rng.permutation(N_BITS) < round((1.0 - share) * N_BITS))]
    if metric == "jaccard-bits":
        one = rng.random(N_BITS) < 0.5
        return [one, np.where(rng.random(N_BITS) < share, one, rng.random(N_BITS) < 0.5)]
    names = [f"{number:x}" for number in rng.integers(0, 2**60, 90)]
    if metric == "weighted-jaccard":
        weights = rng.gamma(0.7, size=90) * 10.0 ** rng.integers(-3, 4)
        changed = np.where(rng.random(90) < share, weights, weights * rng.gamma(1.0, size=90))
        both = [dict(zip(names, each.tolist(), strict=True)) for each in (weights, changed)]
        for name in names:
            if rng.random() > share:
                del both[int(rng.integers(2))][name]
        return both
    kept = round(30 * share)
    return [names[:30], names[30 - kept : 60 - kept]]
