"""``lshdb pairs``: all, since a batch, by method; a stream whatever the format."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from lshdb import Index
from lshdb.cli._output import Column, print_listing
from tests.cli.conftest import (
    BASE,
    MEASURED,
    MODULE,
    NEAR,
    NEAR_SIMILARITY,
    OTHER,
    Run,
    environment,
)
from tests.sizes import set_sizes

PAIRS = {("base", "copy", "1.000000"), ("base", "near", f"{NEAR_SIMILARITY:.6f}"),
         ("copy", "near", f"{NEAR_SIMILARITY:.6f}")}  # fmt: skip


def found(out: str) -> set[tuple[str, ...]]:
    return {tuple(line.split("\t")[:3]) for line in out.splitlines()}


def test_every_pair_once(run: Run, index_path: Path) -> None:
    out = run("pairs", index_path).stdout
    assert found(out) == PAIRS and out.count("\n") == 3
    assert all(line.endswith("\texact") for line in out.splitlines())
    assert found(run("pairs", index_path, "--threshold", "1").stdout) == {
        ("base", "copy", "1.000000")
    }
    signature = run("pairs", index_path, "--verify", "signature").stdout
    assert all(line.endswith("\tsignature") for line in signature.splitlines())


def test_since_a_batch_and_since_the_last_add(
    run: Run, index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.open(index_path) as index:
        set_sizes(monkeypatch, batch_documents=1)
        index.add([("new", OTHER), ("newer", NEAR)])
    new = {("other", "new", "1.000000")}
    newer = {("near", "newer", "1.000000")} | {
        (old, "newer", f"{NEAR_SIMILARITY:.6f}") for old in ("base", "copy")
    }
    assert found(run("pairs", index_path, "--since", "last").stdout) == new | newer
    assert found(run("pairs", index_path, "--since", "2").stdout) == new | newer
    assert found(run("pairs", index_path, "--since", "3").stdout) == newer
    assert found(run("pairs", index_path, "--since", "1").stdout) == PAIRS | new | newer
    for since, words in (("9", "there is no batch 9"), ("monday", "'monday'"), ("0", "batch 0")):
        assert words in run("pairs", index_path, "--since", since, code=2).stderr


def test_no_threshold_without_verification(run: Run, index_path: Path) -> None:
    result = run("pairs", index_path, "--verify", "none", "--threshold", "0.9")
    assert "does not apply" in result.stderr
    assert {line.split("\t")[3] for line in result.stdout.splitlines()} == {"none"}


def test_a_table_ends_with_the_number_of_pairs(run: Run, index_path: Path) -> None:
    assert run("pairs", index_path, "--format", "table").stderr == "3 pairs\n"
    nothing = run("pairs", index_path, "--format", "table", "--since", "1", "--threshold", "1")
    assert nothing.stderr == "1 pair\n"


class Tracked(str):
    """A text that knows how many of its kind there are."""

    alive = 0
    most = 0

    def __new__(cls, text: str) -> Tracked:
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return super().__new__(cls, text)

    def __del__(self) -> None:
        Tracked.alive -= 1


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "table"])
def test_rows_are_let_go_as_they_are_written(form: str, capsysbinary: object) -> None:
    Tracked.alive = Tracked.most = 0
    rows = ((Tracked(f"key{n}"), n / 7) for n in range(20_000))
    columns = (Column("key"), Column("similarity", "similarity"))
    assert print_listing(columns, rows, form) == 20_000
    assert Tracked.most < 2_000


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of one text six hundred times: 179,700 pairs."""
    path = tmp_path_factory.mktemp("copies") / "copies.lshdb"
    with Index.create(path) as index:
        index.add((f"copy-{number:04d}", BASE) for number in range(600))
    return path


@pytest.mark.parametrize("form", ["tsv", "table"])
def test_memory_does_not_grow_with_the_pairs(form: str, copies: Path, index_path: Path) -> None:
    """Held as rows they would take a hundred bytes each and more: over 18 MB."""

    def peak(path: Path) -> int:
        done = subprocess.run(
            [*MEASURED, *MODULE, "pairs", str(path), "--format", form],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
            check=True,
        )
        return int(done.stderr.split()[-1])

    assert peak(copies) - peak(index_path) < 8 * 1024  # kilobytes


# One tree against another, and what is listed of many pairs


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """Two trees: one file unchanged, one moved, one changed, and copies within a tree."""
    path = tmp_path / "trees.lshdb"
    with Index.create(path) as index:
        index.add(
            [
                ("old/a/one", BASE),
                ("old/a/two", OTHER),
                ("old/b/copy", BASE),
                ("new/a/one", BASE),
                ("new/c/two", f"{OTHER} more"),
                ("older/one", BASE),
            ]
        )
    return path


def keys(text: str) -> list[tuple[str, str]]:
    return [(line.split("\t")[0], line.split("\t")[1]) for line in text.splitlines()]


