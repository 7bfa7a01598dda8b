"""Long work tells how far it is, phase by phase, to the function that its caller gave.

A public method gives the function to the thread (:func:`telling`), or to an iteration
(:func:`heard`). Any loop below it counts what it does (:class:`Phase`, :func:`counting`), and needs
not know whether anybody listens. Of phases within each other the outermost one speaks; the inner
ones only call again with its numbers, so that a function that raises can end the work soon.

The function is called at the beginning and at the end of a phase, and between them at most twenty
times a second. Work that is done in other threads does not tell it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

__all__ = [
    "CALLERS_MARK",
    "OnProgress",
    "Phase",
    "Total",
    "counting",
    "heard",
    "is_callers",
    "telling",
]

OnProgress: TypeAlias = Callable[[int, int | None, str], object]
"""Takes what is done, the total (None if unknown) and the unit, such as ``"documents"``."""

CALLERS_MARK = "_lshdb_is_callers"
"""The attribute of an error that comes out of the caller's own code."""

Total: TypeAlias = int | Callable[[], int] | None

_SECONDS = 0.05
"""Between two calls in a phase."""

_Item = TypeVar("_Item")
_thread = threading.local()


def is_callers(error: BaseException) -> bool:
    """Whether an error comes out of the caller's own code."""
    return bool(getattr(error, CALLERS_MARK, False))


class _Listener:
    """The caller's function, and the phase that speaks to it."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._called = 0.0
        self.phase: Phase | None = None

    def tell(self, n_done: int, total: int | None, unit: str, *, is_due: bool = False) -> None:
        """Call the function, unless it was called just now."""
        now = time.monotonic()
        if not is_due and now - self._called < _SECONDS:
            return
        self._called = now
        _thread.listener = None  # what the function does itself is not this work
        try:
            self._on_progress(n_done, total, unit)
        except Exception as error:
            setattr(error, CALLERS_MARK, True)
            raise
        finally:
            _thread.listener = self

    def end(self) -> None:
        """Let a bar know that nothing more comes."""
        end = getattr(self._on_progress, "end_of_call", None)
        if end is not None:
            end()


@contextmanager
def telling(on_progress: OnProgress | None) -> Iterator[None]:
    """Have the work of this thread in the block tell a function how far it is."""
    if on_progress is None:
        yield
        return
    before, listener = getattr(_thread, "listener", None), _Listener(on_progress)
    _thread.listener = listener
    try:
        yield
    finally:
        _thread.listener = before
        listener.end()


def heard(items: Iterator[_Item], on_progress: OnProgress | None) -> Iterator[_Item]:
    """Yield the same items; the work for each of them tells a function how far it is."""
    return items if on_progress is None else _heard(items, on_progress)


def _heard(items: Iterator[_Item], on_progress: OnProgress) -> Generator[_Item]:
    listener = _Listener(on_progress)
    try:
        while True:
            before = getattr(_thread, "listener", None)
            _thread.listener = listener
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                _thread.listener = before
            yield item
    finally:
        listener.end()


class Phase:
    """One phase of long work; a context manager.

    Parameters
    ----------
    unit : str
        What is counting, in the plural.
    total : int or callable, optional
        How many there are. A function that counts them is called only if somebody listens.
    steps : int, optional
        What the work takes where one of them takes long: ``n_done`` counts these, and the share
        of them that is done is told as so many units.
    is_sum : bool
        Whether phases within it that have the same unit count for it.

    Attributes
    ----------
    n_done : int
    """

    def __init__(
        self, unit: str, total: Total = None, *, steps: int | None = None, is_sum: bool = False
    ) -> None:
        self._unit, self._count, self.n_done = unit, total, 0
        self._steps, self._is_sum = steps, is_sum
        self._total: int | None = None
        self._listener: _Listener | None = None

    def __enter__(self) -> Self:
        self._listener = getattr(_thread, "listener", None)
        if self._listener is not None and self._listener.phase is None:
            self._listener.phase = self
            self._total = self._count() if callable(self._count) else self._count
            if self._total != 0:
                self._listener.tell(0, self._total, self._unit, is_due=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        listener = self._listener
        if listener is None or listener.phase is not self:
            return
        listener.phase = None
        total = self.n_done if self._total is None else self._total
        if kind is None and self._total != 0:
            listener.tell(total, total, self._unit, is_due=True)

    def reached(self, n_done: int) -> None:
        """Say how much is done in all."""
        before, self.n_done = self.n_done, n_done
        listener = self._listener
        if listener is not None and listener.phase is not None:
            speaking = listener.phase
            if speaking._is_sum and speaking is not self and speaking._unit == self._unit:
                speaking.n_done += n_done - before
            n_done, most = speaking.n_done, speaking._total
            if most is not None:
                steps = speaking._steps or most
                n_done = min(n_done, steps) * most // steps if steps else 0
            listener.tell(n_done, most, speaking._unit)

    def add(self, count: int) -> None:
        """Say that so much more is done."""
        self.reached(self.n_done + count)


def counting(
    items: Iterable[_Item],
    unit: str,
    total: Total = None,
    size: Callable[[_Item], int] = lambda _: 1,
) -> Generator[_Item]:
    """Yield the same items; each counts as done when the next one is asked for.

    Parameters
    ----------
    items : iterable
    unit, total
        As for :class:`Phase`.
    size : callable
        How much an item counts.
    """
    if getattr(_thread, "listener", None) is None:  # then it costs nothing
        yield from items
        return
    with Phase(unit, total) as phase:
        for item in items:
            count = size(item)
            yield item
            phase.add(count)
