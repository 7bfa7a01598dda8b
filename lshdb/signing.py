"""Contents -> signature rows on several threads: the kernel needs no interpreter lock."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from lshdb.params import IndexParams
from lshdb.shingling import Content
from lshdb.signatures import sign_contents

__all__ = ["sign_in_threads"]

_CONTENTS_A_TASK = 512


def sign_in_threads(
    contents: Sequence[Content], params: IndexParams, *, workers: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Sign contents, a part at a time, on so many threads.

    Parameters
    ----------
    contents : sequence
        What :func:`lshdb.shingling.canonical_content` returned.
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
    starts = range(0, len(contents), _CONTENTS_A_TASK)
    parts = [contents[start : start + _CONTENTS_A_TASK] for start in starts]
    if workers == 1 or len(parts) < 2:
        return sign(contents)
    with ThreadPoolExecutor(workers) as pool:
        rows, counts = zip(*pool.map(sign, parts), strict=True)
    return np.concatenate(rows), np.concatenate(counts)
