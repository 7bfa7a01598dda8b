"""What is dropped before the texts are read would almost never have passed."""

from __future__ import annotations

import math

import pytest

from lshdb.search.verification import prefilter


@pytest.mark.parametrize("num_perm", [1, 8, 16, 32, 64, 100, 128, 256, 1024])
def test_the_prefilter_loses_fewer_than_one_in_ten_thousand(num_perm: int) -> None:
    for threshold in [*(number / 100 for number in range(1, 100)), 0.995, 0.999, 1.0]:
        most = math.ceil(prefilter(threshold, num_perm) * num_perm)
        lost = sum(
            math.comb(num_perm, equal) * threshold**equal * (1 - threshold) ** (num_perm - equal)
            for equal in range(most)
        )
        assert lost < 1e-4, threshold
