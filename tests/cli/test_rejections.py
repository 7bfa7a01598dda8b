"""Rejections: ten lines of each kind, then a count, and a file with all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lshdb import Index, Rejected
from lshdb.cli._rejections import RejectionNotes
from tests.cli.conftest import BASE, OTHER, Run

pytestmark = pytest.mark.fast


def shown(*reasons: str) -> list[str]:
    lines: list[str] = []
    rejections = RejectionNotes(lines.append)
    for reason in reasons:
        rejections.add(Rejected("x", reason))
    assert rejections.count == len(reasons)
    rejections.end()
    return lines


def test_ten_of_a_kind_are_shown_and_the_rest_is_counted() -> None:
    lines = shown(*["no field 'id'; the fields are: 'text'"] * 20_000)
    assert lines[:10] == ["x: no field 'id'; the fields are: 'text'"] * 10
    assert lines[10:] == ["19,990 more: no field 'id'"]
    assert len(shown(*["no field 'id'"] * 10)) == 10


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("the line has {:,} bytes, more than the limit of 10,000", "the line has … bytes, more "),
        ("the key 'it\\'s {}' came before", "the key … came before"),
        ('the key "{}" came before; it is', "the key … came before"),
        ("no field 'a'; the fields are: 'b', 'c{}' and 3 more", "no field 'a'"),
        ("element {} holds 'x', 'y' and 3 more", "element … holds …"),
    ],
)
def test_numbers_and_quoted_names_do_not_make_a_kind(reason: str, words: str) -> None:
    lines = shown(*(reason.format(number * 1000) for number in range(1, 13)))
    assert len(lines) == 11
    assert lines[-1].startswith(f"2 more: {words}")


def test_kinds_beyond_the_thirtieth_are_counted_together() -> None:
    letters = [chr(ord("a") + i % 26) * (i // 26 + 1) for i in range(100)]
    lines = shown(*(f"wrong {each}" for each in letters))
    assert lines[-1] == "60 more: rejected for other reasons"
    assert len(lines) == 30 + 10 + 1


def test_add_says_thirteen_lines_for_20_000_rejections_and_writes_them_all(
    run: Run, tmp_path: Path
) -> None:
    lines = ['{"text": "no key"}\n'] * 20_000 + [json.dumps({"id": "a", "text": BASE})]
    path, rejects = tmp_path / "x.jsonl", tmp_path / "rejects.jsonl"
    path.write_text("".join(lines))
    result = run("add", tmp_path / "x.lshdb", path, "--rejects", rejects, code=5)
    assert len(result.stderr.splitlines()) == 13
    more, added = result.stderr.splitlines()[-2:]
    assert more == "19,990 more: no field 'id'" and "x.jsonl: added 1, rejected 20,000;" in added
    written = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert len(written) == 20_000
    assert written[-1] == {
        "source": f"{path}:20000",
        "reason": "no field 'id'; the fields are: 'text'; give --key-field NAME or --row-keys",
    }


def test_the_rest_is_counted_also_where_the_add_stops(run: Run, tmp_path: Path) -> None:
    path, rejects = tmp_path / "x.jsonl", tmp_path / "rejects.jsonl"
    rejects.write_text("of the night before\n" * 100)
    path.write_text('{"text": "no key"}\n' * 30)
    options = ("--max-errors", 20, "--rejects", rejects)
    result = run("add", tmp_path / "x.lshdb", path, *options, code=1)
    assert "\n11 more: no field 'id'\nerror: " in result.stderr
    assert len(rejects.read_text().splitlines()) == 21


def test_the_file_of_rejections_is_no_input(run: Run, tmp_path: Path, index_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"id": "a", "text": BASE}))
    result = run("add", index_path, path, "--rejects", tmp_path / "." / "x.jsonl", code=1)
    assert "is an input, and --rejects would overwrite it" in result.stderr
    assert path.read_text()
    missing = tmp_path / "missing" / "r.jsonl"
    assert str(missing) in run("add", index_path, path, "--rejects", missing, code=1).stderr
    with Index.open(index_path) as index:
        assert index.stats().documents == 4


def test_rejections_on_standard_output(run: Run, tmp_path: Path, index_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "no key"}\n' * 30)
    result = run("add", index_path, tmp_path / "x.jsonl", "--rejects", "-", code=5)
    assert len([json.loads(line) for line in result.stdout.splitlines()]) == 30
    assert not Path("-").exists()


def test_queries_are_reported_the_same_way(run: Run, tmp_path: Path, index_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"text": "no key"}\n' * 30 + json.dumps({"id": "a", "text": OTHER}))
    result = run("query", index_path, path, code=5)
    assert result.stderr.splitlines()[-2:] == [
        "20 more: no field 'id'",
        "30 rejected; the other queries were answered",
    ]
