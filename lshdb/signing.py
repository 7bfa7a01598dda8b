"""Contents -> signature rows on several threads: the kernel needs no interpreter lock."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lshdb.params import IndexParams
from lshdb.shingling import Content
from lshdb.signatures import sign_contents
from lshdb.threads import work_ahead

__all__ = ["sign_in_threads"]

_CONTENTS_A_TASK = 512


def sign_in_threads(
    contents: Sequence[Content], params: IndexParams, *, workers: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Sign contents, a part at a time, on so many threads.

    Parameters
    ----------
    contents : sequence
        Canonical contents.
    params : IndexParams
    workers : int
        At least 1; the result does not depend on it.

    Returns
    -------
    rows : ndarray of uint32, shape (len(contents), num_perm)
    counts : ndarray of int64, shape (len(contents),)
        As :func:`lshdb.signatures.sign_contents`.
    """
    sign = functools.partial(
        sign_contents,
        unit=params.unit,
        k=params.k,
        bag=params.bag,
        scheme=params.scheme,
        num_perm=params.num_perm,
        seed=params.seed,
    )
    rows = np.zeros((len(contents), params.num_perm), dtype=np.uint32)
    counts = np.zeros(len(contents), dtype=np.int64)

    def work(start: int) -> None:
        part = slice(start, start + _CONTENTS_A_TASK)
        sign(contents[part], into=(rows[part], counts[part]))

    for _ in work_ahead(work, range(0, len(contents), _CONTENTS_A_TASK), workers=workers):
        pass
    return rows, counts
