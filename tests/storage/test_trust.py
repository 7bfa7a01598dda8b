"""A database from elsewhere is compared with its schema before anything is asked of it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lshdb import DamageError, Index
from lshdb.storage.dialects.sqlite.sqlite_database import SqliteDatabase
from lshdb.storage.dialects.sqlite.trust import _band_objects, words_of
from lshdb.storage.tables.migrations import SCHEMA_REVISION
from tests.children.databases import child_path
from tests.storage import freeze_schemas

pytestmark = pytest.mark.sqlite("its schema")

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"
DOCUMENTS = [(f"key{number}", f"some words of text {number} and more") for number in range(9)]
PLANTED = {
    "posting": (
        "DROP VIEW posting; CREATE VIEW posting AS "
        + ENDLESS.format("x AS band, x AS bucket, x AS signature_id"),
        "view posting",
    ),
    "posting over another table": (
        "CREATE TABLE mine (b0, signature_id); DROP VIEW posting; CREATE VIEW posting AS "
        "SELECT CAST(0 AS INTEGER) AS band, b0 AS bucket, signature_id FROM mine",
        "view posting",
    ),
    "cluster": (
        "DROP VIEW cluster; CREATE VIEW cluster AS "
        + ENDLESS.format("x AS label, x AS key, x AS doc_id, x AS signature_id"),
        "view cluster",
    ),
    "state": (
        "ALTER TABLE state RENAME TO old; CREATE VIEW state AS "
        + ENDLESS.format(
            "1 AS state_id, 1 AS format, x AS uuid, x AS signature_file, x AS n_signatures, "
            "x AS next_doc_id"
        ),
        "view state; expected a table",
    ),
    "the revision": (
        "DROP TABLE alembic_version; CREATE VIEW Alembic_Version AS "
        + ENDLESS.format("x AS version_num"),
        "view alembic_version; expected a table",
    ),
    "bands": (
        "DROP TABLE band; CREATE VIEW band AS " + ENDLESS.format("x AS signature_id, x AS b0"),
        "view band",
    ),
    "a band that is computed": (
        "ALTER TABLE band RENAME TO old; CREATE TABLE band (signature_id INTEGER NOT NULL, "
        "b0 INTEGER AS (1 / 0), CONSTRAINT pk_band PRIMARY KEY (signature_id))",
        "table band that lshdb did not make",
    ),
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON document BEGIN DELETE FROM content; END",
        "trigger t; an index has none",
    ),
    "a trigger of theirs": (
        "CREATE TABLE mine (x); CREATE TRIGGER u AFTER INSERT ON mine BEGIN DELETE FROM edge; END",
        "trigger u; an index has none",
    ),
    "another table": (
        "DROP TABLE edge_state; CREATE TABLE edge_state (threshold, method, x AS (1 / 0))",
        "table edge_state that lshdb did not make",
    ),
    "no table": ("DROP TABLE signature_release", "lacks the table signature_release"),
    "an index of ours on another column": (
        "DROP INDEX ix_document_batch_id; CREATE INDEX ix_document_batch_id ON document (n_chars)",
        "index ix_document_batch_id that lshdb did not make",
    ),
    "a virtual table": (
        "DROP TABLE cluster_member; CREATE VIRTUAL TABLE cluster_member USING fts5(signature_id)",
        "virtual table cluster_member; expected a table",
    ),
}


def plant(path: Path, script: str) -> None:
    connection = sqlite3.connect(path / "index.db", isolation_level=None)
    connection.executescript(script)
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lshdb"
    with Index.create(path) as index:
        index.add(DOCUMENTS)
    return path


def refused(path: Path, work: str) -> str:
    """What a process says that does something with the index; it must end by itself."""
    code = f"import sys; from lshdb import Index\nwith Index.open(sys.argv[1]) as index: {work}"
    if work == "upgrade":
        command = ["-m", "lshdb", "upgrade", str(path)]
    elif work == "check":
        command = ["-m", "lshdb", "check", "--quick", str(path)]
    else:
        command = ["-c", code, str(path)]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": child_path()},
    )  # fmt: skip
    assert done.returncode
    return done.stderr


@pytest.mark.parametrize("what", list(PLANTED))
def test_what_was_planted_is_named_and_not_asked(path: Path, what: str) -> None:
    script, words = PLANTED[what]
    plant(path, script)
    before = (path / "index.db").read_bytes()
    for work in ("index.add([('a', 'b')])", "upgrade", "check"):
        assert words in refused(path, work)
    assert (path / "index.db").read_bytes() == before


@pytest.mark.parametrize("what", ["a trigger", "state", "bands", "the revision"])
def test_a_repair_does_not_run_what_was_planted(path: Path, what: str) -> None:
    script, words = PLANTED[what]
    plant(path, script)
    with pytest.raises(DamageError, match=words.partition(";")[0]):
        Index.repair(path)


@pytest.mark.parametrize("revision", ["9999", "", "0000"])
def test_under_a_revision_that_is_not_known_nothing_of_ours_is_a_view(
    path: Path, revision: str
) -> None:
    plant(path, f"UPDATE alembic_version SET version_num = '{revision}'")
    plant(path, PLANTED["state"][0])
    assert "view state; expected a table" in refused(path, "upgrade")


def test_what_the_user_made_is_left_alone(path: Path) -> None:
    mine = {
        "mine": "CREATE TABLE mine (x)",
        "my_view": "CREATE VIEW my_view AS SELECT key FROM document",
        "my_index": "CREATE INDEX my_index ON document (n_chars)",
        "my_lower": "CREATE INDEX my_lower ON document (lower(key)) WHERE n_chars > 3",
    }
    plant(path, "; ".join([*mine.values(), "INSERT INTO mine VALUES (7)", "ANALYZE"]))
    with Index.open(path) as index:
        index.add([("more", "words of another text")])
        index.remove(["key1"])
        index.compact()
        assert list(index.sql("SELECT x FROM mine").rows) == [(7,)]
        assert index.check() == []
    connection = sqlite3.connect(path / "index.db")
    there = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    connection.close()
    assert mine.items() <= there.items()


def test_every_state_of_an_index_is_what_it_should_be(path: Path) -> None:
    """After adds, a compaction and a vacuum."""
    for number in range(6):
        with Index.open(path) as index:
            index.add((f"{number}-{one}", f"words {number} of {one} and more") for one in range(30))
            index.remove([f"{number}-0"])
    with Index.open(path) as index:
        list(index.clusters())
        index.compact()
        index.remove([key for (key,) in index.sql("SELECT key FROM document").rows])
        index.compact()
    with Index.open(path) as index:
        assert index.check() == []


def test_functions_of_a_schema_are_not_trusted(path: Path) -> None:
    database = SqliteDatabase(path / "index.db")
    connection, _ = database.open_file()
    assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
    connection.close()
    with contextlib.closing(database.open_writer()) as writer:
        assert writer.driver.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_a_new_database_is_what_the_migrations_make(tmp_path: Path) -> None:
    """If it is not: ``python -m tests.storage.freeze_schemas``, and commit what that writes."""
    assert freeze_schemas.revisions()[-1] == SCHEMA_REVISION
    made = freeze_schemas.rows_made_by_migrations(SCHEMA_REVISION)
    with Index.create(tmp_path / "new.lshdb"):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "new.lshdb" / "index.db")) as connection:
        there = freeze_schemas.schema_rows(connection)
        revisions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    there = [one for one in there if one[1] not in _band_objects(1)]
    assert [one[:2] for one in there] == [one[:2] for one in made]
    for (_, name, sql), (_, _, expected) in zip(there, made, strict=True):
        assert words_of(sql or "") == words_of(expected or ""), name
    assert revisions == [(SCHEMA_REVISION,)]


def test_a_new_index_imports_neither_alembic_nor_sqlalchemy(tmp_path: Path) -> None:
    """They take longer to import than the index to make and to add to."""
    program = (
        "import sys, lshdb\n"
        "with lshdb.Index.create(sys.argv[1]) as index:\n"
        "    index.add([('a', 'some words of a text')])\n"
        "assert not {'alembic', 'sqlalchemy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x")], check=True, timeout=60)
