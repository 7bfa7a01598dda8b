"""Files elsewhere: URLs read by fsspec, in memory and from a web server of the test's own."""

from __future__ import annotations

import functools
import gc
import gzip
import http.server
import io
import json
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb import Document, Index, InputError, Rejected, read_documents
from tests.cli.conftest import Run, run

__all__ = ["run"]  # a fixture of the command line's

ROWS = [{"id": f"k{number}", "text": f"some words in text {number}"} for number in range(30)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def keys(*paths: str, **how: Any) -> list[str]:
    return [item.key for item in read_documents(paths, **how) if isinstance(item, Document)]


EXPECTED = [row["id"] for row in ROWS]


def test_a_file_by_its_url(memory: Any) -> None:
    memory.pipe("/data/a.jsonl", LINES)
    assert keys("memory://data/a.jsonl") == EXPECTED
    sources = [item.source for item in read_documents(["memory://data/a.jsonl"])]
    assert sources[0] == "memory://data/a.jsonl:1"


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl"])
def test_compressed_files_by_name_or_content(memory: Any, name: str) -> None:
    memory.pipe(f"/{name}", gzip.compress(LINES))
    assert keys(f"memory:///{name}") == EXPECTED


def test_parquet_is_read_where_it_lies(memory: Any, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=7)
    memory.pipe("/a.parquet", (tmp_path / "a.parquet").read_bytes())
    assert keys("memory://a.parquet") == EXPECTED


def test_a_folder_and_a_pattern_in_the_order_of_names(memory: Any) -> None:
    half = len(LINES.splitlines(keepends=True)) // 2
    parts = LINES.splitlines(keepends=True)
    memory.pipe("/set/part-1.jsonl", b"".join(parts[half:]))
    memory.pipe("/set/part-0.jsonl", b"".join(parts[:half]))
    memory.pipe("/set/.hidden/c.jsonl", LINES)
    assert keys("memory://set") == EXPECTED
    assert keys("memory://set/*.jsonl") == EXPECTED
    assert keys("memory://set/part-1*") == EXPECTED[half:]


def test_row_keys_and_texts_have_the_url(memory: Any) -> None:
    memory.pipe("/a.csv", b"text\nsome words\n")
    memory.pipe("/a.txt", b"some words of a text")
    assert keys("memory://a.csv", "memory://a.txt", row_keys=True) == [
        "memory://a.csv:1",
        "memory://a.txt",
    ]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memory://nothing.jsonl", "memory://nothing.jsonl: no such file or folder"),
        ("memory://nothing/*.jsonl", "no file is there"),
        ("nosuch://bucket/a.jsonl", "Protocol not known: nosuch"),
        ("http://127.0.0.1:9/a.jsonl", "127.0.0.1:9/a.jsonl: cannot be looked up: "),
    ],
)
def test_what_is_not_there_is_said_before_anything_is_read(
    memory: Any, url: str, words: str
) -> None:
    with pytest.raises(InputError, match=words.replace("*", r"\*")):
        read_documents([url])


def test_a_file_that_breaks_off_is_a_rejection(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe("/a.jsonl", LINES)
    plain = memory.open

    def breaking(path: str, mode: str = "rb", **how: Any) -> Any:
        file = plain(path, mode, **how)
        read, calls = file.read, iter(range(100))

        def once(size: int = -1) -> bytes:
            if next(calls):
                raise RuntimeError("the connection was closed by its peer")
            return bytes(read(min(size, 200)))

        file.read = once
        return file

    monkeypatch.setattr(type(memory), "open", lambda self, *given, **how: breaking(*given, **how))
    *documents, last = read_documents(["memory://a.jsonl"])
    assert documents and isinstance(last, Rejected)
    assert "the connection was closed by its peer" in last.reason


MEMBER_BYTES = 2 * 512


@pytest.mark.parametrize(
    ("damage", "n_members"),
    [
        (lambda data: data[: 2 * MEMBER_BYTES + 300], 2),
        (lambda data: data[: 3 * MEMBER_BYTES], 3),
        (lambda data: data[:MEMBER_BYTES] + b"?" * 512 + data[MEMBER_BYTES + 512 :], 1),
    ],
    ids=["within a header", "after a member", "a header"],
)
def test_an_archive_that_does_not_end_is_refused(
    damage: Callable[[bytes], bytes], n_members: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for name in "abcd":
            member = tarfile.TarInfo(f"{name}.txt")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"words"))
    url = f"tar://*.txt::{path}"
    assert len(list(read_documents([url]))) == 4
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=f"damaged or cut after {n_members} of its members"):
        read_documents([url])


