"""Work in threads, ahead of whoever takes the results, which come in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from lshdb.errors import ParameterError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["choose_workers", "in_chunks", "work_ahead"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def choose_workers(workers: int | None) -> int:
    """The number of threads asked for, or one a core.

    Raises
    ------
    ParameterError
        It is below 1.
    """
    if workers is not None and workers < 1:
        raise ParameterError(f"workers is {workers}; expected at least 1")
    return workers or os.cpu_count() or 1


def in_chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Lists of ``size`` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def work_ahead(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
) -> Iterator[_Result]:
    """Results of ``work`` for each item, in their order.

    With more than one worker, up to twice as many items as workers are taken and worked on before
    their results are asked for. An error comes where its result would; leaving early waits for what
    is being worked on and drops the rest.
    """
    if workers == 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    pending: deque[Future[_Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
