"""The commit protocol: a batch is there whole or not at all, wherever it fails."""

from __future__ import annotations

import contextlib
import gc
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import ConflictError, DamageError, DatabaseError, Index, LshdbError
from lshdb.storage.dialects.postgresql.postgres_database import OpenPostgres
from lshdb.storage.dialects.sqlite import SqliteDatabase, connections, sqlite_session
from lshdb.storage.dialects.sqlite.sqlite_database import PAGE_SIZE, OpenSqlite
from lshdb.storage.rowfiles import row_file
from lshdb.storage.transactions import changes
from lshdb.storage.transactions.writer import Writer
from tests.children.databases import child_path
from tests.conftest import family_corpus, pair_set
from tests.postgres import PostgresUrl

Make = Callable[..., Index]
CORPUS = family_corpus(3, families=8)


def state_of(index: Index) -> tuple[object, ...]:
    with Index.open(index.path) as again:
        assert again.check() == []
        return again.stats().documents, again.stats().signatures, pair_set(again)


def failing(error: BaseException) -> Callable[..., None]:
    def fail(*_arguments: object, **_named: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (row_file.RowFile, "append"),
        (row_file, "_sync_data"),
        (changes.WriteTransaction, "record_blocks"),
        (changes.WriteTransaction, "insert_documents"),
        (changes.WriteTransaction, "put_bodies"),
        (changes.BandTable, "append"),
        (changes.WriteTransaction, "update_batch"),
    ],
)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failure_before_commit_leaves_the_index_as_it_was(
    make_index: Make,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    error: BaseException,
) -> None:
    index = make_index()
    index.add(CORPUS[:20])
    before = state_of(index)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing(error))
        expected = DatabaseError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected):
            index.add(CORPUS[20:])
    assert state_of(index) == before
    index.add(CORPUS[20:])
    plain = make_index("plain.lshdb")
    plain.add(CORPUS)
    assert state_of(index) == state_of(plain)


