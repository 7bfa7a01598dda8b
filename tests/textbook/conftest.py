"""Signatures by permutations that are given, by the reference and by what an index uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb.kernel.minhash import universal_sketch
from lshdb.signatures import sets

Columns: TypeAlias = Sequence[Sequence[int]]
SignColumns: TypeAlias = Callable[[Columns, Sequence[Sequence[int]]], list[list[int]]]


def _sign_by_reference(rows: NDArray[np.uint64], lengths: NDArray[np.int64]) -> Any:
    return universal_sketch(rows, lengths, np.array([1, 0], dtype=np.uint64))


def _sign(rows: NDArray[np.uint64], lengths: NDArray[np.int64]) -> Any:
    return sets.sketch(rows, lengths, scheme="universal", num_perm=1, seed=0)


@pytest.fixture(params=[_sign_by_reference, _sign], ids=["reference", "chosen"])
def sign_columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SignColumns:
    """Sign the columns of a matrix by permutations, or hash functions, of its rows.

    Scheme ``universal`` takes the least (a x + b) mod p of a set. With a = 1 and b = 0 that is the
    least element itself, so the sets are given as the places to which a permutation moves rows.
    """
    one, nothing = np.array([1], dtype=np.uint64), np.array([0], dtype=np.uint64)
    constants = np.concatenate([one, nothing]).data
    monkeypatch.setattr(sets, "constants", lambda scheme, num_perm, seed: constants)

    def sign(columns: Columns, functions: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the signature matrix: a line for each function, a place for each column."""
        lengths = np.array([len(column) for column in columns], dtype=np.int64)
        rows = np.concatenate([np.array(column) for column in columns])
        moved = [np.array(function)[rows].astype(np.uint64) for function in functions]
        return [request.param(places, lengths)[:, 0].tolist() for places in moved]

    return sign
