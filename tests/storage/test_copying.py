"""Copies: one state, whole or not at all, whatever goes on meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lshdb import DamageError, Index, IndexExistsError, LshdbError, ParameterError
from lshdb.storage.rowfiles.row_file import RowFile
from tests.answers import answers, lively_index
from tests.children.databases import child_path
from tests.children.waiting import join_all
from tests.conftest import family_corpus
from tests.sizes import set_sizes

Make = Callable[..., Index]


@pytest.mark.parametrize("parameters", [{}, {"store_text": False}, {"unit": "char", "k": 4}])
def test_a_copy_answers_the_same(
    make_index: Make, tmp_path: Path, parameters: dict[str, object]
) -> None:
    index = lively_index(make_index, "a", **parameters)
    index.copy(tmp_path / "copy")
    with Index.open(tmp_path / "copy") as copy:
        assert answers(copy) == answers(index)
        assert copy.stats().uuid == index.stats().uuid
        assert copy.stats().unused_signatures == index.stats().unused_signatures > 0
        copy.add([("new", "one more text for the copy alone")])
    assert list(index.sql("SELECT count(*) FROM document WHERE key = 'new'").rows) == [(0,)]
    assert sorted(os.listdir(tmp_path)) == ["a", "copy"]


def test_an_empty_index_is_copied(make_index: Make, tmp_path: Path) -> None:
    index = make_index("a")
    (tmp_path / "copy").mkdir()
    index.copy(tmp_path / "copy")
    with Index.open(tmp_path / "copy") as copy:
        assert answers(copy) == answers(index)


@pytest.mark.sqlite("where its file is")
def test_databases_that_lie_elsewhere(make_index: Make, tmp_path: Path) -> None:
    """The copy's database is in the copy, unless another place is given."""
    elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
    index = lively_index(make_index, "a", database=elsewhere)
    index.copy(tmp_path / "inside")
    index.copy(tmp_path / "outside", database=f"sqlite:///{tmp_path / 'third.db'}")
    before = answers(index)
    for name, database in (("inside", "inside/index.db"), ("outside", "third.db")):
        with Index.open(tmp_path / name) as copy:
            assert answers(copy) == before
        assert (tmp_path / database).exists()
    with pytest.raises(IndexExistsError, match="other"):
        index.copy(tmp_path / "fourth", database=elsewhere)
    assert not (tmp_path / "fourth").exists()


def test_a_commit_in_the_middle_is_not_in_the_copy(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = lively_index(make_index, "a")
    before = answers(index)
    copy_to = RowFile.copy_to

    def and_then_commit(self: RowFile, target: Path, n_committed: int) -> None:
        copy_to(self, target, n_committed)
        with Index.open(index.path) as other:
            other.add([("meanwhile", "a text that comes in while the index is being copied")])
            other.remove([before["order"][0]])

    monkeypatch.setattr(RowFile, "copy_to", and_then_commit)
    index.copy(tmp_path / "copy")
    with Index.open(tmp_path / "copy") as copy:
        assert answers(copy) == before


def test_copies_beside_a_writer_are_states_that_were_committed(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=4, commit_postings=0)
    index = make_index("a", threshold=0.5)
    corpus = family_corpus(5, families=20)
    writer = threading.Thread(target=index.add, args=(corpus,), daemon=True)
    writer.start()
    sizes = []
    with Index.open(index.path) as reader:
        while writer.is_alive() or not sizes:
            path = tmp_path / f"copy{len(sizes)}"
            reader.copy(path)
            with Index.open(path) as copy:
                assert copy.check() == []
                keys = [key for (key,) in copy.sql("SELECT key FROM document ORDER BY doc_id").rows]
                assert keys == [key for key, _ in corpus[: len(keys)]]
                assert len(keys) % 4 == 0 or len(keys) == len(corpus)
                sizes.append(len(keys))
            shutil.rmtree(path)
    join_all([writer])
    assert len(set(sizes)) > 2, sizes


def test_refused_destinations(make_index: Make, tmp_path: Path) -> None:
    index = make_index("a")
    for inside in ("a/copy", "a/../a/copy"):
        with pytest.raises(ParameterError, match="inside the index"):
            index.copy(tmp_path / inside)
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(ParameterError, match="inside the index"):
        index.copy(tmp_path / "link" / "copy")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    for there in ("a", "file", "folder"):
        with pytest.raises(IndexExistsError, match="already"):
            index.copy(tmp_path / there)
    with pytest.raises(LshdbError, match="does not exist"):
        index.copy(tmp_path / "none" / "copy")
    assert (tmp_path / "folder" / "file").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["a", "file", "folder", "link"]


def test_a_cut_signature_file_is_no_copy(make_index: Make, tmp_path: Path) -> None:
    index = make_index("a")
    index.add(family_corpus(1, families=3))
    shutil.copytree(index.path, tmp_path / "cut")
    with Index.open(tmp_path / "cut") as cut:
        os.truncate(tmp_path / "cut" / "signatures.npy", 1000)
        with pytest.raises(DamageError, match="ends before a committed row"):
            cut.copy(tmp_path / "copy")
    assert sorted(os.listdir(tmp_path)) == ["a", "cut"]


def test_rows_are_copied_in_blocks_where_the_system_does_not(
    make_index: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index("a")
    index.add(family_corpus(1, families=5))

    def refuse(*_: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    monkeypatch.setattr("lshdb.files.descriptors._BLOCK_BYTES", 1001)
    index.copy(tmp_path / "copy")
    both = [(tmp_path / name / "signatures.npy").read_bytes() for name in ("a", "copy")]
    assert both[0] == both[1]


@pytest.mark.sqlite("of its file")
@pytest.mark.parametrize("blocks", [40, 200])
def test_no_space_left(make_index: Make, tmp_path: Path, blocks: int) -> None:
    """A limit on the size of files stands for a full disk, in the rows and in the database."""
    index = make_index("a")
    index.add(family_corpus(2, families=40))
    index.close()
    limited = ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "-"]
    done = subprocess.run(
        [*limited, sys.executable, "-m", "lshdb", "copy", "a", "copy"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": child_path()},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: cannot make")
    assert "ulimit -f" in done.stderr
    assert os.listdir(tmp_path) == ["a"]


KILLED = """
import os, signal, sys
from lshdb import Index
os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Index.open("a").copy("copy")
"""


def test_killed_before_the_end_there_is_none(make_index: Make, tmp_path: Path) -> None:
    index = lively_index(make_index, "a")
    environment = {**os.environ, "PYTHONPATH": child_path()}
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, timeout=300
    )
    assert done.returncode == -9
    assert sorted(os.listdir(tmp_path)) == [".copy.new", "a"]
    index.copy(tmp_path / "copy")
    assert sorted(os.listdir(tmp_path)) == ["a", "copy"]
    files = {name for name in os.listdir(tmp_path / "copy") if not name.startswith("index.db")}
    assert {name for name in files if not name.startswith("orders.0.")} == {
        "index.toml", "lock", "signatures.npy",
    }  # fmt: skip
    with Index.open(tmp_path / "copy") as copy:
        assert answers(copy) == answers(index)
