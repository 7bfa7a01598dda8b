"""Texts and kept fields beside the keys of a listing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lshdb import Document, Index
from lshdb.cli import _contents
from tests.cli.conftest import BASE, NEAR, Run, jsonl


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.lshdb"
    with Index.create(path) as index:
        index.add([
            Document("base", BASE, fields={"year": 1999, "tags": ["x"]}),
            Document("copy", BASE.upper(), fields={"year": 2001}),
            Document("near", NEAR),
        ])  # fmt: skip
    return path


TEXTS = {"base": BASE, "copy": BASE.upper(), "near": NEAR}
FIELDS: dict[str, dict[str, Any]] = {
    "base": {"year": 1999, "tags": ["x"]}, "copy": {"year": 2001}, "near": {},
}  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize(
    ("command", "columns"),
    [
        (("pairs",), [("key1", "text1", "fields1"), ("key2", "text2", "fields2")]),
        (("clusters",), [("key", "text", "fields")]),
        (("neighbors",), [("key", "text", "fields"),
                          ("neighbor", "neighbor_text", "neighbor_fields")]),
        (("query", "--key", "base"), [("key", "text", "fields")]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("most", [1, 256])
def test_texts_and_fields_beside_keys(
    run: Run,
    path: Path,
    command: tuple[str, ...],
    columns: list[tuple[str, str, str]],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_contents, "_MOST_ROWS", most)
    name, *rest = command
    plain = [json.loads(line) for line in run(name, path, *rest, "--json").stdout.splitlines()]
    done = run(name, path, *rest, "--json", "--with-text", "--with-fields")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(plain) > 1
    for row, before in zip(rows, plain, strict=True):
        for key, text, fields in columns:
            assert row.pop(text) == TEXTS[row[key]] and row.pop(fields) == FIELDS[row[key]]
        assert row == before
    only = run(name, path, *rest, "--format", "csv", "--with-fields").stdout.splitlines()[0]
    assert only.endswith(",".join(fields for _, _, fields in columns)) and "text" not in only


def test_a_query_is_answered_before_the_next_comes(run: Run, path: Path) -> None:
    queries = jsonl([("one", BASE), ("two", NEAR)])
    shown = run("query", path, "-", "--with-text", "--workers", 1, stdin=queries).stdout
    rows = [line.split("\t") for line in shown.splitlines()]
    assert len(rows) == 6 and all(row[4] == TEXTS[row[1]] for row in rows)
    pauses = [row is None for row in [(1,), None, (2,)]]
    assert [[one is None for one in block] for block in _contents._blocks([(1,), None, (2,)])] == [
        pauses[:1], pauses[1:2], pauses[2:],
    ]  # fmt: skip


def test_what_has_no_texts_is_refused(run: Run, path: Path, tmp_path: Path) -> None:
    run("init", tmp_path / "b.lshdb", "--no-text")
    refused = run("pairs", tmp_path / "b.lshdb", "--with-text", code=1).stderr
    assert "made with --no-text" in refused
    run("init", tmp_path / "c.lshdb", "--metric", "cosine", "--dim", 3)
    assert "has no texts" in run("pairs", tmp_path / "c.lshdb", "--with-text", code=1).stderr
    assert "no documents" in run("pairs", path, "--by-directory", "--with-text", code=2).stderr


@pytest.mark.fast
def test_texts_and_fields_by_key(path: Path, tmp_path: Path) -> None:
    with Index.open(path) as index:
        assert index.texts(["near", "copy", "nowhere", "near"]) == {
            "near": NEAR, "copy": BASE.upper(),
        }  # fmt: skip
        assert index.fields(["near", "copy", "nowhere"]) == {"near": {}, "copy": {"year": 2001}}
        assert index.texts([]) == index.fields([]) == {}
        assert index.texts(iter(TEXTS)) == TEXTS
    with Index.create(tmp_path / "sets.lshdb") as index:
        index.add([("a", {"y", "x"}), ("b", ["x", "y"])])
        assert index.texts(["a", "b"]) == {"a": {"set": ["x", "y"]}, "b": ["x", "y"]}
