"""Work ahead in threads with results in order, and pause the garbage collector for a batch."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from lshdb.arguments import check_whole
from lshdb.cancel import until

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["choose_workers", "collector_paused", "in_chunks", "work_ahead"]


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def choose_workers(workers: int | None) -> int:
    """Return the requested number of threads, by default one per core.

    Raises
    ------
    ParameterError
        The number is not a whole number of at least 1.
    """
    if workers is not None:
        return check_whole("workers", workers, 1)
    return os.cpu_count() or 1


def in_chunks(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield lists of ``size`` items; the last, or one before an error of ``items``, is shorter."""
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
    """Yield the results of ``work`` for each item, in the order of the items.

    With more than one worker, up to twice as many items as workers are processed before their
    results are needed. An error, of the work or of ``items``, is raised in place of its result.
    Leaving early stops work in progress if it checks for that (``cancel.py``), waits for it and
    drops the rest. If the system gives fewer threads (``ulimit -u``, ``ulimit -v``), or none, the
    caller's thread does the remaining work.
    """
    if workers == 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    pending: deque[_Task[_Item, _Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    stop = threading.Event()
    is_short = False
    iterator = iter(items)
    error: Exception | None = None
    try:
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                break
            except Exception as raised:  # the caller's iterator may raise anything; raised in turn
                error = raised
                break
            task = _Task(work, item, stop)
            try:
                pool.submit(task.run)
            except RuntimeError:  # no thread can be started; running ones may still take the work
                is_short = True
            pending.append(task)
            if len(pending) > 2 * workers:
                yield pending.popleft().result(is_short=is_short)
        while pending:
            yield pending.popleft().result(is_short=is_short)
        if error is not None:
            raise error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


class _Task(Generic[_Item, _Result]):
    """Work on one item, done once by the thread that takes it first."""

    def __init__(
        self, work: Callable[[_Item], _Result], item: _Item, stop: threading.Event
    ) -> None:
        from concurrent.futures import Future

        self._work = work
        self._item = item
        self._stop = stop
        self._untaken = threading.Lock()
        self._done: Future[_Result] = Future()

    def run(self) -> None:
        """Do the work, unless another thread has taken it."""
        if not self._untaken.acquire(blocking=False):
            return
        try:
            with until(self._stop):
                self._done.set_result(self._work(self._item))
        except BaseException as error:
            self._done.set_exception(error)

    def result(self, *, is_short: bool) -> _Result:
        """Return the result; do the work in this thread if no other thread may do it."""
        if is_short:
            self.run()
        return self._done.result()


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector for one batch, about a second, if it was enabled.

    The number of new objects triggers the collector, which then visits all objects. A batch makes
    some 100,000 objects without a cycle; the visits took a tenth of an add of short texts.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
