"""Minima are as evenly spread as docs/concepts/min-wise.md says, and the page's table is right."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from benchmarks import plot_minima
from lshdb.kernel.lookup_tables import SCHEMES
from lshdb.signatures import sign
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "concepts" / "min-wise.md").read_text(encoding="utf-8")
DRAWS = 3_000
LIMIT = 60.0
"""Chi-squared of 20 degrees is larger once in 140,000 times."""


@pytest.mark.fast
@pytest.mark.parametrize(
    ("scheme", "kind"),
    [("fss", "shingles"), ("universal", "shingles"), ("fss", "numbers")],
)
def test_each_element_holds_the_minimum_equally_often(scheme: str, kind: str) -> None:
    counts = plot_minima.minima(scheme, kind, DRAWS)
    assert counts.sum() == DRAWS
    assert plot_minima.chi_squared(counts) < LIMIT


def test_what_is_not_even_is_noticed() -> None:
    """Linear functions of numbers in a row; the ends hold the minimum most often."""
    counts = plot_minima.minima("universal", "numbers", DRAWS)
    assert plot_minima.chi_squared(counts) > LIMIT
    assert set(np.argsort(counts)[-2:].tolist()) == {0, plot_minima.ELEMENTS - 1}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_slot_of_a_set_is_that_of_one_element(scheme: str) -> None:
    """By which the holder of the minimum is found."""
    whole = plot_minima.elements("shingles")
    rows = sign([whole, *np.split(whole, len(whole))], scheme=scheme, num_perm=64, seed=5)
    assert (rows[1:] == rows[0]).sum(axis=0).tolist() == [1] * 64


def test_chi_squared_against_the_tables() -> None:
    """The 5 and 1 per cent points of 20 degrees of freedom are 31.41 and 37.57."""
    assert plot_minima.probability_beyond(31.410, 20) == pytest.approx(0.05, abs=1e-4)
    assert plot_minima.probability_beyond(37.566, 20) == pytest.approx(0.01, abs=1e-4)
    assert plot_minima.probability_beyond(LIMIT, 20) == pytest.approx(1 / 140_000, rel=0.1)
    assert plot_minima.chi_squared(np.array([12, 8])) == pytest.approx(0.8)


def test_the_bits_on_the_page() -> None:
    listed = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert len(listed) == 4
    for n, bits in listed:
        assert bits == f"{plot_minima.family_bits(int(n.replace(',', ''))):,.0f}"
    assert plot_minima.family_bits(10) == math.log2(2520)


def test_the_chances_on_the_page_follow_from_its_statistics() -> None:
    lines = re.findall(r"^\| `\w+` \| \w+ \| ([\d.,]+) \| ([\w. ]+) \|", PAGE, re.MULTILINE)
    assert len(lines) == 4
    for statistic, chance in lines:
        found = plot_minima.probability_beyond(float(statistic.replace(",", "")), 20)
        if chance == "below 0.005":
            assert found < 0.005
        else:
            assert abs(found - float(chance)) <= 0.01


def test_the_picture_has_a_line_for_each_case() -> None:
    counts = np.full(plot_minima.ELEMENTS, 5, dtype=np.int64)
    drawn = plot_minima.draw({(scheme, kind): counts for scheme, kind, _ in plot_minima.CASES})
    stored = (ROOT / "docs" / "concepts" / "minima.svg").read_text(encoding="utf-8")
    names = [f"{scheme}, {kind}" for scheme, kind, _ in plot_minima.CASES]
    assert all(f">{name}<" in drawn and f">{name}<" in stored for name in names)
