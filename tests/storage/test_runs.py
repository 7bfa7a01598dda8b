"""Posting runs: nothing is lost or doubled by loading, sealing and merging, and they stay few."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index
from lshdb.storage.dialects.sqlite.sqlite_session import SqliteRunTables
from lshdb.storage.orders.frozen import OrderFolder
from lshdb.storage.runs import posting_runs as runs_module
from lshdb.storage.runs.posting_runs import FAN_IN, PostingRuns, level_of
from lshdb.storage.store import Frozen
from lshdb.storage.transactions.writer import Writer
from tests.sizes import set_sizes

BESIDE = "lshdb.storage.transactions.writer.RUNS_BESIDE_ORDERS"


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A writer that merges runs as where there are no orders."""
    monkeypatch.setattr(BESIDE, -1)
    index = Index.create(tmp_path / "x.lshdb")
    with Writer(index._store, lock_timeout=1.0) as writer:
        yield writer
    index.close()


def all_postings(runs: PostingRuns) -> list[tuple[int, int]]:
    tables = [run.table_name for run in runs.runs()]
    return sorted(
        tuple(row)
        for table in tables
        for row in runs._execute(f"SELECT bucket_key, signature_id FROM {table}")
    )


def counted_sizes(runs: PostingRuns, table: str) -> list[tuple[int, int, int]]:
    """(band, size, buckets) of a run, counted from its rows."""
    return sorted(
        tuple(row)
        for row in runs._execute(
            "SELECT band, size, count(*) FROM (SELECT bucket_key >> 32 AS band, "
            f"count(*) AS size FROM {table} GROUP BY bucket_key) WHERE band <> 255 "
            "GROUP BY band, size"
        )
    )


def stored_sizes(runs: PostingRuns, run_id: int) -> list[tuple[int, int, int]]:
    return sorted(
        tuple(row)
        for row in runs._execute(
            "SELECT band, size, n_buckets FROM bucket_stat WHERE run_id = ?", (run_id,)
        )
    )


def test_levels_grow_by_the_fan_in() -> None:
    base = runs_module.LEVEL_ROWS
    assert [level_of(n) for n in (0, base, 4 * base - 1, 4 * base, 16 * base - 1, 16 * base)] == [
        0, 0, 0, 1, 1, 2,
    ]  # fmt: skip


def test_random_loads_lose_and_double_nothing(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_module, "RUN_ROWS", 300)
    monkeypatch.setattr(runs_module, "SEAL_ROWS", 500)
    monkeypatch.setattr(runs_module, "LEVEL_ROWS", 100)
    rng, state = np.random.default_rng(1), random.Random(1)
    expected: set[tuple[int, int]] = set()
    most_runs = 0
    for step in range(120):
        n = state.choice([1, 7, 50, 299, 300, 1000])
        keys = rng.integers(0, 256 << 32, n) if step % 2 else rng.integers(0, 18, n)
        ids = np.arange(n, dtype=np.int64) + 10_000 * step
        expected.update(zip(keys.tolist(), ids.tolist(), strict=True))
        with writer.transaction() as transaction:
            transaction.runs.add(keys, ids)
            for run in transaction.runs.runs():
                counted = counted_sizes(transaction.runs, run.table_name)
                assert stored_sizes(transaction.runs, run.run_id) == counted
        if step % 3 == 2:
            writer.tidy()
            with writer.transaction() as transaction:
                runs = transaction.runs.runs()
            levels = [run.level for run in runs if not run.is_active]
            assert max((levels.count(level) for level in levels), default=0) < FAN_IN
            assert sum(run.is_active for run in runs) <= 1
            most_runs = max(most_runs, len(runs))
    with writer.transaction() as transaction:
        assert all_postings(transaction.runs) == sorted(expected)
        for run in transaction.runs.runs():
            (count,) = transaction.execute(f"SELECT count(*) FROM {run.table_name}").fetchone()
            assert count == run.n_rows
    assert most_runs <= 1 + (FAN_IN - 1) * 5


@pytest.mark.parametrize("kinds", [1, 3, 50, 10**6])
def test_buckets_are_counted_by_size(kinds: int) -> None:
    rng = np.random.default_rng(kinds)
    buckets = rng.integers(0, kinds, 3000)
    bands = rng.choice([0, 1, 127, 128, 254, 255], 3000)
    keys = np.sort(bands << 32 | buckets)
    of_keys = Counter(keys.tolist())
    expected = Counter((key >> 32, size) for key, size in of_keys.items() if key >> 32 != 255)
    assert runs_module._sizes(keys) == dict(expected)


