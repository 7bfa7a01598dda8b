"""A copy of hard links, as ``cp -al`` makes it, stays as it was: nobody writes to the index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lshdb import Index, ReadOnlyError
from tests.cli.conftest import MODULE, environment
from tests.conftest import family_corpus
from tests.raw import is_sqlite
from tests.sizes import set_sizes

CORPUS = family_corpus(5, families=20)
FIRST, LATER = CORPUS[:60], CORPUS[60:]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "my news.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add(FIRST)
        index.advance("m", 0)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "other.lshdb", threshold=0.5) as index:
        index.add(LATER)
    return tmp_path / "other.lshdb"


def link_all(path: Path) -> Path:
    snapshot = path.with_name("snapshot.lshdb")
    shutil.copytree(path, snapshot, copy_function=os.link)
    return snapshot


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")
    }


def lshdb(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MODULE, *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def open_and(change: Callable[[Index], object]) -> Callable[[Path, Path], object]:
    def changed(path: Path, other: Path) -> object:
        with Index.open(path) as index:
            return change(index)

    return changed


def merge(path: Path, other: Path) -> None:
    with Index.open(path) as index, Index.open(other) as source:
        index.merge(source)


WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "add": open_and(lambda index: index.add(LATER)),
    "remove": open_and(lambda index: index.remove([FIRST[0][0]])),
    "expire": open_and(lambda index: index.expire(datetime.now(UTC))),
    "compact": open_and(lambda index: index.compact()),
    "clusters": open_and(lambda index: index.update_clusters()),
    "advance": open_and(lambda index: index.advance("m", 1)),
    "reband": lambda path, other: Index.reband(path, threshold=0.7),
    "merge": merge,
}


@pytest.mark.parametrize("side", ["index", "snapshot"])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_changes_either(path: Path, other: Path, writer: str, side: str) -> None:
    snapshot = link_all(path)
    before = bytes_of(snapshot)
    with Index.open(snapshot) as index:
        expected = list(index.pairs())
    target = path if side == "index" else snapshot
    with pytest.raises(ReadOnlyError, match=r"signatures\.npy ha(ve|s) hard links"):
        WRITERS[writer](target, other)
    assert bytes_of(snapshot) == before == bytes_of(path)
    if is_sqlite(path):
        with Index.open(snapshot) as index:
            assert list(index.pairs()) == expected
            assert index.check() == []


def test_the_hint_gives_the_index_files_of_its_own(path: Path, other: Path) -> None:
    snapshot = link_all(path)
    before = bytes_of(snapshot)
    with Index.open(path) as index, pytest.raises(ReadOnlyError) as caught:
        index.add(LATER)
    assert caught.value.hint is not None
    command = caught.value.hint.split(": ", 1)[1].split("; make")[0]
    subprocess.run(["sh", "-c", command], check=True, timeout=300)
    for writer in WRITERS.values():
        writer(path, other)
    with Index.open(path) as index:
        assert index.check() == []
    assert bytes_of(snapshot) == before


@pytest.mark.sqlite("about a file of SQLite")
def test_the_hint_for_a_database_outside_the_index(tmp_path: Path) -> None:
    database = tmp_path / "my databases" / "news.db"
    database.parent.mkdir()
    with Index.create(tmp_path / "x.lshdb", database=f"sqlite:///{database}") as index:
        index.add(FIRST)
    path, before = tmp_path / "x.lshdb", database.read_bytes()
    link_all(path)
    os.link(database, tmp_path / "linked.db")
    with Index.open(path) as index, pytest.raises(ReadOnlyError, match=r"news\.db") as caught:
        index.add(LATER)
    assert caught.value.hint is not None
    command = caught.value.hint.split(": ", 1)[1].split("; make")[0]
    subprocess.run(["sh", "-c", command], check=True, timeout=300)
    with Index.open(path) as index:
        index.add(LATER)
        assert index.check() == []
    assert (tmp_path / "linked.db").read_bytes() == before


def test_links_that_come_during_an_add(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next commit of the add is refused; what was committed before them is in both."""
    set_sizes(monkeypatch, batch_documents=10, first_documents=10, commit_postings=1)
    snapshot = path.with_name("snapshot.lshdb")

    def documents() -> object:
        for at, document in enumerate(LATER):
            if at == 30:
                link_all(path)
            yield document

    with Index.open(path) as index, pytest.raises(ReadOnlyError, match="hard links"):
        index.add(documents())
    if is_sqlite(path):
        with Index.open(snapshot) as index:
            assert index.check() == []
            assert 60 <= index.stats().documents < len(CORPUS)


