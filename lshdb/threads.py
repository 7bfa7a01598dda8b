"""Work ahead in threads with results in order; a pause for the cyclic garbage collector."""

from __future__ import annotations

import _thread
import contextlib
import gc
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, cast

from lshdb.arguments import check_whole
from lshdb.cancel import Stop, stop_if_told, until
from lshdb.files.process import Process

__all__ = [
    "Lent",
    "Task",
    "Workers",
    "begin_thread",
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

    Ctrl-C may come between any two steps of Python in the main thread, also within conditions and
    events of :mod:`threading`, which then keep a lock for ever. So nothing here waits for one:
    there are locks taken by ``with``, queues, and attributes, each of which is one step.

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
        self._calls: SimpleQueue[object] = SimpleQueue()
        """For each task that comes, True; anything else is the end, which threads hand on."""
        self._stop = Stop()
        # Puts itself there if Ctrl-C came while these were being left: no step of Python is needed.
        self._end: weakref.ref[Workers] = weakref.ref(self, self._calls.put)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.is_told = True
        self._calls.put(False)
        self._waiting.clear()
        while self._given:
            self._given.pop().drop()

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
            _thread.start_new_thread(_serve, (self._calls, self._waiting, self._stop, self._end))
        except RuntimeError:  # no thread can be started; running ones may still take the work
            self._n_started -= 1
            self.is_short = True


def _serve(
    calls: SimpleQueue[object],
    waiting: deque[Task[Any, Any]],
    stop: Stop,
    workers: weakref.ref[Workers],
) -> None:
    """Do tasks until the end; a thread without memory ends, and leaves its tasks to others.

    These threads alone are told to stop. A thread that does a task whose result it needs is stopped
    by whatever stops the thread itself.
    """
    with until(stop), contextlib.suppress(MemoryError):
        while calls.get() is True and workers() is not None:
            with contextlib.suppress(IndexError):  # who needs its result has taken it
                waiting.popleft().run()
        calls.put(False)


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


def begin_thread(work: Callable[[], object]) -> threading.Event:
    """Have a thread do something, without waiting for it to begin; see :class:`Workers`.

    Returns
    -------
    Event
        Set when it has ended; never if there was no memory to begin with.

    Raises
    ------
    RuntimeError
        The system gives no thread.
    """
    ended = threading.Event()

    def run() -> None:
        try:
            with contextlib.suppress(MemoryError):
                work()
        finally:
            ended.set()

    _thread.start_new_thread(run, ())
    return ended


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
        self._work = work
        self._item = item
        self._waiting = waiting
        self._at_work = threading.Lock()
        self._worker: int | None = None
        self._is_done = threading.Lock()  # until then it is locked
        self._is_done.acquire()
        self._outcome: tuple[_Result | None, BaseException | None] | None = None
        self._process = Process()

    def run(self) -> None:
        """Do the work, unless another thread is at it or has done it."""
        if not self._at_work.locked():
            self._end()

    def _end(self) -> None:
        """Do the work unless it is done; wait for the thread that is at it."""
        with self._at_work:
            if self._outcome is not None:
                return
            self._worker = threading.get_ident()
            try:
                self._outcome = self._work(self._item), None
            except BaseException as error:
                self._outcome = None, error
            self._is_done.release()

    def is_done(self) -> bool:
        """Return whether there is a result, or an error."""
        return self._outcome is not None

    def drop(self) -> None:
        """Have the work not done, or wait for the thread that is at it.

        That may be this one: the garbage collector, which comes at any time, has found the iterator
        that nobody has any more whose work this is. A fork has no such thread.
        """
        if self._worker == threading.get_ident() or not self._process.is_this:
            return
        with self._at_work:
            self._outcome = self._outcome or (None, None)

    def result(self, *, helps: bool) -> _Result:
        """Return the result; ``helps`` does the work in this thread unless another has taken it.

        While another is at it, this thread does what no thread has begun, the last first: whoever
        wants the results one by one would else always find the next one taken, and wait.

        Without ``helps``, it does the work after a while: the threads may have ended as they began.
        """
        if self._outcome is None and not self._process.is_this:
            return self._work(self._item)  # the thread that was at it is the parent's
        if not helps:
            self._is_done.acquire(timeout=_PATIENCE)
        with contextlib.suppress(ValueError, IndexError):  # it is done, or another takes it
            self._waiting.remove(self)
        self.run()
        while helps and self._outcome is None and self._waiting:
            with contextlib.suppress(IndexError):  # a thread has taken it
                self._waiting.pop().run_for_others()
        self._end()
        result, error = self._outcome or (None, None)
        if error is not None:
            raise error
        return cast(_Result, result)

    def run_for_others(self) -> None:
        """Do the work; raise an interrupt at once, and leave other errors to the result."""
        self.run()
        error = self._outcome[1] if self._outcome is not None else None
        if error is not None and not isinstance(error, Exception):
            raise error


class Lent(Generic[_Item]):
    """Things of which each is used by one thread at a time.

    Ctrl-C may come when one was just taken, and nobody gives it back. So a thread that waits for
    one looks whether it is told to stop, as it is when the thread that was interrupted leaves.
    """

    def __init__(self, things: Iterable[_Item]) -> None:
        self._idle: SimpleQueue[_Item] = SimpleQueue()
        for thing in things:
            self._idle.put(thing)

    @contextlib.contextmanager
    def one(self) -> Iterator[_Item]:
        """Have one for the block.

        Raises
        ------
        Stopped
        """
        while True:
            try:
                thing = self._idle.get(timeout=_PATIENCE)
                break
            except Empty:
                stop_if_told()
        try:
            yield thing
        finally:
            self._idle.put(thing)


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

    glibc keeps ever larger pieces, up to 32 MiB, for the next who needs one of that size, a set for
    each thread. So a million texts took 430 MB for pairs in files, and 330 without, in the same
    time; a server that was asked for a hundred texts of 8 MiB kept 700. Not for an add, which would
    take 5 % more time.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 256 * 1024)