def test_merging_many_runs_at_once(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "RUN_ROWS", 1)
    rng = np.random.default_rng(2)
    expected = []
    for step in range(40):
        keys, ids = rng.integers(0, 50, 20), np.arange(20) + 20 * step
        expected += list(zip(keys.tolist(), ids.tolist(), strict=True))
        with writer.transaction() as transaction:
            transaction.runs.add(keys, ids)
    writer.tidy()
    with writer.transaction() as transaction:
        (run,) = transaction.runs.runs()
        rows = transaction.execute(
            f"SELECT bucket_key, signature_id FROM {run.table_name} ORDER BY 1, 2"
        ).fetchall()
        assert [tuple(row) for row in rows] == sorted(expected)
        assert run.n_rows == 800


def test_the_view_shows_every_posting_of_a_band_and_no_content_posting(writer: Writer) -> None:
    keys = np.array([5, 200 << 32, (254 << 32) + 7, 255 << 32, (256 << 32) - 1], dtype=np.int64)
    with writer.transaction() as transaction:
        transaction.runs.add(keys, np.arange(5))
        rows = transaction.execute("SELECT band, bucket, bucket_key, signature_id FROM posting")
        assert sorted(map(tuple, rows)) == [
            (0, 5, 5, 0),
            (200, 0, 200 << 32, 1),
            (254, 7, (254 << 32) + 7, 2),
        ]


def test_a_failed_merge_leaves_the_runs_as_they_were(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_module, "RUN_ROWS", 1)
    for step in range(FAN_IN):
        with writer.transaction() as transaction:
            transaction.runs.add(np.array([step]), np.array([step]))
    with writer.transaction() as transaction:
        before = (transaction.runs.runs(), all_postings(transaction.runs))

    def fail(*_arguments: object) -> str:
        raise MemoryError

    monkeypatch.setattr(type(transaction.session.run_tables), "publish", fail)
    with pytest.raises(MemoryError):
        writer.tidy()
    with writer.transaction() as transaction:
        assert (transaction.runs.runs(), all_postings(transaction.runs)) == before


@pytest.mark.sqlite("Postgres merges all at once")
@pytest.mark.parametrize(("beside", "merges"), [(24, [16, 16]), (0, [16, 16, 10]), (40, [])])
def test_many_runs_are_merged_sixteen_at_a_time(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, beside: int, merges: list[int]
) -> None:
    monkeypatch.setattr(runs_module, "RUN_ROWS", 1)
    merge, merged = runs_module.PostingRuns.merge, list[int]()

    def noted(runs: runs_module.PostingRuns, sources: list[runs_module.Run]) -> runs_module.Run:
        merged.append(len(sources))
        return merge(runs, sources)

    monkeypatch.setattr(runs_module.PostingRuns, "merge", noted)
    for step in range(40):
        with writer.transaction() as transaction:
            transaction.runs.add(np.arange(3) + step, np.full(3, step))
    with writer.transaction() as transaction:
        expected = all_postings(transaction.runs)
    monkeypatch.setattr(BESIDE, beside)
    monkeypatch.setattr(type(writer._store), "freeze", lambda *_, **__: Frozen(None, True))
    writer.tidy()
    with writer.transaction() as transaction:
        assert all_postings(transaction.runs) == expected
        assert len(transaction.runs.runs()) == 40 - sum(merges) + len(merges)
    assert merged == merges


