"""Statements that try to do more than read, to take all memory, or never to end."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lshdb import DamageError, Index, ParameterError, QueryError
from lshdb.storage.dialects.sqlite.sqlite_guard import LONGEST_VALUE
from lshdb.storage.tables.bodies import BodyCodec

Make = Callable[..., Index]
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
LONG_STATEMENT = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) "
    "SELECT count(*) FROM n"
)


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index()
    index.add([("a", "one two three four five six"), ("b", "one two three four five six seven")])
    return index


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")  # where readers mark their place
    }


NOTHING_BEHIND = pytest.mark.sqlite("Postgres passes over empty statements")
WRITES = [
    "ATTACH '{folder}/other.db' AS other",
    "ATTACH 'file:{folder}/other.db?mode=rwc' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH main",
    "VACUUM", "VACUUM INTO '{folder}/copy.db'", "VACUUM main INTO '{folder}/copy.db'",
    "PRAGMA query_only=OFF", "PRAGMA writable_schema=ON", "PRAGMA journal_mode=DELETE",
    "PRAGMA temp_store_directory='{folder}'", "PRAGMA user_version", "PRAGMA table_info(document)",
    "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA trusted_schema=ON", "PRAGMA hard_heap_limit=1",
    "SELECT * FROM pragma_table_info('document')", "SELECT * FROM pragma_journal_mode",
    "SELECT * FROM pragma_query_only(0)", "SELECT * FROM pragma_database_list",
    "SELECT load_extension('{folder}/x')", "SELECT LOAD_EXTENSION('{folder}/x', 'y')",
    "SELECT fts3_tokenizer('simple')", "SELECT fts3_tokenizer('simple', x'00')",
    "SELECT readfile('/etc/passwd')", "SELECT writefile('{folder}/x', 'y')", "SELECT edit('x')",
    "INSERT INTO document SELECT * FROM document", "REPLACE INTO parameter VALUES ('a', 'b')",
    "WITH x AS (SELECT 1) INSERT INTO parameter SELECT 'a', 'b'",
    "WITH x AS (SELECT 1) DELETE FROM document", "UPDATE document SET key = 'x' RETURNING key",
    "INSERT INTO parameter VALUES ('a', 'b') RETURNING name",
    "CREATE TEMP TABLE t (x)", "CREATE TEMP VIEW v AS SELECT 1", "CREATE TRIGGER t AFTER INSERT ON "
    "document BEGIN SELECT 1; END", "CREATE VIRTUAL TABLE t USING fts5(x)",
    "CREATE VIRTUAL TABLE t USING rtree(a, b, c)", "CREATE VIRTUAL TABLE temp.t USING dbstat(main)",
    "ALTER TABLE document RENAME TO d", "DROP VIEW posting", "REINDEX", "ANALYZE",
    "UPDATE sqlite_master SET sql = ''", "DELETE FROM sqlite_schema",
    "BEGIN", "BEGIN EXCLUSIVE", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s", "RELEASE s",
    "EXPLAIN DELETE FROM document",
    "SELECT 1; SELECT 2", pytest.param("SELECT 1;;", marks=NOTHING_BEHIND),
    "; DELETE FROM document", "SELECT 1; VACUUM",
    "SELECT 1\0; DELETE FROM document", "SELECT '\ud800'", "", ";", "-- remark", "\0",
]  # fmt: skip


@pytest.mark.parametrize("statement", WRITES, ids=range(len(WRITES)))
def test_nothing_but_reading(statement: str, index: Index) -> None:
    folder = index.path.parent
    before = contents(folder)
    with pytest.raises(QueryError):
        list(index.sql(statement.replace("{folder}", str(folder))).rows)
    assert contents(folder) == before
    assert index.check() == []


@pytest.mark.sqlite("Postgres has no limit of our own")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT zeroblob(1000000000)",
        "SELECT length(randomblob(900000000))",
        "SELECT length(hex(zeroblob(200000000)))",
        "SELECT replace(printf('%100000d', 1), ' ', printf('%100000d', 1))",
        "WITH RECURSIVE c(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM c) SELECT max(x) FROM c",
    ],
)
def test_a_value_has_a_limit(statement: str, index: Index) -> None:
    with pytest.raises(QueryError, match=r"too big|too large"):
        list(index.sql(statement, timeout=30).rows)


@pytest.mark.sqlite("Postgres has no limit of our own")
def test_values_up_to_the_limit_are_read(index: Index) -> None:
    assert next(index.sql(f"SELECT length(zeroblob({LONGEST_VALUE}))").rows) == (LONGEST_VALUE,)


@pytest.mark.parametrize(
    "statement",
    [
        ENDLESS + "SELECT count(*) FROM c",
        ENDLESS + "SELECT x FROM c WHERE x < 0",
        pytest.param(
            ENDLESS + "SELECT length(group_concat(printf('%1000000d', x))) FROM c",
            marks=pytest.mark.sqlite("in its SQL"),
        ),
        "SELECT count(*) FROM " + ", ".join(f"segment AS s{n}, posting AS p{n}" for n in range(9)),
    ],
)
def test_what_does_not_end_is_stopped(statement: str, index: Index) -> None:
    begun = time.monotonic()
    with pytest.raises(QueryError, match=r"longer than 0\.2 s"):
        list(index.sql(statement, timeout=0.2).rows)
    assert time.monotonic() - begun < 5
    assert index.check() == []


def test_rows_that_do_not_end_are_stopped_but_not_their_reader(index: Index) -> None:
    rows = index.sql(ENDLESS + "SELECT x FROM c", timeout=0.5).rows
    assert [next(rows) for _ in range(3)] == [(1,), (2,), (3,)]
    time.sleep(0.7)
    assert next(rows) == (4,), "the time of whoever reads was counted"
    with pytest.raises(QueryError, match=r"longer than 0\.5 s"):
        for _ in rows:
            pass


def test_what_ends_in_time_is_not_touched(index: Index) -> None:
    assert list(index.sql("SELECT key FROM document ORDER BY key", timeout=60).rows) == [
        ("a",), ("b",),
    ]  # fmt: skip
    for wrong in (-1, float("nan"), "5", True):
        with pytest.raises(ParameterError, match="timeout"):
            index.sql("SELECT 1", timeout=wrong)


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param((2**63,), marks=pytest.mark.sqlite("Postgres has numerics")),
        (object(),),
        ("\ud800",),
        (),
        (1, 2),
        {"a": 1},
    ],
)
def test_parameters_that_cannot_be_bound(parameters: object, index: Index) -> None:
    with pytest.raises(QueryError):
        index.sql("SELECT ?", parameters)  # type: ignore[arg-type]


@pytest.mark.sqlite("in its SQL")
def test_text_that_is_no_utf_8(index: Index) -> None:
    with pytest.raises(QueryError):
        list(index.sql("SELECT CAST(x'ff' AS TEXT)").rows)


def test_rows_end_when_the_index_is_closed(index: Index) -> None:
    rows = index.sql(ENDLESS + "SELECT x FROM c").rows
    next(rows)
    with Index.open(index.path) as other:
        others = other.sql("SELECT key FROM document").rows
        next(others)
    from lshdb import LshdbError

    with pytest.raises(LshdbError, match="is closed"):
        next(others)
    assert list(itertools.islice(rows, 2)) == [(2,), (3,)]


@pytest.mark.sqlite("its authorizer")
def test_functions_are_refused_whatever_this_sqlite_was_built_with(index: Index) -> None:
    """By the authorizer, before SQLite says that there is no such function."""
    from lshdb.storage.dialects.sqlite.sqlite_guard import _REFUSED_FUNCTIONS, SqliteGuardedReader

    reader = SqliteGuardedReader(sqlite3.connect(":memory:"), None)
    for name in (*_REFUSED_FUNCTIONS, "ReadFile"):
        decision = reader._authorise(sqlite3.SQLITE_FUNCTION, None, name, None, None)
        assert decision == sqlite3.SQLITE_DENY
    reader.close()


@pytest.mark.sqlite("its callbacks")
@pytest.mark.parametrize("callback", ["_authorise", "_is_over"])
@pytest.mark.parametrize("timeout", [None, 60.0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_callback_is_no_refusal_and_no_timeout(
    callback: str, timeout: float | None, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's module drops what a callback raises, and reports an error of its own."""
    from lshdb import cancel
    from lshdb.cli import launch
    from lshdb.storage.dialects.sqlite.sqlite_guard import SqliteGuardedReader

    class Interrupted(SqliteGuardedReader):
        pass

    def interrupted(*_: object) -> int:
        signal.raise_signal(number)
        return 0

    setattr(Interrupted, callback, interrupted)
    monkeypatch.setattr(cancel, "_interruption", None)
    before = {each: signal.getsignal(each) for each in launch.SIGNALS}
    reader = Interrupted(sqlite3.connect(":memory:"), timeout)
    try:
        for each in launch.SIGNALS:
            signal.signal(each, launch._raise)
        with pytest.raises(KeyboardInterrupt) as raised:
            found = reader.run(LONG_STATEMENT, ())
            assert found is not None
            list(found[1])
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        reader.close()
    assert isinstance(raised.value, cancel.Terminated) is (number == signal.SIGTERM)


