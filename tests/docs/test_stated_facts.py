"""What helps and pages say of exit codes, defaults, formats and tables is what holds."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lshdb import Index
from lshdb.cli import _errors
from lshdb.cli._group import cli
from lshdb.params.index_params import FORMAT
from lshdb.params.options import CreateOptions
from lshdb.storage.tables import schema
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.fast

CODES = {0} | {
    value
    for name, value in vars(_errors).items()
    if name.isupper() and not name.startswith("_") and isinstance(value, int)
}
"""Every exit code that the command line gives on purpose."""


def help_of(*command: str) -> str:
    result = CliRunner().invoke(cli, [*command, "--help"])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_every_list_of_exit_codes_has_all_of_them() -> None:
    assert {0, 1, 2, 3, 4, 5, 6, 130, 141, 143} == CODES
    epilog = help_of().partition("Exit codes: ")[2]
    assert {int(code) for code in re.findall(r"(?:^|, )(\d+) ", epilog)} == CODES
    page = (ROOT / "docs" / "reference" / "output.md").read_text("utf-8")
    table = page.partition("## Exit codes")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == CODES
    assert {int(code) for code in re.findall(r"^    (\d+) ", _errors.__doc__ or "", re.M)} == CODES


def test_format_and_revision_are_those_of_the_code() -> None:
    versions = (ROOT / "migrations" / "versions").glob("[0-9]*.py")
    revision = max(path.name.partition("_")[0] for path in versions)
    page = (ROOT / "docs" / "format.md").read_text("utf-8")
    assert f"(this page, `{FORMAT}`)" in page and f"(`{revision}`," in page
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\nFormat {FORMAT}, schema revision {revision}.\n" in changes


def test_the_page_of_the_format_names_every_table_and_column() -> None:
    page = (ROOT / "docs" / "format.md").read_text("utf-8").partition("## index.db")[2]
    parts = dict(re.findall(r"\*\*(\w+)\*\*(.*?)(?=\*\*\w+\*\*|\n###|\Z)", page, re.DOTALL))
    tables = schema.metadata.tables
    for name in ("state", "batch", "document", "segment", "edge", "edge_state", "kept_field"):
        assert name in tables  # so that the loop looks at something
    unnamed = [
        f"{name}.{column.name}"
        for name, table in tables.items()
        for column in table.columns
        if name != "no_posting" and not re.search(rf"\b{column.name}\b", parts.get(name, ""))
    ]
    assert unnamed == []


def test_defaults_of_a_new_index_are_those_that_the_help_names(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        params = index.params
    helps = {
        name: field.metadata["help"] for name, field in CreateOptions.__dataclass_fields__.items()
    }
    named = {name: re.search(r"\[default: ([^\];]*)", text) for name, text in helps.items()}
    checked = 0
    for name in ("metric", "threshold", "recall", "num_perm", "seed", "unit", "k", "digits"):
        match = named[name]
        assert match is not None, name
        value = getattr(params, name, None)
        if value is None:
            value = params.items().get(name)
        if value is not None:
            checked += 1
            # recall is what the bands give, at least as much as was asked for
            said = match[1].split()[0]
            assert said == str(value) or (name == "recall" and float(said) <= float(value)), name
    assert checked >= 6


def test_a_help_shows_no_default_that_does_not_apply() -> None:
    said = help_of("reindex")
    new_index = said.partition("New index:")[2].partition("Output:")[0]
    assert re.findall(r"\[default[^\]]*\]", new_index) == ["[default: the name of its directory]"]
    assert "not the default" not in said
    assert "[default: 0.8" in help_of("init")  # options of one command are not those of another


def test_reband_says_what_readers_have_to_do_which_is_nothing(tmp_path: Path) -> None:
    assert "open the index again" not in help_of("reband")
    assert "their next question sees the new bands" in help_of("reband")
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.9) as index:
        index.add([("a", "one two three four five six")])
        Index.reband(path, threshold=0.5)
        assert [hit.key for hit in index.query("one two three four five six")] == ["a"]
        assert index.params.threshold == 0.5
    service = (ROOT / "docs" / "guides" / "service.md").read_text("utf-8")
    assert "open the index again in each worker" not in service


def commands() -> list[str]:
    return cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("name", commands())
def test_a_number_that_a_help_names_as_default_is_the_default(name: str) -> None:
    """Where click knows the default, a text that names another one is wrong."""
    context = click.Context(cli)
    command = cli.get_command(context, name)
    assert command is not None
    for option in command.params:
        text = getattr(option, "help", None) or ""
        match = re.search(r"\[default: ([\d.]+)\b", text)
        if match is not None and isinstance(option.default, int | float):
            assert float(match[1].rstrip(".")) == option.default, option.name
        if match is not None:
            assert not getattr(option, "show_default", False), f"{option.name} says it twice"
