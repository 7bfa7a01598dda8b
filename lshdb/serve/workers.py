"""Questions to an index -> answers, in a bounded number of threads and a bounded time.

A question that takes too long is answered with an error at once, and one that nobody waits for any
more is cancelled. If it waits for a thread, it is dropped with all that it holds. If a thread works
on it, the thread is told so, and ends at the next step of its work that looks (``cancel.py``).
Until then its place stays taken, so a server never runs more questions than it has threads for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from lshdb.cancel import Stop, stop_if_told, until

__all__ = ["BusyError", "QuestionThreads", "TooSlowError"]

_Answer = TypeVar("_Answer")


class BusyError(Exception):
    """The queue of questions is full."""


class TooSlowError(Exception):
    """A question took longer than it may.

    Attributes
    ----------
    seconds : float
        The limit.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class QuestionThreads:
    """Threads that answer questions.

    They begin at once. If the system gives fewer (``ulimit -u``, ``pids.max``), there are fewer; if
    it gives none, a question is answered where it is asked, while others wait.

    Parameters
    ----------
    threads : int
        Questions that are worked on at once.
    waiting : int
        Questions that may wait for a thread.
    seconds : float
        The longest that a question may take, waiting included.
    before : callable
        Called in the thread before each question; its error is the answer.
    """

    def __init__(
        self, *, threads: int, waiting: int, seconds: float, before: Callable[[], object]
    ) -> None:
        self._pool = _begun(threads)
        self._most, self._seconds, self._before = threads + waiting, seconds, before
        self._lock, self._taken = threading.Lock(), 0

    async def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """Call a function in a thread.

        Raises
        ------
        BusyError, TooSlowError
        Exception
            Any error of the function.
        """
        work = _Work(self._before, question)
        with self._lock:
            if self._taken >= self._most:
                raise BusyError
            self._taken += 1
        try:
            if self._pool is None:
                answer: Future[_Answer] = Future()
                answer.set_result(work())
            else:
                answer = self._pool.submit(work)
        except BaseException:
            self._give_back(None)
            raise
        answer.add_done_callback(self._give_back)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), self._seconds)
        except TimeoutError:
            if answer.done() and not answer.cancelled():
                raise  # the question's own
            raise TooSlowError(self._seconds) from None
        finally:
            work.cancel()

    def close(self) -> None:
        """End the threads once they have answered; questions that wait are dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _give_back(self, _answer: Future[_Answer] | None) -> None:
        with self._lock:
            self._taken -= 1


def _begun(most: int) -> ThreadPoolExecutor | None:
    """Return a pool of as many threads as the system gives, all begun; None if it gives none."""
    for n_threads in range(most, 0, -1):
        pool = ThreadPoolExecutor(n_threads, thread_name_prefix="lshdb-serve")
        gate = threading.Lock()

        def come(gate: threading.Lock = gate) -> None:
            with gate:
                pass

        try:
            with gate:
                for _ in range(n_threads):
                    pool.submit(come)
        except RuntimeError:
            pool.shutdown(wait=False, cancel_futures=True)
        else:
            return pool
    return None


class _Work(Generic[_Answer]):
    """A question that can be cancelled.

    The pool keeps cancelled work in its queue until a thread comes to it. So it lets go of the
    question, which may hold a long text.
    """

    def __init__(self, before: Callable[[], object], question: Callable[[], _Answer]) -> None:
        self._before = before
        self._question: Callable[[], _Answer] | None = question
        self._told = Stop()

    def cancel(self) -> None:
        """Drop the question, and tell its thread to stop."""
        self._told.is_told = True
        self._question = None

    def __call__(self) -> _Answer:
        with until(self._told):
            stop_if_told()
            question, self._question = self._question, None
            if question is None:  # cancelled between the two
                stop_if_told()
                raise AssertionError("work is done once")
            self._before()
            return question()
