"""Work in threads, ahead of whoever takes the results, which come in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from lshdb.values import check_whole

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
        It is no whole number from 1 on.
    """
    if workers is not None:
        return check_whole("workers", workers, 1)
    return os.cpu_count() or 1


def in_chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Lists of ``size`` items; the last one, and one before an error of ``items``, is shorter."""
    chunk: list[_Item] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except Exception:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def work_ahead(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
) -> Iterator[_Result]:
    """Results of ``work`` for each item, in their order.

    With more than one worker, up to twice as many items as workers are taken and worked on before
    their results are asked for. An error, of the work or of ``items``, comes where its result
    would; leaving early waits for what is being worked on and drops the rest.
    """
    if workers == 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    pending: deque[Future[_Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    iterator = iter(items)
    error: Exception | None = None
    try:
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                break
            except Exception as raised:  # whatever the caller's iterator may raise, in its turn
                error = raised
                break
            pending.append(pool.submit(work, item))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        if error is not None:
            raise error
    finally:
        pool.shutdown(cancel_futures=True)
