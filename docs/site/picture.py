"""Draw the picture of the first page, a cluster of a report, in light and in dark.

    python docs/site/picture.py

It needs ``pip install '.[test]'`` and Chromium, and writes ``docs/assets/cluster-*.png``.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from lshdb import Index, read_documents

ASSETS = Path(__file__).resolve().parents[1] / "assets"
FEEDS = {
    "press.jsonl": (
        "press-1871-0412",
        "14. Whoever draws water from the upper canal between May and September shall first ask "
        "the keeper of the lock, and shall close the gate behind him before the evening bell, on "
        "pain of a fine of two florins, of which the keeper has the half.",
    ),
    "radio.jsonl": (
        "radio-1871-0087",
        "14. Whoever draws water from the upper ca nal between May and September shall first ask "
        "the keeper of the lock, and shall close the gatc behind him before the evening bell, on "
        "pain of a fine of two florins, of which the keeper has the half.",
    ),
    "wire.jsonl": (
        "wire-1873-0219",
        "§ 14. Whoever draws water from the upper canal between May and September shall first ask "
        "the keeper of the lock, and shall close the gate behind him before the evening bell, on "
        "pain of a fine of two fiorins, of which the keeper has the half.",
    ),
}
"""Three scans of one rule about a canal."""


def main() -> None:
    """Make the index and its report, open its cluster, and draw that."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        sync_playwright() as playwright,
    ):
        with Index.create("rules.lshdb", threshold=0.5) as index:
            for name, (key, text) in FEEDS.items():
                Path(name).write_text(json.dumps({"id": key, "text": text}))
                index.add(read_documents([name]))
            report = Path(folder, index.report("report.html").path)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(
                color_scheme=scheme,
                viewport={"width": 806, "height": 1200},
                device_scale_factor=1.25,
            )
            page.goto(report.as_uri())
            cluster = page.locator(".cluster").first
            cluster.locator("summary").first.click()
            page.mouse.move(0, 0)
            cluster.locator(".more").evaluate_all("all => all.forEach((each) => each.remove())")
            cluster.locator(".member").evaluate_all(
                "all => all.forEach((each, number) => { each.open = number === 2 })"
            )
            top, height = cluster.evaluate(
                "each => [each.getBoundingClientRect().top + scrollY, each.offsetHeight]"
            )
            page.screenshot(
                path=ASSETS / f"cluster-{scheme}.png",
                full_page=True,
                clip={"x": 0, "y": top, "width": 806, "height": height - 40},
            )
        browser.close()


if __name__ == "__main__":
    main()
