"""Ctrl-C at each place where it may come, one after the other; a limit for what may wait."""

from __future__ import annotations

import dis
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

__all__ = ["Interrupt", "a_limit", "every_interrupt"]

NAMES: dict[CodeType, dict[int, str]] = {}


@contextmanager
def a_limit(seconds: float) -> Iterator[None]:
    """Let what waits for longer fail; Python's waits can be interrupted."""

    def fail(*_: object) -> None:
        raise AssertionError("it waits for what does not come")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def every_interrupt() -> Iterator[Interrupt]:
    """Each comes one place later, up to one that has not come when its block has ended."""
    place = 0
    while True:
        place += 1
        interrupt = Interrupt(place)
        yield interrupt
        if not interrupt.has_come:
            return


class Interrupt:
    """Ctrl-C at the nth place of its block where the interpreter looks for a signal.

    These are behind calls, at the beginning of functions, and where loops go back; also in the
    standard library. What it raises ends the block, and goes no further.
    """

    def __init__(self, place: int) -> None:
        self.place, self._n_passed = place, 0
        self._before: dict[int, str] = {}

    def __enter__(self) -> Interrupt:
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        sys.settrace(None)
        return kind is KeyboardInterrupt and self.has_come

    @property
    def has_come(self) -> bool:
        return self._n_passed == self.place

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        now = _names(frame.f_code)[frame.f_lasti] if event == "opcode" else ""
        before, self._before[id(frame)] = self._before.get(id(frame), ""), now
        has_returned = before.startswith("CALL") and "INTRINSIC" not in before
        has_returned &= now not in ("", "PUSH_EXC_INFO")  # what was called has raised an error
        if has_returned or event == "call" or now == "JUMP_BACKWARD":
            self._n_passed += frame.f_code is not Interrupt.__exit__.__code__
            if self.has_come:
                raise KeyboardInterrupt
        return self._trace


def _names(code: CodeType) -> dict[int, str]:
    """The name of the instruction at each offset."""
    if code not in NAMES:
        NAMES[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
    return NAMES[code]
