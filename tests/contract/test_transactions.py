"""What a change costs either database: transactions begun and committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lshdb import AllRejectedError, Index
from lshdb.documents.document import Rejected
from lshdb.phases.phase import is_callers
from lshdb.storage.dialects.postgresql.postgres_database import OpenPostgres
from lshdb.storage.dialects.sqlite.sqlite_database import OpenSqlite
from lshdb.storage.transactions.changes import WriteTransaction
from lshdb.storage.transactions.diagnosis import callers_function
from lshdb.storage.transactions.snapshot import Snapshot
from tests.conftest import family_corpus
from tests.contract.conftest import DATABASES, Both

CORPUS = family_corpus(5, families=3)


@pytest.fixture(params=DATABASES)
def index(request: pytest.FixtureRequest, both: Both) -> Iterator[Index]:
    (place,) = (place for place in both.places if place.name == request.param)
    with place.create("counted", threshold=0.5) as made:
        made.add(CORPUS[:10])
        yield made


@contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Count snapshots, transactions that may write, and commits."""
    counts = {"snapshots": 0, "writing": 0, "commits": 0}

    def counted(owner: Any, method: str, what: str) -> None:
        plain: Callable[..., Any] = getattr(owner, method)

        def count(*given: Any, **named: Any) -> Any:
            counts[what] += 1
            return plain(*given, **named)

        patch.setattr(owner, method, count)

    with pytest.MonkeyPatch.context() as patch:
        counted(Snapshot, "__init__", "snapshots")
        counted(WriteTransaction, "__init__", "writing")
        counted(OpenSqlite, "commit", "commits")
        counted(OpenPostgres, "commit", "commits")
        yield counts


def has_hosts(index: Index) -> bool:
    """Whether a writer first waits for those of other hosts, in a transaction that only locks."""
    return index._store.database.serves_hosts


def test_an_add_of_one_batch_is_one_transaction(index: Index) -> None:
    with counting() as counts:
        assert index.add(CORPUS[5:]).added == len(CORPUS) - 10
    assert counts == {
        "snapshots": 3 + has_hosts(index),
        "writing": 1 + has_hosts(index),
        "commits": 1,
    }


def test_what_changes_nothing_commits_nothing(index: Index) -> None:
    from datetime import datetime

    with counting() as counts:
        assert index.remove(["nobody"]).removed == 0
        assert index.expire(datetime(2000, 1, 1)).removed == 0
    assert counts["writing"] == 2 + 2 * has_hosts(index)
    assert counts["commits"] == (0 if has_hosts(index) else 2)  # without a write, where it is free


class Looked(Exception):
    """The database is being looked through for damage."""


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> None:
        raise Looked

    monkeypatch.setattr("lshdb.storage.transactions.diagnosis._finding", look)


@pytest.mark.parametrize("error", [KeyError, ValueError, OSError])
@pytest.mark.usefixtures("no_search")
def test_errors_of_the_callers_own_go_through(
    index: Index, tmp_path: Path, error: type[Exception]
) -> None:
    """They are no reason to look for damage, wherever the caller's code is called."""

    def documents() -> Iterator[tuple[str, str]]:
        yield "one", "the text of one"
        raise error("mine")

    def fail(*_: object) -> None:
        raise error("mine")

    repeated = [("twice", "one text"), ("twice", "another")]
    for work in (
        lambda: index.add(documents()),
        lambda: index.add(repeated, on_reject=fail),
        lambda: index.add([("new", "a text")], on_commit=fail),
        lambda: index.reindex(tmp_path / "new", on_commit=fail),
        lambda: list(index.query_many(documents())),
        lambda: list(index.query_many(documents(), workers=3)),
    ):
        with pytest.raises(error, match="mine") as raised:
            work()
        assert type(raised.value) is error
    assert index.add([("new", "a text")]).unchanged == 1


@pytest.mark.usefixtures("no_search")
def test_other_errors_are_looked_into(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("lshdb.ingest.ahead.Ahead.contents", fail)
    with pytest.raises(Looked):
        index.add([("new", "a text")])
    # Of one query, and of several, by orders and without.
    for looks_up in ("members", "agreeing", "members_of"):
        monkeypatch.setattr(Snapshot, looks_up, fail)
    for n in (1, 2):
        with pytest.raises(Looked):
            list(index.query_many([("one", CORPUS[0][1])] * n, workers=n))


def test_a_rejected_input_alone_is_one_batch(index: Index) -> None:
    with counting() as counts, pytest.raises(AllRejectedError):
        index.add([Rejected("file:1", "no object")])
    assert (counts["writing"], counts["commits"]) == (1 + has_hosts(index), 1)


def test_a_function_of_the_callers_is_marked_and_no_other() -> None:
    assert callers_function(None) is None
    with pytest.raises(ZeroDivisionError) as raised:
        callers_function(lambda number: 1 // number)(0)
    assert is_callers(raised.value) and not is_callers(ZeroDivisionError())
