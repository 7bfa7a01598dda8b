"""Help: a short form and a whole one, in groups, that fit the terminal."""

from __future__ import annotations

import inspect

import click
import pytest

from lshdb.cli._command import Command
from lshdb.cli._group import COMMANDS, cli
from lshdb.cli._help import GROUPS, OWN, Option, shown_shortly
from tests.cli.conftest import Run

pytestmark = pytest.mark.fast


def command_of(name: str) -> Command:
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, Command)
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_belongs_to_a_group(name: str) -> None:
    """One that click.option() makes belongs to none, and no help would show it."""
    groups: dict[str, str] = {}
    for param in command_of(name).params:
        if isinstance(param, click.Option):
            assert isinstance(param, Option), f"declare {param.opts[-1]} by _command.option()"
            assert param.group in GROUPS, param.opts
            groups[max(param.opts, key=len)] = param.group
    for option, group in (("--key-field", "Input"), ("--json", "Output"), ("--quiet", "Output")):
        assert groups.get(option, group) == group


def test_a_group_of_options_is_the_same_in_every_command() -> None:
    """An option of Input in one command is no command's own in another."""
    groups: dict[str, dict[str, list[str]]] = {}
    for name in COMMANDS:
        for param in command_of(name).params:
            if isinstance(param, Option):
                by_group = groups.setdefault(max(param.opts, key=len), {})
                by_group.setdefault(param.group, []).append(name)
    own = {
        "--threshold", "--recall", "--bands", "--rows", "--seed", "--database", "--schema",
        "--output", "--format", "--input", "--width",
    }  # fmt: skip
    split = {option: found for option, found in groups.items() if len(found) > 1}
    assert not set(split) - own, split


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_is_short(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    command = command_of(name)
    shown = run(name, "-h").stdout
    assert len(shown.splitlines()) <= 40, shown
    options = shown_shortly(command, command.short)
    assert len(options) <= 12
    names = {max(param.opts, key=len) for param in options}
    own = [param for param in command.params if getattr(param, "group", "") == OWN]
    assert len(options) >= min(6, len(own) + ("--json" in names))
    sentence = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    assert sentence.endswith(".") and ". " not in sentence.replace("\n", " "), sentence
    assert shown.partition("Examples:\n")[2].count("  lshdb ") >= 3
    assert shown.endswith(f"options: lshdb {name} --help\n")


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal(
    run: Run, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in (("--help",), *((name, how) for name in COMMANDS for how in ("-h", "--help"))):
        lines = run(*line).stdout.splitlines()
        assert line[-1] != "-h" or columns < 60 or len(lines) <= 40, line
        for shown in lines:
            assert len(shown) <= columns, (line, shown)


def test_long_examples_go_on_in_the_next_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = run("dedup", "--help").stdout
    joined = shown.replace(" \\\n      ", " ")
    examples = inspect.cleandoc(command_of("dedup").help or "").split("\b\n")[1].splitlines()
    assert any(example not in shown for example in examples)
    assert all(f"  {example}\n" in joined for example in examples)
