"""The report as a person uses it: in a browser, by mouse and keyboard, narrow and dark."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Document, Index
from tests.browser.conftest import Opened
from tests.conftest import family_corpus
from tests.report.test_report import HOSTILE, HOSTILE_KEYS

Open = Callable[..., Opened]

MOVED = "this whole sentence of eight words stands elsewhere now"


def _texts() -> list[tuple[str, str]]:
    words = [f"word{number}" for number in range(120)]
    slides = [(f"slide-{n}", " ".join(words[2 * n : 2 * n + 80])) for n in range(16)]
    rest = " ".join(f"unlike{number}" for number in range(60))
    return [
        *slides,
        ("moved-1", f"{MOVED} {rest} the OLD end"),
        ("moved-2", f"{rest} the new end {MOVED}"),
    ]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    with Index.create(folder / "x.lshdb", threshold=0.5, k=2) as index:
        corpus = family_corpus(6, families=8)
        half = len(corpus) // 2
        parts = [("first", corpus[:half]), ("second", corpus[half:]), ("slides", _texts())]
        for name, some in parts:
            index.add(Document(key, text, f"{name}.jsonl:1") for key, text in some)
        index.report(folder / "report.html")
        index.report(folder / "small.html", limit=3)  # axe takes 10 ms an element
    return folder / "report.html"


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    with Index.create(folder / "<script>alert(9)<script>.lshdb") as index:
        for number, text in enumerate(HOSTILE):
            keys = [f"{key} {number}.{copy}" for copy, key in enumerate(HOSTILE_KEYS)]
            same = "and a few more words that all of these texts have in common"
            index.add(
                Document(key, f"{text} {same} {place}", "<b onmouseover=alert(8)>.jsonl:1")
                for place, key in enumerate(keys)
            )
        index.report(folder / "report.html")
    return folder / "report.html"


def shown(opened: Opened, selector: str) -> list[Any]:
    return [one for one in opened.page.locator(selector).all() if one.is_visible()]


@pytest.mark.fast
def test_it_opens_without_an_error_or_a_request(open_page: Open, report: Path) -> None:
    opened = open_page(report)
    assert opened.page.title().startswith("Report on")
    assert shown(opened, "svg.chart")
    assert len(shown(opened, ".cluster")) > 5
    opened.require_quiet()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True), (360, False)])
def test_axe_finds_nothing_serious(open_page: Open, report: Path, width: int, dark: bool) -> None:
    opened = open_page(report.with_name("small.html"), width=width, dark=dark)
    for kind in (".bucket", ".cluster", ".member", "figure .more", ".button"):
        opened.page.locator(kind).evaluate_all("all => all.map(each => { each.open = true })")
    opened.require_accessible()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.require_quiet()


def test_clusters_are_filtered_and_opened(open_page: Open, report: Path) -> None:
    from playwright.sync_api import expect

    opened = open_page(report)
    page = opened.page
    visible = page.locator(".cluster:not([hidden])")
    everything = visible.count()
    slides = page.locator(".cluster[data-sources*=slides]").count()
    assert 0 < slides < everything
    page.click("#cluster-filter .button > summary")
    page.fill("#cluster-filter [name=source]", "slides")
    expect(visible).to_have_count(slides)
    page.fill("#cluster-filter [name=text]", "moved-1")
    expect(visible).to_have_count(1)
    assert page.inner_text("#cluster-count") == f"1 of {everything} clusters"
    visible.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert visible.locator("del").first.inner_text() == "OLD"
    assert visible.locator("ins").first.inner_text() == "new"
    moved = visible.locator(".moved").first
    assert MOVED in moved.inner_text()
    assert moved.get_attribute("title") == "moved, line 1 of the other text"
    page.click("#cluster-filter button[type=reset]")
    expect(visible).to_have_count(everything)
    page.fill("#cluster-filter [name=size]", "1000")
    expect(visible).to_have_count(0)
    opened.require_quiet()


def test_a_search_marks_its_words_and_clusters_have_an_order(open_page: Open, report: Path) -> None:
    from playwright.sync_api import expect

    opened = open_page(report)
    page = opened.page
    marked = "[...CSS.highlights.get('search')].map((range) => range.toString().toLowerCase())"
    page.fill("#cluster-filter [name=text]", "Elsewhere now")
    expect(page.locator("#cluster-count")).to_contain_text("1 of")
    assert set(page.evaluate(marked)) == {"elsewhere now"}
    page.fill("#cluster-filter [name=text]", "unlike59")  # behind the words of the closed line
    page.wait_for_selector(".hit:not([hidden])")
    hit = shown(opened, ".hit")[0].inner_text()
    assert hit.startswith("in moved-") and "unlike59" in hit
    page.fill("#cluster-filter [name=text]", "")
    highs = "[...document.querySelectorAll('.cluster')].map((each) => Number(each.dataset.high))"
    page.select_option("#cluster-filter [name=sort]", "near")
    expect(page.locator(".cluster").first).to_have_attribute("data-high", "1.0")
    assert page.evaluate(f"{highs}.every((high, n, all) => !n || high <= all[n - 1])")
    opened.require_quiet()


def test_a_text_that_stands_beside_another_is_shown_alone(open_page: Open, tmp_path: Path) -> None:
    same = "of the mill walks home before the rain"
    texts = [f"the Reeve {same} at OLD noon", f"the reeve {same} or not at new noon"]
    with Index.create(tmp_path / "x.lshdb", threshold=0.3, k=1) as index:
        index.add(zip("ab", texts, strict=True))
        index.report(tmp_path / "report.html")
    opened = open_page(tmp_path / "report.html")
    assert opened.page.locator(".clamp *").count() == 0
    opened.page.locator(".cluster > summary").click()
    opened.page.locator(".side").first.wait_for()
    shown = [opened.page.inner_text(".clamp")]
    shown += [text.inner_text() for text in opened.page.locator(".side").all()[:2]]
    assert shown == [texts[0], *texts]
    opened.require_quiet()


def test_what_is_shown_has_an_address(open_page: Open, report: Path) -> None:
    from playwright.sync_api import expect

    opened = open_page(report)
    page = opened.page
    page.fill("#cluster-filter [name=text]", "100% of word7 & more")
    expect(page.locator(".cluster:not([hidden])")).to_have_count(0)
    page.fill("#cluster-filter [name=text]", "word")
    page.select_option("#cluster-filter [name=sort]", "last")
    expect(page).to_have_url(f"{report.as_uri()}#text=word&sort=last")
    cluster = page.locator(".cluster:not([hidden])").first
    cluster.locator("summary").first.click()
    expect(page).to_have_url(re.compile("&open=[0-9]+$"))
    page.reload()
    assert page.input_value("#cluster-filter [name=text]") == "word"
    assert page.input_value("#cluster-filter [name=sort]") == "last"
    assert cluster.get_attribute("open") is not None
    page.locator(".heat a").first.click()
    night = page.input_value("#cluster-filter [name=night]")
    shown = page.locator(".cluster:not([hidden])")
    assert night and 0 < shown.count() < page.locator(".cluster").count()
    assert shown.locator(f".squares b:nth-child({night})[class]").count() == shown.count()
    page.go_back()
    expect(page.locator("#cluster-filter [name=text]")).to_have_value("word")
    page.goto(f"{report.as_uri()}#text=%&page=-4&night=99&open=x")  # by hand, and wrong
    page.reload()
    assert page.input_value("#cluster-filter [name=text]") == "%"
    opened.require_quiet()


def test_a_stack_is_gone_through_by_keys_and_saved_as_labels(open_page: Open, report: Path) -> None:
    opened = open_page(report)
    page = opened.page
    visible = page.locator(".pair:not([hidden])")
    pairs = page.locator(".pair")
    assert pairs.count() > 4 and visible.count() == 1
    assert page.is_disabled("#save-labels")
    assert "answer a pair first" in page.inner_text("#label-count")
    page.locator("#pairs").scroll_into_view_if_needed()
    keys = [
        [each.get_attribute(f"data-key{side}").strip('"') for side in (1, 2)]
        for each in pairs.all()
    ]
    page.click("#answers [data-answer=yes]")  # and space does not press it again
    for key in (" ", "n", "u", "n"):
        page.keyboard.press(key)
    assert page.inner_text("#stack-place").startswith(
        f"Pair 4 of {pairs.count()}; 1 the same, 1 different, 1 skipped"
    )
    page.reload()  # answers are kept in the browser at once
    assert page.inner_text("#stack-place").startswith("Pair 4 of")
    page.keyboard.press("y")
    with page.expect_download() as waiting:
        page.click("#save-labels")
    assert waiting.value.suggested_filename == "labels.tsv"
    rows = zip((keys[0], keys[2], keys[3]), ("yes", "no", "yes"), strict=True)
    assert Path(waiting.value.path()).read_text() == "".join(
        f"{one}\t{other}\t{mark}\n" for (one, other), mark in rows
    )
    opened.require_quiet()


def test_texts_flow_until_their_lines_are_asked_for(open_page: Open, tmp_path: Path) -> None:
    lines = [" ".join(f"word{10 * line + n}" for n in range(9)) for line in range(4)]
    with Index.create(tmp_path / "x.lshdb", threshold=0.3, k=2) as index:
        index.add([("a", "\n".join([*lines, "OLD"])), ("b", "\n".join([*lines, "new"]))])
        (tmp_path / "pair.html").write_text(index.explain_page("a", "b"))
    page = open_page(tmp_path / "pair.html", width=390).page
    heights = "document.querySelector('.diff .sides:last-child').offsetHeight"
    before = page.evaluate(heights)
    columns = page.locator(".diff .side:first-child")
    assert not columns.first.is_visible()  # one column, with the changes in it
    page.click("text=Show the original line breaks")
    assert page.inner_text(".breaks") == "Let the text flow"
    assert page.evaluate(heights) != before
    assert page.locator(".side-names").inner_text().split() == [
        "only", "in", "a", "only", "in", "b",
    ]  # fmt: skip


def test_it_says_the_same_without_scripts(open_page: Open, report: Path) -> None:
    opened = open_page(report, java_script_enabled=False)
    assert len(shown(opened, ".cluster")) > 5
    opened.page.locator(".cluster summary").first.click()
    assert shown(opened, ".member ins") and shown(opened, ".member del")
    assert not shown(opened, "#cluster-filter")
    opened.require_quiet()


def test_hostile_documents_do_nothing(open_page: Open, hostile_report: Path) -> None:
    opened = open_page(hostile_report)
    page = opened.page
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    for selector in (".key", ".text", "bdi"):
        for one in page.locator(selector).all()[:40]:
            if one.is_visible():
                one.hover(timeout=2_000, force=True)
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    assert "<script>alert(1)</script>" in page.inner_text("main")
    assert "<script>alert(9)<script>" in page.title()
    opened.require_quiet()


def test_the_page_of_a_pair(open_page: Open, tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", threshold=0.3, k=2) as index:
        index.add(_texts())
        (tmp_path / "pair.html").write_text(index.explain_page("moved-1", "moved-2"))
    for width, dark in [(1280, False), (390, True)]:
        opened = open_page(tmp_path / "pair.html", width=width, dark=dark)
        assert opened.page.inner_text("del") == "OLD"
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        opened.require_accessible()
        opened.require_quiet()
