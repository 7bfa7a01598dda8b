"""rensa: strings or ready hashes to a digest matrix, which stays in Rust.

The matrix calls are its fastest: they make one object for all documents where ``from_token_sets``
makes one a document, and ``digests_from_token_sets`` a list of Python integers. Strings go in as
they are; bytes would be read a little faster and cost more than that to make. The matrix counts as
the signatures: copying it out (``to_rows``) is not timed.

An index is filled by ``RMinHashLSH.insert_matrix``, which takes the matrix as it is; eight bands
are what the package's own benchmark takes for 128 slots and 0.8.

The rho sketch looks at a sample of token positions only. It is fast for that reason, and its rows
are made for finding candidates, not for estimating similarity.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash, RMinHashLSH

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
from benchmarks.peers._words import shingles

_SEED = 42
_BANDS = 8


def signer(variant: str, threads: int) -> Signer:
    bulk = _bulk(variant)
    return Signer(
        sign=lambda texts: bulk([shingles(text) for text in texts], NUM_PERM, _SEED),
        rows=lambda matrices: np.concatenate([_rows(matrix) for matrix in matrices]),
        shingles=lambda text: set(shingles(text)),
    )


def sketcher(variant: str) -> Sketcher:
    bulk = (
        RMinHash.digest_matrix_from_flat_token_hashes_rho
        if variant == "rho"
        else RMinHash.digest_matrix_from_flat_token_hashes
    )
    return Sketcher(
        ready=lambda hashes, lengths: (hashes, offsets(lengths)),
        sketch=lambda ready: bulk(*ready, NUM_PERM, _SEED),
        rows=_rows,
    )


def _rows(matrix: Any) -> NDArray[np.uint32]:
    return np.array(matrix.to_rows(), dtype=np.uint32)


def adder(variant: str, threads: int, folder: Path) -> Adder:
    bulk = _bulk(variant)

    def add(source: Source) -> int:
        index = RMinHashLSH(THRESHOLD, NUM_PERM, _BANDS)

        def insert(numbers: range, texts: list[str]) -> None:
            matrix = bulk([shingles(text) for text in texts], NUM_PERM, _SEED)
            index.insert_matrix(matrix, numbers.start)

        return numbered(insert, source)

    return add


def _bulk(variant: str) -> Callable[[list[list[str]], int, int], Any]:
    bulk: Callable[[list[list[str]], int, int], Any] = (
        RMinHash.digest_matrix_from_token_sets_rho
        if variant == "rho"
        else RMinHash.digest_matrix_from_token_sets
    )
    return bulk
