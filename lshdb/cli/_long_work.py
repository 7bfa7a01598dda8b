"""Long work: its progress on the terminal, and how a signal ends it.

On a terminal, one line shows what is being done: a bar, its share, what is done, and the time left,
wherever a total is known; anything else gets a line a minute from an add. The bar of an add stands
for what is stored, not for what was read: its total is the bytes of all files, and at each commit
it goes on to the place in the input up to which documents are stored. The time left is that of the
same speed; for the first second it is not shown.

The interpreter acts on a signal between two of its own instructions. A statement that runs in the
database for minutes is one instruction, so Ctrl-C would seem to do nothing. In
:func:`prompt_interrupts` the signal wakes a thread, which ends the process if the interpreter has
not acted within a second. Only for commands that read: nothing is lost, and temporary files that
they registered (``cancel.on_interruption``) are removed.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

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

if TYPE_CHECKING:
    from lshdb.groups.rewrite_files import RewrittenFile
    from lshdb.ingest.add_result import AddResult

__all__ = ["AddProgress", "TaskProgress", "prompt_interrupts", "time_left"]

_Counted = TypeVar("_Counted", Document | Rejected, Item)
_LINE_SECONDS = 60.0


def time_left(seconds: float, done: float, total: float) -> str:
    """Return how long work still takes at its speed so far, in words; empty if that is unclear."""
    if seconds < 1.0 or not 0 < done < total:
        return ""
    left = math.ceil(seconds * (total - done) / done)
    if left < 60:
        return f"{left} s left"
    minutes = math.ceil(left / 60)
    return (
        f"{minutes} min left" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min left"
    )


class _Line:
    """The line on the terminal; nothing elsewhere, and with ``-q``.

    Parameters
    ----------
    words : str
        What is being done.
    counted : callable
        Returns what is done so far, in words.
    """

    def __init__(self, words: str, counted: Callable[[], str]) -> None:
        self.words, self.counted = words, counted
        self.done, self.total = 0.0, 0.0
        self._begun = time.monotonic()
        self.bar: Any = None
        self._task: Any = None

    def begin(self) -> None:
        """Draw the line from now on."""
        self._begun = time.monotonic()
        if is_terminal(sys.stderr) and not is_quiet():
            self.bar = _bar(self)
            self._task = self.bar.add_task("", total=None)
            self.bar.start()
            self.reached(self.done, self.total)

    def reached(self, done: float, total: float) -> None:
        """Take note of how much is done, and of how much there is (0 if unknown)."""
        self.done, self.total = done, total
        if self.bar is not None:
            self.bar.update(self._task, completed=done, total=total or None)

    def end(self) -> None:
        """Erase the line."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    # For the bar

    @property
    def share(self) -> str:
        """The share of the total that is done."""
        return f"{self.done / self.total:4.0%}".replace("%", " %") if self.total else ""

    @property
    def left(self) -> str:
        """The time left, or without a total the time so far."""
        seconds = time.monotonic() - self._begun
        if not self.total:
            return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
        return time_left(seconds, self.done, self.total)


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
        self._position, self._total = 0, 0
        # How many documents and rejections were taken up to which byte, of those not stored yet.
        self._taken: deque[tuple[int, int]] = deque()

    def watch(self, items: Iterable[Document | Rejected]) -> Iterator[Document | Rejected]:
        """Pass the input through and count it."""
        if isinstance(items, DocumentStream):
            counted = self._counted(items.by_blocks())
            return DocumentStream(counted, is_at_hand=items.is_at_hand)
        return self._counted(items)

    def _counted(self, items: Iterable[_Counted]) -> Iterator[_Counted]:
        for item in items:
            self.n_read += len(item) if isinstance(item, DocumentBlock) else 1
            if not self._taken or self._position > self._taken[-1][1]:
                self._taken.append((self.n_read, self._position))
            else:
                self._taken[-1] = (self.n_read, self._position)
            now = time.monotonic()
            if self._line.bar is None and now - self._line_at >= _LINE_SECONDS:
                self._line_at = now
                rate = self.n_read / (now - self._begun)
                left = time_left(now - self._begun, self._line.done, self._total)
                note(f"{self.n_read:,} documents so far, {rate:,.0f}/s" + f", {left}" * bool(left))
            yield item
        self._taken.append((self.n_read, self._total))

    def bytes_read(self, position: int, total: int) -> None:
        """Take note of the bytes read so far, and of all bytes (0 if unknown)."""
        self._position, self._total = position, total
        self._line.reached(min(self._line.done, total), total)

    def committed(self, result: AddResult) -> None:
        """Take note of a committed batch."""
        self.result = result
        n_stored = (result.cut or result.documents) + result.rejected
        position = self._line.done
        while self._taken and self._taken[0][0] <= n_stored:
            position = self._taken.popleft()[1]
        self._line.reached(min(position, self._total), self._total)

    def rejected(self, rejection: Rejected) -> None:
        """Report one rejected input."""
        self._rejections.add(rejection)
        if self.write_rejected is not None:
            self.write_rejected(rejection)

    def line(self, text: str) -> None:
        """Write a line to standard error, above the bar; also with ``-q``."""
        if self._line.bar is None:
            complain(text)
        else:
            self._line.bar.console.out(harmless(text), highlight=False)

    def __enter__(self) -> AddProgress:
        self._line.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.end()
        self._rejections.end()

    def _counts(self) -> str:
        stored = self.result.documents if self.result else 0
        return f"{stored:,} stored" if stored else f"{self.n_read:,} read"


