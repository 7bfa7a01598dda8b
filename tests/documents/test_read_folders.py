"""Folders: what is left out and counted, .gitignore, links, texts or records, and keys."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.io.folders import WalkCounts
from lshdb.documents.read import read_documents
from lshdb.errors import InputError, ParameterError

pytestmark = pytest.mark.fast

Grow = Callable[..., None]
RECORD = '{"id":"a","text":"x"}\n'


@pytest.fixture
def grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grow:
    """Make files from names, or names and contents, in the current directory."""
    monkeypatch.chdir(tmp_path)

    def files(*names: str, **contents: str | bytes) -> None:
        for name, content in [*((name, name) for name in names), *contents.items()]:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return files


def read(*paths: str, **options: object) -> tuple[list[str], WalkCounts]:
    """Read without a rejection; return the keys and what was counted."""
    counts = WalkCounts()
    items = list(read_documents(list(paths), counts=counts, **options))  # type: ignore[arg-type]
    assert not [item for item in items if isinstance(item, Rejected)]
    return [item.key for item in items if isinstance(item, Document)], counts


# What is left out


def test_hidden_names_are_counted_and_can_be_had(grow: Grow) -> None:
    grow("t/a.txt", "t/.b.txt", "t/.c/d.txt", "t/.c/e.txt", "t/.git/config", "t/f/.g")
    keys, counts = read("t")
    assert keys == ["t/a.txt"]
    assert counts.left_out == {"hidden": 3, "tools": 1}
    assert str(counts) == "3 hidden, 1 folder of tools (such as .git)"
    keys, counts = read("t", hidden=True)
    assert keys == ["t/.b.txt", "t/.c/d.txt", "t/.c/e.txt", "t/a.txt", "t/f/.g"]
    assert counts.left_out == {"tools": 1}


def test_folders_of_tools_are_never_entered_unless_named(grow: Grow) -> None:
    names = ("node_modules/x.js", "a/__pycache__/y.py", ".svn/z", "CVS/w", "b.js")
    grow(*(f"t/{name}" for name in names))
    keys, counts = read("t", hidden=True, gitignore=False)
    assert keys == ["t/b.js"]
    assert counts.left_out["tools"] == 4
    assert read("t/**/*.js")[0] == ["t/b.js"]
    assert read("t/node_modules")[0] == ["t/node_modules/x.js"]


def test_binary_files_are_counted_by_their_ending(grow: Grow) -> None:
    png, odd = b"\x89PNG\r\n\x1a\n" + b"\0" * 9, b"\xfe\xed\xfa\0\xff" * 9
    grow("t/a.txt", **{"t/a.png": png, "t/b.png": png, "t/c.o": odd, "t/none": odd})
    keys, counts = read("t")
    assert keys == ["t/a.txt"]
    assert str(counts) == "4 binary (.png, .o, no ending)"
    assert read("t", input_format="text")[1].left_out == {"binary": 4}
    assert read("t/*")[1].left_out == {"binary": 4}


def test_a_text_with_a_nul_is_a_text_still(grow: Grow) -> None:
    grow(**{"t/a": b"one\0two \xc3\xa4", "t/b": b"one \xff two"})
    items = list(read_documents(["t"]))
    assert [type(item) for item in items] == [Document, Rejected]


def test_a_binary_file_that_is_named_is_an_error_still(grow: Grow) -> None:
    grow(**{"a.o": b"\x7fELF\0\0\0\xff"})
    with pytest.raises(InputError, match="looks like a program"):
        read_documents(["a.o"])


def test_include_and_exclude(grow: Grow) -> None:
    grow("t/a.py", "t/b.txt", "t/x/c.py", "t/x/d.min.py", "t/y/x/e.py", "t/z.py")
    assert read("t", include=["*.txt"])[0] == ["t/b.txt"]
    keys, counts = read("t", include=["*.py"], exclude=["*.min.py", "/x/"])
    assert keys == ["t/a.py", "t/y/x/e.py", "t/z.py"]
    assert counts.left_out == {"excluded": 2}
    assert read("t", include=["x/"])[0] == ["t/x/c.py", "t/x/d.min.py", "t/y/x/e.py"]
    keys, counts = read("t/**/*.py", exclude=["*.min.py", "y/"])
    assert keys == ["t/a.py", "t/x/c.py", "t/z.py"]
    assert str(counts) == "2 by --include or --exclude"
    assert read("t/a.py", exclude=["*.py"])[0] == ["t/a.py"]
    assert read("t/*.txt", exclude=["*"])[0] == []


@pytest.mark.parametrize("wrong", ["*.py", ["!*.py"], ["# x"], [""], ["  "], [7]])
def test_patterns_that_cannot_be_used(grow: Grow, wrong: object) -> None:
    grow("t/a.py")
    for name in ("include", "exclude"):
        with pytest.raises(ParameterError, match=name):
            read_documents(["t"], **{name: wrong})  # type: ignore[arg-type]


def test_what_is_the_programs_own_is_never_taken(grow: Grow) -> None:
    grow("t/a.txt", "t/rejects.txt", "t/x/rejects.txt", "t/own/b.txt")
    keys, _ = read("t", leave_out=["t/rejects.txt", "t/own"])
    assert keys == ["t/a.txt", "t/x/rejects.txt"]
    assert read("t/**/*.txt", leave_out=["t/rejects.txt"])[0] == [
        "t/a.txt", "t/own/b.txt", "t/x/rejects.txt",
    ]  # fmt: skip
    assert read("t/**/*.txt", leave_out=["t/own"])[0] == [
        "t/a.txt", "t/rejects.txt", "t/x/rejects.txt",
    ]  # fmt: skip


# Links


def test_a_link_to_a_file_of_the_same_tree_is_a_copy(grow: Grow) -> None:
    grow("t/b/x.txt", "t/.h/y.txt", "u/z.txt")
    for name, target in [
        ("t/a.txt", "b/x.txt"),  # a copy
        ("t/c.txt", ".h/y.txt"),  # the only name by which that file is found
        ("t/d.txt", "../u/z.txt"),
        ("t/e.txt", "../u/z.txt"),  # once is enough
        ("t/up", ".."),
    ]:
        os.symlink(target, name)
    keys, counts = read("t")
    assert keys == ["t/b/x.txt", "t/c.txt", "t/d.txt"]
    assert counts.left_out == {"hidden": 1, "links": 3}
    assert read("t/**/*.txt")[0] == keys
    assert read("t/a.txt", "t/b/x.txt")[0] == ["t/a.txt", "t/b/x.txt"]


def test_hard_links_are_files(grow: Grow) -> None:
    grow("t/a.txt")
    os.link("t/a.txt", "t/b.txt")
    assert read("t")[0] == ["t/a.txt", "t/b.txt"]


# .gitignore


def test_gitignore_files_mean_what_they_mean_to_git(grow: Grow) -> None:
    grow("t/a.o", "t/a.c", "t/keep.o", "t/build/x.c", "t/s/a.c", "t/s/b.log", "t/s/build/y.c")
    grow(**{"t/.gitignore": "*.o\n!keep.o\n/build/\n*.log\n", "t/s/.gitignore": "!*.log\na.c\n"})
    keys, counts = read("t")
    assert keys == ["t/a.c", "t/keep.o", "t/s/b.log", "t/s/build/y.c"]
    assert counts.left_out == {"hidden": 2, "ignored": 3}
    assert "3 ignored by .gitignore" in str(counts)
    assert len(read("t", gitignore=False)[0]) == 7


def test_gitignore_files_above_hold_up_to_the_top_of_the_repository(grow: Grow) -> None:
    grow("r/s/t/a.o", "r/s/t/a.c", "r/s/t/b.c", "r/s/t/out/x.c", "r/.git/HEAD")
    grow(**{".gitignore": "*", "r/.gitignore": "*.o\nout\n", "r/s/.gitignore": "/t/b.c"})
    assert read("r/s/t")[0] == ["r/s/t/a.c"]
    assert read("r/s/t/out")[0] == ["r/s/t/out/x.c"]  # ignored, but named
    assert read("r/s/t/*.o")[0] == ["r/s/t/a.o"]
    Path("r/s/.gitignore").write_text("*")
    assert read("r/s")[0] == []
    assert len(read("r/s/t")[0]) == 4  # all of it is ignored, but it is named
    shutil.rmtree("r/.git")
    assert read("r/s/t")[0] == ["r/s/t/a.c", "r/s/t/a.o", "r/s/t/b.c", "r/s/t/out/x.c"]


def test_a_gitignore_that_holds_nonsense(grow: Grow) -> None:
    grow("t/a.c", "t/b.c")
    grow(**{"t/.gitignore": b"!\n\xff\xfe\n/\n\\\n[\n***\r\nb.c\r\n".replace(b"***", b"**x")})
    assert read("t")[0] == ["t/a.c"]
    os.remove("t/.gitignore")
    os.mkfifo("t/.gitignore")
    assert read("t")[0] == ["t/a.c", "t/b.c"]


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 7 + "b", "[!b]*" * 7 + "b", "**/" + "a/**/" * 6 + "b", "/" + "a/**/" * 6 + "b"],
)
@pytest.mark.parametrize("by", ["gitignore", "include", "exclude"])
def test_a_pattern_of_many_stars_takes_no_longer_than_others(
    grow: Grow, pattern: str, by: str
) -> None:
    name, deep = f"t/{'a' * 120}.txt", f"t/{'a/' * 40}c.txt"
    grow(name, deep)
    how: dict[str, Any] = {}
    if by == "gitignore":
        grow(**{"t/.gitignore": pattern + "\n"})
    else:
        how[by] = [pattern]
    before = time.process_time()
    assert len(read("t", **how)[0]) == (0 if by == "include" else 2)
    assert time.process_time() - before < 2


def test_blanks_in_a_gitignore_take_no_longer_than_others(grow: Grow) -> None:
    grow("t/a", "t/b ", "t/c")
    lines = ["x" + " " * 20_000 + "x", "a" + " " * 9, "b\\  "]
    grow(**{"t/.gitignore": "\n".join(lines)})
    before = time.process_time()
    assert read("t")[0] == ["t/c"]
    assert time.process_time() - before < 0.5


def test_a_class_in_an_excluded_name_matches_no_slash(grow: Grow) -> None:
    grow("t/a/b.txt", "t/acb.txt")
    assert read("t", exclude=["a[!x]b.txt"])[0] == ["t/a/b.txt"]


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")
@pytest.mark.parametrize("seed", range(20))
def test_the_same_files_as_git_lists(grow: Grow, seed: int) -> None:
    rng = random.Random(seed)
    names = ["a", "b", "ab", "a.c", "b.c"]
    parts = [*names, "*", "*.c", "a*", "**", "[ab]", "[!a]", "?b", "*a*b*", "*[!a]*b"]

    def pattern() -> str:
        body = "/".join(rng.choice(parts) for _ in range(rng.choice([1, 1, 1, 2, 3])))
        return rng.choice(["", "", "!"]) + rng.choice(["", "", "/"]) + body + rng.choice(["", "/"])

    folders = ["r", "r/a", "r/b", "r/a/b", "r/a/b/ab"]
    for folder in folders:
        grow(*(f"{folder}/{name}" for name in names if f"{folder}/{name}" not in folders
               and f"{folder}/{name}" != "r/a/b/ab"))  # fmt: skip
        if rng.random() < 0.7:
            lines = [pattern() for _ in range(rng.randint(1, 5))]
            grow(**{f"{folder}/.gitignore": "\n".join(lines)})
    git = ["git", "-C", "r"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run([*git, "init", "-q"], check=True, env=environment)
    command = [*git, "ls-files", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    expected = {f"r/{name}" for name in listed.stdout.split() if ".gitignore" not in name}
    assert set(read("r")[0]) == expected


# Texts or records


def test_a_folder_of_shards_holds_records(grow: Grow) -> None:
    shard = gzip.compress(RECORD.encode())
    grow("t/README.md", "t/LICENSE", "t/_SUCCESS", **{"t/1.jsonl.gz": shard})
    keys, counts = read("t")
    assert keys == ["a", "t/LICENSE", "t/README.md"] and counts.left_out == {"markers": 1}
    [note] = counts.notes
    assert note.startswith("t: holds 1 file with the endings of records or markup, and 2 others (")
    assert "--input text" in note


def test_every_file_of_a_source_tree_is_a_text(grow: Grow) -> None:
    records = {
        "t/data/a.csv": "name,price\nx,1\n",
        "t/data/b.json": '{"a": 1}',
        "t/data/c.jsonl": RECORD,
        "t/page.html": "<html><p>x",
        "t/data/d.parquet": b"PAR1\x15\x04\0\0\xff",
    }
    grow(*(f"t/src/{n}.c" for n in range(6)), **records)
    keys, counts = read("t")
    assert keys == [*sorted(name for name in records if "parquet" not in name)[:3],
                    "t/page.html", *(f"t/src/{n}.c" for n in range(6))]  # fmt: skip
    assert counts.left_out == {"binary": 1}
    [note] = counts.notes
    assert note.startswith("t: most of its files are plain texts, so each is read as one text, ")
    assert "also 4 with the endings of records or markup (.csv, .json, .jsonl, .html)" in note


def test_a_stray_table_among_texts_is_a_text(grow: Grow) -> None:
    grow("t/a.txt", "t/b.txt", **{"t/c.csv": "id,text\nx,y\n"})
    assert read("t")[0] == ["t/a.txt", "t/b.txt", "t/c.csv"]
    assert read("t", "t/c.csv")[0] == ["t/a.txt", "t/b.txt", "t/c.csv", "x"]
    assert read("t/*")[0] == ["t/a.txt", "t/b.txt", "x"]
    assert read("t", exclude=["b.txt"])[0] == [
        "t/a.txt",
        "x",
    ]  # as many of one kind as of the other


@pytest.mark.parametrize(
    "options",
    [{"key_field": "id"}, {"text_field": "text"}, {"keep_fields": ["n"]}, {"row_keys": True}],
)
def test_who_speaks_of_records_gets_records(grow: Grow, options: dict) -> None:
    grow("t/a.txt", "t/b.txt", **{"t/c.csv": "id,text,n\nx,y,1\n"})
    keys, counts = read("t", **options)
    [note] = counts.notes
    assert note.startswith("t: holds 1 file with the endings of records or markup, and 2 others (")
    assert keys == ["t/a.txt", "t/b.txt", "t/c.csv:1" if "row_keys" in options else "x"]
    assert read("t", body="weights")[0][-1] == "x"
    assert read("t", input_format="text")[0][-1] == "t/c.csv"


def test_images_do_not_make_a_folder_of_records_one_of_texts(grow: Grow) -> None:
    images = {f"t/{n}.png": b"\x89PNG\r\n\x1a\n" for n in range(5)}
    grow(**{"t/a.jsonl": RECORD, **images})
    keys, counts = read("t")
    assert keys == ["a"] and not counts.notes


def test_notes_go_to_the_caller(grow: Grow) -> None:
    grow("t/a.txt", "t/b.txt", "t/.x", **{"t/c.csv": "id,text\nx,y\n"})
    notes: list[str] = []
    stream = read_documents(["t"], on_note=notes.append)
    assert len(notes) == 1
    list(stream)
    assert notes[1:] == ["left out: 1 hidden"]


# Keys


def test_keys_relative_to_the_folder(grow: Grow, tmp_path: Path) -> None:
    grow("t/a/b.txt", "t/c.txt")
    for given in ("t", "t/", "./t", str(tmp_path / "t"), "t/**/*.txt", "t/../t"):
        assert read(given, relative=True)[0] == ["a/b.txt", "c.txt"]
    assert read("t/c.txt", relative=True)[0] == ["c.txt"]
    assert read("**/*.txt", relative=True)[0] == ["t/a/b.txt", "t/c.txt"]
    os.chdir("t")
    assert read(".", relative=True)[0] == read(".")[0] == ["a/b.txt", "c.txt"]


def test_a_prefix_that_is_stripped(grow: Grow, tmp_path: Path) -> None:
    grow("t/a/b.txt", "t/c.txt", "u/t.txt", "tt/x.txt")
    assert read("t", strip_prefix="t")[0] == ["a/b.txt", "c.txt"]
    assert read("t", strip_prefix="./t/")[0] == ["a/b.txt", "c.txt"]
    assert read(str(tmp_path / "t"), strip_prefix=str(tmp_path))[0] == ["t/a/b.txt", "t/c.txt"]
    assert read("t", "tt", strip_prefix="t")[0] == ["a/b.txt", "c.txt", "tt/x.txt"]
    with pytest.raises(InputError, match="no path begins with u"):
        read_documents(["t"], strip_prefix="u")
    with pytest.raises(ParameterError, match="relative and strip_prefix"):
        read_documents(["t"], strip_prefix="t", relative=True)


def test_numbers_of_rows_stand_behind_the_shorter_path(grow: Grow) -> None:
    grow(**{"t/c.csv": "text\ny\n"})
    assert read("t", relative=True, row_keys=True)[0] == ["c.csv:1"]
