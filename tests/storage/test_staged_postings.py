"""Postings laid out as a database: SQLite finds it sound, and copies what was laid out."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lshdb import Index
from lshdb.kernel import compiled
from lshdb.storage.dialects.sqlite import sqlite_session, staged_postings
from lshdb.storage.dialects.sqlite.staged_database import PAGE, empty_database
from lshdb.storage.dialects.sqlite.staged_postings import (
    database_of_postings,
    leaf_room,
    write_database,
)
from lshdb.storage.place.own_files import new_file
from lshdb.storage.tables.run_tables import sqlite_run
from lshdb.storage.transactions.writer import Writer
from tests.storage.test_runs import all_postings

pytestmark = pytest.mark.skipif(
    not hasattr(sqlite3.Connection, "deserialize"), reason="SQLite was compiled without it"
)

kernel = compiled
Postings = tuple[NDArray[np.int64], NDArray[np.int64]]
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


def written(path: Path, blocks: Iterable[Postings], below: int) -> sqlite3.Connection:
    with new_file(path) as descriptor:
        write_database(descriptor, sqlite_run("posting"), blocks, below=below)
        return opened(np.fromfile(path, dtype=np.uint8).data)


@pytest.mark.parametrize("leaves", [0, 1, 2, 3])
@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_leaves_that_end_in_any_way(tmp_path: Path, leaves: int, more: int) -> None:
    """Full leaves, with what stands between them, and a rest of one posting or of a whole leaf."""
    step = leaf_room(3) + 1
    keys, ids = some_postings(leaves * step + step + more, 2**23 - 1)
    expected = list(zip(keys.tolist(), ids.tolist(), strict=True))
    for size in (1, 700, step, 10**6):
        n = 300 if size == 1 else 0  # the others all at once
        cuts = [*range(0, n), *range(n, len(keys), 10**6 if n else size), len(keys)]
        blocks = [(keys[i:j], ids[i:j]) for i, j in pairwise(cuts)]
        connection = written(tmp_path / "x.db", blocks, 2**23)
        assert connection.execute("SELECT * FROM posting").fetchall() == expected
        assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("room", [2, 3, 5])
@pytest.mark.parametrize("n_leaves", range(2, 60, 3))
def test_a_tree_of_many_levels(monkeypatch: pytest.MonkeyPatch, room: int, n_leaves: int) -> None:
    monkeypatch.setattr(staged_postings, "_inner_room", lambda _size: room)
    keys, ids = some_postings(n_leaves * (leaf_room(3) + 1) - 5, 2**23 - 1)
    connection = opened(database_of_postings(sqlite_run("posting"), keys, ids).data)
    found = connection.execute("SELECT * FROM posting").fetchall()
    assert found == list(zip(keys.tolist(), ids.tolist(), strict=True))


@pytest.mark.parametrize("n_leaves", [2_521, 2_522])
def test_more_leaves_than_one_root_has_room_for(n_leaves: int) -> None:
    """A root has room for 2,520 records of 20 bytes, and so for one leaf more."""
    n = n_leaves * (leaf_room(8) + 1) - 1
    keys, ids = np.arange(n) - n // 2, np.full(n, 2**62)
    connection = opened(database_of_postings(sqlite_run("posting"), keys, ids).data)
    assert connection.execute("SELECT count(*) FROM posting").fetchone() == (n,)
    for place in (0, n // 3, n - 1):
        sought = int(keys[place]), 2**62
        look_up = "SELECT count(*) FROM posting WHERE bucket_key = ? AND signature_id = ?"
        assert connection.execute(look_up, sought).fetchone() == (1,)


@pytest.mark.parametrize("n", [1, 2, leaf_room(3), leaf_room(3) + 1])
def test_few_postings(tmp_path: Path, n: int) -> None:
    keys, ids = np.arange(n), np.arange(n) % 100
    for below in (101, 2**23):
        connection = written(tmp_path / "x.db", [(keys, ids)], below)
        found = connection.execute("SELECT * FROM posting").fetchall()
        assert found == list(zip(keys.tolist(), ids.tolist(), strict=True))


def test_a_signature_that_is_too_large_is_refused(tmp_path: Path) -> None:
    keys, ids = some_postings(20_000, 2**23)
    with pytest.raises(OverflowError):
        written(tmp_path / "x.db", [(keys, ids)], 2**23)


@pytest.mark.skipif(kernel is None, reason="no kernel")
@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 8])
def test_the_kernel_lays_out_what_the_reference_does(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    keys, ids = some_postings(3 * leaf_room(width) + 7, 2 ** (8 * width - 1) - 1)
    by_kernel = database_of_postings(sqlite_run("posting"), keys, ids)
    monkeypatch.setattr(staged_postings, "compiled", None)
    assert np.array_equal(by_kernel, database_of_postings(sqlite_run("posting"), keys, ids))


@pytest.mark.fast
@pytest.mark.skipif(kernel is None, reason="no kernel")
@pytest.mark.parametrize(
    ("n_keys", "n_ids", "per_leaf", "width", "page_bytes"),
    [
        (10, 9, 4, 3, 2 * PAGE), (10, 10, 4, 5, 2 * PAGE), (10, 10, 4, 0, 2 * PAGE),
        (10, 10, 4, 9, 2 * PAGE), (10, 10, 4, -1, 2 * PAGE), (10, 10, 0, 3, 10 * PAGE),
        (10, 10, 4, 3, PAGE), (10, 10, 4, 3, 3 * PAGE), (10, 10, 4, 3, 2 * PAGE - 1),
        (10, 10, 3_856, 3, PAGE), (10, 10, -1, 3, PAGE), (10, 10, 2**62, 3, PAGE),
    ],
)  # fmt: skip
def test_pages_that_do_not_fit_are_refused(
    n_keys: int, n_ids: int, per_leaf: int, width: int, page_bytes: int
) -> None:
    keys, ids = np.arange(n_keys), np.arange(n_ids)
    pages = np.full(page_bytes, 7, dtype=np.uint8)
    with pytest.raises(ValueError):
        kernel.lay_postings(keys, ids, per_leaf, width, pages)
    assert (pages == 7).all()


def test_nothing_stays_of_what_was_copied() -> None:
    assert opened(empty_database().data).execute("SELECT * FROM sqlite_master").fetchall() == []


@pytest.mark.sqlite("rows are staged in a file of SQLite")
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


@pytest.mark.sqlite("rows are staged in a file of SQLite")
@pytest.mark.parametrize("outside", [False, True])
def test_a_large_run_is_copied_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: bool
) -> None:
    """Not where the database lies elsewhere: no other folder is written to."""
    monkeypatch.setattr(sqlite_session, "_MEMORY_POSTINGS", 30_000)
    files: list[bool] = []
    write = staged_postings.write_database

    def noted(descriptor: int, *arguments: object, **named: object) -> None:
        write(descriptor, *arguments, **named)  # type: ignore[arg-type]
        files.append(os.path.samestat(os.fstat(descriptor), os.stat(staging)))

    monkeypatch.setattr(staged_postings, "write_database", noted)
    url = f"sqlite:///{tmp_path / 'other.db'}" if outside else None
    keys, ids = some_postings(100_000, 10**6)
    with (
        Index.create(tmp_path / "x.lshdb", database=url) as index,
        Writer(index._store, lock_timeout=1.0) as writer,
    ):
        staging = Path(index.path, "postings.next.db")
        staging.symlink_to(tmp_path / "elsewhere")  # removed, and not written through
        with writer.transaction() as transaction:
            transaction.runs.add(keys[::2], ids[::2])
        for below in (10**6 + 1, 10**7):  # the second time in place of the first run
            with writer.transaction() as transaction:
                transaction.runs.add(keys[1::2] ^ 1, ids[1::2] + 10**7)
                blocks = [
                    (keys[i : i + 9_000], ids[i : i + 9_000]) for i in range(0, 100_000, 9_000)
                ]
                transaction.runs.replace(blocks, below=below)
            with writer.transaction() as transaction:
                assert all_postings(transaction.runs) == list(
                    zip(keys.tolist(), ids.tolist(), strict=True)
                )
                assert list(transaction.session.structure()) == []
                transaction.runs.add(keys[1::2] ^ 1, ids[1::2] + 10**7)
        assert not (tmp_path / "elsewhere").exists()
        assert files == ([] if outside else [True, True])
        assert outside or not os.path.lexists(staging)


@pytest.mark.sqlite("rows are staged in a file of SQLite")
def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        left = Path(index.path, "postings.next.db")
        left.write_bytes(b"half")
        index.add([("a", "one two three four five six")])
        assert not left.exists()
