"""A headless Chromium that notes every error and every request of a page.

It is the machine's own (``chromium`` of Debian, ``google-chrome``), driven by Playwright; nothing
is downloaded. Without one, or without Playwright, these tests are skipped, unless
``LSHDB_BROWSER=required``, which ``.ci/run`` sets.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class Opened:
    """A page, what it logged as errors, and the addresses that it asked for."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def require_quiet(self) -> None:
        """No error, and no request but for the page itself and what it makes on its own."""
        assert self.errors == []
        home = self.page.url.split("#")[0]
        elsewhere = [
            one for one in self.requests if one != home and not one.startswith(("data:", "blob:"))
        ]
        assert elsewhere == []

    def require_accessible(self) -> None:
        """Let axe find no serious or critical violation."""
        from axe_core_python.sync_playwright import Axe

        found = Axe().run(self.page)
        bad = [
            (one["id"], one["nodes"][0]["html"][:200], len(one["nodes"]))
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert bad == []


def _unusable(reason: str) -> None:
    if os.environ.get("LSHDB_BROWSER") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for the tests of a module: Playwright runs an event loop as long as it lives."""
    program = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if program is None:
        _unusable("no Chromium is installed (apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _unusable("playwright is not installed (pip install '.[test]')")
        raise
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP *.example 127.0.0.1"],
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Opened]]:
    """Open an address or a file: in light or dark, as wide as wanted."""
    contexts = []

    def open_it(
        address: str | Path, *, width: int = 1280, dark: bool = False, **more: Any
    ) -> Opened:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            bypass_csp=False,
            accept_downloads=True,
            **more,
        )
        contexts.append(context)
        page = context.new_page()
        opened = Opened(page)
        page.on(
            "console",
            lambda said: opened.errors.append(said.text) if said.type == "error" else None,
        )
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.on("dialog", lambda dialog: (opened.errors.append(dialog.message), dialog.dismiss()))
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        return opened

    yield open_it
    for context in contexts:
        context.close()
