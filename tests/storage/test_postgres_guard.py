"""The same as ``test_sqlite_guard.py`` on Postgres: nothing but reading, and not for ever."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lshdb import DatabaseError, Index, LshdbError, QueryError
from tests.cli.conftest import MEASURED, MODULE, environment
from tests.postgres import PostgresUrl, fresh_schema

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, postgres_url: PostgresUrl) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("guarding")
    with (
        fresh_schema(postgres_url) as schema,
        Index.create(folder / "x.lshdb", database=postgres_url.lshdb, schema=schema) as index,
    ):
        index.add(
            [("a", "one two three four five six"), ("b", "one two three four five six seven")]
        )
        with psycopg.connect(postgres_url.psycopg) as connection:
            connection.execute(f'CREATE SEQUENCE "{schema}".number')
            connection.execute(
                f'CREATE FUNCTION "{schema}".sneak() RETURNS int LANGUAGE plpgsql VOLATILE AS '
                f"""'BEGIN DELETE FROM "{schema}".document; RETURN 1; END'"""
            )
        yield index


def contents(index: Index, url: PostgresUrl) -> list[object]:
    """Every row of the index, what is in the whole database beside it, and the sequence."""
    ((schema,),) = index.sql("SELECT current_schema()").rows
    with psycopg.connect(url.psycopg) as connection:
        rows: list[object] = [
            connection.execute(f'SELECT * FROM "{schema}"."{table}"').fetchall()  # type: ignore[arg-type]
            for table in ("document", "parameter", "batch", "band", "number")
        ]
        for catalog in (
            "pg_class",
            "pg_proc",
            "pg_type",
            "pg_namespace",
            "pg_largeobject_metadata",
        ):
            rows += connection.execute(f"SELECT count(*) FROM {catalog}").fetchall()  # type: ignore[arg-type]
    return rows


WRITES = [
    "INSERT INTO document SELECT * FROM document", "INSERT INTO parameter VALUES ('a', 'b')",
    "INSERT INTO parameter VALUES ('a', 'b') RETURNING name", "DELETE FROM document",
    "UPDATE document SET key = 'x' RETURNING key", "TRUNCATE document CASCADE", "MERGE INTO run",
    "WITH x AS (SELECT 1) INSERT INTO parameter SELECT 'a', 'b'",
    "WITH x AS (DELETE FROM document RETURNING key) SELECT * FROM x",
    "WITH x AS (INSERT INTO parameter VALUES ('a', 'b') RETURNING name) SELECT * FROM x",
    "SELECT key INTO copied FROM document", "SELECT key INTO TEMP copied FROM document",
    "SELECT * FROM document FOR UPDATE", "SELECT * FROM document FOR KEY SHARE",
    "SELECT nextval('number')", "SELECT setval('number', 9)", "SELECT sneak()",
    "SELECT query_to_xml('DELETE FROM document', true, true, '')",
    "SELECT set_config('transaction_read_only', 'off', true), sneak()",
    "CREATE TABLE t (x int)", "CREATE TEMP TABLE t (x int)", "CREATE VIEW v AS SELECT 1",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "CREATE SCHEMA s", "DROP VIEW "
    "posting", "ALTER TABLE document RENAME TO d", "ALTER SYSTEM SET work_mem = '1GB'",
    "CREATE EXTENSION plpgsql", "COMMENT ON TABLE document IS 'x'", "GRANT SELECT ON run TO public",
    "COPY document TO STDOUT", "COPY document FROM '/dev/null'", "COPY run TO PROGRAM 'cat'",
    "COPY (SELECT 1) TO '/tmp/x'", "SET search_path = public", "SET LOCAL statement_timeout = 0",
    "RESET ALL", "SHOW work_mem", "DISCARD ALL", "SET SESSION AUTHORIZATION postgres",
    "DO 'BEGIN NULL; END'", "CALL f()", "LOCK TABLE document", "NOTIFY x", "LISTEN x",
    "BEGIN", "START TRANSACTION READ WRITE", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s",
    "RELEASE s", "PREPARE TRANSACTION 'x'", "SET TRANSACTION READ WRITE", "CHECKPOINT",
    "EXPLAIN SELECT 1", "EXPLAIN ANALYZE DELETE FROM document", "EXPLAIN TABLE run",
    "PREPARE p AS DELETE FROM document", "EXECUTE p", "DECLARE c CURSOR FOR SELECT 1",
    "FETCH ALL FROM lshdb", "CLOSE lshdb", "MOVE ALL IN lshdb", "DEALLOCATE ALL",
    "VACUUM", "ANALYZE", "REINDEX TABLE document", "CLUSTER document USING pk_document",
    "REFRESH MATERIALIZED VIEW v", "IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z",
    "SELECT 1; SELECT 2", "SELECT 1;;; DELETE FROM document", "; DELETE FROM document",
    "SELECT 1; COMMIT; DELETE FROM document", "SELECT 1 /* ; */; VACUUM",
    "SELECT 1\0; DELETE FROM document", "SELECT '\ud800'", "", ";", "-- remark", "/* x */", "\0",
]  # fmt: skip


@pytest.mark.parametrize("statement", WRITES, ids=range(len(WRITES)))
def test_nothing_but_reading(statement: str, index: Index, postgres_url: PostgresUrl) -> None:
    before = contents(index, postgres_url)
    with pytest.raises(QueryError) as caught:
        list(index.sql(statement).rows)
    assert caught.value.hint and "\n" not in caught.value.message
    assert 'DECLARE "' not in caught.value.message
    assert contents(index, postgres_url) == before


def test_what_a_function_did_is_undone(index: Index, postgres_url: PostgresUrl) -> None:
    """Older servers let a transaction that only reads make a large object."""
    before = contents(index, postgres_url)
    with contextlib.suppress(QueryError):
        list(index.sql("SELECT lo_create(0)").rows)
    list(index.sql("SELECT pg_advisory_lock(17)").rows)
    assert contents(index, postgres_url) == before
    with psycopg.connect(postgres_url.psycopg) as connection:
        assert connection.execute("SELECT pg_try_advisory_lock(17)").fetchone() == (True,)


@pytest.mark.parametrize("statement", ["VALUES (1)", "SELECT 1;", "  (SELECT 1) ", "SELECT 1 -- x"])
def test_what_reads_is_read(statement: str, index: Index) -> None:
    assert list(index.sql(statement).rows) == [(1,)]


@pytest.mark.parametrize(
    "statement",
    [
        ENDLESS + "SELECT count(*) FROM c",
        ENDLESS + "SELECT x FROM c WHERE x < 0",
        "SELECT count(*) FROM " + ", ".join(f"pg_class AS t{n}" for n in range(8)),
        "SELECT pg_sleep(60)",
        "SELECT set_config('statement_timeout', '0', true), pg_sleep(60)",
    ],
)
def test_what_does_not_end_is_stopped(statement: str, index: Index) -> None:
    begun = time.monotonic()
    with pytest.raises(QueryError, match=r"longer than 0\.2 s"):
        list(index.sql(statement, timeout=0.2).rows)
    assert time.monotonic() - begun < 5


def test_rows_that_do_not_end_are_stopped_but_not_their_reader(index: Index) -> None:
    rows = index.sql(
        ENDLESS + "SELECT x, set_config('statement_timeout', '0', true) FROM c", timeout=0.5
    ).rows
    assert [next(rows)[0] for _ in range(3)] == [1, 2, 3]
    time.sleep(0.7)
    assert next(rows)[0] == 4, "the time of whoever reads was counted"
    with pytest.raises(QueryError, match=r"longer than 0\.5 s"):
        for _ in rows:
            pass


def test_a_timeout_of_the_roles_own_is_named(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=100")
    with pytest.raises(QueryError, match="canceling statement due to statement timeout"):
        list(index.sql("SELECT pg_sleep(60)").rows)


@pytest.mark.parametrize("quick", [False, True])
def test_a_check_that_is_kept_from_reading_finds_no_damage(
    quick: bool, index: Index, postgres_url: PostgresUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((schema,),) = index.sql("SELECT current_schema()").rows
    with psycopg.connect(postgres_url.psycopg) as other, monkeypatch.context() as patch:
        other.execute(f'LOCK TABLE "{schema}".document IN ACCESS EXCLUSIVE MODE')
        patch.setenv("PGOPTIONS", "-c lock_timeout=100")
        with Index.open(index.path) as reader:
            with pytest.raises(DatabaseError, match="due to lock timeout") as raised:
                reader.check(quick=quick)
            assert raised.value.is_passing and "run the command again" in str(raised.value.hint)
            other.rollback()
            assert reader.check(quick=quick) == []


@pytest.mark.parametrize(
    "parameters", [(2**63,), (object(),), ("\ud800",), (), (1, 2), {"a": 1}, ("a\0b",)]
)
def test_parameters_that_cannot_be_bound(parameters: Any, index: Index) -> None:
    with pytest.raises(QueryError):
        list(index.sql("SELECT ?::int8", parameters).rows)


def test_parameters(index: Index) -> None:
    def one(statement: str, parameters: Any = ()) -> Any:
        (row,) = index.sql(statement, parameters).rows
        return row

    assert one("SELECT key FROM document WHERE key = ?", ("b",)) == ("b",)
    assert one("SELECT substr(key, ?), ?2 + ?3 FROM document LIMIT :n".replace(":n", "?"),
               (1, 2**40, 1, 1)) == ("a", 2**40 + 1)  # fmt: skip
    named = {"a": "x", "b": b"\0", "c": None}
    given = one("SELECT :a::text || '?', :b::bytea, :c::text IS NULL", named)
    assert given == ("x?", b"\0", True)
    assert one("SELECT key FROM document WHERE key = ANY(?)", (["b", "c"],)) == ("b",)
    assert one("""SELECT '{"a": 1}'::jsonb ?? ?, '{"a": 1}'::jsonb ?| ARRAY['a']""", ("a",)) == (
        True, True,
    )  # fmt: skip
    assert one("""SELECT '{"a": 1}'::jsonb ? 'a', (ARRAY[1, 2, 3])[2:3]""") == (True, [2, 3])


VALUES = {
    "1": 1, "-9223372036854775808": -(2**63), "1.5": 1.5, "1e30::numeric": 1e30, "-0.25": -0.25,
    "sum(1::int8)": 1, "avg(x)": 1.0,
    "'Infinity'::float8": math.inf, "'-Infinity'::numeric": -math.inf,
    "NULL": None, "true": 1, "'text'::text": "text", "'ab'::char(3)": "ab ", "''": "",
    r"'\x00ff'::bytea": b"\x00\xff", "'a'::name": "a", "17::oid": 17, "1::float4": 1.0,
    "'infinity'::timestamptz": "infinity", "'-infinity'::date": "-infinity",
    "'2026-11-21 10:00'::timestamp": "2026-11-21 10:00:00", "date '0044-03-15 BC'": "0044-03-15 BC",
    "time '10:00'": "10:00:00", "interval '1 day 2 hours'": "1 day 02:00:00",
    """'{"a": [1, 123456789012345678901234567890]}'::jsonb""":
        '{"a": [1, 123456789012345678901234567890]}',
    "'[1]'::json": "[1]", "int4range(1, 3)": "[1,3)", "inet '10.0.0.1'": "10.0.0.1",
    "'00000000-0000-0000-0000-000000000001'::uuid": "00000000-0000-0000-0000-000000000001",
    "ROW(1, 'a')": "(1,a)", "point '(1,2)'": "(1,2)", "B'101'": "101",
    "ARRAY[1, NULL, 3]": [1, None, 3], "ARRAY[]::int8[]": [], "ARRAY['a,b', '{}']": ["a,b", "{}"],
    "ARRAY[[1, 2], [3, 4]]": [[1, 2], [3, 4]], r"ARRAY['\x00'::bytea]": [b"\0"],
    "ARRAY[1.5, 1e30::numeric]": [1.5, 1e30], "ARRAY[date '2026-11-21']": ["2026-11-21"],
}  # fmt: skip


def test_values_of_every_kind(index: Index) -> None:
    statement = f"SELECT {', '.join(VALUES)} FROM (VALUES (1)) AS t(x) GROUP BY x"
    (row,) = index.sql(statement).rows
    assert dict(zip(VALUES, row, strict=True)) == VALUES
    types = [type(value) for value in row]
    assert types == [type(value) for value in VALUES.values()]
    (row,) = index.sql("SELECT 'NaN'::numeric").rows
    assert math.isnan(row[0])


@pytest.mark.parametrize("output_format", ["tsv", "csv", "jsonl", "table"])
def test_values_are_printed_in_every_format(output_format: str, index: Index) -> None:
    import json

    import click.testing

    from lshdb.cli._group import cli

    statement = f"SELECT {', '.join(VALUES)} FROM (VALUES (1)) AS t(x) GROUP BY x"
    result = click.testing.CliRunner().invoke(
        cli, ["sql", str(index.path), statement, "--format", output_format], catch_exceptions=False
    )
    assert result.exit_code == 0, result.stderr
    if output_format == "tsv":
        cells = result.stdout.rstrip("\n").split("\t")
        assert cells[:4] == ["1", "-9223372036854775808", "1.5", "1e+30"]
        assert cells[list(VALUES).index("NULL")] == ""
        assert cells[list(VALUES).index(r"'\x00ff'::bytea")] == "00ff"
        assert cells[-3:] == ['["00"]', "[1.5,1e+30]", '["2026-11-21"]']
    elif output_format == "jsonl":
        values = list(json.loads(result.stdout).values())
        assert values[list(VALUES).index("'Infinity'::float8")] is None
        assert values[-3:] == [["00"], [1.5, 1e30], ["2026-11-21"]]


def test_rows_end_when_the_index_is_closed(index: Index) -> None:
    with Index.open(index.path) as other:
        others = other.sql("SELECT key FROM document").rows
        next(others)
    with pytest.raises(LshdbError, match="is closed"):
        next(others)


def test_connections_are_closed(index: Index, postgres_url: PostgresUrl) -> None:
    rows = index.sql(ENDLESS + "SELECT x FROM c").rows
    assert list(itertools.islice(rows, 2)) == [(1,), (2,)]
    rows.close()  # type: ignore[attr-defined]
    with pytest.raises(QueryError):
        index.sql("DELETE FROM document")
    assert _wait_until_idle(postgres_url)


def _wait_until_idle(url: PostgresUrl) -> bool:
    """Whether no statement of ours is at work any more, after a while."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        with psycopg.connect(url.psycopg) as connection:
            rows = connection.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE application_name LIKE 'lshdb reading%' AND state <> 'idle'"
            ).fetchone()
        if rows == (0,):
            return True
        time.sleep(0.05)
    return False