# text(doc_id)


@pytest.mark.sqlite("its function")
def test_texts_in_a_statement(index: Index) -> None:
    rows = list(index.sql("SELECT key, text(doc_id) FROM document ORDER BY key"))
    assert rows == [("a", index.show("a").body), ("b", index.show("b").body)]
    found = index.sql("SELECT key FROM document WHERE text(doc_id) LIKE ?", ["%seven"])
    assert list(found) == [("b",)]
    assert list(index.sql("SELECT text(3), TEXT(NULL), length(text(1))")) == [
        (None, None, len(str(index.show("a").body)))
    ]


@pytest.mark.sqlite("its function")
def test_texts_of_every_kind(make_index: Make) -> None:
    index = make_index(unit="token")
    index.add([("set", frozenset({"b", "a"})), ("list", ["x", "y"]), ("long", ["word"] * 2_000)])
    texts = dict(index.sql("SELECT key, text(doc_id) FROM document").rows)
    assert texts["set"] == '{"set":["a","b"]}'
    assert texts["list"] == '["x","y"]'
    assert texts["long"].count("word") == 2_000


@pytest.mark.sqlite("its function")
def test_no_text_is_stored(make_index: Make) -> None:
    index = make_index(store_text=False)
    index.add([("a", "one two three four five six")])
    assert list(index.sql("SELECT text(doc_id) FROM document")) == [(None,)]