@pytest.mark.fast
def test_one_tree_against_another(run: Run, trees: Path) -> None:
    done = run("pairs", trees, "--cross", "new", "old")
    assert sorted(keys(done.stdout)) == [
        ("new/a/one", "old/a/one"), ("new/a/one", "old/b/copy"), ("new/c/two", "old/a/two"),
    ]  # fmt: skip
    assert done.stderr == "3 pairs\n"
    other = run("pairs", trees, "--cross", "old/", "new/", "--ignore-same-path").stdout
    assert sorted(keys(other)) == [("old/a/two", "new/c/two"), ("old/b/copy", "new/a/one")]
    assert run("pairs", trees, "--cross", "ol", "new").stderr == "no pairs\n"
    assert "--cross takes 2 values" in run("pairs", trees, "--cross", "old", code=2).stderr
    assert "cross is not given" in run("pairs", trees, "--ignore-same-path", code=2).stderr


def test_close_but_no_copy(run: Run, trees: Path) -> None:
    (line,) = run("pairs", trees, "--cross", "old", "new", "--below", "1").stdout.splitlines()
    assert line.split("\t")[:2] == ["old/a/two", "new/c/two"]
    lines = run("query", trees, "--text", OTHER, "--top", "1", "--below", "0.999").stdout
    assert [line.split("\t")[1] for line in lines.splitlines()] == ["new/c/two"]
    lines = run("neighbors", trees, "--below", "1", "--json").stdout
    assert [json.loads(line)["neighbor"] for line in lines.splitlines()] == [
        "new/c/two", "old/a/two",
    ]  # fmt: skip
    refused = run("pairs", trees, "--below", "0.9", "--verify", "none", code=2).stderr
    assert "compares nothing" in refused and "leave below out" in refused


def test_folders_that_share_pairs(run: Run, trees: Path) -> None:
    lines = run("pairs", trees, "--by-directory").stdout.splitlines()
    counted = [line.split("\t") for line in lines]
    assert counted[0] == ["new/a", "old/a", "1"] and len(counted) == 7
    assert sum(int(count) for _, _, count in counted) == len(
        run("pairs", trees).stdout.splitlines()
    )
    crossed = run("pairs", trees, "--by-directory", "--cross", "old", "new", "--json").stdout
    assert [json.loads(line) for line in crossed.splitlines()] == [
        {"directory1": "old/a", "directory2": "new/a", "pairs": 1},
        {"directory1": "old/a", "directory2": "new/c", "pairs": 1},
        {"directory1": "old/b", "directory2": "new/a", "pairs": 1},
    ]
    refused = run("pairs", trees, "--by-directory", "--sort", "similarity", code=2)
    assert "leave out --sort" in refused.stderr


def test_the_most_similar_first(run: Run, trees: Path) -> None:
    plain = run("pairs", trees).stdout.splitlines()
    ranked = run("pairs", trees, "--sort", "similarity").stdout.splitlines()
    assert sorted(ranked) == sorted(plain)
    similarities = [float(line.split("\t")[2]) for line in ranked]
    assert similarities == sorted(similarities, reverse=True) and similarities[-1] < 1.0
    first = run("pairs", trees, "--sort", "similarity", "--limit", 2).stdout.splitlines()
    assert first == ranked[:2]
    copies = ranked[: similarities.count(1.0)]
    assert copies == sorted(copies)


def test_a_limit_is_said(run: Run, trees: Path) -> None:
    done = run("pairs", trees, "--limit", 2)
    assert done.stdout.splitlines() == run("pairs", trees).stdout.splitlines()[:2]
    assert done.stderr == "2 pairs\n--limit 2 ended the list; there may be more\n"
    assert run("pairs", trees, "--limit", 50).stderr == "7 pairs\n"
    refused = run("pairs", trees, "--since", "@a", "--advance", "--limit", 2, code=2).stderr
    assert "--advance would pass over" in refused
    assert run("cursors", trees).stdout == ""


@pytest.mark.parametrize("form", ["table", "tsv", "csv", "jsonl", "json"])
def test_every_format_ends_with_the_count(run: Run, trees: Path, form: str) -> None:
    assert run("pairs", trees, "--format", form).stderr == "7 pairs\n"


def test_pairs_and_queries_by_containment_name_their_column(run: Run, tmp_path: Path) -> None:
    path, words = tmp_path / "w.lshdb", [f"w{number}" for number in range(60)]
    with Index.create(path) as index:
        index.add([("whole", " ".join(words)), ("part", " ".join(words[20:32]))])
    assert run("pairs", path).stdout == ""
    asked = "--measure", "containment"
    assert run("pairs", path, *asked).stdout == "part\twhole\t1.000000\texact\n"
    listed = json.loads(run("pairs", path, *asked, "--json").stdout)
    assert listed == {"key1": "part", "key2": "whole", "containment": 1.0, "method": "exact"}
    hit = json.loads(run("query", path, "--key", "part", *asked, "--json").stdout)
    assert (hit["key"], hit["containment"]) == ("whole", 1.0)
    assert run("pairs", path, *asked, "--sort", "similarity").stdout.count("\n") == 1
    text = "--text", " ".join(words[21:31])
    one = run("query", path, *text, *asked, "--top", 1)
    assert one.stdout == "text\tpart\t1.000000\texact\n"
    assert "1 more document contains that much of it, left out by --top 1" in one.stderr
    none = run("query", path, "--text", "v1 v2 v3 v4 v5 v6", *asked)
    assert none.stdout == "" and "no document contains that much of it" in none.stderr