class TaskProgress:
    """A context manager that shows on a terminal what is being done, and for how long.

    Parameters
    ----------
    words : str
        What is being done.
    unit : str
        What is counted.
    total : int
        How many there are; 0 if unknown.

    Attributes
    ----------
    result : AddResult or None
        Counts at the last commit.
    """

    def __init__(self, words: str, unit: str = "documents", total: int = 0) -> None:
        self.result: AddResult | None = None
        self.total = total
        self._unit, self._said = unit, ""
        self._line = _Line(words, lambda: self._said)

    def committed(self, result: AddResult) -> None:
        """Take note of a committed batch."""
        self.result = result
        self.reached(result.documents)

    def wrote(self, file: RewrittenFile) -> None:
        """Show which file is done."""
        self._said = f"{file.output} is done"

    def reached(self, count: int) -> None:
        """Show how many documents, or other units, are done."""
        self._said = f"{count:,} {self._unit}"
        if self.total:
            self._line.reached(min(count, self.total), self.total)

    def bytes_read(self, position: int, total: int) -> None:
        """Show how much of the bytes of the input was read; what comes after has no total."""
        is_read = position >= total
        self._line.words = "comparing" if is_read else "reading"
        self._line.reached(0 if is_read else position, 0 if is_read else total)

    def __enter__(self) -> TaskProgress:
        self._line.reached(0, self.total)
        self._line.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.end()


def _bar(line: _Line) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
    from rich.table import Column
    from rich.text import Text

    class LiveText(ProgressColumn):
        """Text that is computed anew whenever the bar is drawn."""

        def __init__(self, text: Callable[[], str], justify: Literal["left", "right"]) -> None:
            super().__init__(table_column=Column(no_wrap=True, justify=justify))
            self._text = text

        def render(self, task: Task) -> Text:
            return Text(harmless(self._text()))

    class KnownBar(BarColumn):
        """A bar; blank where no total is known."""

        def render(self, task: Task) -> Any:
            return super().render(task) if task.total else Text()

    return Progress(
        SpinnerColumn(),
        LiveText(lambda: line.words, "left"),
        KnownBar(bar_width=None, table_column=Column(ratio=1)),
        LiveText(lambda: line.share, "right"),
        LiveText(lambda: line.counted(), "right"),
        LiveText(lambda: line.left, "right"),
        console=Console(stderr=True),
        transient=True,
        expand=True,
    )


_PATIENCE_SECONDS = 1.0
_ENDS: dict[int, tuple[str, int]] = {
    signal.SIGINT: ("interrupted", INTERRUPTED),
    signal.SIGTERM: ("terminated", TERMINATED),
}


@contextlib.contextmanager
def prompt_interrupts() -> Iterator[None]:
    """Let a signal end the process within about a second, even while the main thread is busy."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    over = threading.Event()
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader, over), daemon=True)
    try:
        watcher.start()
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
        watcher.join()
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
