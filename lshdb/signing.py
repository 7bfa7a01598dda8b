"""Contents -> signature rows on several threads: the kernel needs no interpreter lock."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from lshdb.params import IndexParams
from lshdb.shingling import Content, Shingler
from lshdb.signatures import canonical_contents, sign_contents

__all__ = ["sign_bodies", "sign_in_threads"]

_CONTENTS_A_TASK = 512

Signed = tuple[NDArray[np.uint32], NDArray[np.int64]]


def sign_in_threads(contents: Sequence[Content], params: IndexParams, *, workers: int) -> Signed:
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
    return _in_threads(_signer(params), contents, workers)


def sign_bodies(
    bodies: Sequence[Content], shingler: Shingler, params: IndexParams, *, workers: int
) -> Signed:
    """Make canonical contents of bodies and sign them; otherwise as :func:`sign_in_threads`."""
    sign = _signer(params)

    def work(part: Sequence[Content]) -> Signed:
        return sign(canonical_contents(shingler, part))

    return _in_threads(work, bodies, workers)


def _signer(params: IndexParams) -> Callable[[Sequence[Content]], Signed]:
    return functools.partial(
        sign_contents,
        unit=params.unit,
        k=params.k,
        bag=params.bag,
        scheme=params.scheme,
        num_perm=params.num_perm,
        seed=params.seed,
    )


def _in_threads(
    work: Callable[[Sequence[Content]], Signed], items: Sequence[Content], workers: int
) -> Signed:
    starts = range(0, len(items), _CONTENTS_A_TASK)
    parts = [items[start : start + _CONTENTS_A_TASK] for start in starts]
    if workers == 1 or len(parts) < 2:
        return work(items)
    with ThreadPoolExecutor(workers) as pool:
        rows, counts = zip(*pool.map(work, parts), strict=True)
    return np.concatenate(rows), np.concatenate(counts)
