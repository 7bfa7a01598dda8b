"""docs/families.md names every family and shows a picture of each metric."""

from __future__ import annotations

import re

import pytest

from lshdb.params.metrics import METRICS
from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "families.md").read_text()


def test_every_family_is_in_the_table() -> None:
    table = PAGE.split("| metric | scheme |")[1].split("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    named: dict[str, set[str]] = {}
    metric = ""
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        metric = re.sub(r"\[`([\w-]+)`\].*", r"\1", cells[0]) or metric
        named.setdefault(metric, set()).update(re.findall(r"`(\w+)`", cells[1]))
    assert named == {name: set(kind.families) for name, kind in METRICS.items()}


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_a_section_and_a_picture(metric: str) -> None:
    sections = {re.sub(r"\W+", "", title).lower() for title in re.findall(r"^## (.*)$", PAGE, re.M)}
    title = "jaccardofbits" if metric == "jaccard-bits" else metric.replace("-", "")
    assert title in sections
    assert f"![{metric}](families/{metric}.svg)" in PAGE
    assert (DOCS / "families" / f"{metric}.svg").read_text().startswith("<?xml")
