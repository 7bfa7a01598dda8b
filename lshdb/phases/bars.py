"""Bars that show how far long work is: on a terminal, in a notebook, or by tqdm.

:func:`progress` returns one that every ``on_progress`` takes, and the commands draw theirs by
:class:`TerminalBar`, too. rich and tqdm are imported when a bar is drawn.
"""

from __future__ import annotations

import html
import importlib
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Self

from lshdb.arguments import check_choice
from lshdb.errors import ParameterError

__all__ = ["ProgressBar", "Share", "TerminalBar", "amount", "progress", "time_left"]

_KINDS = ("rich", "tqdm")


def time_left(seconds: float, n_done: float, total: float) -> str:
    """Return how long work still takes at its speed so far, in words; empty if that is unclear."""
    if seconds < 1.0 or not 0 < n_done < total:
        return ""
    left = math.ceil(seconds * (total - n_done) / n_done)
    if left < 60:
        return f"{left} s left"
    minutes = math.ceil(left / 60)
    return (
        f"{minutes} min left" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min left"
    )


def amount(count: int, unit: str) -> str:
    """Return a number of things in words; bytes as kilobytes or more."""
    if unit != "bytes":
        return f"{count:,} {unit}"
    size, names = float(count), iter(("B", "kB", "MB", "GB"))
    name = next(names)
    while size >= 1000 and name != "GB":
        size, name = size / 1000, next(names)
    return f"{size:,.0f} {name}" if name == "B" else f"{size:,.1f} {name}"


class Share:
    """How much of a phase of the work is done, and since when; a function for ``on_progress``."""

    def __init__(self) -> None:
        self.n_done, self.total, self.unit = 0, 0, ""
        self._begun = time.monotonic()

    def __call__(self, n_done: int, total: int | None, unit: str) -> bool:
        """Take note of what is done; return whether a phase begins."""
        is_new = unit != self.unit or n_done < self.n_done
        if is_new:
            self._begun = time.monotonic()
        self.n_done, self.total, self.unit = n_done, total or 0, unit
        return is_new

    @property
    def percent(self) -> str:
        """The share of the total that is done; empty without a total."""
        return f"{self.n_done / self.total:4.0%}".replace("%", " %") if self.total else ""

    @property
    def left(self) -> str:
        """The time left; without a total, the time so far."""
        seconds = time.monotonic() - self._begun
        if not self.total:
            return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
        return time_left(seconds, self.n_done, self.total)

    @property
    def words(self) -> str:
        """The share and the time left, or what is done."""
        if self.total:
            return ", ".join(filter(None, (self.percent.strip(), self.left)))
        return amount(self.n_done, self.unit) if self.unit else ""


class TerminalBar:
    """A line at the bottom of a terminal: words, a bar, the share, what is done, the time left.

    Parameters
    ----------
    words : str
        What is being done.
    share : Share
        How much of it.
    counted : callable
        Returns what is done so far, in words.
    """

    def __init__(self, words: str, share: Share, counted: Callable[[], str]) -> None:
        self.words, self._share, self._counted = words, share, counted
        self._rich: Any = None
        self._task: Any = None

    @property
    def is_drawn(self) -> bool:
        """Whether the line is there."""
        return self._rich is not None

    def begin(self) -> None:
        """Draw the line from now on."""
        self._rich = self._columns()
        self._task = self._rich.add_task("", total=None)
        self._rich.start()
        self.update()

    def update(self) -> None:
        """Draw the share as it is now."""
        if self._rich is not None:
            share = self._share
            self._rich.update(self._task, completed=share.n_done, total=share.total or None)

    def write(self, text: str) -> None:
        """Write a line above the bar."""
        self._rich.console.out(text, highlight=False)

    def end(self) -> None:
        """Erase the line."""
        if self._rich is not None:
            self._rich.stop()
            self._rich = None

    def _columns(self) -> Any:
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
                return Text(self._text())

        class KnownBar(BarColumn):
            """A bar; blank where no total is known."""

            def render(self, task: Task) -> Any:
                return super().render(task) if task.total else Text()

        return Progress(
            SpinnerColumn(),
            LiveText(lambda: self.words, "left"),
            KnownBar(bar_width=None, table_column=Column(ratio=1)),
            LiveText(lambda: self._share.percent, "right"),
            LiveText(self._counted, "right"),
            LiveText(lambda: self._share.left, "right"),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )


class _Sketch(ABC):
    """What is drawn of one call."""

    def __init__(self, words: str, share: Share) -> None:
        self.words, self.share = words, share

    @abstractmethod
    def begin_phase(self) -> None:
        """Begin a phase."""

    @abstractmethod
    def update(self) -> None:
        """Draw the share as it is now."""

    @abstractmethod
    def end(self) -> None:
        """Draw no more."""


