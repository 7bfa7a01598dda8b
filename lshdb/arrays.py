"""Array functions that several rooms share, and NumPy itself, imported when it is first used.

Importing NumPy takes as long as everything else that a query of the command line does, and a query
that the kernel answers needs no array. So the modules that a query imports take ``np`` from here,
and name their types in annotations only.
"""

from __future__ import annotations

import _thread
import functools
import os
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Integer = TypeVar("_Integer", np.uint64, np.int64)

__all__ = [
    "count_bits",
    "distinct",
    "limit_blas",
    "load_numpy",
    "np",
    "order_of",
    "pairs_within",
    "sorted_texts",
]


if not TYPE_CHECKING:

    class _LazyNumPy:
        def __getattr__(self, name: str) -> Any:
            import numpy

            self.__dict__.update(vars(numpy))  # what comes next is found without this call
            return getattr(numpy, name)

    np = _LazyNumPy()


def load_numpy() -> None:
    """Import NumPy now: an interrupt in the middle of an import leaves half of it behind."""
    _ = np.ndarray


_THREAD_BYTES, _SPARE_BYTES = 256 << 20, 1 << 30
"""Address space: what a thread of OpenBLAS may take with its stack, and what others need."""
_MOST_BLAS_THREADS = 64
_PATIENCE = 0.1


def limit_blas() -> None:
    """Have OpenBLAS begin no threads if the system would not give them, when NumPy is loaded next.

    A thread that it cannot have (``ulimit -u`` and ``-v``, ``pids.max``) makes OpenBLAS send this
    process SIGINT, as if somebody had pressed Ctrl-C, and count on the thread nevertheless. So as
    many threads are begun here, for a moment: some 50 microseconds each.
    """
    if "numpy" in sys.modules:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    n_threads = min(cores or 1, _MOST_BLAS_THREADS)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdecimal() and int(value) > 0:
            n_threads = min(n_threads, int(value))
            break
    if n_threads > 1 and not (_has_room(n_threads) and _can_begin(n_threads - 1)):
        os.environ["OPENBLAS_NUM_THREADS"] = "1"


def _has_room(n_threads: int) -> bool:
    import resource

    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    needed = n_threads * _THREAD_BYTES + _SPARE_BYTES
    return all(limit == resource.RLIM_INFINITY or limit >= needed for limit in limits)


def _can_begin(n_threads: int) -> bool:
    """Return whether so many threads can run at once; they have ended."""
    n_before = _n_tasks()
    gate = _thread.allocate_lock()
    with gate:
        try:
            for _ in range(n_threads):
                _thread.start_new_thread(_pass, (gate,))
        except RuntimeError:
            return False
    until = time.monotonic() + _PATIENCE  # one that is about to end still counts
    while _n_tasks() > n_before and time.monotonic() < until:
        time.sleep(0.0002)
    return True


def _pass(gate: _thread.LockType) -> None:
    with gate:
        pass


def _n_tasks() -> int:
    """Return the number of threads of this process; 0 if the system does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def distinct(values: NDArray[_Integer]) -> NDArray[_Integer]:
    """Return sorted distinct values: ``np.unique`` without its 20 ms import of ``numpy.ma``."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    first = np.empty(len(ordered), dtype=bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def pairs_within(
    sizes: NDArray[np.int64], marks: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of each two members of each group, of groups one after the other.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n,)
    marks : ndarray of bool, shape (sum(sizes),), optional
        Only two of which one is marked.

    Returns
    -------
    first, second : ndarray of int64
        In order, the first below the second. Costs what is returned and the members.
    """
    places = np.arange(sizes.sum())
    ends = np.repeat(np.cumsum(sizes), sizes)
    behind = ends - places - 1
    if marks is not None:
        # Behind a member without a mark, the marked ones follow each other in a list of their own.
        marked = np.flatnonzero(marks)
        before = np.append(0, np.cumsum(marks))
        behind = np.where(marks, behind, before[ends] - before[places])
    first = np.repeat(places, behind)
    steps = np.arange(len(first)) - np.repeat(np.cumsum(behind) - behind, behind)
    second = first + 1 + steps
    if marks is not None:
        listed = ~marks[first]
        second[listed] = marked[before[first[listed]] + steps[listed]]
    return first, second


_SORTED_AT_ONCE = 1 << 20
"""Numbers sorted by one call, which no signal interrupts: a tenth of a second."""
_MOST_PARTS = 64


def order_of(values: NDArray[_Integer], *, at_once: int = _SORTED_AT_ONCE) -> NDArray[np.int64]:
    """Sort like ``np.argsort(values, kind="stable")``, in parts, so that signals are handled.

    Parameters
    ----------
    values : ndarray
    at_once : int
        The approximate size of a part; there are at most 64 parts.
    """
    parts = min(len(values) // at_once + 1, _MOST_PARTS)
    if parts == 1:
        return np.argsort(values, kind="stable")
    # The cuts are random, so that no chosen numbers fall into one part, except equal ones, which
    # are sorted in one pass.
    sample = np.sort(values[np.random.default_rng().integers(len(values), size=64 * parts)])
    cuts = sample[64::64]
    part_of = np.empty(len(values), dtype=np.uint8)
    for at in range(0, len(values), at_once):
        chunk = values[at : at + at_once]
        part_of[at : at + at_once] = np.searchsorted(cuts, chunk, side="right")
    order = np.empty(len(values), dtype=np.int64)
    n_ordered = 0
    for part in range(parts):
        places = np.flatnonzero(part_of == part)
        order[n_ordered : n_ordered + len(places)] = places[
            np.argsort(values[places], kind="stable")
        ]
        n_ordered += len(places)
    return order


def sorted_texts(texts: Iterable[str], *, at_once: int = _SORTED_AT_ONCE // 4) -> list[str]:
    """Sort like ``sorted(texts)``, in parts, so that signals are handled."""
    unsorted = list(texts)
    if len(unsorted) <= at_once:
        return sorted(unsorted)
    import random

    n_parts = len(unsorted) // at_once + 1
    cuts = sorted(random.choices(unsorted, k=64 * n_parts))[64::64]
    parts: list[list[str]] = [[] for _ in range(n_parts)]
    for text in unsorted:
        parts[bisect_right(cuts, text)].append(text)
    sorted_runs: list[str] = []
    for part in parts:
        part.sort()
        sorted_runs += part
    return sorted_runs


@functools.cache
def _counter() -> Callable[[NDArray[Any]], NDArray[np.uint8]]:
    """Return a function that counts the set bits of each number, or of each of its bytes.

    NumPy has a function for it since 2.0.
    """
    bits_of_byte = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)

    def count_by_table(rows: NDArray[Any]) -> NDArray[np.uint8]:
        return bits_of_byte[np.ascontiguousarray(rows).view(np.uint8)]

    return getattr(np, "bitwise_count", count_by_table)


def count_bits(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Count the set bits of each row of unsigned numbers (int64, shape (n,))."""
    counts: NDArray[np.int64] = _counter()(rows).sum(axis=1, dtype=np.int64)
    return counts
