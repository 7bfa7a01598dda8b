"""What somebody sees on a terminal: bars, tables, colours, widths."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lshdb import AddResult, Document, Index
from lshdb.cli._long_work import AddProgress, time_left
from lshdb.documents.blocks import DocumentBlock, DocumentStream
from lshdb.documents.io.streams import Progress
from lshdb.ingest.add import InputShare
from lshdb.phases.phase import telling
from tests.cli.conftest import BASE, DOCUMENTS, Run, jsonl

OnTerminal = Callable[..., tuple[int, str]]


def plain(shown: str) -> str:
    """Without what moves the cursor and colours the text."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def test_a_bar_while_documents_are_added(on_terminal: OnTerminal, tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text(jsonl(DOCUMENTS) + "no json\n")
    code, shown = on_terminal("add", "a.lshdb", "news.jsonl", columns=80)
    assert code == 5
    assert "━" in shown and "4 stored" in shown and "100 %" in shown
    lines = [line.strip() for line in re.split(r"[\r\n]+", plain(shown))]
    assert "making the index a.lshdb with the defaults: threshold 0.8, 5-word shingles" in lines
    assert any(line.startswith("news.jsonl:5: not valid JSON") for line in lines)
    assert any(line.startswith("news.jsonl: added 4") for line in lines)
    before, erased, after = shown.rpartition("\x1b[1A\x1b[2K")
    assert erased and "━" in before, "the bar goes when the work is done"
    assert after.startswith("news.jsonl: added 4") and after.rstrip().endswith("batch 1")


