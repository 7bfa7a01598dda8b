"""Long work: its progress on the terminal, and how a signal ends it.

While documents are added, a terminal shows a bar, and anything else gets a line a minute. The bar
shows bytes read of all bytes, a total known from the start. Beside it stand the documents read,
those committed, the phase (reading the input and indexing a batch take turns), and how long the
rest takes at the pace so far.

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
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

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

__all__ = ["AddProgress", "TaskProgress", "prompt_interrupts"]

_Counted = TypeVar("_Counted", Document | Rejected, Item)
_LINE_SECONDS = 60.0
_INDEXING_SECONDS = 0.3


class AddProgress:
    """Progress of one add; a context manager that shows it.

    Attributes
    ----------
    n_read : int
        Documents and rejections that the index has taken.
    result : AddResult or None
        Counts at the last commit.
    write_rejected : callable or None
        Takes every rejection; standard error has only the first ones of each kind.
    """

    def __init__(self) -> None:
        self.n_read = 0
        self.result: AddResult | None = None
        self.write_rejected: Callable[[Rejected], None] | None = None
        self._rejections = RejectionNotes(self.line)
        self._begun = self._line_at = time.monotonic()
        self._taken_at = self._begun
        self._is_waiting = True
        self._bar: Any = None
        self._task: Any = None

    def watch(self, items: Iterable[Document | Rejected]) -> Iterator[Document | Rejected]:
        """Pass the input through and count it."""
        if isinstance(items, DocumentStream):
            counted = self._counted(items.by_blocks())
            return DocumentStream(counted, is_at_hand=items.is_at_hand)
        return self._counted(items)

    def _counted(self, items: Iterable[_Counted]) -> Iterator[_Counted]:
        for item in items:
            self.n_read += len(item) if isinstance(item, DocumentBlock) else 1
            self._is_waiting = False
            self._taken_at = time.monotonic()
            if self._bar is None and self._taken_at - self._line_at >= _LINE_SECONDS:
                self._line_at = self._taken_at
                rate = self.n_read / (self._taken_at - self._begun)
                note(f"{self.n_read:,} documents so far, {rate:,.0f}/s")
            yield item
            self._is_waiting = True
        self._is_waiting = False

    def bytes_read(self, position: int, total: int) -> None:
        """Take note of the bytes read so far, and of all bytes (0 if unknown)."""
        if self._bar is not None:
            # A complete task loses its spinner and its clock, but after the last byte is read the
            # last batch must still be indexed.
            position = min(position, total - 1) if total else position
            self._bar.update(self._task, completed=position, total=total or None)

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
        if self._bar is None:
            complain(text)
        else:
            self._bar.console.out(harmless(text), highlight=False)

    def __enter__(self) -> AddProgress:
        if is_terminal(sys.stderr) and not is_quiet():
            self._bar = _bar(self)
            self._task = self._bar.add_task("", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._rejections.end()

    # For the bar

    @property
    def phase(self) -> str:
        """The phase: reading or indexing."""
        idle = time.monotonic() - self._taken_at
        return "reading " if self._is_waiting or idle < _INDEXING_SECONDS else "indexing"

    @property
    def counts(self) -> str:
        """Return how many documents are read, and how many stored."""
        stored = self.result.documents if self.result else 0
        return f"{self.n_read:,} read, {stored:,} stored"


class TaskProgress:
    """A context manager that shows on a terminal what is being done, and for how long.

    Parameters
    ----------
    words : str
        What is being done.
    unit : str
        What is counted.

    Attributes
    ----------
    result : AddResult or None
        Counts at the last commit.
    """

    def __init__(self, words: str, unit: str = "documents") -> None:
        self.result: AddResult | None = None
        self._words, self._unit = words, unit
        self._bar: Any = None
        self._task: Any = None

    def committed(self, result: AddResult) -> None:
        """Take note of a committed batch."""
        self.result = result
        self.reached(result.documents)

    def wrote(self, file: RewrittenFile) -> None:
        """Show which file is done."""
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._words}, {file.output} is done")

    def reached(self, count: int) -> None:
        """Show how many documents, or other units, are done."""
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._words}, {count:,} {self._unit}")

    def __enter__(self) -> TaskProgress:
        if is_terminal(sys.stderr) and not is_quiet():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._words, total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar(progress: AddProgress) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TimeElapsedColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class LiveText(ProgressColumn):
        """Text that is computed anew whenever the bar is drawn."""

        def __init__(self, name: str) -> None:
            super().__init__(table_column=Column(no_wrap=True))
            self._name = name

        def render(self, task: Task) -> Text:
            return Text(getattr(progress, self._name))

    class TimeLeft(ProgressColumn):
        """The time that the rest takes; nothing where the total is unknown."""

        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            seconds = task.time_remaining
            return Text("" if seconds is None else f"{timedelta(seconds=int(seconds))} left")

    return Progress(
        SpinnerColumn(),
        LiveText("phase"),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        DownloadColumn(),
        LiveText("counts"),
        TimeElapsedColumn(),
        TimeLeft(),
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
