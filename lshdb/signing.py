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


def sign_in_threads(
    contents: Sequence[Any], family: Family, *, workers: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Sign contents, a part at a time, on so many threads.

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

    def work(start: int) -> None:
        part = slice(start, start + _CONTENTS_A_TASK)
        family.sign_contents(contents[part], into=(rows[part], counts[part]))

    for _ in work_ahead(work, range(0, len(contents), _CONTENTS_A_TASK), workers=workers):
        pass
    return rows, counts