class _Nothing(_Sketch):
    """For standard error that is a file or a pipe: a log is no place for a bar."""

    def begin_phase(self) -> None: ...

    def update(self) -> None: ...

    def end(self) -> None: ...


class _OfTerminal(_Sketch):
    def __init__(self, words: str, share: Share) -> None:
        super().__init__(words, share)
        self._bar = TerminalBar(words, share, lambda: amount(share.n_done, share.unit))

    def begin_phase(self) -> None:
        self._bar.words = self.words or self.share.unit
        if not self._bar.is_drawn:
            self._bar.begin()

    def update(self) -> None:
        self._bar.update()

    def end(self) -> None:
        self._bar.end()


class _OfTqdm(_Sketch):
    def __init__(self, words: str, share: Share) -> None:
        super().__init__(words, share)
        self._make = importlib.import_module("tqdm.auto").tqdm
        self._bar: Any = None

    def begin_phase(self) -> None:
        self.end()
        share = self.share
        self._bar = self._make(
            desc=self.words or None, total=share.total or None, unit=f" {share.unit}",
            unit_scale=share.unit == "bytes",
        )  # fmt: skip

    def update(self) -> None:
        share = self.share
        self._bar.total = share.total or None
        self._bar.update(share.n_done - self._bar.n)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _OfNotebook(_Sketch):
    """A line of HTML below the cell, a line for each phase; it stays."""

    def __init__(self, words: str, share: Share) -> None:
        super().__init__(words, share)
        self._display = importlib.import_module("IPython.display")
        self._place: Any = None

    def begin_phase(self) -> None:
        if self._place is None:
            self._place = self._display.display(self._drawn(), display_id=True)

    def update(self) -> None:
        self._place.update(self._drawn())

    def end(self) -> None:
        self._place = None

    def _drawn(self) -> Any:
        share = self.share
        value = f'value="{share.n_done}" max="{share.total}"' if share.total else ""
        said = (self.words, amount(share.n_done, share.unit), share.percent.strip(), share.left)
        words = html.escape(" · ".join(filter(None, said)))
        return self._display.HTML(
            f'<div><progress {value} style="width:16em"></progress> {words}</div>'
        )


def _is_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _drawing(kind: str | None) -> type[_Sketch]:
    """Return what draws best where this runs.

    Raises
    ------
    ParameterError
        What was asked for is not installed.
    """
    if kind is None and _is_notebook():
        return _OfNotebook
    if kind is None and not (sys.stderr is not None and sys.stderr.isatty()):
        return _Nothing
    for name in _KINDS if kind is None else (kind,):
        try:
            importlib.import_module(name)
        except ImportError:
            if kind is not None:
                raise ParameterError(
                    f"the bar is to be one of {kind}, which is not installed",
                    hint=f"run: pip install {kind}",
                ) from None
            continue
        return _OfTerminal if name == "rich" else _OfTqdm
    return _Nothing


class ProgressBar:
    """A bar for ``on_progress``; a context manager, and it ends with each call by itself.

    Parameters
    ----------
    words : str
    kind : {"rich", "tqdm"}, optional
        As for :func:`progress`.
    """

    def __init__(self, words: str = "", *, kind: str | None = None) -> None:
        self._share = Share()
        self._drawing = _drawing(kind)(words, self._share)
        self._is_begun = False

    def __call__(self, n_done: int, total: int | None, unit: str) -> None:
        """Show what is done of a phase."""
        if self._share(n_done, total, unit) or not self._is_begun:
            self._is_begun = True
            self._drawing.begin_phase()
        self._drawing.update()

    def end_of_call(self) -> None:
        """End the bar; another call begins a new one."""
        if self._is_begun:
            self._is_begun = False
            self._drawing.end()
            self._share.unit = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end_of_call()


def progress(words: str = "", *, kind: Literal["rich", "tqdm"] | None = None) -> ProgressBar:
    """Return a bar for ``on_progress``: what is done of how much, and the time left.

    In a notebook it is a line below the cell. On a terminal it is drawn by rich, or by tqdm if rich
    is not installed. Elsewhere, as in a log, nothing is drawn unless you name a kind.

    Parameters
    ----------
    words : str
        What is being done, shown before the bar.
    kind : {"rich", "tqdm"}, optional
        What draws the bar, wherever standard error goes.

    Returns
    -------
    ProgressBar
        It can be used for several calls, one after the other.

    Raises
    ------
    ParameterError
        The kind is unknown, or not installed.

    Examples
    --------
    >>> import lshdb
    >>> texts = ["the cat sat on the mat all day", "a dog", "the cat sat on the mat all day"]
    >>> lshdb.deduplicate(texts, on_progress=lshdb.progress("cleaning"))
    ['the cat sat on the mat all day', 'a dog']
    """
    if kind is not None:
        check_choice("kind", kind, _KINDS)
    return ProgressBar(words, kind=kind)
