"""Keys sorted on disk, as NumPy sorts them, and pairs counted as a dictionary counts them."""

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
from lshdb.disksort.sorted_numbers import MOST_SIGNATURES, KeyColumns, PairTally

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("memory", [300, 2_000, 2**20])
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_keys_come_back_in_order_whatever_the_memory(
    n: int, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_numbers, "_READ_KEYS", 64)
    rng = np.random.default_rng(n + memory)
    keys = rng.integers(-(2**63), 2**63, size=(n, 3))
    keys[:, 1] = rng.integers(0, 3, size=n)  # a few large buckets
    keys[:, 2] = 5
    columns: list[list[tuple[int, int]]] = [[], [], []]
    with KeyColumns(tmp_path, n, 3, memory=memory) as stored:
        for first in range(0, n, 100):
            stored.put(first, keys[first : first + 100])
        assert list(tmp_path.iterdir()) == []
        largest = 0
        column = 0
        for part, ids in stored.in_order():
            largest = max(largest, len(part))
            if len(columns[column]) == n:
                column += 1
            columns[column] += zip(part.tolist(), ids.tolist(), strict=True)
            assert (np.diff(part) >= 0).all()
    for column, pairs in enumerate(columns):
        assert [key for key, _ in pairs] == sorted(keys[:, column].tolist())
        assert sorted(pairs) == sorted(zip(keys[:, column].tolist(), range(n), strict=True))
    if n == 1000 and memory == 2_000:
        assert largest >= n / 3  # a key that many share is not divided
        assert len(columns[0]) == n


def test_reads_and_writes_that_do_a_part_are_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.random.default_rng(1).integers(-(2**63), 2**63, size=(50, 2))
    read, write = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda file, size, place: read(file, min(size, 13), place))
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: write(file, data[:11], place))
    with KeyColumns(tmp_path, 50, 2, memory=2**20) as stored:
        stored.put(0, keys)
        columns = [part.tolist() for part, _ in stored.in_order()]
        assert columns == np.sort(keys, axis=0).T.tolist()
        os.truncate(stored._file.fileno(), 100)
        with pytest.raises(OSError, match="lost some of its bytes"):
            list(stored.in_order())


def counted(tally: PairTally) -> dict[tuple[int, int], int]:
    counts_of_pairs: dict[tuple[int, int], int] = {}
    before = (-1, -1)
    for left, right, counts in tally.in_order():
        for id1, id2, count in zip(left.tolist(), right.tolist(), counts.tolist(), strict=True):
            assert (id1, id2) > before
            counts_of_pairs[before := (id1, id2)] = count
    return counts_of_pairs


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
