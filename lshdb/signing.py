"""Contents -> signature rows on several threads: the kernel needs no interpreter lock."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lshdb.params import IndexParams
from lshdb.shingling import Content
from lshdb.signatures import sign_contents
from lshdb.threads import in_chunks, work_ahead

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
    if workers == 1 or len(contents) <= _CONTENTS_A_TASK:
        return sign(contents)
    parts = in_chunks(contents, _CONTENTS_A_TASK)
    rows, counts = zip(*work_ahead(sign, parts, workers=workers), strict=True)
    return np.concatenate(rows), np.concatenate(counts)
