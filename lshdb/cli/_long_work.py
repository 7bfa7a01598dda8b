"""Long work: its progress on the terminal, and how a signal ends it.

On a terminal, one line shows what is being done: a bar, its share, what is done, and the time left,
wherever a total is known; anything else gets a line a minute from an add. The line listens to the
work of its thread (``phases/phase.py``), as a caller's ``on_progress`` does.

The interpreter acts on a signal between two of its own instructions. A statement that runs in the
database for minutes is one instruction, so Ctrl-C would seem to do nothing. In
:func:`prompt_interrupts` the signal wakes a thread, which ends the process if the interpreter has
not acted within a second. Only for commands that read: nothing is lost, and temporary files that
they registered (``cancel.on_interruption``) are removed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lshdb import Document, Rejected
from lshdb.cancel import clean_up
from lshdb.cli._cells import harmless
from lshdb.cli._errors import INTERRUPTED, TERMINATED
from lshdb.cli._output import complain, is_quiet, is_terminal, note
from lshdb.cli._rejections import RejectionNotes
from lshdb.cli.launch import postponed
from lshdb.documents.blocks import (
    DocumentBlock,
    DocumentStream,
    Item,
)
from lshdb.phases.bars import Share, TerminalBar, amount, time_left
from lshdb.phases.phase import telling
from lshdb.threads import begin_thread, give_memory_back_at_once

if TYPE_CHECKING:
    from lshdb.groups.rewrite_files import RewrittenFile
    from lshdb.ingest.add_result import AddResult

__all__ = ["AddProgress", "TaskProgress", "prompt_interrupts", "time_left"]

_Counted = TypeVar("_Counted", Document | Rejected, Item)
_LINE_SECONDS = 60.0


class _Line(contextlib.AbstractContextManager["_Line"]):
    """The line on the terminal; nothing elsewhere, and with ``-q``.

    All work of this thread in the block tells it how far it is.

    Parameters
    ----------
    words : str
        What is being done.
    counted : callable
        Returns what is done so far, in words.
    reading : str
        Words for a phase that counts bytes, if they differ.
    """

    def __init__(self, words: str, counted: Callable[[], str], reading: str = "") -> None:
        self._words, self._reading = words, reading or words
        self.share = Share()
        self.bar = TerminalBar(words, self.share, lambda: harmless(counted()))
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> _Line:
        if is_terminal(sys.stderr) and not is_quiet():
            self.bar.begin()
            self._exits.callback(self.bar.end)
        self._exits.enter_context(telling(self.reached))
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def reached(self, n_done: int, total: int | None, unit: str) -> None:
        """Take note of how much is done, and of how much there is."""
        self.share(n_done, total, unit)
        self.bar.words = self._reading if unit == "bytes" else self._words
        self.bar.update()


class AddProgress:
    """Progress of one add; a context manager that shows it.

    Parameters
    ----------
    words : str
        What is being done.

    Attributes
    ----------
    n_read : int
        Documents and rejections that the index has taken.
    result : AddResult or None
        Counts at the last commit.
    write_rejected : callable or None
        Takes every rejection; standard error has only the first ones of each kind.
    """

    def __init__(self, words: str = "add") -> None:
        self.n_read = 0
        self.result: AddResult | None = None
        self.write_rejected: Callable[[Rejected], None] | None = None
        self._rejections = RejectionNotes(self.line)
        self._begun = self._line_at = time.monotonic()
        self._line = _Line(words, self._counts)

    def watch(self, items: Iterable[Document | Rejected]) -> Iterator[Document | Rejected]:
        """Pass the input through and count it."""
        if isinstance(items, DocumentStream):
            counted = self._counted(items.by_blocks())
            return DocumentStream(counted, is_at_hand=items.is_at_hand, progress=items.progress)
        return self._counted(items)

    def _counted(self, items: Iterable[_Counted]) -> Iterator[_Counted]:
        for item in items:
            self.n_read += len(item) if isinstance(item, DocumentBlock) else 1
            now = time.monotonic()
            if not self._line.bar.is_drawn and now - self._line_at >= _LINE_SECONDS:
                self._line_at = now
                rate, share = self.n_read / (now - self._begun), self._line.share
                left = time_left(now - self._begun, share.n_done, share.total)
                note(f"{self.n_read:,} documents so far, {rate:,.0f}/s" + f", {left}" * bool(left))
            yield item

    def committed(self, result: AddResult) -> None:
        """Take note of a committed batch."""
        self.result = result

    def rejected(self, rejection: Rejected) -> None:
        """Report one rejected input."""
        self._rejections.add(rejection)
        if self.write_rejected is not None:
            self.write_rejected(rejection)

    def line(self, text: str) -> None:
        """Write a line to standard error, above the bar; also with ``-q``."""
        if self._line.bar.is_drawn:
            self._line.bar.write(harmless(text))
        else:
            complain(text)

    def __enter__(self) -> AddProgress:
        self._line.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.__exit__()
        self._rejections.end()

    def _counts(self) -> str:
        stored = self.result.documents if self.result else 0
        return f"{stored:,} stored" if stored else f"{self.n_read:,} read"


class TaskProgress(contextlib.AbstractContextManager["TaskProgress"]):
    """A context manager that shows on a terminal what is being done, and for how long.

    Parameters
    ----------
    words : str
        What is being done.
    reading : str
        Words for the phase that reads files, if there is one.

    Attributes
    ----------
    result : AddResult or None
        Counts at the last commit.
    """

    def __init__(self, words: str, reading: str = "") -> None:
        self.result: AddResult | None = None
        self._last_file = ""
        self._line = _Line(words, self._said, reading)

    def committed(self, result: AddResult) -> None:
        """Take note of a committed batch."""
        self.result = result

    def wrote(self, file: RewrittenFile) -> None:
        """Show which file is done."""
        self._last_file = f"{file.output} is done"

    def _said(self) -> str:
        share = self._line.share
        return self._last_file or (amount(share.n_done, share.unit) if share.unit else "")

    def __enter__(self) -> TaskProgress:
        self._line.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.__exit__()


_PATIENCE_SECONDS = 1.0
_ENDS: dict[int, tuple[str, int]] = {
    signal.SIGINT: ("interrupted", INTERRUPTED),
    signal.SIGTERM: ("terminated", TERMINATED),
}


@contextlib.contextmanager
def prompt_interrupts() -> Iterator[None]:
    """Let a signal end the process within about a second, even while the main thread is busy.

    What is freed goes back to the system at once, as suits a command that reads for long.
    """
    give_memory_back_at_once()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    over = threading.Event()
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        ended = begin_thread(partial(_watch, reader, over))
    except RuntimeError:  # the system gives no thread; then a signal waits for the main one
        signal.set_wakeup_fd(before)
        os.close(writer)
        os.close(reader)
        yield
        return
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writer)  # the watcher reads the end
        if ended.wait(_PATIENCE_SECONDS):  # it had memory to begin
            os.close(reader)


def _watch(reader: int, over: threading.Event) -> None:
    while signals := os.read(reader, 1):
        # A signal that came at a bad moment comes again as SIGALRM, which may be missed too.
        number = postponed() if signals[0] == signal.SIGALRM else signals[0]
        ends = _ENDS.get(number)
        if ends is not None and not over.wait(_PATIENCE_SECONDS):
            complain(ends[0])
            with contextlib.suppress(Exception):
                clean_up()
            os._exit(ends[1])
