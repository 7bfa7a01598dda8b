"""The pages of a server as a person uses them, with and without scripts."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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
    command += ["--allow-host", "lan.example"]
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
    assert page.locator("del").first.inner_text() == "new"
    page.click("nav >> text=Clusters")
    page.locator(".rows .under a").first.click()
    assert page.locator(".member").count() > 2
    require_own(opened, served)


def test_the_form_works_under_a_name_that_a_browser_does_not_trust(
    open_page: Open, served: str
) -> None:
    """There a browser sends no ``Sec-Fetch-Site``; ``Origin`` alone says whose form it is."""
    page = open_page(served.replace("127.0.0.1", "lan.example")).page
    page.fill("#text", "the council closed the OLD bridge on monday")
    page.click("form[data-longest] button")
    page.wait_for_selector(".hit")
    assert page.locator(".hit .key").first.inner_text() == "old"
    assert "/?text=the+council" in page.url
    page.fill("#text", "the council closed the OLD bridge on monday " * 200)
    page.click("text=Top 20")
    page.fill("[name=threshold]", "0.01")
    with page.expect_request(lambda request: request.method == "POST"):
        page.click("form[data-longest] button")
    page.wait_for_selector("text=too long for an address")
    assert page.url.endswith("/")
    page.go_back()
    assert "/?text=the+council" in page.url


ELSEWHERE = """
<a href="{served}/document?key=old">a link</a>
<img src="{served}/pair?key1=old&amp;key2=old" alt="">
<form method="post" action="{served}/"><input name="text" value="a"><button>Send</button></form>
<script>
fetch("{served}/api/stats", {{mode: "no-cors"}}).then(() => document.title = "asked");
</script>
"""


def counted(served: str, pattern: str) -> int:
    with urllib.request.urlopen(f"{served}/metrics") as answer:
        lines = re.findall(f"lshdb_requests_total{pattern} (.*)", answer.read().decode())
    return int(sum(float(line) for line in lines))


def refused(served: str) -> int:
    return counted(served, r'\{method="GET",route="none",status="403"\}')


def answered(served: str) -> int:
    return counted(served, r'\{method="GET",route="/(?:pair|api/stats)",.*\}')


@pytest.mark.parametrize("name", ["other.example", "localhost", "127.0.0.1"])
def test_a_page_of_another_site_may_only_link(
    open_page: Open, served: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(ELSEWHERE.format(served=served))
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever).start()
        try:
            page, before = open_page("about:blank").page, (refused(served), answered(served))
            statuses: dict[str, int] = {}
            page.on("response", lambda answer: statuses.update({answer.url: answer.status}))
            page.goto(f"http://{name}:{elsewhere.server_port}/page.html")
            page.wait_for_load_state("networkidle")
            # The browser shows neither answer to the page; the server counts both as refused.
            assert [refused(served), answered(served)] == [before[0] + 2, before[1]]
            page.click("text=Send")
            page.wait_for_url(f"{served}/")
            assert statuses[f"{served}/"] == 403
            page.go_back()
            page.click("text=a link")
            page.wait_for_url("**/document?key=old")
            assert page.inner_text("h1") == "old"
        finally:
            elsewhere.shutdown()


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


@pytest.mark.parametrize("width", [360, 1280])
def test_a_long_key_and_the_options_stay_on_the_page(
    open_page: Open, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.4, k=2) as index:
        text = "the council closed the old bridge on monday"
        index.add([("k" * 500, text), ("k" * 500 + "2", text + " morning")])
        index.update_clusters()
    command = [sys.executable, "-m", "lshdb", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        try:
            for page in ("/", "/clusters", "/clusters?text=morning", "/buckets",
                         "/cluster?key=" + "k" * 500, "/similar?key=" + "k" * 500):  # fmt: skip
                opened = open_page(address + page, width=width)
                opened.page.locator("details").evaluate_all("all => all.map(d => d.open = true)")
                assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, page
        finally:
            server.terminate()