@pytest.mark.sqlite("its function")
@pytest.mark.parametrize("argument", ["key", "'1'", "1.0", "x'01'"])
def test_text_takes_a_number(index: Index, argument: str) -> None:
    with pytest.raises(QueryError, match="expected a doc_id") as raised:
        list(index.sql(f"SELECT text({argument}) FROM document"))
    assert "WHERE key =" in str(raised.value.hint)


@pytest.mark.sqlite("a row is changed behind its back")
@pytest.mark.parametrize("body", [b"\0", "words", b""])
def test_a_damaged_text_is_named(tmp_path: Path, body: object) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add([("a", "one two three four five six"), ("b", "seven"), ("c", "eight")])
        with contextlib.closing(sqlite3.connect(index.path / "index.db")) as connection, connection:
            connection.execute("UPDATE content SET body = ? WHERE doc_id = 3", [body])
        rows = index.sql("SELECT text(doc_id) FROM document ORDER BY doc_id")
        assert next(rows) == ("one two three four five six",)
        with pytest.raises(DamageError, match=r"cannot be decoded \(table content, doc_id 3\)"):
            list(rows)


@pytest.mark.sqlite("its function")
def test_texts_that_take_too_long_are_stopped(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few rows, and so few steps of SQLite's machine, with a slow text in each."""
    plain = BodyCodec.unpack_plain
    taken: list[int] = []

    def slowly(*given: object, **named: object) -> str:
        taken.append(1)
        time.sleep(0.15)
        return plain(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(BodyCodec, "unpack_plain", slowly)
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 40) "
    with pytest.raises(QueryError, match=r"longer than 0\.3 s"):
        list(index.sql(many + "SELECT text(doc_id + 0 * x) FROM c, document", timeout=0.3))
    assert len(taken) < 5


@pytest.mark.sqlite("its function")
def test_a_signal_while_a_text_is_read(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(BodyCodec, "unpack_plain", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(index.sql("SELECT text(1)"))


@pytest.mark.sqlite("its function")
def test_a_text_is_read_in_the_state_of_its_statement(index: Index) -> None:
    body = index.show("b").body
    rows = index.sql("SELECT key, text(doc_id) FROM document ORDER BY key")
    next(rows)
    with Index.open(index.path) as other:
        other.remove(["b"])
    assert list(rows) == [("b", body)]


# A table that is not there


def test_a_wrong_table_names_those_that_there_are(index: Index) -> None:
    with pytest.raises(QueryError, match="documents") as raised:
        index.sql("SELECT key FROM documents")
    hint = str(raised.value.hint)
    assert hint.startswith("did you mean document? tables and views: band, batch, bucket, ")
    assert "neighbor" in hint and "document_field" in hint
    for hidden in ("alembic", "sqlite_", "commit_mark"):
        assert hidden not in hint
    with pytest.raises(QueryError) as raised:
        index.sql("SELECT * FROM qqq")
    assert str(raised.value.hint).startswith("tables and views: band, batch, ")
