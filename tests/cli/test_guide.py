"""``lshdb guide``: the pages that hints name can be read wherever lshdb is installed."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

import lshdb
from lshdb.cli.guide import pages
from tests.cli.conftest import ROOT, Run

PACKAGE = Path(lshdb.__file__).parent


def test_pages_are_listed_with_their_titles(run: Run) -> None:
    lines = run("guide").stdout.splitlines()
    listed = dict(line.split("\t") for line in lines)
    assert lines[0] == "tutorial\tTutorial"
    assert listed["postgres"] == "An index in Postgres"
    assert {"input", "format", "elsewhere", "check", "nightly", "recall", "output"} <= set(listed)
    assert all(listed.values())


def test_every_page_for_users_is_there_and_has_a_name_of_its_own() -> None:
    found = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    generated = {"index", "cli", "changelog", "releasing"}
    assert sorted(pages()) == sorted(path.stem for path in found if path.stem not in generated)


@pytest.mark.parametrize("name", list(pages()))
def test_a_page_is_written_as_markdown(run: Run, name: str) -> None:
    shown = run("guide", name).stdout
    page = pages()[name].read_text()
    if name == "python":
        page, shown = page.split("<!-- public")[0], shown.split("## Index")[0]
    written = re.sub(r"^<!-- .* -->\n", "", page, flags=re.MULTILINE)
    assert shown.rstrip("\n") == written.rstrip("\n")
    assert "<!--" not in shown


def test_the_page_of_names_has_all_of_them(run: Run) -> None:
    shown = run("guide", "python").stdout
    named = dict(re.findall(r"^- `([\w.]+)`: (.+)$", shown, re.MULTILINE))
    assert set(lshdb.__all__) - {"__version__", "Index", "Body"} <= set(named)
    methods = {name for name in vars(lshdb.Index) if not name.startswith("_")}
    assert {f"Index.{name}" for name in methods} <= set(named)
    assert named["Index.pairs"] == "Stream all near-duplicate pairs, each once."
    assert named["Hits"] == "The answer to a query: hits, best first."


def test_a_page_that_is_not_there(run: Run) -> None:
    said = run("guide", "postgers", code=2).stderr
    assert "there is no page 'postgers'; did you mean postgres?" in said
    assert "Traceback" not in said


def test_a_terminal_is_shown_a_drawn_page(
    on_terminal: Callable[..., tuple[int, str]],
) -> None:
    code, shown = on_terminal("guide", "recall", columns=70, PAGER="cat")
    assert code == 0
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "What recall means" in plain
    assert "# What recall" not in plain
    assert "```" not in plain
    assert "Metrics (lshdb guide families)" in " ".join(plain.split())
    assert all(len(line) <= 70 for line in plain.splitlines())


@pytest.mark.parametrize("name", list(pages()))
def test_every_page_can_be_drawn(name: str) -> None:
    from lshdb.cli.guide import draw_markdown

    page = pages()[name].read_text()
    drawn = draw_markdown(page, pages=pages(), width=80, styled=False)
    assert "\x1b" not in drawn
    assert all(cell_len(line) <= 80 for line in drawn.splitlines())
    named = re.findall(r"lshdb guide ([a-z-]+)\b", " ".join(drawn.split()))
    assert set(named) <= set(pages()) | {"lshdb"}, named


@functools.cache
def strings() -> list[tuple[str, str]]:
    """Strings that users are shown: all but docstrings, which are help in ``cli/`` alone."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        commands = {
            id(made.body[0])
            for made in ast.walk(tree)
            if isinstance(made, ast.FunctionDef) and path.parent.name == "cli"
        }
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and id(node) not in commands
        }
        found += [
            (path.name, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ]
    return found


def test_messages_name_pages_that_are_there() -> None:
    named = [
        (module, page)
        for module, text in strings()
        for page in re.findall(r"lshdb\s+guide\s+([a-z-]+)", text)
        if module != "guide.py"
    ]
    assert len(named) >= 6
    assert all(page in pages() for _, page in named), named
    unreachable = [found for found in strings() if re.search(r"docs/\S*\.md", found[1])]
    assert not unreachable


def test_pages_are_in_the_wheel() -> None:
    """What ``pip install`` would put beside the code, without building the kernel."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert data["package-dir"]["lshdb._docs"] == "docs"
    assert "lshdb._docs" in data["packages"]
    patterns = data["package-data"]["lshdb._docs"]
    packed = {path for pattern in patterns for path in (ROOT / "docs").glob(pattern)}
    assert set(pages().values()) <= packed
    assert not list((ROOT / "docs").glob("*.py")), "would become modules of lshdb._docs"
