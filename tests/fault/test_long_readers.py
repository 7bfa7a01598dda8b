"""A reader that takes an hour, on Postgres, while the index is written to: neither waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from lshdb import Index
from lshdb.storage.dialects.postgresql import postgres_runs as retiring
from tests.conftest import pair_set
from tests.fault.steps import BATCH, PARAMETERS, make_tiny
from tests.fault.test_hosts import texts
from tests.postgres import PostgresUrl

HELD_UP = 5.0
"""Seconds that no writer takes here."""


class Place:
    """An index of several runs, and its schema as an ad-hoc session sees it."""

    def __init__(self, path: Path, url: PostgresUrl, schema: str) -> None:
        self.path = path
        self.url = url
        self.schema = schema

    def session(self) -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect(self.url.psycopg, autocommit=True)
        connection.execute(f'SET search_path TO "{self.schema}"'.encode())
        return connection

    def count(self, what: str) -> int:
        with self.session() as connection:
            return int(connection.execute(f"SELECT count(*) FROM {what}".encode()).fetchone()[0])  # type: ignore[index,call-overload]

    @property
    def partitions(self) -> int:
        return self.count("pg_inherits WHERE inhparent = 'stored_posting'::regclass")


@pytest.fixture
def place(
    tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> Place:
    make_tiny(monkeypatch.setattr)
    path = tmp_path / "x.lshdb"
    where = {"database": postgres_url.lshdb, "schema": postgres_schema}
    with Index.create(path, **PARAMETERS, **where) as index:
        for first in range(0, 6 * BATCH, 2 * BATCH):
            index.add(texts(first, first + 2 * BATCH).items(), workers=1)
    return Place(path, postgres_url, postgres_schema)


def merge(path: Path) -> None:
    with Index.open(path) as index:
        index.compact()


def timed(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def test_a_reader_and_a_writer_do_not_wait_for_each_other(place: Place) -> None:
    """Each change commits while pairs are being read, whose answer is of the state before."""
    with Index.open(place.path) as index:
        expected = pair_set(index, workers=1)
        before = place.count("posting")
        pairs = iter(index.pairs(workers=1))
        taken = [next(pairs)]
        with place.session() as stranger:
            stranger.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            stranger.execute("SELECT 1")  # its state is this one; it has looked at nothing yet

            def add() -> None:
                index.add(texts(60, 100).items(), workers=1)

            def remove() -> None:
                index.remove([f"k{number}" for number in range(0, 60, 3)])

            for change in (
                add, index.update_clusters, remove, lambda: merge(place.path), add,
                lambda: Index.reband(place.path, bands=5, rows=2),
            ):  # fmt: skip
                assert timed(change) < HELD_UP
            assert place.count("retired_run") > 0
            counted = stranger.execute("SELECT count(*) FROM posting").fetchone()
            assert counted == (before,)
            stranger.execute("COMMIT")
        taken += pairs
    found = {(*sorted((one.key1, one.key2)), round(one.similarity, 9)) for one in taken}
    assert found == expected
    with Index.open(place.path) as index:
        assert index.check() == []
        index.add(texts(200, 201).items(), workers=1)
        assert place.count("retired_run") == 0
        assert place.partitions == place.count("run")
        assert index.check() == []


def test_what_a_reader_may_see_is_not_dropped_by_a_writer_of_the_same_moment(place: Place) -> None:
    """A merge that is committed while another writer looks who is there: a reader came between."""
    with place.session() as reader, place.session() as writer:
        alive = retiring._alive

        def come_between(connection: psycopg.Connection[object]) -> list[str]:
            seen = alive(connection)
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute("SELECT 1")
            merge(place.path)
            return seen

        before = place.count("posting")
        writer.execute("CREATE TABLE posting_run_0 ()")
        writer.execute("INSERT INTO retired_run (table_name) VALUES ('posting_run_0')")
        with pytest.MonkeyPatch.context() as patch:
            calls: list[int] = []

            def once(connection: psycopg.Connection[object]) -> list[str]:
                calls.append(1)
                return come_between(connection) if len(calls) == 1 else alive(connection)

            patch.setattr(retiring, "_alive", once)
            retiring.drop_retired(writer)
        assert reader.execute("SELECT count(*) FROM posting").fetchone() == (before,)
        reader.execute("COMMIT")
    merge(place.path)
    with Index.open(place.path) as index:
        assert index.check() == []


def test_readers_that_come_all_the_time_do_not_keep_merged_runs_for_ever(place: Place) -> None:
    """Four that query one after the other, and more: a writer finds a moment between them."""
    ends = threading.Event()
    errors: list[BaseException] = []
    answers = [0]

    def ask() -> None:
        try:
            with Index.open(place.path) as index:
                while not ends.is_set():
                    assert index.query(texts(4, 5)["k4"])
                    answers[0] += 1
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=ask) for _ in range(4)]
    for reader in readers:
        reader.start()
    left = []
    try:
        for number in range(8):
            with Index.open(place.path) as index:
                index.add(
                    texts(100 + number * BATCH, 100 + (number + 1) * BATCH).items(), workers=1
                )
            left.append(place.count("retired_run"))
    finally:
        ends.set()
        for reader in readers:
            reader.join()
    assert (errors, answers[0] > 50) == ([], True)
    assert min(left[2:]) <= 8, left
    with Index.open(place.path) as index:
        index.add(texts(300, 301).items(), workers=1)
        assert place.count("retired_run") == 0
        assert index.check() == []


def test_work_of_the_server_itself_keeps_no_merged_runs(place: Place) -> None:
    """A vacuum, whose transaction belongs to no role; it begins by itself after a large add."""
    with place.session() as vacuum, place.session() as writer:
        vacuum.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        vacuum.execute("SELECT 1")
        merge(place.path)
        retiring.drop_retired(writer)
        assert place.count("retired_run") > 0
        # A temporary view is found before those of the catalog.
        writer.execute(
            "CREATE TEMPORARY VIEW pg_stat_activity AS SELECT pid, datname, NULL::oid AS usesysid "
            "FROM pg_catalog.pg_stat_activity"
        )
        retiring.drop_retired(writer)
        assert place.count("retired_run") == 0
        row = writer.execute(
            "SELECT count(*) FROM pg_catalog.pg_stat_activity "
            "WHERE backend_type LIKE 'autovacuum%' AND usesysid IS NOT NULL"
        ).fetchone()
        assert row == (0,)


def test_the_server_vacuums_no_run_that_is_frozen(place: Place) -> None:
    def options() -> set[tuple[object, ...]]:
        rows = session.execute(
            "SELECT level, array_to_string(reloptions, ', ') FROM run JOIN pg_class "
            "ON pg_class.oid = to_regclass(table_name) WHERE NOT is_active"
        )
        return set(rows.fetchall())

    with place.session() as session:
        # Those of higher levels were merged, and an INSERT freezes nothing.
        assert options() == {(0, "autovacuum_enabled=off"), (1, None)}


def other_role(url: PostgresUrl) -> Iterator[str]:
    """A role that owns nothing."""
    with psycopg.connect(url.psycopg, autocommit=True) as connection:
        connection.execute("CREATE ROLE lshdb_reader LOGIN")
        yield "lshdb_reader"
        connection.execute("DROP OWNED BY lshdb_reader; DROP ROLE lshdb_reader")


def test_a_reader_of_another_role_keeps_merged_runs(place: Place) -> None:
    """Whose transactions a writer without privileges sees by their numbers alone."""
    for role in other_role(place.url):
        with place.session() as owner:
            owner.execute(f'GRANT USAGE ON SCHEMA "{place.schema}" TO {role}'.encode())
            owner.execute(
                f'GRANT SELECT ON ALL TABLES IN SCHEMA "{place.schema}" TO {role}'.encode()
            )
        with place.session() as reader:
            reader.execute(f"SET ROLE {role}".encode())
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            before = reader.execute("SELECT count(*) FROM run").fetchone()
            rows = place.count("posting")
            merge(place.path)
            assert place.count("retired_run") > 0
            assert reader.execute("SELECT count(*) FROM posting").fetchone() == (rows,)
            assert reader.execute("SELECT count(*) FROM run").fetchone() == before
            reader.execute("COMMIT")
        merge(place.path)
        assert place.count("retired_run") == 0
