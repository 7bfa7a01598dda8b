"""datasketch: ``MinHash.bulk``, which makes the permutations once for all documents.

Every element goes through ``hashfunc`` by a call from Python, also a ready one, so that function
decides much: SHA-1 is the default, and MurmurHash3, which takes bytes to the 32 bits wanted in one
call, the fastest at hand. The scheme is the default, affine32, the fastest of the three.

An index is filled document by document, which is its only way (a session buffers for databases and
is no faster in memory), without looking whether the key is there; the bands are its own choice.
"""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import mmh3
import numpy as np
from datasketch import MinHash, MinHashLSH
from numpy.typing import NDArray

from benchmarks.peers._contract import (
    NUM_PERM,
    THRESHOLD,
    Adder,
    Signer,
    Sketcher,
    Source,
    numbered,
    offsets,
)
from benchmarks.peers._words import encoded_shingles


def signer(variant: str, threads: int) -> Signer:
    return Signer(
        sign=lambda texts: _bulk(texts, variant),
        rows=lambda parts: np.concatenate([_rows(part) for part in parts]),
        shingles=lambda text: set(encoded_shingles(text)),
    )


def sketcher(variant: str) -> Sketcher:
    def ready(hashes: NDArray[np.uint64], lengths: NDArray[np.int64]) -> list[list[int]]:
        low = hashes & np.uint64(0xFFFFFFFF)
        return [part.tolist() for part in np.split(low, offsets(lengths)[1:-1].astype(np.int64))]

    return Sketcher(
        ready=ready,
        sketch=lambda sets: MinHash.bulk(sets, num_perm=NUM_PERM, hashfunc=operator.index),
        rows=_rows,
    )


def _rows(minhashes: list[Any]) -> NDArray[np.uint32]:
    return np.stack([minhash.hashvalues for minhash in minhashes])


def adder(variant: str, threads: int, folder: Path) -> Adder:
    def add(source: Source) -> int:
        index = MinHashLSH(threshold=THRESHOLD, num_perm=NUM_PERM)

        def insert(numbers: range, texts: list[str]) -> None:
            for number, minhash in zip(numbers, _bulk(texts, variant), strict=True):
                index.insert(number, minhash, check_duplication=False)

        return numbered(insert, source)

    return add


def _bulk(texts: list[str], variant: str) -> list[Any]:
    hashfunc = mmh3.mmh3_32_uintdigest if variant == "mmh3" else None
    minhashes: list[Any] = MinHash.bulk(
        map(encoded_shingles, texts), num_perm=NUM_PERM, hashfunc=hashfunc
    )
    return minhashes
