"""What is dropped before the texts are read would almost never have passed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lshdb import Index
from lshdb.search.verification import TextPoints, prefilter
from lshdb.signatures.families import family_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("num_perm", [1, 8, 16, 32, 64, 100, 128, 256, 1024])
def test_the_prefilter_loses_fewer_than_one_in_ten_thousand(num_perm: int) -> None:
    for threshold in [*(number / 100 for number in range(1, 100)), 0.995, 0.999, 1.0]:
        most = math.ceil(prefilter(threshold, num_perm) * num_perm)
        lost = sum(
            math.comb(num_perm, equal) * threshold**equal * (1 - threshold) ** (num_perm - equal)
            for equal in range(most)
        )
        assert lost < 1e-4, threshold


def test_points_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    with Index.create(tmp_path / "i.lshdb", k=1) as index:
        index.add((f"d{i}", " ".join(f"w{i}x{j}" for j in range(1000))) for i in range(40))
        family = family_of(index.params)
        with index._store.reading() as snapshot:
            cache = TextPoints(snapshot, family, most_bytes=100_000)
            for one in range(40):
                assert len(cache.get([one])[one]) == 1000
                held = sum(array.nbytes + 256 for array in cache._points.values())
                assert held <= 100_000
                assert cache._bytes == held
