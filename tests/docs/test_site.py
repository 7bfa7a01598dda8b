"""What MkDocs is given: every page is in the navigation, and the reference names everything."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType
from typing import Any

import pytest

import lshdb
from lshdb.cli._group import COMMANDS
from tests.docs.blocks import PAGES, ROOT

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "site" / "hooks.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module  # type: ignore[no-any-return]


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    named = re.findall(r"([\w/.-]+\.md)$", navigation, re.MULTILINE)
    there = [path.relative_to(ROOT / "docs").as_posix() for path in PAGES[1:]]
    assert sorted(named) == sorted(there)


def test_every_command_has_a_page_with_its_options(hooks: ModuleType) -> None:
    listed = hooks.commands()
    for name in COMMANDS:
        assert f"[`lshdb {name}`](cli/{name}.md)" in listed
        page = hooks.command_page(name)
        assert page.startswith(f"# lshdb {name}\n")
        assert page.count("| `-h` |") == page.count("| `--help` |") == 1
        assert "\b" not in page
        assert page.count("```") % 2 == 0


def test_every_public_name_has_a_place_in_the_reference(hooks: ModuleType) -> None:
    pages = hooks.public_names()
    assert "Other names" not in pages, "docs/site/hooks.py says which page has the names of a room"
    directives = [
        name
        for title, group in pages.items()
        for name in re.findall(r"^::: lshdb\.(\w+)$", hooks.names_page(title, group), re.MULTILINE)
    ]
    assert sorted([*directives, "Index"]) == sorted(set(lshdb.__all__) - {"__version__"})
    listed = re.findall(r"\]\(python/[\w-]+\.md#lshdb\.(\w+)\)", hooks.names())
    assert sorted(listed) == sorted(directives)


def test_the_page_of_the_index_begins_with_its_core(hooks: ModuleType) -> None:
    page, others = hooks.index_page(), hooks.other_methods_page()
    assert re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE) == list(hooks.CORE)
    methods = {name for name in vars(lshdb.Index) if not name.startswith("_")}
    named = re.findall(r"^::: lshdb\.Index\.(\w+)$", others, re.MULTILINE)
    assert sorted([*hooks.CORE, *named]) == sorted(methods)


def test_the_first_page_has_the_chart_of_the_benchmarks(hooks: ModuleType) -> None:
    chart = hooks.chart(ROOT / "docs" / "benchmarks.md")
    assert chart.count("<tr") >= 4
    assert chart.index("lshdb") < chart.index("rensa")
    assert "<!-- chart -->" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_pictures_of_a_page_are_there(path: Any) -> None:
    """MkDocs looks at its own pages; README.md is none of them."""
    page = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_are_there(path: Any) -> None:
    page = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    named = re.findall(r"`(?:python |bash )?((?:tests|benchmarks|lshdb|migrations)/[\w./-]+)", page)
    in_the_wheel = ("lshdb/_docs", "lshdb/_migrations")
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not [name for name in missing if not name.startswith(in_the_wheel)]
