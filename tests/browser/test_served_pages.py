"""The pages of a server as a person uses them, with and without scripts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from lshdb import Index
from tests.browser.conftest import Opened
from tests.conftest import family_corpus

Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("served") / "x.lshdb"
    with Index.create(path, threshold=0.4, k=2) as index:
        index.add(family_corpus(7, families=4))
        index.add([("old", "the council closed the OLD bridge on monday"),
                   ("<b>new", "the council closed the new bridge on monday")])  # fmt: skip
        index.update_clusters()
    command = [sys.executable, "-m", "lshdb", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
        server.terminate()


def require_own(opened: Opened, served: str) -> None:
    """No error, and no request but to the server."""
    assert opened.errors == []
    assert [one for one in opened.requests if not one.startswith((served, "data:"))] == []


@pytest.mark.parametrize("scripts", [True, False])
def test_from_a_search_to_a_pair_by_keyboard(open_page: Open, served: str, scripts: bool) -> None:
    opened = open_page(served, java_script_enabled=scripts)
    page = opened.page
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"
    page.fill("#text", "the council closed the OLD bridge on monday")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hit")
    assert page.locator(".hit .key").first.inner_text() == "old"
    assert page.locator(".hit ins").first.inner_text() == "new"
    page.locator(".hit .key").nth(1).click()
    assert page.inner_text("h1") == "<b>new"
    page.click("text=Similar documents")
    page.click("text=compare")
    assert page.inner_text("#verdict") == "Near-duplicates"
    assert page.locator("del").inner_text() == "new"
    page.click("nav >> text=Clusters")
    page.locator("main ol a").first.click()
    assert page.locator(".member").count() > 2
    require_own(opened, served)


@pytest.mark.parametrize(
    ("width", "dark", "paths"),
    [
        (1280, True, ["/similar?key=old", "/clusters", "/pair?key1=old&key2=%3Cb%3Enew", "/docs"]),
        (390, False, ["/cluster?key=old", "/buckets", "/index", "/document?key=none"]),
    ],
)
def test_axe_finds_nothing_serious(
    open_page: Open, served: str, width: int, dark: bool, paths: list[str]
) -> None:
    for path in paths:
        opened = open_page(served + path, width=width, dark=dark)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, path
        opened.require_accessible()
        if "none" not in path:
            require_own(opened, served)
