"""All signature rows against a query: equal slots of each, the best of them, and how many to take.

A slot of two points at a level is equal with probability p, and slots are independent, so the
number of equal slots of K is binomial. A point at that level or above has at least t of them with a
probability of at least R, if P(Bin(K, p) >= t) >= R: :func:`least_equal` gives the largest such t.
Whoever takes all rows with t equal slots or more has each such point with probability R.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from lshdb.kernel import kernel

__all__ = ["count_in_rows", "least_equal", "probability_of", "rank_counts"]

Counts = NDArray[np.uint16]


def count_in_rows(
    queries: NDArray[np.uint16],
    rows: NDArray[np.uint16],
    *,
    slot_bits: int,
    counts: Counts,
    first: int = 0,
) -> None:
    """Count the equal slots of each query with each of some rows.

    Parameters
    ----------
    queries : ndarray of uint16, shape (n_queries, row_words)
        In C order.
    rows : ndarray of uint16, shape (n, row_words)
        In C order; read once for all queries.
    slot_bits : {16, 1}
        Of 65,535 slots at most.
    counts : ndarray of uint16, shape (n_queries, any)
        In C order; columns ``first`` to ``first + n`` are filled.
    first : int

    Raises
    ------
    ValueError
        The rows are outside the counts, or too long.

    Notes
    -----
    O(n n_queries row_words), without the interpreter's lock; several threads may fill columns of
    their own. A row of 1,024 bits takes 5 to 8 ns in the kernel with AVX2, and one of 128 words
    some 9 ns.
    """
    words, width = queries.shape[1], counts.shape[1]
    kernel.count_in_rows(queries, rows, words, slot_bits, width, first, counts)


def rank_counts(counts: Counts, least: int, most: int) -> tuple[NDArray[np.int64], int]:
    """Return the places of the highest counts, the highest first, equal ones in order of place.

    Parameters
    ----------
    counts : ndarray of uint16, shape (n,)
        In C order.
    least : int
        Lower ones do not count.
    most : int
        Most places to return.

    Returns
    -------
    places : ndarray of int64
    found : int
        How many counts are at least ``least``. O(n): 2 ns each.
    """
    best = np.empty(min(most, len(counts)), dtype=np.int64)
    n_ranked: int = kernel.rank_counts(counts, least, best)
    return best[:n_ranked], n_ranked


def least_equal(equal: float, n_slots: int, recall: float) -> int:
    """Return the largest number of equal slots that is reached with a probability.

    Parameters
    ----------
    equal : float
        Probability that a slot is equal.
    n_slots : int
        K.
    recall : float
        Of reaching it.

    Returns
    -------
    int
        0 if no larger number is reached so surely. O(K).
    """
    return int(np.flatnonzero(_tails(equal, n_slots) >= recall).max(initial=0))


def probability_of(least: int, equal: float, n_slots: int) -> float:
    """Return the probability that at least so many slots are equal; see :func:`least_equal`."""
    return float(_tails(equal, n_slots)[least]) if least <= n_slots else 0.0


def _tails(equal: float, n_slots: int) -> NDArray[np.float64]:
    """Return the probability of at least 0, 1, ... K equal slots (float64, shape (K + 1,)).

    The terms are positive and summed from the small end, so the error is that of the logarithms:
    some 1e-12 of the value.
    """
    if not 0.0 < equal < 1.0:
        return np.where(np.arange(n_slots + 1) <= (n_slots if equal >= 1.0 else 0), 1.0, 0.0)
    numbers = np.arange(n_slots + 1)
    logs = _log_choices(n_slots) + numbers * math.log(equal)
    logs += (n_slots - numbers) * math.log1p(-equal)
    tails: NDArray[np.float64] = np.minimum(np.cumsum(np.exp(logs)[::-1])[::-1], 1.0)
    tails[0] = 1.0
    return tails


@functools.lru_cache(maxsize=8)
def _log_choices(n: int) -> NDArray[np.float64]:
    """Return the logarithms of the binomial coefficients of n (float64, shape (n + 1,))."""
    factorials = np.array([math.lgamma(number + 1.0) for number in range(n + 1)])
    choices: NDArray[np.float64] = factorials[n] - factorials - factorials[::-1]
    choices.flags.writeable = False
    return choices
