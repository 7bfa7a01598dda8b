"""Errors -> a message, a hint and an exit code. Only a bug ends with a traceback.

    0    done
    1    the library refused, or the system did (disk, permissions, memory)
    2    usage: options, arguments, parameters
    3    another writer holds the index
    4    the index is damaged, or ``check`` found something
    5    done, but some input was rejected
    6    done, and ``recall`` found that the promise of the index is not kept
    130  interrupted by Ctrl-C
    141  the reader of the output closed it (as ``lshdb pairs X | head`` does); no message
    143  asked to end by SIGTERM

Messages go to standard error, each followed by its hint on a line of its own. The library's
warnings go there too, as notes; that there is no kernel, once a day.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import click

from lshdb import DamageError, KernelWarning, LockedError, LshdbError, LshdbWarning, ParameterError
from lshdb.cancel import Terminated
from lshdb.cli._output import complain, discard_output, flush_output, note
from lshdb.errors import limit_of_memory, system_hint

__all__ = [
    "BROKEN_PROMISE",
    "DAMAGED",
    "INTERRUPTED",
    "REJECTED",
    "TERMINATED",
    "errors_as_messages",
    "interruption",
]

REFUSED = 1
USAGE = 2
LOCKED = 3
DAMAGED = 4
REJECTED = 5
BROKEN_PROMISE = 6
INTERRUPTED = 130
CLOSED_PIPE = 141
TERMINATED = 143

_MOST_CHARACTERS = 5_000
"""Of a message: longer ones quote a damaged value. A path has 4,096 bytes at most."""
_HELP_SHOWN = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""How click shows the help when there are no arguments; this is not a mistake."""


@contextlib.contextmanager
def errors_as_messages() -> Iterator[None]:
    """Run a command; turn expected errors into a message and ``click``'s ``Exit``.

    Output is flushed inside, so that a closed pipe or a full disk is noticed here.
    """
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        """Show the library's warnings as notes, each once."""
        if not issubclass(category, LshdbWarning):
            shown_by_python(message, category, *where, **more)
        elif str(message) not in said:
            said.add(str(message))
            if not (issubclass(category, KernelWarning) and _was_said_today(str(message))):
                note(str(message))

    try:
        try:
            with warnings.catch_warnings():
                shown_by_python = warnings.showwarning
                warnings.showwarning = show
                warnings.simplefilter("always", LshdbWarning)
                yield
        except click.exceptions.Exit:
            flush_output()
            raise
        flush_output()
    except _HELP_SHOWN:
        raise
    except (
        click.UsageError, LshdbError, OSError, MemoryError, ImportError, SystemError,
        RuntimeError, KeyboardInterrupt,
    ) as error:  # fmt: skip
        if isinstance(error, ImportError | SystemError) and not _is_out_of_memory(error):
            raise
        if isinstance(error, RuntimeError) and not _is_without_thread(error):
            raise
        code = _report(error)
        try:
            flush_output()
        except OSError:
            discard_output()
        raise click.exceptions.Exit(code) from None


def _was_said_today(notice: str) -> bool:
    """Return whether this user has had a notice today, and remember that he has now.

    A job of many commands would have it in every mail otherwise. Where nothing can be remembered,
    it is said each time.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(cache, "lshdb", "kernel-notice")
    record = f"{time.strftime('%Y-%m-%d')}\n{notice}\n"
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            if file.read() == record:
                return True
    except OSError:
        pass
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(record)
    return False


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether an import ran out of memory, or the interpreter lost an error.

    A limit such as ``ulimit -v`` shows in this way while modules are being imported.
    """
    words = (
        "failed to map segment",
        "cannot allocate memory",
        "error return without exception",
        "returned null without setting",
    )
    return any(word in str(error).lower() for word in words)


def _is_without_thread(error: RuntimeError) -> bool:
    return "can't start new thread" in str(error)


def _report(error: BaseException) -> int:
    """Report an error, unless it needs no message; return the exit code."""
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    if isinstance(error, KeyboardInterrupt):
        word, code = interruption(error)
        complain(word)
        return code
    if isinstance(error, click.UsageError):
        from lshdb.cli._usage import usage_message

        _show(*usage_message(error))
        return USAGE
    if isinstance(error, ParameterError):
        from lshdb.cli._usage import parameter_message

        _show(*parameter_message(error))
        return exit_code(error)
    if isinstance(error, LshdbError):
        _show(error.message, error.hint)
        return exit_code(error)
    if isinstance(error, RuntimeError):
        _show(
            "the system gives this process no further thread, and this command needs one",
            "raise the limit: ulimit -u, or pids.max of the container",
        )
        return REFUSED
    if isinstance(error, OSError) and error.errno != errno.ENOMEM:
        name = "" if error.filename is None else f"{error.filename}: "
        _show(f"{name}{error.strerror or error}", system_hint(error))
    else:
        _show(
            f"out of memory{_amounts(error)}", "end other programs, or raise the limit (ulimit -v)"
        )
    return REFUSED


def _amounts(error: BaseException) -> str:
    """Return how much memory was asked for last, and how much there may be, where that is known."""
    import re

    asked = re.search(r"allocate ([0-9.]+ [KMGT]iB)", str(error))  # as NumPy says it
    amounts = [f"{asked[1]} more were asked for"] if asked else []
    if limit := limit_of_memory():
        amounts.append(limit)
    return ": " * bool(amounts) + ", and ".join(amounts)


def interruption(error: KeyboardInterrupt) -> tuple[str, int]:
    """Return the message for a signal that ended the command, and the exit code."""
    if isinstance(error, Terminated):
        return "terminated", TERMINATED
    return "interrupted", INTERRUPTED


def exit_code(error: LshdbError) -> int:
    """Return the exit code of a library error."""
    if isinstance(error, ParameterError):
        return USAGE
    if isinstance(error, LockedError):
        return LOCKED
    if isinstance(error, DamageError):
        return DAMAGED
    return REFUSED


def _show(message: str, hint: str | None) -> None:
    is_long = len(message) > _MOST_CHARACTERS
    complain(f"error: {message[:_MOST_CHARACTERS]}{' ...' * is_long}")
    if hint:
        complain(f"hint: {hint}")