@pytest.mark.sqlite("Postgres keeps to the old rule")
@pytest.mark.parametrize("why", ["", "no kernel's order", "no room", "elsewhere"])
def test_runs_beside_orders_are_merged_once_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(runs_module, "RUN_ROWS", 1)
    monkeypatch.setattr(BESIDE, 6)
    if why == "no room":

        def fail(*_given: object, **_named: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("lshdb.storage.store.freeze_rows", fail)
    database = f"sqlite:///{tmp_path / 'elsewhere.db'}" if why == "elsewhere" else None
    index = Index.create(tmp_path / "x.lshdb", database=database)
    if why == "no kernel's order":
        index._store.orders = None
    runs = []
    for number in range(9):
        index.add([(f"k{number}", f"a text of a few words with the number {number}")])
        runs.append(index.stats().runs)
        assert index.check() == []
    index.close()
    if why:
        assert runs == [1, 2, 3, 1, 2, 3, 1, 2, 3]
    else:
        assert runs == [1, 2, 3, 4, 5, 6, 1, 2, 3]


Block = tuple[np.ndarray, np.ndarray]  # type: ignore[type-arg]


@pytest.mark.parametrize("seed", range(6))
def test_buckets_are_counted_whole_wherever_blocks_end(writer: Writer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.integers(0, 43, 400) << 30)
    ids = np.arange(len(keys))
    ends = np.sort(rng.choice(len(keys), rng.integers(0, 60), replace=True))
    blocks = zip(np.split(keys, ends), np.split(ids, ends), strict=True)
    with writer.transaction() as transaction:
        assert transaction.runs.load(blocks, below=len(keys)).n_rows == len(keys)
        (run,) = transaction.runs.runs()
        assert run.n_rows == len(keys)
        expected = list(zip(keys.tolist(), ids.tolist(), strict=True))
        assert all_postings(transaction.runs) == expected
        counted = counted_sizes(transaction.runs, run.table_name)
        assert stored_sizes(transaction.runs, run.run_id) == counted


@pytest.mark.parametrize("ids", [[[0, 1], [2, 3]], [[1, 0], [3, 2]]])
def test_postings_are_sorted_within_a_bucket(writer: Writer, ids: list[list[int]]) -> None:
    blocks = [(np.array([7, 7]), np.array(some)) for some in ids]
    with writer.transaction() as transaction:
        transaction.runs.load(blocks, below=4)
        assert all_postings(transaction.runs) == [(7, 0), (7, 1), (7, 2), (7, 3)]


@pytest.mark.parametrize(
    ("keys", "ids"),
    [([[1, 5], [3, 4]], [[0, 1], [2, 3]]), ([[1, 1], [3, 4]], [[2, 2], [2, 3]])],
    ids=["not in order", "twice"],
)
def test_postings_that_no_run_can_have_are_refused(
    writer: Writer, keys: list[list[int]], ids: list[list[int]]
) -> None:
    blocks = [(np.array(some), np.array(of)) for some, of in zip(keys, ids, strict=True)]
    with pytest.raises(ValueError), writer.transaction() as transaction:
        transaction.runs.load(blocks, below=4)
    with writer.transaction() as transaction:
        assert transaction.runs.runs() == []


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch of an add makes a run of its own, and more than three are too many."""
    monkeypatch.setattr(runs_module, "RUN_ROWS", 100)
    monkeypatch.setattr(runs_module, "LEVEL_ROWS", 50)
    monkeypatch.setattr(BESIDE, 3)
    set_sizes(monkeypatch, batch_documents=20, commit_postings=0)
    monkeypatch.setattr("lshdb.storage.orders.freezing.MOST_SORTED", 5)


def merged_by_sql(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of runs that SQL merges from now on."""
    merged: list[int] = []
    merge = PostingRuns.merge

    def counted(self: PostingRuns, sources: list[runs_module.Run]) -> runs_module.Run:
        merged.append(len(sources))
        return merge(self, sources)

    monkeypatch.setattr(PostingRuns, "merge", counted)
    return merged


def assert_counted(index: Index) -> None:
    """The runs have what the signature rows say, and buckets are counted as they are."""
    assert index.check() == []
    with Writer(index._store, lock_timeout=1.0) as writer, writer.transaction() as transaction:
        runs = transaction.runs
        for run in runs.runs():
            assert stored_sizes(runs, run.run_id) == counted_sizes(runs, run.table_name)


@pytest.mark.sqlite("Postgres keeps to the old rule")
@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("most", [10**8, 1_500])
def test_the_runs_of_an_add_are_copied_from_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("lshdb.storage.transactions.writer._MOST_COPIED", most)
    merged = merged_by_sql(monkeypatch)
    documents = [(f"k{i}", f"document {i // 2} of words {i // 3} and of {i}") for i in range(230)]
    with Index.create(tmp_path / "x", k=2) as index:
        index.add(documents[:30])
        assert index.stats().runs == 2
        index.add(documents[30:])
        assert not merged
        # Ten batches of 340 postings: all together, or four, four, and two that are left alone.
        assert index.stats().runs == 2 + (1 if most == 10**8 else 4)
        assert_counted(index)
        index.add([(f"more {i}", f"other words {i} of a later add {i % 5}") for i in range(90)])
        assert index.check() == []


@pytest.mark.sqlite("Postgres keeps to the old rule")
@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize(("beside", "left"), [(8, [20] + [100] * 6), (3, [620])])
def test_runs_are_merged_on_the_way_where_their_orders_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: int, left: list[int]
) -> None:
    """The runs of five batches become one if there are more than may stay; none is copied twice
    unless too many are left at the end."""
    monkeypatch.setattr("lshdb.storage.orders.freezing.MOST_PARTS", 4)
    monkeypatch.setattr(BESIDE, beside)
    merged = merged_by_sql(monkeypatch)
    counts: list[int] = []

    def look(_: object) -> None:
        with Index.open(tmp_path / "x") as reader:
            counts.append(reader.stats().runs)
            assert reader.check() == []

    def documents() -> Iterator[tuple[str, str]]:
        for i in range(620):
            yield f"k{i}", f"document {i // 2} of words {i // 3} and of {i}"

    with Index.create(tmp_path / "x", k=2) as index:
        index.add(documents(), on_commit=look)
        assert not merged
        first = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 7] if beside == 8 else [1, 2, 3, 4, 5, 2]
        assert counts[: len(first)] == first
        assert max(counts) == (13 if beside == 8 else 10)
        with index._store.reading() as snapshot:
            runs = PostingRuns(snapshot.session).runs()
        n_rows = sum(run.n_rows for run in runs)
        assert sorted(run.n_rows * 620 // n_rows for run in runs) == left
        assert_counted(index)


@pytest.mark.sqlite("Postgres keeps to the old rule")
@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("fault", ["fewer", "ends", "unreadable", "damaged", "backwards", "twice"])
def test_runs_are_merged_by_sql_where_an_order_does_not_give_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    merged = merged_by_sql(monkeypatch)
    postings = OrderFolder.postings
    asked: list[str] = []

    def faulty(self: OrderFolder, *given: Any) -> Iterator[Block] | None:
        asked.append(fault)
        if fault == "unreadable":
            raise OSError("of the disk")
        if fault == "damaged":
            (file,) = self.files(given[0])
            with file.path.open("r+b") as opened:
                opened.seek(2_000)
                byte = opened.read(1)
                opened.seek(2_000)
                opened.write(bytes([byte[0] ^ 1]))
        blocks = postings(self, *given)
        return blocks and _broken(blocks)

    def _broken(blocks: Iterator[Block]) -> Iterator[Block]:
        for number, (keys, ids) in enumerate(
            list(blocks)[::-1] if fault == "backwards" else blocks
        ):
            if fault == "ends" and number == 3:
                raise ValueError("the file ends too early")
            if fault == "twice":
                keys, ids = keys.repeat(2), ids.repeat(2)
            yield keys[number == 2 :], ids[number == 2 :]

    monkeypatch.setattr(OrderFolder, "postings", faulty)
    words = "has a good many words of which most are the same and number"
    documents = [(f"k{i}", f"document {i // 2} {words} {i // 2} of {i % 2}") for i in range(200)]
    with Index.create(tmp_path / "x", k=2) as index:
        index.add(documents)
        assert asked == [fault]
        assert merged
        if fault != "damaged":
            assert_counted(index)
        pairs = {(pair.key1, pair.key2) for pair in index.pairs()}
    monkeypatch.undo()
    with Index.create(tmp_path / "plain", k=2) as plain:
        plain.add(documents)
        assert pairs == {(pair.key1, pair.key2) for pair in plain.pairs()} != set()


@pytest.mark.sqlite("Postgres stores nothing else in a column of numbers")
@pytest.mark.parametrize("value", ["'text'", "1.5", "'7'"])
def test_what_is_no_whole_number_is_no_posting(tmp_path: Path, value: str) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add([("a", "one two three four five six")])
    with sqlite3.connect(tmp_path / "x.lshdb" / "index.db") as database:
        database.execute(f"UPDATE posting_run_1 SET signature_id = {value} WHERE bucket_key > 0")
    database.close()
    with Index.open(tmp_path / "x.lshdb") as index:
        found = [one.what for one in index.check() if one.kind == "posting"]
    assert any("holds values that are no whole numbers" in one for one in found) is (value != "'7'")


@pytest.mark.sqlite("Postgres stores nothing else in a column of numbers")
@pytest.mark.parametrize(("value", "said"), [("'text'", "no whole numbers"), ("x'00'", "BLOB")])
@pytest.mark.parametrize("key_bytes", [0, 2**26])
def test_a_key_that_is_above_all_numbers_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str, key_bytes: int
) -> None:
    """Also where the bands are compared one by one: it is in the range of none."""
    monkeypatch.setattr("lshdb.maintain.check.signature_checks._KEY_BYTES", key_bytes)
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add([("a", "one two three four five six")])
    with sqlite3.connect(tmp_path / "x.lshdb" / "index.db") as database:
        last = "(SELECT max(bucket_key) FROM posting_run_1)"
        database.execute(f"UPDATE posting_run_1 SET bucket_key = {value} WHERE bucket_key = {last}")
    database.close()
    with Index.open(tmp_path / "x.lshdb") as index:
        found = [one.what for one in index.check() if one.kind == "posting"]
    assert any(said in one for one in found), found


def test_a_table_that_is_in_no_order_is_not_read_for_ever() -> None:
    class Rows:
        def fetchone(self) -> tuple[str, str]:
            return "[3, 4]", "[0, 0]"

    class Session:
        def execute(self, sql: str, parameters: object) -> Rows:
            return Rows()

    blocks = SqliteRunTables(Session()).between("posting_run_1", 0, 9, block=2)  # type: ignore[arg-type]
    assert next(blocks).tolist() == [[3, 0], [4, 0]]
    with pytest.raises(ValueError, match="posting_run_1 is not in order"):
        list(itertools.islice(blocks, 2))