def test_a_bar_without_colours(on_terminal: OnTerminal, tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text(jsonl(DOCUMENTS))
    code, shown = on_terminal("add", "a.lshdb", "news.jsonl", NO_COLOR="1")
    assert code == 0 and not re.search(r"\x1b\[[0-9;]*3[0-9]", shown)


def test_no_bar_where_the_terminal_can_do_nothing(on_terminal: OnTerminal, tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text(jsonl(DOCUMENTS))
    code, shown = on_terminal("add", "a.lshdb", "news.jsonl", TERM="dumb")
    assert code == 0 and "\x1b" not in shown


@pytest.mark.parametrize(
    ("typed", "left", "expected"), [(b"\n", 4, 1), (b"n\n", 4, 1), (b"y\n", 0, 0)]
)
def test_all_documents_go_if_somebody_agrees(
    on_terminal: OnTerminal, run: Run, tmp_path: Path, typed: bytes, left: int, expected: int
) -> None:
    (tmp_path / "news.jsonl").write_text(jsonl(DOCUMENTS))
    path = tmp_path / "a.lshdb"
    run("add", path, tmp_path / "news.jsonl")
    code, shown = on_terminal("expire", path, "--not-seen-since", "2999-01-01", typed=typed)
    assert code == expected
    assert f"these are all 4 documents of {path}; remove them? [y/N]" in plain(shown)
    with Index.open(path) as index:
        assert len(index) == left
    code, shown = on_terminal("expire", path, "--older-than", "1d")
    assert code == 0 and "remove them?" not in shown


def test_input_typed_at_the_terminal(on_terminal: OnTerminal, tmp_path: Path) -> None:
    typed = jsonl([("typed", "by somebody at a terminal")]).encode() + b"\x04"
    code, shown = on_terminal("add", "a.lshdb", "-", typed=typed)
    assert code == 0 and "Ctrl-D ends the input" in shown and "added 1" in plain(shown)
    code, shown = on_terminal("query", "a.lshdb", "-", typed=typed, NO_COLOR="1")
    assert code == 0 and re.search(r"typed +typed +1\.0000  exact", shown)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_table_fits(
    run: Run, index_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in (("pairs",), ("batches",), ("stats",), ("query", "--text", BASE),
                    ("sql", "SELECT * FROM document"), ("show", "base")):  # fmt: skip
        out = run(command[0], index_path, *command[1:], "--format", "table").stdout
        assert out and max(map(len, out.splitlines())) <= columns, command


@pytest.mark.parametrize(
    ("seconds", "done", "said"),
    [(0.5, 50, ""), (1.0, 0, ""), (2.0, 100, ""), (2.0, 50, "2 s left"), (1.5, 60, "1 s left"),
     (60.0, 40, "2 min left"), (59.0, 50, "59 s left"), (100.0, 1, "2 h 45 min left"),
     (36.0, 1, "1 h 00 min left"), (37.0, 1, "1 h 02 min left")],
)  # fmt: skip
def test_the_time_that_is_left(seconds: float, done: float, said: str) -> None:
    assert time_left(seconds, done, 100) == said
    assert time_left(seconds, done, 0) == ""


def test_the_bar_stands_for_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for what was read: batches wait in memory for their commit."""
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 0)
    files = Progress(None, 400)

    def blocks() -> Iterator[DocumentBlock]:
        for i in range(4):
            files.begin(100)
            files.read(100)
            yield DocumentBlock.of([Document(f"k{i}", BASE)])
            files.end()

    progress = AddProgress()
    stream = progress.watch(DocumentStream(blocks(), progress=files))
    share, counts, n_stored = progress._line.share, progress._counts, InputShare.of(stream)
    committed = n_stored.then(progress.committed)
    with telling(share), n_stored.phase:
        assert len(list(n_stored.watched(stream.by_blocks()))) == 4
        assert (share.n_done, share.total, counts()) == (0, 400, "4 read")
        committed(AddResult(added=1, rejected=1))
        assert (share.n_done, counts(), share.percent) == (200, "1 stored", " 50 %")
        committed(AddResult(added=3, rejected=1))
        assert (share.n_done, counts(), share.percent) == (400, "3 stored", "100 %")


def test_a_table_takes_the_width_of_the_terminal(on_terminal: OnTerminal, index_path: Path) -> None:
    statement = f"SELECT '{'x' * 300}' AS a"
    for columns in (50, 90):
        _, shown = on_terminal("sql", index_path, statement, columns=columns, NO_COLOR="1")
        assert max(map(len, shown.splitlines())) == columns


def test_titles_are_bold_unless_asked_otherwise(on_terminal: OnTerminal, index_path: Path) -> None:
    assert "\x1b[1mkey1" in on_terminal("pairs", index_path)[1]
    assert "\x1b" not in on_terminal("pairs", index_path, NO_COLOR="1")[1]
    assert "\x1b" not in on_terminal("pairs", index_path, TERM="dumb")[1]


def test_columns_overrides_the_terminal(on_terminal: OnTerminal, index_path: Path) -> None:
    statement = f"SELECT '{'x' * 90}' AS a, '{'y' * 90}' AS b"
    _, shown = on_terminal("sql", index_path, statement, columns=200, COLUMNS="50", NO_COLOR="1")
    assert max(len(line) for line in shown.splitlines()) == 50


def test_no_colour_and_no_cropping_in_a_file(
    process: Callable[..., subprocess.CompletedProcess[bytes]], index_path: Path
) -> None:
    statement = f"SELECT '{'x' * 300}' AS a"
    done = process("sql", index_path, statement, "--format", "table", env={"TERM": "xterm"})
    assert b"x" * 300 in done.stdout and b"\x1b" not in done.stdout


def test_an_encoding_that_has_no_ellipsis(
    process: Callable[..., subprocess.CompletedProcess[bytes]], index_path: Path
) -> None:
    env = {"PYTHONIOENCODING": "ascii", "COLUMNS": "40"}
    statement = f"SELECT '{'é' * 300}' AS a, 1 AS b"
    done = process("sql", index_path, statement, "--format", "table", env=env)
    assert done.returncode == 0 and b"..." in done.stdout and b"---" in done.stdout
    done = process("sql", index_path, statement, "--format", "tsv", env=env)
    assert done.stdout.decode("utf-8").startswith("é" * 300)
