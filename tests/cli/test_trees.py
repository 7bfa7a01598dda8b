"""A source tree from end to end: what ``add`` takes, says and calls its documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from lshdb import Index
from tests.cli.conftest import Run, sound

pytestmark = pytest.mark.fast

ONE = "def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n"
FILES = {
    "src/one.py": ONE,
    "src/two.py": ONE + "    return result\n",
    "src/gen/three.py": ONE,
    "src/gen/.gitignore": "*\n!kept.py\n",
    "src/gen/kept.py": ONE + "# kept\n",
    "build/one.py": ONE,
    "data/prices.csv": "name,price\napple,3\n",
    "data/state.json": '{"a": 1}',
    ".gitignore": "build/\n*.log\n",
    ".github/ci.yml": "on: push\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    "node_modules/x/index.js": "x",
    "debug.log": "x",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "tree"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "src" / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (root / "src" / "latest.py").symlink_to("one.py")
    (root / "utf-16.txt").write_text("na\u00efve", encoding="utf-16")
    (root / "latin.txt").write_bytes("na\u00efve".encode("latin-1"))
    return tmp_path


def keys(path: Path) -> list[str]:
    with Index.open(path) as index:
        return sorted(row[0] for row in index.sql("SELECT key FROM document"))


def test_a_source_tree(run: Run, tree: Path) -> None:
    index = tree / "x.lshdb"
    rejects = ("--rejects", "tree/no.jsonl")
    made = run("add", index, "tree", "--unit", "line", "--k", 2, *rejects, code=5)
    expected = [
        "tree/data/prices.csv", "tree/data/state.json", "tree/src/gen/kept.py", "tree/src/one.py",
        "tree/src/two.py", "tree/utf-16.txt",
    ]  # fmt: skip
    assert keys(index) == expected
    said = made.stderr.splitlines()
    assert said[0].startswith("tree: most of its files are plain texts, so each is read as one ")
    assert "also 2 with the endings of records or markup (.csv, .json)" in said[0]
    assert (
        "left out: 3 hidden, 3 ignored by .gitignore, 2 folders of tools (such as .git), 1 link, "
        "1 binary (.png)"
    ) in said
    [rejected] = [line for line in said if line.startswith("tree/latin.txt: ")]
    assert "--encoding latin-1" in rejected

    again = run("add", index, "tree", *rejects, code=5)
    assert "added 0, unchanged 6" in again.stderr
    assert keys(index) == expected
    assert sound(index)


def test_options_of_the_walk(run: Run, tree: Path) -> None:
    options = ("--hidden", "--no-gitignore", "--include", "*.py", "--include", "*.yml",
               "--exclude", "build/", "--exclude", "src/gen/kept.py")  # fmt: skip
    run("add", tree / "x.lshdb", tree / "tree", "--relative", *options)
    assert keys(tree / "x.lshdb") == [
        ".github/ci.yml", "src/gen/three.py", "src/one.py", "src/two.py",
    ]  # fmt: skip
    run("add", tree / "y.lshdb", tree / "tree", "--strip-prefix", tree, "--include", "two.py")
    assert keys(tree / "y.lshdb") == ["tree/src/two.py"]


def test_queries_take_the_same_options(run: Run, tree: Path) -> None:
    run("add", tree / "x.lshdb", "tree/src", "--unit", "line", "--k", 2, "--include", "*.py")
    found = run("query", tree / "x.lshdb", "tree", "--relative", "--include", "two.py")
    assert {line.split("\t")[0] for line in found.stdout.splitlines()} == {"src/two.py"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--strip-prefix", "wood"], "no path begins with wood"),
        (["--strip-prefix", "tree", "--relative"], "give one of them"),
        (["--exclude", "!x"], "exclude holds '!x', expected a pattern"),
        (["--include", "*.nothing"], "no document was accepted"),
    ],
)
def test_options_that_cannot_be_used(run: Run, tree: Path, options: list[str], said: str) -> None:
    code = 1 if "wood" in options or "*.nothing" in options else 2
    assert said in run("add", tree / "x.lshdb", "tree", *options, code=code).stderr
    assert not (tree / "x.lshdb").exists()
