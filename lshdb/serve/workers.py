"""Questions to an index -> answers, in a bounded number of threads and a bounded time.

A question that takes too long is answered with an error at once. Its thread is told so, and ends at
the next step of its work that looks (``cancel.py``); until then its place stays taken, so a server
never runs more questions than it was given threads for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from lshdb.cancel import stop_if_told, until

__all__ = ["BusyError", "TooSlowError", "Workers"]

_Answer = TypeVar("_Answer")


class BusyError(Exception):
    """As many questions wait as may."""


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


class Workers:
    """Threads that answer questions.

    Parameters
    ----------
    threads : int
        Questions that are worked on at once.
    waiting : int
        Questions that may wait for a thread.
    seconds : float
        The longest that a question may take, waiting included.
    """

    def __init__(self, *, threads: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lshdb-serve")
        self._most, self._seconds = threads + waiting, seconds
        self._lock, self._taken = threading.Lock(), 0

    async def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """Call a function in a thread.

        Raises
        ------
        BusyError, TooSlowError
        Exception
            Whatever the function raises.
        """
        told = threading.Event()
        with self._lock:
            if self._taken >= self._most:
                raise BusyError
            self._taken += 1
        try:
            work = self._pool.submit(_until, told, question)
        except BaseException:
            self._give_back(None)
            raise
        work.add_done_callback(self._give_back)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work), self._seconds)
        except TimeoutError:
            if work.done() and not work.cancelled():
                raise  # the question's own
            raise TooSlowError(self._seconds) from None
        finally:
            told.set()

    def close(self) -> None:
        """End the threads once they have answered; questions that wait are dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _give_back(self, _work: Future[_Answer] | None) -> None:
        with self._lock:
            self._taken -= 1


def _until(told: threading.Event, question: Callable[[], _Answer]) -> _Answer:
    with until(told):
        stop_if_told()
        return question()
