"""``lshdb explain``: two documents, or a document and a text, in every form."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.cli.conftest import BASE, NEAR, NEAR_SIMILARITY, OTHER, Run
from tests.cli.test_terminal import OnTerminal


def as_json(run: Run, *args: object) -> dict[str, Any]:
    (line,) = run("explain", *args, "--format", "jsonl").stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def as_table(run: Run, *args: object) -> str:
    return run("explain", *args, "--format", "table").stdout


def test_jsonl_holds_everything(run: Run, index_path: Path) -> None:
    said = as_json(run, index_path, "base", "near")
    with Index.open(index_path) as index:
        found = index.explain("base", "near")
    assert said == {
        "key1": "base",
        "key2": "near",
        "near_duplicate": True,
        "threshold": 0.8,
        "exact_copies": False,
        "exact": NEAR_SIMILARITY,
        "estimate": found.estimate,
        "equal_slots": found.equal_slots,
        "num_perm": 128,
        "candidate": True,
        "matched_bands": list(found.matched_bands),
        "bands": 16,
        "rows": 6,
        "recall": found.recall,
        "found": True,
        "n_shared": 56,
        "n_only1": 0,
        "n_only2": 2,
        "shared": [(found.shared or ())[place] for place in (0, 13, 27, 41, 55)],
        "only1": [],
        "only2": [" ".join(NEAR.split()[start : start + 5]) for start in (56, 57)],
    }


def test_a_table_is_for_people(run: Run, index_path: Path) -> None:
    lines = as_table(run, index_path, "base", "near").splitlines()
    assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == [
        "key1", "key2", "near_duplicate", "exact_copies", "exact", "estimate", "candidate",
        "matched_bands", "recall", "found", "shared", "only1", "only2",
    ]  # fmt: skip
    text = "\n".join(lines)
    assert "near_duplicate  yes, the threshold is 0.8" in text
    assert "exact           0.965517, 56 of 58 shingles are in both" in text
    assert "shared          56 shingles in both, 5 of them:\n                - word" in text
    assert "only1           0 shingles only in base" in text
    assert "only2           2 shingles only in near:\n" in text and text.endswith(" one more")

    unlike = as_table(run, index_path, "base", "other")
    assert "candidate       no, 0 of 16 bands of 6 rows match" in unlike
    assert "matched_bands" not in unlike and "found           no: not similar" in unlike
    copies = as_table(run, index_path, "base", "copy")
    assert "exact_copies    yes" in copies and "matched_bands   all, 0 to 15" in copies
    same = as_table(run, index_path, "base", "base")
    assert (
        "base (the same document)" in same
        and "no: a document does not form a pair with itself" in same
    )


def test_with_a_text(run: Run, index_path: Path) -> None:
    said = as_json(run, index_path, "base", "--text", NEAR)
    assert said == as_json(run, index_path, "base", "near") | {"key2": None}
    shown = as_table(run, index_path, "base", "--text", NEAR)
    assert "key2            (the text given)" in shown and "only in the text:" in shown
    nothing = as_table(run, index_path, "base", "--text", "\u200b")
    assert "estimate        none: without a word there is no signature" in nothing
    assert "found           no: a document without a shingle is not similar to anything" in nothing


def test_how_many_shingles(run: Run, index_path: Path) -> None:
    for asked, shown in (("0", 0), ("1", 1), ("7", 7), ("56", 56), ("99", 56), ("all", 56)):
        said = as_json(run, index_path, "base", "near", "--shingles", asked)
        assert (said["n_shared"], len(said["shared"])) == (56, shown)
        table = as_table(run, index_path, "base", "near", "--shingles", asked)
        assert table.count("\n                - ") == shown + min(shown, 2)
        assert (f"56 shingles in both, {shown} of them:" in table) == (0 < shown < 56)
    every = as_json(run, index_path, "base", "near", "--shingles", "all")["shared"]
    assert as_json(run, index_path, "base", "near", "--shingles", "2")["shared"] == [
        every[0],
        every[-1],
    ]
    for wrong in ("-1", "some", "", "\u00b2"):
        assert "is not 'all'" in run(
            "explain", index_path, "base", "near", "--shingles", wrong, code=2
        ).stderr  # fmt: skip


def test_tsv_and_csv_have_a_line_for_each_item(run: Run, index_path: Path) -> None:
    lines = run("explain", index_path, "base", "near", "--format", "tsv").stdout.splitlines()
    names = [line.split("\t")[0] for line in lines]
    assert (names.count("shared"), names.count("only1"), names.count("only2")) == (5, 0, 2)
    assert f"exact\t{NEAR_SIMILARITY!r}" in lines and "n_only1\t0" in lines
    text = run("explain", index_path, "base", "near", "--format", "csv").stdout
    assert [tuple(row) for row in csv.reader(io.StringIO(text))] == [
        ("field", "value"),
        *(tuple(line.split("\t")) for line in lines),
    ]


def test_without_texts(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    with Index.create(path, store_text=False) as index:
        index.add([("base", BASE), ("near", NEAR), ("copy", BASE.upper())])
    said = as_json(run, path, "base", "near")
    assert (said["exact"], said["shared"], said["n_shared"]) == (None, None, None)
    assert said["estimate"] > 0.8 and said["found"] is True
    shown = as_table(run, path, "base", "near")
    assert shown.count("not available: texts are not stored") == 2
    assert "only1" not in shown
    assert "exact           1.000000, by the hash of their" in as_table(run, path, "base", "copy")


def test_a_missed_pair_says_why(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    with Index.create(path, threshold=0.3, k=1, bands=1, rows=100) as index:
        index.add([("a", "one two three four"), ("b", "one two three five")])
    shown = as_table(run, path, "a", "b")
    assert "no: the pair is missed, because no band matches" in shown
    assert "recall          0.0000, the probability" in shown


def test_bags_lines_and_bytes(run: Run, tmp_path: Path) -> None:
    for unit, k in (("word", 1), ("line", 2), ("byte", 2)):
        with Index.create(tmp_path / unit, unit=unit, k=k, bag=True) as index:
            index.add([("a", "x\u00e9\nx\u00e9\nx\u00e9\nx\u00e9\n"), ("b", "x\u00e9\nx\u00e9\nx")])
    words = as_table(run, tmp_path / "word", "a", "b")
    assert "shared          2 shingles in both:\n                - x\u00e9 (2 times)\n" in words
    assert as_json(run, tmp_path / "word", "a", "b")["shared"] == ["x\u00e9", "x\u00e9"]
    lines = as_table(run, tmp_path / "line", "a", "b")
    assert "shared          1 shingle in both:\n" in lines
    assert "                - x\u00e9\n                  x\u00e9\n" in lines
    cut = as_table(run, tmp_path / "byte", "a", "b")
    assert '- "x\\xc3" (2 times)\n' in cut and '- "\\xa9\\n" (2 times)\n' in cut
    assert "x\\xc3" in as_json(run, tmp_path / "byte", "a", "b")["shared"]


@pytest.mark.parametrize("form", ["table", "tsv", "csv", "jsonl"])
def test_nothing_that_a_terminal_obeys_reaches_it(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, form: str
) -> None:
    evil = "\x1b[31mred\x9b\u202e\x07 \t"
    for unit in ("char", "token"):
        with Index.create(tmp_path / unit, unit=unit) as index:
            index.add([(evil, "a b c d" + evil), ("line\nfeed", "a b c d" + evil * 2)])
        asked = ("explain", unit, evil, "line\nfeed", "--format", form, "--shingles", "all")
        code, shown = on_terminal(*asked, NO_COLOR="1")
        allowed = {"\t"} if form == "tsv" else set()
        assert code == 0 and "red" in shown
        assert not set(shown) & {"\x1b", "\x9b", "\u202e", "\x07", "\t"} - allowed
        if form == "table":
            assert "line\\nfeed" in shown


def test_refusals(run: Run, index_path: Path) -> None:
    for sources in ((), ("near", "--text", OTHER)):
        refused = run("explain", index_path, "base", *sources, code=2)
        assert "give one of KEY2, --text and --vector" in refused.stderr and refused.stdout == ""
    assert "no document has the key 'zz'" in run("explain", index_path, "base", "zz", code=1).stderr


OLD = (
    "The clerk shall keep a record.\nHe may  demur within twenty days after service. \x1b[31mEnd\n"
)
NEW = "The clerk shall keep a record.\nShe may answer within ten days after service. \x1b[31mEnd\n"


@pytest.fixture
def two_texts(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "two.lshdb", k=2, threshold=0.3) as index:
        index.add([("old", OLD), ("new", NEW)])
    return tmp_path / "two.lshdb"


def test_a_diff_in_a_table(run: Run, two_texts: Path) -> None:
    said = as_table(run, two_texts, "old", "new", "--shingles", "0", "--diff")
    assert "diff            12 words are equal, of 15 and 15\n" in said
    _, shown = said.split("\n\n")
    assert shown.splitlines() == [
        "line 1 of the first text, line 1 of the second",
        "The clerk shall keep a record.",
        "[-He-] {+She+} may  [-demur-] {+answer+} within [-twenty-] {+ten+} days after service. "
        "\\x1b[31mEnd",
    ]  # fmt: skip
    whole = as_table(run, two_texts, "old", "--text", OLD, "--diff")
    assert "15 words are equal, of 15 and 15" in whole
    assert "line 1 of" not in whole


def test_a_diff_as_data(run: Run, two_texts: Path) -> None:
    parts = as_json(run, two_texts, "old", "new", "--diff")["diff"]
    assert "".join(part.get("text1", "") for part in parts) == OLD
    assert "".join(part.get("text2", "") for part in parts) == NEW
    assert parts[1] == {
        "kind": "deleted", "line1": 2, "start1": 31, "end1": 34, "line2": 2, "start2": 31,
        "end2": 31, "text1": "He ",
    }  # fmt: skip
    assert "diff" not in as_json(run, two_texts, "old", "new")


def test_a_diff_on_a_terminal_has_colours(on_terminal: OnTerminal, two_texts: Path) -> None:
    _, shown = on_terminal("explain", str(two_texts), "old", "new", "--diff", columns=100)
    assert "\x1b[31m[-demur-]\x1b[0m \x1b[32m{+answer+}\x1b[0m within" in shown
    assert "\x1b[31mEnd" not in shown
    _, plain = on_terminal("explain", str(two_texts), "old", "new", "--diff", NO_COLOR="1")
    assert "[-demur-] {+answer+} within" in plain


def test_a_diff_of_what_has_no_words(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    with Index.create(path, store_text=False) as index:
        index.add([("base", BASE), ("near", NEAR)])
    said = run("explain", path, "base", "near", "--diff", code=1).stderr
    assert "texts are not stored: this index was made with --no-text" in said


def test_a_page(run: Run, tmp_path: Path, index_path: Path) -> None:
    page = tmp_path / "pair.html"
    assert run("explain", index_path, "base", "near", "--html", "-o", page).stdout == ""
    text = page.read_text()
    assert text == run("explain", index_path, "base", "near", "--html").stdout
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")
    for other in ("--json", "--diff"):
        said = run("explain", index_path, "base", "near", "--html", other, code=2).stderr
        assert "a page has a form of its own" in said
