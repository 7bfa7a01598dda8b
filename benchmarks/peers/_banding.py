"""What both baselines begin with: texts to rensa's signatures, and these to keys of buckets."""

from __future__ import annotations

from collections.abc import Iterator

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
    """One 64-bit key for each document and band; the band goes into it. Two slots at a time."""
    slots = np.ascontiguousarray(rows[:, : BANDS * ROWS]).view(np.uint64)
    slots = slots.reshape(-1, BANDS, ROWS // 2)
    keys = (slots[:, :, 0] ^ np.arange(BANDS, dtype=np.uint64)) * _MIX
    for pair in range(1, ROWS // 2):
        keys ^= keys >> _SHIFT
        keys ^= slots[:, :, pair]
        keys *= _MIX
    return (keys ^ keys >> _SHIFT).view(np.int64)


def postings(rows: Rows, first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys of buckets and numbers of documents, document by document."""
    return bucket_keys(rows).reshape(-1), np.repeat(np.arange(first, first + len(rows)), BANDS)
