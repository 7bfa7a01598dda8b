"""The reference in place of the compiled kernel, in every module that took it, and its sketches."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.typing import NDArray

import lshdb.kernel
from lshdb.kernel import reference
from lshdb.kernel.lookup_tables import SCHEMES, constants


def use_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do everything by the reference, to the end of the test."""
    chosen = lshdb.kernel.kernel
    for name, module in list(sys.modules.items()):
        if name.startswith("lshdb.") and vars(module).get("kernel") is chosen:
            monkeypatch.setattr(module, "kernel", reference)


def reference_sketch(
    scheme: str, hashes: NDArray[np.uint64], lengths: NDArray[np.int64], num_perm: int, seed: int
) -> NDArray[np.uint32]:
    """Sketch concatenated sets by the reference."""
    rows = np.empty((len(lengths), num_perm), dtype=np.uint32)
    numbers = constants(scheme, num_perm, seed)
    reference.sketch(hashes, lengths, SCHEMES[scheme], num_perm, numbers, rows)
    return rows
