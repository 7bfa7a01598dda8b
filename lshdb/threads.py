"""Work ahead in threads with results in order; a pause for the cyclic garbage collector."""

from __future__ import annotations

import _thread
import contextlib
import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lshdb.arguments import check_whole
from lshdb.cancel import until

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "Task",
    "Workers",
    "choose_workers",
    "collector_paused",
    "give_memory_back",
    "give_memory_back_at_once",
    "in_chunks",
    "work_ahead",
]


_MMAP_THRESHOLD = -3
"""``M_MMAP_THRESHOLD`` of glibc's malloc.h; whoever sets it keeps it from growing."""
_PATIENCE = 0.25
"""Seconds to wait for a result before doing the work where no thread has begun it."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def choose_workers(workers: int | None) -> int:
    """Return the requested number of threads, by default one per core that the process may use.

    Raises
    ------
    ParameterError
        The number is not a whole number of at least 1.
    """
    if workers is not None:
        return check_whole("workers", workers, 1)
    if hasattr(os, "sched_getaffinity"):  # Linux; taskset and containers allow fewer
        return len(os.sched_getaffinity(0))
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


class Workers:
    """Threads that do tasks.

    A context manager: leaving stops work in progress if it checks for that (``cancel.py``), waits
    for it and drops the rest. If the system gives fewer threads (``ulimit -u``, ``ulimit -v``), or
    none, the thread that needs a result does the work.

    Threads are started without waiting for them, unlike those of :mod:`threading`: that would wait
    for ever for one that has no memory to begin with (https://github.com/python/cpython/issues/140746).

    Parameters
    ----------
    n_threads : int
        Besides those that need results; 0 or more.

    Attributes
    ----------
    is_short : bool
        Whether a thread could not be started: some tasks may wait for no thread.
    """

    _n_started = 0

    def __init__(self, n_threads: int) -> None:
        self.is_short = n_threads == 0
        self._n_threads = n_threads
        self._waiting: deque[Task[Any, Any]] = deque()
        self._given: deque[Task[Any, Any]] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()
        """For each task that comes, True; for the end of each thread, False."""
        self._stop = threading.Event()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._waiting.clear()
        self._end_threads()
        while self._given:
            self._given.pop().drop()

    def __del__(self) -> None:
        """End the threads if Ctrl-C came while these were being left."""
        self._end_threads()

    def _end_threads(self) -> None:
        for _ in range(self._n_started):
            self._calls.put(False)

    @property
    def is_idle(self) -> bool:
        """Whether no task waits for a thread."""
        return not self._waiting

    def submit(self, work: Callable[[_Item], _Result], item: _Item) -> Task[_Item, _Result]:
        """Have work done on an item, soon; the task has its result, or its error."""
        task = Task(work, item, self._waiting)
        if self._n_threads:
            while self._given and self._given[0].is_done():
                self._given.popleft()
            self._given.append(task)
            self._waiting.append(task)
            self._calls.put(True)
            self._start()
        return task

    def _start(self) -> None:
        """Start one more thread, if there are not all."""
        if self._n_started == self._n_threads:
            return
        self._n_started += 1
        try:
            _thread.start_new_thread(_serve, (self._calls, self._waiting, self._stop))
        except RuntimeError:  # no thread can be started; running ones may still take the work
            self._n_started -= 1
            self.is_short = True


def _serve(calls: SimpleQueue[bool], waiting: deque[Task[Any, Any]], stop: threading.Event) -> None:
    """Do tasks until the end; a thread without memory ends, and leaves its tasks to others.

    These threads alone are told to stop. A thread that does a task whose result it needs is stopped
    by whatever stops the thread itself.
    """
    with until(stop), contextlib.suppress(MemoryError):
        while calls.get():
            with contextlib.suppress(IndexError):  # who needs its result has taken it
                waiting.popleft().run()


def work_ahead(
    work: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
) -> Generator[_Result]:
    """Yield the results of ``work`` for each item, in the order of the items.

    With more than one worker, up to twice as many items as workers are processed before their
    results are needed. An error, of the work or of ``items``, is raised in place of its result.
    Leaving early, and a system that gives fewer threads, are as for :class:`Workers`.
    """
    if workers == 1:
        yield from map(work, items)
        return
    pending: deque[Task[_Item, _Result]] = deque()
    iterator = iter(items)
    error: Exception | None = None
    with Workers(workers) as threads:
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                break
            except Exception as raised:  # the caller's iterator may raise anything; raised in turn
                error = raised
                break
            pending.append(threads.submit(work, item))
            if len(pending) > 2 * workers:
                yield pending.popleft().result(helps=threads.is_short)
        while pending:
            yield pending.popleft().result(helps=threads.is_short)
        if error is not None:
            raise error


class Task(Generic[_Item, _Result]):
    """Work on one item, done once by the thread that takes it first.

    Ctrl-C may come between any two lines. So what is taken is a lock, for as long as the work is
    done: whoever waits for the end of the work finds it done, or may do it.
    """

    def __init__(
        self,
        work: Callable[[_Item], _Result],
        item: _Item,
        waiting: deque[Task[Any, Any]],
    ) -> None:
        from concurrent.futures import Future

        self._work = work
        self._item = item
        self._waiting = waiting
        self._at_work = threading.Lock()
        self._done: Future[_Result] = Future()

    def run(self) -> None:
        """Do the work, unless another thread is at it or has done it."""
        if self._at_work.locked():
            return
        with self._at_work:
            if self._done.done():
                return
            try:
                result = self._work(self._item)
            except BaseException as error:
                self._done.set_exception(error)
            else:
                self._done.set_result(result)

    def is_done(self) -> bool:
        """Return whether there is a result, or an error."""
        return self._done.done()

    def drop(self) -> None:
        """Have the work not done, or wait for the thread that is at it."""
        with self._at_work:
            self._done.cancel()

    def result(self, *, helps: bool) -> _Result:
        """Return the result; ``helps`` does the work in this thread unless another has taken it.

        While another is at it, this thread does what no thread has begun, the last first: whoever
        wants the results one by one would else always find the next one taken, and wait.

        Without ``helps``, it does the work after a while: the threads may have ended as they began.
        """
        if not helps:
            with contextlib.suppress(TimeoutError):
                self._done.exception(_PATIENCE)
        with contextlib.suppress(ValueError, IndexError):  # it is done, or another takes it
            self._waiting.remove(self)
        self.run()
        while helps and not self._done.done() and self._waiting:
            with contextlib.suppress(IndexError):  # a thread has taken it
                self._waiting.pop().run_for_others()
        return self._done.result()

    def run_for_others(self) -> None:
        """Do the work; raise an interrupt at once, and leave other errors to the result."""
        self.run()
        error = self._done.exception() if self._done.done() else None
        if error is not None and not isinstance(error, Exception):
            raise error


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector for one commit, some seconds, if it was enabled.

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


def give_memory_back() -> None:
    """Return freed memory to the system; glibc keeps what threads have freed for the next of them.

    After an add that was 165 MB of 220, and the search for pairs begins with new memory.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def give_memory_back_at_once() -> None:
    """From now on, return freed arrays to the system at once; for a process of one's own.

    glibc keeps ever larger pieces for the next who needs one of that size, a set for each thread: a
    million texts took 430 MB for pairs in files so, and 330 without, in the same time.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 256 * 1024)
