"""The line at the bottom of a terminal while work is silent."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lshdb.cli import _status
from lshdb.cli._output import Column, note, print_listing, working
from tests.cli.conftest import Run

_END = "\0end of what was written\0"


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Standard output and error on a terminal; gives what was written to it."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(_status, "_REFRESH_SECONDS", 0.02)
    with os.fdopen(theirs, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)

        def shown() -> str:
            stream.write(_END)  # the terminal hands on what it was given a little later
            stream.flush()
            read = bytearray()
            while not read.endswith(_END.encode()):
                assert select.select([ours], [], [], 30)[0], read
                read.extend(os.read(ours, 65536))
            return read.decode().removesuffix(_END)

        yield shown
    os.close(ours)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The line comes at once, on a terminal that understands it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_status, "_PATIENCE_SECONDS", 0.02)
    return monkeypatch


def test_the_line_comes_and_goes(impatient: pytest.MonkeyPatch) -> None:
    with terminal(impatient) as read:
        with working("checking", lambda: "7 done"):
            time.sleep(0.3)
            note("a note")
            time.sleep(0.1)
        shown = read()
    assert shown.startswith("\r\x1b[Kchecking, 7 done, 0:00")
    assert "\r\x1b[Ka note\r\n" in shown
    assert shown.endswith("\r\x1b[K")
    assert not _status._is_drawn


def test_rows_stand_above_the_line(impatient: pytest.MonkeyPatch) -> None:
    def rows() -> Iterator[tuple[int] | None]:
        for number in (1, 2):
            time.sleep(0.2)
            yield (number,)
            yield None

    with terminal(impatient) as read:
        print_listing([Column("n", "number")], rows(), "tsv")
        shown = read()
    assert "listing, 0 so far" in shown and "listing, 1 so far" in shown
    left = re.sub("[^\n]*\r\x1b\\[K", "", shown).split()
    assert left == ["1", "2"]


def test_quick_work_shows_nothing(impatient: pytest.MonkeyPatch) -> None:
    impatient.setattr(_status, "_PATIENCE_SECONDS", 30)
    with terminal(impatient) as read:
        with working("checking"):
            note("only this")
        assert read() == "only this\r\n"


def test_a_terminal_that_understands_nothing(impatient: pytest.MonkeyPatch) -> None:
    impatient.setenv("TERM", "dumb")
    with terminal(impatient) as read:
        with working("checking"):
            time.sleep(0.1)
            note("only this")
        assert read() == "only this\r\n"


def test_without_a_terminal_there_is_none(
    run: Run, index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_status, "_PATIENCE_SECONDS", 0)
    for command in ("check", "clusters", "pairs"):
        assert "\x1b" not in run(command, index_path).stderr
