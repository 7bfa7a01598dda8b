"""Standard output holds data alone; what a command says is on standard error. Options come once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lshdb.cli._group import COMMANDS, cli
from lshdb.cli._options import Command
from tests.cli.conftest import BASE, Run, jsonl

CHANGES = [
    ("init", "new"), ("add", "a", "more.jsonl"), ("add", "a", "more.jsonl"),
    ("remove", "a", "more"),
    ("expire", "a", "--older-than", "90d"), ("expire", "a", "--older-than", "90d", "--dry-run"),
    ("compact", "a"), ("reband", "a", "--recall", "0.9"), ("copy", "a", "copy"),
    ("merge", "a", "copy"), ("reindex", "a", "chars", "--unit", "char"),
    ("export", "a", "-o", "files"),
    ("report", "a", "--output", "a.html"), ("plot", "s-curve", "a", "--output", "a.svg"),
    ("import", "files", "again"), ("upgrade", "a"),
    ("cursors", "a", "press", "--set", "now"),
]  # fmt: skip
LISTS = ("tune", "query", "pairs", "clusters", "dedup", "neighbors", "join", "recall", "explain",
         "contract", "show", "stats", "batches", "sql", "check", "guide",
         "serve", "spark")  # fmt: skip


def test_what_a_change_says_is_no_data(
    run: Run, index_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    index_path.rename("a")
    Path("more.jsonl").write_text(jsonl([("more", BASE + " and more")]))
    for change in CHANGES:
        done = run(*change)
        assert done.stdout == "", change
        assert done.stderr.strip(), change
    assert {change[0] for change in CHANGES} == set(COMMANDS) - set(LISTS) - {"demo"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_with_one_value_is_given_once(run: Run, name: str) -> None:
    """Each of each command; what it is given does not come to be looked at."""
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert isinstance(command, Command)
    for param in command.params:
        if param.param_type_name != "option" or getattr(param, "is_flag", False) or param.multiple:
            continue
        option = max(param.opts, key=len)
        values = ["1"] * param.nargs
        result = run(name, option, *values, option, *values, code=2)
        repeated = f"{option} is given 2 times, and takes one value"
        assert repeated in result.stderr, (option, result.stderr)


def test_a_field_that_is_named_twice_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "a", "title": "one", "body": "two"}\n')
    twice = ("--key-field", "title", "--key-field=body")
    said = run("add", tmp_path / "a", file, *twice, code=2)
    assert "--key-field is given 2 times" in said.stderr and not (tmp_path / "a").exists()
    flags = ("--keep-case", "--keep-case")
    run("add", tmp_path / "a", file, "--text-field", "title", *flags)
