"""Postings laid out as a database: SQLite finds it sound, and copies what was laid out."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb import Index
from lshdb.storage.dialects.sqlite import sqlite_session, staged_postings
from lshdb.storage.dialects.sqlite.staged_database import empty_database
from lshdb.storage.dialects.sqlite.staged_postings import database_of_postings
from lshdb.storage.tables.run_tables import sqlite_run
from lshdb.storage.transactions.writer import Writer
from tests.storage.test_runs import all_postings

pytestmark = pytest.mark.skipif(
    not hasattr(sqlite3.Connection, "deserialize"), reason="SQLite was compiled without it"
)

FULL_LEAF = (65_536 - 8) // (4 + 8 + 2 + 2)


def some_postings(n: int, largest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Postings in order, some of one key, with the extreme keys and signatures."""
    rng = np.random.default_rng(n)
    keys = rng.integers(-(2**63), 2**63 - 1, n)
    keys[: n // 2] &= -256
    keys[:2] = -(2**63), 2**63 - 1
    ids = rng.integers(0, largest, n, endpoint=True)
    ids[:2] = largest, 0
    order = np.lexsort((ids, keys))
    return keys[order], ids[order]


def opened(database: object) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(database)  # type: ignore[arg-type]
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return connection


@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("more", [1, 2, FULL_LEAF + 2, 50_000])
def test_sqlite_reads_what_was_laid_out(width: int, more: int) -> None:
    n = (65_536 - 8) // (4 + 8 + width + 2) + more
    largest = 2 ** (8 * width - 1) - 1
    keys, ids = some_postings(n, largest)
    connection = opened(database_of_postings(sqlite_run("posting"), keys, ids).data)
    found = connection.execute("SELECT * FROM posting").fetchall()
    assert found == list(zip(keys.tolist(), ids.tolist(), strict=True))
    sought = (int(keys[n // 2]), int(ids[n // 2]))
    look_up = "SELECT count(*) FROM posting WHERE bucket_key = ? AND signature_id = ?"
    assert connection.execute(look_up, sought).fetchone() == (1,)


def test_as_many_postings_as_one_root_has_room_for() -> None:
    n = staged_postings.MOST_POSTINGS
    keys, ids = np.arange(n), np.full(n, 2**62)
    connection = sqlite3.connect(":memory:")
    connection.deserialize(database_of_postings(sqlite_run("posting"), keys, ids).data)
    assert connection.execute("SELECT count(*) FROM posting").fetchone() == (n,)


def test_nothing_stays_of_what_was_copied() -> None:
    assert opened(empty_database().data).execute("SELECT * FROM sqlite_master").fetchall() == []


@pytest.mark.parametrize("stages", [True, False])
def test_staged_runs_hold_what_others_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: bool
) -> None:
    monkeypatch.setattr(sqlite_session.SqliteSession, "stages", stages)
    copied: list[int] = []

    def counted(
        statement: str, keys: NDArray[np.int64], ids: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        copied.append(len(keys))
        return database_of_postings(statement, keys, ids)

    monkeypatch.setattr(staged_postings, "database_of_postings", counted)
    expected: list[tuple[int, int]] = []
    with (
        Index.create(tmp_path / "x.lshdb") as index,
        Writer(index._store, lock_timeout=1.0) as writer,
    ):
        for step in range(2):  # a second transaction uses the first one's place again
            with writer.transaction() as transaction:
                for n in (60_000, 30_000):  # a run of its own, and the active run
                    keys, ids = some_postings(n, 10**6)
                    ids += 10**7 * step + n * 1000
                    transaction.runs.add(keys, ids)
                    expected += zip(keys.tolist(), ids.tolist(), strict=True)
        with writer.transaction() as transaction:
            assert all_postings(transaction.runs) == sorted(expected)
            assert list(transaction.session.structure()) == []
    assert copied == ([60_000, 30_000] * 2 if stages else [])
