"""The pictures of docs/concepts are those that benchmarks/plot_concepts.py draws, and true."""

from __future__ import annotations

import xml.etree.ElementTree
from collections.abc import Callable

import pytest

from benchmarks import plot_concepts
from lshdb import candidate_probability
from tests.docs.blocks import ROOT


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("bands", plot_concepts.draw_bands),
        ("edits", plot_concepts.draw_edits),
        ("steps", plot_concepts.draw_steps),
        ("thresholds", plot_concepts.draw_thresholds),
    ],
)
def test_a_picture_is_what_is_drawn_today(name: str, draw: Callable[[], str]) -> None:
    assert (ROOT / "docs" / "concepts" / f"{name}.svg").read_text(encoding="utf-8") == draw()


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "concepts").glob("*.svg")), ids=str)
def test_a_picture_can_be_read(path: object) -> None:
    root = xml.etree.ElementTree.parse(str(path)).getroot()
    assert root.tag.endswith("svg")
    assert root[0].text  # a title, for those who do not see it


@pytest.mark.sqlite("finds pairs in files of its own")
def test_measured_points_lie_on_the_curve() -> None:
    for similarity, share, _ in plot_concepts.measured(0.8, 60):
        expected = candidate_probability(similarity, 16, 6)
        assert abs(share - expected) <= 4.0 * (expected * (1.0 - expected) / 60) ** 0.5 + 0.02
