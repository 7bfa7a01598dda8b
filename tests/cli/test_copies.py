"""``copy``, ``merge``, ``reindex``, ``export`` and ``import``: what they say and exit with."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.answers import answers
from tests.cli.conftest import DOCUMENTS, FAR, Run, jsonl, sound


def same(path: Path, other: Path) -> bool:
    with Index.open(path) as one, Index.open(other) as two:
        return answers(one) == answers(two)


def test_copy(run: Run, index_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.lshdb"
    result = run("copy", index_path, copy)
    assert result.stderr.startswith("copied 4 documents, 0.")
    assert result.stderr.endswith(f" MiB, to {copy}\n")
    assert result.stdout == ""
    assert same(index_path, copy)
    again = run("copy", index_path, copy, code=1)
    assert again.stderr.startswith("error: there is an index at")
    run("copy", index_path, index_path / "inside", code=2)
    run("copy", tmp_path / "none", copy, code=1)
    run("copy", index_path, tmp_path / "more", "--database", "mysql://x", code=2)
    assert sorted(os.listdir(tmp_path)) == ["copy.lshdb", "news.lshdb"]


def test_merge(run: Run, index_path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.lshdb"
    run("add", other, "-", stdin=jsonl([("far", FAR), ("base", "another text")]))
    refused = run("merge", index_path, other, "--on-conflict", "error", code=1)
    assert "'base' is in the index already" in refused.stderr
    assert "--on-conflict replace or skip" in refused.stderr
    result = run("merge", index_path, other, "--on-conflict", "skip")
    assert "added 1, unchanged 1;" in result.stderr
    assert result.stderr.endswith("; batch 2\n")
    assert sound(index_path)
    assert "is the index that others" in run("merge", index_path, index_path, code=2).stderr
    run("init", tmp_path / "char.lshdb", "--unit", "char")
    differs = run("merge", index_path, tmp_path / "char.lshdb", code=1)
    assert "unit is 'word' in" in differs.stderr
    assert "lshdb reindex" in differs.stderr
    run("merge", index_path, code=2)


def test_merge_waits_for_the_lock(
    run: Run, index_path: Path, tmp_path: Path, start: Callable[..., Any]
) -> None:
    run("copy", index_path, tmp_path / "other.lshdb")
    import fcntl

    with open(index_path / "lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("merge", index_path, tmp_path / "other.lshdb", "--lock-timeout", "0", code=3)


def test_reindex(run: Run, index_path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.lshdb"
    result = run("reindex", index_path, new, "--unit", "char", "--threshold", "0.6", "--no-text")
    assert "added 4, exact copies 1;" in result.stderr
    assert result.stderr.startswith(f"made the index {new}: threshold 0.6, 9-char shingles\n")
    assert sound(new)
    refused = run("reindex", new, tmp_path / "newer.lshdb", code=1)
    assert "was made without" in refused.stderr
    run("reindex", index_path, tmp_path / "newer.lshdb", "--bands", "3", code=2)
    assert not (tmp_path / "newer.lshdb").exists()


def test_export_and_import(run: Run, index_path: Path, tmp_path: Path) -> None:
    files, again = tmp_path / "files", tmp_path / "again.lshdb"
    assert run("export", index_path, "-o", files).stderr == f"exported to {files}\n"
    assert run("import", files, again).stderr == f"imported 4 documents into {again}\n"
    assert same(index_path, again)
    assert "there is an index at" in run("import", files, again, code=1).stderr
    (files / "batches.jsonl").write_text("")
    damaged = run("import", files, tmp_path / "more.lshdb", code=4)
    assert "batches.jsonl has bytes 0" in damaged.stderr
    assert "there is no export at" in run("import", index_path, tmp_path / "more", code=1).stderr
    run("export", index_path, "-o", tmp_path / "more", "--format", "csv", code=2)
    assert sorted(os.listdir(tmp_path)) == ["again.lshdb", "files", "news.lshdb"]


def test_what_is_shown_on_a_terminal(
    index_path: Path, tmp_path: Path, on_terminal: Callable[..., tuple[int, str]]
) -> None:
    code, shown = on_terminal("copy", index_path, tmp_path / "copy.lshdb")
    assert code == 0
    assert "copying" in shown
    assert "copied 4 documents" in shown


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_from_an_index_that_cannot_be_written_to(
    run: Run, index_path: Path, tmp_path: Path
) -> None:
    os.chmod(index_path, 0o555)
    try:
        run("copy", index_path, tmp_path / "copy.lshdb")
        run("reindex", index_path, tmp_path / "new.lshdb")
        run("export", index_path, "-o", tmp_path / "files")
        run("init", tmp_path / "into.lshdb")
        run("merge", tmp_path / "into.lshdb", index_path)
    finally:
        os.chmod(index_path, 0o755)
    assert sound(tmp_path / "copy.lshdb")
    assert sound(tmp_path / "into.lshdb")


def test_ctrl_c_leaves_nothing_half_made(
    run: Run, tmp_path: Path, start: Callable[..., Any]
) -> None:
    path = tmp_path / "large.lshdb"
    with Index.create(path) as index:
        index.add((f"{number}", f"text {number} " * 9) for number in range(20_000))
        index.add(DOCUMENTS)
    child = start("reindex", path, tmp_path / "new.lshdb", "--workers", "1")
    while not (tmp_path / ".new.lshdb.new" / "signatures.npy").exists():
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.wait() == 130
    assert child.stderr.read() == b"interrupted\n"
    assert os.listdir(tmp_path) == ["large.lshdb"]
