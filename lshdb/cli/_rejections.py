"""Rejections: a few of each kind on standard error, all of them in a file.

Decided: reasons that differ only in numbers and quoted names are one kind. Ten lines of a kind are
shown, and at the end how many more there were. Memory does not grow with the input: what comes
after thirty kinds counts as one more.

Each line of the file is written at once and whole, so whatever ends the process, what is there can
be read.

Bytes of a file name that are not UTF-8 appear as escapes in the file, as in messages.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from lshdb import InputError, Rejected
from lshdb.cli._cells import json_line
from lshdb.cli._command import option
from lshdb.cli._output import complain, lines_of, print_bytes

__all__ = ["RejectionNotes", "rejects_file", "rejects_option"]

_SHOWN = 10
_KINDS = 30
_OTHER = "rejected for other reasons"
_VARIABLE = re.compile(r"""b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*"|\d(?:[\d,.]*\d)?""", re.DOTALL)
_REPEATED = re.compile(r"…(?:(?:, | and )…)+(?: more)?")


@dataclass(slots=True)
class _Kind:
    """Rejections whose reasons are alike: their number, and the words that they share."""

    words: str
    masked: str
    count: int = 0


class RejectionNotes:
    """Reports rejections as they come, and at the end how many were not shown.

    Parameters
    ----------
    show : callable, optional
        Writes a line; by default to standard error.

    Attributes
    ----------
    count : int
        How many there were.
    """

    def __init__(self, show: Callable[[str], None] = complain) -> None:
        self.count = 0
        self._show = show
        self._kinds: dict[str, _Kind] = {}

    def add(self, rejection: Rejected) -> None:
        """Count a rejection, and show it if it is among the first of its kind."""
        self.count += 1
        masked = _REPEATED.sub("…", _VARIABLE.sub("…", rejection.reason))
        if masked not in self._kinds and len(self._kinds) >= _KINDS:
            masked = _OTHER
        words = rejection.reason if masked != _OTHER else _OTHER
        kind = self._kinds.setdefault(masked, _Kind(_clause(words), _clause(masked)))
        kind.count += 1
        if kind.words != _clause(words):
            kind.words = kind.masked
        if kind.count <= _SHOWN:
            self._show(f"{rejection.source}: {rejection.reason}")

    def end(self) -> None:
        """Say how many of each kind were not shown."""
        for kind in self._kinds.values():
            if kind.count > _SHOWN:
                self._show(f"{kind.count - _SHOWN:,} more: {kind.words}")
        self._kinds.clear()


def _clause(reason: str) -> str:
    """Return a reason without what follows its first clause."""
    return reason.split(";", 1)[0]


@contextlib.contextmanager
def rejects_file(
    path: str | None, inputs: Sequence[str]
) -> Iterator[Callable[[Rejected], None] | None]:
    """Open a file for all rejections, as JSON Lines, and yield what writes one.

    Parameters
    ----------
    path : str or None
        Overwritten; ``-`` for standard output, None for no file.
    inputs : sequence of str
        The paths that are read, none of which may be the file.

    Raises
    ------
    InputError
        The file is one of the inputs.
    """
    if path is None:
        yield None
        return
    if path == "-":
        yield lambda rejection: print_bytes([_line(rejection)])
        return
    for source in inputs:
        if source != "-" and os.path.isfile(source) and _is_same(source, path):
            raise InputError(
                f"{path} is an input, and --rejects would overwrite it",
                hint="give --rejects another file",
            )
    with Path(path).open("wb", buffering=0) as file:

        def write(rejection: Rejected) -> None:
            left = memoryview(_line(rejection))
            while left:
                left = left[file.write(left) :]

        yield write


def _is_same(path1: str, path2: str) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(path1, path2)
    return False


def _line(rejection: Rejected) -> bytes:
    values = [_printable(rejection.source), _printable(rejection.reason)]
    return json_line(["source", "reason"], values) + b"\n"


def _printable(text: str) -> str:
    """Return the text without lone surrogates, which JSON in UTF-8 cannot carry."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


rejects_option = option(
    "--rejects",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    callback=lines_of("jsonl"),
    help="Write all that was not accepted to FILE, as JSON Lines with source and reason; - is "
    "standard output.  [default: the first ten of each kind go to standard error]",
)
