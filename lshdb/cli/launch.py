"""The entry point: it handles Ctrl-C and SIGTERM before, during and after a command.

Imports nothing heavy, so that it is ready within milliseconds. During the imports nothing has been
done yet, and a signal ends the process at once. Afterwards signals are exceptions, which
``lshdb.cli`` reports. When the command has ended they are ignored: its exit code stands.

In the middle of an import an exception may come out as another one, or leave half a module behind
that breaks the next import of it. SQLAlchemy's pool, while it opens and closes connections, takes
an exception for its own and logs it with a traceback. A writer's connection to SQLite, closed half,
takes files away that readers need. All are short, so the signal waits until they are done. Code
called when an object is freed cannot raise: an exception there is raised again later. SQLite's
callbacks drop what they raise; the code that called SQLite raises it again (``cancel.dropped``).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import signal
import sys

from lshdb.cancel import Terminated, clean_up, note_interruption

TYPE_CHECKING = False  # importing typing takes longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from sys import UnraisableHookArgs
    from types import FrameType
    from typing import NoReturn

__all__ = ["SIGNALS", "main", "postponed"]

_AGAIN_SECONDS = 0.02
_COLLECTED = 20_000
"""New objects between two visits of the garbage collector.

With the usual 700, those that imports have made were visited again and again: a tenth of the start
of ``lshdb pairs``. While a command is imported, nothing is visited at all.
"""
SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}

_postponed = 0
_code: int | None = None
"""The exit code, once the command has ended."""


def main() -> NoReturn:
    """Run the command line and exit; the entry point ``lshdb``."""
    global _code
    n_called_at_end: Callable[[], int] | None = getattr(atexit, "_ncallbacks", None)
    if n_called_at_end is None or n_called_at_end() == 0:
        atexit.register(_end)
    gc.set_threshold(_COLLECTED)
    gc.disable()  # until the command is imported
    # Commands have threads of their own, one a core. OpenBLAS would start as many when NumPy is
    # loaded, and where the system gives it none, send this process the signal of Ctrl-C.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    # A process started with a signal ignored, as nohup does, keeps it ignored.
    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        with _leaving(heeded):
            from lshdb.cli._group import run
        sys.unraisablehook = _not_raised
        code = run(importing=functools.partial(_importing, heeded))
    except KeyboardInterrupt as error:  # in the moment between two handlers, or within one
        code = _say(signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)
    if code > 128:
        with contextlib.suppress(KeyboardInterrupt):  # a second request means at once
            clean_up()
    for number in (*heeded, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    if code > 128:
        # Everything has been said and flushed. A usual end would let the interpreter kill itself
        # by SIGINT if the exception was raised inside of exec(), although it was caught.
        os._exit(code)
    _code = code
    sys.exit(code)


def _end() -> None:
    """End the process without tearing modules down, which takes a tenth of a short command.

    Threads have ended by then, and all other functions have been called: this one is registered
    first, and so it comes last.
    """
    if _code is None:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return  # the interpreter tries again, and says what is wrong
    os._exit(_code)


@contextlib.contextmanager
def _leaving(heeded: list[signal.Signals]) -> Iterator[None]:
    """Let a signal end the process at once while modules are imported and no work has begun."""
    for number in heeded:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, _raise)


@contextlib.contextmanager
def _importing(heeded: list[signal.Signals]) -> Iterator[None]:
    """Import a command under :func:`_leaving`; the garbage collector never visits its objects."""
    with _leaving(heeded):
        yield
    gc.freeze()
    gc.enable()


def _leave(number: int, _frame: FrameType | None) -> None:
    os._exit(_say(number))


def postponed() -> int:
    """Return the signal that SIGALRM stands for, or 0."""
    return _postponed


def _raise(number: int, frame: FrameType | None) -> None:
    if _is_delicate(frame):
        _raise_later(number)
        return
    raised = KeyboardInterrupt()
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)  # a second request means at once
        raised = Terminated()
    note_interruption(raised)
    raise raised


def _raise_later(number: int) -> None:
    global _postponed
    _postponed = number
    signal.signal(signal.SIGALRM, lambda _, frame: _raise(number, frame))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)


def _not_raised(unraisable: UnraisableHookArgs) -> None:
    error = unraisable.exc_value
    if isinstance(error, KeyboardInterrupt):
        _raise_later(signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)
    else:
        sys.__unraisablehook__(unraisable)


def _is_delicate(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if (
            code.co_filename.startswith("<frozen importlib")
            or code.co_filename.endswith("/sqlalchemy/pool/base.py")
            or code.co_qualname == "WriterConnection.close"
        ):
            return True
        frame = frame.f_back
    return False


def _say(number: int) -> int:
    """Say that a signal ended the process; return the exit code."""
    with contextlib.suppress(OSError):
        # By the descriptor: the stream may be in the middle of a write.
        os.write(2, f"{SIGNALS[signal.Signals(number)]}\n".encode())
    return 128 + number
