"""Connections to Postgres that are lost at any point: a batch is in once or not at all."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from lshdb import DatabaseError, Index
from lshdb.storage.dialects.postgresql.postgres_database import OpenPostgres
from tests.conftest import pair_set
from tests.fault.cuts import CHANGES, MAKINGS, Life, making_trial, places
from tests.fault.proxy import CLIENT, SERVER, Cut, Proxy
from tests.fault.soundness import faults_of
from tests.fault.steps import make_tiny
from tests.postgres import PostgresServer, PostgresUrl

STRIDE = 40
"""Messages from one cut to the next, with ``--faults=long``."""
ORDINARY = {
    "add_few": Cut(CLIENT, 3, is_sent=True, saying=b"COMMIT\0"),
    "add_batches": Cut(SERVER, 5, is_sent=False, saying=b"COMMIT\0"),
    "merge": Cut(CLIENT, 500, is_sent=False),
    "compact": Cut(SERVER, 2, is_sent=False, saying=b"COMMIT\0"),
}
ORDINARY_MAKING = {
    "create": Cut(CLIENT, 1, is_sent=True, saying=b"COMMIT\0"),
    "add_new": Cut(SERVER, 4, is_sent=True, saying=b"COMMIT\0"),
    "copy": Cut(SERVER, 1, is_sent=False, saying=b"COMMIT\0"),
}


@pytest.fixture
def proxy(postgres_url: PostgresUrl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    make_tiny(monkeypatch.setattr)
    with Proxy(postgres_url) as made:
        yield made


@pytest.fixture
def life(proxy: Proxy, tmp_path: Path, postgres_schema: str) -> Life:
    made = Life(proxy, tmp_path / "x.lshdb", postgres_schema)
    made.make("create", "add_batches", "add_few")
    return made


def test_a_way_is_cut_where_it_is_told(proxy: Proxy) -> None:
    for sender, is_sent in itertools.product((CLIENT, SERVER), (False, True)):
        proxy.arm(None)
        with psycopg.connect(proxy.url.psycopg, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS pg_temp.t")
            proxy.arm(Cut(sender, 1, is_sent=is_sent, saying=b"SELECT 'here'"))
            connection.execute("SELECT 1")
            assert not proxy.happened
            if sender == SERVER:
                connection.execute("SELECT 'here'")  # the server does not say it
                assert proxy.counts[SERVER] == 0
                continue
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 'here'")
            assert proxy.happened


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.long(when=lambda change: change not in ORDINARY)
def test_a_writers_connection_is_lost(change: str, life: Life, is_long: bool) -> None:
    """And the change is made again: every batch is in once, whatever came of the first time."""
    if not is_long:
        assert life.trial(change, ORDINARY[change], asks=True)
        return
    for number, cut in enumerate(places(stride=STRIDE, commits=4)):
        if not life.trial(change, cut, asks=number % 10 == 0) and not cut.saying:
            break
    print(f"{number} cuts: {dict(life.outcomes)}")


@pytest.mark.parametrize("making", MAKINGS)
def test_a_connection_is_lost_while_an_index_is_made(
    making: str, proxy: Proxy, tmp_path: Path, postgres_schema: str, is_long: bool
) -> None:
    """And made again: there is an index or none, and nothing that stands in the way of one."""
    path = tmp_path / "x.lshdb"
    if not is_long:
        making_trial(making, ORDINARY_MAKING[making], proxy, path, postgres_schema)
        return
    outcomes: Counter[str] = Counter()
    for cut in places(stride=STRIDE, commits=4):
        outcome = making_trial(making, cut, proxy, path, postgres_schema)
        outcomes[outcome] += 1
        if outcome == "not reached" and not cut.saying:
            break
    print(f"{making}: {dict(outcomes)}")


@pytest.mark.parametrize("place", ["in a batch", "at its commit"])
def test_a_server_stays_away(place: str, life: Life) -> None:
    """The error comes after the time that one waits for a lock, and nothing is half done."""
    before = life.documents
    assert before is not None
    more = {"new one": "these are some new words", "new two": "and some other ones"}
    saying = b"COPY document " if place == "in a batch" else b"COMMIT\0"
    with Index.open(life.path) as index:
        life.proxy.arm(Cut(CLIENT, 1, is_sent=True, stays_away=True, saying=saying))
        begun = time.monotonic()
        with pytest.raises(DatabaseError) as caught:
            index.add(more.items(), workers=1, lock_timeout=0.5)
        assert 0.4 < time.monotonic() - begun < 5
        said = "is not in" if place == "in a batch" else "is not known"
        assert said in caught.value.message
        assert caught.value.hint
        with pytest.raises(DatabaseError, match="cannot reach the database"):
            index.add(more.items(), workers=1, lock_timeout=0.5)
        life.proxy.back()
        after = before if place == "in a batch" else before | more
        assert faults_of(life.path, [after]) == []
        index.add(more.items(), workers=1)
    assert faults_of(life.path, [before | more]) == []


QUESTIONS: dict[str, Callable[[Index], object]] = {
    "query": lambda index: index.query("w1 w2 w3"),
    "pairs": lambda index: pair_set(index, workers=1),
    "clusters": lambda index: list(index.clusters()),
    "sql": lambda index: list(index.sql("SELECT key FROM document ORDER BY 1").rows),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_readers_connection_is_lost(question: str, life: Life, is_long: bool) -> None:
    """It hears of it, or has its answer, and may ask again."""
    ask, proxy = QUESTIONS[question], life.proxy
    life.make("cluster")
    with Index.open(life.path) as index:
        expected = ask(index)
        proxy.arm(None)
        assert ask(index) == expected
        ends = {sender: proxy.counts[sender] for sender in (CLIENT, SERVER)}
        for sender, end in ends.items():
            for nth in range(1, end + 1, 1 if is_long else end // 3 + 1):
                for is_sent in (False, True):
                    proxy.arm(Cut(sender, nth, is_sent=is_sent))
                    try:
                        assert ask(index) == expected
                    except DatabaseError as error:
                        assert error.hint, error
                    proxy.arm(None)
                    assert ask(index) == expected


def test_idle_connections_are_lost(life: Life) -> None:
    """Whoever asks next does not hear of it."""
    with Index.open(life.path) as index:
        expected = pair_set(index, workers=1)
        life.proxy.cut_all()
        assert pair_set(index, workers=1) == expected


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_a_server_goes_in_the_middle_of_an_add(
    way: str,
    make_postgres: Callable[..., PostgresServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes back: the add goes on, and nothing is in twice or left out.

    When it is killed, then also right before a COMMIT, with the files synced, and right after one.
    """
    make_tiny(monkeypatch.setattr)
    server = make_postgres()
    path = tmp_path / "x.lshdb"
    documents = {
        f"k{number}": f"w{number} and w{number % 7} or w{number % 3}" for number in range(60)
    }
    gone: list[object] = []
    commit, numbers = OpenPostgres.commit, itertools.count(1)

    def go(moment: object) -> None:
        if way == "restart":
            server.restart()
        else:
            server.kill()
            server.start()
        gone.append(moment)

    def come() -> Iterator[tuple[str, str]]:
        for number, item in enumerate(documents.items()):
            if number in (5, 25):
                go(number)
            yield item

    def commit_and_go(connection: OpenPostgres) -> None:
        number = next(numbers)
        if number == 4:
            go("before a COMMIT")
        commit(connection)
        if number == 7:
            go("after a COMMIT")
            raise psycopg.OperationalError("the connection is lost")

    if way == "kill":
        monkeypatch.setattr(OpenPostgres, "commit", commit_and_go)

    with Index.create(path, deferred=True, database=server.url.lshdb, schema="S 1", k=1) as index:
        result = index.add(come(), workers=1)
        assert (result.added, len(result.batches)) == (60, 6)
    at_commits = {"before a COMMIT", "after a COMMIT"} if way == "kill" else set()
    assert {*gone} == {5, 25, *at_commits}
    assert faults_of(path, [documents], asks=False) == []
    with Index.open(path) as index:
        rows = index.sql("SELECT count(*), sum(n_added) FROM batch").rows
        assert [tuple(map(int, row)) for row in rows] == [(6, 60)]
