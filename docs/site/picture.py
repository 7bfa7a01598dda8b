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
        "CA1858-006150",
        "565. If the property taken be claimed by any other person than the defendant or his "
        "agent, and such person make affidavit of his title thereto, or right to the possession "
        "thereof, stating the grounds of such title or right, and serve the same upon the officer.",
    ),
    "radio.jsonl": (
        "CA1868-005640",
        "565. If the property ta ken be claimed by any other person than the defendant or his "
        "agent, and such person make affidavit of his title thereto, or right to the posseeelon "
        "thereof, stating the grounds of such title or right, and serve the same upon the officer.",
    ),
    "wire.jsonl": (
        "NV1861-004380",
        "§ 565. If the property taken be claimed by any other person than the defendant or his "
        "agent, and such person make affidavit of his title thereto, or right to the possession "
        "thereof, stating the grounds of such title or right, and serve the same upon the oflicer.",
    ),
}
"""Three scans of one section of the codes of California and Nevada."""


def main() -> None:
    """Make the index and its report, open its cluster, and draw that."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        sync_playwright() as playwright,
    ):
        with Index.create("codes.lshdb", threshold=0.5) as index:
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
