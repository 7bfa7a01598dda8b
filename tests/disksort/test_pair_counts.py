"""Pairs counted on disk: as a dictionary would count them."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lshdb import DatabaseError, LshdbError
from lshdb.disksort import pair_counts
from lshdb.disksort.pair_counts import MOST_SIGNATURES, PairCounts

pytestmark = pytest.mark.fast


def counted(tally: PairCounts) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    before = (-1, -1)
    for left, right, counts in tally.in_order():
        for one, other, count in zip(left.tolist(), right.tolist(), counts.tolist(), strict=True):
            assert (one, other) > before
            found[before := (one, other)] = count
    return found


@pytest.mark.parametrize("memory", [0, 100_000, 10**9])
@pytest.mark.parametrize("n", [0, 1, 1000, 30_000])
def test_counts(memory: int, n: int) -> None:
    rng = random.Random(n)
    highest = MOST_SIGNATURES - 1
    pairs = [
        (rng.choice([0, 2**31, 2**31 + 1, highest - 300]) + rng.randrange(100), highest - step)
        for step in (int(rng.expovariate(0.1)) for _ in range(n))
    ]
    with PairCounts(MOST_SIGNATURES, memory=memory) as tally:
        start = 0
        while start < n:
            end = start + rng.randrange(1, 900)
            left, right = np.array(pairs[start:end], dtype=np.int64).T
            tally.put(left, right)
            start = end
        assert counted(tally) == Counter(pairs)
        assert (tally._file is not None) == (memory < 10**9 and n > 1000)


def test_runs_end_at_different_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_counts, "_LEAST_BLOCK", 3)
    rng = random.Random(8)
    expected: Counter[tuple[int, int]] = Counter()
    with PairCounts(1000, memory=0) as tally:
        for width in (1, 2, 50, 400, 3, 999):
            left = np.array([rng.randrange(width) for _ in range(rng.randrange(3, 200))])
            tally.put(left, left + 1)
            expected.update(zip(left.tolist(), (left + 1).tolist(), strict=True))
        assert counted(tally) == expected


def test_too_many_signatures() -> None:
    with pytest.raises(LshdbError, match="4,294,967,296"):
        PairCounts(MOST_SIGNATURES + 1, memory=0)


def test_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    some = np.arange(5000)
    with PairCounts(5001, memory=0) as tally, pytest.raises(DatabaseError, match="temporary file"):
        tally.put(some, some + 1)
