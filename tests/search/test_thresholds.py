"""Estimates exactly at a threshold: every command takes them, or none does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lshdb import Index, IndexParams
from lshdb.search.verification import estimate, least_share
from lshdb.signatures.banding import Overlap


@pytest.mark.parametrize("dim", [40, 100, 320, 1000])
def test_an_estimate_of_whole_bits_is_whole(dim: int) -> None:
    n_whole = 0
    for num_perm in (160, 256, 800):
        params = IndexParams(
            metric="hamming", scheme="bits", dim=dim, dtype="bits", threshold=1.0, recall=0.9,
            num_perm=num_perm, bands=1, rows=1,
        )  # fmt: skip
        for bits in range(dim // 2):
            equal, rest = divmod(num_perm * (dim - bits), dim)
            if rest:
                continue
            n_whole += 1
            slots = np.array([equal - 1, equal])
            agreement = Overlap(slots, slots, slots)
            level = params.curve.level(float(bits))
            levels, suffice = estimate(agreement, params, method="signature", threshold=level)
            assert levels[1] == level and suffice.tolist() == [False, True]
            assert least_share(params, "signature", level) <= equal / num_perm
    assert n_whole >= 10


@pytest.mark.parametrize(
    ("metric", "given"),
    [
        ("hamming", {"dim": 100}),
        ("cosine", {"dim": 20}),
        ("l2", {"dim": 20}),
        ("l1", {"dim": 20, "scheme": "unary", "width": 30}),
    ],
)
def test_an_estimate_as_threshold_finds_its_pair(
    metric: str, given: dict[str, int | str], tmp_path: Path
) -> None:
    generator = np.random.default_rng(3)
    if metric == "hamming":
        bodies = np.repeat(generator.random((12, 100)) < 0.5, 5, axis=0)
        bodies ^= generator.random(bodies.shape) < 0.1
    else:
        bodies = np.repeat(generator.integers(2, 28, (12, 20)), 5, axis=0).astype("f4")
        bodies += generator.integers(-2, 3, bodies.shape)
    threshold = 0.7 if metric == "cosine" else 50
    options = {"metric": metric, "threshold": threshold, "store_text": False, **given}
    with Index.create(tmp_path / "a", **options) as index:
        index.add((f"k{number:02}", body) for number, body in enumerate(bodies))
        value = index.params.curve.value
        pairs = {(pair.key1, pair.key2): pair.similarity for pair in index.pairs()}
        assert len(pairs) > 50
        index.update_clusters()
        for (one, other), level in list(pairs.items())[:8]:
            given_as = {"threshold": value(level)}
            expected = {pair for pair, found in pairs.items() if found >= level}
            assert {(pair.key1, pair.key2) for pair in index.pairs(**given_as)} == expected
            for probing in ({}, {"probe_limit": 1000}):
                hits = index.query(key=one, top=None, **given_as, **probing)
                assert other in [hit.key for hit in hits]
            near = index.neighbors(top=100, update=False, **given_as)
            assert sum(1 for _ in near) == 2 * len(expected)