def archive(path: Path, names: Iterable[str]) -> str:
    """Make an archive, with its own name in each text, and return the pattern of all its files."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name in names:
                zipped.writestr(f"{name}.txt", f"{path.name} {name}")
        return f"zip://*.txt::{path}"
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for name in names:
            member = tarfile.TarInfo(f"{name}.txt")
            text = f"{path.name} {name}".encode()
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return f"tar://*.txt::{path}"


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz"])
def test_an_archive_is_opened_once_for_all_its_files(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [archive(tmp_path / f"{name}.{suffix}", "abcdefgh") for name in "xy"]
    opened: list[str] = []
    package = zipfile.ZipFile if suffix == "zip" else tarfile.TarFile
    begin = package.__init__

    def noted(self: Any, *values: Any, **how: Any) -> None:
        opened.append("")
        begin(self, *values, **how)

    def looked_up(_self: Any, name: str) -> None:
        raise AssertionError(f"looked for {name} in a list")

    monkeypatch.setattr(package, "__init__", noted)
    monkeypatch.setattr(tarfile.TarFile, "getmember", looked_up)
    assert len(keys(urls[0])) == 8
    assert len(opened) == 1
    interleaved = list(zip(read_documents(urls), read_documents(urls), strict=True))
    texts = [f"{name}.{suffix} {member}" for name in "xy" for member in "abcdefgh"]
    assert [tuple(item.body for item in items) for items in interleaved] == [
        (text, text) for text in texts
    ]  # fmt: skip


def test_the_files_of_a_tar_archive_come_in_its_order(tmp_path: Path) -> None:
    tar = keys(archive(tmp_path / "a.tar.gz", "cab"))
    assert [key.partition("::")[0] for key in tar] == [f"tar://{name}.txt" for name in "cab"]
    zipped = keys(archive(tmp_path / "a.zip", "cab"))
    assert [key.partition("::")[0] for key in zipped] == [f"zip://{name}.txt" for name in "abc"]


@pytest.mark.parametrize("suffix", ["tar", "tgz", "tbz", "tbz2", "txz", "tar.gz", "tar.xz"])
def test_an_archive_may_be_made_of_a_folder_as_it_is_and_have_a_short_name(
    suffix: str, tmp_path: Path
) -> None:
    """``tar -C folder -czf a.tgz .`` writes ``./`` before each name."""
    folder = tmp_path / "folder"
    (folder / "in").mkdir(parents=True)
    for name in ("a.txt", "..b.txt", "in/c.txt", "in/.hidden.txt", ".hidden.txt"):
        (folder / name).write_text(name)
    kind = {"b": "bz2", "x": "xz", "g": "gz"}
    how = kind.get(suffix.removeprefix("tar.").strip("t")[:1], "")
    path = tmp_path / f"a.{suffix}"
    with tarfile.open(path, f"w:{how}") as tar:  # type: ignore[call-overload]
        tar.add(folder, ".")
    for name in ("*.txt", "./*.txt", "a.txt", "./a.txt", "././a.txt"):
        key = f"tar://{name.replace('./*', '*').replace('*', 'a')}::{path}"  # or as it was named
        assert keys(f"tar://{name}::{path}") == [key]
    for name in ("", ".", "./", "**/*.txt", "./**/*.txt"):
        read = {key.partition("::")[0] for key in keys(f"tar://{name}::{path}")}
        assert read == {"tar://a.txt", "tar://in/c.txt"}, name
    assert keys(f"tar://./in::{path}") == [f"tar://in/c.txt::{path}"]
    with pytest.raises(InputError, match="no such file"):
        keys(f"tar://./b.txt::{path}")


def tar_of(names: Iterable[str], how: str = "") -> bytes:
    """A tar archive of files with these names; the text of each is its name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{how}") as tar:  # type: ignore[call-overload]
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name.encode())
            tar.addfile(member, io.BytesIO(name.encode()))
    return buffer.getvalue()


