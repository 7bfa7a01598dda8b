"""Pairs are counted as a dictionary counts them."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lshdb import DatabaseError, LshdbError
from lshdb.disksort import sorted_numbers
from lshdb.disksort.sorted_numbers import MOST_SIGNATURES, PairTally

pytestmark = pytest.mark.fast


def counted(tally: PairTally) -> dict[tuple[int, int], int]:
    counts_of_pairs: dict[tuple[int, int], int] = {}
    before = (-1, -1)
    for left, right, counts in tally.in_order():
        for id1, id2, count in zip(left.tolist(), right.tolist(), counts.tolist(), strict=True):
            assert (id1, id2) > before
            counts_of_pairs[before := (id1, id2)] = count
    return counts_of_pairs


def test_reads_and_writes_that_do_a_part_are_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda file, size, place: read(file, min(size, 13), place))
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: write(file, data[:11], place))
    ids = np.arange(5000)
    with PairTally(5001, memory=0) as tally:
        tally.put(ids, ids + 1)
        tally.put(ids[::7], ids[::7] + 1)
        assert counted(tally) == {(id, id + 1): 1 + (id % 7 == 0) for id in range(5000)}
    with PairTally(5001, memory=0) as tally:
        tally.put(ids, ids + 1)
        assert tally._file is not None
        os.truncate(tally._file.fileno(), 100)
        with pytest.raises(DatabaseError, match="temporary file"):
            counted(tally)


@pytest.mark.parametrize("memory", [0, 100_000, 10**9])
@pytest.mark.parametrize("n", [0, 1, 1000, 30_000])
def test_counts(memory: int, n: int) -> None:
    rng = random.Random(n)
    highest = MOST_SIGNATURES - 1
    pairs = [
        (rng.choice([0, 2**31, 2**31 + 1, highest - 300]) + rng.randrange(100), highest - step)
        for step in (int(rng.expovariate(0.1)) for _ in range(n))
    ]
    with PairTally(MOST_SIGNATURES, memory=memory) as tally:
        start = 0
        while start < n:
            end = start + rng.randrange(1, 900)
            left, right = np.array(pairs[start:end], dtype=np.int64).T
            tally.put(left, right)
            start = end
        assert counted(tally) == Counter(pairs)
        assert (tally._file is not None) == (memory < 10**9 and n > 1000)


def test_runs_end_at_different_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_numbers, "_LEAST_BLOCK", 3)
    rng = random.Random(8)
    expected: Counter[tuple[int, int]] = Counter()
    with PairTally(1000, memory=0) as tally:
        for width in (1, 2, 50, 400, 3, 999):
            left = np.array([rng.randrange(width) for _ in range(rng.randrange(3, 200))])
            tally.put(left, left + 1)
            expected.update(zip(left.tolist(), (left + 1).tolist(), strict=True))
        assert counted(tally) == expected


def test_too_many_signatures() -> None:
    with pytest.raises(LshdbError, match="4,294,967,296"):
        PairTally(MOST_SIGNATURES + 1, memory=0)


def test_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    ids = np.arange(5000)
    with PairTally(5001, memory=0) as tally, pytest.raises(DatabaseError, match="temporary file"):
        tally.put(ids, ids + 1)
