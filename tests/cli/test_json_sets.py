"""Sets of tokens in JSON Lines, and an add of which nothing is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lshdb import Index
from tests.cli.conftest import Run


def test_sets_in_json_lines(run: Run, tmp_path: Path) -> None:
    file, path = tmp_path / "sets.jsonl", tmp_path / "x.lshdb"
    lines: list[Any] = [
        {"set": ["y", "x", "x"]},
        ["y", "x"],
        {"set": ["x", 1]},
        {"x": 1},
        {"set": 1},
    ]
    file.write_text(
        "".join(json.dumps({"id": str(n), "text": body}) + "\n" for n, body in enumerate(lines))
    )
    reported = run("add", path, file, code=5).stderr
    assert "token 2 of the set 'text' is an integer, not a string" in reported
    assert reported.count("text 'text' is an object") == 2
    shown = json.loads(run("show", path, "0", "--format", "jsonl").stdout)
    assert shown["text"] == {"set": ["x", "y"]}
    (tmp_path / "again.jsonl").write_text(json.dumps({"id": "0", "text": shown["text"]}))
    assert "unchanged 1" in "".join(run("add", path, tmp_path / "again.jsonl").output)
    assert "x | y" in run("show", path, "0", "--format", "table").stdout
    with Index.open(path) as index:
        assert index.show("0").body == {"x", "y"} and index.show("1").body == ["y", "x"]


def test_the_command_line_reports_each_and_ends_with_5(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"id": "a", "text": 1}\n{"id": "b"}\n')
    run("init", tmp_path / "x.lshdb")
    result = run("add", tmp_path / "x.lshdb", file, code=5)
    assert "bad.jsonl:1: " in result.stderr and "bad.jsonl:2: " in result.stderr
    assert "rejected 2" in result.output and "error" not in result.stderr
