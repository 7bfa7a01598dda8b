"""Keys sorted on disk, against NumPy's own sorting."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from lshdb.disksort import sorted_keys as columns
from lshdb.disksort.sorted_keys import KeyColumns


@pytest.mark.parametrize("memory", [300, 2_000, 2**20])
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_keys_come_back_in_order_whatever_the_memory(
    n: int, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_READ_KEYS", 64)
    random = np.random.default_rng(n + memory)
    keys = random.integers(-(2**63), 2**63, size=(n, 3))
    keys[:, 1] = random.integers(0, 3, size=n)  # a few large buckets
    keys[:, 2] = 5
    found: list[list[tuple[int, int]]] = [[], [], []]
    with KeyColumns(tmp_path, n, 3, memory=memory) as kept:
        for first in range(0, n, 100):
            kept.put(first, keys[first : first + 100])
        assert list(tmp_path.iterdir()) == []
        largest = 0
        column = 0
        for part, ids in kept.in_order():
            largest = max(largest, len(part))
            if len(found[column]) == n:
                column += 1
            found[column] += zip(part.tolist(), ids.tolist(), strict=True)
            assert (np.diff(part) >= 0).all()
    for column, pairs in enumerate(found):
        assert [key for key, _ in pairs] == sorted(keys[:, column].tolist())
        assert sorted(pairs) == sorted(zip(keys[:, column].tolist(), range(n), strict=True))
    if n == 1000 and memory == 2_000:
        assert largest >= n / 3  # a key that many share is not divided
        assert len(found[0]) == n


def test_reads_and_writes_that_do_a_part_are_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.random.default_rng(1).integers(-(2**63), 2**63, size=(50, 2))
    read, write = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda file, size, place: read(file, min(size, 13), place))
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: write(file, data[:11], place))
    with KeyColumns(tmp_path, 50, 2, memory=2**20) as kept:
        kept.put(0, keys)
        found = [part.tolist() for part, _ in kept.in_order()]
        assert found == np.sort(keys, axis=0).T.tolist()
        os.truncate(kept._file.fileno(), 100)
        with pytest.raises(OSError, match="lost some of its bytes"):
            list(kept.in_order())
