"""What somebody sees on a terminal: bars, tables, colours, widths."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import BASE, DOCUMENTS, Run, jsonl

OnTerminal = Callable[..., tuple[int, str]]


def plain(shown: str) -> str:
    """Without what moves the cursor and colours the text."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def test_a_bar_while_documents_are_added(on_terminal: OnTerminal, tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text(jsonl(DOCUMENTS) + "no json\n")
    code, shown = on_terminal("add", "a.lshdb", "news.jsonl", columns=80)
    assert code == 5
    assert "━" in shown and "4 stored" in shown and "5 read" in shown
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
