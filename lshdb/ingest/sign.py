"""Contents -> signature rows on several threads: the kernel needs no interpreter lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.family import Family
from lshdb.threads import work_ahead

__all__ = ["sign_in_threads"]

_CONTENTS_A_TASK = 512
_LONG = 2**20
"""The calling thread signs longer contents (characters): only it can be interrupted by a signal."""


def sign_in_threads(
    contents: Sequence[Any], family: Family, *, workers: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Sign contents on several threads, a part at a time.

    Parameters
    ----------
    contents : sequence
        Canonical contents.
    family : Family
    workers : int
        At least 1; the result does not depend on it.

    Returns
    -------
    rows : ndarray of uint32, shape (len(contents), row_words)
    counts : ndarray of int64, shape (len(contents),)
        As :meth:`lshdb.signatures.family.Family.sign_contents`.
    """
    rows = np.zeros((len(contents), family.params.row_words), dtype=np.uint32)
    counts = np.zeros(len(contents), dtype=np.int64)

    def sign(part: slice) -> None:
        family.sign_contents(contents[part], into=(rows[part], counts[part]))

    long = [
        number for number, one in enumerate(contents) if isinstance(one, str) and len(one) > _LONG
    ]
    starts = [0, *(number + 1 for number in long)]
    ends = [*long, len(contents)]
    parts = [
        slice(at, min(at + _CONTENTS_A_TASK, end))
        for start, end in zip(starts, ends, strict=True)
        for at in range(start, end, _CONTENTS_A_TASK)
    ]
    for _ in work_ahead(sign, parts, workers=workers):
        pass
    for number in long:
        sign(slice(number, number + 1))
    return rows, counts
