"""The signature file that a state names: opened with it, told from another's, never cut unseen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lshdb import DamageError, Index
from lshdb.storage.place import directory
from lshdb.storage.rowfiles import generations
from tests.conftest import family_corpus
from tests.raw import change

CORPUS = family_corpus(3, families=5)


def make(path: Path, corpus: list[tuple[str, str]]) -> Path:
    with Index.create(path) as index:
        index.add(corpus)
    return path


def test_the_signature_file_of_another_index_is_told_apart(tmp_path: Path) -> None:
    one = make(tmp_path / "one.lshdb", CORPUS)
    other = make(tmp_path / "other.lshdb", [(key, text + " more") for key, text in CORPUS])
    shutil.copy(other / "signatures.npy", one / "signatures.npy")
    with Index.open(one) as index:
        for question in (lambda: list(index.pairs()), lambda: index.query(CORPUS[0][1])):
            with pytest.raises(DamageError, match="have CRC-32"):
                question()
        assert any("signatures.npy" in finding.where for finding in index.check())


def test_a_format_that_no_version_has_is_damage(tmp_path: Path) -> None:
    path = make(tmp_path / "x.lshdb", CORPUS)
    change(path, "UPDATE state SET format = -1")
    with pytest.raises(DamageError, match="its format is -1, which no version has"):
        Index.open(path)
    assert Index.repair(path).findings
    with Index.open(path) as index:
        assert index.check() == []


@pytest.mark.parametrize("kept", [0, 60, 128, 128 + 256, 128 + 256 * 20])
def test_a_file_that_is_cut_while_it_is_open_kills_nobody(tmp_path: Path, kept: int) -> None:
    path = make(tmp_path / "x.lshdb", CORPUS)
    with Index.open(path) as index:
        before = list(index.pairs())
        assert before
        os.truncate(path / "signatures.npy", kept)
        for question in (lambda: list(index.pairs()), lambda: index.query(CORPUS[0][1])):
            with pytest.raises(DamageError, match="bytes long"):
                question()
        assert index.check()


def test_names_that_a_commit_refers_to_are_durable_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite syncs the folder with the first commit of a connection; no other database does."""
    path = make(tmp_path / "x.lshdb", CORPUS)
    synced: list[set[str]] = []
    for module in (generations, directory):
        monkeypatch.setattr(
            module,
            "sync_directory",
            lambda folder: synced.append({file.name for file in Path(folder).iterdir()}),
        )
    with Index.open(path) as index:
        index.remove([key for key, _ in CORPUS[:6]])
    synced.clear()
    Index.reband(path, bands=5, rows=4)
    assert "index.next.toml" in synced[0] and "signatures.1.npy" not in synced[0]
    assert {"index.next.toml", "signatures.1.npy"} <= synced[1]
    assert "index.next.toml" not in synced[2]


def test_a_new_generation_is_found_by_who_had_the_old_one_open(tmp_path: Path) -> None:
    path = make(tmp_path / "x.lshdb", CORPUS)
    with Index.open(path) as index:
        before = list(index.pairs())
        begun = index.pairs()
        first = next(begun)
        shutil.copy(path / "signatures.npy", path / "signatures.2.npy")
        change(path, "UPDATE state SET signature_file = 'signatures.2.npy'")
        (path / "signatures.npy").unlink()
        assert [first, *begun] == before
        assert list(index.pairs()) == before


@pytest.mark.sqlite("with a database elsewhere the signatures may be on another host")
def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    path = make(tmp_path / "x.lshdb", CORPUS)
    (path / "signatures.npy").rename(tmp_path / "kept.npy")
    with pytest.raises(DamageError, match=r"signatures\.npy is not there"):
        Index.open(path)
