"""PgBouncer between lshdb and the server, which gives each transaction any of its connections."""

from __future__ import annotations

import random
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lshdb import Index, LshdbError
from tests.children.waiting import join_all
from tests.conftest import make_text
from tests.pgbouncer import Pooler, program
from tests.postgres import PostgresServer

pytestmark = pytest.mark.skipif(program() is None, reason="PgBouncer is not installed")

MODES = ("transaction", "session")
SETTINGS = (
    "search_path", "default_transaction_read_only", "jit", "enable_seqscan", "plan_cache_mode",
    "synchronous_commit", "standard_conforming_strings", "tcp_keepalives_idle",
    "default_transaction_isolation", "statement_timeout",
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    yield made
    made.remove()


@pytest.fixture(scope="module", params=MODES)
def pooler(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[Pooler]:
    """Clients share few connections to the server, or have sessions on more of them."""
    made = Pooler(server, request.param, size=4 if request.param == "transaction" else 12)
    yield made
    made.close()


Make = Callable[..., Index]


@pytest.fixture
def make(pooler: Pooler, tmp_path: Path) -> Make:
    def index(name: str) -> Index:
        schema = f'{name} "of" \\{tmp_path.name}\'s'
        made = Index.create(
            tmp_path / f"{name}.lshdb", k=2, threshold=0.5, database=pooler.url.lshdb, schema=schema
        )
        made.add(documents(name))
        return made

    return index


def documents(prefix: str, families: int = 12) -> list[tuple[str, str]]:
    """Pairs of texts that are similar; other prefixes have the same texts in another order."""
    rng, texts = random.Random(5), []
    for _ in range(families):
        text = make_text(rng, 30)
        texts += [text, f"{text} and more"]
    return [(f"{prefix}{number}", text) for number, text in enumerate(texts)]


def seen_by_others(pooler: Pooler) -> dict[str, Any]:
    """What another client of the pool finds on the connection that it is given."""
    with psycopg.connect(pooler.url.psycopg, autocommit=True) as connection:
        connection.prepare_threshold = None
        found: dict[str, Any] = {
            name: connection.execute(f"SHOW {name}").fetchone() for name in SETTINGS
        }
        for view in ("pg_prepared_statements", "pg_cursors"):
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(view))
            found[view] = connection.execute(query).fetchone()
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        found["locks"] = connection.execute(held).fetchone()
        return found


def test_two_indexes_in_one_process_do_not_mix(make: Make) -> None:
    first, second = make("first"), make("second")
    with first, second:
        for turn in range(30):
            key, text = documents("", 12)[turn % 24]
            for name, index in (("first", first), ("second", second)):
                hits = index.query(text)
                assert hits and all(hit.key.startswith(name) for hit in hits)
                assert index.show(f"{name}{key}").body == text
        for name, index in (("first", first), ("second", second)):
            pairs = list(index.pairs())
            assert len(pairs) == 12
            assert all(pair.key1.startswith(name) and pair.key2.startswith(name) for pair in pairs)
            assert index.stats().documents == 24
            keys = {key for (key,) in index.sql("SELECT key FROM document").rows}
            assert keys == {key for key, _ in documents(name)}


def test_threads_that_share_one_connection(make: Make) -> None:
    wrong: list[object] = []

    def ask(name: str, index: Index) -> None:
        try:
            for _, text in documents(""):
                wrong.extend(hit.key for hit in index.query(text) if not hit.key.startswith(name))
        except LshdbError as error:
            wrong.append(error)

    with make("first") as first, make("second") as second:
        asked = [("first", first), ("second", second)] * 2
        threads = [threading.Thread(target=ask, args=one, daemon=True) for one in asked]
        for thread in threads:
            thread.start()
        join_all(threads)
    assert wrong == []


def test_nothing_is_left_for_the_next_client(pooler: Pooler, make: Make, tmp_path: Path) -> None:
    before = seen_by_others(pooler)
    changes: dict[str, Callable[[Index], object]] = {
        "stats": Index.stats,
        "query": lambda index: [index.query(text) for _, text in documents("")[:6]],
        "pairs": lambda index: list(index.pairs()),
        "unread pairs": lambda index: next(iter(index.pairs())),
        "clusters": lambda index: [index.update_clusters(), list(index.clusters())],
        "sql": lambda index: list(index.sql("SELECT key FROM document").rows),
        "check": lambda index: index.check() == [] or pytest.fail("findings"),
        "add": lambda index: index.add(documents("more", 3)),
        "remove": lambda index: index.remove(["more1", "more2"]),
        "compact": Index.compact,
        "export": lambda index: index.export(tmp_path / "export"),
        "copy": lambda index: index.copy(tmp_path / "copy.lshdb"),
        "advance": lambda index: index.advance("mail"),
    }
    assert before["locks"] == before["pg_prepared_statements"] == (0,)
    with make("first") as index:
        assert seen_by_others(pooler) == before, "init and add"
        for name, change in changes.items():
            change(index)
            assert seen_by_others(pooler) == before, name
        path = index.path
    Index.reband(path, threshold=0.6)
    assert seen_by_others(pooler) == before, "reband"
    with Index.open(path) as index, Index.open(tmp_path / "copy.lshdb") as copy:
        assert index.check() == copy.check() == []
        assert {pair.key1 for pair in index.pairs()} <= {pair.key1 for pair in copy.pairs()}
        with pytest.raises(LshdbError, match="nothing"):
            index.sql("SELECT * FROM nothing")
    assert seen_by_others(pooler) == before, "a statement that fails"


def test_an_index_that_is_not_made_leaves_nothing(pooler: Pooler, tmp_path: Path) -> None:
    """Its schema is dropped by its uuid, which is looked up in that schema."""
    schema = f"given up in {tmp_path.name}"
    with (
        pytest.raises(ZeroDivisionError),
        Index.create(
            tmp_path / "a.lshdb", deferred=True, database=pooler.url.lshdb, schema=schema
        ) as index,
    ):
        index.add((str(1 // 0), "text") for _ in range(1))
    with psycopg.connect(pooler.url.psycopg) as connection:
        query = "SELECT FROM pg_namespace WHERE nspname = %s"
        assert connection.execute(query, (schema,)).rowcount == 0


QUESTIONS: dict[str, Callable[[Index], object]] = {
    "query": lambda index: index.query(documents("")[0][1]),
    "pairs": lambda index: list(index.pairs()),
    "stats": Index.stats,
    "add": lambda index: index.add(documents("more", 2)),
    "clusters": Index.update_clusters,
}


def put_in_the_place_of(pooler: Pooler, first: Index, second: Index) -> None:
    """Give the schema of the first index the tables of the second."""
    names = [
        sql.Identifier(index.stats().database.partition("(schema ")[2].removesuffix(")"))
        for index in (first, second)
    ]
    with psycopg.connect(pooler.url.psycopg) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(names[0]))
        connection.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(*reversed(names)))


@pytest.mark.parametrize("question", QUESTIONS)
def test_another_index_in_the_schema_is_noticed(pooler: Pooler, make: Make, question: str) -> None:
    """By an open index, in the next transaction: it answers no question from the other."""
    with make("first") as first, make("second") as second:
        first.query(documents("")[0][1])
        put_in_the_place_of(pooler, first, second)
        with pytest.raises(LshdbError, match=r"uuid is .* in index\.toml"):
            QUESTIONS[question](first)


def test_an_index_that_is_exchanged_as_a_whole_is_opened_again(pooler: Pooler, make: Make) -> None:
    with make("first") as first, make("second") as second:
        assert first.query(documents("")[0][1])[0].key.startswith("first")
        put_in_the_place_of(pooler, first, second)
        old = first.path.rename(first.path.with_name("old"))
        shutil.copytree(second.path, first.path)
        description = (first.path / "index.toml").read_text()
        place = next(line for line in (old / "index.toml").read_text().splitlines()
                     if line.startswith("schema"))  # fmt: skip
        description = re.sub("^schema = .*$", lambda _: place, description, flags=re.MULTILINE)
        (first.path / "index.toml").write_text(description)
        assert first.query(documents("")[0][1])[0].key.startswith("second")
        assert first.add(documents("more", 2)).added == 4
