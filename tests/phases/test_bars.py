"""Bars: what is drawn where, by rich, by tqdm and in a notebook."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import sys
import termios
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import lshdb
from lshdb import Index, ParameterError
from lshdb.phases import bars
from lshdb.phases.bars import Share, amount

pytestmark = pytest.mark.fast
TEXTS = ["the cat sat on the mat all day", "a dog", "the cat sat on the mat all day"]


@pytest.fixture(autouse=True)
def _at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 0)


def on_terminal(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> str:
    """What some work writes to standard error, which is a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with os.fdopen(theirs, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        work()
        stream.write("\0")
        stream.flush()
        shown = b""
        while not shown.endswith(b"\0"):
            shown += os.read(ours, 65536)
    os.close(ours)
    return shown.decode()


def test_on_a_terminal_the_bar_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    bar_of = lshdb.progress
    shown = on_terminal(
        monkeypatch, lambda: lshdb.deduplicate(TEXTS, on_progress=bar_of("cleaning"))
    )
    assert "cleaning" in shown and "100 %" in shown and "━" in shown
    assert shown.endswith("\x1b[2K\0"), "the line is erased"


def test_in_a_log_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert lshdb.deduplicate(TEXTS, on_progress=lshdb.progress()) == TEXTS[:2]
    assert capsys.readouterr().err == ""


def test_tqdm_has_a_bar_for_each_phase(make_index: Callable[..., Index]) -> None:
    pytest.importorskip("tqdm")
    with contextlib.redirect_stderr(io.StringIO()) as shown, lshdb.progress(kind="tqdm") as bar:
        index = make_index("a")
        index.add([(str(n), text) for n, text in enumerate(TEXTS)], on_progress=bar)
        assert len(list(index.pairs(on_progress=bar))) == 1
    lines = shown.getvalue().replace("\r", "\n").splitlines()
    assert any("3/3" in line and "documents" in line for line in lines)
    assert any("100%" in line and "postings" in line for line in lines)


def test_in_a_notebook_it_is_a_line_of_html(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown: list[str] = []
    place = SimpleNamespace(update=lambda page: shown.append(page.data))

    def first(page: Any, display_id: bool) -> Any:
        assert display_id
        shown.append(page.data)
        return place

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    monkeypatch.setattr(display, "display", first)
    lshdb.deduplicate(TEXTS, on_progress=lshdb.progress("<b>cleaning</b>"))
    assert "&lt;b&gt;cleaning&lt;/b&gt; · 3 documents · 100 %" in " ".join(shown)
    assert "<progress value=" in shown[-1]


def test_without_rich_tqdm_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setitem(sys.modules, "rich", None)
    shown = on_terminal(monkeypatch, lambda: lshdb.deduplicate(TEXTS, on_progress=lshdb.progress()))
    assert "3/3" in shown
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert lshdb.progress()._drawing.__class__ is bars._Nothing
    with pytest.raises(ParameterError, match="tqdm, which is not installed") as caught:
        lshdb.progress(kind="tqdm")
    assert caught.value.hint == "run: pip install tqdm"
    with pytest.raises(ParameterError, match="kind is 'bar'"):
        lshdb.progress(kind="bar")  # type: ignore[arg-type]


def test_the_bar_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = lshdb.progress(kind="rich")

    def fail(*call: Any) -> None:
        bar(*call)
        raise OSError

    fail.end_of_call = bar.end_of_call  # type: ignore[attr-defined]
    with pytest.raises(OSError), contextlib.redirect_stderr(io.StringIO()):
        lshdb.deduplicate(TEXTS, on_progress=fail)
    assert not bar._is_begun


@pytest.mark.parametrize(
    ("count", "unit", "said"),
    [(1234, "pairs", "1,234 pairs"), (999, "bytes", "999 B"), (1500, "bytes", "1.5 kB"),
     (2_300_000, "bytes", "2.3 MB"), (5 * 10**12, "bytes", "5,000.0 GB")],
)  # fmt: skip
def test_amounts(count: int, unit: str, said: str) -> None:
    assert amount(count, unit) == said


def test_a_share_in_words() -> None:
    share = Share()
    assert share.words == "" and share.percent == ""
    assert share(3, None, "rows") and share.words == "3 rows"
    assert not share(4, 10, "rows") and share.words == "40 %"
    assert share(0, 10, "rows"), "a smaller number begins another phase"