def test_many_rows_and_large_ones_take_bounded_memory(index: Index, tmp_path: Path) -> None:
    """Rows of 8 MB a few at a time, and very many small ones."""
    for statement, lines in (
        ("SELECT repeat('x', 8000000) FROM generate_series(1, 20)", 20),
        ("SELECT n, 'some text' FROM generate_series(1, 100000) AS t(n)", 100_000),
    ):
        with (tmp_path / "out").open("wb") as out:
            done = subprocess.run(
                [*MEASURED, *MODULE, "sql", str(index.path), statement],
                stdout=out, stderr=subprocess.PIPE, env=environment(), check=True, timeout=300,
            )  # fmt: skip
        with (tmp_path / "out").open("rb") as out:
            assert sum(1 for _ in out) == lines
        assert int(done.stderr.split()[-1]) < 250_000, "KiB"


def test_ctrl_c_ends_the_statement_on_the_server_too(
    index: Index, postgres_url: PostgresUrl
) -> None:
    child = subprocess.Popen(
        [*MODULE, "sql", str(index.path), "SELECT pg_sleep(600)"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    with psycopg.connect(postgres_url.psycopg, autocommit=True) as connection:
        question = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name "
            f"LIKE 'lshdb reading, {child.pid} %'"
        ).encode()
        end = time.monotonic() + 60
        while connection.execute(question).fetchone() is None and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=10)
        assert (child.returncode, out, err) == (130, b"", b"interrupted\n")
        end = time.monotonic() + 5
        while connection.execute(question).fetchone() and time.monotonic() < end:
            time.sleep(0.02)
        assert connection.execute(question).fetchone() is None


@pytest.mark.parametrize(
    "call", ["text(doc_id)", "TEXT (doc_id)", "text/* */(1)", '"text"(1)', "pg_catalog.text(1)"]
)
def test_texts_are_read_elsewhere(index: Index, call: str) -> None:
    """Postgres would take it for a change of type, and give the number."""
    with pytest.raises(QueryError, match=r"function of an index in SQLite") as raised:
        index.sql(f"SELECT {call} FROM document")
    assert "lshdb show" in str(raised.value.hint)


def test_the_type_of_that_name_stays(index: Index) -> None:
    statement = """SELECT CAST(doc_id AS text), doc_id::text, 'text(1)' FROM document -- text(1)
        WHERE doc_id = 1"""
    assert list(index.sql(statement)) == [("1", "1", "text(1)")]


def test_a_wrong_table_names_those_that_there_are(index: Index) -> None:
    with pytest.raises(QueryError, match="documents") as raised:
        index.sql("SELECT key FROM documents")
    hint = str(raised.value.hint)
    assert hint.startswith("did you mean document? tables and views: band, batch, bucket, ")
    assert "neighbor" in hint and "document_field" in hint
    for hidden in ("alembic", "commit_mark"):
        assert hidden not in hint