@pytest.mark.parametrize("how", ["", "gz", "bz2", "xz"])
@pytest.mark.parametrize("outer", ["zip", "tar"])
def test_a_tar_archive_lies_in_another_whatever_its_name(
    outer: str, how: str, tmp_path: Path
) -> None:
    path, inner = tmp_path / f"outer.{outer}", tar_of(["a.txt", "in/b.txt"], how)
    if outer == "zip":
        with zipfile.ZipFile(path, "w") as zipped:
            zipped.writestr("inner.any", inner)
    else:
        with tarfile.open(path, "w") as tar:
            member = tarfile.TarInfo("inner.any")
            member.size = len(inner)
            tar.addfile(member, io.BytesIO(inner))
    rest = f"::{outer}://inner.any::{path}"
    assert keys(f"tar://{rest}") == [f"tar://a.txt{rest}", f"tar://in/b.txt{rest}"]


def test_names_of_members_may_be_odd(tmp_path: Path) -> None:
    """``tar -P`` writes absolute names; none of these hides the others."""
    path, names = tmp_path / "a.tar", ["/abs/a.txt", "../b.txt", "d//c.txt", "d/./e.txt", "f.txt"]
    path.write_bytes(tar_of(names))
    with tarfile.open(path, "a") as tar:
        pipe = tarfile.TarInfo("pipe.txt")
        pipe.type = tarfile.FIFOTYPE
        tar.addfile(pipe)
    *documents, refused = read_documents([f"tar://::{path}"])
    assert [item.body for item in documents if isinstance(item, Document)] == names
    assert isinstance(refused, Rejected)
    assert refused.reason == "cannot be opened: Can only handle regular files"
    assert keys(f"tar:///abs/*.txt::{path}") == [f"tar://abs/a.txt::{path}"]
    zipped = tmp_path / "a.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("./a.txt", "a")
    assert keys(f"zip://::{zipped}") == [f"zip://./a.txt::{zipped}"]


def test_options_of_folders_hold_below_urls(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of(["a.txt", "b.md", ".c.txt", "in/.d/e.txt", "in/f.txt"]))

    def members(pattern: str, **how: Any) -> list[str]:
        url = f"tar://{pattern}::{path}"
        return [str(item.body) for item in read_documents([url], **how)]

    assert members("") == ["a.txt", "b.md", "in/f.txt"]
    assert members("", hidden=True) == ["a.txt", "b.md", ".c.txt", "in/.d/e.txt", "in/f.txt"]
    assert members("", include=["*.txt"]) == ["a.txt", "in/f.txt"]
    assert members("", exclude=["in/"]) == ["a.txt", "b.md"]
    assert members("*", exclude=["*.txt"]) == ["b.md"]
    assert members("in", exclude=["/f.txt"]) == []


def test_of_many_archives_one_stays_open(tmp_path: Path) -> None:
    urls = [archive(tmp_path / f"{number}.zip", "ab") for number in range(20)]
    n_open = []
    gc.freeze()  # looks at what is made from here on, not at all that other tests hold
    try:
        for _ in read_documents(urls):
            gc.collect()
            n_open.append(sum(isinstance(item, zipfile.ZipFile) for item in gc.get_objects()))
        assert max(n_open) <= 2
        gc.collect()
        assert not any(isinstance(item, zipfile.ZipFile) for item in gc.get_objects())
    finally:
        gc.unfreeze()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "fsspec"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError, match="needs fsspec") as caught:
        read_documents(["s3://bucket/a.jsonl"])
    assert "[remote]" in str(caught.value.hint)


def test_a_file_of_that_name_is_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory:").mkdir()
    (tmp_path / "memory:" / "a.jsonl").write_bytes(LINES)
    assert keys("memory://a.jsonl") == EXPECTED


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the file, or with the status that the path names."""
        status = self.path.strip("/").partition("/")[0]
        if not status.isdigit():
            return super().do_GET()
        return self.send_error(int(status))

    def log_message(self, *given: Any) -> None:
        """Say nothing."""


def test_over_http(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("aiohttp")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINES))
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.jsonl.gz"
        assert "added 30" in run("add", tmp_path / "x.lshdb", url).stderr
        missing = run("add", tmp_path / "y.lshdb", url.replace("a.", "b."), code=1)
        assert "no such file or folder" in missing.stderr
        for status in (403, 500):
            other = url.replace("/a.", f"/{status}/a.")
            refused = run("add", tmp_path / "y.lshdb", other, code=1)
            assert f"cannot be looked up: {status}" in refused.stderr
        refused = run("dedup", tmp_path / "x.lshdb", url, "--output", tmp_path / "out", code=1)
        assert "is elsewhere" in refused.stderr
        server.shutdown()
    with Index.open(tmp_path / "x.lshdb") as index:
        assert index.show("k3").document.source == f"{url}:4"
