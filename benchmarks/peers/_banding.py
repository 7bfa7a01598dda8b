"""What both baselines begin with: texts to rensa's signatures, and these to keys of buckets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from benchmarks.peers._contract import NUM_PERM, Source
from benchmarks.peers._pairing import records
from benchmarks.peers._words import shingles

BANDS, ROWS = 16, 6
_SEED = 42
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)

Rows = NDArray[np.uint32]


def signed(source: Source) -> Iterator[tuple[list[str], Rows]]:
    """Keys and signatures, some thousand at a time."""
    for keys, texts in records(source):
        matrix = RMinHash.digest_matrix_from_token_sets(
            [shingles(text) for text in texts], NUM_PERM, _SEED
        )
        yield keys, np.array(matrix.to_rows(), dtype=np.uint32)


def bucket_keys(rows: Rows) -> NDArray[np.int64]:
    """One 64-bit key for each document and band; the band goes into it."""
    slots = rows[:, : BANDS * ROWS].reshape(-1, BANDS, ROWS).astype(np.uint64)
    keys = np.broadcast_to(np.arange(BANDS, dtype=np.uint64), slots.shape[:2])
    for slot in range(ROWS):
        keys = (keys ^ slots[:, :, slot]) * _MIX
        keys = keys ^ (keys >> _SHIFT)
    return keys.view(np.int64)


def postings(rows: Rows, first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys of buckets and numbers of documents, sorted."""
    keys = bucket_keys(rows).reshape(-1)
    numbers = np.repeat(np.arange(first, first + len(rows)), BANDS)
    order: Any = np.argsort(keys, kind="stable")
    return keys[order], numbers[order]
