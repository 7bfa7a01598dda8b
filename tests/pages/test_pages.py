"""The frame of all pages: escaping, the policy, what is not seen, and drawings."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import html5lib
import pytest

from lshdb import CreateOptions, s_curve
from lshdb.errors import LshdbError, ParameterError, install_command
from lshdb.pages import (
    Link,
    MeasuredPoint,
    Page,
    asset_version,
    heats,
    histogram,
    inline_assets,
    make_environment,
    range_bar,
    read_asset,
    s_curve_chart,
    served_assets,
    visible,
)
from lshdb.pages.environment import (
    _own_text,
    day,
    moment,
    similarity,
    size,
    text_parts,
    unseen_in,
)
from lshdb.signatures.families import params_for

HOSTILE = "\"><script>alert(1)</script>\u202e]]>'\x1b[31m"


def parse(text: str) -> Any:
    """Parse a page; any error of its HTML is one of the test."""
    parser = html5lib.HTMLParser(strict=False, namespaceHTMLElements=False)
    tree = parser.parse(text)
    assert not parser.errors, parser.errors[:5]
    return tree


def base(page: Page) -> str:
    return make_environment().get_template("base.html").render(page=page)


@pytest.mark.fast
def test_everything_in_the_frame_is_escaped() -> None:
    page = Page(
        title=HOSTILE, subtitle=HOSTILE, footer=HOSTILE, assets=inline_assets(),
        links=(Link(HOSTILE, HOSTILE, is_current=True),),
    )  # fmt: skip
    text = base(page)
    tree = parse(text.replace("\x1b", ""))  # the address of a link is the caller's
    assert len(tree.findall(".//script")) == 1
    assert visible(HOSTILE) == tree.find(".//h1").find("bdi").text
    assert "\u202e" not in tree.find(".//title").text


def test_the_policy_has_the_hash_of_all_that_runs_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "more.js").write_text("let more;")
    tree = parse(base(Page(title="a", assets=inline_assets(tmp_path / "more.js"))))
    (policy,) = [
        element.get("content") for element in tree.iter("meta") if element.get("http-equiv")
    ]
    inline = [*tree.iter("style"), *tree.iter("script")]
    assert len(inline) == 3
    assert set(re.findall("'sha256-(.*?)'", policy)) == {
        base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        for element in inline
    }
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert not any(element.get("src") for element in tree.iter("script"))


def test_no_template_has_what_the_policy_refuses() -> None:
    import lshdb

    for path in Path(lshdb.__file__).parent.rglob("templates/*.html"):
        text = path.read_text()
        assert not re.search(r"\s(style|on\w+)=|javascript:|\|\s*safe\b|autoescape", text), path


def test_a_served_page_links_to_its_assets() -> None:
    tree = parse(base(Page(title="a", assets=served_assets("/assets/"))))
    scripts = [element.get("src") for element in tree.iter("script")]
    assert scripts == [f"/assets/page.js?v={asset_version('page.js')}"]
    assert not [element for element in tree.iter("meta") if element.get("http-equiv")]
    sheets = [
        element.get("href") for element in tree.iter("link") if element.get("rel") == "stylesheet"
    ]
    assert sheets == [f"/assets/style.css?v={asset_version('style.css')}"]
    body, kind = read_asset("style.css")
    assert b":root" in body and kind == "text/css; charset=utf-8"
    with pytest.raises(KeyError):
        read_asset("../environment.py")


def test_a_script_that_would_end_its_element_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.js").write_text('"</script>"')
    with pytest.raises(ParameterError, match="cannot stand inside a page"):
        _own_text(tmp_path / "bad.js")


def test_a_name_that_is_not_there_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        make_environment().from_string("{{ nothing }}").render()


def test_without_jinja2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(LshdbError, match="need jinja2") as caught:
        make_environment()
    assert caught.value.hint == install_command("report")


def test_importing_the_room_does_not_import_jinja2() -> None:
    code = "import sys, lshdb.pages; assert 'jinja2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_filters() -> None:
    assert visible("a\u202eb\tc\nd\x1b") == "a⟨U+202E⟩b⇥c⏎d⟨U+001B⟩"
    parts = text_parts("a\r\nb\tc\x00\u200b\ufffe \u202ed line\x85next hy\xad\x85phen")
    assert [(part.kind, part.text, part.name) for part in parts] == [
        ("text", "a\nb\tc", ""),
        ("unseen", "␀", "U+0000 control character"),
        ("unseen", "◦", "U+200B zero width space"),
        ("unseen", "◦", "U+FFFE no character"),
        ("text", " ", ""),
        ("unseen", "⇄", "U+202E right-to-left override"),
        ("text", "d line", ""),
        ("break", "\n", ""),
        ("text", "next hy", ""),
        ("unseen", "¬", "U+00AD soft hyphen"),
        ("joint", "\n", ""),
        ("text", "phen", ""),
    ]
    assert [part.text for part in unseen_in(["a\xad\n", "\x00\xad\r\n\x85"])] == ["␀", "¬"]
    assert (day("2026-11-01"), day("2026-11-01 08:15"), day("batch 3")) == (
        "1 Nov 2026", "1 Nov 2026", "batch 3",
    )  # fmt: skip
    assert visible("\udcff") == "⟨U+DCFF⟩" and visible("Ünï שלום 漢") == "Ünï שלום 漢"
    assert [size(n_bytes) for n_bytes in (0, 1023, 1536, 2**40)] == [
        "0 bytes", "1,023 bytes", "1.5 KiB", "1.0 TiB",
    ]  # fmt: skip
    assert moment("2026-01-31 08:15:59.000001") == "2026-01-31 08:15"
    assert (similarity(0.81234), similarity(1234.5)) == ("0.812", "1,234")


def test_all_that_is_seen_as_control_is_what_the_parser_refuses() -> None:
    """Whatever the filter leaves is a character that HTML may hold."""
    codes = (*range(0x3000), *range(0xD800, 0x10000))
    left = "".join(part.text for code in codes for part in text_parts(chr(code)))
    parse(f"<!DOCTYPE html><title>a</title><p>{left.replace('<', '').replace('&', '')}</p>")


def test_a_curve_is_drawn_where_its_numbers_say() -> None:
    params = params_for(CreateOptions(threshold=0.8), None)
    curve = s_curve(params, steps=4)
    chart = s_curve_chart(curve, [MeasuredPoint(0.5, 0.25, 0.0, 1.0)])
    frame = chart.frame
    points = [tuple(map(float, point.split(","))) for point in chart.path.split()]
    assert points[0] == (frame.left, frame.bottom) and points[-1] == (frame.right, frame.top)
    (whisker,) = chart.measured
    assert whisker.x == pytest.approx((frame.left + frame.right) / 2, abs=0.1)
    assert (whisker.low, whisker.high) == (frame.bottom, frame.top)
    template = "{% from 'charts.html' import s_curve %}{{ s_curve(chart) }}"
    text = make_environment().from_string(template).render(chart=chart)
    tree = parse(f"<!DOCTYPE html><title>a</title>{text}")
    assert len(tree.findall(".//{*}circle")) == 1
    assert "25.0%" in text and "1 − (1 − p" in text


@pytest.mark.parametrize(
    "values", [[], [0.0], [3.0, 7.0, 0.0], [0.5], [1e9, 2.0]], ids=lambda each: str(len(each))
)
def test_bars_have_the_heights_of_their_values(values: list[float]) -> None:
    edges = [float(number) for number in range(len(values) + 1)]
    chart = histogram(edges, values, [value / 4 for value in values], mark=0.5)
    frame = chart.frame
    for bar, value in zip(chart.bars, values, strict=True):
        top = (frame.bottom - frame.top) * value
        highest = max(values) or 1.0
        drawn = bar.height + bar.second_height
        assert drawn <= frame.bottom - frame.top + 0.1
        assert drawn >= 0.4 * top / highest - 0.2
        assert bar.second_height == pytest.approx(drawn / 4, abs=0.2)
    macro = "{% from 'charts.html' import histogram %}"
    template = macro + "{{ histogram(c, 'b', 't', 'd', 'x', 'one', 'two') }}"
    text = make_environment().from_string(template).render(c=chart)
    tree = parse(f"<!DOCTYPE html><title>a</title>{text}")
    assert len(tree.findall(".//tbody/tr")) == len(values)


def test_a_line_stands_at_its_value_and_ticks_at_the_edges_of_bars() -> None:
    chart = histogram([0.0, 0.25, 0.5, 1.0], [3.0, 4.0, 5.0], mark=0.5)
    frame = chart.frame
    assert chart.mark == (frame.left + frame.right) / 2
    assert chart.mark + 1 == chart.bars[2].x
    assert [tick.text for tick in frame.x_ticks] == ["0", "0.25", "0.5", "1"]
    assert frame.x_ticks[2].place == chart.mark


@pytest.mark.parametrize(
    ("values", "threshold", "best", "places"),
    [([0.5, 0.75, 1.0], 0.5, 1.0, (0.0, 1.0, 0.5)), ([0.0, 1.0, 2.0], 2.0, 0.0, (0.0, 1.0, 0.5)),
     ([1.0], 0.5, 1.0, (0.98, 1.0, 1.0)), ([0.0], 0.0, 0.0, (0.0, 0.02, 0.0))],
)  # fmt: skip
def test_a_range_is_drawn_between_the_threshold_and_the_best(
    values: list[float], threshold: float, best: float, places: tuple[float, ...]
) -> None:
    bar = range_bar(values, threshold=threshold, best=best)
    assert (bar.start, bar.end, bar.middle) == places


def test_heats_are_five_steps() -> None:
    assert heats([0, 1, 50, 100]) == [0, 1, 3, 5]
    assert heats([0, 1], highest=1) == [0, 3] and heats([]) == []
