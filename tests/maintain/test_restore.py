"""A database from an earlier moment beside later files: it is the truth, and the index goes on."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import (
    DamageError,
    Index,
    IndexNotFoundError,
    LshdbError,
    LshdbWarning,
    ParameterMismatchError,
)
from tests.conftest import family_corpus
from tests.raw import raw

CORPUS = family_corpus(11, families=40)
FIRST, LOST, LATER = CORPUS[:70], CORPUS[70:120], CORPUS[120:]


def online_backup(database: Path, copy: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(database)) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)


def vacuum_into(database: Path, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as source:
        source.execute("VACUUM INTO ?", (str(copy),))


def checkpointed_file(database: Path, copy: Path) -> None:
    """As what replicates the log restores it: the file alone, all pages in it."""
    with contextlib.closing(sqlite3.connect(database)) as source:
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(database, copy)


BACKUPS = [online_backup, vacuum_into, checkpointed_file]


def put_back(copy: Path, path: Path) -> None:
    for name in ("index.db-wal", "index.db-shm"):
        (path / name).unlink(missing_ok=True)
    shutil.copy(copy, path / "index.db")


def answers(path: Path) -> tuple[object, ...]:
    with Index.open(path) as index:
        return list(index.pairs()), [index.query(text) for _, text in CORPUS[::9]], index.check()


@pytest.mark.sqlite("about copies of a file; docs/guides/operations.md has the same on Postgres")
@pytest.mark.parametrize("backup", BACKUPS)
@pytest.mark.parametrize("keeps_vectors", [False, True])
def test_an_earlier_database_goes_on_with_later_files(
    tmp_path: Path, backup: Callable[[Path, Path], None], keeps_vectors: bool
) -> None:
    def bodies(corpus: list[tuple[str, str]]) -> Any:
        if not keeps_vectors:
            return corpus
        return [(key, [float(len(key)), *map(float, text.encode()[:7])]) for key, text in corpus]

    options: dict[str, Any] = {"metric": "cosine", "dim": 8} if keeps_vectors else {}
    path, plain = tmp_path / "x.lshdb", tmp_path / "plain.lshdb"
    with Index.create(path, **options) as index:
        index.add(bodies(FIRST))
        backup(path / "index.db", tmp_path / "backup.db")
        index.add(bodies(LOST))
    put_back(tmp_path / "backup.db", path)
    notes: list[str] = []
    with Index.open(path) as index:
        assert index.check(on_note=notes.append) == []
        assert any("as after a restore" in note for note in notes)
    with Index.open(path) as index, pytest.warns(LshdbWarning, match="as after a restore"):
        index.add(bodies(LATER))
    with Index.open(path) as index:
        notes = []
        assert index.check(on_note=notes.append) == []
        assert not notes
    with Index.create(plain, **options) as index:
        index.add(bodies(FIRST))
        index.add(bodies(LATER))
        expected = list(index.pairs())
    with Index.open(path) as index:
        assert list(index.pairs()) == expected


def rolled_back(path: Path, change: Callable[[], object]) -> None:
    """Do something, and let the database forget it; the files stay as they are."""
    online_backup(path / "index.db", path.parent / "earlier.db")
    change()
    put_back(path.parent / "earlier.db", path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add(FIRST)
    return path


@pytest.mark.sqlite("puts a file back")
@pytest.mark.parametrize("write", ["remove", "compact", "reband", "merge"])
def test_each_writer_puts_the_header_back(path: Path, tmp_path: Path, write: str) -> None:
    def add() -> None:
        with Index.open(path) as index:
            index.add(LOST)

    rolled_back(path, add)
    with Index.create(tmp_path / "other.lshdb") as other:
        other.add(LATER)
        with Index.open(path) as index, pytest.warns(LshdbWarning, match="as after a restore"):
            if write == "remove":
                index.remove([FIRST[0][0]])
            elif write == "compact":
                index.compact()
            elif write == "reband":
                Index.reband(path, threshold=0.6)
            else:
                index.merge(other)
    with Index.open(path) as index:
        assert index.check() == []
        index.add(CORPUS)
        assert index.check() == []


@pytest.mark.sqlite("puts a file back")
def test_rows_of_another_history_are_refused_with_a_way_out(path: Path, tmp_path: Path) -> None:
    """Both histories begin with the same rows; then each has others."""
    twin = tmp_path / "twin.lshdb"
    with Index.open(path) as index:
        index.copy(twin)
        index.add(LOST[:20])
    with Index.open(twin) as index:
        index.add(LATER)
    shutil.copy(twin / "signatures.npy", path / "signatures.npy")
    with Index.open(path) as index:
        findings = index.check()
        assert findings
        assert [f.where for f in index.check(quick=True)] == [findings[0].where]
        before = (path / "signatures.npy").read_bytes()
        with pytest.raises(DamageError, match="not in it") as caught:
            index.add(LATER)
    assert "lshdb copy" in (caught.value.hint or "")
    assert (path / "signatures.npy").read_bytes() == before
    Index.repair(path)
    with Index.open(path) as index:
        assert index.check() == []
        assert index.stats().documents == 90


@pytest.mark.sqlite("puts a file back")
def test_a_reader_meanwhile_sees_its_state(path: Path) -> None:
    def add() -> None:
        with Index.open(path) as index:
            index.add(LOST)

    rolled_back(path, add)
    with Index.open(path) as reader:
        begun = reader.pairs()
        first = next(begun)
        with Index.open(path) as index, pytest.warns(LshdbWarning):
            expected = list(index.pairs())
            index.add(LATER)
        assert [first, *begun] == expected
        assert reader.query(LATER[0][1])[0].key == LATER[0][0]


@pytest.mark.sqlite("puts a file back")
def test_a_header_that_lags_again_is_put_back_again(path: Path) -> None:
    """The header is not synced: a loss of power may bring the later number back."""

    def add() -> None:
        with Index.open(path) as index:
            index.add(LOST)

    rolled_back(path, add)
    later = (path / "signatures.npy").read_bytes()[:128]
    for part in (LATER[:1], LATER[1:2]):
        with Index.open(path) as index, pytest.warns(LshdbWarning):
            index.add(part)
        with open(path / "signatures.npy", "r+b") as file:
            os.pwrite(file.fileno(), later, 0)
    with Index.open(path) as index:
        assert index.check() == []


@pytest.mark.sqlite("copies files")
@pytest.mark.parametrize("between", ["add", "compact"])
@pytest.mark.parametrize("older", ["database", "files"])
def test_a_snapshot_of_two_moments_is_repaired_from_texts(
    path: Path, tmp_path: Path, between: str, older: str
) -> None:
    earlier = tmp_path / "earlier.lshdb"
    with Index.open(path) as index:
        index.copy(earlier)
        index.remove([key for key, _ in FIRST[:9]])
        index.compact() if between == "compact" else index.add(LOST)
    later = path
    torn = tmp_path / "torn.lshdb"
    database, files = (earlier, later) if older == "database" else (later, earlier)
    shutil.copytree(files, torn)
    put_back(database / "index.db", torn)
    if (between, older) == ("add", "database"):
        with Index.open(torn) as index, pytest.warns(LshdbWarning):
            index.add(LATER)
    else:
        with pytest.raises(DamageError) as caught:
            Index.open(torn).add(LATER)
        assert "check --repair" in (caught.value.hint or "")
        assert Index.repair(torn).lost == []
        with Index.open(torn) as index:
            index.add(LATER)
    with Index.open(torn) as index, Index.open(database) as other:
        assert index.check() == []
        keys = {key for (key,) in other.sql("SELECT key FROM document").rows}
        assert keys < {key for (key,) in index.sql("SELECT key FROM document").rows}


def test_a_database_that_forgets_an_add_on_either_kind(tmp_path: Path) -> None:
    """What a promoted standby lacks, on SQLite and Postgres: the rows of the last add."""
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add(FIRST)
    with raw(path) as execute:
        tables = ["signature_block", "state", "segment"]
        kept = {table: execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    with Index.open(path) as index:
        index.add(LOST)
    with raw(path) as execute:
        (batch,) = execute("SELECT max(batch_id) FROM batch").fetchone()
        for table in ("content", "kept_field"):
            execute(
                f"DELETE FROM {table} WHERE doc_id IN "
                f"(SELECT doc_id FROM document WHERE batch_id = {batch})"
            )
        execute(f"DELETE FROM document WHERE batch_id = {batch}")
        execute(f"DELETE FROM band WHERE signature_id >= {kept['state'][0][7]}")
        execute(f"DELETE FROM batch WHERE batch_id = {batch}")
        for table, rows in kept.items():
            execute(f"DELETE FROM {table}")
            for row in rows:
                execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", tuple(row))
    with Index.open(path) as index:
        assert index.check() == []
        with pytest.warns(LshdbWarning, match="as after a restore"):
            index.add(LATER)
        assert index.check() == []
        assert answers(path)[0]


# index.toml


def lose(path: Path) -> None:
    (path / "index.toml").unlink()


def empty(path: Path) -> None:
    os.truncate(path / "index.toml", 0)


def cut(path: Path) -> None:
    """As a full disk leaves it: in the middle of a parameter, with what is before."""
    text = (path / "index.toml").read_text()
    (path / "index.toml").write_text(text[: text.index("num_perm") + 5])


def edit(path: Path) -> None:
    text = (path / "index.toml").read_text()
    (path / "index.toml").write_text(text.replace("threshold = 0.8", "threshold = 0.7"))


@pytest.mark.parametrize("damage", [lose, empty, cut, edit])
def test_index_toml_is_made_again_from_the_database(
    path: Path, damage: Callable[[Path], None]
) -> None:
    before = (path / "index.toml").read_text()
    expected = answers(path)
    damage(path)
    if not is_sqlite_path(before) and damage in (lose, empty):
        with pytest.raises(LshdbError):
            Index.repair(path)
        places = [line for line in before.splitlines() if line.startswith(("database", "schema"))]
        (path / "index.toml").write_text("\n".join(places))
    with pytest.raises(LshdbError) as caught:
        Index.open(path)
    assert f"lshdb check --repair {path}" in (caught.value.hint or "")
    result = Index.repair(path)
    assert [finding.kind for finding in result.findings] == ["description"]
    assert result.documents == len(FIRST)
    assert (path / "index.toml").read_text() == before
    assert answers(path) == expected
    assert Index.repair(path).findings == []


def is_sqlite_path(description: str) -> bool:
    return "\ndatabase = " not in description


def test_the_uuid_of_another_index_is_never_written_over(path: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "other.lshdb") as other:
        other.add(LATER)
    for source, target in ((tmp_path / "other.lshdb", path),):
        text = (source / "index.toml").read_text()
        own = (target / "index.toml").read_text().splitlines()
        lines = [new if new.startswith("uuid") else old for new, old in
                 zip(text.splitlines(), own, strict=True)]  # fmt: skip
        (target / "index.toml").write_text("\n".join(lines))
    before = (path / "index.toml").read_text()
    with pytest.raises(ParameterMismatchError, match="uuid"):
        Index.repair(path)
    assert (path / "index.toml").read_text() == before


@pytest.mark.sqlite("a database of one file")
@pytest.mark.parametrize("backup", BACKUPS)
def test_a_database_alone_becomes_the_whole_index(
    path: Path, tmp_path: Path, backup: Callable[[Path, Path], None]
) -> None:
    """All that is left is what was backed up or replicated."""
    expected = answers(path)
    alone = tmp_path / "alone.lshdb"
    alone.mkdir()
    backup(path / "index.db", alone / "index.db")
    with pytest.raises(LshdbError, match="has lost") as caught:
        Index.open(alone)
    assert f"lshdb check --repair {alone}" in (caught.value.hint or "")
    assert Index.repair(alone).lost == []
    assert answers(alone) == expected


@pytest.mark.sqlite("puts a file back")
def test_a_database_from_before_a_reband(path: Path) -> None:
    with Index.open(path) as index:
        expected = list(index.pairs())
    rolled_back(path, lambda: Index.reband(path, threshold=0.5))
    with pytest.raises(ParameterMismatchError, match="bands"):
        Index.open(path)
    assert [finding.kind for finding in Index.repair(path).findings] == ["description"]
    with Index.open(path) as index:
        assert list(index.pairs()) == expected
        index.add(LATER)
        assert index.check() == []


@pytest.mark.parametrize("name", ["photos", "tables", "empty"])
def test_a_folder_that_is_no_index_is_not_made_one(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    if name == "photos":
        (folder / "index.db").write_bytes(b"somebody else's")
    if name == "tables":
        with contextlib.closing(sqlite3.connect(folder / "index.db")) as database:
            database.execute("CREATE TABLE state (uuid TEXT)")
    with pytest.raises(IndexNotFoundError, match="no index"):
        Index.repair(folder)
    assert not (folder / "index.toml").exists()


@pytest.mark.sqlite("about a file")
@pytest.mark.parametrize("damage", ["empties", "removes"])
def test_a_database_of_no_bytes_is_damage_with_a_way_out(path: Path, damage: str) -> None:
    for name in ("index.db-wal", "index.db-shm"):
        (path / name).unlink()
    if damage == "empties":
        os.truncate(path / "index.db", 0)
    else:
        (path / "index.db").unlink()
    before = {entry.name for entry in path.iterdir()}
    for call in (Index.open, Index.repair, Index.upgrade):
        with pytest.raises(DamageError) as caught:
            call(path)
        assert "restore it from a copy" in (caught.value.hint or "")
    assert {entry.name for entry in path.iterdir()} == before
