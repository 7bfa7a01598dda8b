"""``add --passages``, ``pairs --by document``, and ``query`` and ``explain`` of passages."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.fast


def text(seed: int, n: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(10**6)}" for _ in range(n))


PASSAGE = text(1, 40)
TEXTS = {
    "a": f"{text(2, 30)} {PASSAGE} {text(3, 25)}",
    "b": f"{PASSAGE.upper()} {text(4, 50)}",
    "c": text(5, 60),
}
START = len(text(2, 30)) + 1
PLACES = f"a\t{START}\t{START + len(PASSAGE)}\t40\tb\t0\t{len(PASSAGE)}\t40"
LINE = f"{PLACES}\t1.000000\texact"


@pytest.fixture
def essays(run: Run, tmp_path: Path) -> Path:
    lines = [json.dumps({"id": key, "text": body}) + "\n" for key, body in TEXTS.items()]
    (tmp_path / "essays.jsonl").write_text("".join(lines))
    done = run("add", tmp_path / "a.lshdb", tmp_path / "essays.jsonl", "--passages", "20:10")
    assert "windows of 20 words, one every 10" in done.stderr
    assert "cut 3 documents into passages; added " in done.stderr
    return tmp_path / "a.lshdb"


def test_pairs_by_document(run: Run, essays: Path) -> None:
    done = run("pairs", essays, "--by", "document", "--header")
    names = ["key1", "start1", "end1", "words1", "key2", "start2", "end2", "words2"]
    names += ["similarity", "method"]
    assert done.stdout.splitlines() == ["\t".join(names), LINE]
    assert done.stderr == "1 passage\n"
    done = run("pairs", essays, "--by", "document", "--json", "--with-text")
    record = json.loads(done.stdout)
    assert list(record) == [*names, "text1", "text2"]
    assert (record["text1"], record["text2"]) == (PASSAGE, PASSAGE.upper())
    start, end = record["start1"], record["end1"]
    assert TEXTS["a"][start:end] == PASSAGE
    assert "1 passage" in run("pairs", essays, "--by", "document", "--limit", 1).stderr


@pytest.mark.parametrize(
    "option",
    [("--by-directory",), ("--sort", "similarity"), ("--below", 0.9), ("--verify", "none"),
     ("--measure", "containment"), ("--agree", "year"), ("--with-fields",), ("--cross", "a", "b")],
)  # fmt: skip
def test_options_that_make_no_sense_of_passages(run: Run, essays: Path, option: tuple[str]) -> None:
    done = run("pairs", essays, "--by", "document", *option, code=2)
    assert f"{option[0]} does not go with --by document" in done.stderr


def test_later_adds_know_the_window(run: Run, essays: Path) -> None:
    lines = essays.with_name("essays.jsonl")
    done = run("add", essays, lines)
    assert "added 0, unchanged" in done.stderr
    lines.write_text(json.dumps({"id": "b", "text": "nothing but this"}))
    record = json.loads(run("add", essays, lines, "--passages", "20:10", "--json").stdout)
    assert (record["cut"], record["added"], record["stale"]) == (1, 1, 8)
    assert run("pairs", essays, "--by", "document").stdout == ""
    done = run("add", essays, lines, "--passages", "30:10", code=1)
    assert "was made with passages = '20:10', but '30:10' was given" in done.stderr
    assert "leave --passages out" in done.stderr
    run("remove", essays, "a")
    run("remove", essays, "a", code=1)


def test_queries(run: Run, essays: Path) -> None:
    assert run("query", essays, "--key", "a").stdout.splitlines() == [LINE]
    (essays.parent / "q.txt").write_text(f"{text(9, 12)} {PASSAGE}")
    done = run("query", essays, essays.parent / "q.txt", "--header")
    assert [line.split("\t")[4] for line in done.stdout.splitlines()] == ["key2", "a", "b"]
    assert run("query", essays, "--text", PASSAGE).stdout.count("\n") == 2
    done = run("query", essays, "--text", text(10, 30))
    assert (done.stdout, done.stderr) == ("", "no passage of it recurs in the index\n")
    done = run("query", essays, "--text", "x", "--top", 3, code=2)
    assert "--top is about whole documents" in done.stderr
    lines = json.dumps({"id": "q", "text": PASSAGE}) + '\n{"id": "t", "tokens": ["a"]}\n'
    done = run("query", essays, stdin=lines, code=5)
    assert done.stdout.count("q\t0\t") == 2


def test_explain(run: Run, essays: Path) -> None:
    record = json.loads(run("explain", essays, "a", "b", "--json").stdout)
    assert (record["n_passages"], record["words"]) == (1, 40)
    assert record["passages"][0]["text1"] == PASSAGE
    shown = run("explain", essays, "a", "b", "--format", "table").stdout
    assert f"{START:,}-{START + len(PASSAGE):,} (40 words) and 0-{len(PASSAGE):,} (40" in shown
    assert "none" in run("explain", essays, "a", "c", "--format", "table").stdout
    keys = [line.split("\t")[0] for line in run("pairs", essays).stdout.splitlines()][:2]
    assert "only1" in run("explain", essays, *keys, "--json").stdout
    done = run("explain", essays, "a", "none", code=1)
    assert "no document has the key 'none'" in done.stderr


@pytest.mark.parametrize("command", ["dedup", "clusters", "neighbors"])
def test_commands_about_whole_documents(run: Run, essays: Path, command: str) -> None:
    done = run(command, essays, code=2)
    assert "needs whole documents" in done.stderr and "pairs --by document" in done.stderr


def test_a_whole_index_has_no_passages(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path / "whole")
    done = run("pairs", tmp_path / "whole", "--by", "document", code=2)
    assert "keeps whole documents" in done.stderr and "--passages 200:100" in done.stderr