def test_a_count_that_is_another_than_was_read_is_not_replaced(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever let somebody else write meanwhile: their rows are not written over in SQL, too."""
    index = make_index()
    index.add(CORPUS[:20])
    before = state_of(index)
    record = changes.WriteTransaction.record_blocks

    def record_late(transaction: changes.WriteTransaction, parts: Any) -> None:
        transaction.execute("UPDATE state SET n_signatures = n_signatures + 1")
        record(transaction, parts)

    with monkeypatch.context() as patched:
        patched.setattr(changes.WriteTransaction, "record_blocks", record_late)
        with pytest.raises(DamageError, match="number of signatures is no longer"):
            index.add(CORPUS[20:])
    assert state_of(index) == before


def test_failure_at_commit_says_that_the_outcome_is_unknown(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit took effect and then reported an error: the rows must still be there."""
    index = make_index()
    index.add(CORPUS[:20])
    opened = OpenSqlite if isinstance(index._store.database, SqliteDatabase) else OpenPostgres
    commit = opened.commit
    calls = []

    def commit_and_fail(connection: Any) -> None:
        commit(connection)
        calls.append(1)
        if len(calls) == 1:  # of the batch: nothing else is committed
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(opened, "commit", commit_and_fail)
        with pytest.raises(DatabaseError, match="is not known"):
            index.add(CORPUS[20:])
    assert state_of(index)[0] == len(CORPUS)
    assert index.add(CORPUS).unchanged == len(CORPUS)


def test_a_writer_whose_commit_is_not_known_is_not_used_again(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index()
    kind = OpenSqlite if isinstance(index._store.database, SqliteDatabase) else OpenPostgres
    with Writer(index._store, lock_timeout=1) as writer, monkeypatch.context() as patched:
        patched.setattr(kind, "commit", failing(OSError(5, "Input/output error")))
        with pytest.raises(DatabaseError, match="is not known"), writer.transaction() as first:
            first.set_cursor("a", 1, "2026-01-01T00:00:00")
        patched.undo()
        with pytest.raises(LshdbError, match="the writer is closed"), writer.transaction():
            pass


@pytest.mark.sqlite("Postgres has a lock of its own for it")
def test_nobody_else_writes_from_the_beginning_of_a_transaction(make_index: Make) -> None:
    """Before its first change, too: what it has read would be of another state."""
    index = make_index()
    with Writer(index._store, lock_timeout=1) as writer, writer.transaction():
        stranger = sqlite3.connect(index.path / "index.db", timeout=0, isolation_level=None)
        with contextlib.closing(stranger), pytest.raises(sqlite3.OperationalError, match="locked"):
            stranger.execute("BEGIN IMMEDIATE")


def test_rows_past_the_committed_count_are_overwritten(make_index: Make) -> None:
    index = make_index()
    index.add(CORPUS[:20])
    with open(index.path / "signatures.npy", "ab") as file:
        file.write(os.urandom(5000))
    index.add(CORPUS[20:])
    plain = make_index("plain.lshdb")
    plain.add(CORPUS)
    assert state_of(index) == state_of(plain)


def test_header_left_behind_by_a_crash_is_no_damage(make_index: Make) -> None:
    index = make_index()
    index.add(CORPUS[:20])
    header = (index.path / "signatures.npy").read_bytes()[:128]
    index.add(CORPUS[20:])
    with open(index.path / "signatures.npy", "r+b") as file:
        file.write(header)
    assert state_of(index)[0] == len(CORPUS)


def test_blocks_cover_every_row_with_its_crc(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.storage.rowfiles.layouts.BLOCK_ROWS", 8)
    index = make_index()
    for start, end in ((0, 3), (3, 4), (4, 9), (9, 30), (30, 31), (31, len(CORPUS))):
        index.add(CORPUS[start:end])
    blocks = list(index.sql("SELECT first_row, n_rows FROM signature_block ORDER BY 1").rows)
    n = index.stats().signatures
    assert blocks == [(first, min(8, n - first)) for first in range(0, n, 8)]


KILLED = """
import os, sys
from lshdb import Index
from lshdb.storage.transactions import changes
from tests.conftest import family_corpus
where = sys.argv[2]
if where == "append":
    old = changes.WriteTransaction.record_blocks
    changes.WriteTransaction.record_blocks = lambda *a: os.kill(os.getpid(), 9)
elif where == "before commit":
    changes.WriteTransaction.update_batch = lambda *a: os.kill(os.getpid(), 9)
elif where == "after commit":
    from lshdb.storage.rowfiles.row_file import RowFile
    RowFile.set_header = lambda *a: os.kill(os.getpid(), 9)
elif where == "bands":
    changes.BandTable.append = lambda *a: os.kill(os.getpid(), 9)
with Index.open(sys.argv[1]) as index:
    index.add(family_corpus(3, families=8)[20:])
"""


@pytest.mark.parametrize("where", ["append", "before commit", "after commit", "bands"])
def test_killed_writer_leaves_all_or_nothing(make_index: Make, where: str) -> None:
    index = make_index()
    index.add(CORPUS[:20])
    before = state_of(index)
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(index.path), where],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": child_path()},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == -9, process.stderr
    after = state_of(index)
    assert after == before if where != "after commit" else after[0] == len(CORPUS)
    index.add(CORPUS)
    plain = make_index("plain.lshdb")
    plain.add(CORPUS)
    assert state_of(index)[0] == state_of(plain)[0]
    assert state_of(index)[2] == state_of(plain)[2]


@pytest.mark.sqlite("its settings")
def test_database_is_durable_as_promised(make_index: Make) -> None:
    index = make_index()
    with Writer(index._store, lock_timeout=1) as writer, writer.transaction() as open_:
        assert open_.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert open_.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


@pytest.mark.sqlite("its pages")
def test_a_dropped_table_is_not_written_once_more(make_index: Make) -> None:
    """Builds of SQLite differ in whether they write zeros over pages that become free."""
    index = make_index()
    pages, log = 500, index.path / "index.db-wal"
    with Writer(index._store, lock_timeout=1) as writer:
        with writer.transaction() as open_:
            open_.execute("CREATE TABLE dropped (data BLOB)")
            open_.execute("INSERT INTO dropped VALUES (zeroblob(?))", (pages * PAGE_SIZE,))
        writer._store.database.rest(writer._connection)
        assert log.stat().st_size == 0
        with writer.transaction() as open_:
            open_.execute("DROP TABLE dropped")
        assert 0 < log.stat().st_size < pages // 10 * PAGE_SIZE


@pytest.mark.parametrize("n", [0, 1, 332, 333, 334, 1000])
def test_rows_go_in_whole_whatever_their_number(make_index: Make, n: int) -> None:
    index = make_index()
    keys = [f"k{number}" for number in range(n)]
    index.add([(key, f"text {key}") for key in keys])
    with Index.open(index.path) as again:
        assert again.check() == []
        assert [again.show(key).body for key in keys[-3:]] == [f"text {key}" for key in keys[-3:]]
        changed = again.add([(key, f"Text {key}") for key in keys])
        assert (changed.replaced, changed.documents) == (n, n)
        assert again.check() == []
        assert [again.show(key).body for key in keys[:3]] == [f"Text {key}" for key in keys[:3]]


@pytest.mark.parametrize("n", [0, 1, 4, 5, 6, 9, 10, 11])
@pytest.mark.parametrize("by_columns", [True, False])
def test_statements_insert_every_row_once(
    monkeypatch: pytest.MonkeyPatch, n: int, by_columns: bool
) -> None:
    monkeypatch.setattr(sqlite_session, "PARAMETERS_A_STATEMENT", 16)  # five rows of three columns
    rows = [(number, f"row {number}", None) for number in range(n)]
    sizes = []
    with contextlib.closing(sqlite3.connect(":memory:")) as connection, connection:
        connection.execute("CREATE TABLE t (a, b, c)")

        class Counting:
            def execute(self, sql: str, values: list[object]) -> None:
                sizes.append(len(values) // 3)
                connection.execute(sql, values)

        database = SqliteDatabase(Path(":memory:"))
        writing_session = sqlite_session.SqliteSession(database, Counting(), is_reader=False)
        if by_columns:
            columns = [[row[place] for row in rows] for place in range(3)]
            writing_session.insert_columns("t", ("a", "b", "c"), columns)
        else:
            writing_session.insert_rows("t", ("a", "b", "c"), iter(rows))
        assert connection.execute("SELECT * FROM t ORDER BY rowid").fetchall() == rows
    assert sizes == [5] * (n // 5) + [n % 5] * (n % 5 > 0)


def test_an_error_of_the_driver_is_one_of_ours(make_index: Make) -> None:
    index = make_index()
    index.add(CORPUS[:20])
    before = state_of(index)
    with Writer(index._store, lock_timeout=1) as writer:
        with (
            pytest.raises(DatabaseError, match=r"(?i:unique).*; the batch .* is not in"),
            writer.transaction() as open_,
        ):
            open_.put_bodies([[1], ["text"], [b"twice"]])
        with writer.transaction():
            pass  # still usable
    assert state_of(index) == before


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was(make_index: Make, enabled: bool) -> None:
    index = make_index()
    index.add([("a", "text")])
    try:
        if not enabled:
            gc.disable()
        index.add(CORPUS)
        assert gc.isenabled() is enabled
        with pytest.raises(ConflictError):
            index.add([("a", "other")], on_conflict="error")
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


@pytest.mark.sqlite("what it does as it closes a connection")
@pytest.mark.parametrize("name", ["empty_log", "_uri"])
def test_what_fails_in_closing_a_connection_is_no_message(
    make_index: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    """The file is closed nevertheless, and nothing is logged."""
    index = make_index()
    index.add(CORPUS)
    connection = SqliteDatabase.by_url(None, index.path).open_writer()
    connection.driver.execute("DELETE FROM edge")
    monkeypatch.setattr(connections, name, failing(MemoryError()))
    connection.close()
    monkeypatch.undo()
    index.close()
    assert not [record for record in caplog.records if record.name.startswith("sqlalchemy")]
    assert not [each for each in connections._OPEN if each.path == str(index.path / "index.db")]
    with Index.open(index.path) as again:
        assert again.check() == [] and again.stats().documents == len(CORPUS)


def test_what_a_connection_cannot_close_is_not_written_to_standard_error(
    tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str
) -> None:
    """The pool would log it with a traceback."""
    program = (
        "import sys, lshdb\n"
        "from sqlalchemy.engine.default import DefaultDialect\n"
        "def fail(*_): raise MemoryError\n"
        "DefaultDialect.do_close = fail\n"
        "_, path, url, schema = sys.argv\n"
        "with lshdb.Index.create(path, database=url, schema=schema) as index:\n"
        "    index.add([('a', 'some words')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.lshdb", postgres_url.lshdb, postgres_schema],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": child_path()},
        timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