@pytest.mark.parametrize("name", ["signatures.npy", "vectors.npy", "index.db", "index.db-wal"])
def test_one_file_that_equal_files_were_united_with(tmp_path: Path, name: str) -> None:
    vectors = [(key, [float(len(text)), *map(float, text.encode()[:7])]) for key, text in FIRST]
    with Index.create(tmp_path / "x.lshdb", metric="cosine", dim=8) as index:
        index.add(vectors[:30])
        if not (tmp_path / "x.lshdb" / name).exists():
            pytest.skip("this database has no such file")
        os.link(tmp_path / "x.lshdb" / name, tmp_path / "elsewhere")
        before = (tmp_path / "elsewhere").read_bytes()
        notes: list[str] = []
        assert index.check(on_note=notes.append) == []
        assert [note for note in notes if "hard links" in note and name in note]
        with pytest.raises(ReadOnlyError, match=rf"{name} has hard links"):
            index.add(vectors[30:])
        assert (tmp_path / "elsewhere").read_bytes() == before
        (tmp_path / "elsewhere").unlink()
        index.add(vectors[30:])
        assert index.check() == []


def test_what_only_reads_or_makes_new_files_goes_on(path: Path, tmp_path: Path) -> None:
    """Order files are never changed in place, so their links are nobody's concern."""
    snapshot = link_all(path)
    before = bytes_of(snapshot)
    with Index.open(path) as index:
        assert index.query(FIRST[0][1])[0].key == FIRST[0][0]
        index.copy(tmp_path / "copy.lshdb")
        index.export(tmp_path / "export")
        assert index.check() == []
    Index.repair(path)
    with Index.open(tmp_path / "copy.lshdb") as index:
        index.add(LATER)
        assert index.check() == []
    assert bytes_of(snapshot) == before


def test_clusters_say_what_they_can_from_before(
    path: Path,
) -> None:
    with Index.open(path) as index:
        index.update_clusters()
        index.add(LATER)
    link_all(path)
    done = lshdb("clusters", str(path))
    assert done.returncode == 0
    assert done.stdout.count("\n") > 3
    assert "the documents of batch 2 are not compared" in done.stderr


def test_the_command_line_refuses_with_one_message(path: Path, tmp_path: Path) -> None:
    link_all(path)
    (tmp_path / "new.jsonl").write_text('{"id": "n", "text": "a text of some words that is new"}\n')
    done = lshdb("add", str(path), str(tmp_path / "new.jsonl"))
    assert done.returncode == 1
    assert "hard links elsewhere" in done.stderr and "cp -a '" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sqlite("makes damage in a file")
def test_repair_of_a_linked_index_is_refused(path: Path) -> None:
    with open(path / "signatures.npy", "r+b") as file:
        file.seek(400)
        file.write(b"damage")
    snapshot = link_all(path)
    before = bytes_of(snapshot)
    with pytest.raises(ReadOnlyError, match="hard links"):
        Index.repair(path)
    assert bytes_of(snapshot) == before


@pytest.mark.skipif(sys.platform != "linux", reason="coreutils")
def test_a_copy_by_cp_without_links_is_an_index_of_its_own(path: Path) -> None:
    copy = path.with_name("copy.lshdb")
    subprocess.run(["cp", "-a", path, copy], check=True, timeout=300)
    with Index.open(path) as index:
        index.remove([FIRST[0][0]])
        assert index.check() == []
