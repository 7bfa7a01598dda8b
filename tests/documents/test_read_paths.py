"""Paths, directories and patterns: what is read, in which order, and what is an error."""

from __future__ import annotations

import builtins
import io
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.read import read_documents
from lshdb.errors import InputError, ParameterError

pytestmark = pytest.mark.fast

Read = Callable[..., tuple[list, list]]

LINE = b'{"id":"a","text":"x"}\n'


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """Text files by name, in a directory that is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("t/b.txt", "t/a/z.txt", "t/a.txt", "t/a/deep/er/q.txt", "t/c.md", "u/b.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def keys(read: Read, *paths: str) -> list[str]:
    documents, rejected = read(list(paths))
    assert rejected == []
    return [d.key for d in documents]


WALKED = ["t/a/deep/er/q.txt", "t/a/z.txt", "t/a.txt", "t/b.txt", "t/c.md"]


def test_a_directory_is_walked_in_order_of_names(tree: Path, read: Read) -> None:
    assert keys(read, "t") == WALKED
    assert keys(read, "t/") == WALKED
    assert keys(read, ".") == [*WALKED, "u/b.txt"]


def test_paths_are_read_in_the_order_given(tree: Path, read: Read) -> None:
    assert keys(read, "u", "t/b.txt", "t/a.txt", "t/b.txt") == [
        "u/b.txt",
        "t/b.txt",
        "t/a.txt",
        "t/b.txt",
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("t/*.txt", ["t/a.txt", "t/b.txt"]),
        ("t/?.txt", ["t/a.txt", "t/b.txt"]),
        ("t/[bc].*", ["t/b.txt", "t/c.md"]),
        ("t/[!b].*", ["t/a.txt", "t/c.md"]),
        ("*/b.txt", ["t/b.txt", "u/b.txt"]),
        ("**/b.txt", ["t/b.txt", "u/b.txt"]),
        ("t/**/*.txt", WALKED[:-1]),
        ("t/**", WALKED),
        ("t/**/**/*.txt", WALKED[:-1]),
        ("**", [*WALKED, "u/b.txt"]),
        ("*", [*WALKED, "u/b.txt"]),
        ("t/*", WALKED),
        ("t/**/er", ["t/a/deep/er/q.txt"]),
        ("./u/../t/*.md", ["t/c.md"]),
    ],
)
def test_patterns(pattern: str, expected: list[str], tree: Path, read: Read) -> None:
    assert keys(read, pattern) == expected


def test_an_absolute_pattern(tree: Path, read: Read) -> None:
    assert keys(read, f"{tree}/t/*.md") == [f"{tree}/t/c.md"]


def test_a_file_whose_name_looks_like_a_pattern(tree: Path, read: Read) -> None:
    (tree / "t" / "[b].txt").write_text("literal")
    documents, _ = read("t/[b].txt")
    assert [d.body for d in documents] == ["literal"]


def test_names_that_begin_with_a_dot(tree: Path, read: Read) -> None:
    (tree / "t" / ".hidden.txt").write_text("x")
    (tree / "t" / ".git").mkdir()
    (tree / "t" / ".git" / "x.txt").write_text("x")
    assert keys(read, "t") == WALKED
    assert keys(read, "t/**/*.txt") == WALKED[:-1]
    assert keys(read, "t/*") == WALKED
    assert keys(read, "t/.hidden.txt") == ["t/.hidden.txt"]
    assert keys(read, "t/.*.txt") == ["t/.hidden.txt"]
    assert keys(read, "t/.git") == ["t/.git/x.txt"]


def test_symbolic_links(tree: Path, read: Read) -> None:
    os.symlink("..", tree / "t" / "a" / "up")  # one loop: two, if followed, would never end
    os.symlink("../u", tree / "t" / "other")
    os.symlink("../u/b.txt", tree / "t" / "linked.txt")
    with_link = [*WALKED, "t/linked.txt"]
    assert keys(read, "t") == with_link
    assert keys(read, "t/**") == with_link
    assert keys(read, "t/**/*.txt") == [name for name in with_link if name.endswith("txt")]
    assert keys(read, "t/*") == with_link
    assert keys(read, "t/other") == ["t/other/b.txt"]
    assert keys(read, "t/oth*/b.txt") == ["t/other/b.txt"]


def test_a_link_to_nowhere_in_a_directory_is_one_rejection(tree: Path, read: Read) -> None:
    os.symlink("nowhere", tree / "t" / "aa.txt")
    os.symlink("self.txt", tree / "t" / "self.txt")
    documents, rejected = read("t")
    assert [d.key for d in documents] == WALKED
    assert [r.source for r in rejected] == ["t/aa.txt", "t/self.txt"]
    assert rejected[0].reason == "cannot be read: No such file or directory"
    assert "symbolic links" in rejected[1].reason
    assert [r.source for r in read("t/*.txt")[1]] == ["t/aa.txt", "t/self.txt"]


def test_an_unreadable_file_in_a_directory_is_one_rejection(
    tree: Path, read: Read, monkeypatch
) -> None:
    refuse(monkeypatch, "a.txt")
    documents, rejected = read("t")
    assert len(documents) == len(WALKED) - 1
    assert rejected == [Rejected("t/a.txt", "cannot be opened: Permission denied")]


def test_an_unreadable_file_that_was_named_is_an_error(tree: Path, monkeypatch) -> None:
    refuse(monkeypatch, "a.txt")
    with pytest.raises(InputError, match=r"t/a\.txt.*Permission denied") as caught:
        read_documents(["t/b.txt", "t/a.txt"])
    assert caught.value.hint


def test_a_directory_that_cannot_be_listed(tree: Path, read: Read, monkeypatch) -> None:
    scandir = os.scandir

    def refusing(path: str = ".") -> object:
        if os.path.basename(path) == "a":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    documents, rejected = read("t")
    assert [d.key for d in documents] == WALKED[2:]
    assert rejected == [Rejected("t/a", "cannot be listed: Permission denied")]
    assert read("t/*")[1] == [Rejected("t/a", "cannot be read: Permission denied")]
    with pytest.raises(InputError, match="t/a: cannot be opened: Permission denied"):
        read_documents(["t/a"])


def refuse(monkeypatch, basename: str) -> None:
    """Make one file impossible to open, also for root."""
    real = builtins.open

    def refusing(file, *args, **kwargs):
        if os.path.basename(str(file)) == basename:
            raise PermissionError(13, "Permission denied", file)
        return real(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", refusing)


def test_a_file_that_vanishes_before_its_turn(tree: Path, read: Read) -> None:
    stream = read_documents(["t/a.txt", "t/b.txt", "t/c.md"])
    (tree / "t" / "b.txt").unlink()
    items = list(stream)
    assert items[1] == Rejected("t/b.txt", "cannot be opened: No such file or directory")
    assert isinstance(items[2], Document)


def test_a_read_that_fails_midway_keeps_what_came_before(read: Read) -> None:
    class Failing(io.BytesIO):
        def read1(self, size: int = -1, /) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read1(len(LINE) + 3)

    documents, rejected = read("-", stdin=Failing(LINE * 5))
    assert len(documents) == 1
    reason = "cannot be read further: Input/output error, at about line 2"
    assert rejected == [Rejected("<stdin>:2", reason)]


@pytest.mark.parametrize(
    "path", ["missing", "missing.jsonl", "t/missing/x", "", "t/a.txt/x", "nul\0", "t/*.pdf", "*\0"]
)
def test_what_is_named_must_be_there(path: str, tree: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_documents(["t/a.txt", path])
    assert caught.value.hint
    assert path.replace("\0", "\\x00") in caught.value.message
    assert caught.value.message.isprintable()


def test_a_dangling_link_that_was_named_is_an_error(tree: Path) -> None:
    os.symlink("nowhere", tree / "link.txt")
    with pytest.raises(InputError, match="no such file"):
        read_documents(["link.txt"])


def test_errors_come_before_anything_is_read(tree: Path) -> None:
    stdin = io.BytesIO(LINE)
    with pytest.raises(InputError):
        read_documents(["-", "missing"], stdin=stdin)
    assert stdin.tell() == 0


def test_pipes_and_sockets_in_a_directory_are_passed_over(tree: Path, read: Read) -> None:
    os.mkfifo(tree / "t" / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("t/socket.txt")
        os.symlink("pipe.txt", tree / "t" / "zlink.txt")
        assert keys(read, "t") == WALKED
        assert keys(read, "t/*.txt") == ["t/a.txt", "t/b.txt"]
        with pytest.raises(InputError, match=r"socket\.txt"):
            read_documents(["t/socket.txt"])


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_pipe_that_is_named_is_read(suffix: str, tree: Path, read: Read) -> None:
    import gzip

    name = f"pipe.jsonl{suffix}"
    os.mkfifo(name)
    content = gzip.compress(LINE * 3) if suffix else LINE * 3
    writer = threading.Thread(target=lambda: Path(name).write_bytes(content))
    writer.start()
    documents, rejected = read(name)
    writer.join()
    assert len(documents) == 3 and rejected == []


def test_a_file_name_that_is_no_utf_8(tree: Path, read: Read) -> None:
    raw = os.fsencode(tree / "t") + b"/a\xff\n.jsonl"
    with open(raw, "wb") as file:
        file.write(LINE)
    documents, rejected = read("t")
    assert len(documents) == len(WALKED)
    assert rejected == [Rejected(r"t/a\xff\n.jsonl", "the name of the file is not valid UTF-8")]
    assert read(os.fsdecode(raw))[1][0].reason == rejected[0].reason


def test_a_line_feed_in_a_file_name_stays_out_of_messages(tree: Path, read: Read) -> None:
    (tree / "t" / "x\ny.txt").write_text("x")
    documents, _ = read("t/x*")
    assert documents == [Document("t/x\ny.txt", "x", r"t/x\ny.txt")]


def test_an_empty_directory_and_no_path_yield_nothing(tmp_path, read: Read) -> None:
    assert read(tmp_path) == ([], [])
    assert read([]) == ([], [])


@pytest.fixture
def deep_tree(tmp_path, monkeypatch) -> Iterator[str]:
    """A directory 1,500 levels deep with one file; taken down again, for pytest cannot do that."""
    monkeypatch.chdir(tmp_path)
    depth = 1500
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    Path("a.txt").write_text("x")
    os.chdir(tmp_path)
    yield "d"
    os.chdir(tmp_path / "/".join("d" * depth))
    os.remove("a.txt")
    for _ in range(depth):
        os.chdir("..")
        os.rmdir("d")


def test_a_tree_deeper_than_the_interpreters_stack(deep_tree: str, read: Read) -> None:
    for path in (deep_tree, f"{deep_tree}/**/*.txt"):
        documents, rejected = read(path)
        assert documents == [] and len(rejected) == 1
        assert "the key has 3,005 bytes" in rejected[0].reason


def test_formats_by_extension(tree: Path, read: Read) -> None:
    for name in ("a.jsonl", "b.ndjson", "c.JSONL", "d.csv", "e.tsv"):
        delimiter = {"d": b",", "e": b"\t"}.get(name[0])
        content = LINE if delimiter is None else delimiter.join([b"id", b"text\na", b"x"])
        (tree / "u" / name).write_bytes(content)
    documents, rejected = read("u")
    assert [d.key for d in documents] == ["a", "a", "u/b.txt", "a", "a", "a"]
    assert rejected == []


def test_a_forced_format_holds_for_every_file(tree: Path, read: Read) -> None:
    (tree / "u" / "b.txt").write_bytes(LINE)
    (tree / "u" / "c.csv").write_bytes(LINE)
    assert [d.key for d in read("u", input_format="jsonl")[0]] == ["a", "a"]
    assert [d.key for d in read("u", input_format="text")[0]] == ["u/b.txt", "u/c.csv"]


def test_standard_input_is_json_lines_unless_forced(read: Read, monkeypatch) -> None:
    assert len(read("-", stdin=io.BytesIO(LINE))[0]) == 1
    csv = io.BytesIO(b"id,text\na,x\n")
    assert len(read("-", stdin=csv, input_format="csv")[0]) == 1
    assert not csv.closed
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LINE)))
    assert len(read("-")[0]) == 1


def test_standard_input_that_is_not_there(monkeypatch) -> None:
    closed = io.BytesIO()
    closed.close()
    with pytest.raises(InputError, match="closed"):
        read_documents(["-"], stdin=closed)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="closed"):
        read_documents(["-"])
    with pytest.raises(InputError, match="twice"):
        read_documents(["-", "-"], stdin=io.BytesIO())


def test_parameters_that_cannot_be_used(tree: Path) -> None:
    with pytest.raises(ParameterError, match="sequence"):
        read_documents("t")
    with pytest.raises(ParameterError, match="sequence"):
        read_documents(Path("t"))
    with pytest.raises(ParameterError, match="expected a string"):
        read_documents([b"t"])
    with pytest.raises(ParameterError, match="arow"):
        read_documents(["t"], input_format="arow")
    with pytest.raises(ParameterError, match="max_document_bytes"):
        read_documents(["t"], max_document_bytes=0)


def test_an_index_in_a_folder_is_no_document(tmp_path: Path) -> None:
    for name in ("a.txt", "x.lshdb/index.toml", "x.lshdb/lock", "x.lshdb/signatures.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "index.toml").write_text("of something else")
    found = [Path(item.key).name for item in read_documents([tmp_path])]  # type: ignore[union-attr]
    assert found == ["a.txt", "index.toml"]
    by_pattern = [Path(item.key).name for item in read_documents([f"{tmp_path}/[axy]*"])]  # type: ignore[union-attr]
    assert by_pattern == found
