"""A query of an index in Postgres: one round trip, and the answer that it has bit by bit."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lshdb import Index
from lshdb.storage.dialects.postgresql import postgres_session as asking
from lshdb.storage.transactions import store
from tests.conftest import family_corpus, make_text
from tests.postgres import PostgresUrl

CORPUS = family_corpus(11)


@pytest.fixture
def index(tmp_path: Path, postgres_url: PostgresUrl, postgres_schema: str) -> Iterator[Index]:
    with Index.create(
        tmp_path / "x.lshdb", database=postgres_url.lshdb, schema=postgres_schema
    ) as made:
        for start in range(0, len(CORPUS), 60):
            made.add(CORPUS[start : start + 60])
        yield made
        assert made.check() == []


def connection(index: Index) -> Any:
    (reader,) = index._store.readers._idle
    return reader.connection


def round_trips(index: Index, folder: Path, question: Any) -> int:
    """How often the client waited for the server: what it sent, and then what came."""
    with open(folder / "trace", "wb") as file:
        connection(index).pgconn.trace(file.fileno())
        question()
        connection(index).pgconn.untrace()
    trace = (folder / "trace").read_text(errors="replace")
    sides = re.findall(r"^\S+ \S+\t([FB])\t", trace, re.MULTILINE)
    return sum(one == "F" and next_ == "B" for one, next_ in itertools.pairwise(sides))


@pytest.mark.parametrize("verify", [None, "none", "signature", "exact"])
def test_a_query_is_one_round_trip(index: Index, tmp_path: Path, verify: str | None) -> None:
    body = CORPUS[3][1]
    for _ in range(2):  # the file is recognised, the statement prepared
        assert index.query(body, verify=verify)
    assert round_trips(index, tmp_path, lambda: index.query(body, verify=verify)) == 1
    assert round_trips(index, tmp_path, lambda: index.query("no such text at all here")) == 1


@pytest.mark.parametrize("is_pooled", [False, True])
def test_an_index_that_is_open_while_it_gets_other_bands(
    index: Index, monkeypatch: pytest.MonkeyPatch, is_pooled: bool
) -> None:
    """Fewer of them, so that the statement names columns which are no more; then more."""
    if is_pooled:  # the server says another process than the one that was connected to
        monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", property(lambda info: -1))
        index = Index.open(index.path)
    for bands, rows in ((4, 6), (30, 3), (2, 10)):
        key, body = CORPUS[3]
        assert key in [hit.key for hit in index.query(body)]
        Index.reband(index.path, bands=bands, rows=rows)
        assert key in [hit.key for hit in index.query(body)]
        assert (index.params.bands, index.params.rows) == (bands, rows)
    if is_pooled:
        assert connection(index).opening
        index.close()


@pytest.mark.parametrize("verify", ["none", "signature", "exact"])
def test_it_says_what_a_transaction_says(
    index: Index, monkeypatch: pytest.MonkeyPatch, verify: str
) -> None:
    bodies = [body for _, body in CORPUS[::7]] + ["", "nothing like any of them, not at all"]
    at_once = [index.query(body, verify=verify, threshold=0.3, top=None) for body in bodies]
    monkeypatch.setattr(store, "is_settled", lambda _file: False)
    assert at_once == [index.query(body, verify=verify, threshold=0.3, top=None) for body in bodies]
    assert any(len(hits) > 1 for hits in at_once)


def test_many_candidates_are_asked_bit_by_bit(
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    body = CORPUS[0][1]
    expected = index.query(body, threshold=0.2)
    assert len({hit.key for hit in expected}) > 2
    few = asking._ASK_SQL.replace(f"<= {asking._MOST_CANDIDATES}", "<= 1")
    monkeypatch.setattr(asking, "_ASK_SQL", few)
    asking._ask_sql.cache_clear()
    request.addfinalizer(asking._ask_sql.cache_clear)
    assert index.query(body, threshold=0.2) == expected
    assert round_trips(index, tmp_path, lambda: index.query(body, threshold=0.2)) > 1


def test_what_was_committed_meanwhile_is_seen(index: Index) -> None:
    """Documents that come, and are copied; documents that go; another signature file."""
    text = make_text(random.Random(1), 60)
    assert index.query(text) == []
    with Index.open(index.path) as writer:
        writer.add([("new", text)])
        assert [hit.key for hit in index.query(text)] == ["new"]
        writer.add([("copy", text.upper())])
        assert [hit.key for hit in index.query(text)] == ["copy", "new"]
        writer.remove(["new"])
        writer.compact()
        assert [hit.key for hit in index.query(text)] == ["copy"]
        writer.remove(["copy"])
        assert index.query(text) == []


def test_a_lost_connection_is_noticed_once(index: Index) -> None:
    body = CORPUS[3][1]
    expected = index.query(body)
    index.query(body)
    connection(index).close()
    assert index.query(body) == expected
